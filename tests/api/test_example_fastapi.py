"""examples/fastapi_app.py, under the real uvicorn: what was acknowledged is in Kafka, and what has no room is refused."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

import levada as lv
from example_programs import PATIENCE_S, Kafka, Program, own_topics, running
from kafka_cluster import KafkaCluster
from levada.testing import EmbeddedKafka

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")


class Answer(NamedTuple):
    status: int
    body: Any
    retry_after: str | None


class Service:
    """The service in a process of its own."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._url = program.wait_for("Uvicorn running on").split(" on ")[1].split()[0]

    def ask(self, path: str, order: dict[str, str] | None = None) -> Answer:
        body = None if order is None else json.dumps(order).encode()
        request = urllib.request.Request(self._url + path, data=body, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return Answer(response.status, json.load(response), None)
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, json.load(error), error.headers["Retry-After"])

    def order(self, item: str) -> Answer:
        return self.ask("/orders", {"customer": "ann", "item": item})

    def end(self, number: int | None = signal.SIGTERM) -> None:
        """End the service in order. uvicorn raises the signal again when all is done."""
        assert self.program.end(number) in (0, -signal.SIGTERM), self.program.output
        assert "Application shutdown complete" in self.program.output


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=1) as kafka:
        yield kafka


@contextmanager
def service(kafka: Kafka) -> Iterator[Service]:
    with running("fastapi_app", "--kafka", kafka.bootstrap_servers, "--port", "0") as program:
        yield Service(program)


def items(kafka: Kafka) -> list[str]:
    records = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_deserializer=json.loads, on_decode_error="skip")
    return [record.value["item"] for record in records if record.value]


@pytest.mark.kafka
@pytest.mark.matrix
def test_on_a_real_kafka(kafka44: KafkaCluster) -> None:
    with own_topics(kafka44) as kafka, service(kafka) as web:
        assert [web.order(item).body for item in ("pear", "plum")] == [{"partition": 0, "offset": 0}, {"partition": 0, "offset": 1}]
        until(lambda: [order["item"] for order in web.ask("/orders").body] == ["pear", "plum"])
        assert web.ask("/health").status == 200
        web.end()
        assert items(kafka) == ["pear", "plum"]


def test_an_order_is_in_kafka_when_the_service_answers_and_the_end_waits_for_those_under_way(kafka: EmbeddedKafka) -> None:
    with service(kafka) as web, ThreadPoolExecutor(1) as threads:
        assert web.order("pear") == (201, {"partition": 0, "offset": 0}, None)
        assert items(kafka) == ["pear"]
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send("orders", b"no order").result(PATIENCE_S)
        assert web.order("plum").body == {"partition": 0, "offset": 2}
        until(lambda: [order["item"] for order in web.ask("/orders").body] == ["pear", "plum"])
        assert web.ask("/health").status == 200

        held = kafka.faults.hold("Produce")
        late = threads.submit(web.order, "fig")
        until(lambda: held.waiting > 0)
        web.program.process.send_signal(signal.SIGTERM)
        web.program.wait_for("Shutting down")
        held.release()
        assert late.result(PATIENCE_S).status == 201
        web.end(None)
    assert items(kafka)[-1] == "fig"


def test_orders_without_room_are_refused_and_those_with_room_are_kept(kafka: EmbeddedKafka) -> None:
    at_once, size = 24, 600_000  # More than buffer.memory.
    with service(kafka) as web, ThreadPoolExecutor(at_once) as threads:
        web.order("first")
        held = kafka.faults.hold("Produce", times=1_000)
        asked = {threads.submit(web.order, f"{number}-".ljust(size, "x")): number for number in range(at_once)}
        until(lambda: any(answer.done() for answer in asked))
        held.release()
        answers = {number: answer.result(PATIENCE_S) for answer, number in asked.items()}
        refused = {number for number, answer in answers.items() if answer.status == 503}
        assert 0 < len(refused) < at_once
        assert {answers[number].retry_after for number in refused} == {"1"}
        assert web.order("again").status == 201
        web.end()
    kept = sorted(int(item.split("-")[0]) for item in items(kafka)[1:-1])
    assert kept == sorted(answers.keys() - refused)


def test_health_tells_when_no_broker_is_there(kafka: EmbeddedKafka) -> None:
    with service(kafka) as web:
        until(lambda: web.ask("/health").status == 200)
        kafka.stop_node(1)
        until(lambda: web.ask("/health") == (503, {"connections": 0, "error": None}, None))
        kafka.start_node(1)
        until(lambda: web.ask("/health").status == 200)
        assert web.order("pear").status == 201
        web.end()


def test_the_latest_orders_are_there_after_a_start_and_a_reader_that_fails_does_not_disturb_the_end(kafka: EmbeddedKafka) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many("orders", [json.dumps({"customer": "ann", "item": f"{number}"}) for number in range(300)])
    with service(kafka) as web:
        until(lambda: len(web.ask("/orders").body) == 100)
        assert [order["offset"] for order in web.ask("/orders").body] == list(range(200, 300))
        kafka.faults.fail_next("Fetch", "TOPIC_AUTHORIZATION_FAILED", topic="orders")
        until(lambda: "TopicAuthorizationError" in str(web.ask("/health").body["error"]))
        assert web.order("pear").status == 201
        web.end()
