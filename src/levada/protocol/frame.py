"""Encodes and decodes whole requests and responses: size, header and body.

Encoders return a frame with its size before it, ready for the socket. Decoders take a frame without its size, as FrameReader returns it.
A message need not fill its frame: Kafka's broker ignores bytes after a request, and librdkafka relies on this (its Metadata request for all
topics, version 9 and later, librdkafka issue 5049). Kafka's client ignores bytes after a response, and librdkafka's mock broker appends a
byte to Metadata 13.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from levada.errors import ProtocolError, UnwritableError
from levada.protocol import header
from levada.protocol.api import APIS
from levada.protocol.codegen import decode, encode_parts
from levada.protocol.frame_reader import FrameReader
from levada.protocol.header import decode_correlation_id as response_correlation_id
from levada.protocol.schema import Message, Request, Response
from levada.wire.varint import Bytes

__all__ = [
    "FrameReader",
    "RequestFrame",
    "UnsupportedRequestError",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_request_parts",
    "encode_response",
    "encode_response_parts",
    "response_correlation_id",
]

_SIZE: Final = struct.Struct(">i")
_MAX_FRAME: Final = (1 << 31) - 1


class RequestFrame(NamedTuple):
    """A request that a broker has received."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    request: Request


class UnsupportedRequestError(ProtocolError):
    """A request has an API or a version that is not supported."""

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        known = APIS.get(api_key)
        wanted = f"{known.NAME} has versions {known.MIN_VERSION} to {known.MAX_VERSION}" if known else f"API key {api_key} is unknown"
        super().__init__(f"{wanted}; a request of version {version} came (correlation id {correlation_id})")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


def encode_request(request: Request, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return a request's whole frame. Raises UnsupportedVersionError and UnwritableError like codegen.encode()."""
    return b"".join(encode_request_parts(request, version, correlation_id, client_id))


def encode_request_parts(request: Request, version: int, correlation_id: int, client_id: str | None) -> list[Bytes]:
    """Return a request's whole frame as buffers for sendmsg(). Records are not copied. Raises the errors of encode_request()."""
    return _frame_parts(header.encode_request_header(type(request), version, correlation_id, client_id), request, version)


def encode_response(response: Response, version: int, correlation_id: int) -> bytes:
    """Return a response's whole frame. Raises UnsupportedVersionError and UnwritableError like codegen.encode()."""
    return b"".join(encode_response_parts(response, version, correlation_id))


def encode_response_parts(response: Response, version: int, correlation_id: int) -> list[Bytes]:
    """Return a response's whole frame as buffers for sendmsg(). Records are not copied. Raises the errors of encode_response()."""
    tagged = header.has_tagged_response_header(response.REQUEST, version)
    return _frame_parts(header.encode_response_header(correlation_id, tagged), response, version)


def _frame_parts(head: bytes, message: Message, version: int) -> list[Bytes]:
    parts: list[Bytes] = [b"", head]
    encode_parts(message, version, parts)
    size = sum(map(len, parts))
    if size > _MAX_FRAME:
        raise UnwritableError(f"{type(message).__name__} v{version} takes {size} bytes, more than a frame can hold ({_MAX_FRAME})")
    parts[0] = _SIZE.pack(size)
    return parts


def decode_request(frame: Bytes) -> RequestFrame:
    """Decode the frame of a request, without its size field.

    Raises UnsupportedRequestError for an unsupported API or version, and another ProtocolError for an invalid frame.
    """
    start = header.decode_request_start(frame)
    known = APIS.get(start.api_key)
    if known is None or not known.MIN_VERSION <= start.version <= known.MAX_VERSION:
        raise UnsupportedRequestError(*start)
    client_id, pos = header.decode_client_id(known, start.version, frame)
    request, _ = decode(known, frame, start.version, pos)
    return RequestFrame(*start, client_id, request)


def decode_response(request_type: type[Request], version: int, frame: Bytes) -> Response:
    """Decode the response to a request of this type and version. Raises ProtocolError.

    A broker that does not support the version of an ApiVersions request answers in version 0. The caller has to handle this.
    """
    pos = header.response_body_start(request_type, version, frame)
    return decode(request_type.RESPONSE, frame, version, pos)[0]
