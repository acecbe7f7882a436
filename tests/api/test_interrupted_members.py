"""Members of groups whose program is interrupted: nothing that it should hear of is lost, and nobody waits for a session to end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from levada.base.flow import CallerFlow
from levada.consumer.group.assignors.ranges import RangeAssignor
from levada.testing import EmbeddedKafka

PATIENCE_S = 20
PARTITIONS = 2


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", PARTITIONS)
        yield kafka


class Strike(KeyboardInterrupt):
    """What the handler of the signal raises."""


@contextmanager
def striking() -> Iterator[None]:
    def handle(number: int, frame: object) -> None:
        raise Strike

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def strike() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def striking_after(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with one signal behind its first call."""
    struck: list[bool] = []

    def call(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        if not struck:
            struck.append(True)
            strike()
        return result

    return call


def member(kafka: EmbeddedKafka, **settings: Any) -> Any:
    return lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, **{"group_id": uuid4().hex, **settings})


def joined(one: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(one.assignment()) < PARTITIONS and time.monotonic() < deadline:
        one.poll(0.1)


def members_left(kafka: EmbeddedKafka, group_id: str) -> int:
    return kafka._call(lambda: sum(len(group.members) for group in kafka.node._state.groups if group.id == group_id))


def wait_until_left(kafka: EmbeddedKafka, group_id: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while members_left(kafka, group_id) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert members_left(kafka, group_id) == 0


def test_O18_a_signal_just_before_a_listener_is_called_does_not_keep_it_from_hearing(kafka: EmbeddedKafka) -> None:
    heard: list[str] = []

    with striking(), member(kafka) as one:
        caller = one._consuming.subscribing.caller

        def steps() -> CallerFlow[None]:
            strike()
            yield from caller.call(lambda: heard.append("called"), "on_partitions_assigned")

        with pytest.raises(Strike):
            one._driver.call(steps())
    assert heard == ["called"]


def test_O18_ctrl_c_in_an_assignor_comes_out_once_the_listener_has_heard(kafka: EmbeddedKafka) -> None:
    class Interrupted(RangeAssignor):
        on_assignment = staticmethod(striking_after(lambda assignment, generation: None))

    heard: list[lv.TopicPartition] = []
    with striking(), member(kafka, partition_assignment_strategy=[Interrupted()]) as one:
        one.subscribe(["t"], on_assigned=heard.extend)
        with pytest.raises(Strike):
            one.poll(PATIENCE_S)
        assert len(heard) == PARTITIONS
        assert one.assignment() == set(heard)


def test_O18_a_signal_as_subscribe_ends_does_not_lose_the_listener(kafka: EmbeddedKafka) -> None:
    heard: list[lv.TopicPartition] = []
    with striking(), member(kafka) as one:
        core = one._consuming.core
        core.subscribe = striking_after(core.subscribe)
        with pytest.raises(Strike):
            one.subscribe(["t"], on_assigned=heard.extend)
        assert one.subscription() == {"t"}
        joined(one)
        assert len(heard) == PARTITIONS


def test_O13_a_signal_just_before_a_callback_leaves_it_for_the_next_call(kafka: EmbeddedKafka) -> None:
    told: list[Any] = []
    with striking(), member(kafka) as one:
        one.commit_async({lv.TopicPartition("t", 0): 1}, lambda offsets, error: told.append(error))
        commits = one._consuming.core.commits
        while not commits._made[0].done.done:
            time.sleep(0.01)
        commits.over = striking_after(commits.over)
        with pytest.raises(Strike):
            one.commit({lv.TopicPartition("t", 1): 1})
        assert told == []
        one.commit({lv.TopicPartition("t", 1): 1})
        assert told == [None]


def test_F27_what_a_signals_handler_raises_as_a_dead_letter_is_sent_comes_out(kafka: EmbeddedKafka) -> None:
    class Alarm(Exception):
        """An error like any other, as that of a test's time limit."""

    def raise_alarm(number: int, frame: object) -> None:
        raise Alarm

    topic, dead = (str(kafka.create_topic(name) and name) for name in (uuid4().hex, uuid4().hex))
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, b"bad")
        producer.send(topic, b"1").result(PATIENCE_S)
        producer.send = striking_after(producer.send)  # type: ignore[method-assign]
        letter = lv.DeadLetter(producer, dead)
        before = signal.signal(signal.SIGUSR1, raise_alarm)
        try:
            with member(kafka, value_deserializer=int, on_decode_error=letter, auto_offset_reset="earliest") as one:
                one.assign([lv.TopicPartition(topic, 0)])
                with pytest.raises(Alarm):
                    while not one.poll(PATIENCE_S):
                        pass
                found: list[Any] = []
                while not found:
                    found += one.poll(PATIENCE_S)
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert [record.value for record in found] == [1]
    assert kafka.end_offset(dead) == 1


def test_what_a_signals_handler_raises_as_a_rejected_record_is_sent_comes_out_of_acks(kafka: EmbeddedKafka) -> None:
    class Alarm(Exception):
        """An error like any other, as that of a test's time limit."""

    def raise_alarm(number: int, frame: object) -> None:
        raise Alarm

    topic, dead = (str(kafka.create_topic(name) and name) for name in (uuid4().hex, uuid4().hex))
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, b"bad").result(PATIENCE_S)
        producer.send = striking_after(producer.send)  # type: ignore[method-assign]
        before = signal.signal(signal.SIGUSR1, raise_alarm)
        try:
            with member(kafka, auto_offset_reset="earliest") as one:
                one.assign([lv.TopicPartition(topic, 0)])
                with one.acks(dead_letter=lv.DeadLetter(producer, dead)) as acks:
                    (record,) = acks.poll(PATIENCE_S)
                    record.reject("bad")
                    with pytest.raises(Alarm):
                        acks.wait_empty(PATIENCE_S)
                    acks.wait_empty(PATIENCE_S)
                one.commit()
                assert one.position(lv.TopicPartition(topic, 0)) == 1, "it is done, and not handed out again"
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert kafka.end_offset(dead) >= 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_G15_a_close_that_is_broken_off_leaves_the_group_all_the_same(kafka: EmbeddedKafka, protocol: str) -> None:
    one = member(kafka, group_protocol=protocol)
    group_id = one.group_metadata().group_id
    one.subscribe(["t"])
    joined(one)
    for tp in one.assignment():
        one.position(tp)  # There is nothing to commit before.
    held = kafka.faults.hold("OffsetCommit")
    with striking():
        commits = one._consuming.core.commits
        commits.at_close = striking_after(commits.at_close)
        with pytest.raises(Strike):
            one.close()
    held.release()
    wait_until_left(kafka, group_id)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_G15_a_callback_that_raises_in_close_does_not_keep_the_member_in_its_group(kafka: EmbeddedKafka, protocol: str) -> None:
    def fail(offsets: object, error: object) -> None:
        raise ZeroDivisionError

    one = member(kafka, group_protocol=protocol)
    group_id = one.group_metadata().group_id
    one.subscribe(["t"])
    joined(one)
    one.commit_async({lv.TopicPartition("t", 0): 0}, fail)
    with pytest.raises(ZeroDivisionError):
        one.close()
    assert members_left(kafka, group_id) == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_G15_a_member_that_is_dropped_leaves_its_group_and_commits_nothing(kafka: EmbeddedKafka, protocol: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("t", b"v", partition=0)
    one = member(kafka, group_protocol=protocol, auto_offset_reset="earliest", auto_commit_interval_ms=3_600_000)
    group_id = one.group_metadata().group_id
    one.subscribe(["t"])
    while not one.poll(PATIENCE_S):
        pass
    del one
    gc.collect()
    wait_until_left(kafka, group_id)
    assert kafka.node.cluster.group_offsets.committed(group_id, lv.TopicPartition("t", 0)) is None


PROGRAM = """
import sys
import levada as lv
member = lv.KafkaConsumer(bootstrap_servers=sys.argv[1], group_id=sys.argv[2])
member.subscribe(["t"])
while not member.assignment():
    member.poll(0.1)
"""


def test_G15_a_program_that_ends_without_close_leaves_its_group(kafka: EmbeddedKafka) -> None:
    group_id = uuid4().hex
    subprocess.run([sys.executable, "-c", PROGRAM, kafka.bootstrap_servers, group_id], check=True, timeout=60)
    assert members_left(kafka, group_id) == 0
