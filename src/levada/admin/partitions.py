"""Partitions: ListOffsets, DeleteRecords, leader elections, and reassignments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from levada.admin.enum_names import KafkaWord
from levada.admin.leaders import ON_LEADER_ERROR, each_at_its_leader
from levada.admin.per_key import Attempts, Doing, take
from levada.admin.requests import Asked, Outcome, carry_out, of_all
from levada.base.flow import Call, Flow
from levada.client.requests.destination import ThisNode
from levada.client.requests.fan_out import Answer, Spawn, raise_first
from levada.client.requests.partition_answer import by_topic
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.error_codes import ErrorCode
from levada.errors import KafkaError, UnsupportedVersionError, broker_error
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from levada.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics
from levada.types import IsolationLevel, OffsetAndTimestamp, OffsetSpec, TopicPartition

OF_A_CLIENT = -1
ON_OFFSETS_ERROR = RetryPolicy({**ON_LEADER_ERROR.on_error, ErrorCode.OFFSET_NOT_AVAILABLE: Reaction.RETRY})
FIRST_VERSION_WITH_TIMES = 1
FIRST_VERSION_WITH_ISOLATION = 2
FIRST_VERSION_WITH_UNCLEAN_ELECTIONS = 1


_SINCE: Mapping[int, tuple[int, str]] = {
    OffsetSpec.MAX_TIMESTAMP: (7, "3.0"),
    OffsetSpec.EARLIEST_LOCAL: (8, "3.4"),
    OffsetSpec.LATEST_TIERED: (9, "3.9"),
    OffsetSpec.EARLIEST_PENDING_UPLOAD: (11, "4.2"),
}
"""The first version with a spec, and the first release with it."""


class ElectionType(KafkaWord):
    """The type of a leader election. PREFERRED: elects the first replica, if it is in sync. UNCLEAN: if no replica is in sync, elects
    any replica; records may be lost.
    """

    PREFERRED = "Preferred"
    UNCLEAN = "Unclean"
    UNKNOWN = "Unknown"


_ELECTIONS = {ElectionType.PREFERRED: 0, ElectionType.UNCLEAN: 1}


class PartitionReassignment(NamedTuple):
    """A reassignment that is in progress. replicas: the brokers of all current replicas. adding: the brokers among them that get a new
    replica. removing: the brokers whose replica is removed at the end.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


# At leaders


def list_offsets(
    specs: Mapping[TopicPartition, int], isolation_level: IsolationLevel, attempts: Attempts, spawn: Spawn
) -> Flow[dict[TopicPartition, OffsetAndTimestamp | None]]:
    """Look up one offset of each partition. specs: for each partition, an OffsetSpec or a time in milliseconds since the epoch.

    The result is None for a partition that has no record at or after the time.
    """
    doing = Doing(lambda tp: f"list the offset of {tp}", ON_OFFSETS_ERROR, attempts, ListOffsetsRequest.NAME)
    oldest, release = max((_SINCE.get(spec, (FIRST_VERSION_WITH_TIMES, "0.10.1")) for spec in specs.values()), default=(0, ""))
    if isolation_level is IsolationLevel.READ_COMMITTED and oldest < FIRST_VERSION_WITH_ISOLATION:
        oldest, release = FIRST_VERSION_WITH_ISOLATION, "0.11"

    def ask(leader: ThisNode, wanted: list[TopicPartition]) -> Flow[Answer[TopicPartition, OffsetAndTimestamp | None]]:
        topics = [
            ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=tp.partition, timestamp=specs[tp]) for tp in of_topic]
            )
            for name, of_topic in by_topic(wanted).items()
        ]
        request = ListOffsetsRequest(replica_id=OF_A_CLIENT, isolation_level=isolation_level, topics=topics)
        try:
            response: ListOffsetsResponse = yield Call(request, leader, min_version=oldest)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{error.reason}; what is asked for needs brokers since {release}") from None
        answer: Answer[TopicPartition, OffsetAndTimestamp | None] = Answer(refresh=False)
        for topic in response.topics:
            for part in topic.partitions:
                found = None if part.offset < 0 else OffsetAndTimestamp(part.offset, part.timestamp, part.leader_epoch)
                take(doing, answer, TopicPartition(topic.name, part.partition_index), part.error_code, found)
        return answer

    return each_at_its_leader(doing, specs, spawn, ask)


def delete_records(
    before: Mapping[TopicPartition, int], attempts: Attempts, spawn: Spawn, *, timeout_ms: int
) -> Flow[dict[TopicPartition, int]]:
    """Delete the records before an offset of each partition; return the new log start offsets (KIP-107).

    before: the offset for each partition; -1 means the high watermark.
    """
    doing = Doing(lambda tp: f"delete the records of {tp} before offset {before[tp]}", ON_LEADER_ERROR, attempts, DeleteRecordsRequest.NAME)

    def ask(leader: ThisNode, wanted: list[TopicPartition]) -> Flow[Answer[TopicPartition, int]]:
        topics = [
            DeleteRecordsTopic(
                name=name, partitions=[DeleteRecordsPartition(partition_index=tp.partition, offset=before[tp]) for tp in of_topic]
            )
            for name, of_topic in by_topic(wanted).items()
        ]
        response: DeleteRecordsResponse = yield Call(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), leader)
        answer: Answer[TopicPartition, int] = Answer(refresh=False)
        for topic in response.topics:
            for part in topic.partitions:
                take(doing, answer, TopicPartition(topic.name, part.partition_index), part.error_code, part.low_watermark)
        return answer

    return each_at_its_leader(doing, before, spawn, ask)


# At the controller


def elect_leaders(
    election: ElectionType, partitions: Collection[TopicPartition] | None, attempts: Attempts, *, timeout_ms: int
) -> Flow[dict[TopicPartition, bool]]:
    """Elect the leaders of partitions (KIP-183, KIP-460). partitions: None for all partitions that need an election.

    The result is True for a partition with an election, and False for a partition that needed no election.
    """
    if partitions is None:
        return (yield from _elect_all(election, attempts, timeout_ms))
    asked = Asked(
        lambda tp: f"elect a leader of {tp}",
        lambda wanted: _election(election, wanted, timeout_ms),
        lambda response: _elected(response, partitions),
        min_version=_oldest(election),
    )
    return (yield from carry_out(asked, partitions, attempts))


def _elect_all(election: ElectionType, attempts: Attempts, timeout_ms: int) -> Flow[dict[TopicPartition, bool]]:
    """Elect the leaders of all partitions that need an election. Return the result for each partition that the response names."""
    asked = Asked(
        lambda _: "elect leaders",
        lambda _: _election(election, None, timeout_ms),
        lambda response: {None: Outcome(response.error_code, None, _elected(response, ()))},
        min_version=_oldest(election),
    )
    told: dict[TopicPartition, Outcome] = yield from of_all(asked, attempts)
    errors: dict[TopicPartition, KafkaError] = {
        tp: broker_error(one.error_code, f"elect a leader of {tp}" + (f": {one.message}" if one.message else ""))
        for tp, one in told.items()
        if one.error_code
    }
    found = {tp: one.value for tp, one in told.items() if tp not in errors}
    raise_first(lambda tp: f"elect a leader of {tp}", told, errors, found)
    return found


def _oldest(election: ElectionType) -> int:
    return FIRST_VERSION_WITH_UNCLEAN_ELECTIONS if election is ElectionType.UNCLEAN else 0


def _election(election: ElectionType, wanted: Iterable[TopicPartition] | None, timeout_ms: int) -> ElectLeadersRequest:
    topics = None if wanted is None else by_topic(wanted).items()
    named = (
        None if topics is None else [TopicPartitions(topic=name, partitions=[tp.partition for tp in of_topic]) for name, of_topic in topics]
    )
    return ElectLeadersRequest(election_type=_ELECTIONS[election], topic_partitions=named, timeout_ms=timeout_ms)


def _elected(response: Any, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, Outcome]:
    """Return the outcome of each partition. If the whole request failed, each wanted partition gets that error."""
    if response.error_code:
        return dict.fromkeys(wanted, Outcome(response.error_code))
    return {
        TopicPartition(topic.topic, part.partition_id): Outcome(ErrorCode.NONE, None, False)
        if part.error_code == ErrorCode.ELECTION_NOT_NEEDED
        else Outcome(part.error_code, part.error_message, True)
        for topic in response.replica_election_results
        for part in topic.partition_result
    }


def alter_partition_reassignments(
    replicas: Mapping[TopicPartition, Sequence[int] | None], attempts: Attempts, *, timeout_ms: int
) -> Flow[dict[TopicPartition, None]]:
    """Begin to move partitions to other brokers (KIP-455). Return a dict that maps each partition to None.

    replicas: for each partition, the ids of the new brokers, the preferred leader first; None cancels a reassignment in progress.
    timeout_ms: how long the broker may take.
    """

    def request(wanted: list[TopicPartition]) -> AlterPartitionReassignmentsRequest:
        topics = [
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=tp.partition, replicas=_to(tp)) for tp in tps])
            for name, tps in by_topic(wanted).items()
        ]
        return AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)

    def _to(tp: TopicPartition) -> list[int] | None:
        target = replicas[tp]
        return None if target is None else list(target)

    def outcomes(response: Any) -> dict[TopicPartition, Outcome]:
        if response.error_code:
            return dict.fromkeys(replicas, Outcome(response.error_code, response.error_message))
        return {
            TopicPartition(topic.name, part.partition_index): Outcome(part.error_code, part.error_message)
            for topic in response.responses
            for part in topic.partitions
        }

    asked = Asked(lambda tp: f"reassign {tp}", request, outcomes, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    return carry_out(asked, replicas, attempts)


def list_partition_reassignments(
    partitions: Collection[TopicPartition] | None, attempts: Attempts, *, timeout_ms: int
) -> Flow[dict[TopicPartition, PartitionReassignment]]:
    """Return the reassignments that are in progress, by partition (KIP-455). partitions: None for all partitions."""
    topics = (
        None
        if partitions is None
        else [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=[tp.partition for tp in tps])
            for name, tps in by_topic(partitions).items()
        ]
    )

    def under_way(response: Any) -> dict[TopicPartition, PartitionReassignment]:
        return {
            TopicPartition(topic.name, part.partition_index): PartitionReassignment(
                tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
            )
            for topic in response.topics
            for part in topic.partitions
        }

    asked = Asked(
        lambda _: "list partition reassignments",
        lambda _: ListPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms),
        lambda response: {None: Outcome(response.error_code, response.error_message, under_way(response))},
    )
    return of_all(asked, attempts)
