"""Log handlers are user code: they run without any lock, and may use the client that logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from levada import KafkaProducer
from levada.client.driver_interface import Deferred
from levada.logs import of_a_client
from levada.testing import EmbeddedKafka

PATIENCE_S = 20


@contextmanager
def handling(handle: Callable[[logging.LogRecord], None], level: int = logging.DEBUG) -> Iterator[None]:
    """Have a function handle what levada's client logs."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            handle(record)

    logger, handler = logging.getLogger("levada.client"), Handler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def test_nothing_is_logged_before_the_driver_works_off_what_is_deferred() -> None:
    deferred = Deferred(of_a_client("c", group_id=None, transactional_id=None))
    lines: list[str] = []
    with handling(lambda record: lines.append(record.getMessage())):
        log = deferred.log("levada.client")
        log.warning("%s: %s", "kafka:9092", "gone")
        log.debug("no more than this")
        assert not lines
        while deferred:
            deferred.popleft()()
    assert lines == ["c: kafka:9092: gone", "c: no more than this"]


def test_an_error_comes_with_its_traceback() -> None:
    deferred = Deferred({})
    records: list[logging.LogRecord] = []
    with handling(records.append):
        deferred.log("levada.client").error("a bug", error=ValueError("here"))
        deferred.popleft()()
    assert records[0].exc_info is not None
    assert records[0].exc_info[0] is ValueError


@pytest.mark.timeout(60)
def test_a_log_handler_may_send_through_the_producer_that_logs() -> None:
    with EmbeddedKafka() as kafka, KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.send("t", b"before").result(PATIENCE_S)
        deliveries: list[Any] = []
        locked = []

        def handle(record: logging.LogRecord) -> None:
            locked.append(producer._driver.lock._is_owned())  # type: ignore[attr-defined]
            if len(deliveries) < 5:
                deliveries.append(producer.send("t", b"from the handler"))

        with handling(handle):
            kafka.faults.disconnect("Produce")
            producer.send("t", b"makes it log").result(PATIENCE_S)
            producer.flush(PATIENCE_S)
            assert deliveries
            for delivery in deliveries:
                assert delivery.result(PATIENCE_S).offset > 0
        assert not any(locked), "a handler ran under the engine's lock"
