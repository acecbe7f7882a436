"""P8: the embedded broker answers FindCoordinator as Kafka 4.4 does."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any
from uuid import uuid4

import pytest

from kafka_cluster import KafkaCluster
from levada.broker.apis.groups.find_coordinator import GROUP, SHARE, TRANSACTION
from levada.error_codes import ErrorCode
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.testing import EmbeddedKafka

pytestmark = pytest.mark.kafka

PATIENCE_S = 30
NOT_YET = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def ask(servers: str, request: FindCoordinatorRequest, version: int) -> Any:
    """Return error codes and messages; Kafka creates the internal topics at the first question, so ask until it has."""
    host, port = servers.split(":")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection, connection.makefile("rb") as answers:
            connection.sendall(encode_request(request, version, 1, "test"))
            head = answers.read(4)
            if len(head) < 4:
                return "connection closed"
            reply: Any = decode_response(FindCoordinatorRequest, version, answers.read(*struct.unpack(">i", head)))
        found = reply.coordinators if version >= 4 else [reply]
        if time.monotonic() > deadline or not NOT_YET & {ErrorCode.of(one.error_code) for one in found}:
            return [described(one) for one in found]
        time.sleep(0.2)


def described(one: Any) -> tuple[Any, ...]:
    """What has to be the same; the texts of errors may differ."""
    message = None if one.error_code else one.error_message
    return getattr(one, "key", ""), one.error_code, message, one.node_id >= 0, bool(one.host), one.port > 0


def question(version: int, kind: int, *keys: str) -> FindCoordinatorRequest:
    if version >= 4:
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
    return FindCoordinatorRequest(key=keys[0], key_type=kind)


@pytest.mark.parametrize("version", range(7))
def test_P8_find_coordinator(kafka44: KafkaCluster, version: int) -> None:
    kinds = [GROUP] if version == 0 else [GROUP, TRANSACTION, 9] + ([SHARE] if version >= 4 else [])
    topic = "AAAAAAAAAAAAAAAAAAAAAQ"
    with EmbeddedKafka() as embedded:
        for kind in kinds:
            keys = [f"g-{uuid4().hex}", "", "no:topic:0", f"g:{topic}:x"] if kind in (SHARE, GROUP) else ["a"]
            for asked in (question(version, kind, key) for key in keys):
                theirs, ours = (ask(servers, asked, version) for servers in (kafka44.bootstrap_servers, embedded.bootstrap_servers))
                assert ours == theirs, f"kind {kind}: {asked}"
