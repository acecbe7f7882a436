"""Consumer groups (KIP-848) as the embedded broker coordinates them, in virtual time (G33, G34, G39, G40)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_kit import Bench
from group_kit import REBALANCE_MS, ConsumerGroupMember, GroupMember
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.assignors import Assignor, Subscription, assign_ranges, assign_uniformly
from levada.broker.coordinators.groups.consumer_member import NO_PARTITIONS, ConsumerMember, MemberState, TopicIdPartition, reconcile
from levada.broker.coordinators.groups.subscribed_topic_regex import compile_pattern, matching
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from levada.protocol.schema import Request

GROUP = "g"
SESSION_MS = 45_000
T, U = UUID(int=1), UUID(int=2)


class Member(ConsumerGroupMember):
    """A member with a connection to a broker in virtual time."""

    def __init__(self, bench: Bench, name: str, **options: Any) -> None:
        super().__init__(GROUP, name, **options)
        self.client = bench.client()

    def joins(self, **fields: Any) -> Any:
        return self.take(self.client.ask(self.join(**fields)))

    def beats(self, **fields: Any) -> Any:
        """Say what it owns, as a client does that has done what it was told."""
        return self.take(self.client.ask(self.owning(**fields)))

    @property
    def numbers(self) -> list[int]:
        """The numbers of the partitions it has."""
        return sorted(number for _, number in self.has)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.node.create_topic("t", 4)
    return bench


def settle(*members: Member) -> None:
    """Let members beat until none is told anything new."""
    told = True
    while told:
        answers = [member.beats() for member in members]
        told = any(answer.assignment is not None for answer in answers)


def described(bench: Bench, version: int = 1) -> Any:
    (group,) = bench.client().ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), version).groups
    return group


def code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


# Reconciling


def owned(*numbers: int, topic: UUID = T) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic, number) for number in numbers)


def test_G40_a_member_gives_up_before_it_takes() -> None:
    stable = ConsumerMember(id="m", epoch=1, assigned=dict.fromkeys(owned(0, 1), 1))
    told = reconcile(stable, owned(1, 2), 2, lambda partition: True, None)
    assert (told.state, told.epoch, frozenset(told.assigned), told.revoking) == (
        MemberState.UNREVOKED_PARTITIONS,
        1,
        owned(1),
        {TopicIdPartition(T, 0): 1},
    )
    assert reconcile(told, owned(1, 2), 2, lambda partition: True, owned(0, 1)) is told
    assert reconcile(told, owned(1, 2), 2, lambda partition: True, None) is told
    done = reconcile(told, owned(1, 2), 2, lambda partition: True, owned(1))
    assert (done.state, done.epoch, done.previous_epoch, done.revoking) == (MemberState.STABLE, 2, 1, {})
    assert done.assigned == {TopicIdPartition(T, 1): 1, TopicIdPartition(T, 2): 2}
    assert reconcile(done, owned(1, 2), 2, lambda partition: True, None) is done


def test_G40_a_member_waits_for_what_others_have_not_given_up() -> None:
    waiting = reconcile(ConsumerMember(id="m"), owned(0, 1), 3, lambda partition: partition == TopicIdPartition(T, 0), owned())
    assert (waiting.state, waiting.epoch, frozenset(waiting.assigned)) == (MemberState.UNRELEASED_PARTITIONS, 3, owned(0))
    done = reconcile(waiting, owned(0, 1), 3, lambda partition: True, None)
    assert (done.state, frozenset(done.assigned)) == (MemberState.STABLE, owned(0, 1))


def test_G40_a_newer_target_is_taken_up_after_what_is_under_way() -> None:
    revoking = ConsumerMember(
        id="m", epoch=1, state=MemberState.UNREVOKED_PARTITIONS, assigned={TopicIdPartition(T, 1): 1}, revoking={TopicIdPartition(T, 0): 1}
    )
    again = reconcile(revoking, NO_PARTITIONS, 5, lambda partition: True, owned(1))
    assert (again.state, again.epoch, again.revoking) == (MemberState.UNREVOKED_PARTITIONS, 2, {TopicIdPartition(T, 1): 1})


# Assignors

subscriptions = st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from([T, U]), min_size=1), min_size=1)
counts = st.fixed_dictionaries({T: st.integers(0, 9), U: st.integers(0, 9)})


def all_of(sizes: Mapping[UUID, int]) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic, number) for topic, count in sizes.items() for number in range(count))


@pytest.mark.parametrize("assign", [assign_uniformly, assign_ranges])
@settings(max_examples=40)
@given(topics=subscriptions, sizes=counts)
def test_G33_every_partition_goes_to_one_member_that_subscribes(
    assign: Assignor, topics: dict[str, frozenset[UUID]], sizes: dict[UUID, int]
) -> None:
    found = assign({name: Subscription(wanted, NO_PARTITIONS) for name, wanted in topics.items()}, sizes)
    assert sorted(partition for partitions in found.values() for partition in partitions) == sorted(
        partition for partition in all_of(sizes) if any(partition.topic_id in wanted for wanted in topics.values())
    )
    assert all(partition.topic_id in topics[name] for name, partitions in found.items() for partition in partitions)


@settings(max_examples=40)
@given(before=st.sets(st.sampled_from("abcdef"), min_size=1), after=st.sets(st.sampled_from("abcdef"), min_size=1), sizes=counts)
def test_G33_uniform_is_balanced_and_keeps_what_it_can(before: set[str], after: set[str], sizes: dict[UUID, int]) -> None:
    both = frozenset({T, U})
    first = assign_uniformly({name: Subscription(both, NO_PARTITIONS) for name in before}, sizes)
    second = assign_uniformly({name: Subscription(both, first.get(name, NO_PARTITIONS)) for name in after}, sizes)
    loads = [len(partitions) for partitions in second.values()]
    assert max(loads) - min(loads) <= 1
    for name in before & after:
        # Nothing is taken from a member but what is above the new share, and nothing given to one that had its share.
        assert len(first[name] - second[name]) <= max(0, len(first[name]) - min(loads))
        assert first[name] <= second[name] or second[name] <= first[name]


def test_G20_range_gives_contiguous_blocks_static_members_first() -> None:
    members = {
        "b": Subscription(frozenset({T}), NO_PARTITIONS),
        "a": Subscription(frozenset({T}), NO_PARTITIONS),
        "z": Subscription(frozenset({T}), NO_PARTITIONS, "i"),
    }
    assert assign_ranges(members, {T: 5}) == {"z": owned(0, 1), "a": owned(2, 3), "b": owned(4)}


# Patterns


@pytest.mark.parametrize("pattern", ["orders-.*", "(?i)ORDERS-.*", r"orders-[*+]?\d+", r"orders\-1", "(?P<kind>orders)-1", "[]x]?orders-1"])
def test_G34_a_pattern_means_whole_names(pattern: str) -> None:
    assert matching(pattern, ["orders-1", "my-orders-1x"]) == {"orders-1"}
    assert matching("", ["orders-1"]) == frozenset()


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", "(?<!a)b", r"(a)\1", "(?P<n>a)(?P=n)", "a++", "(?>a)", r"a\Z", "[a"])
def test_G34_what_re2_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(BrokerError, match="is not a valid regular expression") as refused:
        compile_pattern(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


# Heartbeats


def test_G34_a_member_joins_is_assigned_everything_and_leaves(bench: Bench) -> None:
    member = Member(bench, "m")
    answer = member.joins()
    assert (code(answer), answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (ErrorCode.NONE, "m", 2, 5000)
    assert member.numbers == [0, 1, 2, 3]
    assert member.client.ask(member.beat()).assignment is None
    left = member.client.ask(member.leave())
    assert (code(left), left.member_id, left.member_epoch) == (ErrorCode.NONE, "m", -1)
    assert code(member.client.ask(member.beat())) is ErrorCode.UNKNOWN_MEMBER_ID
    assert described(bench).group_state == "Empty"


def test_G34_in_version_0_the_broker_gives_the_member_id(bench: Bench) -> None:
    member = Member(bench, "")
    answer = member.take(member.client.ask(member.join(), 0))
    assert UUID(answer.member_id) and member.numbers == [0, 1, 2, 3]


def test_G40_partitions_are_handed_over_only_after_their_owner_has_let_them_go(bench: Bench) -> None:
    first, second = Member(bench, "1"), Member(bench, "2")
    first.joins()
    second.joins()
    assert (second.numbers, second.epoch, described(bench).group_state) == ([], 3, "Reconciling")
    before = first.has
    told = first.client.ask(first.beat())
    assert (told.member_epoch, len(told.assignment.topic_partitions[0].partitions)) == (2, 2)
    # It goes on to read what it has to give up: nothing changes.
    assert first.client.ask(first.owning(before)).member_epoch == 2
    assert second.beats().assignment is None
    first.take(told)
    assert first.beats().member_epoch == 3
    assert second.beats().assignment is not None
    assert sorted(first.numbers + second.numbers) == [0, 1, 2, 3] and len(second.numbers) == 2
    assert described(bench).group_state == "Stable"


def test_G40_the_assignment_is_told_after_a_full_request_only(bench: Bench) -> None:
    member = Member(bench, "m")
    member.joins()
    assert member.client.ask(member.owning()).assignment is None
    full = member.owning(rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=["t"])
    assert member.client.ask(full).assignment is not None


def test_G40_topics_that_come_grow_and_go_change_the_assignment(bench: Bench) -> None:
    member = Member(bench, "m", topics=["t", "later"])
    member.joins()
    assert len(member.has) == 4
    bench.node.create_topic("later", 2)
    member.beats()
    assert (len(member.has), member.epoch) == (6, 3)
    bench.node.cluster.remove(bench.node.cluster.topics["t"])
    member.beats()
    member.beats()
    assert (member.numbers, member.epoch, described(bench).group_state) == ([0, 1], 4, "Stable")


def test_G34_a_pattern_follows_the_topics(bench: Bench) -> None:
    member = Member(bench, "m", topics=[])
    member.joins(subscribed_topic_regex="o.*")
    assert member.numbers == []
    bench.node.create_topic("o1", 1)
    member.beats()
    assert member.numbers == [0]
    member.beats(subscribed_topic_regex="")
    assert member.numbers == []


@pytest.mark.parametrize(("assignor", "numbers"), [("range", [0, 1, 2]), ("uniform", [0, 2, 4]), (None, [0, 2, 4])])
def test_G33_the_assignor_is_that_which_most_members_ask_for(assignor: str | None, numbers: list[int]) -> None:
    bench = Bench()
    bench.node.create_topic("t", 6)
    first, second = Member(bench, "1"), Member(bench, "2", topics=["u"])
    first.joins(server_assignor=assignor)
    second.joins(server_assignor=assignor)
    first.client.ask(first.leave())
    first.epoch, first.has = 0, frozenset()
    second.beats(subscribed_topic_names=["t"])
    second.client.ask(second.leave())
    second.epoch, second.has = 0, frozenset()
    first.joins(server_assignor=assignor, subscribed_topic_names=["u"])
    second.joins(server_assignor=assignor, subscribed_topic_names=["u"])
    for member in (first, second):
        member.client.ask(member.owning(subscribed_topic_names=["t"]))
    settle(first, second)
    assert described(bench).assignor_name == (assignor or "uniform")
    assert sorted(first.numbers + second.numbers) == list(range(6))
    assert first.numbers == numbers or assignor != "range"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_G34_what_a_first_heartbeat_is_refused(bench: Bench, fields: dict[str, Any], expected: ErrorCode) -> None:
    member = Member(bench, "m")
    answer = member.client.ask(member.join(**fields))
    assert (code(answer), bool(answer.error_message), answer.member_epoch) == (expected, True, 0)
    assert bench.client().ask(ListGroupsRequest()).groups == []


def test_G34_epochs_that_are_not_the_members_are_fenced(bench: Bench) -> None:
    first, second = Member(bench, "1"), Member(bench, "2")
    first.joins()
    second.joins()
    assert code(first.client.ask(first.beat(member_epoch=3))) is ErrorCode.FENCED_MEMBER_EPOCH
    settle(first, second)
    # The answer that moved it from epoch 2 to 3 was lost.
    assert code(first.client.ask(first.beat(member_epoch=2))) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code(first.client.ask(first.owning(member_epoch=2))) is ErrorCode.NONE
    assert code(first.client.ask(first.owning(second.has, member_epoch=2))) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code(first.client.ask(first.beat(member_id="nobody"))) is ErrorCode.UNKNOWN_MEMBER_ID


def test_G40_sessions_end_and_partitions_go_to_the_others(bench: Bench) -> None:
    first, second = Member(bench, "1"), Member(bench, "2")
    first.joins()
    second.joins()
    settle(first, second)
    bench.advance(SESSION_MS - 1)
    assert code(second.beats()) is ErrorCode.NONE
    bench.advance(1)
    second.beats()
    assert (second.numbers, second.epoch) == ([0, 1, 2, 3], 4)
    assert code(first.client.ask(first.beat())) is ErrorCode.UNKNOWN_MEMBER_ID


def test_G40_a_member_that_does_not_give_up_partitions_in_time_is_removed(bench: Bench) -> None:
    first, second = Member(bench, "1"), Member(bench, "2")
    first.joins()
    second.joins()
    for _ in range(2):
        assert code(first.client.ask(first.beat())) is ErrorCode.NONE
        second.beats()
        bench.advance(REBALANCE_MS // 2)
    assert code(first.client.ask(first.beat())) is ErrorCode.UNKNOWN_MEMBER_ID
    second.beats()
    assert second.numbers == [0, 1, 2, 3]


def test_G33_a_full_group_takes_no_more() -> None:
    bench = Bench(group_consumer_max_size=1)
    Member(bench, "1").joins()
    assert code(Member(bench, "2").joins()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code(Member(bench, "1").joins()) is ErrorCode.NONE


# Static members


def test_G34_a_static_member_that_leaves_for_a_while_keeps_its_partitions(bench: Bench) -> None:
    static, other = Member(bench, "1", instance="i"), Member(bench, "2")
    static.joins()
    other.joins()
    settle(static, other)
    had, epoch = static.has, described(bench).group_epoch
    early = Member(bench, "new", instance="i")
    assert code(early.joins()) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert static.client.ask(static.leave(-2)).member_epoch == -2
    assert other.beats().assignment is None
    again = Member(bench, "new", instance="i")
    again.joins()
    assert (again.has, again.epoch, described(bench).group_epoch) == (had, epoch, epoch)
    assert code(static.client.ask(static.beat())) is ErrorCode.FENCED_INSTANCE_ID
    assert code(static.client.ask(static.leave())) is ErrorCode.FENCED_INSTANCE_ID
    assert code(other.client.ask(other.beat(instance_id="j"))) is ErrorCode.UNKNOWN_MEMBER_ID


def test_G34_a_static_member_that_does_not_come_back_is_removed(bench: Bench) -> None:
    static = Member(bench, "1", instance="i")
    static.joins()
    static.client.ask(static.leave(-2))
    bench.advance(SESSION_MS)
    assert described(bench).members == []


# Offsets


def committed(bench: Bench, request: Request, version: int = 9) -> ErrorCode:
    return ErrorCode(bench.client().ask(request, version).topics[0].partitions[0].error_code)


def test_G39_commits_carry_the_members_epoch(bench: Bench) -> None:
    first, second = Member(bench, "1"), Member(bench, "2")
    first.joins()
    second.joins()
    settle(first, second)
    own = first.numbers[0]
    assert committed(bench, first.commit("t", 1, partition=own)) is ErrorCode.NONE
    # It has had this partition since the epoch before, and never had the other one.
    stale = {"generation_id_or_member_epoch": 2}
    assert committed(bench, first.commit("t", 1, partition=own, **stale)) is ErrorCode.NONE
    assert committed(bench, first.commit("t", 1, partition=second.numbers[0], **stale)) is ErrorCode.STALE_MEMBER_EPOCH
    assert committed(bench, second.commit("t", 1, partition=second.numbers[0], **stale)) is ErrorCode.STALE_MEMBER_EPOCH
    assert committed(bench, first.commit("t", 1, generation_id_or_member_epoch=9)) is ErrorCode.STALE_MEMBER_EPOCH
    assert committed(bench, first.commit("t", 1), 8) is ErrorCode.UNSUPPORTED_VERSION
    assert committed(bench, first.commit("t", 1, member_id="nobody")) is ErrorCode.UNKNOWN_MEMBER_ID
    nobody = first.commit("t", 1, member_id="", generation_id_or_member_epoch=-1)
    assert committed(bench, nobody) is ErrorCode.UNKNOWN_MEMBER_ID
    for member in (first, second):
        member.client.ask(member.leave())
    assert committed(bench, nobody) is ErrorCode.NONE


def test_G39_what_is_to_be_given_up_may_be_committed_with_an_epoch_that_was_left_behind(bench: Bench) -> None:
    """KIP-1251: nobody else has it before it is given up."""
    first, second = Member(bench, "1"), Member(bench, "2")
    first.joins()
    since = first.epoch
    bench.node.create_topic("u", 1)
    first.beats(subscribed_topic_names=["t", "u"])
    settle(first)
    assert first.epoch > since
    second.joins()
    first.client.ask(first.beat())  # It is told to give up two partitions.
    stale = {"generation_id_or_member_epoch": since}
    codes = [committed(bench, first.commit("t", 1, partition=number, **stale)) for number in range(4)]
    assert codes == [ErrorCode.NONE] * 4
    settle(first, second)
    codes = [committed(bench, first.commit("t", 1, partition=number, **stale)) for number in second.numbers]
    assert codes == [ErrorCode.STALE_MEMBER_EPOCH] * len(second.numbers)


def test_G39_offsets_are_asked_for_with_the_members_epoch(bench: Bench) -> None:
    member = Member(bench, "m")
    member.joins()

    def fetched(**who: Any) -> ErrorCode:
        asked = OffsetFetchRequestGroup(group_id=GROUP, topics=None, **who)
        return ErrorCode(bench.client().ask(OffsetFetchRequest(groups=[asked]), 9).groups[0].error_code)

    assert fetched(member_id="m", member_epoch=2) is ErrorCode.NONE
    assert fetched() is ErrorCode.NONE
    assert fetched(member_id="m", member_epoch=1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetched(member_id="nobody", member_epoch=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_G39_commits_in_transactions_name_the_epoch_or_nobody(bench: Bench) -> None:
    member = Member(bench, "m")
    member.joins()
    producer = bench.client().ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000), 4)

    def commit(member_id: str, epoch: int, version: int = 5, group: str = GROUP) -> ErrorCode:
        parts = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        topic = bench.node.cluster.topic("t")
        assert topic is not None
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", topic_id=topic.id, partitions=parts)],
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
        )
        return committed(bench, request, version)

    assert [commit("m", 2), commit("", -1)] == [ErrorCode.NONE] * 2
    assert [commit("m", 1), commit("x", 2)] == [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID]
    # Version 6 has codes of their own for what older ones call an illegal generation.
    assert [commit("m", 1, 6), commit("m", 1, 6, "none")] == [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND]
    assert commit("m", 1, 5, "none") is ErrorCode.ILLEGAL_GENERATION


def test_X8_offsets_of_subscribed_topics_are_not_deleted(bench: Bench) -> None:
    bench.node.create_topic("u")
    Member(bench, "m").joins()
    Member(bench, "n", topics=[]).joins(subscribed_topic_regex="u+")
    bench.node.create_topic("v")
    topics = [OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]) for name in "tuv"]
    answer = bench.client().ask(OffsetDeleteRequest(group_id=GROUP, topics=topics))
    found = [topic.partitions[0].error_code for topic in answer.topics]
    assert found == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]


# Descriptions, kinds, coordinators


def test_what_is_told_of_groups(bench: Bench) -> None:
    member = Member(bench, "m", instance="i")
    member.joins(rack_id="r", subscribed_topic_regex="x.*")
    group = described(bench)
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == ("Stable", 2, 2, "uniform")
    (one,) = group.members
    assert (one.member_id, one.instance_id, one.rack_id, one.member_epoch, one.client_id) == ("m", "i", "r", 2, "test")
    assert (one.subscribed_topic_names, one.subscribed_topic_regex, one.member_type) == (["t"], "x.*", 1)
    assert one.assignment == one.target_assignment
    assert [(topic.topic_name, topic.partitions) for topic in one.assignment.topic_partitions] == [("t", [0, 1, 2, 3])]
    listed = [(one.group_state, one.group_type, one.protocol_type) for one in bench.client().ask(ListGroupsRequest()).groups]
    assert listed == [("Stable", "consumer", "consumer")]
    (classic,) = bench.client().ask(DescribeGroupsRequest(groups=[GROUP]), 6).groups
    assert (classic.error_code, classic.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a classic group.")


def test_what_cannot_be_described(bench: Bench) -> None:
    client = bench.client()
    client.ask(GroupMember("classic").commit("t", 1), 8)
    found = client.ask(ConsumerGroupDescribeRequest(group_ids=["no", "classic", ""])).groups
    codes = [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID]
    assert [one.error_code for one in found] == codes


def test_X8_only_groups_without_members_are_deleted(bench: Bench) -> None:
    member = Member(bench, "m")
    member.joins()
    delete = DeleteGroupsRequest(groups_names=[GROUP])
    assert code(bench.client().ask(delete).results[0]) is ErrorCode.NON_EMPTY_GROUP
    member.client.ask(member.leave())
    assert code(bench.client().ask(delete).results[0]) is ErrorCode.NONE
    assert bench.client().ask(ListGroupsRequest()).groups == []


def test_an_empty_group_changes_its_kind_and_keeps_its_offsets(bench: Bench) -> None:
    classic, consumer = GroupMember(GROUP), Member(bench, "m")
    client = bench.client()
    assert committed(bench, classic.commit("t", 5), 8) is ErrorCode.NONE
    consumer.joins()
    assert (consumer.numbers, kind(bench)) == ([0, 1, 2, 3], "consumer")
    assert code(client.ask(classic.heartbeat())) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(client.ask(classic.sync(), 4)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert client.ask(classic.leave(5)).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    consumer.client.ask(consumer.leave())
    assert code(client.ask(classic.join(member_id="m"), 9)) is ErrorCode.UNKNOWN_MEMBER_ID
    client.send(classic.join(), 3)
    bench.advance()
    (joined,) = client.answers()
    assert (code(joined), kind(bench)) == (ErrorCode.NONE, "classic")
    consumer.epoch = 0
    assert code(consumer.client.ask(consumer.join())) is ErrorCode.GROUP_ID_NOT_FOUND
    asked = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    (group,) = client.ask(OffsetFetchRequest(groups=[asked]), 9).groups
    assert group.topics[0].partitions[0].committed_offset == 5


def kind(bench: Bench) -> str:
    (group,) = bench.client().ask(ListGroupsRequest()).groups
    return str(group.group_type)


def test_group_version_0_has_no_consumer_groups() -> None:
    bench = Bench(group_version=0)
    assert code(Member(bench, "m").joins()) is ErrorCode.UNSUPPORTED_VERSION
    assert described(bench).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_G33_clients_find_the_feature(bench: Bench) -> None:
    answer = bench.client().ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    assert ("group.version", 1) in [(one.name, one.max_version_level) for one in answer.finalized_features]
    assert ("group.version", 0, 1) in [(one.name, one.min_version, one.max_version) for one in answer.supported_features]


def test_G40_a_group_goes_on_at_its_next_coordinator() -> None:
    cluster = Cluster(BrokerSettings(), Random(0))
    old, new = (Bench(node_id=number, cluster=cluster) for number in (1, 2))
    old.node.create_topic("t", 4)
    cluster.group_coordinators.move(GROUP, 1)
    first, second = Member(old, "1"), Member(old, "2")
    first.joins()
    second.joins()
    told = first.client.ask(first.beat())
    old.advance(SESSION_MS - 1)
    cluster.group_coordinators.move(GROUP, 2)
    assert code(first.client.ask(first.beat())) is ErrorCode.NOT_COORDINATOR
    first.client, second.client = new.client(), new.client()
    old.advance(1)
    first.take(told)
    settle(first, second)
    assert sorted(first.numbers + second.numbers) == [0, 1, 2, 3]
    new.advance(SESSION_MS)
    assert described(new).members == []


# Over any course of events


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_G40_no_partition_is_ever_read_by_two_members(seed: int) -> None:
    random = Random(seed)
    bench = Bench()
    bench.node.create_topic("t", 5)
    members = [Member(bench, str(number)) for number in range(4)]
    alive: list[Member] = []
    has_missed: set[Member] = set()

    def recover_or_beat(member: Member) -> None:
        """Say everything after an answer that was lost, as clients do; join anew when fenced."""
        everything = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": ["t"]} if member in has_missed else {}
        has_missed.discard(member)
        if code(member.beats(**everything)) is not ErrorCode.NONE:
            member.epoch, member.has = 0, frozenset()
            member.joins()

    for _ in range(40):
        member = random.choice(members)
        act = random.random()
        if member not in alive:
            member.epoch, member.has = 0, frozenset()
            member.joins()
            alive.append(member)
        elif act < 0.15:
            member.client.ask(member.leave())
            member.has = frozenset()
            alive.remove(member)
        elif act < 0.3:
            member.client.ask(member.beat())
            has_missed.add(member)  # The answer was lost.
        else:
            recover_or_beat(member)
        reading = [partition for one in alive for partition in one.has]
        assert len(reading) == len(set(reading))
    for _ in range(5):
        for member in alive:
            recover_or_beat(member)
    assert not alive or sorted(number for member in alive for number in member.numbers) == [0, 1, 2, 3, 4]


def test_G37_a_groups_own_session_timeout_and_heartbeat_interval_hold(bench: Bench) -> None:
    own = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    bench.node.cluster.configure_group(GROUP, bench.node.cluster.group_config(GROUP).with_overrides(own))
    member = Member(bench, "m")
    assert member.joins().heartbeat_interval_ms == 7_000
    bench.advance(49_999)
    assert [one.member_id for one in described(bench).members] == ["m"]
    bench.advance(1)
    assert described(bench).members == []
