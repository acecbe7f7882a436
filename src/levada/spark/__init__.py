"""PySpark reads and writes Kafka through levada: `format("levada")`, batch and streaming, with no JVM jar.

```python
spark.readStream.format("levada").option("kafka.bootstrap.servers", "host:9092").option("subscribe", "orders").load()
frame.writeStream.format("levada").option("kafka.bootstrap.servers", "host:9092").option("topic", "totals").start()
```

`read_kafka` and `write_kafka` are the same with typed options.

Rows, schema and options are those of Spark's own Kafka connector. The format registers itself through the module `pyspark_levada`.
A micro-batch that Spark replays reads the same records again. The sink is **at least once** by default: a task that Spark retries, and a
micro-batch that Spark replays after a crash, write their records again. With `delivery=exactly-once` readers of committed records see each
row once (`sink.exactly_once`).

Spark limits Python sources and sinks. The save mode must be given as `.mode("append")`. The output modes are append and complete; for
update, write from foreachBatch. Under Trigger.Continuous nothing is ever committed; the driver's log says why.

Modules: `options` names and reads the options. `schema` defines the columns. `source.cluster` sends the driver's requests to Kafka,
and `source.range_reader` reads the records of a task. `source.batch`, `source.stream` and `sink.writing` implement Spark's interfaces.
`sink.spread` chooses partitions. `task` is what tasks begin with, and `clients` keeps connections between them. `helpers` and
`lag_listener` are for programs.

Importing this package gives a warning if Spark will start a different Python than the program's. The import fails if PySpark is older than
4.0.1 (`installation`). `pyspark_versions` handles the differences between later versions.

The public names are loaded at first use: Spark's Python processes import this package and need none of these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levada._importing import import_undisturbed
from levada.spark.installation import refuse_older, warn_of_another

if TYPE_CHECKING:
    from levada.spark.helpers import read_kafka, write_kafka
    from levada.spark.lag_listener import LagListener
    from levada.spark.source.lag import Lag, PartitionLag

_HOME = {
    "Lag": "levada.spark.source.lag",
    "LagListener": "levada.spark.lag_listener",
    "PartitionLag": "levada.spark.source.lag",
    "read_kafka": "levada.spark.helpers",
    "write_kafka": "levada.spark.helpers",
}

warn_of_another()
refuse_older()

__all__ = ["Lag", "LagListener", "PartitionLag", "read_kafka", "write_kafka"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'levada.spark' has no attribute {name!r}")
    return getattr(import_undisturbed(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
