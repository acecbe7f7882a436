"""Classic groups as the embedded broker coordinates them, in virtual time (G23-G32)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from broker_kit import Bench, Client
from group_kit import REBALANCE_MS, SESSION_MS, GroupMember, protocols, subscription
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.classic_group import ClassicGroup
from levada.broker.coordinators.groups.classic_rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from levada.broker.coordinators.groups.group_states import TRANSITIONS, Event, State
from levada.error_codes import ErrorCode
from levada.errors import IllegalStateError
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from levada.protocol.schema import Request

GROUP = "g"


class Member(GroupMember):
    """A member with a connection of its own to a broker in virtual time."""

    def __init__(self, bench: Bench, **options: Any) -> None:
        super().__init__(GROUP, **options)
        self.bench = bench
        self.client: Client = bench.client()

    def ask(self, request: Request, version: int | None = None) -> Any:
        return self.client.ask(request, version)

    def answer(self) -> Any:
        """The only answer since the last call."""
        (answer,) = self.client.answers()
        return answer

    def begin(self, version: int = 9, **fields: Any) -> None:
        """Send a join that will have to wait; a new member asks for its id first."""
        if not self.id and self.instance is None and version >= 4:
            required = self.ask(self.join(**fields), version)
            assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.id = required.member_id
        self.client.send(self.join(**fields), version)

    def joined(self) -> Any:
        """The answer to the join that waited."""
        answer = self.answer()
        assert not answer.error_code
        return self.take(answer)

    def alive(self) -> ErrorCode:
        return ErrorCode(self.ask(self.heartbeat()).error_code)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.node.create_topic("t", 2)
    return bench


def together(bench: Bench, *members: Member) -> None:
    """Let members become a group with the first of them as the leader, and hand out assignments b"0", b"1", ..."""
    for member in members:
        member.begin()
    bench.advance()
    for member in members:
        member.joined()
    share(*members)


def share(*members: Member) -> None:
    for member in members[1:]:
        member.client.send(member.sync())
    members[0].client.send(members[0].sync({member.id: b"%d" % at for at, member in enumerate(members)}))
    for at, member in enumerate(members):
        assert member.answer().assignment == b"%d" % at


def described(bench: Bench) -> Any:
    (group,) = bench.client().ask(DescribeGroupsRequest(groups=[GROUP])).groups
    return group


# The table


def test_no_event_moves_a_dead_group_or_gives_an_unfinished_one_an_assignment() -> None:
    assert not TRANSITIONS[State.DEAD]
    assert [state for state, row in TRANSITIONS.items() if Event.ASSIGN in row] == [State.COMPLETING_REBALANCE]
    assert [state for state, row in TRANSITIONS.items() if Event.DELETE in row] == [State.EMPTY]


@pytest.mark.parametrize(("state", "event"), [(state, event) for state in State for event in Event if event not in TRANSITIONS[state]])
def test_what_the_table_lacks_is_an_error(state: State, event: Event) -> None:
    group = ClassicGroup("g")
    group.state = state
    with pytest.raises(IllegalStateError, match=f"group 'g' in the state '{state}' has no transition for '{event}'"):
        group.move(event)


# Joining


def test_G23_the_first_rebalance_waits_for_more_members() -> None:
    bench = Bench(group_initial_rebalance_delay_ms=3000)
    first, second = Member(bench), Member(bench)
    first.begin()
    bench.advance(2000)
    second.begin()
    bench.advance(1000)
    assert not first.client.answers()  # Extended, because the second one came.
    bench.advance(2999)
    assert not first.client.answers()
    bench.advance(1)
    assert {first.joined().generation_id, second.joined().generation_id} == {1}


def test_G23_a_later_rebalance_waits_for_known_members_and_removes_those_that_stay_away(bench: Bench) -> None:
    first, second, third = Member(bench), Member(bench), Member(bench)
    together(bench, first, second)
    third.begin()
    first.begin()
    for _ in range(REBALANCE_MS * 2 // SESSION_MS - 1):
        bench.advance(SESSION_MS // 2)
        assert second.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    assert not first.client.answers()
    bench.advance(SESSION_MS // 2)
    assert first.joined().generation_id == third.joined().generation_id
    assert second.alive() is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(10))
def test_G24_a_new_member_is_told_its_id_first_since_version_4(bench: Bench, version: int) -> None:
    member = Member(bench)
    member.client.send(member.join(), version)
    bench.advance()
    answer = member.answer()
    if version < 4:
        assert (answer.error_code, answer.leader, answer.generation_id) == (0, answer.member_id, 1)
        return
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("test-")
    member.id = answer.member_id
    member.client.send(member.join(), version)
    bench.advance()
    assert member.joined().members[0].member_id == member.id


def test_G24_an_id_that_nobody_joins_with_is_forgotten_after_its_session(bench: Bench) -> None:
    member, other = Member(bench), Member(bench)
    together(bench, member)
    other.id = other.ask(other.join(), 9).member_id
    member.begin()
    bench.advance(SESSION_MS - 1)
    assert not member.client.answers()  # The rebalance waits for it.
    bench.advance(1)
    assert len(member.joined().members) == 1
    assert other.ask(other.join(), 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": protocols("sticky")}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other", "member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody", "group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_G25_who_may_not_join(bench: Bench, fields: dict[str, Any], code: ErrorCode) -> None:
    member, other = Member(bench), Member(bench)
    together(bench, member)
    assert other.ask(other.join(**fields), 9).error_code == code
    assert member.alive() is ErrorCode.NONE


def test_G25_a_group_whose_members_all_left_while_it_waits_for_another_takes_anybody(bench: Bench) -> None:
    member, expected, late = Member(bench), Member(bench), Member(bench)
    together(bench, member)
    assert expected.ask(expected.join(), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED
    member.client.send(member.join(), 9)
    assert bench.client().ask(member.leave(5), 5).error_code == ErrorCode.NONE
    assert late.ask(late.join(), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("version", [1, 9])
def test_G25_a_full_group_takes_no_more(version: int) -> None:
    bench = Bench(group_max_size=1)
    member, other = Member(bench), Member(bench)
    together(bench, member)
    refused = other.ask(other.join(), version)
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_G26_members_vote_for_what_all_of_them_offer(bench: Bench) -> None:
    offers = [("range", "sticky", "mine"), ("mine", "sticky", "range"), ("sticky", "range")]
    members = [Member(bench, offers=protocols(*names)) for names in offers]
    for member in members:
        member.begin()
    bench.advance()
    told = [member.joined() for member in members]
    assert {answer.protocol_name for answer in told} == {"sticky"}
    assert {answer.leader for answer in told} == {members[0].id}
    assert [len(answer.members) for answer in told] == [3, 0, 0]


def test_G27_a_follower_that_joins_again_unchanged_gets_the_same_generation(bench: Bench) -> None:
    leader, follower = Member(bench), Member(bench)
    together(bench, leader, follower)
    again = follower.ask(follower.join(), 9)
    assert (again.generation_id, again.leader, again.members) == (follower.generation, leader.id, [])
    assert leader.alive() is ErrorCode.NONE


@pytest.mark.parametrize("who", ["leader", "changed follower"])
def test_G27_the_leader_or_changed_metadata_rebalance(bench: Bench, who: str) -> None:
    leader, follower = Member(bench), Member(bench)
    together(bench, leader, follower)
    if who == "leader":
        leader.begin()
        other = follower
    else:
        follower.offers = protocols("range", metadata=b"changed")
        follower.begin()
        other = leader
    assert other.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    other.begin()
    assert leader.joined().generation_id == follower.joined().generation_id
    assert leader.generation == 2


def test_G27_before_the_assignment_an_unchanged_member_is_told_again(bench: Bench) -> None:
    member = Member(bench)
    member.begin()
    bench.advance()
    first = member.joined()
    again = member.ask(member.join(), 9)
    assert (again.generation_id, again.leader, len(again.members)) == (first.generation_id, member.id, 1)


# Assignments


def test_G28_assignments_wait_for_the_leader_and_who_is_left_out_gets_nothing(bench: Bench) -> None:
    leader, follower = Member(bench), Member(bench)
    leader.begin()
    follower.begin()
    bench.advance()
    leader.joined()
    follower.joined()
    follower.client.send(follower.sync())
    assert not follower.client.answers()
    answer = leader.ask(leader.sync({leader.id: b"mine"}))
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (b"mine", "consumer", "range")
    assert follower.answer().assignment == b""
    assert follower.ask(follower.sync({follower.id: b"not the leader"})).assignment == b""


def test_G28_a_rebalance_cancels_what_waits_for_an_assignment(bench: Bench) -> None:
    leader, follower, late = Member(bench), Member(bench), Member(bench)
    leader.begin()
    follower.begin()
    bench.advance()
    leader.joined()
    follower.joined()
    follower.client.send(follower.sync())
    late.begin()
    assert follower.answer().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.ask(leader.sync({})).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "range", "protocol_type": "consumer"}, ErrorCode.NONE),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_G28_who_gets_no_assignment(bench: Bench, fields: dict[str, Any], code: ErrorCode) -> None:
    member = Member(bench)
    together(bench, member)
    assert member.ask(member.sync(**fields)).error_code == code


def test_G28_members_that_never_ask_for_their_assignment_are_removed(bench: Bench) -> None:
    leader, silent = Member(bench), Member(bench)
    leader.begin()
    silent.begin()
    bench.advance()
    leader.joined()
    silent.joined()
    share_alone = leader.ask(leader.sync({leader.id: b"all"}))
    assert share_alone.assignment == b"all"
    for _ in range(REBALANCE_MS * 2 // SESSION_MS - 1):
        bench.advance(SESSION_MS // 2)
        assert {leader.alive(), silent.alive()} == {ErrorCode.NONE}
    bench.advance(SESSION_MS // 2)
    assert leader.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    assert silent.alive() is ErrorCode.UNKNOWN_MEMBER_ID


# Sessions


def test_G29_heartbeats_keep_a_session_and_tell_of_rebalances(bench: Bench) -> None:
    member, other = Member(bench), Member(bench)
    member.begin()
    bench.advance()
    member.joined()
    assert member.alive() is ErrorCode.NONE  # CompletingRebalance.
    share(member)
    for _ in range(3):
        bench.advance(SESSION_MS - 1)
        assert member.alive() is ErrorCode.NONE
    other.begin()
    assert member.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    assert member.ask(member.heartbeat(generation_id=7)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert member.ask(member.heartbeat(member_id="nobody")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.ask(member.heartbeat(group_id="other")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.ask(member.heartbeat(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID


def test_G30_the_end_of_a_session_rebalances_and_the_last_one_empties_the_group(bench: Bench) -> None:
    member, silent = Member(bench), Member(bench)
    together(bench, member, silent)
    bench.advance(SESSION_MS - 1)
    assert member.alive() is ErrorCode.NONE
    bench.advance(1)
    assert member.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    member.begin()
    assert len(member.joined().members) == 1
    assert (member.ask(member.leave(5), 5).members[0].error_code, described(bench).group_state) == (0, "Empty")
    assert member.alive() is ErrorCode.UNKNOWN_MEMBER_ID


def test_G30_a_join_of_a_new_member_ends_after_five_minutes(bench: Bench) -> None:
    member, new = Member(bench), Member(bench)
    together(bench, member)
    new.begin(rebalance_timeout_ms=NEW_MEMBER_JOIN_TIMEOUT_MS * 2)
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS * 2 // SESSION_MS):
        bench.advance(SESSION_MS // 2)
        assert member.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    refused = new.answer()
    assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


@pytest.mark.parametrize("version", range(6))
def test_G30_who_leaves_lets_the_others_rebalance(bench: Bench, version: int) -> None:
    member, leaver = Member(bench), Member(bench)
    together(bench, member, leaver)
    answer = leaver.ask(leaver.leave(version), version)
    assert (answer.error_code, [one.error_code for one in answer.members]) == (0, [0] * (version >= 3))
    assert member.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    again = leaver.ask(leaver.leave(version), version)
    assert ErrorCode.UNKNOWN_MEMBER_ID in [again.error_code, *(one.error_code for one in again.members)]


def test_G30_leaving_a_group_that_is_not_there(bench: Bench) -> None:
    member = Member(bench)
    assert member.ask(member.leave(5), 5).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.ask(member.leave(5, group_id=""), 5).error_code == ErrorCode.INVALID_GROUP_ID


def test_G30_an_id_that_was_only_given_out_can_leave(bench: Bench) -> None:
    member, other = Member(bench), Member(bench)
    together(bench, member)
    other.id = other.ask(other.join(), 9).member_id
    assert other.ask(other.leave(5), 5).members[0].error_code == 0
    assert other.ask(other.join(), 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# Static members


@pytest.mark.parametrize("version", [5, 9])
def test_G31_the_next_process_of_a_static_member_takes_its_place_without_a_rebalance(bench: Bench, version: int) -> None:
    leader, other = Member(bench, instance="i"), Member(bench)
    together(bench, leader, other)
    old_id = leader.id
    again = Member(bench, instance="i")
    answer = again.take(again.ask(again.join(), version))
    assert (answer.generation_id, answer.member_id != old_id) == (leader.generation, True)
    assert (answer.leader, answer.skip_assignment, len(answer.members)) == ((again.id, True, 2) if version == 9 else (old_id, False, 0))
    assert again.ask(again.sync()).assignment == b"0"
    assert other.alive() is ErrorCode.NONE
    for request in (leader.heartbeat(), leader.sync(), leader.join(), leader.commit("t", 1)):
        answer = leader.ask(request, 8 if request.NAME == "OffsetCommit" else None)
        found = answer.topics[0].partitions[0] if request.NAME == "OffsetCommit" else answer
        assert found.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert leader.ask(leader.leave(5), 5).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_G31_what_the_process_before_waits_for_is_answered(bench: Bench) -> None:
    one, two = Member(bench, instance="i"), Member(bench)
    together(bench, one, two)
    one.begin()
    again = Member(bench, instance="i")
    again.begin()
    assert one.answer().error_code == ErrorCode.FENCED_INSTANCE_ID
    two.begin()
    assert len(again.joined().members) == 2 and again.id
    two.joined()
    two.client.send(two.sync())
    Member(bench, instance="i").begin()
    assert two.answer().error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_G31_static_members_stay_until_their_session_ends(bench: Bench) -> None:
    static, other = Member(bench, instance="i"), Member(bench)
    together(bench, static, other)
    static.begin(rebalance_timeout_ms=SESSION_MS // 2)
    other.begin(rebalance_timeout_ms=SESSION_MS // 2)
    static.joined()
    other.joined()
    share(static, other)
    other.offers = protocols("range", metadata=b"changed")
    other.begin(rebalance_timeout_ms=SESSION_MS // 2)
    bench.advance(SESSION_MS // 2)
    assert other.joined().leader == other.id  # The leader did not come back in time, but is a member yet.
    assert len(described(bench).members) == 2
    bench.advance(SESSION_MS // 2 - 1)
    assert other.alive() is ErrorCode.NONE


def test_G31_an_administrator_removes_a_static_member_by_its_instance_id(bench: Bench) -> None:
    static = Member(bench, instance="i")
    together(bench, static)
    gone = [MemberIdentity(member_id="", group_instance_id=name) for name in ("i", "j")]
    answer = bench.client().ask(static.leave(5, members=gone), 5)
    assert [one.error_code for one in answer.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert described(bench).group_state == "Empty"


# Commits


def committed(bench: Bench, request: Request, version: int = 8) -> ErrorCode:
    return ErrorCode(bench.client().ask(request, version).topics[0].partitions[0].error_code)


def test_G32_members_commit_in_their_generation(bench: Bench) -> None:
    member = Member(bench)
    together(bench, member)
    assert committed(bench, member.commit("t", 1)) is ErrorCode.NONE
    assert committed(bench, member.commit("t", 1, generation_id_or_member_epoch=2)) is ErrorCode.ILLEGAL_GENERATION
    assert committed(bench, member.commit("t", 1, member_id="nobody")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(bench, member.commit("t", 1, member_id="", generation_id_or_member_epoch=-1)) is ErrorCode.UNKNOWN_MEMBER_ID
    bench.advance(SESSION_MS - 1)
    assert committed(bench, member.commit("t", 1)) is ErrorCode.NONE  # As good as a heartbeat.
    bench.advance(SESSION_MS - 1)
    assert member.alive() is ErrorCode.NONE
    member.begin()
    member.joined()
    assert committed(bench, member.commit("t", 1)) is ErrorCode.REBALANCE_IN_PROGRESS
    member.ask(member.leave(5), 5)
    assert committed(bench, member.commit("t", 1, member_id="", generation_id_or_member_epoch=-1)) is ErrorCode.NONE
    assert committed(bench, member.commit("t", 1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_G32_a_commit_during_a_rebalance_is_taken_before_the_member_joins(bench: Bench) -> None:
    member, other = Member(bench), Member(bench)
    together(bench, member)
    other.begin()
    assert member.alive() is ErrorCode.REBALANCE_IN_PROGRESS
    assert committed(bench, member.commit("t", 1)) is ErrorCode.NONE


def test_G32_commits_in_transactions_name_a_member_or_nobody(bench: Bench) -> None:
    member = Member(bench)
    together(bench, member)
    client = bench.client()
    producer = client.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000), 4)

    def commit(**fields: Any) -> ErrorCode:
        named = {"generation_id_or_member_epoch": member.generation, "member_id": member.id, **fields}
        parts = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        return committed(
            bench,
            TxnOffsetCommitRequest(
                transactional_id="tx",
                group_id=GROUP,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                topics=[TxnOffsetCommitRequestTopic(name="t", partitions=parts)],
                **named,
            ),
            5,
        )

    assert commit() is ErrorCode.NONE
    assert commit(member_id="", generation_id_or_member_epoch=-1) is ErrorCode.NONE
    assert commit(generation_id_or_member_epoch=7) is ErrorCode.ILLEGAL_GENERATION
    assert commit(member_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group_instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID


# Administration


def test_what_is_told_of_groups(bench: Bench) -> None:
    member = Member(bench, offers=protocols("range", metadata=b"topics"), instance="i")
    together(bench, member)
    group = described(bench)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    (one,) = group.members
    assert (one.member_id, one.group_instance_id, one.client_id, one.member_metadata, one.member_assignment) == (
        member.id,
        "i",
        "test",
        b"topics",
        b"0",
    )
    member.begin()
    group = described(bench)
    assert (group.group_state, group.protocol_data, group.members[0].member_metadata) == ("CompletingRebalance", "", b"")


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_group_that_is_not_there_is_dead(bench: Bench, version: int, code: ErrorCode) -> None:
    (group,) = bench.client().ask(DescribeGroupsRequest(groups=["no"]), version).groups
    assert (group.error_code, group.group_state) == (code, "Dead")


def test_groups_are_listed_by_state_and_type(bench: Bench) -> None:
    member = Member(bench)
    together(bench, member)
    bench.client().ask(GroupMember("simple").commit("t", 1), 8)

    def listed(**filters: Any) -> list[tuple[str, str, str, str]]:
        groups = bench.client().ask(ListGroupsRequest(**filters)).groups
        return sorted((one.group_id, one.protocol_type, one.group_state, one.group_type) for one in groups)

    assert listed() == [(GROUP, "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")]
    assert [name for name, *_ in listed(states_filter=["stable", "Dead"])] == [GROUP]
    assert listed(types_filter=["consumer"]) == []


def test_X8_only_empty_groups_are_deleted_and_their_offsets_with_them(bench: Bench) -> None:
    member = Member(bench)
    together(bench, member)
    client = bench.client()
    client.ask(member.commit("t", 1), 8)

    def delete() -> list[int]:
        return [one.error_code for one in client.ask(DeleteGroupsRequest(groups_names=[GROUP, "no"])).results]

    assert delete() == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    member.ask(member.leave(5), 5)
    assert delete() == [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    assert client.ask(ListGroupsRequest()).groups == []
    assert client.ask(ListGroupsRequest()).error_code == 0


def test_X8_offsets_of_subscribed_topics_are_not_deleted(bench: Bench) -> None:
    bench.node.create_topic("u")

    def delete() -> tuple[int, list[int]]:
        topics = [OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]) for name in "tu"]
        answer = bench.client().ask(OffsetDeleteRequest(group_id=GROUP, topics=topics))
        return answer.error_code, [topic.partitions[0].error_code for topic in answer.topics]

    assert delete() == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    member = Member(bench, offers=protocols("range", metadata=subscription("t")))
    together(bench, member)
    assert delete() == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0])
    member.offers = protocols("range", metadata=b"?")
    member.begin()
    member.joined()
    assert delete() == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] * 2)  # What cannot be read may be about any topic.
    member.ask(member.leave(5), 5)
    assert delete() == (0, [0, 0])


def test_X8_offsets_of_other_kinds_of_members_are_not_deleted(bench: Bench) -> None:
    member = Member(bench)
    member.begin(protocol_type="connect")
    bench.advance()
    answer = bench.client().ask(OffsetDeleteRequest(group_id=GROUP))
    assert answer.error_code == ErrorCode.NON_EMPTY_GROUP


# Coordinators come and go


@pytest.fixture
def two_nodes() -> list[Bench]:
    """Two nodes of a cluster; the first of them coordinates the group."""
    cluster = Cluster(BrokerSettings(), Random(0))
    benches = [Bench(node_id=number, cluster=cluster) for number in (1, 2)]
    benches[0].node.create_topic("t")
    cluster.group_coordinators.move(GROUP, 1)
    return benches


def move(bench: Bench, node_id: int) -> None:
    bench.node.cluster.group_coordinators.move(GROUP, node_id)
    bench.collect()


def test_a_stable_group_and_its_offsets_survive_the_move_of_their_coordinator(two_nodes: list[Bench]) -> None:
    old, new = two_nodes
    members = [Member(old, offers=protocols("range", metadata=subscription("t"))), Member(old, instance="i")]
    together(old, *members)
    assert committed(old, members[0].commit("t", 7)) is ErrorCode.NONE
    move(old, 2)
    assert members[0].alive() is ErrorCode.NOT_COORDINATOR
    for member in members:
        member.client = new.client()
        assert member.alive() is ErrorCode.NONE
    assert members[1].ask(members[1].sync()).assignment == b"1"
    assert committed(new, members[0].commit("t", 8)) is ErrorCode.NONE
    assert (described(new).group_state, len(old.client().ask(ListGroupsRequest()).groups)) == ("Stable", 0)
    new.advance(SESSION_MS)
    assert members[0].alive() is ErrorCode.UNKNOWN_MEMBER_ID


def test_what_waits_when_the_coordinator_moves_is_told_so_and_the_rebalance_is_lost(two_nodes: list[Bench]) -> None:
    old, new = two_nodes
    leader, follower = Member(old), Member(old)
    together(old, leader, follower)
    generation = leader.generation
    leader.begin()
    move(old, 2)
    assert leader.answer().error_code == ErrorCode.NOT_COORDINATOR
    leader.client = follower.client = new.client()
    assert [leader.alive(), follower.alive()] == [ErrorCode.NONE] * 2
    leader.client.send(leader.join(), 9)
    follower.client = new.client()
    follower.client.send(follower.join(), 9)
    assert leader.joined().generation_id == follower.joined().generation_id == generation + 1
    follower.client.send(follower.sync())
    move(new, 1)
    assert follower.answer().error_code == ErrorCode.NOT_COORDINATOR
    leader.client = old.client()
    assert leader.alive() is ErrorCode.ILLEGAL_GENERATION  # The one before is what was stored last.


def test_G29_while_groups_are_loaded_heartbeats_are_answered_and_sessions_begin_anew(bench: Bench) -> None:
    member = Member(bench)
    together(bench, member)
    bench.advance(SESSION_MS - 1)
    placement = bench.node.cluster.group_coordinators
    placement.begin_loading(GROUP)
    bench.advance(SESSION_MS)
    assert member.alive() is ErrorCode.NONE
    assert member.ask(member.sync()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.client().ask(ListGroupsRequest()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    placement.end_loading(GROUP)
    bench.advance(SESSION_MS - 1)
    assert member.alive() is ErrorCode.NONE


def test_an_emptied_group_keeps_its_generation_when_its_coordinator_moves(two_nodes: list[Bench]) -> None:
    old, new = two_nodes
    member = Member(old)
    together(old, member)
    member.ask(member.leave(5), 5)
    move(old, 2)
    again = Member(new)
    again.begin()
    new.advance()
    assert again.joined().generation_id == member.generation + 2
