"""consumer.process(): a handler in many threads, processes or tasks; both APIs."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from levada import aio
from levada.api.consumer import processing
from levada.errors import ConfigError, ProcessingError, WakeupError
from process_kit import KEYS, committed, reader, run_tasks, settings, write

EACH = 100
PATIENCE_S = 30


@pytest.fixture
def topic(embedded: Any, new_topic: Callable[..., str]) -> str:
    return new_topic(embedded, partitions=2)


class Worked:
    """What handlers did, and how many ran at once."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, list[int]] = defaultdict(list)
        self.most = 0
        self._keys: set[bytes] = set()
        self._now = 0
        self._lock = threading.Lock()

    def begin(self, record: Any) -> None:
        with self._lock:
            assert record.key not in self._keys, "one of a key at a time"
            self._keys.add(record.key)
            self._now += 1
            self.most = max(self.most, self._now)

    def end(self, record: Any, *, done: bool = True) -> None:
        with self._lock:
            self._keys.discard(record.key)
            self._now -= 1
            if done:
                self.by_key[record.key].append(int(record.value))

    def is_whole_and_in_order(self, count: int) -> bool:
        return all(numbers == sorted(numbers) for numbers in self.by_key.values()) and sum(map(len, self.by_key.values())) == count


def test_threads_work_on_many_keys_at_once_and_keep_the_order_of_each(embedded: Any, topic: str) -> None:
    write(embedded, topic, 120)
    worked = Worked()
    together = threading.Barrier(4, timeout=20)

    def handle(record: Any) -> None:
        worked.begin(record)
        if int(record.value) < 4:
            together.wait()
        elif int(record.value) % 10 == 9 and record.attempt < 3:
            worked.end(record, done=False)
            raise ValueError("not yet")
        worked.end(record)

    with reader(embedded, topic) as consumer:
        consumer.process(handle, concurrency=4, retries=2, retry_delay=0.01)
        group = consumer.group_metadata().group_id
    assert worked.most == 4
    assert worked.is_whole_and_in_order(120)
    assert sum(committed(embedded, topic, group, partition) or 0 for partition in range(2)) == 120


def test_tasks_work_on_many_keys_at_once_and_keep_the_order_of_each(embedded: Any, topic: str) -> None:
    write(embedded, topic, 120)
    worked = Worked()
    together = 0
    all_there = asyncio.Event()

    async def handle(record: Any) -> None:
        nonlocal together
        worked.begin(record)
        await asyncio.sleep(0)
        if int(record.value) < 4:
            together += 1
            if together == 4:
                all_there.set()
            await asyncio.wait_for(all_there.wait(), 20)
        elif int(record.value) % 10 == 9 and record.attempt < 3:
            worked.end(record, done=False)
            raise ValueError("not yet")
        worked.end(record)

    asyncio.run(run_tasks(embedded, topic, handle, concurrency=4, retries=2, retry_delay=lambda attempt: 0.01 * attempt))
    assert worked.most == 4
    assert worked.is_whole_and_in_order(120)


def test_a_plain_function_runs_in_threads_on_asyncio(embedded: Any, topic: str) -> None:
    write(embedded, topic, 20)
    threads = set()
    asyncio.run(run_tasks(embedded, topic, lambda record: threads.add(threading.current_thread().name), executor="thread"))
    assert threads
    assert all(name.startswith("levada-handler") for name in threads)


def test_what_fails_for_the_last_time_goes_to_the_dead_letter_topic(embedded: Any, topic: str, new_topic: Callable[..., str]) -> None:
    write(embedded, topic, 10)
    dead = new_topic(embedded)

    def handle(record: Any) -> None:
        if int(record.value) == 4:
            raise LookupError("who is four?")
        if int(record.value) == 5:
            record.reject("five is not wanted")

    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer, reader(embedded, topic) as consumer:
        group = consumer.group_metadata().group_id
        consumer.process(handle, retries=1, retry_delay=0, dead_letter=lv.DeadLetter(producer, dead))
    letters = {}
    for letter in lv.scan(dead, bootstrap_servers=embedded.bootstrap_servers):
        told = {name.removeprefix("__levada.errors."): text.decode() for name, text in letter.headers if text is not None}
        letters[letter.value] = (told.get("exception"), told["message"], told["attempts"])
    assert letters == {b"4": ("LookupError", "who is four?", "2"), b"5": (None, "five is not wanted", "1")}
    assert sum(committed(embedded, topic, group, partition) or 0 for partition in range(2)) == 10


def test_without_a_dead_letter_topic_it_ends_and_the_record_is_not_committed(embedded: Any, topic: str) -> None:
    write(embedded, topic, 10, partition=0)

    def handle(record: Any) -> None:
        if int(record.value) == 4:
            raise LookupError("who is four?")

    with reader(embedded, topic) as consumer:
        group = consumer.group_metadata().group_id
        with pytest.raises(ProcessingError, match=rf"{topic}-0 at offset 4: the handler failed 2 times.*LookupError") as told:
            consumer.process(handle, concurrency=3, retries=1, retry_delay=0)
        assert (told.value.record.offset, told.value.attempts, type(told.value.__cause__)) == (4, 2, LookupError)
    assert committed(embedded, topic, group) == 4


def no_delay(attempt: int) -> float:
    raise LookupError(f"no delay for {attempt}")


@pytest.mark.parametrize(
    ("retry_delay", "told", "cause"),
    [
        (lambda attempt: "5", "got '5'", TypeError),
        (lambda attempt: None, "got None", TypeError),
        (lambda attempt: float("nan"), "got nan", ValueError),
        (lambda attempt: -0.5, "got -0.5", ValueError),
        (lambda attempt: float("inf"), "got inf", ValueError),
        (lambda attempt: 10.0**300, "got 1e.300", ValueError),
        (no_delay, "no delay for 1", LookupError),
    ],
)
@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_a_retry_delay_that_is_none_ends_it_and_the_record_is_not_committed(
    embedded: Any, topic: str, api: str, retry_delay: Any, told: str, cause: type[Exception]
) -> None:
    write(embedded, topic, 4, partition=0)
    group = f"g-{uuid4().hex}"
    busy = rf"{topic}-0 at offset 2: .*'the service is busy'.* retry_delay, called with 1.*{told}"

    def work(record: Any) -> None:
        if int(record.value) == 2:
            raise OSError("the service is busy")

    async def handle(record: Any) -> None:
        work(record)

    with pytest.raises(ProcessingError, match=busy) as error:
        if api == "blocking":
            with reader(embedded, topic, group_id=group) as consumer:
                consumer.process(work, retries=3, retry_delay=retry_delay)
        else:
            asyncio.run(run_tasks(embedded, topic, handle, group_id=group, retries=3, retry_delay=retry_delay))
    assert type(error.value.__cause__) is cause
    assert committed(embedded, topic, group) == 2


def test_a_retry_delay_may_end_the_program(embedded: Any, topic: str) -> None:
    write(embedded, topic, 1)

    def handle(record: Any) -> None:
        raise OSError("the service is busy")

    def leave(attempt: int) -> float:
        raise SystemExit(4)

    with reader(embedded, topic) as consumer, pytest.raises(SystemExit):
        consumer.process(handle, retries=3, retry_delay=leave)


class UnreadableError(Exception):
    def __repr__(self) -> str:
        raise AttributeError("no name")

    __str__ = __repr__


@pytest.mark.parametrize("api", ["blocking", "asyncio"])
@pytest.mark.parametrize("error", [StopIteration("nobody left"), UnreadableError(), BrokenProcessPool("a pool of the handler's own")])
def test_any_exception_of_a_thread_is_the_handlers(embedded: Any, topic: str, api: str, error: Exception) -> None:
    write(embedded, topic, 4)
    failed = []

    def handle(record: Any) -> None:
        if int(record.value) == 3:
            failed.append(record.attempt)
            raise error

    how: dict[str, Any] = {"executor": "thread", "retries": 1, "retry_delay": 0}
    with pytest.raises(ProcessingError, match=r"at offset \d: the handler failed 2 times") as told:
        if api == "blocking":
            with reader(embedded, topic) as consumer:
                consumer.process(handle, **how)
        else:
            asyncio.run(run_tasks(embedded, topic, handle, **how))
    assert failed == [1, 2]
    assert told.value.__cause__ is error


def test_an_exception_without_text_goes_to_the_dead_letter_topic(embedded: Any, topic: str, new_topic: Callable[..., str]) -> None:
    write(embedded, topic, 1)
    dead = new_topic(embedded)

    def handle(record: Any) -> None:
        raise UnreadableError

    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer, reader(embedded, topic) as consumer:
        consumer.process(handle, dead_letter=lv.DeadLetter(producer, dead))
    (letter,) = lv.scan(dead, bootstrap_servers=embedded.bootstrap_servers)
    assert dict(letter.headers)["__levada.errors.message"] == b"<UnreadableError whose repr() raises AttributeError>"


@pytest.mark.parametrize("size", [600_000, 1_048_576 - 100])
def test_a_long_record_and_an_exception_that_quotes_it_go_to_the_dead_letter_topic(
    embedded: Any, topic: str, new_topic: Callable[..., str], size: int
) -> None:
    """Otherwise the group would never get past this record."""
    dead = new_topic(embedded)

    def handle(record: Any) -> None:
        raise ValueError(f"bad document: {record.value!r}")

    async def on_asyncio() -> None:
        async with lv.aio.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
            await run_tasks(embedded, topic, handle, executor="thread", dead_letter=lv.DeadLetter(producer, dead))

    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        producer.send(topic, b"x" * size).result(5)
        with reader(embedded, topic) as consumer:
            consumer.process(handle, dead_letter=lv.DeadLetter(producer, dead))
    asyncio.run(on_asyncio())
    letters = list(lv.scan(dead, bootstrap_servers=embedded.bootstrap_servers))
    assert [letter.value for letter in letters] == [b"x" * size] * 2


def test_a_task_that_fails_ends_it_on_asyncio(embedded: Any, topic: str) -> None:
    write(embedded, topic, 10, partition=0)

    async def handle(record: Any) -> None:
        if int(record.value) == 4:
            raise asyncio.CancelledError

    with pytest.raises(ProcessingError, match=f"{topic}-0 at offset 4: the handler failed once"):
        asyncio.run(run_tasks(embedded, topic, handle))


def test_a_handler_that_means_the_program_ends_it(embedded: Any, topic: str) -> None:
    write(embedded, topic, 4, partition=0)

    def handle(record: Any) -> None:
        raise SystemExit(3)

    with reader(embedded, topic) as consumer:
        group = consumer.group_metadata().group_id
        with pytest.raises(SystemExit):
            consumer.process(handle, retries=None)
    assert committed(embedded, topic, group) == 0


def test_a_hanging_handler_holds_up_its_key_and_the_end_only(embedded: Any, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    write(embedded, topic, 60)
    hangs = threading.Event()
    done = []

    def handle(record: Any) -> None:
        if int(record.value) == 1:
            hangs.wait()
        done.append(int(record.value))
        if len(done) == 50:
            consumer.wakeup()

    with reader(embedded, topic, max_poll_interval_ms=400) as consumer:
        began = time.monotonic()
        with pytest.raises(WakeupError):
            consumer.process(handle, concurrency=4)
        assert time.monotonic() - began < 20
    hangs.set()
    assert len([number for number in done if number % KEYS != 1]) == 50, "only those of its key wait"
    assert "does not wait any longer for handlers that run" in caplog.text


@pytest.mark.parametrize("executor", ["thread", "own", "thread on asyncio"])
def test_a_thread_that_takes_too_long_ends_it_and_the_others_are_committed(embedded: Any, topic: str, executor: str) -> None:
    write(embedded, topic, 12, partition=0)
    go_on = threading.Event()

    def handle(record: Any) -> None:
        if int(record.value) == 3:
            go_on.wait(60)

    own = ThreadPoolExecutor(4)
    group = f"g-{uuid4().hex}"
    try:
        with pytest.raises(ProcessingError, match=rf"{topic}-0 at offset 3: .*handler_timeout=0.2 s, and still runs") as told:
            if executor == "thread on asyncio":
                asyncio.run(run_tasks(embedded, topic, handle, group_id=group, executor="thread", handler_timeout=0.2, retries=5))
            else:
                with reader(embedded, topic, group_id=group) as consumer:
                    where: Any = own if executor == "own" else "thread"
                    consumer.process(handle, concurrency=4, executor=where, handler_timeout=0.2, retries=5)
    finally:
        go_on.set()
        own.shutdown()
    assert (told.value.record.offset, told.value.attempts) == (3, 1)
    assert committed(embedded, topic, group) == 3
    for thread in threading.enumerate():
        if thread.name.startswith("levada-handler"):
            thread.join(PATIENCE_S)


def test_a_task_that_takes_too_long_is_cancelled_and_done_again(embedded: Any, topic: str) -> None:
    write(embedded, topic, 12)
    cancelled, done = [], []

    async def handle(record: Any) -> None:
        if int(record.value) == 3 and record.attempt < 3:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(record.attempt)
                raise
        done.append(int(record.value))

    asyncio.run(run_tasks(embedded, topic, handle, handler_timeout=0.1, retries=2, retry_delay=0))
    assert (cancelled, sorted(done)) == ([1, 2], list(range(12)))


def test_a_task_that_takes_too_long_for_the_last_time_is_told(embedded: Any, topic: str) -> None:
    write(embedded, topic, 4)

    async def handle(record: Any) -> None:
        await asyncio.sleep(60)

    with pytest.raises(ProcessingError, match=r"failed once, .*the handler was interrupted after handler_timeout=0.1 s") as told:
        asyncio.run(run_tasks(embedded, topic, handle, handler_timeout=0.1))
    assert isinstance(told.value.__cause__, TimeoutError)


def test_a_task_that_swallows_its_cancellation_ends_it_and_the_others_are_committed(
    embedded: Any, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(embedded, topic, 12, partition=0)
    monkeypatch.setattr(processing, "ENDING_S", 0.5)
    group = f"g-{uuid4().hex}"

    async def main() -> None:
        go_on, ended = asyncio.Event(), asyncio.Event()

        async def handle(record: Any) -> None:
            while int(record.value) == 3 and not go_on.is_set():
                with suppress(asyncio.CancelledError):
                    await go_on.wait()
            if int(record.value) == 3:
                ended.set()

        with pytest.raises(
            ProcessingError, match=rf"{topic}-0 at offset 3: .*handler_timeout=0.1 s, and has not ended within 0.5 s"
        ) as told:
            await run_tasks(embedded, topic, handle, group_id=group, handler_timeout=0.1, retries=5, retry_delay=0)
        assert (told.value.record.offset, told.value.attempts) == (3, 1)
        go_on.set()
        await ended.wait()

    asyncio.run(main())
    assert committed(embedded, topic, group) == 3
    assert f"still run after 0.5 s: handler of {topic}-0 at offset 3; they catch asyncio.CancelledError" in caplog.text


def test_cancelling_it_does_not_wait_for_a_task_that_swallows_its_cancellation(
    embedded: Any, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(embedded, topic, 1)
    monkeypatch.setattr(processing, "ENDING_S", 0.2)

    async def main() -> None:
        begun, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def handle(record: Any) -> None:
            begun.set()
            while not go_on.is_set():
                with suppress(asyncio.CancelledError):
                    await go_on.wait()
            ended.set()

        task = asyncio.create_task(run_tasks(embedded, topic, handle))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE_S)
        assert task.cancelled()
        go_on.set()
        await ended.wait()

    asyncio.run(main())
    assert "still run after 0.2 s" in caplog.text


def test_a_timeout_of_the_handlers_own_is_an_error_as_any_other(embedded: Any, topic: str) -> None:
    write(embedded, topic, 1)

    async def handle(record: Any) -> None:
        raise TimeoutError("the service is slow")

    with pytest.raises(ProcessingError, match="the service is slow"):
        asyncio.run(run_tasks(embedded, topic, handle, handler_timeout=20))


def test_wakeup_lets_handlers_end_and_commits_what_they_did(embedded: Any, topic: str) -> None:
    write(embedded, topic, 10, partition=0)
    begun, go_on = threading.Semaphore(0), threading.Event()

    def handle(record: Any) -> None:
        begun.release()
        go_on.wait(20)

    def end() -> None:
        for _ in range(3):
            begun.acquire()
        consumer.wakeup()
        go_on.set()

    with reader(embedded, topic, stop_at_end=False) as consumer:
        group = consumer.group_metadata().group_id
        ending = threading.Thread(target=end)
        ending.start()
        with pytest.raises(WakeupError):
            consumer.process(handle, concurrency=3)
        ending.join()
    assert (committed(embedded, topic, group) or 0) >= 3


def test_a_program_may_bring_its_own_executor(embedded: Any, topic: str) -> None:
    write(embedded, topic, 20)
    done = []
    with ThreadPoolExecutor(2) as pool:
        with reader(embedded, topic) as consumer:
            consumer.process(lambda record: done.append(record.value), executor=pool)
        assert len(done) == 20
        assert pool.submit(int).result(10) == 0, "it is the program's to shut down"


@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_an_executor_that_takes_nothing_is_no_failure_of_the_records(embedded: Any, topic: str, api: str) -> None:
    write(embedded, topic, 4, partition=0)
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    called: list[Any] = []
    how: dict[str, Any] = {"executor": pool, "retries": 5, "retry_delay": 0}
    with pytest.raises(ProcessingError, match=f"{topic}-0 at offset 0: the executor did not take the record: .*after shutdown"):
        if api == "blocking":
            with reader(embedded, topic) as consumer:
                consumer.process(called.append, **how)
        else:
            asyncio.run(run_tasks(embedded, topic, called.append, **how))
    assert called == []


def test_an_executor_that_breaks_is_told(embedded: Any, topic: str) -> None:
    write(embedded, topic, 1)

    def begin() -> None:
        raise OSError("no GPU")

    broke = r"the executor failed, and not the handler: BrokenThreadPool|the executor did not take the record: BrokenThreadPool"
    with ThreadPoolExecutor(1, initializer=begin) as pool, reader(embedded, topic) as consumer, pytest.raises(ProcessingError, match=broke):
        consumer.process(print, executor=pool, retries=5)


def test_cancelling_it_cancels_the_handlers(embedded: Any, topic: str) -> None:
    write(embedded, topic, 4)
    cancelled = []
    begun = asyncio.Event()

    async def handle(record: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(record.offset)
            raise

    async def main() -> None:
        task = asyncio.create_task(run_tasks(embedded, topic, handle))
        await asyncio.wait_for(begun.wait(), 20)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(main())
    assert cancelled


def test_ctrl_c_lets_handlers_end(embedded: Any, topic: str) -> None:
    """Whatever the main thread does at that moment: each time another record's handler is the one that is interrupted."""
    write(embedded, topic, 60, partition=0)
    begun, ended = [], []

    def handle(record: Any) -> None:
        begun.append(record.offset)
        if record.offset % 3 == 0 and record.offset not in interrupted:
            interrupted.add(record.offset)
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.002)  # The rest of its work.
        ended.append(record.offset)

    interrupted: set[int] = set()
    with reader(embedded, topic) as consumer:
        group = consumer.group_metadata().group_id
        with pytest.raises(KeyboardInterrupt):
            consumer.process(handle, concurrency=2)
        assert sorted(begun) == sorted(ended), "they are waited for"
        for _ in range(20):
            with suppress(KeyboardInterrupt):
                consumer.process(handle, concurrency=2)
            assert sorted(begun) == sorted(ended)
    assert set(ended) == set(range(60))
    assert committed(embedded, topic, group) == 60


@pytest.mark.parametrize(
    ("how", "error", "told"),
    [
        ({"concurrency": 0}, ValueError, "concurrency must be at least 1"),
        ({"retries": -1}, ValueError, "retries is how often"),
        ({"retry_delay": -1}, ValueError, "retry_delay is a number of seconds, 0 or more; got -1"),
        ({"retry_delay": float("inf")}, ValueError, "retry_delay is a number of seconds, 0 or more; got inf"),
        ({"retry_delay": None}, TypeError, "retry_delay is a number of seconds, 0 or more; got None"),
        ({"retry_delay": asyncio.sleep}, TypeError, "retry_delay is .* nothing awaits"),
        ({"executor": "threads"}, ValueError, "did you mean 'thread'"),
        ({"ordering": "Key "}, ValueError, "did you mean 'key'"),
        ({"executor": "process"}, TypeError, "cannot be sent to another process"),
    ],
)
def test_wrong_arguments_are_refused(embedded: Any, topic: str, how: Any, error: type[Exception], told: str) -> None:
    with reader(embedded, topic) as consumer:
        with pytest.raises(error, match=told):
            consumer.process(lambda record: None, **how)
        assert consumer.poll(0) == [], "nothing was begun"


def test_the_wrong_kind_of_handler_is_refused(embedded: Any, topic: str) -> None:
    async def for_tasks(record: Any) -> None: ...

    with reader(embedded, topic) as consumer, pytest.raises(TypeError, match=r"levada\.aio"):
        consumer.process(for_tasks)

    def stream(record: Any) -> Any:
        yield record

    async def stream_for_tasks(record: Any) -> Any:
        yield record

    for handler in (stream, stream_for_tasks):
        with reader(embedded, topic) as consumer, pytest.raises(TypeError, match="generator function"):
            consumer.process(handler)
        with pytest.raises(TypeError, match="generator function"):
            asyncio.run(run_tasks(embedded, topic, handler))
    write(embedded, topic, 1)
    with reader(embedded, topic) as consumer, pytest.raises(TypeError, match="returned a coroutine, which no executor awaits"):
        consumer.process(lambda record: for_tasks(record), retries=5)
    with pytest.raises(TypeError, match="a plain function needs executor='thread'"):
        asyncio.run(run_tasks(embedded, topic, lambda record: None))

    async def without_await(record: Any) -> Any:
        return for_tasks(record)

    with pytest.raises(TypeError, match=r"returned a coroutine.*is an await missing"):
        asyncio.run(run_tasks(embedded, topic, without_await))
    done = []

    async def handle(record: Any) -> None:
        done.append(record)

    asyncio.run(run_tasks(embedded, topic, lambda record: handle(record)))
    assert len(done) == 1


def test_it_is_refused_where_nothing_would_be_committed(embedded: Any, topic: str) -> None:
    with reader(embedded, topic, enable_auto_commit=False) as consumer, pytest.raises(ConfigError, match=r"enable\.auto\.commit"):
        consumer.process(print)


def test_no_group_is_needed(embedded: Any, topic: str) -> None:
    write(embedded, topic, 5)
    done = []
    with reader(embedded, topic, group_id=None) as consumer:
        consumer.process(lambda record: done.append(record.value))
    assert len(done) == 5


def test_nothing_is_left_of_it(embedded: Any, topic: str) -> None:
    write(embedded, topic, 50)
    with reader(embedded, topic) as consumer:
        consumer.process(lambda record: None, concurrency=8)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("levada-handler")]


class Members:
    """Programs that run process() in threads, as members of one group. done: who did which record of which partition, in order."""

    def __init__(self, kafka: Any, topic: str, **more: Any) -> None:
        self.done: list[tuple[str, int, int]] = []
        self.settings = settings(kafka, stop_at_end=False, **more)
        self._topic = topic
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._consumers: dict[str, lv.KafkaConsumer] = {}

    def begin(self, name: str) -> None:
        consumer = self._consumers[name] = lv.KafkaConsumer(**self.settings)
        self._threads.append(threading.Thread(target=self._run, args=(name, consumer)))
        self._threads[-1].start()

    def _run(self, name: str, consumer: lv.KafkaConsumer) -> None:
        def handle(record: Any) -> None:
            time.sleep(0.003)  # A slow one.
            with self._changed:
                self.done.append((name, record.partition, record.offset))
                self._changed.notify_all()

        consumer.subscribe([self._topic])
        with suppress(WakeupError), consumer:
            # In the order of partitions nothing is done behind a record that is not, so nothing comes twice.
            consumer.process(handle, concurrency=4, ordering="partition")

    def end(self, name: str) -> None:
        self._consumers.pop(name).wakeup()

    def wait(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, PATIENCE_S), f"{len(self.done)} done"

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._consumers):
            self.end(name)
        for thread in self._threads:
            thread.join(PATIENCE_S)


@pytest.mark.parametrize("broker", ["embedded", pytest.param("kafka44", marks=pytest.mark.kafka)])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_comes_and_one_that_goes_neither_lose_nor_repeat(
    request: pytest.FixtureRequest, new_topic: Callable[..., str], broker: str, protocol: str
) -> None:
    kafka = request.getfixturevalue(broker)
    topic = new_topic(kafka, partitions=4)
    for partition in range(4):
        write(kafka, topic, EACH, partition=partition)
    more = {} if protocol == "consumer" else {"heartbeat_interval_ms": 100}
    with Members(kafka, topic, group_protocol=protocol, **more) as members:
        members.begin("first")
        members.wait(lambda: len(members.done) > 20)
        members.begin("second")
        members.wait(lambda: any(name == "second" for name, _, _ in members.done))
        members.end("first")
        members.wait(lambda: len({one[1:] for one in members.done}) == 4 * EACH)
    places = [one[1:] for one in members.done]
    assert len(places) == 4 * EACH, "each once: nothing was given up while it was at work"
    for partition in range(4):
        assert [offset for one, offset in places if one == partition] == list(range(EACH))
    assert [committed(kafka, topic, members.settings["group_id"], partition) for partition in range(4)] == [EACH] * 4


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_tasks_of_two_members_neither_lose_nor_repeat(embedded: Any, new_topic: Callable[..., str], protocol: str) -> None:
    topic = new_topic(embedded, partitions=4)
    for partition in range(4):
        write(embedded, topic, EACH, partition=partition)
    more = {} if protocol == "consumer" else {"heartbeat_interval_ms": 100}
    how = settings(embedded, stop_at_end=False, group_protocol=protocol, **more)
    done: list[tuple[str, int, int]] = []
    changed = asyncio.Condition()

    async def member(name: str, consumers: dict[str, Any]) -> None:
        async def handle(record: Any) -> None:
            await asyncio.sleep(0.003)  # A slow one.
            async with changed:
                done.append((name, record.partition, record.offset))
                changed.notify_all()

        async with aio.KafkaConsumer(**how) as consumer:
            consumers[name] = consumer
            consumer.subscribe([topic])
            with suppress(WakeupError):
                await consumer.process(handle, concurrency=4, ordering="partition")

    async def until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), changed:
            await changed.wait_for(holds)

    async def main() -> None:
        consumers: dict[str, Any] = {}
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(member("first", consumers))
            await until(lambda: len(done) > 20)
            tasks.create_task(member("second", consumers))
            await until(lambda: any(name == "second" for name, _, _ in done))
            consumers["first"].wakeup()
            await until(lambda: len(done) >= 4 * EACH)
            consumers["second"].wakeup()

    asyncio.run(main())
    for partition in range(4):
        assert [offset for _, one, offset in done if one == partition] == list(range(EACH))
    assert [committed(embedded, topic, how["group_id"], partition) for partition in range(4)] == [EACH] * 4


def test_a_consumer_that_is_dropped_with_its_records_ends_by_itself(embedded: Any, topic: str) -> None:
    write(embedded, topic, 3)
    consumer = reader(embedded, topic)
    thread = consumer._driver._thread
    kept = consumer.acks().poll(5)
    del consumer
    gc.collect()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    kept[0].ack()


def test_tasks_end_while_wait_empty_waits_and_other_records_could_be_handed_out(embedded: Any, topic: str) -> None:
    write(embedded, topic, 2, partition=0)

    async def main() -> None:
        async with aio.KafkaConsumer(**settings(embedded)) as consumer:
            consumer.assign(await consumer.partitions_for(topic))
            async with consumer.acks() as acks:
                (record,) = await acks.poll(PATIENCE_S, max_records=1)
                asyncio.get_running_loop().call_soon(record.ack)
                await acks.wait_empty(PATIENCE_S)
                assert [other.offset for other in await acks.poll(PATIENCE_S)] == [1]

    asyncio.run(main())
