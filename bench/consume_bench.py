"""The common part of the sections about consuming: topics of every kind, and each client's settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from consume_meter import PARTITIONS, Job
from engine_bench import Bench
from engine_process import Worker

RECORDS = {100: 2_500_000, 1024: 400_000}
# Fewer records would be one call.
LEAST_RECORDS = 50_000
SMALL_BATCH, LARGE_BATCH = 16_384, 500_000
BATCHES = {SMALL_BATCH: "batches of 16 KiB", LARGE_BATCH: "batches of 500 KB"}

# levada has its defaults. The others have the settings that made them faster. All clients verify checksums.
SETTINGS: dict[str, dict[str, Any]] = {
    "levada": {},
    "confluent": {"check.crcs": True, "queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 2},
    # Larger fetches made this client slower.
    "aiokafka": {},
    "kafka-python": {"max_partition_fetch_bytes": 4 << 20, "receive_buffer_bytes": 1 << 20},
    "java": {"max.poll.records": 10_000, "max.partition.fetch.bytes": 8 << 20, "receive.buffer.bytes": 1 << 20},
    "kcat": {"check.crcs": True, "queued.min.messages": 1_000_000},
    "bare": {},
}


class ConsumeBench(Bench):
    """A bench with topics to read."""

    @contextmanager
    def filled(self, size: int, codec: str = "none", batch_bytes: int = LARGE_BATCH) -> Iterator[str]:
        """Yield a topic with values of `size` bytes.

        It is in the page cache: it was just written, and is read once before the first measurement.
        """
        records = self.scaled(RECORDS[size])
        with self.topic(PARTITIONS) as topic:
            what = {"kind": size, "records": records, "partitions": PARTITIONS, "codec": codec, "batch_bytes": batch_bytes}
            Worker("fill:topic", self.job(topic, **what)).result()
            Worker("consume_bare:receive", asdict(Job(self.bootstrap_servers, topic, records))).result()
            yield topic

    def reading(self, topic: str, size: int, client: str, form: str = "", *, share: float = 1, **settings: Any) -> Job:
        """Return the job of a client's worker. share: the part of the topic that it reads. settings: in addition to those in SETTINGS."""
        records = max(int(self.scaled(RECORDS[size]) * share), LEAST_RECORDS)
        return Job(self.bootstrap_servers, topic, records, form, SETTINGS[client] | settings)
