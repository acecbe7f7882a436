"""Reads whole logs with Fetch requests, without a consumer, which would for example skip aborted records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from levada.errors import KafkaError, TimeoutError, broker_error
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches
from levada.sync.client import KafkaClient
from levada.testing.history.events import Found
from levada.testing.history.recorder import value_in
from levada.types import TopicPartition

_MAX_BYTES: Final = 50_000_000
_PAUSE_S: Final = 0.2
_EARLIEST: Final = -2
_CONSUMER: Final = -1

T = TypeVar("T")


def read_log(
    client: KafkaClient, topics: Iterable[str], *, timeout: float = 60.0, pause: Callable[[float], object] = time.sleep
) -> list[Found]:
    """Return all records in the topics' logs up to the high watermark, in the order of the logs. Records of aborted transactions are
    included.

    All records must be from a recording producer. timeout: for how many seconds to repeat a request that fails, without the time that the
    requests take. pause: a function that waits for some seconds between attempts. Raises TimeoutError when this time is over, ValueError
    for records that are not from a recording producer, and CorruptRecordError for a batch with a wrong checksum.
    """
    if isinstance(topics, str):
        raise TypeError(f"expected a list of topics, got {topics!r}; write [{topics!r}]")
    return [found for topic in topics for found in _read_topic(_Reader(client, topic, timeout, pause))]


def _read_topic(reader: _Reader) -> Iterator[Found]:
    for partition in reader.partitions():
        for batch in reader.batches(partition):
            batch.verify_crc()
            if not batch.is_control:
                for record in batch.records():
                    yield Found(reader.topic, partition, record.offset, value_in(record.value))


class _Reader:
    """Reads the logs of one topic. After each error it looks up the leaders again."""

    def __init__(self, client: KafkaClient, topic: str, timeout_s: float, pause: Callable[[float], object]) -> None:
        self.topic = topic
        self._client = client
        self._attempts = max(int(timeout_s / _PAUSE_S), 1)
        self._pause = pause
        self._id = UUID(int=0)
        self._leaders: dict[int, int] = {}

    def partitions(self) -> list[int]:
        """Return the numbers of the topic's partitions."""
        return self._retried(lambda: sorted(self._leaders), f"the leaders of {self.topic}")

    def batches(self, partition: int) -> Iterator[RecordBatch]:
        """Yield every batch from the log's start to its high watermark."""
        tp = TopicPartition(self.topic, partition)
        at = self._retried(partial(self._start_of, partition), f"where {tp} begins")
        while True:
            data = self._retried(partial(self._fetch, partition, at), f"{tp} from offset {at}")
            for batch in read_batches(data.records or b""):
                # A fetch returns whole batches, so the first one may begin, or even end, before the requested offset.
                if batch.next_offset > at:
                    yield batch
                    at = batch.next_offset
            if at >= data.high_watermark:
                return

    def _look_up(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False)
        (topic,) = self._client.request(request).topics
        _raise(topic.error_code, f"the metadata of {self.topic}")
        self._id = topic.topic_id
        self._leaders = {partition.partition_index: partition.leader_id for partition in topic.partitions}

    def _start_of(self, partition: int) -> int:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=_EARLIEST)
        request = ListOffsetsRequest(replica_id=_CONSUMER, topics=[ListOffsetsTopic(name=self.topic, partitions=[wanted])])
        answer = self._client.request(request, node=self._leaders[partition]).topics[0].partitions[0]
        _raise(answer.error_code, f"the first offset of {TopicPartition(self.topic, partition)}")
        return int(answer.offset)

    def _fetch(self, partition: int, offset: int) -> PartitionData:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_MAX_BYTES)
        topic = FetchTopic(topic=self.topic, topic_id=self._id, partitions=[wanted])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=_MAX_BYTES, topics=[topic])
        response = self._client.request(request, node=self._leaders[partition])
        _raise(response.error_code, f"fetching {self.topic}")
        data: PartitionData = response.responses[0].partitions[0]
        _raise(data.error_code, f"fetching {TopicPartition(self.topic, partition)} from offset {offset}")
        return data

    def _retried(self, attempt: Callable[[], T], what: str) -> T:
        last: KafkaError | None = None
        for _ in range(self._attempts):
            try:
                if not self._leaders:
                    self._look_up()
                return attempt()
            except KafkaError as error:
                last, self._leaders = error, {}
            self._pause(_PAUSE_S)
        raise TimeoutError(f"reading {what} failed {self._attempts} times, last: {last}") from last


def _raise(code: int, what: str) -> None:
    if code:
        raise broker_error(code, what)
