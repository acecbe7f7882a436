"""A transactional producer of the embedded broker without a network: one transactional id, real frames, a clock that the test moves."""

from __future__ import annotations

from typing import Any, NamedTuple

from broker_kit import START_MS, Client, fetch_request, make_batch, only_partition, produce_request
from levada.error_codes import ErrorCode
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.fetch import PartitionData
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.produce import ProduceRequest
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from levada.record.batch import set_producer_state
from levada.record.memory_records import read_batches
from levada.types import IsolationLevel


class Given(NamedTuple):
    """The fields of a response to InitProducerId or EndTxn."""

    code: ErrorCode
    producer_id: int
    epoch: int


class TransactionalProducer:
    """Sends any transactional request that a test wants, valid or not.

    tv2: whether the default request versions are those of a client with transaction.version 2 (KIP-890); otherwise older ones.
    """

    def __init__(
        self, client: Client, transactional_id: str = "tx", *, tv2: bool = True, topic: str = "t", timestamp: int = START_MS
    ) -> None:
        self.client = client
        self.id = transactional_id
        self.topic = topic
        self.tv2 = tv2
        self.timestamp = timestamp
        self.producer_id = self.epoch = -1
        self.sequence = 0

    def init(self, timeout_ms: int = 60_000, *, given: tuple[int, int] = (-1, -1), version: int = 5) -> Given:
        request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=timeout_ms)
        request.producer_id, request.producer_epoch = given
        return self._adopt(self.client.ask(request, version))

    def add(self, partition: int = 0, *, version: int = 3) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])],
        )
        answer = self.client.ask(request, version).results_by_topic_v3_and_below[0].results_by_partition[0]
        return ErrorCode(answer.partition_error_code)

    def add_group(self, group: str, *, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group)
        return ErrorCode(self.client.ask(request, version).error_code)

    def write(self, *values: bytes, partition: int = 0, version: int | None = None, sequence: int | None = None) -> ErrorCode:
        """Produce one batch. The next sequence number advances only if the broker returns no error."""
        sequence = self.sequence if sequence is None else sequence
        request = self.batch_of(*values, partition=partition, sequence=sequence)
        answer = self.client.ask(request, (12 if self.tv2 else 11) if version is None else version).responses[0].partition_responses[0]
        if not answer.error_code:
            self.sequence = sequence + len(values)
        return ErrorCode(answer.error_code)

    def batch_of(self, *values: bytes, partition: int = 0, sequence: int = 0) -> ProduceRequest:
        data = bytearray(make_batch(*values, timestamp=self.timestamp))
        set_producer_state(data, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence, is_transactional=True)
        request = produce_request(self.topic, bytes(data), partition=partition)
        request.transactional_id = self.id
        return request

    def end(self, *, commit: bool, producer: tuple[int, int] | None = None, version: int | None = None) -> Given:
        producer_id, epoch = producer or (self.producer_id, self.epoch)
        request = EndTxnRequest(transactional_id=self.id, producer_id=producer_id, producer_epoch=epoch, committed=commit)
        version = (5 if self.tv2 else 4) if version is None else version
        answer = self.client.ask(request, version)
        return self._adopt(answer) if version >= 5 and producer is None else given_by(answer)

    def commit(self) -> ErrorCode:
        return self.end(commit=True).code

    def abort(self) -> ErrorCode:
        return self.end(commit=False).code

    @property
    def pair(self) -> tuple[int, int]:
        return self.producer_id, self.epoch

    def described(self) -> TransactionState:
        (state,) = self.client.ask(DescribeTransactionsRequest(transactional_ids=[self.id]), 0).transaction_states
        found: TransactionState = state
        return found

    def _adopt(self, answer: Any) -> Given:
        if not answer.error_code:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self.sequence = 0
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return given_by(answer)


def given_by(answer: Any) -> Given:
    return Given(ErrorCode(answer.error_code), answer.producer_id, answer.producer_epoch)


def read(client: Client, topic: str = "t", offset: int = 0, *, committed: bool = True, **options: Any) -> PartitionData:
    """Fetch with isolation level read_committed, or with committed=False read_uncommitted."""
    request = fetch_request(topic, offset, **options)
    request.isolation_level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    return only_partition(client.ask(request, 12))


def values(data: object) -> list[bytes | None]:
    return [record.value for batch in read_batches(bytes(data)) if not batch.is_control for record in batch]  # type: ignore[call-overload]


def commit_offset(producer: TransactionalProducer, group: str, *, version: int = 5) -> ErrorCode:
    wanted = TxnOffsetCommitRequestTopic(name="t", partitions=[TxnOffsetCommitRequestPartition(committed_offset=8)])
    request = TxnOffsetCommitRequest(transactional_id=producer.id, group_id=group, topics=[wanted])
    request.producer_id, request.producer_epoch = producer.pair
    return ErrorCode(producer.client.ask(request, version).topics[0].partitions[0].error_code)
