"""One cluster as a client sees it: connections, requests in flight, metadata, and the engine that drives them. Sans-IO.

Begin with `engine`, then `network/network_client`, `metadata/metadata`, and `requests/flow_runner`, which runs what takes several requests.
Sockets are in `levada.net`, threads in the drivers (`levada.sync.driver`, `levada.aio.driver`).
"""
