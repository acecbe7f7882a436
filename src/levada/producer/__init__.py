"""The core of a producer: records become batches, batches become requests, and responses settle deliveries.

ProducerCore in `core` connects all parts. `append/` chooses the partition of a record, charges memory, and adds the record to a batch.
`send/` sends batches, with sequence numbers, and handles errors. `delivery/` has the results for the program. `transactions/` decides when
the records of a transaction may be sent. Arguments are checked in `levada.api.producing`.
"""
