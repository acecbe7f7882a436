"""Records as the program gets them: keys and values deserialized. Without a deserializer there is no Python call per record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from levada.base.asking import ID_HEADERS, Convert, MustAskError, ReadsSchemaId, asks_registry, is_about_data
from levada.base.text import as_text
from levada.consumer.fetch.dead_letters import AwaitsDeadLetterError
from levada.errors import KafkaError, RecordDeserializationError
from levada.logs import SKIPPED, Log
from levada.types import AnyRecord, DecodedRecord, Headers, TopicPartition

Deserializer: TypeAlias = Callable[[bytes], Any]
OnDecodeError: TypeAlias = Callable[[AnyRecord, RecordDeserializationError], AnyRecord | None]
"""The reaction to a record that does not deserialize (on.decode.error): one function per value of the option.

It takes the record, with None for each part that failed, and the error. It returns the record to give to the program, or None to skip it,
or raises the error that poll() raises once the records before it are returned. When columns are read, it takes the whole record, and only
whether it returns None counts. It runs without the engine's lock, and may run again for the same record when a call was interrupted.
"""


def raise_error(given: AnyRecord, error: RecordDeserializationError) -> AnyRecord | None:
    """on.decode.error=raise: raise the error, so that reading stops before the record."""
    raise error


def skip(log: Log, given: AnyRecord, error: RecordDeserializationError) -> AnyRecord | None:
    """on.decode.error=skip: return None, so that the record is skipped, and log it."""
    tp = TopicPartition(given.topic, given.partition)
    log.warning(f"{SKIPPED}: %s", error, tp=tp, offset=given.offset)
    return None


def hand_out_null(given: AnyRecord, error: RecordDeserializationError) -> AnyRecord | None:
    """on.decode.error=null: return the record with null in place of the failed part; its decode_error has the error."""
    return given


def on_decode_error(word: str, log: Log) -> OnDecodeError:
    """Return the function for a value of on.decode.error. log: gets a line for each skipped record."""
    by_word: Mapping[str, OnDecodeError] = {"raise": raise_error, "skip": partial(skip, log), "null": hand_out_null}
    return by_word[word]


class RecordConverter:
    """Applies the deserializers. Without a deserializer, keys or values stay bytes; null keys and values always stay null.

    run_handlers: called before each record, to run waiting signal handlers. They must not run within a deserializer, because an exception
    of a handler would look like an error of the record. on_error: handles a record that does not deserialize. foresee: while a record waits
    for its dead letter, called for each later record that does not deserialize, so that all dead letters are written at once. keeps:
    selects the records to return; None returns all. Other records are not deserialized. seeks: whether the program can seek past a record.
    """

    def __init__(
        self,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        run_handlers: Callable[[], None] = lambda: None,
        on_error: OnDecodeError = raise_error,
        foresee: Callable[[RecordDeserializationError], object] = lambda error: None,
        keeps: Callable[[AnyRecord], bool] | None = None,
        *,
        seeks: bool = True,
    ) -> None:
        self._key = self._not_asking(key_deserializer)
        self._value = self._not_asking(value_deserializer)
        # The headers that these deserializers read; None for neither.
        self._key_header, self._value_header = (
            name if isinstance(one, ReadsSchemaId) and asks_registry(one) else None
            for name, one in zip(ID_HEADERS, (key_deserializer, value_deserializer), strict=True)
        )
        self._run_handlers = run_handlers
        self._on_error = on_error
        self.foresee = foresee
        self._keeps = keeps
        self._seeks = seeks
        self.may_ask = False
        """Whether deserializers may ask a schema registry now, and so block."""

    def convert(self, records: list[AnyRecord]) -> tuple[list[AnyRecord], int]:
        """Return the converted records, and the number of input records that were handled: all, or those before the first error that
        on_error raises.

        If on_error raises an error for the first input record, that is raised. MustAskError is raised in the same way, before a record
        whose deserializer has to ask a schema registry while `may_ask` is False.
        """
        if self._key is None and self._value is None:
            return records if self._keeps is None else [record for record in records if self._keeps(record)], len(records)
        done: list[AnyRecord] = []
        for at, record in enumerate(records):
            if self._keeps is not None and not self._keeps(record):
                continue
            try:
                given, error = self._convert(record)
            except MustAskError:
                if at:
                    return done, at
                raise
            if error is None:
                done.append(given)
                continue
            try:
                instead = self._instead(given, error)
            except KafkaError as reason:
                if isinstance(reason, AwaitsDeadLetterError):
                    self._look_ahead(records[at + 1 :])
                if at:
                    return done, at
                raise
            if instead is not None:
                done.append(instead)
        return done, len(records)

    def pass_over(self, error: RecordDeserializationError) -> None:
        """Raise the error of a record that does not deserialize, or that of on_error, unless the record is to be skipped."""
        is_wanted = self._keeps is None or self._keeps(error.record)
        if is_wanted and self._on_error(error.record, error) is not None:
            raise error

    def _instead(self, given: AnyRecord, error: RecordDeserializationError) -> AnyRecord | None:
        onward = error.record.offset + 1 if self._seeks else None
        if not is_about_data(error.__cause__):
            # While a registry is down, good records would be skipped, too, or become dead letters.
            again = "the record may be good: poll again"
            raise _with_advice(error, again if onward is None else f"{again}, or seek to {onward} to skip it")
        try:
            return self._on_error(given, error)
        except RecordDeserializationError as raised:
            if raised is not error or onward is None:
                raise
        raise _with_advice(error, f"seek to {onward} to skip the record")

    def _convert(self, record: AnyRecord) -> tuple[AnyRecord, RecordDeserializationError | None]:
        """Return the converted record, with None for each part that does not deserialize, and the first error."""
        self._run_handlers()
        key, value = record.key, record.value
        error: RecordDeserializationError | None = None
        if self._key is not None and key is not None:
            try:
                if self._key_header is not None and record.headers:
                    key = self._key(key, _last(record.headers, self._key_header))
                else:
                    key = self._key(key)
            except MustAskError:
                raise
            except Exception as fault:
                key, error = None, _failed(record, "key", fault)
        if self._value is not None and value is not None:
            try:
                if self._value_header is not None and record.headers:
                    value = self._value(value, _last(record.headers, self._value_header))
                else:
                    value = self._value(value)
            except MustAskError:
                raise
            except Exception as fault:
                value, error = None, error or _failed(record, "value", fault)
        return DecodedRecord.of(record, key, value, error), error

    def _look_ahead(self, records: Sequence[AnyRecord]) -> None:
        for record in records:
            if self._keeps is not None and not self._keeps(record):
                continue
            try:
                error = self._convert(record)[1]
            except MustAskError:
                return
            if error is not None:
                if not is_about_data(error.__cause__):
                    return
                self.foresee(error)

    def _not_asking(self, deserializer: Deserializer | None) -> Callable[..., Any] | None:
        """Return a deserializer as a function that asks no schema registry while `may_ask` is False, but raises MustAskError.

        A deserializer that reads a schema id becomes a function of the data and, optionally, the value of the header with the id.
        """
        if not asks_registry(deserializer):
            return deserializer
        asks: Any = deserializer

        def deserialize(data: bytes, header: bytes | None = None) -> Any:
            convert: Convert | None = asks._known(data) if header is None else asks._known(data, header)
            if convert is None:
                if not self.may_ask:
                    raise MustAskError("a schema registry has to be asked")
                convert = asks._find(data) if header is None else asks._find(data, header)
            return convert(data)

        return deserialize


def _last(headers: Headers, name: str) -> bytes | None:
    """Return the value of the last header with a name, as Java does; None without one."""
    return next((value for key, value in reversed(headers) if key == name), None)


def _failed(record: AnyRecord, part: str, fault: Exception) -> RecordDeserializationError:
    where = f"{record.topic}-{record.partition} at offset {record.offset}"
    error = RecordDeserializationError(f"{where}: the {part}'s deserializer failed: {type(fault).__name__}: {as_text(fault)}", record, part)
    error.__cause__ = fault
    return error


def _with_advice(error: RecordDeserializationError, advice: str) -> RecordDeserializationError:
    """Return the error to raise. Errors that are only logged, or given to the program with their record, have no advice."""
    advised = RecordDeserializationError(f"{error.args[0]}; {advice}", error.record, error.part)
    advised.__cause__ = error.__cause__
    return advised
