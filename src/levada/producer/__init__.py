"""The core of a producer: records become batches, batches become requests, and responses settle deliveries.

`core` has all parts. A record goes through `append/` (partition, memory, batch), `send/` (Sender, sequence numbers, errors) and `delivery/`
(the results for the program). `transactions/` decides which records may be sent when. Arguments are checked in `levada.api.producing`.
"""
