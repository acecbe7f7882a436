"""ElectLeaders: elect preferred replicas or, in partitions without a leader, any replica, preferably in sync (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from levada.broker.cluster.cluster import Cluster
from levada.broker.node.answers import indexes_by_topic
from levada.broker.node.state import Api, Call
from levada.broker.replication.partition import NO_LEADER, Partition
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from levada.types import TopicPartition

_HAS_ERROR_CODE = 1


def handle(call: Call) -> ElectLeadersResponse:
    """Elect a leader for each partition separately. If all partitions are asked for, only those that needed an election are returned."""
    request: ElectLeadersRequest = call.request
    elect = _ELECTIONS.get(request.election_type)
    if elect is None:
        return refuse(request, call.version, ErrorCode.INVALID_REQUEST)
    cluster = call.state.cluster
    if request.topic_partitions is None:
        tried = {
            partition.name: _try(cluster, partition.name, elect) for topic in cluster.topics.values() for partition in topic.partitions
        }
        return _response(tried, lambda result: result.error_code != ErrorCode.ELECTION_NOT_NEEDED)
    return _response({tp: _try(cluster, tp, elect) for tp in _named(request)})


def refuse(request: ElectLeadersRequest, version: int, code: ErrorCode) -> ElectLeadersResponse:
    """Answer with an error for every partition, and for the request where the version has one."""
    response = _response({tp: PartitionResult(partition_id=tp.partition, error_code=code) for tp in _named(request)})
    response.error_code = code if version >= _HAS_ERROR_CODE else ErrorCode.NONE
    return response


def _named(request: ElectLeadersRequest) -> list[TopicPartition]:
    return [TopicPartition(topic.topic, index) for topic in request.topic_partitions or () for index in topic.partitions]


def _response(
    results: Mapping[TopicPartition, PartitionResult], is_told: Callable[[PartitionResult], bool] = lambda result: True
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=name, partition_result=[one for index in indexes if is_told(one := results[TopicPartition(name, index)])]
            )
            for name, indexes in indexes_by_topic(results).items()
        ]
    )


def _try(cluster: Cluster, tp: TopicPartition, elect: Callable[[Cluster, Partition], None]) -> PartitionResult:
    try:
        elect(cluster, cluster.partition(cluster.topic(tp.topic), tp.partition))
    except BrokerError as error:
        return PartitionResult(partition_id=tp.partition, error_code=error.code, error_message=error.reason)
    return PartitionResult(partition_id=tp.partition)


def _elect_preferred(cluster: Cluster, partition: Partition) -> None:
    preferred = next(iter(partition.replicas))
    if partition.leader == preferred:
        raise BrokerError(f"{partition.name}: its preferred replica leads already", code=ErrorCode.ELECTION_NOT_NEEDED)
    if preferred not in cluster.alive or preferred not in partition.isr:
        raise BrokerError(
            f"{partition.name}: its preferred replica, on node {preferred}, is not in sync", code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        )
    cluster.move_leader(partition, preferred)


def _elect_any(cluster: Cluster, partition: Partition) -> None:
    if partition.leader != NO_LEADER:
        raise BrokerError(f"{partition.name}: it has a leader", code=ErrorCode.ELECTION_NOT_NEEDED)
    candidates = partition.candidates(cluster.alive)
    if not candidates:
        raise BrokerError(f"{partition.name}: no node that has a replica is up", code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    cluster.move_leader(partition, candidates[0])


_ELECTIONS: Mapping[int, Callable[[Cluster, Partition], None]] = {0: _elect_preferred, 1: _elect_any}

API = Api(ElectLeadersRequest, 0, 2, handle, refuse, 0)
