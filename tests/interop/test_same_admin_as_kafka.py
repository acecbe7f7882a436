"""What administrators ask: the embedded broker answers as Kafka 4.4 does, also where something is wrong (behaviour X2, X4, X7).

Every question goes to both. Compared is all of an answer but texts and what no two clusters have in common: ids, addresses, times, sizes.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest

from broker_kit import make_batch, produce_request
from kafka_cluster import KafkaCluster
from kafka_jars import jars, java
from levada.protocol.api import APIS
from levada.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from levada.protocol.messages.alter_configs import AlterableConfig as WhollyAlterable
from levada.protocol.messages.alter_configs import AlterConfigsRequest
from levada.protocol.messages.alter_configs import AlterConfigsResource as WhollyAltered
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from levada.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.describe_cluster import DescribeClusterRequest
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from levada.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from levada.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.list_config_resources import ListConfigResourcesRequest
from levada.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics
from levada.protocol.messages.push_telemetry import PushTelemetryRequest
from levada.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest
from levada.protocol.messages.unregister_controller import UnregisterControllerRequest
from levada.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from levada.protocol.schema import Request, Struct
from levada.testing import EmbeddedKafka
from tool_modules import load_tool
from wire import Wire

pytestmark = pytest.mark.kafka

PATIENCE_S = 20
KAFKA_44 = Path(__file__).parents[1] / "real_kafka" / "pom-4.4.0.xml"
OWN = {
    "error_message",
    "throttle_time_ms",
    "topic_id",
    "cluster_id",
    "host",
    "port",
    "rack",
    "log_dir",
    "total_bytes",
    "usable_bytes",
    "partition_size",
    "log_end_offset",
    "high_watermark",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "replica_directory_id",
    "documentation",
}
"""Fields in which two clusters differ."""


class Question(NamedTuple):
    about: str
    request: Request
    version: int


@pytest.fixture(scope="module")
def embedded_kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def both(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> Iterator[Both]:
    with Wire(kafka44.bootstrap_servers) as theirs, Wire(embedded_kafka.bootstrap_servers) as ours:
        yield Both(theirs, ours, [kafka44, embedded_kafka])


class Both:
    """A real Kafka and the embedded broker, asked the same."""

    def __init__(self, theirs: Wire, ours: Wire, brokers: list[Any]) -> None:
        self._wires = [theirs, ours]
        self._brokers = brokers

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Create a topic on both, known to every part of them."""
        name = f"same-{uuid4().hex}"
        for wire, broker in zip(self._wires, self._brokers, strict=True):
            broker.create_topic(name, partitions, config)
            until(wire, produce_request(name, make_batch(b"a")), 12, lambda answer: not code_of(answer))
        return name

    def ask(self, request: Request, version: int) -> list[Any]:
        return [wire.ask(request, version) for wire in self._wires]

    def eventually(self, request: Request, version: int, holds: Callable[[Any], bool]) -> None:
        """A real cluster applies what its controller has decided a moment later."""
        for wire in self._wires:
            until(wire, request, version, holds)

    def check(self, questions: list[Question]) -> None:
        theirs, ours = ([told(wire.ask(asked.request, asked.version)) for asked in questions] for wire in self._wires)
        differ = [
            f"{one.about}, version {one.version}:\n  Kafka  {kafka}\n  levada {levada}"
            for one, kafka, levada in zip(questions, theirs, ours, strict=True)
            if kafka != levada
        ]
        if differ:
            pytest.fail("\n".join(differ))


def code_of(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def until(wire: Wire, request: Request, version: int, holds: Callable[[Any], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds(wire.ask(request, version)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def told(part: Any) -> Any:
    """An answer as plain values, without what differs between any two clusters; partitions and topics in their order."""
    if isinstance(part, list):
        name = next((name for name in ("partition_index", "topic_name") if part and hasattr(part[0], name)), None)
        return [told(one) for one in (part if name is None else sorted(part, key=attrgetter(name)))]
    if isinstance(part, Struct):
        return {field.name: told(getattr(part, field.name)) for field in part.FIELDS if field.name not in OWN}
    return part


# Topics


def partitions_of(*names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def test_X4_topics_page_by_page(both: Both) -> None:
    names = sorted(both.topic(count) for count in (3, 1, 2))
    a, b, c = names
    both.check(
        [
            Question("all at once", partitions_of(c, a, b), 0),
            *(Question(f"at most {limit}", partitions_of(*names, limit=limit), 0) for limit in range(1, 7)),
            Question("none at all", partitions_of(*names, limit=0), 0),
            Question("within a topic", partitions_of(*names, cursor=(a, 1)), 0),
            Question("at the end of a topic", partitions_of(*names, cursor=(a, 3)), 0),
            Question("behind a topic", partitions_of(*names, cursor=(a, 9)), 0),
            Question("at a topic that is gone", partitions_of(*names, cursor=(a + "x", 1)), 0),
            Question("before the first partition", partitions_of(*names, cursor=(a, -1)), 0),
            Question("one that does not exist", partitions_of(a, a + "x", b), 0),
            Question("twice the same", partitions_of(a, a), 0),
            Question("no name for a topic", partitions_of("no/name"), 0),
        ]
    )


def more(name: str, count: int, *placed: list[int], check_only: bool = False) -> CreatePartitionsRequest:
    assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in placed] or None
    topic = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=9_000, validate_only=check_only)


def test_X7_partitions_are_created(both: Both) -> None:
    name = both.topic(2)
    twice = more(name, 3)
    twice.topics *= 2
    both.check(
        [
            Question("fewer", more(name, 1), 3),
            Question("none", more(name, 0), 3),
            Question("less than none", more(name, -1), 3),
            Question("as many", more(name, 2), 3),
            Question("no such topic", more("no-such-topic", 3), 3),
            Question("twice", twice, 3),
            Question("too few places", more(name, 4, [1]), 3),
            Question("too many places", more(name, 3, [1], [1]), 3),
            Question("no such broker", more(name, 3, [77]), 3),
            Question("too many replicas", more(name, 3, [1, 1]), 3),
            Question("no replicas", more(name, 3, []), 3),
            Question("only checked", more(name, 3, check_only=True), 3),
            *(Question("more", more(name, 3 + version), version) for version in range(4)),
            Question("placed", more(name, 7, [1]), 3),
        ]
    )


def test_X7_why_partitions_are_not_created_is_told_in_the_same_words(both: Both) -> None:
    name = both.topic(2)
    twice = more(name, 3)
    twice.topics *= 2
    for asked in (more(name, 1), more(name, -1), more(name, 2), more(name, 4, [1]), more(name, 3, [1], [1]), twice):
        theirs, ours = ([one.error_message for one in answer.results] for answer in both.ask(asked, 3))
        assert ours == theirs


# Replicas


def election(*tps: tuple[str, int], kind: int = 0) -> ElectLeadersRequest:
    topics = [TopicPartitions(topic=name, partitions=[index]) for name, index in tps]
    return ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=9_000)


def test_X4_elections(both: Both) -> None:
    name = both.topic(2)
    both.check(
        [
            *(Question("not needed", election((name, 0)), version) for version in range(3)),
            Question("unclean, not needed", election((name, 0), kind=1), 2),
            Question("no such topic", election(("no-such-topic", 0)), 2),
            Question("no such partition", election((name, 5)), 2),
            Question("none", ElectLeadersRequest(topic_partitions=[]), 2),
        ]
    )
    for answer in both.ask(ElectLeadersRequest(topic_partitions=None), 2):
        assert [one.partition_result for one in answer.replica_election_results if one.topic == name] == [[]]


def move(name: str, index: int, to: list[int] | None, *, may_change: bool = True) -> AlterPartitionReassignmentsRequest:
    topic = ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=to)])
    return AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=9_000, allow_replication_factor_change=may_change)


def test_X4_reassignments(both: Both) -> None:
    name = both.topic(2)
    listed = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9])]
    both.check(
        [
            Question("to where it is", move(name, 0, [1]), 0),
            Question("to where it is, with the same number of replicas", move(name, 0, [1], may_change=False), 1),
            Question("to nowhere", move(name, 0, []), 1),
            Question("to an unknown broker", move(name, 0, [77]), 1),
            Question("to one more", move(name, 0, [1, 77]), 1),
            Question("to the same broker twice", move(name, 0, [1, 1]), 1),
            Question("no such partition", move(name, 5, [1]), 1),
            Question("no such topic", move("no-such-topic", 0, [1]), 1),
            Question("none to cancel", move(name, 0, None), 1),
            Question("all that are under way", ListPartitionReassignmentsRequest(topics=None), 0),
            Question("some that are under way", ListPartitionReassignmentsRequest(topics=listed), 0),
        ]
    )


def test_X4_log_dirs(both: Both) -> None:
    name = both.topic(2)
    wanted = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=name, partitions=[0, 1, 9])])
    missing = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="no-such-topic", partitions=[0])])
    elsewhere = AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path="/nowhere", topics=[AlterReplicaLogDirTopic(name=name, partitions=[0])])]
    )
    both.check([Question("two partitions", wanted, version) for version in range(1, 6)])
    both.check([Question("no such topic", missing, 5), Question("no such folder", elsewhere, 2)])
    here = [answer.results[0].log_dir for answer in both.ask(wanted, 5)]
    moves = [
        AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=[0, 9]),
                        AlterReplicaLogDirTopic(name="no-such-topic", partitions=[0]),
                    ],
                )
            ]
        )
        for path in here
    ]
    theirs, ours = (told(both.ask(request, 2)[side]) for side, request in enumerate(moves))
    assert ours == theirs


# Settings


def settings(kind: int, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def change(kind: int, name: str, **values: str | None) -> IncrementalAlterConfigsRequest:
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=int(value is None), value=value) for key, value in values.items()
    ]
    return IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)])


def whole(kind: int, name: str, **values: str | None) -> AlterConfigsRequest:
    configs = [WhollyAlterable(name=key.replace("_", "."), value=value) for key, value in values.items()]
    return AlterConfigsRequest(resources=[WhollyAltered(resource_type=kind, resource_name=name, configs=configs)])


def test_X4_all_settings_at_once(both: Both) -> None:
    name = both.topic(1, {"retention.ms": "60000"})
    both.check(
        [
            Question("bad value", whole(2, name, retention_ms="soon"), 2),
            Question("unknown", whole(2, name, no_such="1"), 2),
            Question("no such topic", whole(2, "no-such-topic", retention_ms="1"), 2),
            Question("null", whole(2, name, retention_ms=None), 2),
            *(Question("replaced", whole(2, name, retention_bytes=f"700{version}"), version) for version in range(3)),
        ]
    )
    by_topic = 1

    def own(answer: Any) -> dict[str, str]:
        return {one.name: one.value for one in answer.results[0].configs if one.config_source == by_topic}

    both.eventually(settings(2, name), 4, lambda answer: own(answer) == {"retention.bytes": "7002"})


def test_X4_subscriptions_for_metrics(both: Both) -> None:
    name = uuid4().hex
    both.check(
        [
            Question("before", settings(16, name), 4),
            Question("without a name", settings(16, ""), 4),
            Question("too often", change(16, name, interval_ms="5"), 1),
            Question("unknown", change(16, name, no_such="5"), 1),
            Question("without a name", change(16, "", interval_ms="500"), 1),
            Question("made", change(16, name, interval_ms="500", metrics="a.b,c"), 1),
        ]
    )
    listed = ListConfigResourcesRequest(resource_types=[16])
    both.eventually(listed, 1, lambda answer: name in [one.resource_name for one in answer.config_resources])
    both.check([Question("made", settings(16, name), 4), Question("deleted", change(16, name, interval_ms=None, metrics=None), 1)])
    both.eventually(listed, 1, lambda answer: name not in [one.resource_name for one in answer.config_resources])
    both.check([Question("listed", ListConfigResourcesRequest(resource_types=[7]), 1), Question("listed", ListConfigResourcesRequest(), 0)])


def test_X4_what_has_settings_is_listed(both: Both) -> None:
    topic, group = both.topic(), uuid4().hex
    both.check([Question("a group's", change(32, group, consumer_session_timeout_ms="46000"), 1)])
    of_groups = ListConfigResourcesRequest(resource_types=[32])
    both.eventually(of_groups, 1, lambda answer: group in [one.resource_name for one in answer.config_resources])
    for kinds in ([], [2, 32], [4, 8], [8], [32]):
        request = ListConfigResourcesRequest(resource_types=kinds)
        theirs, ours = (
            {(one.resource_type, one.resource_name) for one in answer.config_resources if one.resource_name in (topic, group, "1")}
            for answer in both.ask(request, 1)
        )
        assert ours == theirs, kinds


# The cluster


def test_X4_the_cluster(both: Both) -> None:
    both.check(
        [
            *(Question("plain", DescribeClusterRequest(), version) for version in range(3)),
            Question("operations", DescribeClusterRequest(include_cluster_authorized_operations=True), 2),
            Question("fenced ones, too", DescribeClusterRequest(include_fenced_brokers=True), 2),
            Question("controllers", DescribeClusterRequest(endpoint_type=2), 2),
            Question("what is neither", DescribeClusterRequest(endpoint_type=9), 2),
        ]
    )


def test_X4_the_page_of_administration_has_every_api_that_a_broker_offers(both: Both) -> None:
    answers = both.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    theirs, ours = ({entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys} for answer in answers)
    page = load_tool("admin")
    from_clients = {key for key, api in APIS.items() if api.NAME not in page.BROKERS_ONLY}
    with_a_plugin = {GetTelemetrySubscriptionsRequest.API_KEY, PushTelemetryRequest.API_KEY}
    assert from_clients - theirs.keys() == with_a_plugin
    assert {APIS[key].NAME for key in theirs.keys() - from_clients} == set(page.OFFERED_TO_BROKERS)
    assert {key: theirs[key] for key in ours} == ours


def test_X4_the_page_of_administration_has_every_method_of_javas_admin() -> None:
    javap = java().with_name("javap")
    if not javap.exists():
        pytest.skip("no JDK, which has javap")
    classes = ":".join(str(jar) for jar in jars(KAFKA_44).glob("kafka-clients-*.jar"))
    told = subprocess.run([javap, "-cp", classes, "org.apache.kafka.clients.admin.Admin"], check=True, capture_output=True, text=True)
    assert {row.method for row in load_tool("admin").JAVA} == set(re.findall(r" (\w+)\(", told.stdout)) - {"create"}


def update(name: str, level: int, kind: int = 1, *, check_only: bool = True) -> UpdateFeaturesRequest:
    key = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(feature_updates=[key], validate_only=check_only, timeout_ms=9_000)


def test_X4_features(both: Both) -> None:
    name = "transaction.version"
    both.check(
        [
            *(Question("unknown", update("no.such.feature", 1), version) for version in (1, 2)),
            *(Question("as it is", update(name, 2), version) for version in (1, 2)),
            *(Question("lower by an upgrade", update(name, 1), version) for version in (1, 2)),
            Question("lower", update(name, 1, 2), 2),
            Question("lower, with loss", update(name, 1, 3), 2),
            Question("too high", update(name, 3), 2),
            Question("less than nothing", update(name, -1), 2),
            Question("none", update(name, 0), 2),
            Question("none, allowed", update(name, 0, 2), 2),
            Question("an unknown type", update(name, 1, 9), 2),
            Question("nothing", UpdateFeaturesRequest(validate_only=True), 2),
        ]
    )


def test_X4_the_quorum(both: Both) -> None:
    def quorum(topic: str, index: int) -> DescribeQuorumRequest:
        return DescribeQuorumRequest(topics=[TopicData(topic_name=topic, partitions=[PartitionData(partition_index=index)])])

    both.check(
        [Question("no such topic", quorum("no-such-topic", 0), 2), Question("no such partition", quorum("__cluster_metadata", 1), 2)]
    )
    for version in range(3):
        theirs, ours = both.ask(quorum("__cluster_metadata", 0), version)
        kafka, levada = (answer.topics[0].partitions[0] for answer in (theirs, ours))
        assert [len(kafka.current_voters), len(kafka.observers)] == [len(levada.current_voters), len(levada.observers)]
        assert (kafka.error_code, kafka.leader_id, len(theirs.nodes)) == (levada.error_code, levada.leader_id, len(ours.nodes))
    voter: dict[str, Any] = {"voter_id": 5, "voter_directory_id": UUID(int=5)}
    listeners = [Listener(name="CONTROLLER", host="h", port=9)]
    both.check(
        [
            Question("a voter", AddRaftVoterRequest(timeout_ms=500, listeners=listeners, **voter), 0),
            Question("without listeners", AddRaftVoterRequest(timeout_ms=500, **voter), 0),
            Question("of another cluster", AddRaftVoterRequest(cluster_id="x", timeout_ms=500, listeners=listeners, **voter), 0),
            Question("no voter", RemoveRaftVoterRequest(**voter), 0),
            Question("no broker", UnregisterBrokerRequest(broker_id=77), 0),
            Question("no controller", UnregisterControllerRequest(controller_id=77), 0),
        ]
    )
