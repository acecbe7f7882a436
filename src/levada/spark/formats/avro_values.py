"""What fastavro returns, made into what Arrow takes: maps as pairs, unions as structs. None stands for a value that is fine as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, NamedTuple

from levada.spark.formats.rows import MalformedError

Convert = Callable[[Any], Any]
_EXACT = Context(prec=1000)
"""Decimals of fixed may have more digits than Spark's."""


class Branch(NamedTuple):
    """A branch of a union: the field of the struct that it goes to."""

    field: str
    convert: Convert | None


def each(convert: Convert | None) -> Convert | None:
    """Convert the elements of an array."""
    return None if convert is None else lambda values: [convert(value) for value in values]


def pairs(convert: Convert | None) -> Convert:
    """Make pairs of the entries of a map; pyarrow before 20 takes no mapping."""
    if convert is None:
        return lambda entries: list(entries.items())
    return lambda entries: [(key, convert(value)) for key, value in entries.items()]


def fields(converts: Mapping[str, Convert]) -> Convert | None:
    """Convert some fields of a record, in place: fastavro made it for this value alone."""
    if not converts:
        return None

    def convert(record: dict[str, Any]) -> dict[str, Any]:
        for name, of_field in converts.items():
            if name in record:
                record[name] = of_field(record[name])
        return record

    return convert


def with_defaults(defaults: Mapping[str, Any], convert: Convert | None) -> Convert | None:
    """Put finished values into the fields that a record lacks, after the others are converted."""
    if not defaults:
        return convert
    return lambda record: {**defaults, **(record if convert is None else convert(record))}


def unless_null(convert: Convert | None) -> Convert | None:
    """Leave null alone."""
    return None if convert is None else lambda value: None if value is None else convert(value)


def instead_of_default(given: Any, held: Any, convert: Convert | None) -> Convert:
    """Put a finished value in the place of a default. fastavro puts the very object there that stands in the schema, into every record."""

    def convert_others(value: Any) -> Any:
        if value is given:
            return held
        return value if convert is None else convert(value)

    return convert_others


def of_class(kind: type, convert: Convert) -> Convert:
    """Convert what is of a class, and leave anything else alone."""
    return lambda value: convert(value) if isinstance(value, kind) else value


def bytes_of_decimal(size: int | None) -> Convert:
    """Make bytes of the decimals that they stood for. size: None for as few as it takes."""

    def convert(value: Decimal) -> bytes:
        unscaled = int(value.scaleb(-int(value.as_tuple().exponent), _EXACT))
        return unscaled.to_bytes(unscaled.bit_length() // 8 + 1 if size is None else size, signed=True)

    return of_class(Decimal, convert)


def without_name(convert: Convert | None) -> Convert:
    """Take off the name that a value of a named type has where its writer's schema has a union."""

    def bare(value: Any) -> Any:
        value = value[1] if type(value) is tuple else value
        return value if convert is None else convert(value)

    return bare


def member(branches: Mapping[str, Branch]) -> Convert:
    """Make a struct with the one field that a value of a union belongs to. branches: by the name of a type, or by the class of Python."""
    return _member(branches, lambda value: branches.get(type(value).__name__))


def member_at(branches: Mapping[str, Branch], of_bare: Branch | None) -> Convert:
    """Do as `member`, but with one branch for all values without a name; None where the schemas do not tell which."""
    return _member(branches, lambda value: of_bare)


def _member(branches: Mapping[str, Branch], of_bare: Callable[[Any], Branch | None]) -> Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        is_named = type(value) is tuple
        branch = branches.get(value[0]) if is_named else of_bare(value)
        if branch is None:
            raise MalformedError("of a branch that cannot be told from the others of its union")
        return {branch.field: value if branch.convert is None else branch.convert(value)}

    return convert
