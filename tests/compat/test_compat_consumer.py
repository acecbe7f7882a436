"""levada.compat.confluent_kafka.Consumer: what is committed, in which thread callbacks run, and how errors come."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import levada as lv
from levada.compat.confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    turns,
)
from levada.compat.confluent_kafka import commits as commits_module
from levada.compat.confluent_kafka import consumer as consumer_module
from levada.testing import EmbeddedKafka
from signal_kit import Strike, struck

PATIENCE_S = 20
MOMENTS = range(40)
"""More than there are in two calls."""
_names = count()


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=1, group_min_session_timeout_ms=500) as kafka:
        yield kafka


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> str:
    """A topic with the values 0 to 19 in its only partition."""
    name = f"topic-{next(_names)}"
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many(name, [b"%d" % number for number in range(20)])
    return name


def consumer_of(kafka: EmbeddedKafka, group: str, **more: Any) -> Consumer:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer(settings | {name.replace("_", "."): value for name, value in more.items()})


def read(consumer: Consumer, limit: int) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + 20
    while len(messages) < limit:
        assert time.monotonic() < deadline
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def committed(kafka: EmbeddedKafka, group: str, topic: str) -> int:
    with consumer_of(kafka, group) as consumer:
        return consumer.committed([TopicPartition(topic, 0)], timeout=10)[0].offset


CRASHING = """
import os, sys
from levada.compat.confluent_kafka import Consumer
servers, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest", "session.timeout.ms": 1000,
    "enable.auto.commit": False, "heartbeat.interval.ms": 200})
consumer.subscribe([topic])
seen = 0
while seen < 9:
    message = consumer.poll(1)
    if message is not None:
        seen += 1
        if seen == 7:
            consumer.commit(message, asynchronous=False)
os._exit(3)
"""


def test_after_a_crash_exactly_what_was_not_committed_comes_again(kafka: EmbeddedKafka, topic: str) -> None:
    crashed = subprocess.run([sys.executable, "-c", CRASHING, kafka.bootstrap_servers, topic], env=os.environ, timeout=60)
    assert crashed.returncode == 3
    with consumer_of(kafka, topic, session_timeout_ms=6000) as consumer:
        consumer.subscribe([topic])
        assert [message.value() for message in read(consumer, 13)] == [b"%d" % number for number in range(7, 20)]
        assert consumer.poll(0.2) is None


@pytest.mark.parametrize("taken", [1, 5])
def test_automatic_commits_are_about_messages_that_the_program_got(kafka: EmbeddedKafka, topic: str, taken: int) -> None:
    with consumer_of(kafka, topic) as consumer:
        consumer.subscribe([topic])
        read(consumer, taken)
    assert committed(kafka, topic, topic) == taken


def test_without_the_automatic_store_only_stored_offsets_are_committed(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic, enable_auto_offset_store=False, auto_commit_interval_ms=10) as consumer:
        consumer.subscribe([topic])
        messages = read(consumer, 6)
        with pytest.raises(KafkaException) as nothing:
            consumer.commit(asynchronous=False)
        assert nothing.value.args[0].code() == KafkaError._NO_OFFSET
        consumer.store_offsets(messages[2])
        consumer.store_offsets(offsets=[TopicPartition(topic, 0, 4)])
        with pytest.raises(KafkaException):
            consumer.store_offsets(offsets=[TopicPartition("another", 0, 4)])
    assert committed(kafka, topic, topic) == 4


def test_a_commit_without_arguments_is_about_all_messages_that_were_handed_out(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        read(consumer, 3)
        consumer.commit()
        found = consumer.commit(asynchronous=False)
        assert [(at.offset, at.error) for at in found or []] == [(3, None)]
    assert committed(kafka, topic, topic) == 3


def test_on_commit_is_called_within_poll(kafka: EmbeddedKafka, topic: str) -> None:
    told: list[tuple[str, Any, list[int]]] = []

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        told.append((threading.current_thread().name, error, [at.offset for at in partitions]))

    with consumer_of(kafka, topic, enable_auto_commit=False, on_commit=on_commit) as consumer:
        consumer.subscribe([topic])
        (message,) = read(consumer, 1)
        consumer.commit(message)
        time.sleep(0.3)
        assert not told
        deadline = time.monotonic() + 10
        while not told and time.monotonic() < deadline:
            consumer.poll(0.1)
    assert told == [(threading.current_thread().name, None, [1])]


def test_on_commit_is_called_between_messages_that_were_fetched_together(
    kafka: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_module, "_COMMITS_EVERY_S", 0)
    told: list[int] = []
    with consumer_of(kafka, topic, enable_auto_commit=False, on_commit=lambda _, at: told.append(at[0].offset)) as consumer:
        consumer.subscribe([topic])
        consumer.commit(read(consumer, 1)[0])
        deadline = time.monotonic() + 20
        while not consumer._client.metrics().value("commit-total"):
            assert time.monotonic() < deadline
        read(consumer, 3)
        assert told == [1]


@pytest.mark.parametrize("auto", [True, False])
def test_close_ends_although_brokers_do_not_answer(kafka: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch, auto: bool) -> None:
    monkeypatch.setattr(commits_module, "LEAVE_S", 0.5)
    consumer = consumer_of(kafka, topic, enable_auto_commit=auto, session_timeout_ms=1_000, heartbeat_interval_ms=100)
    consumer.subscribe([topic])
    read(consumer, 1)
    held = [kafka.faults.hold(api, times=1_000) for api in ("OffsetCommit", "LeaveGroup", "Heartbeat")]
    begun_s = time.monotonic()
    consumer.close()
    assert time.monotonic() - begun_s < 15, "a commit alone would wait for default.api.timeout.ms, a minute"
    for hold in held:
        hold.release()


def test_what_waits_for_the_program_at_close_finds_a_closed_consumer(kafka: EmbeddedKafka, topic: str) -> None:
    told: list[str] = []

    def report(error: KafkaError) -> None:
        told.append(error.name())
        with pytest.raises(RuntimeError, match="Consumer closed"):
            consumer.memberid()

    consumer = consumer_of(kafka, topic, error_cb=report, client_id=f"client-{topic}")
    about = {"kafka_client_id": f"client-{topic}", "kafka_address": "localhost:1"}
    logging.getLogger("levada.client").warning("connection refused", extra=about)
    consumer.close()
    assert told == ["_TRANSPORT"]


def test_other_threads_get_their_turn_while_poll_waits(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        messages = read(consumer, 20)
        took: list[float] = []

        def commit() -> None:
            began = time.monotonic()
            consumer.commit(messages[9], asynchronous=False)
            took.append(time.monotonic() - began)

        worker = threading.Timer(0.2, commit)
        worker.start()
        assert consumer.poll(1.5) is None
        worker.join()
    assert took[0] < 1
    assert committed(kafka, topic, topic) == 10


def test_a_signal_handler_that_raises_leaves_the_consumer_to_other_threads(kafka: EmbeddedKafka, topic: str) -> None:
    def calls(consumer: Consumer) -> None:
        consumer.assignment()
        consumer.poll(0)

    struck_at: list[int] = []
    for moment in MOMENTS:
        with consumer_of(kafka, topic) as consumer:
            try:
                with struck(moment, turns, contextlib):
                    calls(consumer)
            except Strike:
                struck_at.append(moment)
            # A thread that finds the lock taken would wait for ever, and so would the end of the test.
            other = threading.Thread(target=calls, args=(consumer,), daemon=True)
            other.start()
            other.join(PATIENCE_S)
            assert not other.is_alive(), f"struck at moment {moment}"
            calls(consumer)
    assert struck_at == list(range(len(struck_at))) != []


def test_records_that_were_fetched_but_not_handed_out_come_after_a_pause_and_a_seek(kafka: EmbeddedKafka, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with consumer_of(kafka, topic, enable_auto_commit=False) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert [message.offset() for message in read(consumer, 3)] == [0, 1, 2]
        consumer.pause([place])
        assert consumer.poll(0.2) is None
        assert consumer.position([place])[0].offset == 3
        consumer.resume([place])
        assert [message.offset() for message in read(consumer, 2)] == [3, 4]
        consumer.seek(TopicPartition(topic, 0, 17))
        assert consumer.position([place])[0].offset == OFFSET_INVALID
        assert [message.offset() for message in read(consumer, 3)] == [17, 18, 19]
        consumer.incremental_unassign([place])
        assert consumer.poll(0.1) is None
        with pytest.raises(KafkaException) as unknown:
            consumer.seek(place)
        assert unknown.value.args[0].code() == KafkaError._UNKNOWN_PARTITION


@pytest.mark.parametrize(("reset", "offsets"), [("earliest", [0, 1]), ("smallest", [0, 1]), ("latest", [])])
def test_a_seek_without_an_offset_goes_where_auto_offset_reset_says(
    kafka: EmbeddedKafka, topic: str, reset: str, offsets: list[int]
) -> None:
    with consumer_of(kafka, topic, enable_auto_commit=False, auto_offset_reset=reset) as consumer:
        consumer.assign([TopicPartition(topic, 0, 5)])
        consumer.commit(read(consumer, 3)[0], asynchronous=False)
        consumer.seek(TopicPartition(topic, 0))
        found = read(consumer, 2) if offsets else consumer.consume(1, 0.3)
        assert [message.offset() for message in found] == offsets


def test_a_seek_without_an_offset_fails_if_auto_offset_reset_names_no_end(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic, auto_offset_reset="error") as consumer:
        consumer.assign([TopicPartition(topic, 0, 5)])
        read(consumer, 3)
        with pytest.raises(KafkaException) as no_end:
            consumer.seek(TopicPartition(topic, 0))
        assert no_end.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET
        assert [message.offset() for message in read(consumer, 1)] == [8]


@pytest.mark.parametrize("subscribed", [False, True])
@pytest.mark.parametrize(("auto", "next_offset"), [(False, 0), (True, 3)])
def test_partitions_that_are_assigned_again_go_on_at_the_committed_offset(
    kafka: EmbeddedKafka, topic: str, subscribed: bool, auto: bool, next_offset: int
) -> None:
    with consumer_of(kafka, topic, enable_auto_commit=auto) as consumer:
        if subscribed:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, 0)])
        read(consumer, 3)
        consumer.assign([TopicPartition(topic, 0)])
        assert [message.offset() for message in read(consumer, 2)] == [next_offset, next_offset + 1]


def test_assign_commits_what_is_stored(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        read(consumer, 3)
        consumer.assign([TopicPartition(topic, 0, 9)])
        assert committed(kafka, topic, topic) == 3


def test_unsubscribe_keeps_the_partitions_of_assign(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        read(consumer, 3)
        consumer.unsubscribe()
        assert consumer.assignment() == [TopicPartition(topic, 0)]
        assert [message.offset() for message in read(consumer, 1)] == [3]
    assert committed(kafka, topic, topic) == 4


def test_the_end_of_a_partition_is_told_once_and_not_after_a_seek(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic, enable_partition_eof=True) as consumer:
        consumer.assign([TopicPartition(topic, 0, 18)])
        for _ in range(3):
            assert [message.offset() for message in read(consumer, 2)] == [18, 19]
            # The end may be known already, and has not been handed out.
            time.sleep(0.1)
            consumer.seek(TopicPartition(topic, 0, 18))
        assert [message.offset() for message in read(consumer, 2)] == [18, 19]
        ends = [message for _ in range(10) if (message := consumer.poll(0.2)) is not None]
        assert [message.error() == KafkaError._PARTITION_EOF for message in ends] == [True]


def test_on_assign_may_choose_where_to_begin(kafka: EmbeddedKafka, topic: str) -> None:
    def begin(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = 15
        consumer.assign(partitions)

    with consumer_of(kafka, topic) as consumer:
        consumer.subscribe([topic], on_assign=begin)
        assert [message.offset() for message in read(consumer, 5)] == [15, 16, 17, 18, 19]


def test_a_subscribed_consumer_may_leave_partitions_out(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        consumer.subscribe([topic])
        read(consumer, 4)
        with pytest.raises(KafkaException) as foreign:
            consumer.assign([TopicPartition("another", 0)])
        assert foreign.value.args[0].code() == KafkaError._STATE
        consumer.assign([TopicPartition(topic, 0, 18)])
        assert [message.offset() for message in read(consumer, 2)] == [18, 19]
        consumer.unassign()
        assert (consumer.assignment(), consumer.poll(0.2)) == ([], None)
    assert committed(kafka, topic, topic) == 20


def test_positions_pass_what_is_invisible(kafka: EmbeddedKafka) -> None:
    topic = f"topic-{next(_names)}"
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"seen")
        producer.begin_transaction()
        producer.send(topic, b"aborted").result(10)
        producer.abort_transaction()
    with consumer_of(kafka, topic, enable_partition_eof=True) as consumer:
        consumer.subscribe([topic])
        assert [message.value() for message in read(consumer, 1)] == [b"seen"]
        end = consumer.poll(5)
        assert end is not None
        assert end.error() == KafkaError(KafkaError._PARTITION_EOF)
        assert end.offset() == 4
        assert [at.offset for at in consumer.position([TopicPartition(topic, 0)])] == [4]
    assert committed(kafka, topic, topic) == 4


@pytest.mark.parametrize(
    "protocol", [{"partition.assignment.strategy": "cooperative-sticky"}, {"group.protocol": "consumer"}], ids=["cooperative", "KIP-848"]
)
def test_partitions_that_stay_go_on_in_a_cooperative_group(kafka: EmbeddedKafka, protocol: dict[str, str]) -> None:
    topic = f"topic-{next(_names)}"
    admin = lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers)
    admin.create_topics([lv.NewTopic(topic, 4, 1)])
    events: list[str] = []
    seen: list[bytes] = []

    def member(name: str) -> Consumer:
        def added(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            consumer.incremental_assign(partitions)
            events.append(f"{name}+{len(partitions)}")

        def taken(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            consumer.incremental_unassign(partitions)
            events.append(f"{name}-{len(partitions)}")

        config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest", **protocol}
        consumer = Consumer(config)
        consumer.subscribe([topic], on_assign=added, on_revoke=taken)
        return consumer

    first = member("first")
    while "first+4" not in events:
        first.poll(0.1)
    second = member("second")
    deadline = time.monotonic() + 30
    while "second+2" not in events and time.monotonic() < deadline:
        first.poll(0.05)
        second.poll(0.05)
    assert (len(first.assignment()), len(second.assignment())) == (2, 2), events
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for partition in range(4):
            producer.send(topic, b"%d" % partition, partition=partition)
    while len(seen) < 4 and time.monotonic() < deadline:
        seen += [message.value() for consumer in (first, second) for message in consumer.consume(4, 0.1)]
    first.close()
    second.close()
    admin.close()
    assert sorted(seen) == [b"0", b"1", b"2", b"3"]
    assert "first-2" in events


def test_a_rebalance_callback_that_raises_raises_from_poll(kafka: EmbeddedKafka, topic: str) -> None:
    def fail(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError

    with consumer_of(kafka, topic) as consumer:
        consumer.subscribe([topic], on_assign=fail)
        with pytest.raises(ZeroDivisionError):
            for _ in range(100):
                consumer.poll(0.2)


def test_a_position_that_is_not_there_is_an_error_once(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic, auto_offset_reset="error") as consumer:
        consumer.assign([TopicPartition(topic, 0, 5000)])
        message = next(found for _ in range(50) if (found := consumer.poll(0.2)) is not None)
        error = message.error()
        assert error is not None
        assert (message.topic(), message.partition(), error.code()) == (topic, 0, KafkaError._AUTO_OFFSET_RESET)
        assert consumer.poll(0.5) is None
        consumer.seek(TopicPartition(topic, 0, 19))
        assert [found.offset() for found in read(consumer, 1)] == [19]


def test_a_subscribed_topic_that_does_not_exist_is_an_error_once(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        consumer.subscribe([topic, "no-such-topic"])
        found = [message for _ in range(40) if (message := consumer.poll(0.1)) is not None]
    errors = [error for message in found if (error := message.error()) is not None]
    assert [error.code() for error in errors] == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert len(found) == 21


def test_handing_out_slowly_keeps_the_member_in_its_group(kafka: EmbeddedKafka, topic: str) -> None:
    lost: list[Any] = []
    limits = {"max_poll_interval_ms": 4000, "session_timeout_ms": 3500, "heartbeat_interval_ms": 200}
    with consumer_of(kafka, topic, **limits) as consumer:
        consumer.subscribe([topic], on_lost=lambda consumer, partitions: lost.append(partitions))
        read(consumer, 1)
        member = consumer.memberid()
        for _ in range(10):
            read(consumer, 1)
            time.sleep(0.5)
        assert (consumer.memberid(), lost) == (member, [])
    assert committed(kafka, topic, topic) == 11


def test_a_regular_expression_matches_the_beginning_of_names(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        consumer.subscribe([f"^{topic[:3]}.*{topic[-1]}$", "unused"])
        read(consumer, 20)
        assert topic in {at.topic for at in consumer.assignment()}


def test_nothing_subscribed_is_nothing_to_read(kafka: EmbeddedKafka) -> None:
    with consumer_of(kafka, "idle") as consumer:
        began = time.monotonic()
        assert consumer.poll(0.2) is None
        assert time.monotonic() - began >= 0.19
        assert consumer.consume(5, 0.1) == []
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        Consumer({"bootstrap.servers": kafka.bootstrap_servers})


def test_a_refused_login_reaches_error_cb() -> None:
    errors: list[str] = []
    with EmbeddedKafka(users={"user": "right"}) as kafka:
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": "user",
            "sasl.password": "wrong",
        }
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", **login}
        with Consumer({**settings, "error_cb": lambda error: errors.append(error.name())}) as consumer:
            consumer.subscribe(["t"])
            deadline = time.monotonic() + 10
            while len(errors) < 2 and time.monotonic() < deadline:
                assert consumer.poll(0.1) is None
            with pytest.raises(KafkaException) as refused:
                consumer.committed([TopicPartition("t", 0)], timeout=5)
    assert errors[:2] == ["_AUTHENTICATION", "_ALL_BROKERS_DOWN"]
    assert refused.value.args[0].code() == KafkaError._AUTHENTICATION


def test_wrong_arguments(kafka: EmbeddedKafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        wrong: list[Any] = ["t", None]
        with pytest.raises(TypeError):
            consumer.subscribe(wrong[0])
        with pytest.raises(TypeError):
            consumer.subscribe([topic], on_assign=wrong[0])
        with pytest.raises(TypeError):
            consumer.assign(wrong)
        with pytest.raises(KafkaException):
            consumer.assign([TopicPartition(topic, 0, -5000)])
        with pytest.raises(KafkaException):
            consumer.subscribe(["^["])
        with pytest.raises(ValueError):
            consumer.commit(Message(topic, 0, 1), [TopicPartition(topic, 0, 1)])
        with pytest.raises(ValueError):
            consumer.store_offsets()
