"""What the blocking and the asyncio API share. Arguments become records, requests and flows here; sync/ and aio/ run the flows.

A client has a file or a folder: `producing` and `transacting`, `consumer/`, `share_consumer`, `admin/`, `client`, `scan`. `engine_setup`
builds a client's engine from its configuration, and is where to begin. `metric_tables` and the `..._readings` are tables of metrics.
Decisions about records and offsets are made below, in `levada.producer` and `levada.consumer`.
"""
