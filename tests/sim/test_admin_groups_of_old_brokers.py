"""What KafkaAdmin makes of groups at brokers that know less of them (behaviour X3, X6), in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import levada as lv
from group_kit import assignment
from levada.admin.group_types import operations
from levada.error_codes import ErrorCode
from levada.errors import GroupError, UnsupportedVersionError
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.describe_groups import (
    OPERATIONS_NOT_ASKED,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from levada.protocol.messages.leave_group import LeaveGroupRequest
from levada.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from levada.testing import Simulation
from levada.types import TopicPartition
from sim_kit import HOST, PORT, server, versions_reply

GROUPS = {"a": "Stable", "b": "AwaitingSync", "c": "Empty"}
SPOKEN = {3: (0, 4), 10: (0, 1), 13: (0, 2), 15: (0, 2), 16: (0, 2), 18: (0, 2)}
WITH_STATES = {**SPOKEN, 16: (0, 4)}
WITH_NEITHER = {3: (0, 4), 10: (0, 1), 18: (0, 2)}


class OldBroker:
    """Groups a, b and c; a has a member."""

    def __init__(self, sim: Simulation, spoken: dict[int, tuple[int, int]]) -> None:
        self.asked = server(
            sim,
            {
                ApiVersionsRequest: lambda frame: versions_reply(spoken),
                FindCoordinatorRequest: lambda frame: FindCoordinatorResponse(node_id=1, host=HOST, port=PORT),
                ListGroupsRequest: self._list,
                DescribeGroupsRequest: self._describe_all,
            },
        ).asked
        self.admin: Any = sim.admin(bootstrap_servers=f"{HOST}:{PORT}")

    def versions(self, kind: type[Any]) -> list[int]:
        return [frame.version for frame in self.asked if isinstance(frame.request, kind)]

    def _list(self, frame: Any) -> ListGroupsResponse:
        states = GROUPS if frame.version >= 4 else dict.fromkeys(GROUPS, "")
        wanted = frame.request.states_filter
        return ListGroupsResponse(
            groups=[
                ListedGroup(group_id=group, protocol_type="consumer", group_state=state)
                for group, state in states.items()
                if not wanted or state in wanted
            ]
        )

    def _describe_all(self, frame: Any) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[self._describe(group) for group in frame.request.groups])

    def _describe(self, group: str) -> DescribedGroup:
        if group not in GROUPS:
            return DescribedGroup(group_id=group, group_state="Dead")
        member = DescribedGroupMember(member_id="m", client_id="c", client_host="/h", member_assignment=assignment(t=[1]))
        members = [member] if group == "a" else []
        return DescribedGroup(group_id=group, group_state=GROUPS[group], protocol_type="consumer", protocol_data="range", members=members)


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=3) as sim:
        yield sim


def classic(group: str, state: lv.GroupState) -> lv.GroupListing:
    return lv.GroupListing(group, lv.GroupType.CLASSIC, "consumer", state)


def test_X3_filters_that_a_broker_does_not_know_are_applied_here(sim: Simulation) -> None:
    broker = OldBroker(sim, SPOKEN)
    stable, completing, empty = lv.GroupState.STABLE, lv.GroupState.COMPLETING_REBALANCE, lv.GroupState.EMPTY
    assert broker.admin.list_groups() == [classic("a", stable), classic("b", completing), classic("c", empty)]
    assert broker.admin.list_groups(states=["Empty"], types=["Classic"]) == [classic("c", empty)]
    assert broker.admin.list_groups(types=["Consumer", "Share"]) == []
    assert broker.versions(ListGroupsRequest) == [2, 2, 2]


def test_X3_what_a_broker_filters_it_is_asked_to_filter(sim: Simulation) -> None:
    broker = OldBroker(sim, WITH_STATES)
    assert broker.admin.list_groups(states=["Stable"]) == [classic("a", lv.GroupState.STABLE)]
    assert [frame.request.states_filter for frame in broker.asked if isinstance(frame.request, ListGroupsRequest)] == [["Stable"]]
    assert broker.versions(DescribeGroupsRequest) == []


def test_X6_groups_are_described_by_brokers_without_consumer_groups(sim: Simulation) -> None:
    broker = OldBroker(sim, SPOKEN)
    described = broker.admin.describe_consumer_groups(["a", "b"])
    assert described["a"].members == (lv.MemberDescription("m", None, "c", "/h", frozenset({TopicPartition("t", 1)})),)
    assert (described["a"].type, described["b"].state) == (lv.GroupType.CLASSIC, lv.GroupState.COMPLETING_REBALANCE)
    assert broker.versions(DescribeGroupsRequest) == [2]
    with pytest.raises(GroupError) as failed:
        broker.admin.describe_consumer_groups(["a", "missing"])
    assert failed.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert failed.value.outcomes == {"a": None, "missing": failed.value}
    with pytest.raises(UnsupportedVersionError, match="include_authorized_operations"):
        broker.admin.describe_consumer_groups(["a"], include_authorized_operations=True)


def test_X2_what_a_broker_cannot_do_is_said(sim: Simulation) -> None:
    broker = OldBroker(sim, WITH_NEITHER)
    with pytest.raises(UnsupportedVersionError, match="the broker does not know ListGroups"):
        broker.admin.list_groups(states=["Empty"])
    with pytest.raises(UnsupportedVersionError, match="the broker does not know DescribeGroups"):
        broker.admin.describe_consumer_groups(["a"])
    with pytest.raises(UnsupportedVersionError, match="the broker does not know ShareGroupDescribe"):
        broker.admin.describe_share_groups(["a"])


def test_X2_members_cannot_be_removed_one_by_one(sim: Simulation) -> None:
    broker = OldBroker(sim, SPOKEN)
    with pytest.raises(UnsupportedVersionError, match="LeaveGroup: versions 3 to 5 are needed, the broker speaks 0 to 2"):
        broker.admin.remove_members_from_consumer_group("a")
    assert broker.versions(LeaveGroupRequest) == []


def test_words_that_a_newer_kafka_may_know() -> None:
    assert lv.GroupType("hyper") is lv.GroupType.UNKNOWN
    assert lv.GroupState("Dreaming") is lv.GroupState.UNKNOWN
    assert operations(OPERATIONS_NOT_ASKED, OPERATIONS_NOT_ASKED) is None
    assert operations(0b1_0000_1011, OPERATIONS_NOT_ASKED) == frozenset({lv.AclOperation.READ, lv.AclOperation.DESCRIBE})
    assert operations(1 << 30, OPERATIONS_NOT_ASKED) == frozenset({lv.AclOperation.UNKNOWN})
