"""The sink that writes each micro-batch exactly once, even if any process crashes (adr/0061).

Spark repeats a micro-batch, with the same query id and batch id, until its own log says that the batch is committed. So it may call the
sink for a batch that is in Kafka already. Therefore the decision whether a batch is written is made in Kafka, together with the rows: one
transaction of the driver contains the rows and the number of the batch, which is committed as the offset of a consumer group. This group is
the sink's ledger. A batch whose number is in the ledger is not written again.

- A task (`sealing`) turns its rows into sealed record batches and returns them in its commit message. Rows that are too large for the
  message are written into a slot: a transaction of the task, which the task leaves open, and whose handle it returns.
- The driver (`committing`) initializes the transactional id, which fences every other driver and aborts its open transaction. It reads the
  ledger, decides by it, and writes rows and ledger in one transaction. The commit of that transaction is the decision. Then the driver
  commits the slots, which the ledger names. A process that has written the batch before may omit the first two steps.
- Nothing else decides. If a batch was decided, its abort() commits its slots.

`settings` has the options. Ledger and slots do not depend on Spark; they are in `levada.exactly_once`.
"""
