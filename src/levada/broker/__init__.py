"""A Kafka broker inside the process: for tests, demonstrations and development, reachable by any Kafka client.

`node.BrokerNode` is the broker, without sockets, threads or a clock: requests go in as frames, answers come out as frames, and time is an
argument. `server.BrokerServer` puts it on a socket. Everything is kept in memory.

It serves what `apis.SERVED` lists, as Kafka 4.4 answers it. There are no consumer groups and no transactions yet, and nothing survives the
process.
"""
