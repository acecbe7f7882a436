"""M-P8: the embedded broker's share groups (KIP-932) answer as those of Kafka 4.4, field by field.

A scenario runs against both, request by request, and returns what was answered. Kafka begins to keep the partitions of a group a moment
after its members have joined, so a scenario waits for what a change leads to, and then compares. Ranges of acquired records are joined
where they can be: how often a broker splits them is its own choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from group_kit import ConsumerGroupMember, GroupMember
from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from levada.testing import EmbeddedKafka
from share_kit import GAP, REJECT, RELEASE, RENEW, Got, Told, got
from share_side import GROUP_CONFIG, Side, wait_until
from transaction_kit import TransactionalProducer

pytestmark = pytest.mark.kafka

SET_FOR_TESTS = ("share.heartbeat.interval.ms", "share.assignment.interval.ms")
"""What a Kafka of tests has other defaults of, in kafka_cluster."""

Scenario = Callable[[Side], list[Any]]


def served(side: Side) -> list[Any]:
    answer = side.wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    served = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    told: list[Any] = [served[key] for key in (76, 77, 78, 79, 90, 91, 92)]
    told += [(one.min_version, one.max_version) for one in answer.supported_features if one.name == "share.version"]
    return told + [(one.min_version_level, one.max_version_level) for one in answer.finalized_features if one.name == "share.version"]


def refused_heartbeats(side: Side) -> list[Any]:
    member = side.member("m")
    cases: list[dict[str, Any]] = [
        {"member_id": ""},
        {"group_id": ""},
        {"rack_id": ""},
        {"member_epoch": -2},
        {"subscribed_topic_names": []},
        {"subscribed_topic_names": None},
        {"member_epoch": 7},
        {"member_epoch": -1},
        {"member_id": " "},
        {"member_id": "x" * 37},
    ]
    told = [member.asks(member.join(**case), 1) for case in cases]
    member.settles()
    wrong: list[dict[str, Any]] = [
        {"member_epoch": member.epoch + 1},
        {"member_epoch": -2},
        {"member_id": "nobody"},
        {"member_id": "nobody", "member_epoch": -1},
        {"rack_id": ""},
        {"subscribed_topic_names": []},
    ]
    told += [member.asks(member.beat(**case), 1)["error_code"] for case in wrong]
    return [*told, member.asks(member.leave(), 1), member.asks(member.leave(), 1)["error_code"]]


def joining_and_leaving(side: Side) -> list[Any]:
    first, second, third = (side.member(name) for name in "123")
    told: list[Any] = [{**first.joins(), "assignment": None, "member_epoch": 0}]
    first.settles()
    told += [first.asks(first.beat(), 1)["assignment"], first.asks(first.beat(subscribed_topic_names=first.topics), 1)["assignment"]]
    second.joins()
    second.settles(1)
    first.settles(1)
    told += [sorted(number for member in (first, second) for _, number in member.has)]
    told += [first.asks(first.leave(), 1)]
    second.settles(2)
    third.joins()
    third.settles(1)
    told += [second.asks(second.leave(), 1)]
    third.settles(2)
    told += [third.asks(third.beat(member_epoch=third.epoch - 1), 1)["error_code"]]
    return told


def acquiring_and_acknowledging(side: Side) -> list[Any]:
    side.produce(3, 2)
    member, other = side.member("m"), side.member("o")
    member.settles()
    told: list[Any] = [member.gets(), member.fetches(), member.acknowledges(Told(0, 1), Told(2, 3, (RELEASE, REJECT)))]
    told += [member.fetches(max_wait_ms=2_000), member.fetches(told={side.part(): [Told(2, 2), Told(4, 4, (GAP,))]}), member.fetches()]
    side.produce(1, 1)
    told += [member.fetches(max_wait_ms=2_000, max_records=1), other.fetches(parts=[side.part()], max_wait_ms=2_000)]
    told += [other.acknowledges(Told(5, 6)), other.acknowledges(Told(6, 7)), other.acknowledges(Told(7, 7)), other.acknowledges(Told(8, 9))]
    told += [
        other.acknowledges(Told(6, 6)),
        other.acknowledges(Told(6, 6)),
        member.acknowledges(Told(0, 5)),
        member.acknowledges(Told(0, 5)),
    ]
    return [*told, member.acknowledges(Told(7, 7)), member.fetches()]


def sessions(side: Side) -> list[Any]:
    side.produce(2)
    member, other = side.member("m"), side.member("o")
    told: list[Any] = []

    def tries(epoch: int, **fields: Any) -> None:
        answer = member.wire.ask(member.fetch([], share_session_epoch=epoch, **fields), 2)
        told.append((ErrorCode(answer.error_code).name, len(answer.responses)))

    member.settles()
    tries(1)
    tries(-1)
    told += [member.acknowledges(Told(0, 0), share_session_epoch=epoch) for epoch in (0, 1, -1)]
    cases: list[dict[str, Any]] = [
        {"told": {side.part(): [Told(0, 0)]}},
        {"member_id": ""},
        {"member_id": None},
        {"group_id": ""},
        {"group_id": "nobody"},
    ]
    for wrong in cases:
        told += [member.fetches(**{"parts": [], **wrong})]
        member.session_epoch = 0
    told += [member.gets()]
    tries(member.session_epoch + 1)
    told += [member.acknowledges(Told(0, 0), share_session_epoch=9)]
    told += [member.fetches(parts=[side.part(7), (UUID(int=7), 0)]), member.fetches()]
    told += [member.fetches(forgotten=[side.part(7), (UUID(int=7), 0)])]
    told += [member.acknowledges(Told(0, 0), part=7), member.acknowledges(Told(0, 0)), member.fetches(parts=[side.part()])]
    answer = member.wire.ask(member.fetch([side.part()], share_session_epoch=-1), 2)
    told += [ErrorCode(answer.error_code).name]
    answer = member.wire.ask(member.fetch([], told={side.part(): [Told(1, 1, (RELEASE,))]}, share_session_epoch=-1), 2)
    told += [side.plain(answer)]
    tries(-1)
    member.session_epoch = 0
    told += [other.gets(parts=[side.part()])]
    answer = other.wire.ask(other.acknowledge({}, share_session_epoch=-1), 2)
    return [*told, side.plain(answer), member.gets(parts=[side.part()])]


def what_cannot_be_acknowledged(side: Side) -> list[Any]:
    side.produce(10)
    member = side.member("m")
    member.settles()
    told: list[Any] = [member.gets()]
    wrong: list[Sequence[Told]] = [
        [Told(5, 4)],
        [Told(0, 4), Told(4, 5)],
        [Told(4, 5), Told(0, 1)],
        [Told(0, 4, ())],
        [Told(0, 4, (1, 1))],
        [Told(0, 0, (5,))],
        [Told(0, 0, (-1,))],
        [Told(0, 0, (RENEW,))],
        [Told(0, 4), Told(8, 12)],
        [Told(0, 1, (1, 9))],
    ]
    for case in wrong:
        told += [member.acknowledges(*case), member.fetches(told={side.part(): case})]
    told += [member.acknowledges(Told(0, 0, (RENEW,)), is_renew_ack=True), member.acknowledges(Told(0, 1, (RENEW, 1)), is_renew_ack=True)]
    told += [member.acknowledges(Told(2, 2), is_renew_ack=True), member.acknowledges(Told(3, 3), version=1)]
    told += [member.fetches(told={side.part(): [Told(0, 0, (RENEW,))]}, is_renew_ack=True)]
    nothing = {"min_bytes": 0, "max_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    told += [member.fetches(told={side.part(): [Told(0, 0, (RENEW,))]}, is_renew_ack=True, **nothing)]
    side.configure(share_renew_acknowledge_enable="false")
    # A Kafka broker follows a group's settings a moment after the controller has accepted them.
    wait_until(lambda: member.acknowledges(Told(0, 0, (RENEW,)), is_renew_ack=True) == ["INVALID_RECORD_STATE"])
    return [*told, member.acknowledges(Told(0, 9)), member.acknowledges(Told(4, 9)), member.fetches()]


def how_many_are_acquired(side: Side) -> list[Any]:
    side.produce(4, 4, 4, 4)
    member = side.member("m")
    member.settles()
    told: list[Any] = [member.gets(max_records=5), member.fetches(max_records=3, share_acquire_mode=1)]
    told += [member.fetches(max_records=3, share_acquire_mode=1), member.fetches(max_records=3, share_acquire_mode=1), member.fetches()]
    told += [member.acknowledges(Told(0, 15, (RELEASE,)))]
    told += [
        member.fetches(max_records=3, share_acquire_mode=1),
        member.fetches(max_records=1),
        member.fetches(max_records=2),
        member.fetches(),
    ]
    told += [member.fetches(max_records=0), member.acknowledges(Told(0, 15))]
    side.produce(6, 6, 6)
    answer = member.wire.ask(member.fetch(max_wait_ms=2_000, batch_size=7), 2)
    member.follow()
    told += [[(one.first_offset, one.last_offset) for one in answer.responses[0].partitions[0].acquired_records]]
    return told


def small_fetches(side: Side) -> list[Any]:
    side.produce(4, 4, 4)
    member = side.member("m")
    member.settles()
    told: list[Any] = [member.gets(max_bytes=1), member.fetches(max_bytes=0), member.fetches(max_bytes=0, max_wait_ms=10_000)]
    told += [member.fetches(max_records=0, max_wait_ms=10_000), member.fetches(told={side.part(): [Told(0, 3)]}, max_bytes=0)]
    told += [member.fetches(max_bytes=0, parts=[(side.topic_id, 9)]), member.fetches(forgotten=[(side.topic_id, 9)], max_bytes=0)]
    told += [member.fetches(max_bytes=150), member.fetches(min_bytes=10_000, max_wait_ms=100)]
    side.produce(1)
    return [*told, member.fetches(min_bytes=0, max_wait_ms=100), member.fetches(min_bytes=0), member.fetches(max_wait_ms=100)]


def records_that_fail_again_and_again(side: Side) -> list[Any]:
    side.produce(16, 1)
    member = side.member("m")
    member.settles()
    told: list[Any] = []
    given = member.gets()
    while given and len(told) < 40:
        told.append(given)
        assert member.acknowledges(*(Told(one.first, one.last, (RELEASE,)) for one in given)) == ["NONE"]
        (partition,) = member.fetches(max_wait_ms=200) or [(0, "", "", [], [])]
        given = partition[3]
    return told


def locks(side: Side) -> list[Any]:
    told: list[Any] = [side.configure(share_record_lock_duration_ms="1000")]
    side.produce(2, 2)
    member, other = side.member("m"), side.member("o")
    member.settles()
    answer = member.wire.ask(member.fetch(max_wait_ms=5_000, max_records=2), 2)
    member.follow()
    told += [answer.acquisition_lock_timeout_ms, got(answer.responses[0].partitions[0])]
    told += [other.fetches(parts=[side.part()], max_records=2), other.acknowledges(Told(2, 3)), other.fetches(max_wait_ms=5_000)]
    return [*told, member.acknowledges(Told(0, 1)), other.acknowledges(Told(0, 1))]


def ended_connections(side: Side) -> list[Any]:
    side.produce(2)
    member, other = side.member("m"), side.member("o")
    member.settles()
    told: list[Any] = [member.gets()]
    told += [other.fetches(parts=[side.part()])]
    member.wire.close()
    return [*told, other.gets()]


def kinds_of_groups(side: Side) -> list[Any]:
    """What becomes of a group's name that another kind of group has."""
    member, classic = side.member("m"), GroupMember(side.group)
    consumer = ConsumerGroupMember(side.group, "c", topics=[side.topic])

    def listed(**fields: Any) -> Any:
        return [side.plain(one) for one in side.wire.ask(ListGroupsRequest(**fields), 5).groups if one.group_id == side.group]

    def asked(request: Any, version: int) -> str:
        return ErrorCode(side.wire.ask(request, version).error_code).name

    told: list[Any] = [listed()]
    member.settles()
    told += [listed(), listed(types_filter=["Share"]), listed(types_filter=["consumer"]), listed(states_filter=["stable"])]
    told += [asked(consumer.join(), 1), asked(classic.join(), 9), asked(classic.join(member_id="x"), 9), asked(classic.heartbeat(), 4)]
    (topic,) = side.wire.ask(classic.commit(side.topic, 5), 9).topics
    told += [ErrorCode(topic.partitions[0].error_code).name, asked(classic.leave(5), 5), asked(classic.sync(), 5)]
    told += [member.asks(member.leave(), 1), listed(), asked(consumer.join(), 1), asked(classic.join(), 9)]
    return told


def committed_data(side: Side) -> list[Any]:
    """A transaction that is aborted, one that is committed, and one that is open, among plain records."""
    told: list[Any] = [side.configure(share_isolation_level="read_committed")]
    producer = TransactionalProducer(side.wire, side.group, topic=side.topic)  # type: ignore[arg-type]
    coordinator = FindCoordinatorRequest(key_type=1, coordinator_keys=[side.group])
    wait_until(lambda: not side.wire.ask(coordinator, 4).coordinators[0].error_code)
    wait_until(lambda: producer.init().code is ErrorCode.NONE)

    def write(*values: bytes) -> None:
        """Kafka answers CONCURRENT_TRANSACTIONS while it ends the transaction before."""
        wait_until(lambda: producer.write(*values) is ErrorCode.NONE)

    side.produce(1)
    write(b"1", b"2")
    told += [producer.abort()]
    write(b"3")
    told += [producer.commit()]
    side.produce(1)
    write(b"4")
    member = side.member("m")
    member.settles()
    given: list[Got] = []
    while sum(one.last - one.first + 1 for one in given) < 5:
        given += member.gets()
    told += [given, member.acknowledges(*(Told(one.first, one.last) for one in given)), member.fetches()]
    return [*told, producer.commit(), member.gets()]


def settings_of_groups(side: Side) -> list[Any]:
    def described(**fields: Any) -> Any:
        resource = DescribeConfigsResource(
            **{"resource_type": GROUP_CONFIG, "resource_name": side.group, "configuration_keys": None, **fields}
        )
        (result,) = side.wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results
        found = sorted((one.name, one.value, one.config_source, one.config_type) for one in result.configs)
        compared = [one for one in found if one[0].startswith(("share.", "errors.")) and one[0] not in SET_FOR_TESTS]
        return ErrorCode(result.error_code).name, compared

    def has(setting: str, expected: str) -> bool:
        return [value for name, value, *_ in described()[1] if name == setting] == [expected]

    wait_until(lambda: has("share.auto.offset.reset", "earliest"))
    told: list[Any] = [described()]
    for name, value in (
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.auto.offset.reset", "by_duration:soon"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "99"),
        ("share.partition.max.record.locks", "4001"),
        ("share.record.lock.duration.ms", "999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.session.timeout.ms", "1"),
        ("share.heartbeat.interval.ms", "15001"),
        ("share.isolation.level", "committed"),
        ("retention.ms", "1"),
    ):
        told += [(name, value, side.configure(**{name: value}))]
    told += [side.configure(share_isolation_level="read_committed")]
    wait_until(lambda: has("share.isolation.level", "read_committed"))
    return [*told, described(), described(resource_name="other"), described(configuration_keys=["share.auto.offset.reset"])]


def descriptions_and_offsets(side: Side) -> list[Any]:
    member = side.member("m")

    def described() -> Any:
        (group,) = side.wire.ask(ShareGroupDescribeRequest(group_ids=[side.group]), 1).groups
        return {**side.plain(group), "group_epoch": group.group_epoch == group.assignment_epoch, "assignment_epoch": 0}

    def offsets(version: int = 1, topics: Any = None) -> Any:
        """Kafka tells the start offset before the last acknowledgement, and the lag after it: only whether there is one is compared."""
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=side.group, topics=topics)
        answer = side.wire.ask(DescribeShareGroupOffsetsRequest(groups=[wanted]), version)
        for partition in [partition for group in answer.groups for topic in group.topics for partition in topic.partitions]:
            partition.start_offset = min(partition.start_offset, 0)
        return side.plain(answer.groups)

    def alter(*offsets: tuple[int, int], topic: str = side.topic) -> Any:
        parts = [AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset) for index, offset in offsets]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=parts)]
        return side.plain(side.wire.ask(AlterShareGroupOffsetsRequest(group_id=side.group, topics=topics), 0))

    def delete(*names: str) -> Any:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        return side.plain(side.wire.ask(DeleteShareGroupOffsetsRequest(group_id=side.group, topics=topics), 0))

    def delete_group() -> Any:
        return side.plain(side.wire.ask(DeleteGroupsRequest(groups_names=[side.group]), 2))

    told: list[Any] = [described(), offsets(), alter((0, 1)), delete(side.topic), delete_group()]
    side.produce(5)
    member.settles()
    epoch = member.epoch
    (one,) = described()["members"]
    told += [{**one, "member_epoch": one["member_epoch"] == epoch}, offsets()]
    told += [member.gets(parts=[side.part()]), offsets(), member.acknowledges(Told(0, 1), Told(3, 3)), offsets(), offsets(0)]
    some = [
        DescribeShareGroupOffsetsRequestTopic(topic_name=side.topic, partitions=[0]),
        DescribeShareGroupOffsetsRequestTopic(topic_name="no-such-topic", partitions=[0]),
    ]
    told += [offsets(topics=some), offsets(topics=[]), alter((0, 1)), delete(side.topic), delete_group()]
    told += [member.asks(member.leave(), 1), member.acknowledges(share_session_epoch=-1), described()]
    side.produce(5, partition=1)
    told += [alter((1, 3), (9, 0)), alter((0, 4), topic="no-such-topic"), offsets()]
    member.epoch = member.session_epoch = 0
    told += [member.asks(member.join(), 1)["error_code"]]
    member.settles()
    told += [member.gets(parts=[side.part(1)]), member.asks(member.leave(), 1), member.acknowledges(share_session_epoch=-1)]
    return [*told, delete("no-such-topic"), delete(side.topic), offsets(), delete_group(), described(), offsets(), delete_group()]


SCENARIOS = [
    served,
    refused_heartbeats,
    joining_and_leaving,
    acquiring_and_acknowledging,
    sessions,
    what_cannot_be_acknowledged,
    how_many_are_acquired,
    small_fetches,
    records_that_fail_again_and_again,
    locks,
    ended_connections,
    kinds_of_groups,
    committed_data,
    settings_of_groups,
    descriptions_and_offsets,
]


@pytest.fixture(scope="module")
def embedded_broker() -> Iterator[EmbeddedKafka]:
    # As a Kafka of tests has it.
    with EmbeddedKafka(group_share_min_record_lock_duration_ms=1000) as kafka:
        yield kafka


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_M_P8_share_groups_as_kafka_44(kafka44: KafkaCluster, embedded_broker: EmbeddedKafka, scenario: Scenario) -> None:
    group = f"same-{uuid4().hex[:8]}"
    found = []
    for kafka in (kafka44, embedded_broker):
        side = Side(kafka, group)
        try:
            found.append(scenario(side))
        finally:
            side.close()
    theirs, ours = found
    for at, (expected, gotten) in enumerate(zip(theirs, ours, strict=True)):
        assert gotten == expected, f"answer {at}"
