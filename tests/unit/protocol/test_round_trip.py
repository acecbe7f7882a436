from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levada.errors import TruncatedError
from levada.protocol.codegen import decode, encode
from levada.protocol.schema import Message
from protocol_strategies import MESSAGES, emptied, filled, messages_of_any_version, versions_of


@pytest.mark.parametrize("message", MESSAGES)
@given(data=st.data())
@settings(max_examples=8)
def test_what_is_written_is_read_back(message: type[Message], data: st.DataObject) -> None:
    value, version = data.draw(messages_of_any_version(message))

    written = encode(value, version)
    read, end = decode(message, written, version)

    assert read == value
    assert end == len(written)
    assert encode(read, version) == written


@pytest.mark.parametrize("message", MESSAGES)
def test_every_field_of_every_version_is_read_back(message: type[Message]) -> None:
    for version, make in product(versions_of(message), [filled, emptied]):
        value = make(message, version)
        written = encode(value, version)

        read, end = decode(message, written, version)

        assert (read, end) == (value, len(written)), f"version {version}"
        assert encode(read, version) == written, f"version {version}"


@pytest.mark.parametrize("message", MESSAGES)
def test_every_version_cut_off_at_any_byte_is_truncated(message: type[Message]) -> None:
    for version in versions_of(message):
        written = encode(filled(message, version), version)
        says = f"{message.__name__} v{version}, at byte "

        for length in range(len(written)):
            try:
                decode(message, written[:length], version)
            except TruncatedError as error:
                assert str(error).startswith(says)
            else:
                pytest.fail(f"version {version}: {length} of {len(written)} bytes were taken for the whole")


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_defaults_survives_in_every_version(message: type[Message]) -> None:
    for version in versions_of(message):
        written = encode(message(), version)

        assert decode(message, written, version) == (message(), len(written)), f"version {version}"


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_read_from_the_middle_of_any_buffer(message: type[Message]) -> None:
    value, version = filled(message, message.MAX_VERSION), message.MAX_VERSION
    buffer = b"before" + encode(value, version)

    for kind in (bytes, bytearray, memoryview):
        assert decode(message, kind(buffer + b"after"), version, 6) == (value, len(buffer))
