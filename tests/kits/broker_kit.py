"""A client of a BrokerNode without a network: it passes encoded frames, and the test sets the clock."""

from __future__ import annotations

from itertools import count
from typing import Any

from levada.broker.node.node import BrokerNode
from levada.protocol.frame import decode_response, encode_request, response_correlation_id
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from levada.protocol.schema import Request, Response
from levada.record.batch import set_producer_state
from levada.record.builder import RecordBatchBuilder
from levada.record.compression import Codec

SIZE = 4
START_MS = 1_700_000_000_000


class Bench:
    """A node and its clock. sent: the frames that the node has sent, by connection; None stands for the end of the connection."""

    def __init__(self, **settings: Any) -> None:
        self.node = BrokerNode(wall_offset_ms=START_MS, **settings)
        self.now_ms = 0
        self._ids = count(1)
        self.sent: dict[int, list[bytes | None]] = {}

    def client(self, listener: str = "", client_id: str = "test") -> Client:
        client = Client(self, next(self._ids), client_id)
        self.sent[client.id] = []
        self.node.connect(client.id, listener=listener)
        return client

    def collect(self) -> None:
        for connection, frame in self.node.outgoing():
            self.sent[connection].append(frame)

    def advance(self, ms: int = 0) -> int:
        self.now_ms += ms
        deadline = self.node.advance(self.now_ms)
        self.collect()
        return deadline


class Client:
    """One connection to the node of a Bench."""

    def __init__(self, bench: Bench, connection: int, client_id: str) -> None:
        self.bench = bench
        self.client_id = client_id
        self.id = connection
        self._correlations = count(100)
        self._asked: list[tuple[int, type[Request], int]] = []

    def send(self, request: Request, version: int | None = None) -> None:
        version = request.MAX_VERSION if version is None else version
        correlation = next(self._correlations)
        self._asked.append((correlation, type(request), version))
        self.send_raw(bytes(encode_request(request, version, correlation, self.client_id))[SIZE:])

    def send_raw(self, frame: bytes) -> None:
        self.bench.node.receive(self.id, frame, self.bench.now_ms)
        self.bench.collect()

    @property
    def closed(self) -> bool:
        return None in self.bench.sent[self.id]

    def answers(self) -> list[Any]:
        """Decode the responses since the last call. They must have the order of the requests."""
        frames, self.bench.sent[self.id] = self.bench.sent[self.id], []
        return [self._decode(frame) for frame in frames if frame is not None]

    def _decode(self, frame: bytes) -> Response:
        correlation, request_type, version = self._asked.pop(0)
        body = memoryview(frame)[SIZE:]
        assert int.from_bytes(frame[:SIZE], "big") == len(body)
        assert response_correlation_id(body) == correlation
        return decode_response(request_type, version, body)

    def ask(self, request: Request, version: int | None = None) -> Any:
        self.send(request, version)
        (answer,) = self.answers()
        return answer

    def produce(self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1, version: int = 12) -> PartitionProduceResponse:
        answer = self.ask(produce_request(topic, records, partition=partition, acks=acks), version)
        written: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        return written

    def fetch(self, topic: str, offset: int = 0, **options: Any) -> PartitionData:
        version = options.pop("version", 12)
        return only_partition(self.ask(fetch_request(topic, offset, **options), version))

    def offset_of(self, topic: str, timestamp: int, version: int = 11) -> tuple[int, int, int]:
        wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(timestamp=timestamp)])
        answer = self.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), version).topics[0].partitions[0]
        return answer.error_code, answer.offset, answer.timestamp


def only_partition(response: FetchResponse) -> PartitionData:
    assert response.error_code == 0
    return response.responses[0].partitions[0]


def produce_request(topic: str, records: bytes, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
) -> FetchRequest:
    wanted = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes, current_leader_epoch=leader_epoch
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )


def make_batch(
    *values: bytes | None,
    codec: Codec = Codec.NONE,
    timestamp: int | list[int] = START_MS,
    key: bytes | None = b"k",
    producer: tuple[int, int, int] | None = None,
) -> bytes:
    """Build a batch. timestamp: in ms, for all records or for each. producer: (producer id, epoch, base sequence); None: none."""
    builder = RecordBatchBuilder(codec=codec)
    stamps = timestamp if isinstance(timestamp, list) else [timestamp] * len(values)
    for value, stamp in zip(values, stamps, strict=True):
        builder.append(stamp, key, value, [])
    batch = builder.build()
    if producer is not None:
        set_producer_state(batch, producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2])
    return bytes(batch)
