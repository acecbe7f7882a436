"""What the blocking and the asyncio API share. Arguments become records, requests and flows here; sync/ and aio/ run the flows.

A client has a file or a room: `producing` and `transacting`, `consumer/`, `share_consumer`, `admin/`, `client`, `scan`. `engines` builds a
client's engine from its configuration, and is where to begin. `measured` and the `..._readings` are tables of metrics. What decides about
records and offsets is below, in `levada.producer` and `levada.consumer`.
"""
