"""The thread driver over real loopback sockets and the embedded broker."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from levada.base.clock import NEVER_MS
from levada.base.flow import Call, Flow, Sleep
from levada.base.promise import Promise
from levada.client.driver_interface import Ended
from levada.errors import BootstrapError, ClosedError, CrashedError, ForkedError, KafkaError, TimeoutError
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse
from levada.sync import exits
from levada.sync.driver import Driver
from levada.testing import EmbeddedKafka
from settings_kit import new_engine, new_selector

Connect = Callable[..., "Client"]


class Client:
    def __init__(self, address: str, **settings: Any) -> None:
        host, _, port = address.rpartition(":")
        self.selector = new_selector(max_frame_bytes=100 << 20)
        self.engine = new_engine(selectable=self.selector, bootstrap=[(host, int(port))], random=Random(1), **settings)
        self.driver = Driver(self.engine, self.selector, name="levada tested")

    def ask(self, timeout_s: float | None = 5) -> MetadataResponse:
        return self.driver.run(asking(), timeout_s, "asking")


def asking(node: int | None = None) -> Flow[MetadataResponse]:
    reply: MetadataResponse = yield Call(MetadataRequest(topics=[]), node=node)
    return reply


def sleeping(ms: int) -> Flow[str]:
    yield Sleep(ms)
    return "slept"


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        yield kafka


@pytest.fixture
def connect() -> Iterator[Connect]:
    clients: list[Client] = []

    def begin(address: str, **settings: Any) -> Client:
        client = Client(address, **settings)
        clients.append(client)
        client.driver.start()
        return client

    yield begin
    for client in clients:
        client.driver.close(5)


@pytest.fixture
def client(kafka: EmbeddedKafka, connect: Connect) -> Client:
    return connect(kafka.bootstrap_servers)


class Broken:
    """A poller with a bug."""

    def poll(self, now_ms: int) -> int:
        raise ZeroDivisionError("broken poller")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def in_thread(action: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run something in a thread; the list gets its result or its error."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(action())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_a_flow_runs_over_a_socket(client: Client) -> None:
    for _ in range(20):
        assert client.ask().brokers[0].node_id == 1


def test_many_threads_wait_at_once(client: Client) -> None:
    def many() -> int:
        return sum(len(client.ask().brokers) for _ in range(30))

    running = [in_thread(many) for _ in range(8)]
    for thread, _ in running:
        thread.join(20)
    assert [outcome for _, outcome in running] == [[30]] * 8


def test_a_wait_that_takes_too_long_names_what_it_waited_for(client: Client) -> None:
    client.ask()
    with pytest.raises(TimeoutError, match=r"the moon: not done within 0\.1 s"):
        client.driver.wait(Promise[None](), 0.1, "the moon")
    with pytest.raises(TimeoutError, match="a nap: not done within 100 ms"):
        client.driver.run(sleeping(10_000), 0.1, "a nap")


def test_a_wait_of_no_time_only_looks(client: Client) -> None:
    client.ask()
    assert client.driver.wait(Promise.resolved(5), 0, "five") == 5
    with pytest.raises(TimeoutError):
        client.driver.wait(Promise[None](), 0, "nothing")


def test_others_go_on_while_one_thread_waits_for_long(client: Client) -> None:
    slow, outcome = in_thread(lambda: client.driver.run(sleeping(600), 5, "a nap"))
    time.sleep(0.05)
    for _ in range(20):
        client.ask(1)
    slow.join(5)
    assert outcome == ["slept"]


def test_when_the_stepping_thread_leaves_the_next_one_takes_over_even_beside_a_busy_callback(client: Client) -> None:
    client.ask()
    release = threading.Event()
    client.engine.deferred.append(lambda: release.wait(5))  # type: ignore[arg-type]
    client.driver.wakeup()
    time.sleep(0.05)  # The I/O thread is in the callback now; only waiting threads can step.
    first = in_thread(lambda: client.driver.run(sleeping(100), 5, "a nap"))
    time.sleep(0.02)
    second = in_thread(lambda: client.driver.run(sleeping(300), 5, "a longer nap"))
    for thread, _ in (first, second):
        thread.join(3)
    assert (first[1], second[1]) == (["slept"], ["slept"])
    release.set()


def test_N10_callbacks_run_in_order_without_the_lock_and_survive_each_other(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    ran: list[Any] = []
    done = threading.Event()

    def take_the_lock() -> None:
        if client.driver.lock.acquire(timeout=2):
            client.driver.lock.release()
            ran.append("free")

    def free() -> None:
        got, _ = in_thread(take_the_lock)
        got.join()

    with client.driver.lock:
        client.engine.deferred.extend([lambda: ran.append(1), lambda: 1 / 0, lambda: ran.append(2), free, done.set])  # type: ignore[list-item]
    client.driver.wakeup()
    assert done.wait(5)
    assert ran == [1, 2, "free"]
    assert "a callback raised" in caplog.text


def test_TR50_a_callback_may_wait_and_close(client: Client) -> None:
    answers: list[Any] = []
    client.engine.deferred.append(lambda: answers.append(client.ask()))
    client.engine.deferred.append(lambda: client.driver.close())
    client.driver.wakeup()
    deadline = time.monotonic() + 5
    while threading.active_count() > 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert isinstance(answers[0], MetadataResponse)
    with pytest.raises(ClosedError, match="levada tested is closed"):
        client.ask()


def test_a_finalizer_that_the_end_of_the_thread_runs_does_not_wait_for_that_thread(client: Client) -> None:
    local, kept = threading.local(), threading.Event()

    class Closing:
        def __del__(self) -> None:
            client.driver.close(60)

    def keep() -> None:
        local.closing = Closing()
        kept.set()

    client.engine.deferred.append(keep)
    client.driver.wakeup()
    assert kept.wait(5)
    client.driver.close(0)
    assert client.driver.join(10)


@pytest.mark.parametrize("waiters", [1, 3])
def test_N8_close_ends_every_wait(client: Client, waiters: int) -> None:
    client.ask()
    running = [in_thread(lambda: client.driver.run(sleeping(60_000), 60, "a nap")) for _ in range(waiters)]
    running.append(in_thread(lambda: client.driver.wait(Promise[None](), None, "for ever")))
    time.sleep(0.1)
    client.driver.close(5)
    for thread, outcome in running:
        thread.join(5)
        assert isinstance(outcome[0], ClosedError)


def test_close_is_idempotent_and_leaves_nothing(kafka: EmbeddedKafka) -> None:
    client = Client(kafka.bootstrap_servers)
    client.driver.start()
    client.ask()
    client.driver.close(5)
    client.driver.close(5)
    with pytest.raises(ClosedError):
        client.driver.wait(Promise[None](), 1, "anything")


def test_a_driver_that_was_never_started_can_be_closed(kafka: EmbeddedKafka) -> None:
    Client(kafka.bootstrap_servers).driver.close(5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_M_B19_a_child_process_is_told_what_to_do_and_does_no_harm(client: Client) -> None:
    client.ask()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.driver.close()
            client.ask()
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        text = told.read()
    assert text.startswith(ForkedError.__name__)
    assert f"used in process {os.getpid()}" in text
    assert f"process {child}" in text
    assert "create the client after fork()" in text
    assert client.ask().brokers


def test_M_B18_ctrl_c_ends_a_wait_and_the_client_goes_on(client: Client) -> None:
    client.ask()
    handler = signal.getsignal(signal.SIGINT)
    for delay_s in (0.0, 0.01, 0.1):
        timer = threading.Timer(delay_s, lambda: os.kill(os.getpid(), signal.SIGINT))
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            client.driver.wait(Promise[None](), 30, "a signal")
        timer.join()
        assert time.monotonic() - started < 5
        assert client.ask().brokers
    assert signal.getsignal(signal.SIGINT) is handler


def test_M_B18_ctrl_c_ends_what_was_waited_for_too(client: Client) -> None:
    ended = threading.Event()

    def endless() -> Flow[None]:
        try:
            yield Sleep(60_000)
        finally:
            ended.set()

    client.ask()
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        client.driver.run(endless(), 30, "a signal")
    timer.join()
    assert ended.is_set()
    assert client.ask().brokers


def test_K10_a_crash_of_the_engine_is_raised_to_every_waiter(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.ask()
    waiting = in_thread(lambda: client.driver.wait(Promise[None](), 20, "for ever"))
    time.sleep(0.05)
    with client.driver.lock:
        client.engine.add_poller(Broken())
    client.driver.wakeup()
    waiting[0].join(5)
    assert isinstance(waiting[1][0], KafkaError)
    assert "bug in levada" in str(waiting[1][0])
    with pytest.raises(KafkaError, match="broken poller"):
        client.ask()
    assert "broken poller" in caplog.text


def test_a_crash_is_told_to_flows_and_to_whoever_waits_for_metadata_and_answers(kafka: EmbeddedKafka, client: Client) -> None:
    client.ask()
    wait_until(lambda: client.engine.metadata.version > 0)
    client.driver.run(asking(node=1), 5, "asking")
    kafka.faults.delay("Metadata", 60_000, times=10)
    asked = in_thread(client.ask)
    wait_until(lambda: client.engine.network.in_flight_count(1) > 0)
    with client.driver.lock:
        update = client.engine.metadata.await_update(client.engine.metadata.version + 10)
        answer = client.engine.network.send(1, MetadataRequest(topics=[]), client.driver.now_ms())
        client.engine.add_poller(Broken())
    client.driver.wakeup()
    asked[0].join(5)
    assert client.driver.join(5)
    for error in (asked[1][0], update.error, answer.error):
        assert isinstance(error, CrashedError)
        assert error.fatal
        assert str(error) == "levada tested stopped because of a bug in levada: ZeroDivisionError('broken poller')"
        assert isinstance(error.__cause__, ZeroDivisionError)
    assert asked[1][0] is not update.error
    late = client.engine.flows.start(sleeping(1), client.driver.now_ms())
    assert isinstance(late.error, CrashedError)


def test_M_P5_what_can_be_closed_is_closed(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    def break_down(ended: Ended) -> None:
        raise ZeroDivisionError("cannot even close")

    client.ask()
    with client.driver.lock:
        update = client.engine.metadata.await_update(client.engine.metadata.version + 10)
    client.engine.flows.close = break_down  # type: ignore[method-assign]
    client.driver.close(5)
    assert isinstance(update.error, ClosedError)
    assert "cannot even close" in caplog.text


def test_M_P5_a_wait_that_begins_while_the_driver_ends_raises(client: Client) -> None:
    client.ask()
    look = client.driver.check_usable

    def look_and_close() -> None:
        look()
        client.driver.close(5)

    client.driver.check_usable = look_and_close  # type: ignore[method-assign]
    thread, outcome = in_thread(lambda: client.driver.wait(Promise[None](), 20, "for ever"))
    thread.join(3)
    assert isinstance(outcome[0], ClosedError)


def test_M_P5_waiters_end_even_when_the_engine_cannot_be_closed(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    def break_down(now_ms: int, ended: Ended) -> None:
        raise ZeroDivisionError("cannot even close")

    client.ask()
    waiting = in_thread(lambda: client.driver.wait(Promise[None](), 20, "for ever"))
    time.sleep(0.05)
    client.engine.close = break_down  # type: ignore[method-assign]
    client.driver.close(5)
    waiting[0].join(3)
    assert isinstance(waiting[1][0], ClosedError)
    assert "cannot even close" in caplog.text


def test_X_K13_waiting_again_and_again_for_the_same_thing_leaves_nothing_behind(client: Client) -> None:
    client.ask()
    slow: Promise[None] = Promise()
    held = sys.getrefcount(slow)
    for _ in range(50):
        with pytest.raises(TimeoutError):
            client.driver.wait(slow, 0.001, "something rare")
    gc.collect()
    assert not [thing for thing in gc.get_objects() if type(thing).__name__ == "_Waiter"]
    assert sys.getrefcount(slow) == held


def test_an_idle_client_does_not_spin(client: Client) -> None:
    turns = 0

    class Counter:
        def poll(self, now_ms: int) -> int:
            nonlocal turns
            turns += 1
            return NEVER_MS

    client.ask()
    time.sleep(0.3)
    with client.driver.lock:
        client.engine.add_poller(Counter())
    time.sleep(0.5)
    assert turns < 10
    before = turns
    with pytest.raises(TimeoutError):
        client.driver.wait(Promise[None](), 0.5, "nothing")
    assert turns - before < 10


def test_a_restarted_broker_is_found_again(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = connect(f"127.0.0.1:{port}")
    for _ in range(2):
        with EmbeddedKafka(port=port):
            assert client.ask(10).brokers


def test_no_broker_is_a_bootstrap_error_within_the_time_of_the_call(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = connect(f"127.0.0.1:{port}")
    started = time.monotonic()
    sooner = "with bootstrap.wait=false this is raised once every address has failed"
    with pytest.raises(BootstrapError, match=rf"^no broker could be reached within 0\.5 s; {sooner}\n") as raised:
        client.ask(0.5)
    assert time.monotonic() - started < 2
    assert "connection refused" in raised.value.causes[f"127.0.0.1:{port}"]


def test_a_thread_that_cannot_be_started_is_started_by_the_next_call(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(kafka.bootstrap_servers)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            client.ask()
    assert not [running for running in exits._running if running is client.driver]
    assert client.ask().brokers
    client.driver.close(5)


def test_a_client_that_is_first_used_when_all_have_ended_is_refused(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(kafka.bootstrap_servers)
    monkeypatch.setattr(exits, "has_ended", True)
    with pytest.raises(ClosedError, match="was not used before the interpreter exits"):
        client.ask()
    client.driver.close(5)


def test_a_finalizer_may_use_the_client_whose_thread_starts(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(kafka.bootstrap_servers)
    start = threading.Thread.start
    inner: list[Any] = []

    def start_and_collect(thread: threading.Thread) -> None:
        # As if the garbage collector ran here.
        monkeypatch.undo()
        client.driver.check_usable()
        inner.append(client.driver)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_and_collect)
    assert client.ask().brokers
    assert inner == [client.driver]
    client.driver.close(5)
