"""A broker node that stores its logs in a folder, and restores them from the folder after a close or a crash."""

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
    """A Bench whose node stores its logs in a folder."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.data_dir = DataDir(folder, BrokerSettings.of(**settings))
        super().__init__(storage=self.data_dir, **settings)
        self.node.cluster.restore()

    def log(self, topic: str = "t", partition: int = 0) -> PartitionLog:
        return self.node.log(topic, partition)

    def crash(self) -> None:
        """Release the folder without flushing or writing anything, like kill -9."""
        self.data_dir._lock.close()


@contextmanager
def kept(folder: Path, *, crash: bool = False, **settings: Any) -> Iterator[Kept]:
    """Run a node with this folder. At the end of the block close the node, or let it crash (crash=True)."""
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
