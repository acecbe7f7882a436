"""What a sink that writes batches exactly once keeps in Kafka: its ledger, and the slots of a batch (adr/0061).

The ledger is the offset of a consumer group, committed in the transaction that decides a batch; a slot is a transaction that was written
elsewhere, and that is committed after the decision. Spark's sink (`levada.spark`) decides by them; the command line shows them, and ends
what a dead driver left. Nothing here needs Spark.

`batch`: what a batch, its rows and its slots are called. `ledger`: what the ledger says, and what follows from it; pure. `slots`: what is
asked of the brokers about both.
"""
