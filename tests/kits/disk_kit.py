"""A broker node that keeps its logs in a folder, and goes on there after it was closed or has crashed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker_kit import START_MS, Bench, make_batch
from levada.broker.config.settings import BrokerSettings
from levada.broker.disk.data_dir import DataDir
from levada.broker.log.log import PartitionLog


class Kept(Bench):
    """A Bench with a data_dir."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.data_dir = DataDir(folder, BrokerSettings.of(**settings))
        super().__init__(storage=self.data_dir, **settings)
        self.node.cluster.restore()

    def log(self, topic: str = "t", partition: int = 0) -> PartitionLog:
        return self.node.log(topic, partition)

    def crash(self) -> None:
        """End as kill -9 does: nothing is flushed, sealed or written any more."""
        self.data_dir._lock.close()


@contextmanager
def kept(folder: Path, *, crash: bool = False, **settings: Any) -> Iterator[Kept]:
    """A node in a folder, for the length of a block; at its end it is closed, or crashes."""
    bench = Kept(folder, **settings)
    try:
        yield bench
    finally:
        if crash:
            bench.crash()
        else:
            bench.data_dir.close()


def values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for batch in log.batches() for record in batch.records()]


def write(bench: Bench, *values: bytes | None, topic: str = "t", **kind: Any) -> int:
    """Produce a batch with acks=all; return its offset."""
    answer = bench.client().produce(topic, make_batch(*values, timestamp=START_MS + bench.now_ms, **kind))
    assert answer.error_code == 0
    return answer.base_offset
