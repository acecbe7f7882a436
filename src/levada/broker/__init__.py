"""A Kafka broker inside the process, for tests, demonstrations and development. Any Kafka client can use it.

`node.node.BrokerNode` is the broker, without sockets, threads or a clock: requests go in as frames, responses come out as frames, and the
time is an argument. `network.server.BrokerServer` serves a node on TCP ports. A cluster's state is in memory, or also in files with a data
directory (`disk`). The broker serves the APIs of `apis.SERVED`, with the behaviour of Kafka 4.4.
"""
