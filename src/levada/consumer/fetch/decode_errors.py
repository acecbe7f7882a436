"""What is done about a record that does not deserialize (on.decode.error). One function per word of the option.

Each is given what would be handed out, with None for the part that failed, and the error. It returns what is handed out, None to pass over
the record, or raises what the caller gets once the records before are out. It runs where records are decoded: without the engine's lock,
and once more where a call was broken off and begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from levada.errors import RecordDeserializationError
from levada.logs import Log
from levada.types import AnyRecord, TopicPartition

OnDecodeError: TypeAlias = Callable[[AnyRecord, RecordDeserializationError], AnyRecord | None]


def raise_error(given: AnyRecord, error: RecordDeserializationError) -> AnyRecord | None:
    """Stop before the record."""
    raise error


def skip(log: Log, given: AnyRecord, error: RecordDeserializationError) -> AnyRecord | None:
    """Leave the record out. Each is logged: nothing else tells of it."""
    tp = TopicPartition(given.topic, given.partition)
    log.warning("skipped, as on.decode.error says: %s", error, tp=tp, offset=given.offset)
    return None


def hand_out_null(given: AnyRecord, error: RecordDeserializationError) -> AnyRecord | None:
    """Hand the record out with null in place of what failed; its decode_error says why."""
    return given


def on_decode_error(word: str, log: Log) -> OnDecodeError:
    """Return what a word of the option asks for. log: where it is told what was left out."""
    by_word: Mapping[str, OnDecodeError] = {"raise": raise_error, "skip": partial(skip, log), "null": hand_out_null}
    return by_word[word]
