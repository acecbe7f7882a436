"""KafkaAdmin looks at groups, deletes them and removes their members: both APIs, every broker, both protocols."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from altered_answers import altered
from api_kit import BOTH_APIS, EVERYWHERE, SimulatedKafka, api_and_broker
from group_kit import GroupMember, assignment, protocols
from levada.broker.apis.groups import find_coordinator
from levada.error_codes import ErrorCode
from levada.errors import (
    BrokerError,
    CrashedError,
    GroupAuthorizationError,
    GroupError,
    KafkaError,
    ProtocolError,
    TimeoutError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from levada.protocol.messages import consumer_group_describe, delete_groups, describe_groups, leave_group, share_group_describe
from levada.testing import EmbeddedKafka, Simulation
from levada.types import TopicPartition
from share_kit import ShareMember

PATIENCE_S = 40
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200, "partition_assignment_strategy": "range"},
    "consumer": {"group_protocol": "consumer"},
}
ON_GROUPS = {lv.AclOperation.READ, lv.AclOperation.DELETE, lv.AclOperation.DESCRIBE}
SINCE_KAFKA_4 = {lv.AclOperation.DESCRIBE_CONFIGS, lv.AclOperation.ALTER_CONFIGS}


@pytest.fixture(params=EVERYWHERE)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def admin(kafka: Any) -> Iterator[Any]:
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    """The protocol of groups; Kafka 3.9 has but the classic one."""
    if request.param == "consumer" and request.node.callspec.params["kafka"][1] == "kafka39":
        pytest.skip("Kafka 3.9 has the classic protocol only")
    return str(request.param)


def new_group() -> str:
    return f"g-{uuid4().hex}"


def consumer(kafka: Any, group: str, protocol: str, **settings: Any) -> Any:
    told: dict[str, Any] = {"group_id": group, "retry_backoff_ms": 20, "client_id": "reader", "enable_auto_commit": False}
    return lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, **told, **PROTOCOLS[protocol], **settings)


def poll_until(members: Iterable[Any], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, [member.assignment() for member in members]
        for member in members:
            member.poll(0.05)


def test_X3_X6_X8_a_group_is_listed_described_emptied_and_deleted(
    kafka: Any, admin: Any, protocol: str, new_topic: Callable[..., str]
) -> None:
    topic, group = new_topic(kafka, partitions=2), new_group()
    both = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    with consumer(kafka, group, protocol) as member:
        member.subscribe([topic])
        poll_until([member], lambda: member.assignment() == both)
        kind = lv.GroupType.CLASSIC if protocol == "classic" else lv.GroupType.CONSUMER
        listing = lv.GroupListing(group, kind, "consumer", lv.GroupState.STABLE)
        assert listing in admin.list_groups()
        assert listing in admin.list_groups(types=[kind], states=["stable"], protocol_types=["consumer", ""])
        assert listing not in admin.list_groups(states=["Empty"])
        assert listing not in admin.list_groups(types=["Share"])
        assert listing not in admin.list_groups(protocol_types=["connect"])

        described = admin.describe_consumer_groups([group])[group]
        assert (described.group_id, described.type, described.state) == (group, kind, lv.GroupState.STABLE)
        assert not described.is_simple_consumer_group
        assert described.authorized_operations is None
        assert described.coordinator_id in {node.id for node in admin.describe_cluster().nodes}
        (found,) = described.members
        assert found.member_id == member.group_metadata().member_id
        assert (found.client_id, found.group_instance_id, found.assignment) == ("reader", None, both)
        if protocol == "classic":
            assert described.partition_assignor == "range"
            assert (described.group_epoch, found.target_assignment, found.member_epoch, found.upgraded) == (None, None, None, None)
            classic = admin.describe_classic_groups([group])[group]
            assert (classic.protocol_type, classic.protocol_data, classic.members) == ("consumer", "range", (found,))
        else:
            assert described.partition_assignor == "uniform"
            assert described.group_epoch == described.target_assignment_epoch == found.member_epoch
            assert (found.target_assignment, found.upgraded) == (both, True)
            with pytest.raises(GroupError, match=rf"describe classic group '{group}': there is no such group, or it is of another type"):
                admin.describe_classic_groups([group])
        asked = admin.describe_consumer_groups([group], include_authorized_operations=True)[group]
        assert asked.authorized_operations in (ON_GROUPS, ON_GROUPS | SINCE_KAFKA_4)

        with pytest.raises(GroupError, match=f"delete group '{group}'") as failed:
            admin.delete_consumer_groups([group])
        assert failed.value.code is ErrorCode.NON_EMPTY_GROUP
        member.commit({TopicPartition(topic, 0): 5})
    assert admin.list_consumer_group_offsets({group: None}) == {group: {TopicPartition(topic, 0): lv.OffsetAndMetadata(5, -1, "")}}
    assert admin.describe_consumer_groups([group])[group].state is lv.GroupState.EMPTY

    missing = new_group()
    with pytest.raises(GroupError, match=f"delete group '{missing}'") as failed:
        admin.delete_consumer_groups([missing, group])
    assert failed.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert failed.value.outcomes == {missing: failed.value, group: None}
    assert group not in {listed.group_id for listed in admin.list_groups()}
    with pytest.raises(GroupError, match=f"describe consumer group '{group}': there is no such group") as failed:
        admin.describe_consumer_groups([group])
    assert failed.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert admin.list_consumer_group_offsets({group: [TopicPartition(topic, 0)]}) == {group: {TopicPartition(topic, 0): None}}


def test_X6_a_group_that_only_has_offsets_is_a_simple_one(kafka: Any, admin: Any, new_topic: Callable[..., str]) -> None:
    group, other, tp = new_group(), new_group(), TopicPartition(new_topic(kafka), 0)
    admin.alter_consumer_group_offsets(group, {tp: 3})
    admin.alter_consumer_group_offsets(other, {tp: lv.OffsetAndMetadata(4, 1, "mine")})
    described = admin.describe_consumer_groups([group])[group]
    assert described.is_simple_consumer_group
    assert (described.type, described.state, described.members) == (lv.GroupType.CLASSIC, lv.GroupState.EMPTY, ())
    assert lv.GroupListing(group, lv.GroupType.CLASSIC, "", lv.GroupState.EMPTY) in admin.list_groups(protocol_types=[""])
    found = admin.list_consumer_group_offsets({group: None, other: [tp]}, require_stable=True)
    assert found == {group: {tp: lv.OffsetAndMetadata(3)}, other: {tp: lv.OffsetAndMetadata(4, 1, "mine")}}


def test_X5_static_members_are_removed_by_their_instance_ids(kafka: Any, admin: Any, protocol: str, new_topic: Callable[..., str]) -> None:
    topic, group = new_topic(kafka, partitions=2), new_group()
    with consumer(kafka, group, protocol, group_instance_id="a") as first, consumer(kafka, group, protocol) as second:
        for member in (first, second):
            member.subscribe([topic])
        poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 1)
        first.close()
        ids = [member.group_instance_id for member in admin.describe_consumer_groups([group])[group].members]
        assert sorted(map(str, ids)) == ["None", "a"]
        with pytest.raises(GroupError, match=f"remove member 'b' of group '{group}'") as failed:
            admin.remove_members_from_consumer_group(group, ["b", "a"], reason="maintenance")
        assert failed.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert failed.value.outcomes == {"b": failed.value, "a": None}
        poll_until([second], lambda: len(second.assignment()) == 2)
        admin.remove_members_from_consumer_group(group)
        assert admin.describe_consumer_groups([group])[group].state is lv.GroupState.EMPTY


def test_X3_X6_a_share_group_is_listed_described_and_deleted(
    kafka: Any, admin: Any, new_topic: Callable[..., str], request: pytest.FixtureRequest
) -> None:
    topic, group = new_topic(kafka, partitions=2), new_group()
    if request.node.callspec.params["kafka"][1] == "kafka39":
        with pytest.raises(UnsupportedVersionError, match="ShareGroupDescribe"):
            admin.describe_share_groups([group])
        return
    member = ShareMember(group, "reader-id-of-22-letters", topics=[topic])
    both = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert admin.list_consumer_group_offsets(group) == {}, "which has the brokers find who coordinates the group"
    deadline = time.monotonic() + PATIENCE_S
    heartbeat = member.join()
    while not member.has:
        # A coordinator that has just begun is loading, and assigns a moment later.
        answer = admin.request(heartbeat, node="controller")
        if answer.error_code == ErrorCode.NONE:
            member.take(answer)
            heartbeat = member.beat()
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    assert lv.GroupListing(group, lv.GroupType.SHARE, "share", lv.GroupState.STABLE) in admin.list_groups(types=["share"])
    described = admin.describe_share_groups([group], include_authorized_operations=True)[group]
    assert (described.group_id, described.state) == (group, lv.GroupState.STABLE)
    assert described.group_epoch == described.target_assignment_epoch > 0
    assert described.authorized_operations == ON_GROUPS | SINCE_KAFKA_4
    (found,) = described.members
    assert (found.member_id, found.member_epoch, found.assignment) == (member.id, member.epoch, both)
    for describe in (admin.describe_consumer_groups, admin.describe_classic_groups):
        with pytest.raises(GroupError, match="there is no such group, or it is of another type"):
            describe([group])
    admin.request(member.leave(), node="controller")
    assert admin.describe_share_groups([group])[group].state is lv.GroupState.EMPTY
    admin.delete_consumer_groups([group])
    with pytest.raises(GroupError, match=f"describe share group '{group}': there is no such group"):
        admin.describe_share_groups([group])


def test_X8_offsets_of_a_share_group_are_altered_listed_and_deleted(
    kafka: Any, admin: Any, new_topic: Callable[..., str], request: pytest.FixtureRequest
) -> None:
    topic, group = new_topic(kafka, partitions=2), new_group()
    first, second, missing = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition("no-such-topic", 0)
    if request.node.callspec.params["kafka"][1] == "kafka39":
        with pytest.raises(UnsupportedVersionError, match="DescribeShareGroupOffsets"):
            admin.list_share_group_offsets({group: None})
        return
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0).result(PATIENCE_S)
    with pytest.raises(GroupError, match=f"delete the offsets of share group '{group}' for topic '{topic}'"):
        admin.delete_share_group_offsets(group, [topic])
    with pytest.raises(UnknownTopicOrPartitionError, match=f"alter the offset of share group '{group}' for {missing}") as failed:
        admin.alter_share_group_offsets(group, {missing: 1, first: 4})
    assert failed.value.outcomes == {missing: failed.value, first: None}
    admin.alter_share_group_offsets(group, {first: 4})
    where = lv.SharePartitionOffset(4, 0, 6)
    assert admin.list_share_group_offsets({group: None}) == {group: {first: where}}
    assert admin.list_share_group_offsets({group: [first, second]}) == {group: {first: where, second: None}}
    with pytest.raises(UnknownTopicOrPartitionError) as failed:
        admin.delete_share_group_offsets(group, [topic, missing.topic])
    assert failed.value.outcomes == {topic: None, missing.topic: failed.value}
    assert admin.list_share_group_offsets({group: [first]}) == {group: {first: None}}


# What no broker makes different


@pytest.fixture(params=BOTH_APIS)
def cheap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def cheap_admin(cheap: Any) -> Iterator[Any]:
    with lv.KafkaAdmin(bootstrap_servers=cheap.bootstrap_servers) as admin:
        yield admin


def test_X6_a_group_whose_members_are_no_consumers_is_described_as_a_classic_group(cheap_admin: Any) -> None:
    group = new_group()
    member = GroupMember(group, offers=protocols("sessioned", metadata=b"not what consumers say"))
    joined = cheap_admin.request(member.join(protocol_type="connect"), node="controller", version=3)
    member.take(joined)
    cheap_admin.request(member.sync({member.id: b"\x00\x07 work"}), node="controller", version=3)
    described = cheap_admin.describe_classic_groups([group])[group]
    assert (described.protocol_type, described.protocol_data, described.state) == ("connect", "sessioned", lv.GroupState.STABLE)
    assert [(one.member_id, one.assignment) for one in described.members] == [(member.id, frozenset())]
    assert described in cheap_admin.describe_classic_groups([group], include_authorized_operations=False).values()
    listed = cheap_admin.list_groups(protocol_types=["connect"])
    assert lv.GroupListing(group, lv.GroupType.CLASSIC, "connect", lv.GroupState.STABLE) in listed
    with pytest.raises(GroupError, match="its members are of type 'connect'; use describe_classic_groups") as failed:
        cheap_admin.describe_consumer_groups([group])
    assert failed.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_X6_an_assignment_that_is_none_costs_its_group_alone(cheap_admin: Any) -> None:
    bad, good = new_group(), new_group()
    for group, data in ((bad, b"\x00\x00\x00\x00\x00\x09"), (good, assignment(t=[0, 3]))):
        member = GroupMember(group)
        member.take(cheap_admin.request(member.join(), node="controller", version=3))
        cheap_admin.request(member.sync({member.id: data}), node="controller", version=3)
    with pytest.raises(ProtocolError) as failed:
        cheap_admin.describe_consumer_groups([bad, good])
    assert failed.value.outcomes == {bad: failed.value, good: None}
    (found,) = cheap_admin.describe_consumer_groups([good])[good].members
    assert found.assignment == {TopicPartition("t", 0), TopicPartition("t", 3)}


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda admin: admin.list_groups(types=["Strange"]), ValueError, "'Strange' is no type of a group; they are Classic, Consumer"),
        (lambda admin: admin.list_groups(states="Stable"), TypeError, r"write \['Stable'\]"),
        (lambda admin: admin.list_groups(protocol_types=[5]), TypeError, "expected a list of protocol types, each a str; got 5"),
        (lambda admin: admin.describe_consumer_groups("g"), TypeError, r"write \['g'\]"),
        (lambda admin: admin.delete_consumer_groups([""]), TypeError, "group ids, each a str that is not empty"),
        (lambda admin: admin.remove_members_from_consumer_group("g", "a"), TypeError, r"write \['a'\]"),
        (lambda admin: admin.remove_members_from_consumer_group("g", reason=5), TypeError, "a reason is text"),
        (lambda admin: admin.list_consumer_group_offsets({"": None}), TypeError, "a group is named by a str"),
        (lambda admin: admin.list_share_group_offsets("g"), TypeError, "expected a mapping of a group's id to its partitions"),
        (lambda admin: admin.list_consumer_group_offsets({"g": "t"}), TypeError, r"\[TopicPartition\('t', 0\)\]"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(call: Any, error: type[Exception], text: str) -> None:
    with lv.KafkaAdmin(bootstrap_servers="127.0.0.1:1") as admin, pytest.raises(error, match=text):
        call(admin)


# What only a broker with faults shows, or with others beside it


@pytest.fixture
def broker() -> Iterator[tuple[SimulatedKafka, Any]]:
    """One broker in virtual time with a group g that has an offset for t-0, and an admin."""
    with Simulation(seed=1) as simulation:
        kafka = SimulatedKafka(simulation)
        kafka.create_topic("t", 1)
        admin = simulation.admin(bootstrap_servers=kafka.bootstrap_servers)
        admin.alter_consumer_group_offsets("g", {TopicPartition("t", 0): 1})
        yield kafka, admin


CALLS: dict[str, Callable[[Any], Any]] = {
    "ListGroups": lambda admin: admin.list_groups(),
    "ConsumerGroupDescribe": lambda admin: admin.describe_consumer_groups(["g"]),
    "DescribeGroups": lambda admin: admin.describe_classic_groups(["g"]),
    "ShareGroupDescribe": lambda admin: admin.describe_share_groups(["s"]),
    "DescribeShareGroupOffsets": lambda admin: admin.list_share_group_offsets({"s": None}),
    "AlterShareGroupOffsets": lambda admin: admin.alter_share_group_offsets("s", {TopicPartition("t", 0): 0}),
    "DeleteShareGroupOffsets": lambda admin: admin.delete_share_group_offsets("s", ["t"]),
    "DeleteGroups": lambda admin: admin.delete_consumer_groups(["g"]),
    "LeaveGroup": lambda admin: admin.remove_members_from_consumer_group("g", ["a"]),
    "OffsetFetch": lambda admin: admin.list_consumer_group_offsets({"g": None, "h": None}),
}
TRIED_AGAIN = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
ANOTHER_WAY = {"ConsumerGroupDescribe": {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}}
"""Codes that mean that the group is to be asked about as a classic one."""


@pytest.mark.parametrize("api", [api for api in CALLS if api != "OffsetFetch"])
def test_M_B7_every_code_of_the_calls_about_groups(broker: tuple[SimulatedKafka, Any], api: str) -> None:
    kafka, admin = broker
    for code in ErrorCode:
        if code is ErrorCode.NONE:
            continue
        kafka.node.faults.fail_next(api, code)
        with suppress(GroupError) if code in TRIED_AGAIN | ANOTHER_WAY.get(api, set()) else pytest.raises(BrokerError) as failed:
            CALLS[api](admin)
        assert failed is None or failed.value.code is code
        admin.alter_consumer_group_offsets("g", {TopicPartition("t", 0): 1})


@pytest.mark.parametrize("api", CALLS)
def test_X2_a_coordinator_of_groups_that_moved_is_looked_for_again(broker: tuple[SimulatedKafka, Any], api: str) -> None:
    kafka, admin = broker
    faults = kafka.node.faults
    admin.describe_consumer_groups(["g"])
    searches = faults.requests["FindCoordinator"]
    faults.fail_next(api, ErrorCode.NOT_COORDINATOR)
    faults.disconnect(api, nth=1, applied=False)
    with suppress(GroupError):
        CALLS[api](admin)
    assert faults.requests[api] >= 3
    assert api == "ListGroups" or faults.requests["FindCoordinator"] > searches


def _emptied(answer: Any) -> None:
    """Leave out everything that was asked about."""
    for name in vars(answer) if hasattr(answer, "__dict__") else answer.__slots__:
        if isinstance(found := getattr(answer, name), list):
            found.clear()


def _about_others(answer: Any) -> None:
    """Name groups, members and topics that nobody has asked about, which are to be asked about again."""
    _emptied(answer)
    code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    strangers: dict[str, tuple[str, Any]] = {
        "ConsumerGroupDescribeResponse": ("groups", consumer_group_describe.DescribedGroup(group_id="x", error_code=code)),
        "DescribeGroupsResponse": ("groups", describe_groups.DescribedGroup(group_id="x", error_code=code)),
        "ShareGroupDescribeResponse": ("groups", share_group_describe.DescribedGroup(group_id="x", error_code=code)),
        "DeleteGroupsResponse": ("results", delete_groups.DeletableGroupResult(group_id="x", error_code=code)),
        "LeaveGroupResponse": ("members", leave_group.MemberResponse(member_id="x", error_code=code)),
    }
    if type(answer).__name__ in strangers:
        name, stranger = strangers[type(answer).__name__]
        setattr(answer, name, [stranger])


@pytest.mark.parametrize("change", [_emptied, _about_others])
@pytest.mark.parametrize("api", [api for api in CALLS if api not in ("ListGroups", "OffsetFetch")])
def test_M_B7_an_answer_without_what_was_asked_for_is_an_error_of_the_call(
    broker: tuple[SimulatedKafka, Any], api: str, change: Callable[[Any], None]
) -> None:
    _, admin = broker
    with altered(api, change) as answers, pytest.raises(KafkaError) as told:
        CALLS[api](admin)
    assert not isinstance(told.value, CrashedError | TimeoutError)
    assert len(answers) <= 2, "what a broken broker says of others is not asked about"
    admin.list_groups()


def test_X2_a_group_that_a_lost_answer_may_have_deleted(broker: tuple[SimulatedKafka, Any]) -> None:
    kafka, admin = broker
    kafka.node.faults.disconnect("DeleteGroups", applied=True)
    with pytest.raises(GroupError, match=r"an earlier attempt of this call got no answer, and may have done it\): GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups(["g"])


def test_X3_X5_all_brokers_are_asked_at_once_and_each_coordinator_for_all_its_groups() -> None:
    with EmbeddedKafka(brokers=3) as kafka, lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        kafka.create_topic("t", 1)
        groups = [f"g{number:02}" for number in range(20)]
        for group in groups:
            admin.alter_consumer_group_offsets(group, {TopicPartition("t", 0): 1})
        assert [listed.group_id for listed in admin.list_groups()] == groups
        described = admin.describe_consumer_groups(groups)
        assert list(described) == groups
        assert {one.coordinator_id for one in described.values()} == {node.id for node in admin.describe_cluster().nodes}
        assert kafka.faults.requests["ConsumerGroupDescribe"] == kafka.faults.requests["DescribeGroups"] == 3
        assert kafka.faults.requests["ListGroups"] == 3
        admin.delete_consumer_groups(groups)
        assert kafka.faults.requests["DeleteGroups"] == 3
        assert admin.list_groups() == []


def test_G1_a_group_whose_coordinator_may_not_be_asked_for_is_named_and_the_others_are_done(
    broker: tuple[SimulatedKafka, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = find_coordinator._find

    def refuse_one(request: Any, key: str) -> Any:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return find_coordinator._no_coordinator(key, code) if key == "secret" else find(request, key)

    monkeypatch.setattr(find_coordinator, "_find", refuse_one)
    _, admin = broker
    with pytest.raises(GroupAuthorizationError, match="coordinator of group 'secret'") as failed:
        admin.describe_consumer_groups(["secret", "g"])
    assert failed.value.outcomes == {"secret": failed.value, "g": None}
