"""KafkaAdmin describes groups of Kafka Streams (KIP-1071). Their member is made by hand: there is no Kafka Streams in Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import EVERYWHERE, api_and_broker
from levada.errors import GroupError, UnsupportedVersionError
from levada.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, StreamsGroupHeartbeatRequest, Subtopology, Topology

PATIENCE_S = 40
ON_GROUPS = {
    lv.AclOperation.READ,
    lv.AclOperation.DELETE,
    lv.AclOperation.DESCRIBE,
    lv.AclOperation.DESCRIBE_CONFIGS,
    lv.AclOperation.ALTER_CONFIGS,
}


@pytest.fixture
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def admin(kafka: Any) -> Iterator[Any]:
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


@pytest.mark.parametrize("kafka", [param for param in EVERYWHERE if "4.4.0" not in str(param.id)], indirect=True)
def test_a_broker_without_streams_groups_says_so(admin: Any) -> None:
    with pytest.raises(UnsupportedVersionError, match="StreamsGroupDescribe"):
        admin.describe_streams_groups(["g"])


@pytest.mark.parametrize("kafka", [param for param in EVERYWHERE if "4.4.0" in str(param.id)], indirect=True)
def test_X6_a_streams_group_is_described(kafka: Any, admin: Any, new_topic: Callable[..., str]) -> None:
    topic, group = new_topic(kafka, partitions=2), f"streams-{uuid4().hex[:8]}"
    with pytest.raises(GroupError, match=f"describe streams group '{group}': there is no such group"):
        admin.describe_streams_groups([group])
    part = Subtopology(subtopology_id="0", source_topics=[topic])
    member: dict[str, Any] = {"group_id": group, "member_id": "thread-id-of-22-letters", "process_id": "process"}
    joining = StreamsGroupHeartbeatRequest(
        **member,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        topology=Topology(epoch=1, subtopologies=[part]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        client_tags=[KeyValue(key="zone", value="z1")],
        user_endpoint=Endpoint(host="app", port=8080),
    )
    deadline = time.monotonic() + PATIENCE_S
    while (joined := admin.request(joining, node="controller")).error_code:
        assert time.monotonic() < deadline, joined
        time.sleep(0.05)
    described = admin.describe_streams_groups([group], include_authorized_operations=True)[group]
    assert (described.group_id, described.topology_epoch, described.authorized_operations) == (group, 1, ON_GROUPS)
    assert described.group_epoch > 0
    assert described.subtopologies == (lv.StreamsSubtopology("0", (topic,), (), (), ()),)
    (found,) = described.members
    assert (found.member_id, found.process_id, found.endpoint) == (member["member_id"], "process", ("app", 8080))
    assert (found.client_tags, found.is_classic) == ({"zone": "z1"}, False)
    assert found.target_assignment.active in ({}, {"0": frozenset({0, 1})})
    admin.request(StreamsGroupHeartbeatRequest(**member, member_epoch=-1), node="controller")
    assert admin.describe_streams_groups([group])[group].members == ()
    admin.delete_consumer_groups([group])
