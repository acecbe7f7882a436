"""examples/celery_worker.py, under the real Celery: each task writes its bill, and a retry is told by the id of the task."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import example_programs
import levada as lv
from example_programs import running
from levada.testing import EmbeddedKafka

pytest.importorskip("celery", reason="Celery is not installed")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=1) as kafka:
        kafka.create_topic("bills")
        yield kafka


def bills(kafka: EmbeddedKafka) -> list[tuple[bytes | None, bytes]]:
    """Customer and task of each."""
    return [(bill.key, dict(bill.headers)["task"] or b"") for bill in lv.scan("bills", bootstrap_servers=kafka.bootstrap_servers)]


where = pytest.fixture(example_programs.where)


def test_each_task_writes_its_bill(where: list[str]) -> None:
    with running("celery_worker", *where) as program:
        assert program.end() == 0, program.output
    program.wait_for("offsets: [0, 1, 2]")
    written = [line for line in program.lines if line.startswith("b'")]
    assert sorted(line.split()[0] for line in written) == ["b'ann'", "b'bob'", "b'cid'"]


def test_a_retry_is_the_same_task(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    import celery_worker

    celery_worker.producer.close()
    kafka.faults.hold("Produce")  # The bill is written, but its acknowledgement does not come.
    # Once a request has timed out, no time is left for another one.
    settings = {"linger.ms": 0, "request.timeout.ms": 400, "delivery.timeout.ms": 400}
    with lv.KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, **settings}) as producer:
        monkeypatch.setattr(celery_worker, "producer", producer)
        assert celery_worker.bill.apply(("ann", 7)).get() == 1
    first, second = bills(kafka)
    assert first == second, "the same customer and the same task"
