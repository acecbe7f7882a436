"""Committed offsets of groups: stored and fetched at the group's coordinator (OffsetCommit, OffsetFetch).

Retriable errors are retried after a pause, at the coordinator of that time, until the operation's time is over. What each error code means
is in a table per API. The admin client has tables of its own, where a topic that does not exist is a result and not a temporary failure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from levada.acls import ResourceType
from levada.base.flow import Call, Flow
from levada.base.permissions import refused
from levada.client.metadata.metadata import Metadata
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.client.requests.destination import Coordinator
from levada.client.requests.fan_out import MOST_NOTES, Answer, FanOut, Spawn, raise_first
from levada.client.requests.partition_answer import Asked, Part, PartitionAnswer, partition_answer
from levada.client.requests.retry import Reaction, Retries, RetryPolicy
from levada.error_codes import ErrorCode, described
from levada.errors import ConnectError, KafkaError, ProtocolError, TimeoutError, UnsupportedVersionError, UnwritableError
from levada.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from levada.types import UNKNOWN_OFFSET, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

ON_COMMIT_ERROR = RetryPolicy(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.REFRESH,
        ErrorCode.UNKNOWN_TOPIC_ID: Reaction.REFRESH,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.REFIND,
        ErrorCode.NOT_COORDINATOR: Reaction.REFIND,
        ErrorCode.REQUEST_TIMED_OUT: Reaction.REFIND,
    }
)
"""Error codes of OffsetCommit for consumers."""
ON_FETCH_ERROR = RetryPolicy(
    {
        **{code: Reaction.RETRY for code in ErrorCode if code.retriable},
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RAISE,
        ErrorCode.UNKNOWN_TOPIC_ID: Reaction.REFRESH,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.REFIND,
        ErrorCode.NOT_COORDINATOR: Reaction.REFIND,
    }
)
"""Error codes of OffsetFetch. UNSTABLE_OFFSET_COMMIT is among the retriable ones: an open transaction may change the offset."""
ON_MEMBERS_FETCH_ERROR = RetryPolicy(
    {**ON_FETCH_ERROR.on_error, ErrorCode.STALE_MEMBER_EPOCH: Reaction.RETRY, ErrorCode.UNKNOWN_MEMBER_ID: Reaction.RETRY}
)
"""Error codes of OffsetFetch for members of consumer groups (KIP-848). A refused member asks again with its new epoch, or without being a
member.
"""

FIRST_VERSION_IN_KAFKA = 1
"""Version 0 of both APIs keeps offsets in ZooKeeper."""
FIRST_FETCH_VERSION_FOR_ALL = 2
FETCH_VERSION_WITH_STABLE = 7
FIRST_FETCH_VERSION_WITH_GROUPS = 8
LAST_VERSION_BY_NAME = 9

Committed: TypeAlias = dict[TopicPartition, OffsetAndMetadata | None]
"""The committed offset per partition, None where there is none."""


class Waiting(NamedTuple):
    """Tells whether to wait for open transactions that may change the offsets (KIP-447), which brokers before 2.5 do not support.

    told: called for each response, with the partitions that wait for a transaction; [] if none does. cannot: called if the coordinator
    cannot wait; it is then asked without waiting. None raises UnsupportedVersionError instead.
    """

    wanted: bool = True
    told: Callable[[list[TopicPartition]], None] = lambda partitions: None
    cannot: Callable[[], None] | None = None


class CoordinatedGroup(NamedTuple):
    """A group, and the finder of its coordinator."""

    group_id: str
    finder: CoordinatorFinder

    @property
    def coordinator(self) -> Coordinator:
        """The group's coordinator as destination of requests."""
        return Coordinator(CoordinatorKind.GROUP, self.group_id)

    @property
    def who(self) -> str:
        """A text that names the coordinator in error messages."""
        return f"the coordinator of group '{self.group_id}'"

    def take_codes(self, policy: RetryPolicy, codes: Iterable[int]) -> bool:
        """Forget the coordinator if `policy` says so for one of these error codes. Return whether the next attempt needs fresh metadata."""
        reactions = {policy.reaction(code) for code in codes if code}
        if Reaction.REFIND in reactions:
            self.finder.forget(CoordinatorKind.GROUP, self.group_id)
        return Reaction.REFRESH in reactions


# Committing


def commit_offsets(
    finder: CoordinatorFinder,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    retries: Retries,
    policy: RetryPolicy = ON_COMMIT_ERROR,
    *,
    still_wanted: Callable[[TopicPartition], bool] = lambda tp: True,
    fault_of: Callable[[TopicPartition], KafkaError | None] = lambda tp: None,
) -> Flow[Collection[TopicPartition]]:
    """Commit offsets, and retry after retriable errors. Return the partitions whose offsets were committed.

    still_wanted: returns whether the offset of a partition still has to be committed; called before each attempt. fault_of: returns the
    error that forbids the commit of a partition; None allows it. Raises TimeoutError, and the first error in the order of `offsets`;
    `outcomes` of that error has the outcome of each partition.
    """

    def ask(tps: list[TopicPartition]) -> Flow[PartitionAnswer[None]]:
        errors = {tp: fault for tp in tps if (fault := fault_of(tp)) is not None}
        sent = {tp: offsets[tp] for tp in tps if tp not in errors}
        if not sent:
            return Answer(errors=errors)
        answer = yield from commit_once(finder, group, sent, retries.metadata, policy)
        answer.errors.update(errors)
        return answer

    asking: FanOut[TopicPartition, None] = FanOut(
        retries,
        None,
        route=lambda tp: CoordinatedGroup(group.group_id, finder).coordinator,
        ask=lambda _, tps: ask(tps),
        still_wanted=still_wanted,
    )
    try:
        yield from asking.run(list(offsets))
    except TimeoutError as late:
        why = "; ".join(f"{tp}: {reason}" for tp, reason in asking.reasons.items())
        raise TimeoutError(f"offsets of group '{group.group_id}' not committed in time ({late}): {why}") from late
    raise_first(lambda tp: f"{tp}: commit for group '{group.group_id}'", offsets, asking.errors, asking.found)
    return asking.found.keys()


def commit_once(
    finder: CoordinatorFinder,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    metadata: Metadata,
    policy: RetryPolicy = ON_COMMIT_ERROR,
) -> Flow[PartitionAnswer[None]]:
    """Send one OffsetCommit to the coordinator, without retries. policy: maps error codes to reactions.

    Return the outcome of each partition. If no valid response arrives, every partition has a reason to try again. Raises the error of the
    coordinator look-up, UnsupportedVersionError, and UnwritableError.
    """
    coordinated = CoordinatedGroup(group.group_id, finder)
    ids = _known_ids(metadata, {tp.topic for tp in offsets})
    newest = LAST_VERSION_BY_NAME if ids is None else OffsetCommitRequest.MAX_VERSION
    call = Call(_commit_request(group, offsets, ids or {}), coordinated.coordinator, min_version=FIRST_VERSION_IN_KAFKA, max_version=newest)
    try:
        response = yield call
    except UnwritableError:
        raise
    except (ConnectError, ProtocolError) as fault:
        return Answer(again=dict.fromkeys(offsets, f"{coordinated.who}: {fault}"), refresh=False)
    names = {topic_id: name for name, topic_id in (ids or {}).items()}
    parts = [
        Part(TopicPartition(topic.name or names.get(topic.topic_id, ""), part.partition_index), part.error_code, None)
        for topic in response.topics
        for part in topic.partitions
    ]
    what = Asked(OffsetCommitRequest.NAME, "commit an offset", group.group_id)
    answer = partition_answer(coordinated.who, offsets, parts, policy, what)
    answer.refresh = coordinated.take_codes(policy, (part.error_code for part in parts))
    return answer


def _commit_request(
    group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, UUID]
) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for tp, at in offsets.items():
        if tp.topic not in topics:
            topics[tp.topic] = OffsetCommitRequestTopic(name=tp.topic, partitions=[])
            if tp.topic in ids:
                topics[tp.topic].topic_id = ids[tp.topic]
        partition = OffsetCommitRequestPartition(
            partition_index=tp.partition,
            committed_offset=at.offset,
            committed_leader_epoch=at.leader_epoch,
            committed_metadata=at.metadata,
        )
        topics[tp.topic].partitions.append(partition)
    return OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
    )


# Asking


def fetch_offsets(
    finder: CoordinatorFinder,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    retries: Retries,
    waiting: Waiting,
    *,
    asker: Callable[[], ConsumerGroupMetadata] | None = None,
) -> Flow[Committed]:
    """Return the committed offsets of a group for these partitions; for None, of all partitions with a committed offset.

    asker: returns the group member that sends the request, with its current epoch (KIP-848); None for a caller that is not a member. Raises
    errors that are not retriable, and TimeoutError.
    """
    asking = yield from _ask_for_offsets(finder, {group_id: partitions}, retries, None, waiting, asker=asker)
    for error in asking.errors.values():
        raise error
    return asking.found[group_id]


def fetch_offsets_of_groups(
    finder: CoordinatorFinder,
    wanted: Mapping[str, Collection[TopicPartition] | None],
    retries: Retries,
    spawn: Spawn,
    *,
    stable: bool,
) -> Flow[dict[str, Committed]]:
    """Return the committed offsets of several groups. wanted: the partitions of each group; None for all with a committed offset.

    stable: whether to wait for open transactions that may change the offsets. Raises TimeoutError, and the first error in the order of
    `wanted`; `outcomes` of the error has the outcome of each group.
    """
    asking = yield from _ask_for_offsets(finder, wanted, retries, spawn, Waiting(stable))
    raise_first(lambda group: f"offsets of group '{group}'", wanted, asking.errors, asking.found)
    return {group: asking.found[group] for group in wanted}


def _ask_for_offsets(
    finder: CoordinatorFinder,
    wanted: Mapping[str, Collection[TopicPartition] | None],
    retries: Retries,
    spawn: Spawn | None,
    waiting: Waiting,
    *,
    asker: Callable[[], ConsumerGroupMetadata] | None = None,
) -> Flow[FanOut[str, Committed]]:
    """Ask each group's coordinator until every group is settled. A TimeoutError has the outcome of each group.

    wanted: the partitions of each group; None for all with a committed offset. asker: see fetch_offsets().
    """
    asking: FanOut[str, Committed] = FanOut(
        retries,
        spawn,
        route=lambda group: CoordinatedGroup(group, finder).coordinator,
        ask=lambda _, groups: _fetch_once(
            CoordinatedGroup(groups[0], finder),
            wanted[groups[0]],
            retries.metadata,
            waiting,
            asker=ConsumerGroupMetadata(groups[0]) if asker is None else asker(),
        ),
    )
    try:
        yield from asking.run(list(wanted))
    except TimeoutError as late:
        reasons = [f"group '{group}': {reason}" for group, reason in asking.reasons.items()]
        more = f"; and {len(reasons) - MOST_NOTES} more groups" if len(reasons) > MOST_NOTES else ""
        why = "; ".join(reasons[:MOST_NOTES]) + more
        over = TimeoutError(f"committed offsets not found in time ({late}): {why}")
        over.outcomes = {group: None if group in asking.found else asking.errors.get(group, over) for group in wanted}
        over.results = dict(asking.found)
        raise over from late
    return asking


def _fetch_once(
    group: CoordinatedGroup,
    partitions: Collection[TopicPartition] | None,
    metadata: Metadata,
    waiting: Waiting,
    asker: ConsumerGroupMetadata,
) -> Flow[Answer[str, Committed]]:
    policy = ON_MEMBERS_FETCH_ERROR if asker.member_id else ON_FETCH_ERROR
    ids = None if partitions is None else _known_ids(metadata, {tp.topic for tp in partitions})
    who = group.who
    try:
        said_of_group = yield from _call_in_some_version(group, partitions, ids, waiting, asker)
    except UnwritableError:
        raise
    except (ConnectError, ProtocolError) as fault:
        return Answer(again={group.group_id: f"{who}: {fault}"}, refresh=False)
    if said_of_group is None:
        return Answer(again={group.group_id: f"{who} left the group out of its answer"}, refresh=False)
    group_code = said_of_group.error_code
    parts = list(_parts(said_of_group.topics, {topic_id: name for name, topic_id in (ids or {}).items()}))
    waiting.told([part.tp for part in parts if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT])
    refresh = group.take_codes(policy, [group_code, *(part.error_code for part in parts)])
    if group_code and policy.reaction(group_code) is not Reaction.RAISE:
        return Answer(again={group.group_id: f"{who}: {described(group_code)}"}, refresh=refresh)
    if group_code:
        names = {ResourceType.GROUP: group.group_id}
        return Answer(errors={group.group_id: refused(OffsetFetchRequest.NAME, group_code, f"offsets of group '{group.group_id}'", names)})
    asked = [part.tp for part in parts] if partitions is None else partitions
    what = Asked(OffsetFetchRequest.NAME, "the committed offset", group.group_id)
    said = partition_answer(who, dict.fromkeys(asked), parts, policy, what)
    for error in said.errors.values():
        return Answer(errors={group.group_id: error})
    for tp, reason in said.again.items():
        return Answer(again={group.group_id: f"{tp}: {reason}"}, refresh=refresh)
    return Answer(found={group.group_id: {tp: said.found[tp] for tp in asked}})


def _call_in_some_version(
    group: CoordinatedGroup,
    partitions: Collection[TopicPartition] | None,
    ids: Mapping[str, UUID] | None,
    waiting: Waiting,
    asker: ConsumerGroupMetadata,
) -> Flow[Any]:
    """Send the request in the newest version that the coordinator supports. Return the part of the response about the group; None if it is
    missing.

    Raises UnsupportedVersionError if the coordinator supports no usable version, or cannot wait for transactions although it must. ids: the
    topic ids; None if not all are known, so that topics are named.
    """
    newest = LAST_VERSION_BY_NAME if ids is None else OffsetFetchRequest.MAX_VERSION
    indexes = None if partitions is None else _by_topic(partitions)
    try:
        request = _request_with_groups(asker, indexes, ids or {}, stable=waiting.wanted)
        response = yield Call(request, group.coordinator, min_version=FIRST_FETCH_VERSION_WITH_GROUPS, max_version=newest)
        return next((each for each in response.groups if each.group_id == group.group_id), None)
    except UnsupportedVersionError:
        topics = None if indexes is None else [OffsetFetchRequestTopic(name=name, partition_indexes=at) for name, at in indexes.items()]
        request = OffsetFetchRequest(group_id=group.group_id, topics=topics)
    if waiting.wanted:
        request.require_stable = True
        try:
            version = FETCH_VERSION_WITH_STABLE
            return (yield Call(request, group.coordinator, min_version=version, max_version=version))
        except UnsupportedVersionError as unsupported:
            if waiting.cannot is None:
                raise UnsupportedVersionError(
                    f"{group.who} cannot wait for transactions that may change the offsets: brokers can since Kafka 2.5; ask without "
                    f"require_stable, once no such transaction is open ({unsupported})"
                ) from unsupported
            waiting.cannot()
            request.require_stable = False
    oldest = FIRST_FETCH_VERSION_FOR_ALL if topics is None else FIRST_VERSION_IN_KAFKA
    return (yield Call(request, group.coordinator, min_version=oldest, max_version=FETCH_VERSION_WITH_STABLE))


def _request_with_groups(
    asker: ConsumerGroupMetadata, indexes: Mapping[str, list[int]] | None, ids: Mapping[str, UUID], *, stable: bool
) -> OffsetFetchRequest:
    topics = None
    if indexes is not None:
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=at) for name, at in indexes.items()]
        for topic in topics:
            topic.topic_id = ids.get(topic.name, topic.topic_id)
    group = OffsetFetchRequestGroup(group_id=asker.group_id, topics=topics)
    if asker.member_id:
        group.member_id, group.member_epoch = asker.member_id, asker.generation_id
    return OffsetFetchRequest(groups=[group], require_stable=stable)


def _parts(topics: Iterable[Any], names: Mapping[UUID, str]) -> Iterator[Part]:
    for topic in topics:
        name = topic.name or names.get(topic.topic_id, "")
        for part in topic.partitions:
            at = OffsetAndMetadata(part.committed_offset, part.committed_leader_epoch, part.metadata or "")
            yield Part(TopicPartition(name, part.partition_index), part.error_code, None if at.offset <= UNKNOWN_OFFSET else at)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


def _known_ids(metadata: Metadata, topics: Iterable[str]) -> dict[str, UUID] | None:
    """Return the ids of topics; None if one of them is not known."""
    ids = {topic: metadata.snapshot.topic_id(topic) for topic in topics}
    known = {topic: topic_id for topic, topic_id in ids.items() if topic_id is not None}
    return known if len(known) == len(ids) else None
