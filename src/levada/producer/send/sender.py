"""Sends batches that are due, and handles the Produce responses (Sender in Java).

One poll() handles responses, expired batches and sequence numbers, then sends batches. A response is only stored when it arrives, and
handled in the next poll(), when no other component is in the middle of a change. A table (`reactions`) has the reaction to each error code.
Idempotence decides which batch of a partition may be sent next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.flow import Flow
from levada.base.promise import Promise
from levada.client.engine import Engine
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.client.network.network_client import NetworkClient
from levada.error_codes import ErrorCode
from levada.errors import DisconnectError, KafkaError, Persisted, UnsupportedRecordFormatError, UnsupportedVersionError
from levada.producer.append.batch_split import split_batch, split_by_headers
from levada.producer.append.producer_batch import ProducerBatch
from levada.producer.append.record_accumulator import RecordAccumulator
from levada.producer.counters import ProducerCounters
from levada.producer.send.failures import Failures
from levada.producer.send.idempotence import Idempotence, Verdict
from levada.producer.send.reactions import ON_PRODUCE_ERROR, Action
from levada.producer.send.sequences import ProducerIdentity
from levada.producer.transactions.manager import TransactionManager
from levada.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from levada.record.batch import RecordBatch
from levada.record.compression import Codec
from levada.record.header import MAGIC
from levada.types import Node, TopicPartition

NEWEST_WITHOUT_TOPIC_IDS = 12
NO_TOPIC_ID = UUID(int=0)
OLDEST_WITH_BATCHES = 3
OLDEST_WITH_ZSTD = 7
MAGIC_BY_VERSION = {0: 0, 1: 0, 2: 1}


class SenderSettings(NamedTuple):
    """The settings for sending, named after the producer's options. acks: -1 for all. level: compression level; None for the default."""

    acks: int
    retries: int
    request_timeout_ms: int
    batch_size: int
    codec: Codec
    level: int | None
    max_in_flight: int


class Answered(NamedTuple):
    """A Produce request that has ended. promise: has the response, or the error. names: topic names by topic id as an integer."""

    promise: Promise[ProduceResponse | None]
    node: int
    batches: Sequence[ProducerBatch]
    names: Mapping[int, str]


class Sender:
    """The Sender of one producer. start: runs a flow on the engine; called with the flow and the time in ms."""

    def __init__(
        self,
        *,
        accumulator: RecordAccumulator,
        idempotence: Idempotence | None,
        engine: Engine,
        backoff: ExponentialBackoff,
        settings: SenderSettings,
        start: Callable[[Flow[Any], int], Promise[Any]],
    ) -> None:
        self._accumulator = accumulator
        self._idempotence = idempotence
        self.transaction_manager: TransactionManager | None = None
        self._metadata = engine.metadata
        self._network = engine.network
        self._backoff = backoff
        self._settings = settings
        self._start = start
        self.counters = ProducerCounters()
        self.failures = Failures(accumulator, idempotence, engine.metadata, engine.network, self.counters)
        self._format = ProduceFormat(engine.network, codec=settings.codec, level=settings.level, is_idempotent=idempotence is not None)
        self._initializing: Promise[Any] | None = None
        self._initialize_at_ms = NEVER_MS
        self._topics_made = 0
        self._identity: ProducerIdentity | None = None
        self._answers: deque[Answered] = deque()
        self._snapshot: ClusterSnapshot | None = None
        self._mute = settings.max_in_flight == 1
        self._reactions: Mapping[Action, Callable[[ProducerBatch, PartitionProduceResponse, int, int], None]] = {
            Action.COMPLETE: self._complete,
            Action.RETRY: self._retry,
            Action.SPLIT: self._split,
            Action.FAIL: self._fail,
            Action.FAIL_PRODUCER: self._fail_producer,
            Action.ASK_SEQUENCES: self._ask_sequences,
        }

    def poll(self, now_ms: int) -> int:
        """Handle responses and timeouts, and send batches that are due. Return the time of the next poll in ms."""
        self.counters.now_ms = now_ms
        while self._answers:
            self._answered(self._answers.popleft(), now_ms)
        for batch in self._accumulator.expired(now_ms):
            self.failures.expire(batch)
        # This comes after the steps that may leave a gap in a sequence, because no other event resumes the batches behind the gap.
        if self._idempotence is not None:
            self._keep_sequences(self._idempotence, now_ms)
        if self._snapshot is not self._metadata.snapshot:
            self._snapshot = self._metadata.snapshot
            self._refresh_topics(self._snapshot)
        deadline_ms, sent = NEVER_MS, True
        while sent and self._accumulator.backlogs.placed:  # A request is written at once, so no event would trigger the next request.
            deadline_ms, sent = self._send_ready(now_ms)
        if self.transaction_manager is not None:
            deadline_ms = min(deadline_ms, self.transaction_manager.poll(now_ms))
        return min(deadline_ms, self._accumulator.next_expiry_ms, self._initialize_at_ms)

    def let_go(self) -> None:
        """Release the batches of ended requests. Called when the engine has ended, because poll() does not run any more."""
        while self._answers:
            for batch in self._answers.popleft().batches:
                self._accumulator.off_the_wire(batch)

    def _refresh_topics(self, snapshot: ClusterSnapshot) -> None:
        dropped = self._accumulator.refresh(snapshot, self._metadata.topics | self._numbered_by_coordinator())
        self.counters.forget(topic.name for topic in dropped)
        if self._idempotence is not None:
            self._idempotence.forget(queue for topic in dropped for queue in topic.partitions)
        for topic in self._accumulator.topics.values():
            if topic.was_recreated:
                topic.was_recreated = False
                if self._idempotence is not None:
                    self._idempotence.topic_recreated(topic.partitions)

    def _numbered_by_coordinator(self) -> set[str]:
        """Return the topics of a transactional producer that have sequence numbers under the current epoch.

        Their sequences must be kept, because the producer cannot bump the epoch itself.
        """
        if self.transaction_manager is None or self._idempotence is None:
            return set()
        return {name for name, topic in self._accumulator.topics.items() if self._idempotence.has_numbered(topic.partitions)}

    # Sending

    def _send_ready(self, now_ms: int) -> tuple[int, bool]:
        """Send batches that are due, at most one request per node. Return when to check again in ms, and whether a request was sent."""
        sent = False
        ready = self._accumulator.ready(now_ms)
        if ready.leaderless:
            self._look_for_leaders(ready.leaderless, now_ms)
        deadline_ms = ready.next_check_ms
        for node in ready.nodes:
            can_send = self._network.ready(node, now_ms)
            self._accumulator.note_readiness(node, can_send, now_ms)
            if not can_send:
                deadline_ms = min(deadline_ms, now_ms + self._network.poll_delay_ms(node, now_ms))
            elif batches := self._accumulator.drain(node, now_ms, self._idempotence):
                encoded = self._encode(node, batches)
                if encoded:
                    self._send(node, encoded, now_ms)
                    sent = True
                if len(encoded) < len(batches):
                    # Some batches could not be sent in the node's format. Poll again for the batches behind them: no response triggers it.
                    deadline_ms = now_ms
        return deadline_ms, sent

    def _look_for_leaders(self, topics: set[str], now_ms: int) -> None:
        for topic in topics:
            self._metadata.add_topic(topic, now_ms)
        self._metadata.request_update()

    def _encode(self, node: int, batches: list[ProducerBatch]) -> dict[ProducerBatch, bytearray]:
        """Return the batches encoded in the record format of a node. Split or fail the batches that this format cannot hold."""
        magic = self._format.magic(node)
        encoded = {}
        for batch in batches:
            try:
                encoded[batch] = self._format.encode(batch, magic)
            except UnsupportedRecordFormatError as error:
                self._unfit(batch, error, node)
        return encoded

    def _unfit(self, batch: ProducerBatch, error: UnsupportedRecordFormatError, node: int) -> None:
        """If a message set cannot hold a batch, split it into parts with and without headers; fail it if it cannot be split any more."""
        parts = split_by_headers(batch, self._settings.codec, self._settings.level)
        if len(parts) > 1:
            self._accumulator.put_parts(batch, parts)
        else:
            self.failures.unfit(batch, error, node)

    def _send(self, node: int, batches: Mapping[ProducerBatch, bytearray], now_ms: int) -> None:
        for batch in batches:
            batch.attempts += 1
            batch.on_the_wire = True
            batch.leader_epoch = batch.queue.leader_epoch
            if self._mute:
                self._accumulator.mute(batch.queue)
            self._metadata.add_topic(batch.tp.topic, now_ms)
        request, names = self._request(batches)
        oldest, newest = (0, 32767) if self.transaction_manager is None else self.transaction_manager.protocol.produce
        promise = self._network.send(
            node,
            request,
            now_ms,
            min_version=max(self._format.oldest_version, oldest),
            max_version=min(NEWEST_WITHOUT_TOPIC_IDS, newest) if NO_TOPIC_ID.int in names else newest,
            expect_response=self._settings.acks != 0,
        )
        self.counters.sent(batches)
        sent = list(batches)
        promise.on_done(lambda done: self._answers.append(Answered(done, node, sent, names)))

    def _request(self, batches: Mapping[ProducerBatch, bytearray]) -> tuple[ProduceRequest, dict[int, str]]:
        """Return the request, and the topic names by topic id as an integer, because newer Produce responses have only topic ids."""
        topics: dict[str, TopicProduceData] = {}
        for batch, data in batches.items():
            name, partition = batch.tp
            topic = topics.get(name)
            if topic is None:
                topic_id = self._metadata.snapshot.topic_id(name) or NO_TOPIC_ID
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            topic.partition_data.append(PartitionProduceData(index=partition, records=data))
        request = ProduceRequest(
            transactional_id=None if self.transaction_manager is None else self.transaction_manager.transactional_id,
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        return request, {topic.topic_id.int: topic.name for topic in topics.values()}

    # Responses

    def _answered(self, answered: Answered, now_ms: int) -> None:
        answers = self._by_partition(answered)
        for batch in answered.batches:
            answer = answers.get(batch.tp) or self._answer_to_all(answered.promise)
            self._accumulator.off_the_wire(batch)
            self._react(batch, answer, answered.node, now_ms)

    def _by_partition(self, answered: Answered) -> dict[TopicPartition, PartitionProduceResponse]:
        if answered.promise.error is not None or (response := answered.promise.result()) is None:
            return {}
        answers = {
            TopicPartition(topic.name or answered.names.get(topic.topic_id.int, ""), answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        self._take_leader_hints(response, answers)
        self.counters.throttled(response.throttle_time_ms)
        return answers

    def _answer_to_all(self, promise: Promise[ProduceResponse | None]) -> PartitionProduceResponse:
        """Return a response for batches without one: acks=0, the request failed, or its response lacks the partition."""
        error = promise.error
        text = None if error is None else str(error)
        if isinstance(error, DisconnectError) and error.timed_out:
            code = ErrorCode.REQUEST_TIMED_OUT
        elif isinstance(error, UnsupportedVersionError):
            is_codec = self._settings.codec is Codec.ZSTD
            code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if is_codec else ErrorCode.UNSUPPORTED_VERSION
            text = f"{self._format.need} ({error.reason})"
        elif error is None and self._settings.acks == 0:
            code = ErrorCode.NONE
        else:
            code = ErrorCode.NETWORK_EXCEPTION
        return PartitionProduceResponse(error_code=code, base_offset=-1, error_message=text)

    def _take_leader_hints(self, response: ProduceResponse, answers: Mapping[TopicPartition, PartitionProduceResponse]) -> None:
        hints = [(tp, answer.current_leader) for tp, answer in answers.items() if answer.current_leader.leader_id >= 0]
        if hints:
            endpoints = [Node(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
            for tp, leader in hints:
                self._metadata.apply_leader_hint(tp, leader.leader_id, leader.leader_epoch, endpoints)

    def _react(self, batch: ProducerBatch, answer: PartitionProduceResponse, node: int, now_ms: int) -> None:
        code = ErrorCode.of(answer.error_code)
        reaction = ON_PRODUCE_ERROR[code]
        if reaction.refresh_metadata:
            self._metadata.request_update()
        if batch.final is not None:
            if reaction.action is Action.COMPLETE and self._idempotence is not None:
                self._idempotence.acked(batch, answer.base_offset)
            return
        if reaction.action is not Action.COMPLETE:
            batch.may_be_persisted |= reaction.persisted is Persisted.UNKNOWN
            batch.remember(code, f"from node {node}: {answer.error_message}" if answer.error_message else f"from node {node}")
            if self.transaction_manager is not None and self.transaction_manager.gives_up_records:
                self.failures.abort(batch, self.transaction_manager.error)
                return
        self._reactions[reaction.action](batch, answer, node, now_ms)

    def _complete(self, batch: ProducerBatch, answer: PartitionProduceResponse, node: int, now_ms: int) -> None:
        base_offset = answer.base_offset if answer.error_code == ErrorCode.NONE else -1
        if self._idempotence is not None:
            self._idempotence.acked(batch, base_offset)
        self._accumulator.complete(batch, base_offset, answer.log_append_time_ms)

    def _retry(self, batch: ProducerBatch, answer: PartitionProduceResponse, node: int, now_ms: int) -> None:
        if batch.attempts > self._settings.retries or self._settings.acks == 0:
            self._fail(batch, answer, node, now_ms)
        else:
            self.counters.retried(batch)
            batch.retry_at_ms = now_ms + self._backoff.delay_ms(batch.attempts - 1)
            self._accumulator.put_back(batch)

    def _split(self, batch: ProducerBatch, answer: PartitionProduceResponse, node: int, now_ms: int) -> None:
        if batch.records_count == 1:
            self.failures.too_large(batch)
            return
        self.counters.split()
        parts = split_batch(batch, self._settings.batch_size, self._settings.codec, self._settings.level)
        if self._idempotence is not None:
            self._idempotence.number_parts(batch, parts)
        self._accumulator.put_parts(batch, parts)

    def _ask_sequences(self, batch: ProducerBatch, answer: PartitionProduceResponse, node: int, now_ms: int) -> None:
        verdict = Verdict.FAIL
        if self._idempotence is not None:
            verdict = self._idempotence.decide(batch, ErrorCode.of(answer.error_code), answer.log_start_offset)
        (self._fail if verdict is Verdict.FAIL else self._retry)(batch, answer, node, now_ms)

    def _fail(self, batch: ProducerBatch, answer: PartitionProduceResponse, node: int, now_ms: int) -> None:
        self.failures.refuse(batch, answer, node)

    def _fail_producer(self, batch: ProducerBatch, answer: PartitionProduceResponse, node: int, now_ms: int) -> None:
        self.failures.refuse(batch, answer, node)
        if self._idempotence is not None and isinstance(batch.error, KafkaError):
            self._idempotence.error = batch.error
            if self.transaction_manager is not None:
                self.transaction_manager.fatal(batch.error)

    # Sequences

    def _keep_sequences(self, idempotence: Idempotence, now_ms: int) -> None:
        if self._topics_made != self._accumulator.topics_made:
            self._topics_made = self._accumulator.topics_made
            idempotence.topics_began()
        changes = idempotence.changes
        for batch in idempotence.recover():
            self.failures.lose(batch)
        if (self._identity, changes) != (idempotence.identity, idempotence.changes):
            self._identity = idempotence.identity
            self._accumulator.backlogs.place_parked()
        if idempotence.error is not None:
            self._accumulator.abort(self.failures.fatal)
            idempotence.records_failed()
        elif idempotence.needs_identity and (self._accumulator.incomplete if idempotence.was_denied else self._accumulator.topics):
            self._initialize(idempotence, now_ms)
        else:
            self._initialize_at_ms = NEVER_MS

    def _initialize(self, idempotence: Idempotence, now_ms: int) -> None:
        """Run the flow that gets a producer id. If the flow has ended without a producer id, start it again after a pause."""
        if self._initializing is not None and not self._initializing.done:
            return
        if self._initializing is not None and self._initialize_at_ms == NEVER_MS:
            self._initialize_at_ms = now_ms + self._backoff.delay_ms(0)
        if self._initializing is None or self._initialize_at_ms <= now_ms:
            self._initializing = self._start(idempotence.initialize(), now_ms)
            self._initialize_at_ms = NEVER_MS


class ProduceFormat:
    """Chooses the record format for each broker: record batches, or message sets for brokers before Kafka 0.11.

    Every batch is built and kept as a record batch. It is converted to a message set for one request only, so that it can still be split,
    or be sent to a broker of another release.
    """

    def __init__(self, network: NetworkClient, *, codec: Codec, level: int | None, is_idempotent: bool) -> None:
        self._network = network
        self._codec = codec
        self._level = level
        self.oldest_version = OLDEST_WITH_ZSTD if codec is Codec.ZSTD else OLDEST_WITH_BATCHES if is_idempotent else 0

    def magic(self, node: int) -> int:
        """Return the record format for a node that is ready, as a magic number: 0 or 1 for message sets, 2 for record batches.

        Returns 2 if the node supports no suitable version of Produce; the request fails later.
        """
        try:
            version = self._network.version_for(node, ProduceRequest, self.oldest_version)
        except UnsupportedVersionError:
            return MAGIC
        return MAGIC_BY_VERSION.get(version, MAGIC)

    def encode(self, batch: ProducerBatch, magic: int) -> bytearray:
        """Return a sealed batch in the format `magic`. Raises UnsupportedRecordFormatError for records that a message set cannot hold."""
        assert batch.data is not None
        if magic == MAGIC:
            return batch.data
        # Imported here because only brokers before Kafka 0.11 need this module.
        from levada.record.legacy.conversion import down_convert

        return down_convert(RecordBatch(memoryview(batch.data)), magic, self._level)

    @property
    def need(self) -> str:
        """A text for errors of older brokers: which option needs the version oldest_version of Produce."""
        if self._codec is Codec.ZSTD:
            return "compression.type=zstd needs brokers of Kafka 2.1 or newer"
        if self.oldest_version:
            return "enable.idempotence=true needs brokers of Kafka 0.11 or newer; set it to false for older ones"
        return "client and broker share no suitable version of Produce"
