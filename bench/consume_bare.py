"""The limit for every client: one socket that fetches, and reads only batches' headers, which have the next offset."""

from __future__ import annotations

import socket
from typing import Any

from consume_meter import PARTITIONS, Job, Meter
from engine_process import Figures
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from levada.record.memory_records import read_batches

# The last version with topic names; later versions have topic ids.
VERSION = 12
SIZE_BYTES = 4
PARTITION_BYTES = 1 << 20
MAX_WAIT_MS = 500


def receive(**given: Any) -> Figures:
    """Fetch until all records are received. The memory of the responses is used again."""
    job = Job(**given)
    host, _, port = job.bootstrap_servers.rpartition(":")
    meter, offsets, memory = Meter(job.records), [0] * PARTITIONS, bytearray(2 * PARTITIONS * PARTITION_BYTES)
    with socket.create_connection((host, int(port))) as connection:
        while meter.missing:
            connection.sendall(encode_request(_request(job.topic, offsets), VERSION, 1, "bare"))
            size = int.from_bytes(_filled(connection, memoryview(memory)[:SIZE_BYTES]), "big")
            frame = _filled(connection, memoryview(memory)[:size])
            meter.took(_go_on(decode_response(FetchRequest, VERSION, frame), offsets))
    return meter.figures


def _filled(connection: socket.socket, memory: memoryview) -> memoryview:
    at = 0
    while at < len(memory):
        count = connection.recv_into(memory[at:])
        assert count, "the node closed the connection"
        at += count
    return memory


def _request(topic: str, offsets: list[int]) -> FetchRequest:
    partitions = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES) for number, offset in enumerate(offsets)
    ]
    return FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=partitions)])


def _go_on(response: Any, offsets: list[int]) -> int:
    """Move the offsets past the received batches; return how many records these have."""
    assert isinstance(response, FetchResponse)
    before = sum(offsets)
    for topic in response.responses:
        for partition in topic.partitions:
            assert partition.error_code == 0
            for batch in read_batches(partition.records or b""):
                offsets[partition.partition_index] = batch.next_offset
    return sum(offsets) - before
