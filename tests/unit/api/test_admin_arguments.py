"""What callers of an admin pass, checked where they pass it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from levada.admin.cluster import FeatureUpdate, RaftEndpoint, UpgradeType
from levada.admin.configs import AlterConfigOp, ConfigResource, ConfigResourceType
from levada.api import arguments
from levada.api.admin import admin_arguments as given
from levada.types import IsolationLevel, NewPartitions, NewTopic, OffsetSpec, TopicPartition, TopicPartitionReplica

TP = TopicPartition("t", 0)
TOPIC = ConfigResource(ConfigResourceType.TOPIC, "t")


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda: given.topic_ids(UUID(int=1)), "expected a list of topic ids"),
        (lambda: given.topic_ids(["t"]), "a topic is named by a uuid.UUID, got 't'"),
        (lambda: given.directory_id("a"), "a voter's directory is named by a uuid.UUID"),
        (lambda: given.new_partitions(["t"]), "expected a mapping of a topic's name"),
        (lambda: given.new_partitions({"t": 0}), "the number of partitions of 't' must be at least 1, got 0"),
        (lambda: given.new_partitions({"t": NewPartitions(2, ["1"])}), "expected a list of broker ids, got '1'"),  # type: ignore[list-item]
        (lambda: given.node_ids(5), "expected a list of broker ids, got 5"),
        (lambda: given.config_resources("t"), r"got 't', such as \[\('Topic', 'orders'\)\]"),
        (lambda: given.config_resources(TOPIC), r"write \[ConfigResource"),
        (lambda: given.config_resource("t"), "expected ConfigResource"),
        (lambda: given.config_resource(("Topics", "t")), "'Topics' is no type of resource; they are Topic, Broker"),
        (lambda: given.config_changes({TOPIC: "a=b"}), "expected a mapping of a setting's name to its new value"),
        (lambda: given.config_changes({TOPIC: {"a": AlterConfigOp("Add", "b")}}), "'Add' cannot be done to setting 'a'"),
        (lambda: given.config_changes({TOPIC: {"a": AlterConfigOp("append")}}), "the change of setting 'a' needs a value"),
        (lambda: given.offset_spec(TP, "newest"), "'newest' is no offset of t-0; these are: latest, earliest, max_timestamp"),
        (lambda: given.offset_spec(TP, -1), "must not be negative, got -1; an OffsetSpec names the ends"),
        (lambda: given.offset_spec(TP, 1.5), "must be a whole number, got 1.5"),
        (lambda: given.isolation_level("committed"), "'read_uncommitted' or 'read_committed', got 'committed'"),
        (lambda: given.offset_before(TP, -2), "got -2"),
        (lambda: given.election_type("Fair"), "'Fair' is no type of election; they are Preferred, Unclean"),
        (lambda: given.reassignments({TP: "1"}), "expected a list of broker ids, got '1'"),
        (lambda: given.replica(TP), "expected TopicPartitionReplica"),
        (lambda: given.folder(""), "a folder of a broker is an absolute path as text"),
        (lambda: given.feature_updates({"f": -1}), "the level of feature 'f' must not be negative, got -1"),
        (lambda: given.feature_updates({"f": FeatureUpdate(1, "down")}), "'down' is no type of upgrade"),  # type: ignore[arg-type]
        (lambda: given.raft_endpoint(("h", 9)), "expected RaftEndpoint"),
        (lambda: arguments.new_topics([NewTopic("t", assignment=[[1]])]), "the assignment of topic 't' is a mapping"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_said(check: Callable[[], Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        check()


def test_what_is_right_is_taken_in_several_forms() -> None:
    assert given.config_resources([("topic", "t"), TOPIC]) == [TOPIC]
    changes = given.config_changes({("Topic", "t"): {"a": True, "b": None, "c": AlterConfigOp("append", "x")}})
    assert changes[TOPIC]["a"] == ("Set", "true")
    assert [change.operation for change in changes[TOPIC].values()] == ["Set", "Delete", "Append"]
    assert given.offset_spec(TP, "Max_Timestamp") is OffsetSpec.MAX_TIMESTAMP
    assert given.offset_spec(TP, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1_000
    assert given.isolation_level("READ_COMMITTED") is given.isolation_level(1) is IsolationLevel.READ_COMMITTED
    assert given.new_partitions({"t": 3, "u": NewPartitions(2, [[1, 2]])}) == {"t": (3, None), "u": (2, [[1, 2]])}
    assert given.reassignments({TP: (2, 1), TopicPartition("t", 1): None}) == {TP: [2, 1], ("t", 1): None}
    assert given.replica(("t", 0, 1)) == TopicPartitionReplica("t", 0, 1)
    assert given.feature_updates({"f": 2, "g": FeatureUpdate(1, UpgradeType("safedowngrade"))})["g"] == (1, UpgradeType.SAFE_DOWNGRADE)
    assert given.raft_endpoint(("C", "h", 9)) == RaftEndpoint("C", "h", 9)
