"""Offsets and groups that nobody has used for offsets.retention.minutes, in virtual time (G30, G32)."""

from __future__ import annotations

from typing import Any

import pytest

from broker_kit import Bench, Client
from group_kit import ConsumerGroupMember, GroupMember, protocols, subscription
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

MINUTE_MS = 60_000
RETENTION_MS = 10 * MINUTE_MS
GROUP = "g"


@pytest.fixture
def bench() -> Bench:
    bench = Bench(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS, group_consumer_session_timeout_ms=1 << 40)
    for topic in "tu":
        bench.node.create_topic(topic)
    bench.advance()
    return bench


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


def offsets(client: Client) -> dict[str, int]:
    asked = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    (group,) = client.ask(OffsetFetchRequest(groups=[asked]), 9).groups
    return {topic.name: topic.partitions[0].committed_offset for topic in group.topics}


def groups(client: Client) -> list[str]:
    return [one.group_id for one in client.ask(ListGroupsRequest()).groups]


def commit(client: Client, member: GroupMember | ConsumerGroupMember, topic: str = "t", version: int = 9, **fields: Any) -> None:
    (answered,) = client.ask(member.commit(topic, 7, **fields), version).topics
    assert answered.partitions[0].error_code == 0


def test_V14_G32_offsets_of_simple_groups_expire_after_their_last_commit_and_the_group_with_them(bench: Bench, client: Client) -> None:
    simple = GroupMember(GROUP)
    commit(client, simple)
    bench.advance(RETENTION_MS // 2)
    commit(client, simple, "u")
    bench.advance(RETENTION_MS // 2 - 1)
    assert offsets(client) == {"t": 7, "u": 7}
    bench.advance(MINUTE_MS)
    assert offsets(client) == {"u": 7}
    bench.advance(RETENTION_MS // 2)
    assert (offsets(client), groups(client)) == ({}, [])


@pytest.mark.parametrize("version", [2, 3, 4])
def test_V14_C25_G32_a_commit_may_ask_for_a_time_of_its_own_in_old_versions(bench: Bench, client: Client, version: int) -> None:
    simple = GroupMember(GROUP)
    commit(client, simple, version=version, retention_time_ms=2 * MINUTE_MS)
    commit(client, simple, "u", version=version)
    bench.advance(MINUTE_MS)
    assert offsets(client) == {"t": 7, "u": 7}
    bench.advance(MINUTE_MS)
    assert offsets(client) == {"u": 7}


def join(bench: Bench, client: Client, *topics: str, **fields: Any) -> GroupMember:
    """A stable group of one member that will not be missed."""
    member = GroupMember(GROUP, offers=protocols("range", metadata=subscription(*topics)))
    told = {"session_timeout_ms": 1_800_000, **fields}
    member.id = client.ask(member.join(**told), 9).member_id
    client.send(member.join(**told), 9)
    bench.advance()
    (joined,) = client.answers()
    member.take(joined)
    kind = fields.get("protocol_type", "consumer")
    assert client.ask(member.sync({member.id: b"all"}, protocol_type=kind)).error_code == 0
    return member


def test_G32_offsets_of_a_group_with_members_expire_where_nobody_subscribes(bench: Bench, client: Client) -> None:
    member = join(bench, client, "t")
    commit(client, member)
    commit(client, member, "u")
    bench.advance(RETENTION_MS)
    assert offsets(client) == {"t": 7}


def test_G32_offsets_of_a_group_that_has_emptied_expire_from_then_on(bench: Bench, client: Client) -> None:
    member = join(bench, client, "t")
    commit(client, member)
    bench.advance(RETENTION_MS)
    client.ask(member.leave(5), 5)
    bench.advance(RETENTION_MS - 1)
    assert offsets(client) == {"t": 7}
    bench.advance(MINUTE_MS)
    assert (offsets(client), groups(client)) == ({}, [])


def test_G32_offsets_of_members_that_are_no_consumers_do_not_expire(bench: Bench, client: Client) -> None:
    member = join(bench, client, protocol_type="connect")
    commit(client, member)
    bench.advance(RETENTION_MS)
    assert offsets(client) == {"t": 7}


def test_G32_offsets_of_consumer_groups_expire_where_nobody_subscribes(bench: Bench, client: Client) -> None:
    member = ConsumerGroupMember(GROUP, "m")
    member.take(client.ask(member.join()))
    commit(client, member)
    commit(client, member, "u")
    bench.advance(RETENTION_MS)
    assert offsets(client) == {"t": 7}
    client.ask(member.leave())
    bench.advance(MINUTE_MS)
    assert (offsets(client), groups(client)) == ({}, [])


def test_G32_what_a_transaction_may_still_change_stays(bench: Bench, client: Client) -> None:
    simple = GroupMember(GROUP)
    commit(client, simple)
    producer = client.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=900_000), 4)
    parts = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9)]
    pending = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=parts)],
    )
    assert client.ask(pending, 5).topics[0].partitions[0].error_code == 0
    bench.advance(RETENTION_MS)
    assert (offsets(client), groups(client)) == ({"t": 7}, [GROUP])


def test_G30_a_group_that_never_had_members_or_offsets_is_forgotten(bench: Bench, client: Client) -> None:
    client.ask(GroupMember(GROUP).join(), 9)
    assert groups(client) == [GROUP]
    bench.advance(MINUTE_MS)
    assert groups(client) == []
