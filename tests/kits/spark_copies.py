"""A query from topic to topic that is started again whenever it has failed, and what has become of its rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException

import levada as lv
import spark_strikes
import spark_verdict
from spark_verdict import Verdict

ROWS = 7
"""How many rows a strike meets."""
SOURCE_PARTITIONS, TARGET_PARTITIONS = 2, 3


class Copy:
    """The query. options: of the sink; with `strikes` it is the one that is struck. limit: maxOffsetsPerTrigger. change: what is done to
    the rows on their way.
    """

    def __init__(self, spark: Any, kafka: Any, source: str, target: str, checkpoint: Path, **options: Any) -> None:
        self._spark = spark
        self._servers: str = kafka.bootstrap_servers
        self._source = source
        self._query: Any = None
        self._failed_in_a_row = 0
        self.target = target
        self.checkpoint = checkpoint
        self.options = options
        self.limit: int | None = None
        self.change: Callable[[Any], Any] = lambda rows: rows
        self.produced = 0
        self.failures: list[str] = []

    def produce(self, count: int = ROWS) -> None:
        """Give it some more rows."""
        numbers = range(self.produced, self.produced + count)
        values = pa.array(numbers).cast(pa.string()).cast(pa.binary())
        partitions = pa.array([number % SOURCE_PARTITIONS for number in numbers], pa.int32())
        with lv.KafkaProducer(bootstrap_servers=self._servers) as producer:
            rows = pa.table({"value": values, "partition": partitions})
            producer.send_arrow(self._source, rows, value="value", partition="partition").result()
        self.produced += count

    def run(self) -> None:
        """Process what is there, however often it takes."""
        while not self.run_once():
            assert self._failed_in_a_row < 9, self.failures[-1]

    def run_once(self) -> bool:
        """Process what is there; return whether that went well."""
        if self._query is None or not self._query.isActive:
            self._query = self._start()
        try:
            self._query.processAllAvailable()
        except StreamingQueryException as failure:
            self.failures.append(str(failure))
            self._failed_in_a_row += 1
            return False
        self._failed_in_a_row = 0
        return True

    def _start(self) -> Any:
        servers = {"kafka.bootstrap.servers": self._servers}
        limit = {} if self.limit is None else {"maxOffsetsPerTrigger": self.limit}
        source = self._spark.readStream.format("levada").options(**servers, subscribe=self._source, startingOffsets="earliest", **limit)
        rows = self.change(source.load().select("value"))
        writer = rows.writeStream.options(**servers, topic=self.target, checkpointLocation=str(self.checkpoint))
        return writer.format(spark_strikes.NAME if "strikes" in self.options else "levada").options(**self.options).start()

    def stop(self) -> None:
        """Stop it; the next run() starts it again."""
        if self._query is not None:
            self._query.stop()

    def run_into(self, folder: Path, strike: str) -> None:
        """Process some more records, and be struck on the way."""
        self.produce()
        if strike.startswith(spark_strikes.IN_FIRST_COMMIT):
            self.stop()
        (folder / strike).touch()
        self.run()
        assert not (folder / strike).exists(), f"nothing came to {strike}"

    @property
    def ledger(self) -> str:
        """The transactional id of its sink, and the group that is its ledger."""
        return f"levada-{spark_verdict.query_id(self.checkpoint)}"

    def verdict(self) -> Verdict:
        """Look at what it has written."""
        return spark_verdict.verdict(self._servers, self.target, self.produced, [self.ledger])
