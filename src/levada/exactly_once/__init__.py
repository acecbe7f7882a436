"""The data that a sink keeps in Kafka to write batches exactly once: its ledger, and the slots of a batch (adr/0061).

The ledger is the committed offset of a consumer group. It is committed in the transaction that decides a batch. A slot is a transaction
that a task has written, and that is committed after the decision. Spark's sink (`levada.spark`) decides by the ledger. The command line
shows ledger and slots, and ends transactions that a crashed driver left open. Nothing here needs Spark.

`batch`: names of batches and slots, and the digest of rows. `ledger`: reads the ledger and decides by it; pure functions. `slots`: the
requests to the brokers.
"""
