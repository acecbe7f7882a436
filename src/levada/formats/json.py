"""JSON: objects with the fields of a schema.

Values are read by levada's own JSON reader (docs/JSON.md), and written a whole column at a time. Apart from times, the text is the same as
from Spark's to_json: fields that are null are left out, null elements of arrays and values of maps are written; binary is base64; NaN and
infinities are strings. Timestamps are ISO 8601 with microseconds, in UTC if they have a zone; to_json cuts them to milliseconds.
"""

from __future__ import annotations

import base64
import json
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from levada.errors import ConfigError, SerializationError
from levada.formats.reading import Decoder, Format
from levada.formats.writing import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS, Encode, Named, WriteFormat

_TO_ESCAPE = r'["\\\x00-\x1f]'


@dataclass(frozen=True)
class JsonFormat(Format):
    """JSON objects. schema: the fields to read."""

    schema: pa.Schema

    @property
    def kind(self) -> pa.DataType:
        """A struct of the fields."""
        return pa.struct(list(self.schema))

    def decoder(self, kind: pa.DataType | None = None) -> Decoder:
        """Return a decoder."""
        from levada.record.columnar import JsonDecoder

        return JsonDecoder(self.schema)


class JsonWriter(WriteFormat):
    """Writes a struct column as JSON objects."""

    def check(self, column: str, kind: pa.DataType, named: Named = str) -> None:
        """Raise ConfigError if a column of this type cannot be written."""
        if not pa.types.is_struct(kind):
            raise ConfigError(f"column '{column}' must be a struct to be written as JSON, but is {named(kind)}; use struct(...)")
        _check(column, kind, named)

    def encoder(self, column: str) -> Encode:
        """Return a function that encodes a column. column: its name, for errors."""

        def encode(array: pa.Array) -> pa.Array:
            if _beyond(column, array) is not None:
                raise _far_time(column, array)
            return json_texts(array).cast(pa.binary())

        return encode


def _check(path: str, kind: pa.DataType, named: Named) -> None:
    is_ = pa.types
    if is_.is_struct(kind):
        if not kind.num_fields:
            raise ConfigError(f"column '{path}' is a struct without fields; leave it out")
        for field in kind:
            _check(f"{path}.{field.name}", field.type, named)
    elif is_.is_list(kind) or is_.is_large_list(kind):
        _check(path, kind.value_type, named)
    elif is_.is_map(kind):
        if not is_.is_string(kind.key_type):
            raise ConfigError(f"column '{path}': JSON has strings as keys of a map, not {named(kind.key_type)}; cast them")
        _check(path, kind.item_type, named)
    elif not any(is_of(kind) for is_of in _PLAIN):
        raise ConfigError(f"column '{path}' is {named(kind)}, which is not written as JSON; cast it")


def _far_time(column: str, array: pa.Array) -> SerializationError:
    """Return the error of the first row with a time that cannot be written."""
    row = bisect_left(range(len(array)), True, key=lambda row: _beyond(column, array.slice(0, row + 1)) is not None)
    fault = _beyond(column, array.slice(row, 1))
    return SerializationError(f"{fault}, but JSON has only the years 0001 to 9999; it is in row {row} of {len(array)} of an Arrow batch")


def _beyond(path: str, array: pa.Array) -> str | None:
    """Return an error text for a time outside the years 0001 to 9999, which Arrow would write as another time; else None."""
    kind = array.type
    if pa.types.is_struct(kind):
        inner = [(f"{path}.{field.name}", child) for field, child in zip(kind, array.flatten(), strict=True)]
        return next((fault for name, child in inner if (fault := _beyond(name, child)) is not None), None)
    if pa.types.is_map(kind):
        return _beyond(f"{path}.value", _entries(array)[1])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _beyond(f"{path}.element", array.flatten())
    if pa.types.is_date(kind):
        return _outside(path, array.cast(pa.int32()), FIRST_DAY, LAST_DAY, "days")
    if pa.types.is_timestamp(kind):
        return _outside(path, array.cast(pa.int64()), FIRST_MICROS, LAST_MICROS, "µs")
    return None


def _outside(path: str, numbers: pa.Array, first: int, last: int, unit: str) -> str | None:
    least, most = pc.min_max(numbers).as_py().values()
    if least is None or first <= least <= most <= last:
        return None
    return f"column '{path}' is {least if least < first else most} {unit} from 1970 on"


def json_texts(array: pa.Array) -> pa.StringArray:
    """Return the JSON text of each row. A null row stays null."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _objects(array)
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _arrays(array)
    for is_of, texts in _TEXTS:
        if is_of(kind):
            return texts(array)
    return array.cast(pa.string())


def _objects(array: pa.StructArray) -> pa.StringArray:
    # Joining with null_handling="skip" would be shorter, but drops rows whose fields are all null.
    fields = [
        pc.fill_null(_joined(f",{json.dumps(field.name, ensure_ascii=False)}:", json_texts(child)), "")
        for field, child in zip(array.type, array.flatten(), strict=True)
    ]
    return _where_valid(array, _joined("{", pc.ascii_ltrim(_joined(*fields), characters=","), "}"))


def _arrays(array: pa.ListArray) -> pa.StringArray:
    return _where_valid(array, _joined("[", _per_row(pc.list_value_length(array), _or_null(json_texts(array.flatten()))), "]"))


def _maps(array: pa.MapArray) -> pa.StringArray:
    keys, values = _entries(array)
    texts = _joined(json_texts(keys), ":", _or_null(json_texts(values)))
    lengths = pc.subtract(array.offsets[1:], array.offsets[:-1])
    return _where_valid(array, _joined("{", _per_row(lengths, texts), "}"))


def _entries(array: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the values of all rows."""
    # The attributes keys and items belong to the whole array, even if this array is a slice of it.
    begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.keys.slice(begin, end - begin), array.items.slice(begin, end - begin)


def _per_row(lengths: pa.Array, texts: pa.StringArray) -> pa.StringArray:
    """Join the texts of each row's elements with commas."""
    ends = pc.cumulative_sum(pc.fill_null(lengths, 0).cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")


def _or_null(texts: pa.StringArray) -> pa.StringArray:
    return pc.fill_null(texts, "null")


def _where_valid(array: pa.Array, texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.is_valid(array), texts, pa.scalar(None, pa.string())) if array.null_count else texts


def _joined(*parts: str | pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, "")


def _strings(array: pa.Array) -> pa.StringArray:
    array = array.cast(pa.string())
    special = pc.match_substring_regex(array, _TO_ESCAPE)
    quoted = _joined('"', array, '"')
    if not pc.any(special).as_py():
        return quoted
    escaped = [json.dumps(text, ensure_ascii=False) for text in array.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, pc.fill_null(special, False), pa.array(escaped, pa.string()))


def _base64(array: pa.Array) -> pa.StringArray:
    return pa.array([None if data is None else f'"{base64.b64encode(data).decode()}"' for data in array.to_pylist()], pa.string())


def _dates(array: pa.Array) -> pa.StringArray:
    return _joined('"', array.cast(pa.string()), '"')


def _times(array: pa.TimestampArray) -> pa.StringArray:
    """Return times with the zone UTC, or without zone if their type has none."""
    text = array.cast(pa.timestamp("us", "UTC" if array.type.tz else None)).cast(pa.string())
    return _joined('"', pc.replace_substring(text, " ", "T", max_replacements=1), '"')


def _floats(array: pa.Array) -> pa.StringArray:
    texts = array.cast(pa.string())
    is_finite = pc.is_finite(array)
    if pc.all(is_finite).as_py() is not False:
        return texts
    name = pc.if_else(pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(is_finite, texts, name)


_TEXTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.StringArray]], ...] = (
    (pa.types.is_string, _strings),
    (pa.types.is_large_string, _strings),
    (pa.types.is_binary, _base64),
    (pa.types.is_large_binary, _base64),
    (pa.types.is_date, _dates),
    (pa.types.is_timestamp, _times),
    (pa.types.is_floating, _floats),
)
"""How to write types whose JSON differs from Arrow's own text."""

_PLAIN = (
    *(is_of for is_of, _ in _TEXTS),
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_integer,
    pa.types.is_null,
)
