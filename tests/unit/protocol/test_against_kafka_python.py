"""The same bytes as kafka-python, whose codec is interpreted from Kafka's own schemas and shares nothing with ours."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from penstock.protocol.codegen import decode, encode
from penstock.protocol.frame import decode_request, encode_request
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.protocol.schema import Field, Message, Struct
from protocol_strategies import MESSAGES, messages

MODULES = {0: "producer", 1: "consumer", 2: "consumer", 3: "metadata", 18: "metadata", 19: "admin", 20: "admin", 22: "producer"}
# What kafka-python's schemas do not have: the request of Kafka 4.4, and the answer that Kafka dropped.
NEWEST_KNOWN = {18: 4}
OLDEST_KNOWN = {2: 1}
NAMED_OTHERWISE = {"enable_2pc": "enable2_pc"}
# Turned into sets of operations by kafka-python; the bytes are compared all the same.
NOT_COMPARED = {"topic_authorized_operations", "cluster_authorized_operations"}


def theirs(message: type[Message]) -> Any:
    """kafka-python's class for one of our messages."""
    return getattr(import_module(f"kafka.protocol.{MODULES[message.API_KEY]}"), message.__name__)  # type: ignore[attr-defined]


def drawn(data: st.DataObject, message: type[Message]) -> tuple[Any, int]:
    """A message and a version that kafka-python knows."""
    key = message.API_KEY  # type: ignore[attr-defined]
    version = data.draw(st.integers(OLDEST_KNOWN.get(key, message.MIN_VERSION), NEWEST_KNOWN.get(key, message.NEWEST_VERSION)))
    return data.draw(messages(message, version)), version


def assert_same(ours: Struct, other: Any, version: int) -> None:
    """Compare every field that the version has."""
    for field in ours.FIELDS:
        if (field.is_inline(version) or field.is_tagged(version)) and field.name not in NOT_COMPARED:
            name = NAMED_OTHERWISE.get(field.name, field.name)
            assert_same_value(field, getattr(ours, field.name), getattr(other, name), version)


def assert_same_value(field: Field, ours: Any, other: Any, version: int) -> None:
    if field.is_tagged(version) and other is None:
        assert ours == field.new_default()
    elif field.kind == "struct" and ours is not None:
        assert_same(ours, other, version)
    elif field.kind == "array" and ours:
        assert field.element is not None
        assert len(ours) == len(other)
        for mine, their in zip(ours, other, strict=True):
            assert_same_value(field.element, mine, their, version)
    elif field.kind == "uuid":
        assert ours == (other if isinstance(other, UUID) else UUID(str(other)))
    else:
        assert (ours or None) == (other or None), field.name


@pytest.mark.parametrize("message", MESSAGES)
@given(data=st.data())
@settings(max_examples=30)
def test_kafka_python_reads_what_we_write_and_writes_the_same(message: type[Message], data: st.DataObject) -> None:
    ours, version = drawn(data, message)
    written = encode(ours, version)

    # Past the override that reads every ApiVersions error as version 0.
    other = ApiMessage.decode.__func__(theirs(message), written, version=version)

    assert_same(ours, other, version)
    other._header = None  # which decoding forgets and encoding asks for
    assert bytes(other.encode(version=version)) == written


@pytest.mark.parametrize("request_type", [message for message in MESSAGES if hasattr(message, "RESPONSE")])
def test_kafka_python_writes_the_same_headers(request_type: type[Message]) -> None:
    key = request_type.API_KEY  # type: ignore[attr-defined]
    for version in range(OLDEST_KNOWN.get(key, 0), NEWEST_KNOWN.get(key, request_type.MAX_VERSION) + 1):
        other = theirs(request_type)(version=version)
        other.with_header(correlation_id=77, client_id="someone")
        framed = bytes(other.encode(version=version, header=True, framed=True))

        received = decode_request(framed[4:])

        assert (received.api_key, received.version, received.correlation_id, received.client_id) == (key, version, 77, "someone")
        assert encode_request(received.request, version, 77, "someone") == framed


OLD_MODULES = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    18: "api_versions",
    19: "admin",
    20: "admin",
    22: "init_producer_id",
}


def old_classes(message: type[Message]) -> list[Any]:
    """kafka-python's hand-written classes of the years before, one per version that is not flexible."""
    module = import_module(f"kafka.protocol.old.{OLD_MODULES[message.API_KEY]}")  # type: ignore[attr-defined]
    return [old for old in getattr(module, message.__name__) if not message.is_flexible(old.API_VERSION)]


@pytest.mark.parametrize("message", MESSAGES)
@given(data=st.data())
@settings(max_examples=30)
def test_the_old_versions_are_what_kafka_python_once_wrote_by_hand(message: type[Message], data: st.DataObject) -> None:
    old_class = data.draw(st.sampled_from(old_classes(message)))
    ours = data.draw(messages(message, old_class.API_VERSION))
    if isinstance(ours, ApiVersionsResponse):
        ours.error_code = 0  # any other is read as version 0
    written = encode(ours, old_class.API_VERSION)

    assert old_class.decode(written).encode() == written
    assert decode(message, written, old_class.API_VERSION)[0] == ours
