r"""CSV: a record of comma-separated values, such as `7,"a, b",2024-01-02`.

Text has the same meaning as in Spark's from_csv: an empty token is null, a quoted empty token is an empty string, `\` escapes within
quotes, and a record with too few or too many tokens is malformed. In addition, `""` within quotes is a quote, as in RFC 4180.

Tokens are decoded by the JSON decoder, so that numbers, dates and times are read in one place. Python's module csv is not used: it cannot
distinguish an empty token from a quoted empty token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from levada.errors import ConfigError
from levada.formats.reading import DecodedRows, Decoder, Fault, Format, MalformedError, RowFault
from levada.formats.string import read_text
from levada.formats.writing import Encode, Named, WriteFormat

DEFAULT_SEPARATOR = ","
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT = re.compile(r" *([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]? *")
_NOT_FINITE: Mapping[str, str] = {"inf": '"Infinity"', "-inf": '"-Infinity"', "Inf": '"Infinity"', "-Inf": '"-Infinity"'}
_ESCAPED = re.compile(r'\\(["\\])|""')


@dataclass(frozen=True)
class CsvFormat(Format):
    """Records of separated values. schema: the fields in the order of the tokens. separator: the text between tokens."""

    schema: pa.Schema
    separator: str

    @property
    def kind(self) -> pa.DataType:
        """A struct of the fields."""
        return pa.struct(list(self.schema))

    def decoder(self, kind: pa.DataType | None = None) -> Decoder:
        """Return a decoder."""
        return CsvDecoder(self.schema, self.separator)


def csv_format(
    schema: pa.Schema, separator: str = DEFAULT_SEPARATOR, *, schema_option: str, separator_option: str, named: Named = str
) -> CsvFormat:
    """Return the format. Raises ConfigError for a type that CSV does not have, and for an invalid separator.

    schema_option, separator_option: the names of the options, for errors. named: returns the name of a type for errors.
    """
    for field in schema:
        if _json_of(field.type) is None:
            raise ConfigError(f"option '{schema_option}': CSV has no {named(field.type)} (field '{field.name}')")
    return CsvFormat(schema, checked_separator(separator, separator_option))


def checked_separator(separator: str, option: str) -> str:
    """Return the separator of tokens. Raises ConfigError, naming `option`, if it is empty or has a quote, backslash or line end."""
    # Like in Spark, a backslash and a t stand for a tab.
    separator = separator.replace(r"\t", "\t")
    if not separator or set(separator) & set('"\\\r\n'):
        raise ConfigError(f"option '{option}': {separator!r} cannot separate tokens")
    return separator


@dataclass(frozen=True)
class CsvWriter(WriteFormat):
    """Writes a struct column as records of separated values, in the order of the fields."""

    separator: str = DEFAULT_SEPARATOR

    def check(self, column: str, kind: pa.DataType, named: Named = str) -> None:
        """Raise ConfigError if a column of this type cannot be written."""
        if not pa.types.is_struct(kind) or not kind.num_fields:
            raise ConfigError(f"column '{column}' must be a struct with fields to be written as CSV, but is {named(kind)}")
        for field in kind:
            if _json_of(field.type) is None:
                raise ConfigError(f"column '{column}.{field.name}' is {named(field.type)}, which CSV does not have; cast it")

    def encoder(self, column: str) -> Encode:
        """Return a function that encodes a column."""
        to_quote = rf'["\r\n]|{re.escape(self.separator)}|^$'

        def token(array: pa.Array) -> pa.Array:
            if pa.types.is_floating(array.type):
                return pc.fill_null(pc.replace_substring(array.cast(pa.string()), "nan", "NaN"), "")
            if not pa.types.is_string(array.type):
                return pc.fill_null(array.cast(pa.string()), "")
            escaped = pc.replace_substring(pc.replace_substring(array, "\\", "\\\\"), '"', '""')
            quoted = pc.binary_join_element_wise('"', escaped, '"', "")
            return pc.fill_null(pc.if_else(pc.match_substring_regex(array, to_quote), quoted, array), "")

        def encode(array: pa.Array) -> pa.Array:
            texts = pc.binary_join_element_wise(*map(token, array.flatten()), self.separator)
            return pc.if_else(pc.is_valid(array), texts, pa.scalar(None, pa.string())).cast(pa.binary())

        return encode


class CsvDecoder:
    """Converts the tokens of each record to JSON, and decodes the JSON."""

    def __init__(self, schema: pa.Schema, separator: str) -> None:
        from levada.record.columnar import JsonDecoder

        self._names = [json.dumps(field.name) for field in schema]
        self._json_of = [_json_of(field.type) or json.dumps for field in schema]
        self._split = Splitter(separator)
        self._decoder = JsonDecoder(schema)

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode a binary column."""
        reasons: dict[int, str] = {}
        documents: list[str | None] = []
        for row, data in enumerate(values.to_pylist()):
            try:
                tokens = None if data is None else self._split(read_text(data))
            except MalformedError as fault:
                reasons[row], tokens = fault.reason, []
            documents.append(None if tokens is None else self._document(tokens))
            if tokens is not None and len(tokens) != len(self._names):
                reasons.setdefault(row, f"a record of {len(tokens)} tokens instead of {len(self._names)}")
        found = self._decoder.decode(pa.array(documents, pa.string()))
        counted = pa.array([row in reasons for row in range(len(documents))], pa.bool_())
        return DecodedRows(found.rows, pc.or_(found.malformed, counted), _first(reasons, found.fault))

    def _document(self, tokens: list[str | None]) -> str:
        found = zip(self._names, self._json_of, tokens, strict=False)
        return "{" + ",".join(f"{name}:{json_of(token)}" for name, json_of, token in found if token is not None) + "}"


def _first(reasons: dict[int, str], fault: Fault | None) -> Fault | None:
    row = min(reasons, default=None)
    if row is None or (fault is not None and fault.row < row):
        return None if fault is None else RowFault(fault.row, fault.reason.partition(" (byte")[0])
    return RowFault(row, reasons[row])


class Splitter:
    """Splits a record into tokens. None stands for an empty token without quotes."""

    def __init__(self, separator: str) -> None:
        between = re.escape(separator)
        self._separator = separator
        self._token = re.compile(rf'(?:"((?:[^"\\]|\\.|"")*)"|((?!")(?:(?!{between})[^\r\n])*))({between}|\Z)', re.DOTALL)

    def __call__(self, text: str) -> list[str | None] | None:
        """Return the tokens. None for an empty record. Raises MalformedError."""
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            return None
        if '"' not in text and "\n" not in text and "\r" not in text:
            return [token or None for token in text.split(self._separator)]
        return self._quoted(text)

    def _quoted(self, text: str) -> list[str | None]:
        tokens: list[str | None] = []
        at, more = 0, True
        while more:
            found = self._token.match(text, at)
            if found is None:
                raise MalformedError(f"not CSV (the token at character {at})")
            quoted, bare, between = found.groups()
            tokens.append((bare or None) if quoted is None else _ESCAPED.sub(lambda match: match[1] or '"', quoted))
            at, more = found.end(), bool(between)
        return tokens


def _whole(token: str) -> str:
    return str(int(token)) if _WHOLE.fullmatch(token) else json.dumps(token)


def _float(token: str) -> str:
    number = _FLOAT.fullmatch(token)
    written = repr(float(number[1])) if number else token
    return _NOT_FINITE.get(written) or (written if number else json.dumps(written))


def _boolean(token: str) -> str:
    folded = token.lower()
    return folded if folded in ("true", "false") else json.dumps(token)


def _json_of(kind: pa.DataType) -> Callable[[str], str] | None:
    """Return the function that converts a token to JSON; None for a type that CSV does not have."""
    return next((json_of for is_of, json_of in _JSON_OF if is_of(kind)), None)


_JSON_OF: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], str]], ...] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, json.dumps),
    (pa.types.is_string, json.dumps),
    (pa.types.is_date, json.dumps),
    (pa.types.is_timestamp, json.dumps),
)
