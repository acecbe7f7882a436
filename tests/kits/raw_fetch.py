"""The record batches of a partition as the broker keeps them, fetched without any client."""

from __future__ import annotations

import socket
import struct
from typing import Any

from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches

VERSION = 11
CORRELATION_ID = 7


def batches_of(bootstrap_servers: str, topic: str, partition: int = 0) -> list[RecordBatch]:
    """Fetch a partition from its beginning, up to 50 MB, from the first broker named."""
    wanted = FetchTopic(topic=topic, partitions=[FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=50_000_000)])
    request = FetchRequest(replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=50_000_000, topics=[wanted])
    host, port = bootstrap_servers.split(",")[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(encode_request(request, VERSION, CORRELATION_ID, "raw"))
        (size,) = struct.unpack(">i", _receive(connection, 4))
        response: Any = decode_response(FetchRequest, VERSION, _receive(connection, size))
    return list(read_batches(response.responses[0].partitions[0].records or b""))


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("closed before the answer was complete")
        data += piece
    return bytes(data)
