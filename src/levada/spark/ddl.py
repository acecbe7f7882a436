"""Parser of schemas in Spark's syntax: `id long, tags array<string>, at struct<x: double, y: double>`.

Spark's own parser runs in the JVM, which the Python processes of a source cannot call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from levada.errors import ConfigError
from levada.spark.options.option_text import decimal

_SIMPLE: Mapping[str, Callable[[], DataType]] = {
    "boolean": BooleanType,
    "byte": ByteType,
    "tinyint": ByteType,
    "short": ShortType,
    "smallint": ShortType,
    "int": IntegerType,
    "integer": IntegerType,
    "long": LongType,
    "bigint": LongType,
    "float": FloatType,
    "real": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
}
_DECIMALS = ("decimal", "dec", "numeric")
_DEFAULT_DECIMAL = (10, 0)
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:]))")
_DEEPEST = 50


def parse_schema(text: str, option: str) -> StructType:
    """Parse a schema of named, typed fields. Raises ConfigError with the option's name and the reason."""
    reader = _Reader(text, option)
    fields = reader.fields(end="", depth=0)
    return StructType(fields)


class _Reader:
    """Recursive-descent parser over the tokens of a schema. A token is (kind, text); kind is "name", "text" or "sign"."""

    def __init__(self, text: str, option: str) -> None:
        self._text = text
        self._option = option
        self._tokens = list(self._split())
        self._at = 0

    def _split(self) -> list[tuple[str, str]]:
        tokens, at = [], 0
        text = self._text.strip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._fault(f"{text[at:].lstrip()[0]!r} is not expected")
            quoted, comment, word, sign = found.groups()
            name = word if quoted is None else quoted.replace("``", "`")
            tokens.append(("sign", sign) if sign else ("text", comment) if comment is not None else ("name", name))
            at = found.end()
        return tokens

    def fields(self, *, end: str, depth: int) -> list[StructField]:
        """Parse one or more fields up to and including the sign `end`, or, if `end` is "", up to the end of the text."""
        fields: list[StructField] = []
        while not fields or self._take(","):
            name = self._name("the name of a field")
            self._take(":")
            fields.append(StructField(name, self._type(depth)))
            self._skip_remarks()
        if not (self._take(end) if end else self._at == len(self._tokens)):
            raise self._fault(f"{self._next()!r} is not expected")
        names = [field.name for field in fields]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise self._fault(f"field {repeated[0]!r} comes twice")
        return fields

    def _type(self, depth: int) -> DataType:
        word = self._name("a type").lower()
        if depth > _DEEPEST:
            raise self._fault(f"more than {_DEEPEST} types within one another")
        if word in _SIMPLE:
            return _SIMPLE[word]()
        if word in _DECIMALS:
            return DecimalType(*self._precision())
        if word == "array":
            self._expect("<")
            element = self._type(depth + 1)
            self._expect(">")
            return ArrayType(element)
        if word == "struct":
            self._expect("<")
            return StructType(self.fields(end=">", depth=depth + 1))
        raise self._fault(f"there is no type {word!r} here; there are {', '.join(_SIMPLE)}, decimal(p, s), array<...> and struct<...>")

    def _precision(self) -> tuple[int, int]:
        if not self._take("("):
            return _DEFAULT_DECIMAL
        precision, scale = self._number(), self._number() if self._take(",") else 0
        self._expect(")")
        if not 0 < precision <= 38 or scale > precision:
            raise self._fault(f"decimal({precision}, {scale}) is not possible")
        return precision, scale

    def _skip_remarks(self) -> None:
        """Skip NOT NULL and COMMENT after a field's type. They have no effect: every column of a source may be null."""
        if self._peek_word() == "not":
            self._at += 1
            if self._name("null").lower() != "null":
                raise self._fault("'not' is not expected")
        if self._peek_word() == "comment":
            self._at += 1
            if not self._take_text():
                raise self._fault(f"the text of COMMENT, in quotes, is expected, not {self._next()!r}")
            while self._take_text():  # Spark joins several texts
                pass

    def _number(self) -> int:
        word = self._name("a number")
        number = decimal(word)
        if number is None:
            raise self._fault(f"{word!r} is not a number")
        return number

    def _name(self, what: str) -> str:
        if self._at == len(self._tokens) or self._tokens[self._at][0] != "name":
            raise self._fault(f"{what} is expected, not {self._next()!r}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _peek_word(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        return text.lower() if kind == "name" else ""

    def _take(self, sign: str) -> bool:
        is_there = self._at < len(self._tokens) and self._tokens[self._at] == ("sign", sign)
        self._at += is_there
        return is_there

    def _take_text(self) -> bool:
        is_there = self._at < len(self._tokens) and self._tokens[self._at][0] == "text"
        self._at += is_there
        return is_there

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._fault(f"{sign!r} is expected, not {self._next()!r}")

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"

    def _fault(self, what: str) -> ConfigError:
        return ConfigError(f"option '{self._option}': {what} in {self._text!r}; write a schema such as 'id long, tags array<string>'")
