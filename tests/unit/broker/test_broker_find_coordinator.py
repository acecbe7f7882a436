"""FindCoordinator as the embedded broker answers it."""

from __future__ import annotations

import base64
from typing import Any
from uuid import uuid4

import pytest

from broker_kit import Client
from levada.broker.apis.groups.find_coordinator import GROUP, SHARE, TRANSACTION
from levada.broker.coordinators.placement import java_hash, partition_for
from levada.error_codes import ErrorCode
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("orders", -1008770331), ("Kafka", 72255238), ("h\u00fc\U0001f600", 5113335), ("zzzzzz", -685785664)],
)
def test_G1_hashes_are_those_of_java_strings(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_G1_the_smallest_hash_belongs_to_partition_0() -> None:
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert partition_for("polygenelubricants", 50) == 0


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("kind", [GROUP, TRANSACTION])
def test_every_version_names_the_node(client: Client, version: int, kind: int) -> None:
    if kind == TRANSACTION and version == 0:
        pytest.skip("version 0 knows groups only")
    found = find(client, version, kind, "g")
    assert (found.node_id, found.port, found.error_code) == (1, 9092, 0)


def find(client: Client, version: int, kind: int, key: str) -> Any:
    if version >= 4:
        (found,) = client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), version).coordinators
        assert found.key == key
        return found
    return client.ask(FindCoordinatorRequest(key=key, key_type=kind), version)


def test_a_kind_that_does_not_exist_is_an_invalid_request(client: Client) -> None:
    assert find(client, 6, 9, "g").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "version", "code"),
    [
        ("g:TOPIC:0", 6, ErrorCode.NONE),
        ("a:b:TOPIC:0", 6, ErrorCode.NONE),
        ("g:TOPIC:0", 5, ErrorCode.INVALID_REQUEST),
        ("g", 6, ErrorCode.INVALID_REQUEST),
        ("g:TOPIC", 6, ErrorCode.INVALID_REQUEST),
        ("g:TOPIC:x", 6, ErrorCode.INVALID_REQUEST),
        ("g:t:0", 6, ErrorCode.INVALID_REQUEST),
        (":TOPIC:0", 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_share_key_names_group_topic_and_partition(client: Client, key: str, version: int, code: ErrorCode) -> None:
    topic = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
    assert find(client, version, SHARE, key.replace("TOPIC", topic)).error_code == code


@pytest.mark.parametrize("version", [3, 6])
def test_a_planned_fault_reaches_every_key(client: Client, version: int) -> None:
    client.bench.node.faults.fail_next("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found = find(client, version, GROUP, "g")
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert find(client, version, GROUP, "g").error_code == 0
