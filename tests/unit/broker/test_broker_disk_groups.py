"""Groups and their members are known again when a broker starts in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_kit import Client
from disk_kit import Kept, kept
from group_kit import ConsumerGroupMember, GroupMember, assignment, protocols, subscription
from levada.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.list_groups import ListGroupsRequest

pytestmark = [pytest.mark.usefixtures("no_flushing"), pytest.mark.parametrize("crash", [False, True], ids=["closed", "crashed"])]


ALL = assignment(t=[0, 1])


def groups(client: Client) -> dict[str, tuple[str, str]]:
    return {one.group_id: (one.group_type, one.group_state) for one in client.ask(ListGroupsRequest(), 5).groups}


def join(bench: Kept, client: Client, group: str, **fields: Any) -> GroupMember:
    """A stable classic group of one member."""
    member = GroupMember(group, offers=protocols("range", "sticky", metadata=subscription("t")), **fields)
    if member.instance is None:
        member.id = client.ask(member.join(), 9).member_id
    client.send(member.join(), 9)
    bench.advance()
    (joined,) = client.answers()
    member.take(joined)
    assert client.ask(member.sync({member.id: ALL})).error_code == 0
    return member


def described(client: Client, group: str) -> Any:
    (found,) = client.ask(ConsumerGroupDescribeRequest(group_ids=[group])).groups
    found.members.sort(key=lambda member: member.member_id)
    return found


def test_a_member_of_a_classic_group_goes_on(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 2)
        client = before.client()
        member = join(before, client, "g", instance="i")
        was = client.ask(DescribeGroupsRequest(groups=["g"]))
    with kept(tmp_path, crash=crash) as after:
        client = after.client()
        assert client.ask(DescribeGroupsRequest(groups=["g"])) == was
        assert client.ask(member.heartbeat()).error_code == 0
        assert client.ask(member.commit("t", 3), 9).topics[0].partitions[0].error_code == 0
        assert client.ask(member.sync()).assignment == ALL
        after.advance(10_001)
        assert groups(client) == {"g": ("classic", "Empty")}, "its session began when the broker did"
    with kept(tmp_path) as at_last:
        assert groups(at_last.client()) == {"g": ("classic", "Empty")}
        assert at_last.client().ask(member.heartbeat()).error_code != 0


def test_members_of_a_consumer_group_go_on(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 4)
        client = before.client()
        first, second = ConsumerGroupMember("g", "a"), ConsumerGroupMember("g", "b", instance="i")
        first.take(client.ask(first.join(server_assignor="range", rack_id="r")))
        assert len(first.has) == 4
        second.take(client.ask(second.join()))
        first.take(client.ask(first.beat()))
        assert (len(first.has), len(second.has)) == (2, 0), "the first one is to give up two, and has not yet"
        was = described(client, "g")
        assert {len(member.assignment.topic_partitions[0].partitions) for member in was.members if member.member_id == "a"} == {4}
    with kept(tmp_path, crash=crash) as after:
        client = after.client()
        assert described(client, "g") == was
        assert client.ask(second.beat()).assignment is None
        first.take(client.ask(first.owning()))
        second.take(client.ask(second.beat()))
        assert (len(first.has), len(second.has), first.has & second.has) == (2, 2, frozenset())
        assert first.epoch == second.epoch == was.group_epoch, "nothing was assigned anew"
        was = described(client, "g")
    with kept(tmp_path, crash=crash) as third:
        client = third.client()
        assert described(client, "g") == was
        assert client.ask(first.beat()).error_code == client.ask(second.beat()).error_code == 0
        assert client.ask(first.commit("t", 3), 9).topics[0].partitions[0].error_code == 0
        assert client.ask(first.leave()).error_code == 0
        third.advance(45_001)
        assert groups(client) == {"g": ("consumer", "Empty")}
    with kept(tmp_path) as at_last:
        assert groups(at_last.client()) == {"g": ("consumer", "Empty")}


def test_a_group_that_has_changed_its_kind_or_is_gone(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 2)
        client = before.client()
        classic, deleted = join(before, client, "g"), join(before, client, "deleted")
        assert client.ask(deleted.leave(5), 5).error_code == 0
        assert client.ask(DeleteGroupsRequest(groups_names=["deleted"])).results[0].error_code == 0
        newcomer = ConsumerGroupMember("g", "new")
        newcomer.take(client.ask(newcomer.join()))
        was = described(client, "g")
        assert sorted(member.member_type for member in was.members) == [0, 1]
    with kept(tmp_path, crash=crash) as after:
        client = after.client()
        assert groups(client) == {"g": ("consumer", was.group_state)}
        assert described(client, "g") == was
        assert client.ask(classic.heartbeat()).error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        assert client.ask(newcomer.leave()).error_code == 0
    with kept(tmp_path) as at_last:
        assert [kind for kind, _ in groups(at_last.client()).values()] == ["classic"], "the last member of the new protocol has left"
