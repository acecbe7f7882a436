"""Members of a group, as users have them: both APIs, every broker, and the same programs for both protocols."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import EVERYWHERE, api_and_broker
from levada.errors import CommitFailedError, GroupError, UnsupportedVersionError
from told_listener import Told

PATIENCE_S = 40
FAST = {"retry_backoff_ms": 20, "auto_offset_reset": "earliest"}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200},
    "consumer": {"group_protocol": "consumer"},
}


HERE_AND_THERE = [param for param in EVERYWHERE if param.id in ("embedded", "asyncio-kafka-4.4.0", "simulation")]
"""Each kind of API and of broker once: such a test takes seconds."""


@pytest.fixture(params=EVERYWHERE)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    """The protocol of groups; Kafka 3.9 has but the classic one."""
    if request.param == "consumer" and request.node.callspec.params["kafka"][1] == "kafka39":
        pytest.skip("Kafka 3.9 has the classic protocol only")
    return str(request.param)


def consumer(kafka: Any, group: str, protocol: str, **settings: Any) -> Any:
    return lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, **{**FAST, **PROTOCOLS[protocol], **settings})


def test_topics_may_be_given_to_the_constructor(kafka: Any, new_topic: Any) -> None:
    topics = [new_topic(kafka), new_topic(kafka)]
    for topic in topics:
        produce(kafka, topic, [1], 1)
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": uuid4().hex, **FAST}
    with lv.KafkaConsumer(*topics, **settings) as member:
        assert member.subscription() == set(topics)
        found: list[Any] = []
        poll_until([member], lambda: len(found) == len(topics), found)
    mapping = {name.replace("_", "."): value for name, value in settings.items()}
    with lv.KafkaConsumer(mapping, topics[0]) as member:
        assert member.subscription() == {topics[0]}
    with pytest.raises(lv.errors.ConfigError, match=r"give a group\.id"):
        lv.KafkaConsumer(topics[0], **{**settings, "group_id": None})
    with pytest.raises(TypeError, match="a topic is named by a str, got 5"):
        lv.KafkaConsumer(topics[0], 5, **settings)  # type: ignore[arg-type]


def owned(member: Any) -> list[int]:
    return sorted(tp.partition for tp in member.assignment())


def poll_until(members: Iterable[Any], holds: Callable[[], bool], seen: list[Any] | None = None) -> None:
    """Let the members poll in turn until something holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, [(owned(member), member.group_metadata()) for member in members]
        for member in members:
            found = member.poll(0.05)
            if seen is not None:
                seen += found


def produce(kafka: Any, topic: str, values: Iterable[int], partitions: int) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value=b"%d" % value, partition=value % partitions)


def test_G12_G36_a_group_of_one_then_three_then_two(kafka: Any, protocol: str, new_topic: Callable[..., str]) -> None:
    topic, group = new_topic(kafka, partitions=6), f"g-{uuid4().hex}"
    produce(kafka, topic, range(60), 6)
    seen: list[Any] = []
    listeners = [Told(), Told(), Told()]
    first = consumer(kafka, group, protocol)
    members = [first]
    first.subscribe([topic], listeners[0])
    poll_until(members, lambda: len(seen) == 60, seen)
    assert owned(first) == [0, 1, 2, 3, 4, 5]
    assert first.subscription() == {topic}
    for listener in listeners[1:]:
        members.append(consumer(kafka, group, protocol))
        members[-1].subscribe([topic], listener)
    poll_until(members, lambda: [owned(member) for member in members].count([]) == 0 and sum(len(owned(one)) for one in members) == 6, seen)
    assert sorted(chain.from_iterable(owned(member) for member in members)) == [0, 1, 2, 3, 4, 5]
    assert {len(owned(member)) for member in members} == {2}
    poll_until(members, lambda: len({member.group_metadata().generation_id for member in members}) == 1, seen)
    assert len({member.group_metadata().member_id for member in members}) == 3
    produce(kafka, topic, range(60, 120), 6)
    poll_until(members, lambda: len(seen) == 120, seen)
    members.pop(1).close()
    poll_until(members, lambda: sum(len(owned(one)) for one in members) == 6 and {len(owned(one)) for one in members} == {3}, seen)
    produce(kafka, topic, range(120, 180), 6)
    poll_until(members, lambda: len(seen) == 180, seen)
    for member in members:
        member.close()
    assert sorted(int(record.value) for record in seen) == list(range(180))
    (_, taken), (what, given_up) = [(what, partitions) for what, partitions in listeners[0].heard if partitions][:2]
    assert taken == [0, 1, 2, 3, 4, 5]
    # The classic group of the default assignors is eager; in a consumer group only what goes to others is given up.
    assert what == "revoked"
    assert (len(given_up) == 6) == (protocol == "classic")
    assert listeners[1].heard[-1][0] == "revoked"
    assert "lost" not in {what for listener in listeners for what, _ in listener.heard}


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_G16_G18_G34_static_members_come_and_go(kafka: Any, protocol: str, new_topic: Callable[..., str]) -> None:
    topic, group = new_topic(kafka, partitions=4), f"g-{uuid4().hex}"
    produce(kafka, topic, range(40), 4)
    settings = {"client_rack": "r1"} | ({"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {})
    told = Told()
    seen: list[Any] = []
    first = consumer(kafka, group, protocol, group_instance_id="first", **settings)
    first.subscribe([topic], told)
    poll_until([first], lambda: len(seen) == 40, seen)
    second = consumer(kafka, group, protocol, group_instance_id="second", **settings)
    second.subscribe([topic])
    poll_until([first, second], lambda: len(owned(first)) == len(owned(second)) == 2, seen)
    # What stayed was never given up.
    assert [partitions for what, partitions in told.heard if what == "revoked"] == [owned(second)]
    held, generation = owned(second), first.group_metadata().generation_id
    second.close()
    again = consumer(kafka, group, protocol, group_instance_id="second", **settings)
    again.subscribe([topic])
    produce(kafka, topic, range(40, 80), 4)
    poll_until([first, again], lambda: len(seen) == 80 and owned(again) == held, seen)
    assert again.group_metadata().generation_id == first.group_metadata().generation_id == generation
    again.close(leave_group=True)
    poll_until([first], lambda: owned(first) == [0, 1, 2, 3], seen)
    first.close()
    assert sorted(int(record.value) for record in seen) == list(range(80))


MEMBER = """
import sys

import levada as lv

servers, group, topic = sys.argv[1:]
settings = {"group_id": group, "group_protocol": "consumer", "group_instance_id": "one"}
consumer = lv.KafkaConsumer(bootstrap_servers=servers, **settings)
consumer.subscribe([topic])
while not consumer.assignment():
    consumer.poll(0.1)
print("joined", flush=True)
while True:
    consumer.poll(1)
"""


@pytest.mark.kafka
def test_G37_a_static_member_goes_on_where_one_was_killed(
    kafka44: Any, new_topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    """The coordinator refuses it until the session of the process before has ended. In virtual time: tests/sim/test_consumer_groups.py."""
    topic, group, servers = new_topic(kafka44, partitions=2), f"g-{uuid4().hex}", kafka44.bootstrap_servers
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
        admin.incremental_alter_configs({("Group", group): {"consumer.session.timeout.ms": 3_000}})
    with subprocess.Popen([sys.executable, "-c", MEMBER, servers, group, topic], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "joined\n"
        process.kill()
    with consumer(kafka44, group, "consumer", group_instance_id="one") as again, caplog.at_level(logging.WARNING):
        again.subscribe([topic])
        poll_until([again], lambda: owned(again) == [0, 1])
        (text,) = [text for record in caplog.records if "group.instance.id 'one'" in (text := record.getMessage())]
        assert "for 3 s at most (consumer.session.timeout.ms of the group)" in text
        other = consumer(kafka44, group, "consumer", group_instance_id="one")
        other.subscribe([topic])
        with pytest.raises(GroupError, match=r"each member needs a group\.instance\.id of its own"):
            poll_until([again, other], lambda: False)
        other.close()
        assert owned(again) == [0, 1]


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_G14_G38_a_slow_program_is_left_behind_and_comes_back(kafka: Any, protocol: str, new_topic: Callable[..., str]) -> None:
    topic, group, told = new_topic(kafka, partitions=2), f"g-{uuid4().hex}", Told()
    slow = consumer(kafka, group, protocol, max_poll_interval_ms=1_000)
    slow.subscribe(pattern=f"{topic}.*", listener=told)
    poll_until([slow], lambda: owned(slow) == [0, 1])
    other = consumer(kafka, group, protocol)
    other.subscribe([topic])
    poll_until([other], lambda: owned(other) == [0, 1])
    with pytest.raises(CommitFailedError):
        slow.commit({lv.TopicPartition(topic, 0): 1})
    poll_until([slow, other], lambda: len(owned(slow)) == len(owned(other)) == 1)
    # A member of a consumer group may be told of an empty assignment first.
    assert [(what, partitions) for what, partitions in told.heard if partitions][:2] == [("assigned", [0, 1]), ("lost", [0, 1])]
    slow.close()
    other.close()


@pytest.mark.parametrize("kafka", HERE_AND_THERE, indirect=True)
def test_G34_G39_a_pattern_of_the_brokers_and_offsets_in_a_transaction(kafka: Any, new_topic: Callable[..., str]) -> None:
    topic, group = new_topic(kafka, partitions=2), f"g-{uuid4().hex}"
    produce(kafka, topic, range(8), 2)
    seen: list[Any] = []
    member = consumer(kafka, group, "consumer", enable_auto_commit=False)
    member.subscribe(pattern=lv.SubscriptionPattern(f"{topic[:-1]}."))
    poll_until([member], lambda: len(seen) == 8, seen)
    assert member.subscription() == {topic}
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=group) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction(member.consumed_offsets(), member.group_metadata())
        producer.commit_transaction()
    assert [at.offset for at in member.committed(member.assignment()).values() if at is not None] == [4, 4]
    member.close()


@pytest.mark.kafka
def test_G33_kafka_3_says_that_it_does_not_have_the_consumer_protocol(kafka39: Any, new_topic: Callable[..., str]) -> None:
    with consumer(kafka39, f"g-{uuid4().hex}", "consumer") as member:
        member.subscribe([new_topic(kafka39)])
        with pytest.raises(UnsupportedVersionError, match=r"group\.protocol=consumer needs Kafka 4\.0"):
            poll_until([member], lambda: False)


class Interrupted(Told):
    """Is hit by Ctrl-C, and commits the next time."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer: Any = None

    def on_partitions_revoked(self, partitions: list[lv.TopicPartition]) -> None:
        super().on_partitions_revoked(partitions)
        if len(self.heard) == 2:
            signal.raise_signal(signal.SIGINT)
        self.consumer.commit({tp: self.consumer.position(tp) for tp in partitions})


def test_O18_ctrl_c_within_a_listener_leaves_the_member_in_order(embedded: Any, new_topic: Callable[..., str]) -> None:
    topic, group, told = new_topic(embedded, partitions=2), f"g-{uuid4().hex}", Interrupted()
    produce(embedded, topic, range(8), 2)
    with consumer(embedded, group, "classic", enable_auto_commit=False) as member:
        told.consumer = member
        seen: list[Any] = []
        member.subscribe([topic], told)
        poll_until([member], lambda: len(seen) == 8, seen)
        member.enforce_rebalance()
        with pytest.raises(KeyboardInterrupt):
            poll_until([member], lambda: False)
        assert owned(member) == []
        poll_until([member], lambda: len(seen) == 16, seen)
        member.unsubscribe()
        assert {at.offset for at in member.committed([(topic, 0), (topic, 1)]).values() if at is not None} == {4}
    assert [what for what, _ in told.heard] == ["assigned", "revoked", "assigned", "revoked"]
