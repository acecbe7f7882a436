"""Handles fetch responses: what they mean for each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from levada.acls import ResourceType
from levada.base.clock import ExponentialBackoff
from levada.base.permissions import refused
from levada.client.metadata.metadata import Metadata
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.consumer.fetch.fetch_buffer import CompletedFetch, FetchBuffer
from levada.consumer.fetch.fetch_request import FetchSettings
from levada.consumer.fetch.fetch_session import FetchSession, SessionRequest
from levada.consumer.positions.subscription_state import Answers, PartitionState
from levada.error_codes import ErrorCode
from levada.errors import KafkaError, OffsetOutOfRangeError, ProtocolError, RecordTooLargeError
from levada.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from levada.record.memory_records import is_cut, offset_after_last_batch
from levada.types import NO_LEADER_EPOCH, UNKNOWN_OFFSET, Node, TopicPartition

MOST_DOUBTS = 3


ON_FETCH_ERROR = RetryPolicy(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER: Reaction.REFRESH,
        ErrorCode.REPLICA_NOT_AVAILABLE: Reaction.REFRESH,
        ErrorCode.KAFKA_STORAGE_ERROR: Reaction.REFRESH,
        ErrorCode.FENCED_LEADER_EPOCH: Reaction.REFRESH,
        ErrorCode.OFFSET_NOT_AVAILABLE: Reaction.REFRESH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.REFRESH,
        ErrorCode.UNKNOWN_TOPIC_ID: Reaction.REFRESH,
        ErrorCode.INCONSISTENT_TOPIC_ID: Reaction.REFRESH,
        ErrorCode.UNKNOWN_LEADER_EPOCH: Reaction.RETRY,
        ErrorCode.UNKNOWN_SERVER_ERROR: Reaction.RETRY,
        ErrorCode.OFFSET_OUT_OF_RANGE: Reaction.RESET,
    }
)
"""The error codes of one partition."""

ON_FETCH_SESSION_ERROR = RetryPolicy(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND: Reaction.AT_ONCE,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: Reaction.REFRESH,
        ErrorCode.UNKNOWN_TOPIC_ID: Reaction.REFRESH,
        ErrorCode.INCONSISTENT_TOPIC_ID: Reaction.REFRESH,
    },
    otherwise=Reaction.RETRY,
)
"""The error codes of a whole response. Each ends the fetch session."""


class Asked(NamedTuple):
    """A request in flight: its node, its session request, and (state, round, offset) of every partition of the session.

    cuts_first: whether the broker may truncate even the first message of a partition. source: the broker, as the partition states refer to
    it.
    """

    node_id: int
    session: SessionRequest
    partitions: Mapping[TopicPartition, tuple[PartitionState, int, int]]
    cuts_first: bool = False
    source: Answers | None = None


class _Refusal(NamedTuple):
    """An error code of a partition, the node that sent it, and its details."""

    code: ErrorCode
    node_id: int
    state: PartitionState
    data: PartitionData
    endpoints: Sequence[Node]
    now_ms: int

    @property
    def place(self) -> str:
        return f"{self.state.tp}: fetch at offset {self.state.fetch_offset} from node {self.node_id}"


class FetchResponseHandler:
    """Handles fetch responses: puts records into the buffer, and notes errors, offsets and replicas in the partition states."""

    def __init__(
        self,
        buffer: FetchBuffer,
        metadata: Metadata,
        settings: FetchSettings,
        backoff: ExponentialBackoff,
    ) -> None:
        self._buffer = buffer
        self._counters = buffer.counters
        self._metadata = metadata
        self._settings = settings
        self._backoff = backoff
        self._reactions: Mapping[Reaction, Callable[[_Refusal], bool]] = {
            Reaction.RETRY: self._retry,
            Reaction.REFRESH: self._refresh,
            Reaction.RESET: self._out_of_range,
            Reaction.RAISE: self._raise,
        }
        """The handlers of a partition's error codes. Each returns whether it adds anything to the buffer."""

    def handle(self, session: FetchSession, asked: Asked, response: FetchResponse, now_ms: int) -> bool:
        """Handle a response; return whether an entry was added to the buffer. asked: the request."""
        if code := ErrorCode.of(response.error_code):
            self._failed_whole(session, asked, code, now_ms)
            return False
        answers = list(_partitions(response, session))
        self._counters.throttle_time.note(response.throttle_time_ms, now_ms)
        sizes: dict[str, int] = {}
        for tp, data in answers:
            if tp is None:
                continue
            sizes[tp.topic] = sizes.get(tp.topic, 0) + len(data.records or b"")
        self._counters.has_fetched(sizes, now_ms)
        fault = session.answered(
            [tp for tp, _ in answers],
            response.session_id,
            was_full=asked.session.is_full,
            throttled=response.throttle_time_ms > 0,
        )
        if fault:
            self._note(asked, fault, now_ms)
            return False
        self._note_heard(asked, answers, now_ms)
        endpoints = [Node(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
        brought = [self._take_in(asked, tp, data, endpoints, now_ms) for tp, data in answers if tp is not None]
        return True in brought

    def _note_heard(self, asked: Asked, answers: Sequence[tuple[TopicPartition | None, PartitionData]], now_ms: int) -> None:
        """Note that the broker has answered for all partitions of the request, except those with an error.

        In a session, the response omits partitions without new data.
        """
        for tp, data in answers:
            known = None if tp is None else asked.partitions.get(tp)
            if known is None:
                continue
            if data.error_code:
                known[0].leave_source()
            else:
                known[0].heard(now_ms)
        if asked.source is not None:
            asked.source.heard_ms = now_ms

    def _failed_whole(self, session: FetchSession, asked: Asked, code: ErrorCode, now_ms: int) -> None:
        session.failed(code)
        reaction = ON_FETCH_SESSION_ERROR.reaction(code)
        if reaction is Reaction.REFRESH:
            self._metadata.request_update()
        if reaction is not Reaction.AT_ONCE:
            self._note(asked, code.name, now_ms)

    def _note(self, asked: Asked, reason: str, now_ms: int) -> None:
        for state, round, _ in asked.partitions.values():
            if round == state.round:
                self._retry_later(state, f"node {asked.node_id}: {reason}", now_ms)

    def _take_in(self, asked: Asked, tp: TopicPartition, data: PartitionData, endpoints: Sequence[Node], now_ms: int) -> bool:
        """Handle the data of one partition, unless its position was moved or validated meanwhile. Return whether an entry was buffered.

        asked: the request. endpoints: the nodes in the response.
        """
        known = asked.partitions.get(tp)
        if known is None:
            return False
        state, round, offset = known
        if round != state.round or offset != state.fetch_offset:
            return False
        if data.error_code:
            refusal = _Refusal(ErrorCode.of(data.error_code), asked.node_id, state, data, endpoints, now_ms)
            return self._reactions[ON_FETCH_ERROR.reaction(data.error_code)](refusal)
        self._note_log(asked.node_id, state, data, now_ms)
        return self._buffer_records(state, data, cuts_first=asked.cuts_first)

    def _note_log(self, node_id: int, state: PartitionState, data: PartitionData, now_ms: int) -> None:
        # A follower may know a lower high watermark than the leader did; going back would make the lag jump (KIP-392).
        known = state if node_id == state.preferred_replica else None
        state.high_watermark = max(data.high_watermark, known.high_watermark if known else UNKNOWN_OFFSET)
        state.last_stable_offset = max(data.last_stable_offset, known.last_stable_offset if known else UNKNOWN_OFFSET)
        state.log_start_offset = data.log_start_offset
        state.topic_is_assumed = False
        if data.preferred_read_replica >= 0:
            state.prefer(data.preferred_read_replica, now_ms + self._settings.replica_lease_ms)

    def _buffer_records(self, state: PartitionState, data: PartitionData, *, cuts_first: bool) -> bool:
        if not data.records:
            return False
        # The thread that decodes makes its own views, if it can (see levada.protocol.decoder).
        held = data.records if isinstance(data.records, bytes) else memoryview(data.records)
        records = memoryview(held)
        if cuts_first and is_cut(records):
            return self._buffer_error(state, _does_not_fit(state, self._settings.max_partition_bytes))
        after, is_valid = offset_after_last_batch(records)
        next_offset = after if is_valid else UNKNOWN_OFFSET
        if UNKNOWN_OFFSET < next_offset <= state.fetch_offset:
            return self._buffer_error(state, _goes_back(state, next_offset))
        if next_offset != UNKNOWN_OFFSET:
            state.bytes_per_offset = len(records) / (next_offset - state.fetch_offset)
        state.largest_response = max(state.largest_response, len(records))
        aborted = tuple((entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ())
        self._buffer.add(CompletedFetch(state, state.generation, state.fetch_offset, held, next_offset, aborted))
        if not is_valid:
            # The error is raised after the records before it.
            state.fetch_offset = max(state.fetch_offset, after)
        return True

    def _retry(self, refusal: _Refusal) -> bool:
        self._retry_later(refusal.state, f"node {refusal.node_id}: {refusal.code.name}", refusal.now_ms)
        return False

    def _refresh(self, refusal: _Refusal) -> bool:
        """Request a metadata refresh, and stop reading from a preferred replica. Retry after a back-off, unless the response named a newer
        leader (KIP-951).

        Return False, because nothing was buffered.
        """
        state, hint = refusal.state, refusal.data.current_leader
        state.prefer(None)
        self._metadata.request_update()
        if hint.leader_id < 0 or not self._metadata.apply_leader_hint(state.tp, hint.leader_id, hint.leader_epoch, refusal.endpoints):
            self._retry(refusal)
        return False

    def _out_of_range(self, refusal: _Refusal) -> bool:
        """Handle OFFSET_OUT_OF_RANGE: buffer it if the leader has sent it (the collector applies auto.offset.reset); ask the leader if
        another node has sent it. Return whether it was buffered.

        The partition may have moved from a follower to the leader meanwhile, or its leader may have changed. A leader with an older epoch
        than the position's is probably outdated, so it is asked again. But a program may have committed such an epoch, or passed it to
        seek(), by mistake, so after MOST_DOUBTS failures the broker is believed.
        """
        state = refusal.state
        leader = self._metadata.snapshot.leader(state.tp)
        if refusal.node_id == state.preferred_replica or leader is None or refusal.node_id != leader.id:
            state.prefer(None)
            return False
        is_older = NO_LEADER_EPOCH < self._metadata.snapshot.leader_epoch(state.tp) < state.leader_epoch
        if is_older and state.failed_attempts < MOST_DOUBTS:
            return self._refresh(refusal)
        text = f"{refusal.place}: the log has no such offset; seek() to continue"
        return self._buffer_error(state, OffsetOutOfRangeError(text, partition=state.tp, offset=state.fetch_offset))

    def _raise(self, refusal: _Refusal) -> bool:
        names = {ResourceType.TOPIC: refusal.state.tp.topic}
        return self._buffer_error(refusal.state, refused(FetchRequest.NAME, refusal.data.error_code, refusal.place, names))

    def _buffer_error(self, state: PartitionState, error: KafkaError) -> bool:
        self._buffer.add(CompletedFetch(state, state.generation, state.fetch_offset, error=error))
        return True

    def _retry_later(self, state: PartitionState, reason: str, now_ms: int) -> None:
        state.failed(reason, now_ms + self._backoff.delay_ms(state.failed_attempts))


def _does_not_fit(state: PartitionState, limit: int) -> RecordTooLargeError:
    text = (
        f"{state.tp} at offset {state.fetch_offset}: the next message is larger than max.partition.fetch.bytes={limit}, and this broker, "
        "older than Kafka 0.10.1, sends no more than that of it; raise the option, or seek past the message"
    )
    return RecordTooLargeError(text)


def _goes_back(state: PartitionState, next_offset: int) -> ProtocolError:
    text = f"the broker answered a fetch with nothing but batches before offset {next_offset}; it is broken, or its log is"
    return ProtocolError(f"{state.tp} at offset {state.fetch_offset}: {text}")


def _partitions(response: FetchResponse, session: FetchSession) -> Iterator[tuple[TopicPartition | None, PartitionData]]:
    """Yield the partitions of a response with their data. A partition that was not requested is yielded as None."""
    for topic in response.responses:
        name = topic.topic or session.topic_name(topic.topic_id)
        for data in topic.partitions:
            tp = TopicPartition(name, data.partition_index)
            yield (tp if tp in session.known else None), data
