"""The permissions that each API of Kafka needs (KIP-11): brokers check them, and clients name them in errors.

The table names the operations that Kafka's brokers check. Some permissions imply others: READ implies DESCRIBE, for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from levada.acls import AclOperation, ResourceType
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, broker_error


class Need(NamedTuple):
    """A permission for one type of resource.

    operations: any one of them is sufficient. is_whole: whether the broker refuses the whole request without the permission, and not only
    single resources. or_on_cluster: an operation whose permission on the cluster suffices for every resource; None if there is none.
    """

    operations: tuple[AclOperation, ...]
    is_whole: bool = False
    or_on_cluster: AclOperation | None = None


def _whole(*operations: AclOperation) -> Need:
    return Need(operations, is_whole=True)


def _each(operation: AclOperation, or_on_cluster: AclOperation | None = None) -> Need:
    return Need((operation,), or_on_cluster=or_on_cluster)


_Op, _Type = AclOperation, ResourceType
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = _Type.TOPIC, _Type.GROUP, _Type.CLUSTER, _Type.TRANSACTIONAL_ID
_MEMBER: Final = {_GROUP: _whole(_Op.READ)}
_ALTERS_CLUSTER: Final = {_CLUSTER: _whole(_Op.ALTER)}
_DESCRIBES_CLUSTER: Final = {_CLUSTER: _whole(_Op.DESCRIBE)}
_DESCRIBES_GROUPS: Final = {_GROUP: _each(_Op.DESCRIBE), _TOPIC: _each(_Op.DESCRIBE)}

NEEDS: Final[Mapping[str, Mapping[ResourceType, Need]]] = {
    # Records
    "Produce": {_TRANSACTIONAL_ID: _each(_Op.WRITE), _TOPIC: _each(_Op.WRITE)},
    "Fetch": {_TOPIC: _each(_Op.READ)},
    "ListOffsets": {_TOPIC: _each(_Op.DESCRIBE)},
    "OffsetForLeaderEpoch": {_TOPIC: _each(_Op.DESCRIBE, _Op.CLUSTER_ACTION)},
    "DeleteRecords": {_TOPIC: _each(_Op.DELETE)},
    # Connections and metadata
    "ApiVersions": {},
    "SaslHandshake": {},
    "SaslAuthenticate": {},
    "GetTelemetrySubscriptions": {},
    "PushTelemetry": {},
    "Metadata": {_TOPIC: _each(_Op.DESCRIBE), _CLUSTER: _each(_Op.DESCRIBE)},
    "DescribeCluster": {_CLUSTER: _each(_Op.DESCRIBE)},
    "DescribeTopicPartitions": {_TOPIC: _each(_Op.DESCRIBE)},
    "FindCoordinator": {
        _GROUP: _each(_Op.DESCRIBE),
        _TRANSACTIONAL_ID: _each(_Op.DESCRIBE),
        _CLUSTER: _each(_Op.CLUSTER_ACTION),
    },
    # Topics and settings
    "CreateTopics": {_TOPIC: _each(_Op.CREATE, _Op.CREATE)},
    "DeleteTopics": {_TOPIC: _each(_Op.DELETE, _Op.DELETE)},
    "CreatePartitions": {_TOPIC: _each(_Op.ALTER)},
    "DescribeConfigs": dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), _each(_Op.DESCRIBE_CONFIGS)),
    "AlterConfigs": dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), _each(_Op.ALTER_CONFIGS)),
    "IncrementalAlterConfigs": dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), _each(_Op.ALTER_CONFIGS)),
    "ListConfigResources": {_CLUSTER: _whole(_Op.DESCRIBE_CONFIGS)},
    # Groups
    "JoinGroup": _MEMBER,
    "SyncGroup": _MEMBER,
    "Heartbeat": _MEMBER,
    "LeaveGroup": _MEMBER,
    "ConsumerGroupHeartbeat": {**_MEMBER, _TOPIC: _each(_Op.DESCRIBE)},
    "OffsetCommit": {**_MEMBER, _TOPIC: _each(_Op.READ)},
    "OffsetFetch": {_GROUP: _each(_Op.DESCRIBE), _TOPIC: _each(_Op.DESCRIBE)},
    "OffsetDelete": {_GROUP: _whole(_Op.DELETE), _TOPIC: _each(_Op.READ)},
    "ListGroups": {_GROUP: _each(_Op.DESCRIBE, _Op.DESCRIBE)},
    "DescribeGroups": {_GROUP: _each(_Op.DESCRIBE)},
    "ConsumerGroupDescribe": _DESCRIBES_GROUPS,
    "DeleteGroups": {_GROUP: _each(_Op.DELETE)},
    # Share groups
    "ShareGroupHeartbeat": {**_MEMBER, _TOPIC: _each(_Op.DESCRIBE)},
    "ShareFetch": {**_MEMBER, _TOPIC: _each(_Op.READ)},
    "ShareAcknowledge": {**_MEMBER, _TOPIC: _each(_Op.READ)},
    "ShareGroupDescribe": _DESCRIBES_GROUPS,
    "DescribeShareGroupOffsets": _DESCRIBES_GROUPS,
    "AlterShareGroupOffsets": {**_MEMBER, _TOPIC: _each(_Op.READ)},
    "DeleteShareGroupOffsets": {_GROUP: _whole(_Op.DELETE), _TOPIC: _each(_Op.READ)},
    # Groups of Kafka Streams
    "StreamsGroupDescribe": _DESCRIBES_GROUPS,
    # Transactions
    "InitProducerId": {_TRANSACTIONAL_ID: _each(_Op.WRITE), _CLUSTER: _each(_Op.IDEMPOTENT_WRITE)},
    "AddPartitionsToTxn": {_TRANSACTIONAL_ID: _each(_Op.WRITE), _TOPIC: _each(_Op.WRITE), _CLUSTER: _each(_Op.CLUSTER_ACTION)},
    "AddOffsetsToTxn": {_TRANSACTIONAL_ID: _whole(_Op.WRITE), _GROUP: _whole(_Op.READ)},
    "TxnOffsetCommit": {_TRANSACTIONAL_ID: _whole(_Op.WRITE), _GROUP: _whole(_Op.READ), _TOPIC: _each(_Op.READ)},
    "EndTxn": {_TRANSACTIONAL_ID: _whole(_Op.WRITE)},
    "WriteTxnMarkers": {_CLUSTER: _whole(_Op.ALTER, _Op.CLUSTER_ACTION)},
    "DescribeProducers": {_TOPIC: _each(_Op.READ)},
    "DescribeTransactions": {_TRANSACTIONAL_ID: _each(_Op.DESCRIBE), _TOPIC: _each(_Op.DESCRIBE)},
    "ListTransactions": {_TRANSACTIONAL_ID: _each(_Op.DESCRIBE)},
    # The cluster and its users
    "DescribeAcls": _DESCRIBES_CLUSTER,
    "CreateAcls": _ALTERS_CLUSTER,
    "DeleteAcls": _ALTERS_CLUSTER,
    "DescribeClientQuotas": {_CLUSTER: _whole(_Op.DESCRIBE_CONFIGS)},
    "AlterClientQuotas": {_CLUSTER: _whole(_Op.ALTER_CONFIGS)},
    "DescribeUserScramCredentials": _DESCRIBES_CLUSTER,
    "AlterUserScramCredentials": _ALTERS_CLUSTER,
    "CreateDelegationToken": {_Type.USER: _each(_Op.CREATE_TOKENS)},
    "DescribeDelegationToken": {_Type.DELEGATION_TOKEN: _each(_Op.DESCRIBE), _Type.USER: _each(_Op.DESCRIBE_TOKENS)},
    # The token itself names who may renew and expire it.
    "RenewDelegationToken": {},
    "ExpireDelegationToken": {},
    "DescribeLogDirs": _DESCRIBES_CLUSTER,
    "AlterReplicaLogDirs": _ALTERS_CLUSTER,
    "ElectLeaders": _ALTERS_CLUSTER,
    "AlterPartitionReassignments": _ALTERS_CLUSTER,
    "ListPartitionReassignments": _DESCRIBES_CLUSTER,
    "UpdateFeatures": _ALTERS_CLUSTER,
    "DescribeQuorum": _DESCRIBES_CLUSTER,
    "AddRaftVoter": _ALTERS_CLUSTER,
    "RemoveRaftVoter": _ALTERS_CLUSTER,
    "UnregisterBroker": _ALTERS_CLUSTER,
    "UnregisterController": _ALTERS_CLUSTER,
}
"""The permissions that each API needs, by the name of the API and the type of resource."""

CODES: Final[Mapping[ResourceType, ErrorCode]] = {
    _TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    _CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    _TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    _Type.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    _Type.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code of a missing permission, by type of resource."""

_WORDS: Final = {
    _TOPIC: "topic",
    _GROUP: "group",
    _TRANSACTIONAL_ID: "transactional id",
    _Type.USER: "user",
    _Type.DELEGATION_TOKEN: "delegation token",
}


def refused(api: str, code: int, text: str, names: Mapping[ResourceType, str]) -> BrokerError:
    """Return the exception for an error code of an API. Its text names the missing permission if the code is an authorization error.

    names: the name of the resource of each type. Without a name, the text says "each topic concerned", for example.
    """
    lacking = needed(api, code, names)
    return broker_error(code, f"{text}; {lacking}" if lacking else text)


def needed(api: str, code: int, names: Mapping[ResourceType, str]) -> str:
    """Return a text with the missing operation and the resource. names: as in refused().

    "" if the code is not an authorization error for a resource that the API needs, or if the API is unknown.
    """
    for resource_type, need in NEEDS.get(api, {}).items():
        if CODES[resource_type] == code:
            operations = " or ".join(operation.name for operation in need.operations)
            return f"this user needs the permission {operations} on {_name(resource_type, names.get(resource_type))}"
    return ""


def _name(resource_type: ResourceType, name: str | None) -> str:
    if resource_type not in _WORDS:
        return "the cluster"
    word = _WORDS[resource_type]
    return f"each {word} concerned" if name is None else f"{word} '{name}'"
