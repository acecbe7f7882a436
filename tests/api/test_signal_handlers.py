"""The program's own signal handlers while a call or an import defers them: in a child process, and around code of the user's in a call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from fork_kit import told_by_child
from levada.base.flow import CallerFlow, Until
from levada.base.promise import Promise
from levada.base.signals import DeferredSignals
from levada.testing import EmbeddedKafka

TP = lv.TopicPartition("t", 0)
PATIENCE_S = 20


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        yield kafka


@contextmanager
def handled(handle: Callable[[], object]) -> Iterator[None]:
    """Handle SIGUSR1."""
    before = signal.signal(signal.SIGUSR1, lambda number, frame: handle())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def strike() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")
QUIETLY = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@FORKS
@QUIETLY
def test_M_B19_a_child_that_another_thread_forks_during_a_call_has_the_programs_handlers(kafka: EmbeddedKafka) -> None:
    seen: list[int] = []
    told: list[str] = []

    def tell() -> str:
        strike()
        return f"{len(seen)} handled, deferred by {DeferredSignals._outermost}"

    def fork() -> None:
        time.sleep(0.2)
        told.append(told_by_child(tell))
        consumer.wakeup()

    with handled(lambda: seen.append(1)), lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign([TP])
        forking = threading.Thread(target=fork)
        forking.start()
        with pytest.raises(lv.errors.WakeupError):
            consumer.poll(PATIENCE_S)
        forking.join(PATIENCE_S)
    assert told == ["1 handled, deferred by None"]


@FORKS
@QUIETLY
def test_M_B19_what_was_noted_before_a_fork_is_the_parents(kafka: EmbeddedKafka) -> None:
    seen: list[int] = []

    def tell() -> str:
        signals.check()
        noted = len(seen)
        strike()
        signals.check()
        return f"{noted} noted by the parent, {len(seen)} handled"

    with handled(lambda: seen.append(1)):
        with DeferredSignals() as signals:
            strike()
            assert told_by_child(tell) == "0 noted by the parent, 1 handled"
            assert not seen
        assert len(seen) == 1


# Code of the user's within a call


class Strike(Exception):
    """What the handler raises."""


def raise_strike() -> None:
    raise Strike


def strike_and_go_on(seen: list[str]) -> None:
    """Be user code that a signal interrupts."""
    strike()
    seen.append("not interrupted")


def struck_once(seen: list[str]) -> Callable[[str, bytes | None, int], int]:
    """Return a partitioner that a signal interrupts when it is called first."""
    interrupted: list[bool] = []

    def choose(topic: str, key: bytes | None, count: int) -> int:
        if not interrupted:
            interrupted.append(True)
            strike_and_go_on(seen)
        return 0

    return choose


def own_partitioner(kafka: EmbeddedKafka, seen: list[str]) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, partitioner=struck_once(seen)) as producer:
        try:
            producer.send("t", b"struck")
        finally:
            assert producer.send("t", b"x").result(PATIENCE_S).partition == 0


def own_partitioner_of_rows(kafka: EmbeddedKafka, seen: list[str]) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, partitioner=struck_once(seen)) as producer:
        rows = pa.table({"v": [b"a", b"b"]})
        try:
            producer.send_arrow("t", rows, value="v")
        finally:
            assert producer.send_arrow("t", rows, value="v").result(PATIENCE_S) == (2, 0)


def own_data(kafka: EmbeddedKafka, seen: list[str]) -> None:
    schema = pa.schema([("v", pa.binary())])

    def data() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[b"a"]], schema=schema)
        strike_and_go_on(seen)
        yield pa.record_batch([[b"b"]], schema=schema)

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        try:
            producer.send_arrow("t", pa.RecordBatchReader.from_batches(schema, data()), value="v")
        finally:
            assert producer.send("t", b"x").result(PATIENCE_S).partition == 0


@pytest.mark.parametrize("use", [own_partitioner, own_partitioner_of_rows, own_data])
@pytest.mark.parametrize("error", [Strike, KeyboardInterrupt])
def test_a_handler_interrupts_user_code_within_a_call(
    kafka: EmbeddedKafka, use: Callable[[EmbeddedKafka, list[str]], None], error: type[BaseException]
) -> None:
    def handle() -> None:
        raise error

    seen: list[str] = []
    with handled(handle):
        before = signal.getsignal(signal.SIGUSR1)
        with pytest.raises(error):
            use(kafka, seen)
        assert signal.getsignal(signal.SIGUSR1) is before
    assert seen == []


def test_a_handler_runs_between_two_records_that_are_deserialized(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("read", 1)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            producer.send("read", b"%d" % number)
    seen: list[bytes] = []

    def read(value: bytes) -> bytes:
        seen.append(value)
        if value == b"4" and seen.count(value) == 1:
            strike()
        return value

    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "value_deserializer": read}
    with handled(raise_strike), lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, **settings) as consumer:
        consumer.assign([lv.TopicPartition("read", 0)])
        with pytest.raises(Strike):
            while True:
                consumer.poll(PATIENCE_S)
        assert seen[-1] == b"4"
        assert [record.value for record in consumer.poll(PATIENCE_S)] == [b"%d" % number for number in range(10)]


def test_a_second_signal_waits_while_a_call_follows_up_on_the_first(kafka: EmbeddedKafka) -> None:
    seen: list[str] = []

    def steps() -> CallerFlow[None]:
        strike()
        try:
            yield Until(Promise())
        finally:
            strike_and_go_on(seen)

    with handled(raise_strike), lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin, pytest.raises(Strike):
        admin._driver.call(steps())
    assert seen == ["not interrupted"]


FIRST_USE = """
import os, signal, sys

class Swallows:
    def find_spec(self, name, path, target=None):
        if name == LAST:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            except BaseException:
                pass

sys.meta_path.insert(0, Swallows())
try:
    USE
except KeyboardInterrupt:
    print("interrupted", LAST in sys.modules)
"""


@pytest.mark.parametrize(
    ("use", "last"),
    [
        ("import levada; levada.KafkaProducer", "levada.record.reader"),
        ("from levada.aio import KafkaProducer", "levada.record.reader"),
        ("from levada.testing import EmbeddedKafka", "levada.record.reader"),
        ("from levada.registry import SchemaRegistryClient", "levada.registry.client"),
        ("from levada.cli.application import load; load('produce')", "levada.cli.commands.produce"),
    ],
)
def test_ctrl_c_at_the_first_use_of_a_name_is_not_lost_in_a_module_that_swallows_it(use: str, last: str) -> None:
    # As the start of a compiled module does.
    program = FIRST_USE.replace("USE", use).replace("LAST", repr(last))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted True\n", done.stderr
