"""The guards of the test suite itself catch what they are there for."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

import leftovers
from api_kit import SimulatedKafka
from leftovers import watched
from levada import aio
from levada.testing import Simulation
from source_tree import Module

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.05)


def test_a_thread_that_outlives_its_test_is_reported() -> None:
    finish = threading.Event()
    thread = threading.Thread(target=finish.wait, name="left-behind")
    with pytest.raises(pytest.fail.Exception, match="thread 'left-behind'"), watched():
        thread.start()
    finish.set()
    thread.join()


def test_a_socket_that_outlives_its_test_is_reported() -> None:
    with socket.socket() as kept_by_a_test_before:
        with pytest.raises(pytest.fail.Exception, match="socket:"), watched():
            left = socket.socket()
        left.close()
        with watched():
            assert kept_by_a_test_before.fileno() >= 0


def test_memory_that_a_closed_producer_has_not_given_back_is_reported() -> None:
    with Simulation(seed=1) as simulation:
        SimulatedKafka(simulation)
        with pytest.raises(pytest.fail.Exception, match=r"outlived the test: 5 bytes of buffer\.memory"), watched():
            producer = simulation.producer(bootstrap_servers=SimulatedKafka.bootstrap_servers)
            producer._core.pool.overdraw(5)
            producer.close()
        producer._core.pool.release(5)


def test_a_task_that_outlives_the_program_is_reported() -> None:
    async def main() -> None:
        waiting.append(asyncio.create_task(aio.AckBuffer(1).get(), name="left-behind"))

    waiting: list[asyncio.Task[Any]] = []
    with pytest.raises(pytest.fail.Exception, match=r"task 'left-behind' of AckBuffer\.get"), watched():
        asyncio.run(main())


def test_imports_are_seen_where_they_hide(tmp_path: Any) -> None:
    path = tmp_path / "example.py"
    path.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    import c.d\n")
    seen = {found.module: (found.lazy, found.typing) for found in Module(path).imports}
    assert seen == {"typing": (False, False), "a": (False, True), "b": (False, False), "c.d": (True, False)}
