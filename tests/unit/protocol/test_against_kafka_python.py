"""The same bytes as kafka-python, whose codec is interpreted from Kafka's own schemas and shares nothing with ours."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any
from uuid import UUID

import kafka.protocol.old
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage

from levada.protocol.codegen import decode, encode
from levada.protocol.frame import decode_request, encode_request
from levada.protocol.messages.api_versions import ApiVersionsResponse
from levada.protocol.prefixed import encode_prefixed
from levada.protocol.schema import ZERO_UUID, Data, Field, Message, Struct
from protocol_strategies import API_MESSAGES, data_messages, emptied, filled, messages, messages_of_any_version, versions_of

MODULES = [import_module(f"kafka.protocol.{name}") for name in ("admin", "consumer", "metadata", "producer", "sasl")]

# What kafka-python's schemas lack, by API key: versions of Kafka 4.4, and fields of versions that Kafka 4 dropped.
NEWEST_KNOWN = {18: 4, 28: 5, 42: 2}
OLDEST_KNOWN = {2: 1, 8: 2, 32: 1}
NAMED_OTHERWISE = {"enable_2pc": "enable2_pc", "generation_id_or_member_epoch": "generation_id"}
# Turned into sets of operations by kafka-python; the bytes are compared all the same.
NOT_COMPARED = {"topic_authorized_operations", "cluster_authorized_operations", "authorized_operations"}


def theirs(message: type[Message]) -> Any:
    """kafka-python's class for one of our messages, None when it has none."""
    return next((getattr(module, message.__name__) for module in MODULES if hasattr(module, message.__name__)), None)


KNOWN = [message for message in API_MESSAGES if theirs(message) is not None]
EMBEDDED = [message for message in data_messages("embedded") if theirs(message) is not None]


def versions_known(message: type[Message]) -> range:
    """The versions that kafka-python has all fields of."""
    key = message.API_KEY  # type: ignore[attr-defined]
    return range(OLDEST_KNOWN.get(key, message.OLDEST_VERSION), NEWEST_KNOWN.get(key, message.NEWEST_VERSION) + 1)


def test_all_that_kafka_python_declares_is_compared(note: Callable[[str], None]) -> None:
    declared = {found for base in (ApiMessage, ApiData) for found in subclasses(base) if found.__module__.startswith("kafka.protocol.")}
    named = {found.__name__ for found in declared if "_v" not in found.__name__}  # the others are made of these when first used
    now = {(message, version) for message in KNOWN for version in versions_known(message)}
    before = {(message, old.API_VERSION) for message, found in OLD_VERSIONS.items() for old in found}
    missing = sorted(
        (message.__name__, version) for message in KNOWN for version in set(versions_of(message)) if (message, version) not in now | before
    )

    embedded = sum(len(versions_of(message)) for message in EMBEDDED)
    note(f"kafka-python: {len(KNOWN) + len(EMBEDDED)} messages compared, {len(now | before) + embedded} versions of them;")
    note(f"    not in its schemas: {', '.join(f'{name} {version}' for name, version in missing)}")
    assert named == {message.__name__ for message in [*KNOWN, *EMBEDDED]}
    assert {name.removesuffix("Request").removesuffix("Response") for name, _ in missing} == {
        "ApiVersions",
        "TxnOffsetCommit",
        "DeleteGroups",
    }


def subclasses(base: type[Any]) -> set[type[Any]]:
    """All classes below one."""
    return {found for below in base.__subclasses__() for found in {below, *subclasses(below)}}


def test_the_apis_that_kafka_python_does_not_know_are_those() -> None:
    unknown = {message.API_KEY for message in API_MESSAGES if message not in KNOWN}  # type: ignore[attr-defined]
    between_brokers = {4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}
    administration = {38, 39, 40, 41, 64, 80, 81, 94}
    new_groups = {68, 69, *range(76, 80), *range(83, 94)}
    telemetry = {71, 72}

    assert unknown == between_brokers | administration | new_groups | telemetry


def assert_same(ours: Struct, other: Any, version: int) -> None:
    """Compare every field that the version has."""
    for field in ours.FIELDS:
        if (field.is_inline(version) or field.is_tagged(version)) and field.name not in NOT_COMPARED:
            name = field.name if hasattr(other, field.name) else NAMED_OTHERWISE[field.name]
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
        assert ours == (ZERO_UUID if other is None else other if isinstance(other, UUID) else UUID(str(other)))
    else:
        assert (ours or None) == (other or None), field.name


@pytest.mark.parametrize("message", KNOWN)
@given(data=st.data())
@settings(max_examples=10)
def test_kafka_python_reads_what_we_write_and_writes_the_same(message: type[Message], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions_known(message)))
    compare(message, data.draw(messages(message, version)), version)


@pytest.mark.parametrize("message", KNOWN)
def test_kafka_python_reads_and_writes_every_field_of_every_version_as_we_do(message: type[Message]) -> None:
    for version in versions_known(message):
        compare(message, filled(message, version), version)
        compare(message, emptied(message, version), version)


def compare(message: type[Message], ours: Message, version: int) -> None:
    written = encode(ours, version)

    # Past the override that reads every ApiVersions error as version 0.
    other = ApiMessage.decode.__func__(theirs(message), written, version=version)

    assert_same(ours, other, version)
    other._header = None  # which decoding forgets and encoding asks for
    assert bytes(other.encode(version=version)) == written


@pytest.mark.parametrize("message", EMBEDDED)
@given(data=st.data())
def test_kafka_python_reads_and_writes_what_consumers_tell_each_other_as_we_do(message: type[Data], data: st.DataObject) -> None:
    ours, version = data.draw(messages_of_any_version(message))
    written = encode_prefixed(ours, version)

    other = theirs(message).decode(written)

    assert_same(ours, other, version)
    assert other.encode(version=version) == written


@pytest.mark.parametrize("request_type", [message for message in KNOWN if hasattr(message, "RESPONSE")])
def test_kafka_python_writes_the_same_headers(request_type: type[Message]) -> None:
    key = request_type.API_KEY  # type: ignore[attr-defined]
    for version in [version for version in versions_known(request_type) if version <= request_type.MAX_VERSION]:
        other = theirs(request_type)(version=version)
        other.with_header(correlation_id=77, client_id="someone")
        framed = bytes(other.encode(version=version, header=True, framed=True))

        received = decode_request(framed[4:])

        assert (received.api_key, received.version, received.correlation_id, received.client_id) == (key, version, 77, "someone")
        assert encode_request(received.request, version, 77, "someone") == framed


# Whose partitions kafka-python took for one number.
OLD_AND_WRONG = "DescribeLogDirsRequest"


def old_versions(message: type[Message]) -> list[Any]:
    """kafka-python's hand-written classes of the years before, one per version that is not flexible."""
    modules = [import_module(found.name) for found in iter_modules(kafka.protocol.old.__path__, "kafka.protocol.old.")]
    declared = [old for module in modules for old in getattr(module, message.__name__, ())]
    # Another's class stands in one of its lists.
    named = [old for old in declared if old.__name__.startswith(f"{message.__name__}_v") and message.__name__ != OLD_AND_WRONG]
    return [old for old in named if not message.is_flexible(old.API_VERSION)]


OLD_VERSIONS = {message: found for message in API_MESSAGES if (found := old_versions(message))}


@pytest.mark.parametrize("message", OLD_VERSIONS)
@given(data=st.data())
@settings(max_examples=20)
def test_the_old_versions_are_what_kafka_python_once_wrote_by_hand(message: type[Message], data: st.DataObject) -> None:
    old_class = data.draw(st.sampled_from(OLD_VERSIONS[message]))
    ours = data.draw(messages(message, old_class.API_VERSION))
    if isinstance(ours, ApiVersionsResponse):
        ours.error_code = 0  # any other is read as version 0
    written = encode(ours, old_class.API_VERSION)

    assert old_class.decode(written).encode() == written
    assert decode(message, written, old_class.API_VERSION)[0] == ours
