"""Clients kept between tasks are a fast path and nothing more (spark.md 2.2)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import levada
from levada.spark import clients
from levada.spark.clients import MOST
from spark_sink import close_idle


class FakeClient:
    made = 0

    def __init__(self, settings: Any) -> None:
        FakeClient.made += 1
        self.settings = settings
        self.closed = False

    def close(self, timeout: Any = None) -> None:
        self.closed = True


# What they give here is a FakeClient.
reused_consumer: Any = clients.reused_consumer
reused_producer: Any = clients.reused_producer


@pytest.fixture(autouse=True)
def fakes(monkeypatch: Any) -> None:
    FakeClient.made = 0
    monkeypatch.setattr(levada, "KafkaConsumer", FakeClient, raising=False)
    monkeypatch.setattr(levada, "KafkaProducer", FakeClient, raising=False)
    monkeypatch.setattr(clients, "_idle", {})


def test_the_next_task_finds_the_client_open() -> None:
    with reused_consumer({"a": "1"}) as first:
        pass
    with reused_consumer({"a": "1"}) as second:
        assert second is first
        assert not second.closed


def test_Y3_the_tasks_of_a_process_write_with_one_producer_one_after_another() -> None:
    for _ in range(3):
        with reused_producer({"a": "1"}):
            pass
    assert FakeClient.made == 1


def test_settings_and_kinds_are_told_apart() -> None:
    with reused_consumer({"a": "1"}) as one, reused_consumer({"a": "2"}) as other, reused_producer({"a": "1"}) as third:
        assert len({id(one), id(other), id(third)}) == 3


def test_a_client_in_use_is_not_given_to_another_task() -> None:
    with reused_producer({}) as one, reused_producer({}) as other:
        assert one is not other
    assert sum(client.closed for client in (one, other)) == 1


def test_a_client_that_saw_an_error_is_closed() -> None:
    with pytest.raises(ZeroDivisionError), reused_producer({}) as broken:
        raise ZeroDivisionError
    assert broken.closed
    with reused_producer({}) as fresh:
        assert fresh is not broken


def test_a_reader_that_is_not_read_to_its_end_gives_the_client_back() -> None:
    def read() -> Any:
        with reused_consumer({}) as client:
            yield client
            yield client

    reading = read()
    client = next(reading)
    reading.close()
    with reused_consumer({}) as again:
        assert again is client


def test_only_a_few_are_kept() -> None:
    reused = []
    for number in range(MOST + 2):
        with reused_consumer({"n": str(number)}) as client:
            reused.append(client)
    assert [client.closed for client in reused] == [True, True] + [False] * MOST
    close_idle()
    assert all(client.closed for client in reused)


def test_another_process_does_not_find_them(monkeypatch: Any) -> None:
    with reused_consumer({}) as parents:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with reused_consumer({}) as own:
        assert own is not parents


def test_planning_loads_nothing_that_only_tasks_need() -> None:
    unwanted = ("levada.sync", "levada.net", "pyarrow.compute")
    program = f"import pyspark_levada, sys; print([name for name in sys.modules if name.startswith({unwanted})])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"
