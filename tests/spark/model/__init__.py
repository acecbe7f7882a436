"""A model of the exactly-once sink: every crash, lost answer and late request that a few faults can make, in microseconds each (adr/0061).

- `coordinator`: what Kafka answers, by the rules of both transaction versions, and what readers of committed records see.
- `spark`: what Spark does: batches, its log of commits, replay, abort() and stop().
- `sink`: the protocol. Each rule has a name, and a mutant is the protocol without one of them.
- `world`: one schedule. Drivers take steps, and faults happen to them.
- `exploring`: all schedules with a few faults, and random ones with more.
- `variants`: what is explored, and what must come of it.

`python -m tests.spark.model` explores at length (`make test-sink-model`), and replays one schedule.
"""
