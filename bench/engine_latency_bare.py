"""The limit of the latency section: one epoll loop over levada's codec and record builder, without a client.

The loop looks up, retries and checks nothing. Its time is the cost of a round trip in Python before any client does its work.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator

from engine_latency_clients import Arrivals, SendingCost, stamped
from engine_pace import Timer
from engine_process import Figures, ready
from levada.protocol.frame import FrameReader, decode_response, encode_request
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.protocol.schema import Request, Response
from levada.record.builder import RecordBatchBuilder
from levada.record.memory_records import read_batches

# The last versions with topic names; later versions have topic ids.
PRODUCE_VERSION = FETCH_VERSION = 12
CLIENT_ID = "bare"
MAX_WAIT_MS = 500


class BareConnection:
    """One non-blocking socket to the only node. Requests are so small that the kernel accepts each with one send."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._frames = FrameReader()
        self._requests = 0
        self.descriptor = self._socket.fileno()

    def send(self, request: Request, version: int) -> None:
        self._requests += 1
        frame = encode_request(request, version, self._requests, CLIENT_ID)
        assert self._socket.send(frame) == len(frame)

    def receive(self, kind: type[Request], version: int) -> Iterator[Response]:
        """Read once; return the responses that are complete."""
        count = self._socket.recv_into(self._frames.get_buffer())
        assert count, "the node closed the connection"
        return (decode_response(kind, version, frame) for frame in self._frames.received(count))


def bare_producer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int) -> Figures:
    connection, timer, cost = BareConnection(bootstrap_servers), Timer(rate), SendingCost(warm, records)
    sent = acknowledged = 0
    poll = _epoll(connection.descriptor, timer.descriptor)
    while acknowledged < warm + records:
        for descriptor, _ in poll():
            if descriptor == connection.descriptor:
                for response in connection.receive(ProduceRequest, PRODUCE_VERSION):
                    assert response.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]
                    acknowledged += 1
                continue
            for _ in range(min(timer.due(), warm + records - sent)):
                cost.before(sent)
                connection.send(_produce_request(topic, stamped()), PRODUCE_VERSION)
                sent += 1
    return cost.figures()


def _produce_request(topic: str, value: bytes) -> ProduceRequest:
    batch = RecordBatchBuilder()
    batch.append(time.time_ns() // 1_000_000, None, value)
    partition = PartitionProduceData(index=0, records=batch.build())
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])])


def bare_consumer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int) -> Figures:
    connection, arrivals, offset = BareConnection(bootstrap_servers), Arrivals(warm, records), 0
    poll = _epoll(connection.descriptor)
    connection.send(_fetch_request(topic, offset), FETCH_VERSION)
    ready()
    while arrivals.missing:
        for _ in poll():
            for response in connection.receive(FetchRequest, FETCH_VERSION):
                assert isinstance(response, FetchResponse)
                for batch in _batches(response):
                    for record in batch:
                        arrivals.take(record.value)
                    offset = batch.next_offset
                connection.send(_fetch_request(topic, offset), FETCH_VERSION)
    return arrivals.figures()


def _batches(response: FetchResponse) -> Iterator:  # type: ignore[type-arg]
    assert response.error_code == 0
    for topic in response.responses:
        for partition in topic.partitions:
            assert partition.error_code == 0
            for batch in read_batches(partition.records or b""):
                batch.verify_crc()
                yield batch


def _fetch_request(topic: str, offset: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[partition])])


def _epoll(*descriptors: int) -> Callable[[], list[tuple[int, int]]]:
    poller = select.epoll()
    for descriptor in descriptors:
        poller.register(descriptor, select.EPOLLIN)
    return poller.poll
