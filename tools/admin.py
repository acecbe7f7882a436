"""Writes docs/ADMIN.md from the tables below, the messages, the broker and the tests: `python tools/admin.py > docs/ADMIN.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from levada import KafkaAdmin
from levada.broker.apis import SERVED
from levada.protocol.api import APIS
from levada.protocol.schema import Request

ROOT = Path(__file__).parents[1]
COMMANDS = ROOT / "src/levada/cli/commands"
OF_COMMANDS = re.compile(r"^ *from (levada\.cli\.[\w.]+) import", re.MULTILINE)
KITS = re.compile(r"^from (\w+) import", re.MULTILINE)


class Java(NamedTuple):
    """A method of Java's Admin. ours: the method of KafkaAdmin, "" if there is none. apis: the requests that it sends.

    since: the first release of brokers that can do it, or the reason why ours is empty.
    """

    method: str
    ours: str
    apis: str
    since: str


JAVA = (
    Java("createTopics", "create_topics", "CreateTopics", "0.10.1"),
    Java("deleteTopics", "delete_topics, delete_topics_by_id", "DeleteTopics", "0.10.1; by id 2.8"),
    Java("listTopics", "list_topics", "Metadata", "0.8"),
    Java("describeTopics", "describe_topics, describe_topics_by_id", "DescribeTopicPartitions, Metadata", "0.8; by id 3.1"),
    Java("createPartitions", "create_partitions", "CreatePartitions", "1.0"),
    Java("deleteRecords", "delete_records", "DeleteRecords", "0.11"),
    Java("listOffsets", "list_offsets", "ListOffsets", "0.10.1"),
    Java("electLeaders", "elect_leaders", "ElectLeaders", "2.2"),
    Java("alterPartitionReassignments", "alter_partition_reassignments", "AlterPartitionReassignments", "2.4"),
    Java("listPartitionReassignments", "list_partition_reassignments", "ListPartitionReassignments", "2.4"),
    Java("describeLogDirs", "describe_log_dirs", "DescribeLogDirs", "1.0"),
    Java("describeReplicaLogDirs", "describe_replica_log_dirs", "DescribeLogDirs", "1.0"),
    Java("alterReplicaLogDirs", "alter_replica_log_dirs", "AlterReplicaLogDirs", "1.1"),
    Java("describeConfigs", "describe_configs", "DescribeConfigs", "0.11"),
    Java("incrementalAlterConfigs", "incremental_alter_configs", "IncrementalAlterConfigs", "2.3"),
    Java("listConfigResources", "list_config_resources", "ListConfigResources", "4.1; subscriptions 3.7"),
    Java("listClientMetricsResources", "list_config_resources", "ListConfigResources", "3.7"),
    Java("describeCluster", "describe_cluster", "DescribeCluster, Metadata", "0.8; fenced brokers 4.0"),
    Java("describeFeatures", "describe_features", "ApiVersions", "2.7"),
    Java("updateFeatures", "update_features", "UpdateFeatures", "3.3"),
    Java("describeMetadataQuorum", "describe_metadata_quorum", "DescribeQuorum", "3.3"),
    Java("addRaftVoter", "add_raft_voter", "AddRaftVoter", "3.9"),
    Java("removeRaftVoter", "remove_raft_voter", "RemoveRaftVoter", "3.9"),
    Java("unregisterBroker", "unregister_broker", "UnregisterBroker", "3.3"),
    Java("unregisterController", "unregister_controller", "UnregisterController", "4.4"),
    Java("listGroups", "list_groups", "ListGroups", "0.9"),
    Java("listConsumerGroups", "list_groups", "ListGroups", "0.9"),
    Java("describeConsumerGroups", "describe_consumer_groups", "ConsumerGroupDescribe, DescribeGroups", "0.9"),
    Java("describeClassicGroups", "describe_classic_groups", "DescribeGroups", "0.9"),
    Java("describeShareGroups", "describe_share_groups", "ShareGroupDescribe", "4.1"),
    Java("describeStreamsGroups", "describe_streams_groups", "StreamsGroupDescribe", "4.1"),
    Java("deleteConsumerGroups", "delete_consumer_groups", "DeleteGroups", "1.1"),
    Java("deleteShareGroups", "delete_consumer_groups", "DeleteGroups", "4.1"),
    Java("deleteStreamsGroups", "delete_consumer_groups", "DeleteGroups", "4.1"),
    Java("removeMembersFromConsumerGroup", "remove_members_from_consumer_group", "LeaveGroup, DescribeGroups", "2.4"),
    Java("listConsumerGroupOffsets", "list_consumer_group_offsets", "OffsetFetch", "0.9"),
    Java("alterConsumerGroupOffsets", "alter_consumer_group_offsets", "OffsetCommit", "0.9"),
    Java("deleteConsumerGroupOffsets", "delete_consumer_group_offsets", "OffsetDelete", "2.4"),
    Java("listStreamsGroupOffsets", "list_consumer_group_offsets", "OffsetFetch", "4.1"),
    Java("alterStreamsGroupOffsets", "alter_consumer_group_offsets", "OffsetCommit", "4.1"),
    Java("deleteStreamsGroupOffsets", "delete_consumer_group_offsets", "OffsetDelete", "4.1"),
    Java("listShareGroupOffsets", "list_share_group_offsets", "DescribeShareGroupOffsets", "4.1"),
    Java("alterShareGroupOffsets", "alter_share_group_offsets", "AlterShareGroupOffsets", "4.1"),
    Java("deleteShareGroupOffsets", "delete_share_group_offsets", "DeleteShareGroupOffsets", "4.1"),
    Java("describeTransactions", "describe_transactions", "DescribeTransactions", "3.0"),
    Java("listTransactions", "list_transactions", "ListTransactions", "3.0"),
    Java("describeProducers", "describe_producers", "DescribeProducers", "2.8"),
    Java("abortTransaction", "abort_transaction", "WriteTxnMarkers", "0.11"),
    Java("fenceProducers", "fence_producers", "InitProducerId", "0.11"),
    Java("forceTerminateTransaction", "fence_producers", "InitProducerId", "0.11"),
    Java("describeAcls", "describe_acls", "DescribeAcls", "0.11"),
    Java("createAcls", "create_acls", "CreateAcls", "0.11"),
    Java("deleteAcls", "delete_acls", "DeleteAcls", "0.11"),
    Java("describeUserScramCredentials", "describe_user_scram_credentials", "DescribeUserScramCredentials", "2.7"),
    Java("alterUserScramCredentials", "alter_user_scram_credentials", "AlterUserScramCredentials", "2.7"),
    Java("describeClientQuotas", "describe_client_quotas", "DescribeClientQuotas", "2.6"),
    Java("alterClientQuotas", "alter_client_quotas", "AlterClientQuotas", "2.6"),
    Java("createDelegationToken", "create_delegation_token", "CreateDelegationToken", "1.1"),
    Java("renewDelegationToken", "renew_delegation_token", "RenewDelegationToken", "1.1"),
    Java("expireDelegationToken", "expire_delegation_token", "ExpireDelegationToken", "1.1"),
    Java("describeDelegationToken", "describe_delegation_token", "DescribeDelegationToken", "1.1"),
    Java("metrics", "metrics", "", "any"),
    Java("clientInstanceId", "client_instance_id", "GetTelemetrySubscriptions", "3.7"),
    Java("registerMetricForSubscription", "", "", "levada pushes its own metrics only (ADR 28)"),
    Java("unregisterMetricFromSubscription", "", "", "levada pushes its own metrics only (ADR 28)"),
    Java("close", "close", "", "any"),
)

OURS_ALONE = (
    "commit_detached, abort_detached and end_transactions (EndTxn): end transactions that their producers have handed over; "
    "outcomes: the result or error of each."
)

CLIENTS: Mapping[str, str] = {
    "Produce": "`KafkaProducer.send()`, `send_many()`, `send_arrow()`",
    "Fetch": "`KafkaConsumer.poll()`, `poll_arrow()`, `levada.scan()`",
    "Metadata": "every client, to find brokers and leaders",
    "ApiVersions": "every client, first of all",
    "ListOffsets": "`KafkaConsumer.beginning_offsets()`, `end_offsets()`, `offsets_for_times()`",
    "OffsetCommit": "`KafkaConsumer.commit()`",
    "OffsetFetch": "`KafkaConsumer.committed()`",
    "LeaveGroup": "`KafkaConsumer.close()`",
    "InitProducerId": "`KafkaProducer.send()`",
    "GetTelemetrySubscriptions": "every client with `enable.metrics.push`",
    "FindCoordinator": "every call that is about a group or a transaction",
    "JoinGroup": "`KafkaConsumer.subscribe()`",
    "Heartbeat": "`KafkaConsumer.subscribe()`",
    "SyncGroup": "`KafkaConsumer.subscribe()`",
    "SaslHandshake": "every client with `sasl.mechanism`",
    "SaslAuthenticate": "every client with `sasl.mechanism`",
    "OffsetForLeaderEpoch": "`KafkaConsumer.poll()`",
    "AddPartitionsToTxn": "`KafkaProducer.send()` in a transaction",
    "AddOffsetsToTxn": "`KafkaProducer.send_offsets_to_transaction()`",
    "EndTxn": "`KafkaProducer.commit_transaction()`, `abort_transaction()`",
    "TxnOffsetCommit": "`KafkaProducer.send_offsets_to_transaction()`",
    "ConsumerGroupHeartbeat": "`KafkaConsumer.subscribe()`",
    "PushTelemetry": "every client with `enable.metrics.push`",
    "ShareGroupHeartbeat": "`KafkaShareConsumer.subscribe()`",
    "ShareFetch": "`KafkaShareConsumer.poll()`",
    "ShareAcknowledge": "`KafkaShareConsumer.acknowledge()`, `commit()`",
}
"""Other methods than those of KafkaAdmin that send a request, by API."""

NO_CLIENT: Mapping[str, str] = {
    "AlterConfigs": "`request()`; removed from Java's Admin in 4.0, because it resets all settings that it is not given",
    "StreamsGroupHeartbeat": "for Kafka Streams, which only Java has",
    "StreamsGroupTopologyDescriptionUpdate": "for Kafka Streams, which only Java has",
}
_OF_A_LATER_PART = "not there yet"
NOT_SERVED: Mapping[str, str] = {
    "StreamsGroupHeartbeat": "no groups of Kafka Streams",
    "StreamsGroupDescribe": "no groups of Kafka Streams",
    "StreamsGroupTopologyDescriptionUpdate": "no groups of Kafka Streams",
}
_LOGINS = "both take the same logins: [sasl](../tests/api/test_sasl.py)"
_TELEMETRY = "needs a plugin in Kafka: [telemetry_java](../tests/interop/test_telemetry_java.py)"
NOT_COMPARED: Mapping[str, str] = {
    **dict.fromkeys(("SaslHandshake", "SaslAuthenticate"), _LOGINS),
    **dict.fromkeys(("GetTelemetrySubscriptions", "PushTelemetry"), _TELEMETRY),
    **dict.fromkeys(("StreamsGroupHeartbeat", "StreamsGroupDescribe", "StreamsGroupTopologyDescriptionUpdate"), "not served"),
}
_BY_CLIENT = "part of what `consume` and `produce` do"
NO_COMMAND: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("FindCoordinator", "JoinGroup", "Heartbeat", "SyncGroup", "LeaveGroup", "OffsetForLeaderEpoch", "ConsumerGroupHeartbeat"),
            *("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "SaslHandshake", "SaslAuthenticate"),
        ),
        _BY_CLIENT,
    ),
    **dict.fromkeys(("GetTelemetrySubscriptions", "PushTelemetry"), "every command with `enable.metrics.push=true`"),
    **dict.fromkeys(("ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge"), "no command reads for a share group"),
    "StreamsGroupDescribe": "`groups list` lists them, like other groups",
}

OFFERED_TO_BROKERS = (
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
)
"""APIs for brokers that Kafka also serves at the listeners for clients."""

BROKERS_ONLY: Mapping[str, str] = {
    **dict.fromkeys(("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"), "for clusters with ZooKeeper; removed in 4.0"),
    **dict.fromkeys(("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot", "UpdateRaftVoter"), "among controllers"),
    **dict.fromkeys(
        ("AlterPartition", "BrokerRegistration", "BrokerHeartbeat", "AllocateProducerIds", "AssignReplicasToDirs", "Envelope"),
        "from brokers to the controller",
    ),
    "ControllerRegistration": "among controllers",
    **dict.fromkeys(OFFERED_TO_BROKERS, "from brokers to the coordinators of share groups"),
}

INTRODUCTION = """\
# Administration

Made by `make docs`. A test keeps it current, and checks that no cell is empty without a reason.

`KafkaAdmin` and `aio.KafkaAdmin` have the methods of Java's Admin of Kafka 4.4, under the same names in snake_case. A call about several
resources returns a mapping. If one of them fails, the call raises the first error after all were tried. This error's `outcomes` and
`results` have the results of the others. `outcomes(call, ...)` returns results and errors without raising
([ADR 54](adr/0054-admin-calls.md)). `request()` sends any request of Kafka's protocol ([PROTOCOL.md](PROTOCOL.md)).

## Java's methods

Brokers: the first release whose brokers can do it. Versions: the versions of the API that levada supports. Embedded: whether the embedded
broker serves it. Compared: a test that compares its answers with those of Kafka 4.4. Methods that ask leaders or coordinators also send
Metadata and FindCoordinator.

"""
EVERY_API = """\
## Every API that a client may send

The APIs that a broker of Kafka 4.4 offers to clients, and the methods and commands of levada that send their requests."""
BROKERS_ALONE = """\
## What only brokers and controllers send

levada declares these, too (`levada.protocol.messages`), but its clients do not send them."""


def document() -> str:
    """Return the page as Markdown."""
    java = ["| Java | KafkaAdmin | APIs | brokers | embedded | compared |", "|---|---|---|---|---|---|", *map(_java_row, JAVA)]
    every = ["| key | API | versions | sent by | command | embedded | compared |", "|---|---|---|---|---|---|---|"]
    every += [_api_row(api) for api in APIS.values() if api.NAME not in BROKERS_ONLY]
    alone = ["| key | API | why |", "|---|---|---|"]
    alone += [f"| {api.API_KEY} | {api.NAME} | {BROKERS_ONLY[api.NAME]} |" for api in APIS.values() if api.NAME in BROKERS_ONLY]
    ours = f"levada's own: {OURS_ALONE}"
    return "\n".join([INTRODUCTION, *java, "", ours, "", EVERY_API, "", *every, "", BROKERS_ALONE, "", *alone]) + "\n"


def _java_row(row: Java) -> str:
    apis = [_api(name) for name in _split(row.apis)]
    known = [method for method in _split(row.ours) if hasattr(KafkaAdmin, method)]
    ours = ", ".join(f"`{method}()`" for method in known) or (row.since if not row.ours else _OF_A_LATER_PART)
    sent = ", ".join(f"{api.NAME} ({api.API_KEY}) {_versions(api)}" for api in apis) or "none"
    served = _all_of([_served(api) for api in apis]) if apis else "-"
    compared = _all_of([_compared(api) for api in apis]) if apis else "-"
    return _row(f"`{row.method}`", ours, sent, row.since if row.ours else "-", served, compared)


def _api_row(api: type[Request]) -> str:
    return _row(str(api.API_KEY), api.NAME, _versions(api), _sent_by(api), _command(api), _served(api), _compared(api))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _all_of(cells: list[str]) -> str:
    """Return one cell for several APIs, without repetitions."""
    return "; ".join(dict.fromkeys(cells))


def _api(name: str) -> type[Request]:
    return next(api for api in APIS.values() if name == api.NAME)


def _versions(api: type[Request]) -> str:
    return f"{api.MIN_VERSION}-{api.MAX_VERSION}" if api.MIN_VERSION < api.MAX_VERSION else f"{api.MAX_VERSION}"


def _sent_by(api: type[Request]) -> str:
    methods = dict.fromkeys(method for row in JAVA if api.NAME in _split(row.apis) for method in _split(row.ours))
    known = [f"`KafkaAdmin.{method}()`" for method in methods if hasattr(KafkaAdmin, method)]
    if methods and not known and api.NAME not in CLIENTS:
        return _OF_A_LATER_PART
    others = [CLIENTS[api.NAME]] if api.NAME in CLIENTS else []
    return ", ".join(others + known) or NO_CLIENT.get(api.NAME, "")


def _served(api: type[Request]) -> str:
    return "yes" if api.API_KEY in SERVED else NOT_SERVED.get(api.NAME, _OF_A_LATER_PART if _is_of_a_later_part(api) else "")


def _compared(api: type[Request]) -> str:
    """Return a link to a test that compares the API's answers: it sends the request, or its kits do, or it calls a method that does."""
    module = f"levada.protocol.messages.{api.__module__.rpartition('.')[2]} import"
    calls = [f".{method}(" for row in JAVA if api.NAME in _split(row.apis) for method in _split(row.ours)]
    tests = [path for path in _comparing() if module in path.read_text()]
    tests = tests or [path for path, text in _comparing().items() if module in text]
    tests = tests or [path for path, text in _comparing().items() if any(call in text for call in calls)]
    if tests:
        return f"[{tests[0].stem.removeprefix('test_').removesuffix('_as_kafka')}](../{tests[0].relative_to(ROOT)})"
    return NOT_COMPARED.get(api.NAME, _OF_A_LATER_PART if _is_of_a_later_part(api) else "")


def _is_of_a_later_part(api: type[Request]) -> bool:
    return _sent_by(api) == _OF_A_LATER_PART


def _command(api: type[Request]) -> str:
    """Return the commands that send the API's request, found by the methods that their source calls, or the reason why there is none."""
    if api.NAME in NO_COMMAND:
        return NO_COMMAND[api.NAME]
    if not COMMANDS.is_dir():
        return "the command line is not there yet"
    by_admin = {method for row in JAVA if api.NAME in _split(row.apis) for method in _split(row.ours)}
    sent_by = CLIENTS.get(api.NAME, "")
    found = [path.stem for path, text in _commands().items() if _calls(text, by_admin) or _uses(path.read_text(), sent_by)]
    return ", ".join(f"`levada {name}`" for name in found) or NO_CLIENT.get(api.NAME, "")


def _calls(text: str, methods: Iterable[str]) -> bool:
    return any(re.search(rf"\.{method}\b", text) for method in methods)


def _uses(text: str, sent_by: str) -> bool:
    """Return whether a command's source uses a client and a method that send a request. sent_by: these, from CLIENTS."""
    return any(kind in text for kind in re.findall(r"Kafka\w+", sent_by)) and _calls(text, re.findall(r"(\w+)\(\)", sent_by))


@cache
def _commands() -> dict[Path, str]:
    """Return the source of each command, with the source of the modules of the command line that it imports."""
    return {path: _with_imports(path, OF_COMMANDS, COMMANDS.parents[2]) for path in sorted(COMMANDS.glob("[a-z]*.py"))}


@cache
def _comparing() -> dict[Path, str]:
    """Return the source of each test that compares the embedded broker with a real Kafka, with the source of its kits."""
    tests = sorted((ROOT / "tests/interop").glob("test_same_*.py")) + sorted((ROOT / "tests/interop").glob("test_random_*.py"))
    return {path: _with_imports(path, KITS, ROOT / "tests/kits") for path in tests}


def _with_imports(path: Path, imports: re.Pattern[str], folder: Path) -> str:
    """Return the source of a file and of all modules that it imports, also indirectly. imports: matches dotted names of these modules."""
    sources = [path]
    for source in sources:
        modules = [folder / f"{name.replace('.', '/')}.py" for name in imports.findall(source.read_text())]
        sources += [module for module in dict.fromkeys(modules) if module.exists() and module not in sources]
    return "\n".join(source.read_text() for source in sources)


def _split(names: str) -> list[str]:
    return [name for name in names.split(", ") if name]


if __name__ == "__main__":
    print(document(), end="")
