"""The headers of requests and responses.

A request header has the API, its version, the correlation id and the client id (header v1). Flexible versions add a tag section (v2), but
the client id keeps its classic length. A response header is the correlation id (v0), in flexible versions with a tag section (v1). Only
responses of ApiVersions always have v0, because the client does not know the broker's versions yet. The oldest version of
ControlledShutdown is older than client ids, so its request header has none (v0).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from levada.errors import ProtocolError, TruncatedError, UnwritableError
from levada.protocol.runtime import length_fault, skip_tags
from levada.protocol.schema import Request
from levada.wire.varint import Bytes

API_VERSIONS_KEY: Final = 18
CONTROLLED_SHUTDOWN_KEY: Final = 7

_FIXED: Final = struct.Struct(">hhih")
_START: Final = struct.Struct(">hhi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\x00"


class RequestStart(NamedTuple):
    """The fields of a request header that all versions have."""

    api_key: int
    version: int
    correlation_id: int


def encode_request_header(request: type[Request], version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the header of a request. client_id: None for null."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    try:
        if not has_client_id(request, version):
            return _START.pack(request.API_KEY, version, correlation_id)
        fixed = _FIXED.pack(request.API_KEY, version, correlation_id, length)
    except struct.error as error:
        raise UnwritableError(f"{request.NAME} request header cannot be written: {error}") from error
    return fixed + name + (_NO_TAGS if request.is_flexible(version) else b"")


def has_client_id(request: type[Request], version: int) -> bool:
    """Whether requests of this version have a client id in their header (header v1 or v2)."""
    return request.API_KEY != CONTROLLED_SHUTDOWN_KEY or version > 0


def decode_request_start(frame: Bytes) -> RequestStart:
    """Read API key, version and correlation id. Raises TruncatedError."""
    if len(frame) < _START.size:
        raise TruncatedError(f"a request of {len(frame)} bytes is shorter than its header")
    return RequestStart(*_START.unpack_from(frame))


def decode_client_id(request: type[Request], version: int, frame: Bytes) -> tuple[str | None, int]:
    """Decode the rest of a request header; return the client id and the position of the body. Raises ProtocolError.

    The client id is None if it is null, or if the header of this version has none.
    """
    if not has_client_id(request, version):
        return None, _START.size
    try:
        client_id, pos = _decode_client_id(frame)
        return client_id, skip_tags(frame, pos, len(frame))[0] if request.is_flexible(version) else pos
    except (ProtocolError, UnicodeDecodeError) as error:
        kind = type(error) if isinstance(error, ProtocolError) else ProtocolError
        raise kind(f"{request.NAME} v{version} request header, after byte {_START.size}: {error}") from error


def _decode_client_id(frame: Bytes) -> tuple[str | None, int]:
    pos = _FIXED.size
    remaining = len(frame) - pos
    if remaining < 0:
        raise TruncatedError("the bytes end too early")
    (length,) = _INT16.unpack_from(frame, _START.size)
    if length == -1:
        return None, pos
    if not 0 <= length <= remaining:
        raise length_fault(length, remaining)
    return str(frame[pos : pos + length], "utf-8"), pos + length


def encode_response_header(correlation_id: int, tagged: bool) -> bytes:
    """Return the header of a response. tagged: whether it has a tag section (header v1)."""
    return _INT32.pack(correlation_id) + (_NO_TAGS if tagged else b"")


def decode_correlation_id(frame: Bytes) -> int:
    """Read a response's correlation id. Raises TruncatedError."""
    if len(frame) < _INT32.size:
        raise TruncatedError(f"a response of {len(frame)} bytes is shorter than its header")
    (correlation_id,) = _INT32.unpack_from(frame)
    return int(correlation_id)


def response_body_start(request: type[Request], version: int, frame: Bytes) -> int:
    """Return the position of the body of a response. Raises ProtocolError."""
    size = len(frame)
    tagged = has_tagged_response_header(request, version)
    if size > _INT32.size and (not tagged or frame[_INT32.size] == 0):
        # The usual case: Kafka does not use tags in headers yet.
        return _INT32.size + tagged
    try:
        decode_correlation_id(frame)
        return skip_tags(frame, _INT32.size, size)[0] if tagged else _INT32.size
    except ProtocolError as error:
        raise type(error)(f"{request.NAME} v{version} response header, after byte {_INT32.size}: {error}") from error


def has_tagged_response_header(request: type[Request], version: int) -> bool:
    """Whether the response to a request of this version has response header v1, which has a tag section."""
    first = request.FIRST_FLEXIBLE
    return first is not None and version >= first and request.API_KEY != API_VERSIONS_KEY
