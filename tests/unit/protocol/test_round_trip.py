from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import TruncatedError
from penstock.protocol.codegen import decode, encode, encode_into
from penstock.protocol.schema import Message
from protocol_strategies import MESSAGES, VERSIONED, messages_of_any_version


@pytest.mark.parametrize("message", MESSAGES)
@given(data=st.data())
@settings(max_examples=40)
def test_what_is_written_is_read_back(message: type[Message], data: st.DataObject) -> None:
    value, version = data.draw(messages_of_any_version(message))

    written = encode(value, version)
    read, end = decode(message, written, version)

    assert read == value
    assert end == len(written)
    assert encode(read, version) == written


@pytest.mark.parametrize(("message", "version"), VERSIONED)
def test_a_message_of_defaults_survives_in_every_version(message: type[Message], version: int) -> None:
    written = encode(message(), version)

    assert decode(message, written, version) == (message(), len(written))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("message", MESSAGES)
@given(data=st.data())
@settings(max_examples=5)
def test_a_message_is_read_from_the_middle_of_any_buffer(message: type[Message], kind: Any, data: st.DataObject) -> None:
    value, version = data.draw(messages_of_any_version(message))
    buffer = bytearray(b"before")
    encode_into(value, version, buffer)

    read, end = decode(message, kind(bytes(buffer) + b"after"), version, 6)

    assert read == value
    assert end == len(buffer)


@pytest.mark.parametrize("message", MESSAGES)
@given(data=st.data())
@settings(max_examples=10)
def test_a_message_cut_off_at_any_byte_is_truncated(message: type[Message], data: st.DataObject) -> None:
    value, version = data.draw(messages_of_any_version(message))
    written = encode(value, version)

    for length in range(len(written)):
        with pytest.raises(TruncatedError, match=f"^{message.__name__} v{version}, at byte "):
            decode(message, written[:length], version)
