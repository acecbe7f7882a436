"""Java's kafka-consumer-groups and levada on the same groups: what one does, the other sees, on the embedded broker and on Kafka 4.4."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from group_tool import JARS, GroupTool

PATIENCE_S = 40
RECORDS = 10
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"partition_assignment_strategy": "range"},
    "consumer": {"group_protocol": "consumer", "group_remote_assignor": "range"},
}


@pytest.fixture(params=["embedded", pytest.param("kafka44", marks=pytest.mark.kafka)])
def kafka(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def tool(kafka: Any, java_program: Callable[[str, str], Any]) -> GroupTool:
    return GroupTool(java_program("GroupTool", JARS), kafka.bootstrap_servers)


class Read:
    """A topic of two partitions with 10 records each, and a group that has read it. member: the last consumer."""

    def __init__(self, kafka: Any, new_topic: Callable[..., str], protocol: str) -> None:
        self.servers, self.topic, self.group = kafka.bootstrap_servers, new_topic(kafka, partitions=2), f"g-{uuid4().hex}"
        self.settings = {"group_id": self.group, "auto_offset_reset": "earliest", "enable_auto_commit": False, **PROTOCOLS[protocol]}
        with lv.KafkaProducer(bootstrap_servers=self.servers) as producer:
            for number in range(2 * RECORDS):
                producer.send(self.topic, b"%d" % number, partition=number % 2)

    def read(self, count: int, *, while_member: Callable[[Any], object] = lambda member: None) -> list[tuple[int, int]]:
        """Read so many records as a member, and commit; return their partitions and offsets."""
        found: list[tuple[int, int]] = []
        deadline = time.monotonic() + PATIENCE_S
        with lv.KafkaConsumer(bootstrap_servers=self.servers, client_id="reader", **self.settings) as member:
            member.subscribe([self.topic])
            while len(found) < count:
                assert time.monotonic() < deadline, found
                found += [(record.partition, record.offset) for record in member.poll(0.1)]
            member.commit()
            while_member(member)
        return sorted(found)


@pytest.fixture(params=PROTOCOLS)
def read(request: pytest.FixtureRequest, kafka: Any, new_topic: Callable[..., str]) -> Iterator[tuple[Read, str]]:
    yield Read(kafka, new_topic, request.param), request.param


def test_M_B20_the_tool_shows_a_group_of_levada(read: tuple[Read, str], tool: GroupTool) -> None:
    group, protocol = read

    def look(member: Any) -> None:
        assert group.group in tool.groups()
        assert group.group in tool.groups("--type", protocol)
        assert group.group in tool.groups("--state", "stable")
        rows = tool.table("--describe", "--group", group.group)
        assert [(row["TOPIC"], row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in rows] == [
            (group.topic, str(partition), str(RECORDS), str(RECORDS), "0") for partition in (0, 1)
        ]
        member_id = member.group_metadata().member_id
        assert {(row["CONSUMER-ID"], row["CLIENT-ID"]) for row in rows} == {(member_id, "reader")}
        (row,) = tool.table("--describe", "--group", group.group, "--members", "--verbose")
        assert (row["CONSUMER-ID"], row["#PARTITIONS"]) == (member_id, "2")
        (state,) = tool.table("--describe", "--group", group.group, "--state")
        assert state["ASSIGNMENT-STRATEGY"] == "range"
        assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
        # It says so, and ends as if it had done it.
        assert "The group is not empty" in tool.run("--delete", "--group", group.group)
        assert group.group in tool.groups()

    group.read(2 * RECORDS, while_member=look)
    assert group.group in tool.groups("--state", "empty")


def test_M_B20_the_tool_moves_and_deletes_what_levada_committed(read: tuple[Read, str], tool: GroupTool) -> None:
    group, _ = read
    both = [lv.TopicPartition(group.topic, partition) for partition in (0, 1)]
    group.read(2 * RECORDS)
    tool.run("--group", group.group, "--reset-offsets", "--topic", f"{group.topic}:1", "--to-offset", "7", "--execute")
    assert group.read(3) == [(1, 7), (1, 8), (1, 9)]
    tool.run("--group", group.group, "--reset-offsets", "--topic", group.topic, "--shift-by", "-1", "--execute")
    assert group.read(2) == [(0, 9), (1, 9)]
    tool.run("--group", group.group, "--delete-offsets", "--topic", f"{group.topic}:0")
    with lv.KafkaAdmin(bootstrap_servers=group.servers) as admin:
        committed = admin.list_consumer_group_offsets(group.group, both)
        assert [at and at.offset for at in committed.values()] == [None, RECORDS]
        tool.run("--group", group.group, "--delete")
        assert set(admin.list_consumer_group_offsets(group.group, both).values()) == {None}
        assert group.group not in {listed.group_id for listed in admin.list_groups()}
    assert len(group.read(2 * RECORDS)) == 2 * RECORDS


def test_M_B20_the_tool_sees_what_the_admin_does(read: tuple[Read, str], tool: GroupTool) -> None:
    group, _ = read
    group.read(2 * RECORDS)
    with lv.KafkaAdmin(bootstrap_servers=group.servers) as admin:
        admin.alter_consumer_group_offsets(group.group, {lv.TopicPartition(group.topic, 0): 4})
        rows = tool.table("--describe", "--group", group.group)
        assert [(row["CURRENT-OFFSET"], row["LAG"]) for row in rows] == [("4", "6"), ("10", "0")]
        admin.delete_consumer_group_offsets(group.group, [lv.TopicPartition(group.topic, 0)])
        assert [row["PARTITION"] for row in tool.table("--describe", "--group", group.group)] == ["1"]
        admin.delete_consumer_groups([group.group])
    assert group.group not in tool.groups()
