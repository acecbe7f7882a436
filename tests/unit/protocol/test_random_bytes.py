from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levada.errors import ProtocolError
from levada.protocol.codegen import decode, encode
from levada.protocol.frame import decode_request, decode_response
from levada.protocol.schema import Message
from protocol_strategies import API_MESSAGES, MESSAGES, messages_of_any_version, versions_of


@pytest.mark.parametrize("message", MESSAGES)
@given(data=st.data())
@settings(max_examples=12)
def test_a_damaged_message_is_read_or_refused_never_anything_else(message: type[Message], data: st.DataObject) -> None:
    value, version = data.draw(messages_of_any_version(message))
    written = bytearray(encode(value, version))
    for _ in range(data.draw(st.integers(1, 3))):
        if written:
            written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))

    with suppress(ProtocolError):
        read, end = decode(message, bytes(written), version)
        assert isinstance(read, message)
        assert end <= len(written)


@pytest.mark.parametrize("message", MESSAGES)
@given(data=st.data(), noise=st.binary(max_size=60))
@settings(max_examples=15)
def test_noise_is_read_or_refused_never_anything_else(message: type[Message], data: st.DataObject, noise: bytes) -> None:
    version = data.draw(st.sampled_from(versions_of(message)))

    with suppress(ProtocolError):
        assert isinstance(decode(message, noise, version)[0], message)


@given(noise=st.binary(max_size=60))
def test_a_noisy_request_frame_is_read_or_refused(noise: bytes) -> None:
    with suppress(ProtocolError):
        assert decode_request(noise).api_key == int.from_bytes(noise[:2], "big")


@pytest.mark.parametrize("message", [message for message in API_MESSAGES if hasattr(message, "RESPONSE")])
@given(data=st.data(), noise=st.binary(max_size=60))
@settings(max_examples=8)
def test_a_noisy_response_frame_is_read_or_refused(message: type[Message], data: st.DataObject, noise: bytes) -> None:
    version = data.draw(st.integers(message.MIN_VERSION, message.MAX_VERSION))

    with suppress(ProtocolError):
        assert isinstance(decode_response(message, version, noise), message.RESPONSE)  # type: ignore[arg-type, attr-defined]
