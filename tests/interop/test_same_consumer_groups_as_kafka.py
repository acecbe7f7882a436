"""M-P8: the embedded broker's consumer groups (KIP-848) answer as those of Kafka 4.4, field by field.

A scenario runs against both, request by request, and returns what was answered. Kafka may assign a moment after a change and looks at
patterns in the background, so a scenario waits for what a change leads to, and then compares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from group_kit import REBALANCE_MS, ConsumerGroupMember, GroupMember, assigned, assignment, protocols, subscription
from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_commit import OffsetCommitRequestPartition
from levada.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from levada.protocol.schema import Struct
from levada.testing import EmbeddedKafka
from wire import Wire

pytestmark = pytest.mark.kafka

PATIENCE_S = 20
POLL_S = 0.01
TOPIC = "same-consumer-groups"
LEFT_OUT = {"throttle_time_ms", "topic_id", "heartbeat_interval_ms", "error_message"}
GROUP_CONFIG = 32

Scenario = Callable[["Side"], list[Any]]


class Side:
    """One of the brokers that are compared, and a group there whose coordinator has been found."""

    def __init__(self, kafka: Any, group: str) -> None:
        self.group = group
        self.wire = Wire(kafka.bootstrap_servers)
        wait_until(lambda: not self.wire.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators[0].error_code)
        not_yet = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        wait_until(lambda: self.described_raw().error_code not in not_yet)

    def assign_at_once(self) -> None:
        """Kafka waits between two assignments of a group otherwise."""
        setting = AlterableConfig(name="consumer.assignment.interval.ms", value="0")
        resource = AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=self.group, configs=[setting])
        (answer,) = self.wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert not answer.error_code, answer

    def member(self, name: str, **options: Any) -> Member:
        return Member(self, f"{self.group}-{name}", **options)

    def described_raw(self) -> Any:
        (group,) = self.wire.ask(ConsumerGroupDescribeRequest(group_ids=[self.group]), 1).groups
        return group

    def described(self) -> Any:
        """The group, with how many partitions each member has and shall have: which ones is the assignor's choice."""
        return self.plain(self.described_raw())

    def plain(self, part: Any, name: str = "") -> Any:
        if isinstance(part, list) and name == "topic_partitions":
            return sorted(len(topic.partitions) for topic in part if topic.partitions)
        if isinstance(part, list):
            return sorted((self.plain(element, name) for element in part), key=repr)
        if isinstance(part, Struct):
            return {field.name: self.plain(getattr(part, field.name), field.name) for field in part.FIELDS if field.name not in LEFT_OUT}
        return ErrorCode(part).name if name == "error_code" else part

    def close(self) -> None:
        self.wire.close()


class Member(ConsumerGroupMember):
    """A member; all of a side share a connection, since no heartbeat waits."""

    def __init__(self, side: Side, name: str, **options: Any) -> None:
        super().__init__(side.group, name, **{"topics": [TOPIC], **options})
        self.side = side

    def asks(self, request: Any, version: int = 1) -> Any:
        return self.side.plain(self.side.wire.ask(request, version))

    def joins(self, version: int = 1, **fields: Any) -> Any:
        return self.side.plain(self.take(self.side.wire.ask(self.join(**fields), version)))

    def beats(self, **fields: Any) -> Any:
        return self.side.plain(self.take(self.side.wire.ask(self.owning(**fields), 1)))

    def commits(self, version: int = 9, **fields: Any) -> str:
        (topic,) = self.side.wire.ask(self.commit(TOPIC, 5, **fields), version).topics
        return ErrorCode(topic.partitions[0].error_code).name

    @property
    def numbers(self) -> list[int]:
        return sorted(number for _, number in self.has)


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


def settle(side: Side, *members: Member) -> Any:
    """Let members beat until all have what they shall have; return the group then."""

    def is_stable() -> bool:
        for member in members:
            member.beats()
        group = side.described_raw()
        return bool(group.group_state == "Stable" and {one.member_epoch for one in group.members} == {group.group_epoch})

    wait_until(is_stable)
    return side.described()


@pytest.fixture(scope="module")
def embedded_broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        yield kafka


def create_topic_once(kafka: Any, name: str, partitions: int) -> None:
    with Wire(kafka.bootstrap_servers) as wire:
        topic = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        if wire.ask(topic, 9).topics[0].error_code:
            kafka.create_topic(name, partitions)
        wait_until(lambda: not wire.ask(topic, 9).topics[0].error_code)


def served(side: Side) -> list[Any]:
    answer = side.wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    told: list[Any] = [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys if key.api_key in (68, 69)]
    told += [(one.min_version, one.max_version) for one in answer.supported_features if one.name == "group.version"]
    return told + [(one.min_version_level, one.max_version_level) for one in answer.finalized_features if one.name == "group.version"]


def refused_heartbeats(side: Side) -> list[Any]:
    member = side.member("m")
    cases: list[dict[str, Any]] = [
        {"member_id": ""},
        {"group_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"subscribed_topic_names": None},
        {"server_assignor": "mine"},
        {"subscribed_topic_regex": "("},
        {"subscribed_topic_regex": "(?=a)"},
        {"member_epoch": 1},
        {"member_epoch": 1, "member_id": ""},
        {"member_epoch": -1},
        {"member_epoch": -2},
        {"member_epoch": -2, "instance_id": "i"},
        {"member_epoch": -3},
    ]
    told = [member.asks(member.join(**case)) for case in cases]
    told += [side.described(), member.asks(member.join(member_id="", member_epoch=1), 0)]
    told += [member.joins()]
    wrong: list[dict[str, Any]] = [{"member_epoch": 9}, {"member_epoch": -1}, {"member_id": "nobody"}, {"instance_id": "i"}]
    told += [member.asks(member.beat(**case)) for case in wrong if case != {"member_epoch": -1}]
    return [*told, member.asks(member.beat(member_epoch=-1, member_id="nobody")), member.asks(member.leave()), side.described()]


def joining_sharing_and_leaving(side: Side) -> list[Any]:
    first, second = side.member("1"), side.member("2")
    told = [first.joins()["error_code"], settle(side, first), first.asks(first.beat()), first.asks(first.owning())]
    told += [first.asks(first.owning(rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=[TOPIC]))]
    told += [second.joins()["error_code"]]
    before = first.has
    wait_until(lambda: first.take(side.wire.ask(first.beat(), 1)).assignment is not None)
    told += [len(first.has), first.epoch, first.asks(first.owning(before)), second.beats(), side.described()]
    told += [first.beats(), settle(side, first, second)]
    told += [first.asks(first.beat(member_epoch=first.epoch - 1)), first.asks(first.owning(member_epoch=first.epoch - 1))]
    told += [first.asks(first.leave()), settle(side, second), second.asks(second.leave()), side.described()]
    return [*told, first.joins(member_epoch=0)["error_code"], settle(side, first)]


def changing_what_is_read(side: Side) -> list[Any]:
    member = side.member("m", topics=["no-such-topic"])
    early = side.member("early", topics=[])
    told = [early.joins(), side.described(), early.asks(early.leave()), side.described()]
    told += [member.joins(), side.described(), member.beats(subscribed_topic_names=[TOPIC])["error_code"], settle(side, member)]
    told += [member.beats(subscribed_topic_names=[])["error_code"], settle(side, member)]
    told += [member.beats(subscribed_topic_names=[TOPIC], server_assignor="range", rack_id="r")["error_code"], settle(side, member)]
    return told


def patterns(side: Side) -> list[Any]:
    member = side.member("m", topics=[])
    told = [member.joins(subscribed_topic_regex=f"{TOPIC[:-3]}.*")["error_code"]]

    def has_all() -> bool:
        member.beats()
        return len(member.has) == 4

    wait_until(has_all)
    (described,) = side.described()["members"]
    return [*told, described["subscribed_topic_regex"] == f"{TOPIC[:-3]}.*", described["target_assignment"], described["assignment"]]


def static_members(side: Side) -> list[Any]:
    static, other = side.member("1", instance="i"), side.member("2")
    told = [static.joins()["error_code"], other.joins()["error_code"], settle(side, static, other)]
    again = side.member("new", instance="i")
    told += [again.joins(), static.asks(static.join()), static.asks(static.leave(-2)), side.described()]
    told += [again.joins(), settle(side, again, other)]
    told += [static.asks(static.beat()), static.asks(static.leave()), other.asks(other.beat(instance_id="j"))]
    return [*told, again.asks(again.leave()), settle(side, other)]


def commits_and_fetches(side: Side) -> list[Any]:
    first, second = side.member("1"), side.member("2")
    first.joins()
    told = [settle(side, first)]
    had = first.epoch
    second.joins()
    told += [settle(side, first, second)]
    kept, given = first.numbers[0], second.numbers[0]
    nobody: dict[str, Any] = {"member_id": "", "generation_id_or_member_epoch": -1}
    told += [first.commits(partition=kept), first.commits(partition=given), first.commits(8)]
    stale: dict[str, Any] = {"generation_id_or_member_epoch": had}
    told += [first.commits(partition=kept, **stale), first.commits(partition=given, **stale), second.commits(partition=given, **stale)]
    told += [
        first.commits(generation_id_or_member_epoch=99),
        first.commits(member_id="x"),
        first.commits(**nobody),
        first.commits(8, **nobody),
    ]
    told += [first.commits(generation_id_or_member_epoch=-1), first.commits(generation_id_or_member_epoch=0)]
    told += [
        fetched(side, member_id=name, member_epoch=epoch) for name, epoch in ((first.id, first.epoch), (first.id, 99), ("x", 1), (None, -1))
    ]
    topics = [OffsetDeleteRequestTopic(name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    delete = OffsetDeleteRequest(group_id=side.group, topics=topics)
    told += [side.plain(side.wire.ask(delete, 0))]
    told += [member.asks(member.leave()) for member in (first, second)]
    return [*told, first.commits(**nobody), first.commits(), side.plain(side.wire.ask(delete, 0))]


def commits_while_giving_up(side: Side) -> list[Any]:
    """With an epoch that the member has left behind, of each partition and of all at once."""
    one, other = side.member("1"), side.member("2")
    one.joins()
    settle(side, one)
    since = one.epoch
    one.beats(subscribed_topic_names=[TOPIC, "no-such-topic"])
    told = [settle(side, one), one.epoch > since]
    other.joins()
    wait_until(lambda: one.take(side.wire.ask(one.beat(), 1)).assignment is not None)
    told += [one.commits(partition=partition, generation_id_or_member_epoch=since) for partition in range(4)]
    settle(side, one, other)
    parts = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=1) for partition in range(4)]
    request = one.commit(TOPIC, 1, generation_id_or_member_epoch=since)
    request.topics[0].partitions = parts
    told += [sorted(ErrorCode(part.error_code).name for part in side.wire.ask(request, 9).topics[0].partitions)]
    return told


def fetched(side: Side, **fields: Any) -> str:
    wanted = OffsetFetchRequestGroup(group_id=side.group, topics=None, **fields)
    (group,) = side.wire.ask(OffsetFetchRequest(groups=[wanted]), 9).groups
    return ErrorCode(group.error_code).name


def kinds_of_groups(side: Side) -> list[Any]:
    """Empty groups change their kind; what is listed, described and deleted."""
    classic, consumer = GroupMember(side.group), side.member("m")

    def listed() -> Any:
        return [side.plain(one) for one in side.wire.ask(ListGroupsRequest(), 5).groups if one.group_id == side.group]

    def listed_as(kind: str) -> Any:
        """Wait for it: Kafka answers a JoinGroup with MEMBER_ID_REQUIRED before it has written that the empty group changed its kind."""
        until_s = time.monotonic() + PATIENCE_S
        while (found := listed())[0]["group_type"] != kind and time.monotonic() < until_s:
            time.sleep(POLL_S)
        return found

    def told_of() -> list[Any]:
        as_classic = side.wire.ask(DescribeGroupsRequest(groups=[side.group]), 6).groups[0]
        return [listed(), (as_classic.error_code, as_classic.error_message, as_classic.group_state), side.described_raw().error_message]

    def delete() -> Any:
        return side.plain(side.wire.ask(DeleteGroupsRequest(groups_names=[side.group]), 2))

    told: list[Any] = [side.described(), *told_of(), side.plain(side.wire.ask(classic.commit(TOPIC, 5), 8)), *told_of()]
    told += [consumer.joins()["error_code"], settle(side, consumer), *told_of(), delete()]
    told += [side.plain(side.wire.ask(classic.heartbeat(member_id="x"), 4)), side.plain(side.wire.ask(classic.leave(5), 5))]
    told += [consumer.asks(consumer.leave()), listed(), fetched(side)]
    joined = classic.take(side.wire.ask(classic.join(), 9))
    told += [ErrorCode(joined.error_code).name, listed_as("classic")]
    told += [consumer.joins()["error_code"], settle(side, consumer)]
    removed = [MemberIdentity(member_id=one) for one in ("nobody", consumer.id)]
    told += [side.plain(side.wire.ask(classic.leave(5, members=removed), 5)), side.described()]
    return [*told, consumer.asks(consumer.leave()), delete(), *told_of()]


class ClassicMember(GroupMember):
    """A member of the classic protocol, that keeps what it has when it joins again."""

    def __init__(self, side: Side, **options: Any) -> None:
        super().__init__(side.group, **options)
        self.side = side
        self.has: list[int] = []

    def offer(self) -> None:
        self.offers = protocols("cooperative-sticky", metadata=subscription(TOPIC, owned={TOPIC: self.has}))

    def joins(self) -> Any:
        """What is told of a join, without the id that the broker gives."""
        self.offer()
        answer = self.side.wire.ask(self.join(), 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            answer = self.side.wire.ask(self.join(), 9)
        if not answer.error_code:
            self.take(answer)
        leads = answer.leader == self.id
        return (
            ErrorCode(answer.error_code).name,
            answer.generation_id,
            answer.protocol_type,
            answer.protocol_name,
            leads,
            len(answer.members),
            answer.skip_assignment,
        )

    def syncs(self, given: dict[str, bytes] | None = None) -> Any:
        answer = self.side.wire.ask(self.sync(given), 5)
        if not answer.error_code:
            self.has = assigned(answer.assignment).get(TOPIC, [])
        return ErrorCode(answer.error_code).name, answer.protocol_type, answer.protocol_name, len(self.has), answer.assignment[:2]

    def beats(self) -> str:
        return ErrorCode(self.side.wire.ask(self.heartbeat(), 4).error_code).name

    def follow(self) -> None:
        while self.beats() == "REBALANCE_IN_PROGRESS":
            self.joins()
            self.syncs()

    def commits(self) -> list[str]:
        """In its generation, in another one, and as nobody."""
        fields: list[dict[str, Any]] = [{}, {"generation_id_or_member_epoch": 99}, {"member_id": "", "generation_id_or_member_epoch": -1}]
        answers = [self.side.wire.ask(self.commit(TOPIC, 1, **told), 8) for told in fields]
        return [ErrorCode(answer.topics[0].partitions[0].error_code).name for answer in answers]

    def commits_as_in(self, generation: int, partition: int) -> str:
        answer = self.side.wire.ask(self.commit(TOPIC, 1, partition=partition, generation_id_or_member_epoch=generation), 8)
        return ErrorCode(answer.topics[0].partitions[0].error_code).name


def group_of_both(side: Side, classic: ClassicMember, consumer: Member) -> tuple[Any, ...]:
    """What is told of the group once all have what they shall have: kind, epoch, kinds of members, how much each has."""

    def is_stable() -> bool:
        classic.follow()
        consumer.beats()
        group = side.described_raw()
        return bool(group.group_state == "Stable" and {one.member_epoch for one in group.members} == {group.group_epoch})

    wait_until(is_stable)
    group = side.described_raw()
    return group.group_epoch, sorted(one.member_type for one in group.members), len(classic.has), len(consumer.has), classic.generation


def live_migration(side: Side) -> list[Any]:
    """A classic group gets a member of the new protocol, loses it again, and gets another one."""
    classic, consumer = ClassicMember(side), side.member("new")
    told: list[Any] = [classic.joins(), classic.syncs({classic.id: assignment(**{TOPIC: range(4)})}), classic.beats()]
    told += [consumer.joins()["error_code"], classic.beats(), classic.syncs(), classic.commits()]
    told += [group_of_both(side, classic, consumer), classic.commits(), classic.syncs(), classic.beats()]
    told += [classic.commits_as_in(1, partition) for partition in (classic.has[0], consumer.numbers[0])]
    unfit = ClassicMember(side, offers=protocols("range", metadata=subscription(TOPIC)))
    told += [ErrorCode(side.wire.ask(unfit.join(), 9).error_code).name]
    wrong_names: list[dict[str, Any]] = [{"generation_id": 99}, {"member_id": "x"}, {"member_id": consumer.id}]
    told += [ErrorCode(side.wire.ask(classic.heartbeat(**wrong), 4).error_code).name for wrong in wrong_names]
    told += [ErrorCode(side.wire.ask(classic.sync(protocol_name="range"), 5).error_code).name]
    told += [consumer.asks(consumer.leave()), side.described_raw().error_code, classic.beats()]
    told += [classic.joins(), classic.syncs({classic.id: assignment(**{TOPIC: range(4)})}), classic.beats()]
    consumer.epoch, consumer.has = 0, frozenset()
    told += [consumer.joins()["error_code"], group_of_both(side, classic, consumer)]
    left = side.wire.ask(classic.leave(5), 5)
    told += [[ErrorCode(one.error_code).name for one in left.members], settle(side, consumer)]
    return told


def static_members_that_change_their_protocol(side: Side) -> list[Any]:
    classic, other, consumer = ClassicMember(side, instance="i"), side.member("other"), side.member("new", instance="i")
    told: list[Any] = [classic.joins(), classic.syncs({classic.id: assignment(**{TOPIC: range(4)})})]
    told += [consumer.joins()["error_code"], len(settle(side, consumer)["members"]), len(consumer.has), classic.beats()]
    told += [other.joins()["error_code"], len(settle(side, consumer, other)["members"])]
    again = ClassicMember(side, instance="i")
    again.has = consumer.numbers
    told += [again.joins()[0], again.syncs()[0], len(again.has), again.beats(), consumer.beats()["error_code"]]
    return [*told, group_of_both(side, again, other)[1:4]]


SCENARIOS = [
    live_migration,
    static_members_that_change_their_protocol,
    served,
    refused_heartbeats,
    joining_sharing_and_leaving,
    changing_what_is_read,
    patterns,
    static_members,
    commits_and_fetches,
    commits_while_giving_up,
    kinds_of_groups,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_M_P8_G33_G34_G39_G40_as_kafka_44(kafka44: KafkaCluster, embedded_broker: EmbeddedKafka, scenario: Scenario) -> None:
    group = f"same-{uuid4().hex}"
    found = []
    for kafka in (kafka44, embedded_broker):
        create_topic_once(kafka, TOPIC, 4)
        side = Side(kafka, group)
        try:
            if kafka is kafka44:
                side.assign_at_once()
            found.append(scenario(side))
        finally:
            side.close()
    theirs, ours = found
    for at, (expected, got) in enumerate(zip(theirs, ours, strict=True)):
        assert got == expected, f"answer {at}"
