"""Encodes and decodes messages.

Each version of a message has an encoder and a decoder, which are generated as Python source at first use, compiled once and kept. The
source is put into linecache, so that tracebacks show it and debuggers step through it. The fast path does not check values whose errors
Python raises anyway; the line that raises shows which field was wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from levada.errors import ProtocolError, TruncatedError, UnsupportedVersionError, UnwritableError
from levada.protocol.decoder import decoder_source
from levada.protocol.encoder import encoder_source
from levada.protocol.schema import Message
from levada.protocol.source import Source
from levada.wire.varint import Bytes

M = TypeVar("M", bound=Message)
Encoder: TypeAlias = Callable[[Any, list[Bytes]], None]
Decoder: TypeAlias = Callable[[Bytes, int, int], tuple[Any, int]]

_DECODE_FAULTS: Final = (struct.error, IndexError, UnicodeDecodeError, ProtocolError)
_ENCODE_FAULTS: Final = (struct.error, AttributeError, TypeError, ValueError, OverflowError, ProtocolError)

_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder] = {}


def encode(message: Message, version: int) -> bytes:
    """Return a message's bytes in a version of its API.

    Raises UnsupportedVersionError if the API has no such version or the version lacks a field that was set, and UnwritableError if the
    value of a field does not fit the protocol.
    """
    parts: list[Bytes] = []
    encode_parts(message, version, parts)
    return b"".join(parts)


def encode_parts(message: Message, version: int, parts: list[Bytes]) -> None:
    """Append a message's bytes to a list of pieces. Records are not copied. Raises the errors of encode(); `parts` may then have grown."""
    encoder = _encoders.get((type(message), version)) or _new_encoder(type(message), version)
    encoder(message, parts)


def decode(cls: type[M], data: Bytes, version: int, offset: int = 0) -> tuple[M, int]:
    """Decode the message that starts at position `offset` of `data`; return the message and the position after it.

    Record batches are views of `data`, or bytes if there is no global interpreter lock. Raises TruncatedError if the bytes end too early,
    another ProtocolError if they violate the format, and UnsupportedVersionError if the API has no such version. In compiled levada the
    garbage collector does not track the structs of larger arrays (levada.protocol.untracked).
    """
    decoder = _decoders.get((cls, version)) or _new_decoder(cls, version)
    return decoder(data, offset, len(data))


def _new_encoder(cls: type[Message], version: int) -> Encoder:
    _check_version(cls, version)
    source = encoder_source(cls, version)
    source.scope.update(pack=struct.pack, FAULTS=_ENCODE_FAULTS, encode_fault=_encode_fault(cls, version, source))
    source.scope["missing_field"] = _missing_field(cls, version)
    encoder: Encoder = _compile(source, f"<levada {cls.__name__} encode v{version}>")["encode"]
    _encoders[cls, version] = encoder
    return encoder


def _new_decoder(cls: type[Message], version: int) -> Decoder:
    _check_version(cls, version)
    source = decoder_source(cls, version)
    source.scope.update(FAULTS=_DECODE_FAULTS, decode_fault=_decode_fault(cls, version, source))
    decoder: Decoder = _compile(source, f"<levada {cls.__name__} decode v{version}>")["decode"]
    _decoders[cls, version] = decoder
    return decoder


def _check_version(cls: type[Message], version: int) -> None:
    if not cls.OLDEST_VERSION <= version <= cls.NEWEST_VERSION:
        raise UnsupportedVersionError(f"{cls.__name__} has versions {cls.OLDEST_VERSION} to {cls.NEWEST_VERSION}, not {version}")


def _compile(source: Source, filename: str) -> dict[str, Any]:
    # Imported here, because it imports the tokenizer, too.
    import linecache

    text = source.text()
    exec(compile(text, filename, "exec"), source.scope)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return source.scope


def _decode_fault(cls: type[Message], version: int, source: Source) -> Callable[[Exception, int], ProtocolError]:
    def fault(error: Exception, pos: int) -> ProtocolError:
        kind: type[ProtocolError]
        if isinstance(error, struct.error | IndexError):
            kind, cause = TruncatedError, "the bytes end too early"
        else:
            kind, cause = type(error) if isinstance(error, ProtocolError) else ProtocolError, str(error)
        return kind(f"{cls.__name__} v{version}, at byte {pos}{_field_text(error, source)}: {cause}")

    return fault


def _encode_fault(cls: type[Message], version: int, source: Source) -> Callable[[Exception], UnwritableError]:
    def fault(error: Exception) -> UnwritableError:
        return UnwritableError(f"{cls.__name__} v{version} cannot be written{_field_text(error, source)}: {error}")

    return fault


def _field_text(error: Exception, source: Source) -> str:
    """Return a text with the path of the field whose generated code raised the error, or "" if the field is not known."""
    trace = error.__traceback__
    field = source.field_of_line(trace.tb_lineno) if trace else ""
    return f", in {field}" if field else ""


def _missing_field(cls: type[Message], version: int) -> Callable[[str], NoReturn]:
    def missing(field: str) -> NoReturn:
        raise UnsupportedVersionError(f"{cls.__name__} v{version} has no field {field}, which was set")

    return missing
