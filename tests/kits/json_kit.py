"""JSON for tests: decodes values, and generates valid and invalid documents of a schema."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from levada.record.columnar.json import JsonColumns, JsonDecoder

UTC = pa.timestamp("us", tz="UTC")
BAD = "malformed"

# Per type: texts that are fine, and texts that are not, which from_json judges as we do.
GOOD_TEXTS: dict[Any, list[str]] = {
    pa.bool_(): ["true", "false"],
    pa.int8(): ["0", "-128", "127", "-0"],
    pa.int16(): ["0", "-32768", "32767"],
    pa.int32(): ["7", "-2147483648", "2147483647"],
    pa.int64(): ["12345678901", "9223372036854775807", "-9223372036854775808", "0"],
    pa.float32(): ["1", "0.1", "-2.5e3", "NaN", '"-Infinity"', "3.4e39", "1e-46", "16777217"],
    pa.float64(): [
        "1.5",
        "0.1e-5",
        "1e400",
        "-0.0",
        "-0",
        '"NaN"',
        "+Infinity",
        "-INF",
        "123456789012345678901234567890",
        "4.9e-324",
        "0.3",
    ],
    pa.string(): [
        '"a"',
        '""',
        '"\\u00e9 \\ud83d\\ude00"',
        '"é€😀"',
        '"\\ud800"',
        '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
        "'single \"'",
        "12",
        "true",
    ],
    pa.binary(): ['"aGVsbG8="', '""', '"YQ=="', '"aGVs bG8="', '"\\/\\/8="', '"YQ==YQ=="', '"abc="'],
    pa.date32(): ['"2024-02-29"', '"2024-1-2"', '"2024-1"', '"1969"', '" 0001-01-01 "', '"9999-12-31T25:99"', '"2024-01-02 x"'],
    UTC: [
        *('"2024-01-02T03:04:05.123Z"', '"2024-01-02 03:04:05"', '"2024-01-02T3:4:5+01:30"', '"2024-01-02 03:04:05.1234567 UTC"'),
        *('"1960-01-02T03:04:05.5-0100"', '"2024-01-02T03:04"', '"2024-01-02 03"', '"2024"', '"2024-01-02T03:04:05GMT+1"', "1704164645"),
        *(
            "-1",
            '"2024-01-02T03:04:05.Z"',
            '"2024-01-02T03:04:05 +1:3"',
            '"2024-01-02 03:04:05UTC+0530"',
            '"2024-01-02T03:04:05+18:00"',
            '"2024-\\u0030\\u0031-02"',
        ),
    ],
    pa.timestamp("us"): ['"2024-01-02T03:04:05.123"', '"1582-10-10 23:59:59.999999"', '"2024-01"'],
    pa.decimal128(9, 2): ["1.23", "-1.235", "9999999.994", '"1e2"', "1e-9", '"+.5"', '"7."', "0e99", "12e1"],
    pa.decimal128(38, 10): ["1234567890123456789012345678.0123456789", "-0.00000000005", "1e27", "-1"],
}
BAD_TEXTS: dict[Any, list[str]] = {
    pa.bool_(): ['"true"', "1", "[]"],
    pa.int8(): ["256", "-129", "1.0"],
    pa.int16(): ["32768", '"1"', "1e2"],
    pa.int32(): ["2147483648", "true", "{}", "99999999999999999999"],
    pa.int64(): ["9223372036854775808", "1.0", '""', "NaN"],
    pa.float32(): ['"1"', '"nan"', "true"],
    pa.float64(): ['"Inf"', '""', "[1]"],
    pa.string(): [],
    pa.binary(): ['"ab= ="', '"-_-_"', "1", '"aGVsbG8"'],
    pa.date32(): ['"2024-02-30"', '"x"', '"2024-01-02Z"', "1", '"2024-13-01"', '"24-01-02"'],
    UTC: [
        '"2024-01-02T24:00:00"',
        '"2024-01-02T03:04Z"',
        '"2024-01-02x"',
        "1.5",
        '"2024-01-02T"',
        '"2024-01-02T03:04:05+105"',
        '"2024-01-02T03:04:05 UTC +1"',
        '"2024-01-02T03:04:05+01:"',
        '"2024-01-02T03:04:05+18:01"',
        "true",
    ],
    pa.timestamp("us"): ['"2024-01-02T03:04:05Z"', "1", '""'],
    pa.decimal128(9, 2): ["9999999.995", "10000000", '"x"', '""', "NaN", "true", "1e400"],
    pa.decimal128(38, 10): ["1e28", '"1d"', '"--1"'],
}
# A schema of every type, and of structs and arrays of them.
EVERYTHING = pa.schema(
    [
        *((f"f{at}", kind) for at, kind in enumerate(GOOD_TEXTS)),
        ("s", pa.struct([("f", pa.int8()), ("t", pa.struct([("y", pa.string())]))])),
        ("l", pa.list_(pa.string())),
        ("q", pa.list_(pa.struct([("x", pa.bool_()), ("n", pa.list_(pa.decimal128(9, 2)))]))),
        ("name with spaces, and é", pa.string()),
    ]
)
SYNTAX_FAULTS = ["xyz", "nul", "01", "-", "1.", ".5", "1e", "+1", '"\\x"', '"a', "[1,", "{", '{"a"}', '"\t"', "", "[1,]", "-NaN", "INF"]


def decode(schema: pa.Schema | dict[str, Any], values: Iterable[bytes | str | None]) -> JsonColumns:
    """Decode values with a new decoder, validate the Arrow arrays of the result, and return it."""
    kinds = schema if isinstance(schema, pa.Schema) else pa.schema(list(schema.items()))
    data = [value.encode() if isinstance(value, str) else value for value in values]
    found = JsonDecoder(kinds).decode(pa.array(data, pa.binary()))
    found.rows.validate(full=True)
    found.malformed.validate(full=True)
    assert len(found.rows) == len(found.malformed) == len(data)
    return found


def value_of(kind: pa.DataType, text: str | bytes) -> Any:
    """Return the decoded value of a field of this type. BAD if the text makes the record malformed. text: the JSON of the field."""
    found = decode({"f": kind}, [b'{"f":%s}' % (text.encode() if isinstance(text, str) else text)])
    return BAD if found.malformed[0].as_py() else found.rows[0].as_py()["f"]


class Documents:
    """Generates documents of a schema. Equal seeds give equal documents."""

    def __init__(self, schema: Sequence[pa.Field], seed: int) -> None:
        self._schema = list(schema)
        self._chance = random.Random(seed)

    def make(self, count: int, faults: float = 0.1) -> list[str]:
        """Return `count` documents.

        faults: about the share of documents with a fault. Half of the faults are text that is not JSON, half a value that does not fit its
        field's type.
        """
        return [self._object(self._schema, faults / max(len(self._schema), 1)) for _ in range(count)]

    def _object(self, fields: list[pa.Field], faults: float) -> str:
        chance = self._chance
        chosen = [field for field in fields if chance.random() < 0.85]
        if chance.random() < 0.3:
            chance.shuffle(chosen)
        parts = [self._member(field.name, self._value(field.type, faults)) for field in chosen]
        if chance.random() < 0.2:
            other = chance.choice(['"unknown"', "{}", '{"a":[1,{"b":null}],"f":1}', "[[],[[1.5e3]]]", "true", "'x'", "NaN"])
            parts.insert(chance.randint(0, len(parts)), self._member(chance.choice(["zz", "F", "", "other"]), other))
        return "{" + self._space() + f"{self._space()},{self._space()}".join(parts) + self._space() + "}"

    def _member(self, name: str, value: str) -> str:
        written = json.dumps(name)
        if self._chance.random() < 0.05 and name:
            written = f'"\\u{ord(name[0]):04x}{written[2:]}'
        return f"{written}{self._space()}:{self._space()}{value}"

    def _space(self) -> str:
        return self._chance.choice(["", "", "", " ", "\n\t"])

    def _value(self, kind: pa.DataType, faults: float) -> str:
        chance = self._chance
        luck = chance.random()
        if luck < faults / 2:
            return chance.choice(SYNTAX_FAULTS)
        if luck < faults:
            return chance.choice(BAD_TEXTS.get(kind) or ['"x"'])
        if chance.random() < 0.1:
            return "null"
        if pa.types.is_struct(kind):
            return self._object(list(kind), faults)
        if pa.types.is_list(kind):
            return "[" + ",".join(self._value(kind.value_type, faults) for _ in range(chance.randint(0, 3))) + "]"
        return chance.choice(GOOD_TEXTS[kind])
