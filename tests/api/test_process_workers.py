"""consumer.process() with worker processes: what comes back from them, how they end, and pools that break."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import types
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
import process_handlers
from levada.api.consumer import processing
from levada.errors import HandlerError, ProcessingError
from process_kit import committed, reader, run_tasks, write

PATIENCE_S = 60
FORKS = pytest.param(True, id="and has forked", marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork"))


@pytest.fixture
def topic(embedded: Any, new_topic: Callable[..., str]) -> str:
    return new_topic(embedded, partitions=2)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """What handlers in other processes wrote down: process, partition, offset, kind of record."""
    file = tmp_path / "notes"
    file.touch()
    monkeypatch.setenv("LEVADA_TEST_NOTES", str(file))
    return lambda: [line.split() for line in file.read_text().splitlines()]


@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_processes_get_bytes(embedded: Any, topic: str, notes: Callable[[], list[list[str]]], api: str) -> None:
    write(embedded, topic, 20)
    if api == "blocking":
        with reader(embedded, topic) as consumer:
            consumer.process(process_handlers.interrupts_are_ignored, concurrency=2, executor="process", ordering="none")
    else:
        asyncio.run(run_tasks(embedded, topic, process_handlers.note, concurrency=2, executor="process"))
    seen = notes()
    assert len(seen) == 20
    assert str(os.getpid()) not in {pid for pid, *_ in seen}
    assert {kind for *_, kind in seen} == {"ConsumerRecord"}


def test_a_worker_process_that_dies_is_told(embedded: Any, topic: str, notes: Callable[[], list[list[str]]]) -> None:
    write(embedded, topic, 8, partition=0)
    with reader(embedded, topic) as consumer:
        group = consumer.group_metadata().group_id
        with pytest.raises(ProcessingError, match=rf"{topic}-0 at offset \d: a worker of the executor died.*out-of-memory") as told:
            consumer.process(process_handlers.die_on_three, concurrency=1, executor="process", ordering="none", retries=5)
        assert isinstance(told.value.__cause__, BrokenProcessPool)
    assert {offset for _, _, offset, _ in notes()} == {"0", "1", "2"}
    assert committed(embedded, topic, group) == 3


def test_an_error_of_a_process_is_the_handlers(embedded: Any, topic: str, notes: Callable[[], list[list[str]]]) -> None:
    write(embedded, topic, 8, partition=0)
    with reader(embedded, topic) as consumer, pytest.raises(ProcessingError, match="three is bad"):
        consumer.process(process_handlers.fail_on_three, concurrency=1, executor="process")


def test_a_process_that_takes_too_long_is_interrupted(
    embedded: Any, topic: str, notes: Callable[[], list[list[str]]], capfd: pytest.CaptureFixture[str]
) -> None:
    write(embedded, topic, 6, partition=0)
    with reader(embedded, topic) as consumer:
        consumer.process(process_handlers.hang_on_three, concurrency=1, executor="process", handler_timeout=0.5, retries=1, retry_delay=0)
        assert consumer.current_lag(lv.TopicPartition(topic, 0)) == 0
    assert sorted(offset for _, _, offset, _ in notes()) == ["0", "1", "2", "3", "4", "5"]
    assert "Timeout" not in capfd.readouterr().err


def test_a_process_that_notices_no_interruption_is_ended(
    embedded: Any, topic: str, notes: Callable[[], list[list[str]]], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(embedded, topic, 6, partition=0)
    monkeypatch.setattr(processing, "ENDING_S", 0.2)
    with reader(embedded, topic) as consumer, pytest.raises(ProcessingError, match="a worker of the executor died"):
        consumer.process(process_handlers.swallow_on_three, concurrency=1, executor="process", handler_timeout=0.3, retries=5)
    assert "in swallow_on_three" in capfd.readouterr().err, "where it hangs is told"


@pytest.mark.parametrize("handler", [process_handlers.return_lock, process_handlers.return_unreadable])
@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_what_a_handler_returns_is_dropped(embedded: Any, topic: str, notes: Callable[[], list[list[str]]], handler: Any, api: str) -> None:
    write(embedded, topic, 3, partition=0)
    how: dict[str, Any] = {"concurrency": 1, "executor": "process", "retries": 2, "retry_delay": 0}
    if api == "blocking":
        with reader(embedded, topic) as consumer:
            consumer.process(handler, **how)
            assert consumer.current_lag(lv.TopicPartition(topic, 0)) == 0
    else:
        asyncio.run(run_tasks(embedded, topic, handler, **how))
    assert sorted(offset for _, _, offset, _ in notes()) == ["0", "1", "2"]


async def await_generator(record: Any) -> Any:
    return process_handlers.return_generator(record)


@pytest.mark.parametrize(
    ("api", "handler", "executor"),
    [
        ("blocking", process_handlers.return_generator, "thread"),
        ("blocking", process_handlers.return_generator, "process"),
        ("asyncio", process_handlers.return_generator, "thread"),
        ("asyncio", process_handlers.return_generator, "process"),
        ("asyncio", process_handlers.return_generator, None),
        ("asyncio", await_generator, None),
    ],
)
def test_a_handler_that_returns_a_generator_is_refused_at_the_first_record(
    embedded: Any, topic: str, notes: Callable[[], list[list[str]]], api: str, handler: Any, executor: Any
) -> None:
    write(embedded, topic, 2)
    group = f"g-{uuid4().hex}"
    with pytest.raises(TypeError, match="the handler returned a generator, and nothing of its body has run"):
        if api == "blocking":
            with reader(embedded, topic, group_id=group) as consumer:
                consumer.process(handler, executor=executor, retries=5)
        else:
            asyncio.run(run_tasks(embedded, topic, handler, group_id=group, executor=executor, retries=5))
    assert committed(embedded, topic, group) in (None, 0)
    assert notes() == []


@pytest.mark.parametrize("executor", ["process", "own"])
def test_an_exception_that_does_not_unpickle_is_retried_and_goes_to_the_dead_letter_topic(
    embedded: Any, topic: str, new_topic: Callable[..., str], notes: Callable[[], list[list[str]]], executor: str
) -> None:
    write(embedded, topic, 6, partition=0)
    dead = new_topic(embedded)
    own = ProcessPoolExecutor(1, get_context("spawn"))
    with own, lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer, reader(embedded, topic) as consumer:
        group = consumer.group_metadata().group_id
        consumer.process(
            process_handlers.fail_unreadably_on_three,
            concurrency=2,
            executor=own if executor == "own" else "process",
            retries=2,
            retry_delay=0,
            dead_letter=lv.DeadLetter(producer, dead),
        )
    assert sorted(offset for _, _, offset, _ in notes()) == ["0", "1", "2", "3", "3", "3", "4", "5"]
    assert committed(embedded, topic, group) == 6
    (letter,) = lv.scan(dead, bootstrap_servers=embedded.bootstrap_servers)
    told = dict(letter.headers)
    assert letter.value == b"3"
    assert told["__levada.errors.exception"] == b"HandlerError"
    assert b"raised ServiceError('503: busy') in another process" in (told["__levada.errors.message"] or b"")


def test_an_exception_that_does_not_unpickle_comes_as_text_with_its_traceback(
    embedded: Any, topic: str, notes: Callable[[], list[list[str]]]
) -> None:
    write(embedded, topic, 4, partition=0)
    with reader(embedded, topic) as consumer, pytest.raises(ProcessingError, match=r"failed once.*ServiceError\('503: busy'\)") as told:
        consumer.process(process_handlers.fail_unreadably_on_three, concurrency=1, executor="process")
    error = told.value.__cause__
    assert isinstance(error, HandlerError)
    assert "in fail_unreadably_on_three" in str(error.__cause__)


@pytest.mark.parametrize("value", [lambda: None, process_handlers.Unreadable()], ids=["does not pickle", "does not unpickle"])
def test_a_record_that_no_process_can_get_goes_to_the_dead_letter_topic(
    embedded: Any, topic: str, new_topic: Callable[..., str], notes: Callable[[], list[list[str]]], value: Any
) -> None:
    write(embedded, topic, 4, partition=0)
    dead = new_topic(embedded)
    with (
        lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer,
        reader(embedded, topic, value_deserializer=lambda data: value if data == b"1" else data) as consumer,
    ):
        consumer.process(process_handlers.note, concurrency=1, executor="process", dead_letter=lv.DeadLetter(producer, dead))
    assert sorted(offset for _, _, offset, _ in notes()) == ["0", "2", "3"]
    assert [letter.value for letter in lv.scan(dead, bootstrap_servers=embedded.bootstrap_servers)] == [b"1"]


def test_a_handler_that_workers_cannot_import_is_no_failure_of_the_records(
    embedded: Any, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an interactive session is."""
    here = types.ModuleType("only_here")
    exec("def handle(record): ...", here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", here)
    write(embedded, topic, 4, partition=0)
    with reader(embedded, topic) as consumer:
        group = consumer.group_metadata().group_id
        with pytest.raises(TypeError, match=r"cannot be imported in a worker process: .*only_here.*at the top of a module"):
            consumer.process(here.handle, concurrency=1, executor="process", retries=5)
    assert committed(embedded, topic, group) == 0


def test_a_pool_that_its_other_work_breaks_is_told_from_a_worker_that_died(
    embedded: Any, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(embedded, topic, 1)
    with socket.create_server(("127.0.0.1", 0)) as server, ProcessPoolExecutor(2, get_context("spawn")) as pool:
        server.settimeout(PATIENCE_S)
        monkeypatch.setenv("LEVADA_TEST_PORT", str(server.getsockname()[1]))
        with reader(embedded, topic) as consumer:

            def other_work() -> None:
                handler, _ = server.accept()
                with handler:
                    handler.recv(100)
                    # It returns an object that does not unpickle, while the handler is at work.
                    assert isinstance(pool.submit(process_handlers.Unreadable).exception(PATIENCE_S), BrokenProcessPool)

            with ThreadPoolExecutor(1) as beside:
                done = beside.submit(other_work)
                with pytest.raises(ProcessingError, match=r"pool of processes broke .*cannot be unpickled") as told:
                    consumer.process(process_handlers.hold, executor=pool, retries=5)
                done.result(PATIENCE_S)
        assert "a worker of the executor died" not in str(told.value)


@pytest.mark.parametrize("forks", [pytest.param(False, id="alone"), FORKS])
def test_workers_end_with_a_program_that_is_killed_and_finish_no_record(
    embedded: Any, topic: str, forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a child that the program forked has the workers' pipes open."""
    write(embedded, topic, 4, partition=0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        monkeypatch.setenv("LEVADA_TEST_PORT", str(server.getsockname()[1]))
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, embedded.bootstrap_servers, topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert program.stdin is not None
        assert program.stdout is not None
        workers = []
        try:
            for _ in range(2):
                workers.append(server.accept()[0])
                workers[-1].settimeout(PATIENCE_S)
                assert workers[-1].recv(100) == b"begun"
            if forks:
                program.stdin.write(b"fork\n")
                program.stdin.flush()
                assert program.stdout.readline() == b"forked\n"
            program.kill()
            program.wait()
            assert [worker.recv(100) for worker in workers] == [b"", b""], "they end, and nothing is done"
        finally:
            program.kill()
            program.communicate()  # Ends the forked child.
            for worker in workers:
                worker.close()


PROGRAM = """
import os, sys, threading
import levada as lv
import process_handlers

def fork():
    if sys.stdin.readline() and not os.fork():
        print("forked", flush=True)
        sys.stdin.read()
        os._exit(0)

threading.Thread(target=fork, daemon=True).start()
settings = {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "auto.offset.reset": "earliest"}
with lv.KafkaConsumer(settings) as consumer:
    consumer.subscribe([sys.argv[2]])
    consumer.process(process_handlers.hold, concurrency=2, ordering="none", executor="process")
"""
