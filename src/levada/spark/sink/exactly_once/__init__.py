"""The sink that writes each micro-batch exactly once, whatever dies (adr/0061).

Spark repeats a micro-batch until its own log says that it is committed, with the same query id and batch id, and it calls the sink for one
that Kafka may have had already. So the decision whether a batch is written has to be made in Kafka, together with the rows: one transaction
of the driver carries the rows and the number of the batch, which is committed as the offset of a consumer group. That group is the sink's
ledger. A batch whose number is in the ledger is not written again.

- A task (`sealing`) turns its rows into sealed record batches and returns them in its commit message. What is too large for that it writes
  into a slot, a transaction of its own that it leaves open, and whose handle it returns.
- The driver (`committing`) initializes the transactional id, which fences every other driver and aborts what one left open; reads the
  ledger; decides by it; and writes rows and ledger in one transaction. The commit of that transaction is the decision. Then it commits the
  slots, which the ledger names.
- Nothing else may decide: abort() of a batch that was decided commits its slots.

`settings` are the options. Ledger and slots, which have nothing to do with Spark, are in `levada.exactly_once`.
"""
