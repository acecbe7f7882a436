"""M-P8: the embedded broker's classic groups answer as those of Kafka 4.4 (the newer coordinator) and 3.9 (the older one), field by field.

A scenario runs against both, request by request, and returns what was answered. Member ids are numbered in the order in which they come up.
Where a request has to wait for others, the scenario waits for the state that it leads to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest

from group_kit import GroupMember, protocols, subscription
from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from levada.protocol.schema import Request, Struct
from levada.testing import EmbeddedKafka
from wire import Wire

pytestmark = pytest.mark.kafka

PATIENCE_S = 20
POLL_S = 0.005
TOPIC = "same-groups"
LEFT_OUT = {"throttle_time_ms", "topic_id", "error_message"}
MEMBER_FIELDS = {"member_id", "leader"}
GROUP_APIS = (8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47)

Scenario = Callable[["Side"], list[Any]]


class Side:
    """One of the brokers that are compared, and a group there whose coordinator has been found."""

    def __init__(self, kafka: Any, group: str) -> None:
        self._servers = kafka.bootstrap_servers
        self.group = group
        self._wires: list[Wire] = []
        self._ids: dict[str, int] = {}
        self.wire = self.connect()
        wait_until(lambda: not self.wire.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators[0].error_code)
        wait_until(lambda: self.state() not in ("", "loading"))
        topic = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        wait_until(lambda: not self.wire.ask(topic, 9).topics[0].error_code)

    def connect(self) -> Wire:
        wire = Wire(self._servers)
        self._wires.append(wire)
        return wire

    def member(self, **options: Any) -> Member:
        return Member(self, **options)

    def state(self) -> str:
        (group,) = self.wire.ask(DescribeGroupsRequest(groups=[self.group]), 5).groups
        return "loading" if group.error_code else str(group.group_state)

    def wait_for(self, state: str, *, members: int) -> None:
        """Wait until the group has a state and so many members, as whoever joins waits for its answer."""

        def is_there() -> bool:
            (group,) = self.wire.ask(DescribeGroupsRequest(groups=[self.group]), 5).groups
            return bool(group.group_state == state and len(group.members) == members)

        wait_until(is_there)

    def described(self, version: int = 5) -> Any:
        return self.plain(self.wire.ask(DescribeGroupsRequest(groups=[self.group]), version))

    def ask(self, request: Request, version: int) -> Any:
        return self.plain(self.wire.ask(request, version))

    def plain(self, part: Any, name: str = "") -> Any:
        """A response without what has to differ; lists in an order of their own, as Kafka's is that of its hash tables."""
        if isinstance(part, list):
            return sorted((self.plain(element, name) for element in part), key=repr)
        if isinstance(part, Struct):
            return {field.name: self.plain(getattr(part, field.name), field.name) for field in part.FIELDS if field.name not in LEFT_OUT}
        if name in MEMBER_FIELDS and part:
            return self._ids.setdefault(part, len(self._ids))
        if name == "error_code":
            return ErrorCode(part).name
        return part

    def close(self) -> None:
        for wire in self._wires:
            wire.close()


class Member(GroupMember):
    """A member with a connection of its own."""

    def __init__(self, side: Side, **options: Any) -> None:
        super().__init__(side.group, **options)
        self.side = side
        self.wire = side.connect()

    def ask(self, request: Request, version: int) -> Any:
        return self.side.plain(self.wire.ask(request, version))

    def begin(self, version: int = 9, **fields: Any) -> None:
        """Send a join; a new member asks for its id first."""
        if not self.id and self.instance is None and version >= 4:
            self.id = self.wire.ask(self.join(**fields), version).member_id
        self.wire.send(self.join(**fields), version)

    def joined(self) -> Any:
        return self.side.plain(self.take(self.wire.answer()))

    def joins(self, version: int = 9, **fields: Any) -> Any:
        self.begin(version, **fields)
        return self.joined()

    def alive(self, version: int = 4, **fields: Any) -> str:
        return ErrorCode(self.wire.ask(self.heartbeat(**fields), version).error_code).name

    def commits(self, version: int = 8, **fields: Any) -> str:
        (topic,) = self.wire.ask(self.commit(TOPIC, 5, **fields), version).topics
        return ErrorCode(topic.partitions[0].error_code).name


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


@pytest.fixture(scope="module")
def embedded_broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        yield kafka


def compare(real: Any, embedded: EmbeddedKafka, scenario: Scenario) -> None:
    group = f"same-{uuid4().hex}"
    found = []
    for kafka in (real, embedded):
        create_topic_once(kafka)
        side = Side(kafka, group)
        try:
            found.append(scenario(side))
        finally:
            side.close()
    theirs, ours = found
    for at, (expected, got) in enumerate(zip(theirs, ours, strict=True)):
        assert got == expected, f"answer {at}"


def create_topic_once(kafka: Any) -> None:
    with Wire(kafka.bootstrap_servers) as wire:
        topic = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        if wire.ask(topic, 9).topics[0].error_code:
            kafka.create_topic(TOPIC, 2)


def together(side: Side, *members: Member) -> list[Any]:
    """Let members become a stable group, of which the first one is the leader and is assigned b"0", the next b"1" and so on."""
    told = [members[0].joins()]
    for added, member in enumerate(members[1:], 2):
        member.begin()
        side.wait_for("PreparingRebalance", members=added)
        for known in members[: added - 1]:
            known.begin()
        told += [one.joined() for one in members[:added]]
    return [*told, *share(*members)]


def share(*members: Member) -> list[Any]:
    for member in members[1:]:
        member.wire.send(member.sync(), 5)
    members[0].wire.send(members[0].sync({member.id: b"%d" % at for at, member in enumerate(members)}), 5)
    return [member.side.plain(member.wire.answer()) for member in members]


# Joining


def served(side: Side) -> list[Any]:
    answer = side.wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    return sorted((key.api_key, key.min_version, key.max_version) for key in answer.api_keys if key.api_key in GROUP_APIS)


def every_version_of_a_first_join(side: Side) -> list[Any]:
    told: list[Any] = []
    for version in range(2, 10):
        member = side.member(offers=protocols("range", "mine", metadata=subscription(TOPIC)))
        member.group = f"{side.group}-{version}"
        told += [side.plain(member.take(member.wire.ask(member.join(), version)))]
        if version >= 4:
            told += [side.plain(member.take(member.wire.ask(member.join(), version)))]
        told += [member.ask(member.sync({member.id: b"a"}), min(version, 5)), member.alive(min(version, 4))]
        told += [member.ask(member.leave(min(version, 5)), min(version, 5)), member.alive(min(version, 4))]
    return told


def refused_joins(side: Side) -> list[Any]:
    member, other = side.member(), side.member()
    cases: Sequence[dict[str, Any]] = (
        {"session_timeout_ms": 5999},
        {"session_timeout_ms": 1_800_001},
        {"protocol_type": ""},
        {"protocols": []},
        {"protocol_type": "connect"},
        {"protocols": protocols("sticky")},
        {"group_id": ""},
        {"member_id": "nobody"},
        {"member_id": "nobody", "group_instance_id": "i"},
        {"group_id": "no-such-group", "member_id": "nobody"},
    )
    told = [other.ask(other.join(**case), 9) for case in cases if case.get("protocol_type") != "connect" and "sticky" not in repr(case)]
    told += together(side, member)
    told += [
        other.ask(other.join(**case), version) for case in cases for version in (3, 6, 9) if version > 4 or "group_instance_id" not in case
    ]
    return [*told, member.alive()]


def voting(side: Side) -> list[Any]:
    offers = [("a", "b", "c"), ("a", "c", "b"), ("c", "b")]
    members = [side.member(offers=protocols(*names)) for names in offers]
    return together(side, *members)


def joining_again(side: Side) -> list[Any]:
    """Unchanged and changed, leader and follower, before and after the assignment."""
    leader, follower = side.member(), side.member()
    told = together(side, leader, follower)
    told += [follower.joins(version) for version in (4, 6, 9)]
    follower.offers = protocols("range", metadata=b"changed")
    follower.begin()
    side.wait_for("PreparingRebalance", members=2)
    told += [leader.alive(), leader.ask(leader.sync(), 5), side.described()]
    leader.begin()
    told += [leader.joined(), follower.joined(), side.described()]
    told += [leader.alive(), follower.alive(), leader.joins(), follower.joins(), leader.commits(), leader.commits(5)]
    told += share(leader, follower)
    leader.begin()
    side.wait_for("PreparingRebalance", members=2)
    told += [follower.commits(), follower.alive(), follower.joins(), leader.joined()]
    follower.wire.send(follower.sync(), 5)
    leader.offers = protocols("range", metadata=b"changed too")
    leader.begin()
    told += [side.plain(follower.wire.answer()), follower.alive(), follower.joins(), leader.joined()]
    return [*told, *share(leader, follower), side.described(), side.described(0)]


def a_member_that_does_not_come_back(side: Side) -> list[Any]:
    """It is removed when the rebalance has waited long enough, and so is one that never asks for its assignment."""
    first, second = side.member(), side.member()
    told = [first.joins(rebalance_timeout_ms=300)]
    second.begin(rebalance_timeout_ms=300)
    side.wait_for("CompletingRebalance", members=1)
    told += [second.joined(), first.alive(), second.ask(second.sync({second.id: b"x"}), 5)]
    first.id = ""
    first.begin(rebalance_timeout_ms=300)
    side.wait_for("PreparingRebalance", members=2)
    second.begin(rebalance_timeout_ms=300)
    told += [second.joined(), first.joined(), second.ask(second.sync({second.id: b"y"}), 5)]
    wait_until(lambda: second.alive() != "NONE")
    return [*told, second.alive(), first.alive(), side.described()]


def requests_out_of_place(side: Side) -> list[Any]:
    """Wrong generations, members, groups and protocols."""
    member, other = side.member(), side.member()
    told: list[Any] = []
    wrong_names: Sequence[dict[str, Any]] = ({}, {"group_id": ""}, {"member_id": "nobody"})
    for fields in wrong_names:
        told += [member.alive(**fields), member.ask(member.sync(**fields), 5), member.ask(member.leave(2, **fields), 2)]
    told += [member.ask(member.leave(5), 5), member.ask(member.leave(5, group_id=""), 5)]
    told += together(side, member)
    for wrong in ({"generation_id": 0}, {"generation_id": -1}, {"member_id": "nobody"}, {"group_instance_id": "i"}, {"member_id": ""}):
        told += [member.alive(**wrong), member.ask(member.sync(**wrong), 5)]
    told += [member.ask(member.sync(protocol_type=kind), 5) for kind in ("connect", "consumer")]
    told += [member.ask(member.sync(protocol_name=name), 5) for name in ("sticky", "range")]
    told += [member.ask(member.sync({member.id: b"another"}), 5)]
    other.id = other.wire.ask(other.join(), 9).member_id
    other.generation = member.generation
    return [*told, other.alive(), other.ask(other.sync(), 5), other.ask(other.leave(5), 5), member.alive()]


def leaving(side: Side) -> list[Any]:
    one, two, three = side.member(), side.member(instance="i"), side.member()
    told = together(side, one, two, three)
    gone = [
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="j"),
        MemberIdentity(member_id="nobody", group_instance_id=None),
        MemberIdentity(member_id=one.id, group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id=None),
    ]
    told += [side.ask(LeaveGroupRequest(group_id=side.group, members=gone), version) for version in (3, 4, 5)]
    told += [two.alive(), one.alive(), three.ask(three.leave(0), 0), three.ask(three.leave(1), 1), side.described()]
    told += [one.joins(), one.ask(one.leave(5), 5), side.described(), one.alive(), one.ask(one.join(), 9)]
    return [*told, side.member().joins()]


# Static members


def static_members_in_a_stable_group(side: Side) -> list[Any]:
    leader, follower = side.member(instance="a"), side.member(instance="b")
    told = together(side, leader, follower)
    for version, instance in ((5, "b"), (9, "b"), (5, "a"), (9, "a")):
        again = side.member(instance=instance)
        told += [again.joins(version), again.ask(again.sync(), 5), again.alive(), side.described()]
    told += [ErrorCode(leader.wire.ask(leader.join(), 9).error_code).name, leader.alive(), leader.ask(leader.sync(), 5)]
    return [*told, leader.commits(), leader.ask(leader.leave(5), 5)]


def static_members_that_change(side: Side) -> list[Any]:
    """With other metadata, and with another assignor so that the choice changes."""
    leader, follower = (
        side.member(instance="a", offers=protocols("range", "sticky")),
        side.member(instance="b", offers=protocols("range", "sticky")),
    )
    told = together(side, leader, follower)
    again = side.member(instance="b", offers=protocols("range", "sticky", metadata=b"changed"))
    again.begin()
    told += [again.joined(), side.described()]
    changed = side.member(instance="b", offers=protocols("sticky"))
    changed.begin()
    side.wait_for("PreparingRebalance", members=2)
    told += [leader.alive()]
    return [*told, leader.joins(), changed.joined()]


def static_members_during_a_rebalance(side: Side) -> list[Any]:
    leader, follower = side.member(instance="a"), side.member()
    told = together(side, leader, follower)
    leader.begin()
    side.wait_for("PreparingRebalance", members=2)
    again = side.member(instance="a")
    again.begin()
    told += [side.plain(leader.wire.answer()), follower.joins(), again.joined()]
    follower.wire.send(follower.sync(), 5)
    third = side.member(instance="a")
    third.begin()
    told += [side.plain(follower.wire.answer()), follower.joins(), third.joined()]
    return [*told, *share(third, follower)]


# Offsets and administration


def commits(side: Side) -> list[Any]:
    member = side.member()
    nobody: dict[str, Any] = {"member_id": "", "generation_id_or_member_epoch": -1}
    told: list[Any] = [member.commits(version, generation_id_or_member_epoch=3) for version in (2, 8, 9)]
    told += together(side, member)
    told += [member.commits(version) for version in range(2, 10)]
    for wrong in (
        nobody,
        {"generation_id_or_member_epoch": 7},
        {"member_id": "x"},
        {"generation_id_or_member_epoch": -1},
        {"member_id": ""},
    ):
        told += [member.commits(version, **wrong) for version in (2, 9)]
    told += [member.commits(8, group_instance_id="i")]
    told += [fetched(side, member_id=name, member_epoch=epoch) for name, epoch in ((member.id, 1), ("x", 1), (None, -1), (member.id, 9))]
    told += [deleted(side, TOPIC), member.ask(member.leave(5), 5), member.commits(8), member.commits(8, **nobody)]
    return [*told, member.commits(8, **{**nobody, "member_id": "x"}), deleted(side, TOPIC), fetched(side)]


def fetched(side: Side, **fields: Any) -> Any:
    wanted = OffsetFetchRequestGroup(group_id=side.group, topics=None, **fields)
    return side.ask(OffsetFetchRequest(groups=[wanted]), 9)


def deleted(side: Side, *topics: str) -> Any:
    wanted = [OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]) for name in topics]
    return side.ask(OffsetDeleteRequest(group_id=side.group, topics=wanted), 0)


def deleting_offsets(side: Side) -> list[Any]:
    """Of topics that are subscribed, that are not, and of a group whose subscriptions cannot be read."""
    told: list[Any] = [deleted(side, TOPIC)]
    readable, unreadable = (protocols("range", metadata=data) for data in (subscription("other"), b"?"))
    for offers in (protocols("range", metadata=subscription(TOPIC)), readable, unreadable):
        member = side.member(offers=offers)
        told += [*together(side, member), deleted(side, TOPIC, "no-such-topic"), member.ask(member.leave(5), 5), deleted(side, TOPIC)]
    other = side.member()
    other.group = side.group = f"{side.group}-connect"
    other.begin(protocol_type="connect")
    return [*told, other.joined(), deleted(side, TOPIC), other.ask(other.leave(5), 5), deleted(side, TOPIC)]


def listing_and_deleting_groups(side: Side) -> list[Any]:
    member = side.member(offers=protocols("range", metadata=b"m"), instance="i")

    def listed(version: int, **filters: Any) -> Any:
        answer = side.wire.ask(ListGroupsRequest(**filters), version)
        return [side.plain(one) for one in answer.groups if one.group_id == side.group]

    def delete(version: int) -> Any:
        return side.ask(DeleteGroupsRequest(groups_names=[side.group, "no-such-group"]), version)

    told: list[Any] = [listed(4), delete(2), side.ask(DescribeGroupsRequest(groups=["no-such-group"]), 5)]
    told += together(side, member)
    told += [listed(version) for version in range(6)] + [side.described(version) for version in range(6)]
    told += [listed(4, states_filter=states) for states in (["Stable"], ["stable"], ["Empty", "STABLE"], ["Nonsense"], ["Empty"])]
    told += [listed(5, types_filter=types) for types in (["classic"], ["Classic"], ["consumer"])]
    told += [delete(version) for version in (0, 1, 2)]
    told += [
        member.commits(),
        member.ask(member.leave(5), 5),
        listed(5),
        side.described(),
        fetched(side),
        delete(2),
        listed(5),
        fetched(side),
    ]
    return [*told, member.alive(), delete(2)]


def a_pending_member(side: Side) -> list[Any]:
    """A rebalance waits for ids that were given out; one that leaves is waited for no more."""
    leader, pending = side.member(), side.member()
    told = together(side, leader)
    told += [side.plain(pending.take(pending.wire.ask(pending.join(), 9)))]
    leader.begin()
    side.wait_for("PreparingRebalance", members=1)
    told += [pending.alive(), pending.ask(pending.leave(5), 5), leader.joined(), pending.ask(pending.join(), 9)]
    return told


ON_BOTH = [
    every_version_of_a_first_join,
    refused_joins,
    voting,
    static_members_in_a_stable_group,
    static_members_that_change,
    static_members_during_a_rebalance,
    listing_and_deleting_groups,
    a_pending_member,
]
ON_THE_NEWER = [
    served,
    joining_again,
    a_member_that_does_not_come_back,
    requests_out_of_place,
    leaving,
    commits,
    deleting_offsets,
]
"""The older coordinator forgets assignments while it rebalances, deletes empty groups at once, and knows older versions of requests."""


@pytest.mark.parametrize("scenario", [*ON_BOTH, *ON_THE_NEWER], ids=lambda scenario: scenario.__name__)
def test_M_P8_G23_to_G32_as_kafka_44(kafka44: KafkaCluster, embedded_broker: EmbeddedKafka, scenario: Scenario) -> None:
    compare(kafka44, embedded_broker, scenario)


@pytest.mark.parametrize("scenario", ON_BOTH, ids=lambda scenario: scenario.__name__)
def test_M_P8_G23_to_G32_as_kafka_39(kafka39: KafkaCluster, embedded_broker: EmbeddedKafka, scenario: Scenario) -> None:
    compare(kafka39, embedded_broker, scenario)
