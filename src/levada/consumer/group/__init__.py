"""A consumer as a member of a group: which partitions are assigned to it, and until when.

`membership` is the interface for the rest of a consumer, the same for both protocols. Classic groups: `classic_states`, `classic`,
`joining`, `leading`, `assignors/`, and `classic_rebalance`, which runs in the program's thread. Consumer groups (KIP-848):
`consumer_states`, `consumer_member`, `consumer_heartbeat`, and `reconciliation`, which runs in the program's thread. Heartbeats and joins
run in the engine, whatever the program does meanwhile.
"""
