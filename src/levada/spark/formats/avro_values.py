"""Functions that convert fastavro's values for Arrow: maps to pairs, unions to structs. None stands for no conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, NamedTuple

from levada.spark.formats.rows import MalformedError

Convert = Callable[[Any], Any]
_EXACT = Context(prec=1000)
"""Decimals of type fixed may have more digits than Spark's decimals."""


class Branch(NamedTuple):
    """A branch of a union. field: the struct's field for the branch. convert: converts its values; None if not needed."""

    field: str
    convert: Convert | None


def each(convert: Convert | None) -> Convert | None:
    """Return a function that converts the elements of an array, or None if `convert` is None."""
    return None if convert is None else lambda values: [convert(value) for value in values]


def pairs(convert: Convert | None) -> Convert:
    """Convert a map to pairs: pyarrow before 20 accepts no mapping."""
    if convert is None:
        return lambda entries: list(entries.items())
    return lambda entries: [(key, convert(value)) for key, value in entries.items()]


def fields(converts: Mapping[str, Convert]) -> Convert | None:
    """Return a function that converts fields of a record in place, or None if no field is converted.

    fastavro makes a new record for each value, so this is safe.
    """
    if not converts:
        return None

    def convert(record: dict[str, Any]) -> dict[str, Any]:
        for name, of_field in converts.items():
            if name in record:
                record[name] = of_field(record[name])
        return record

    return convert


def with_defaults(defaults: Mapping[str, Any], convert: Convert | None) -> Convert | None:
    """Return a function that converts a record, then adds defaults for the fields that the record lacks.

    Return `convert` itself if there are no defaults.

    defaults: converted already. convert: None leaves the record as it is.
    """
    if not defaults:
        return convert
    return lambda record: {**defaults, **(record if convert is None else convert(record))}


def unless_null(convert: Convert | None) -> Convert | None:
    """Return a function that converts values other than null, or None if `convert` is None."""
    return None if convert is None else lambda value: None if value is None else convert(value)


def instead_of_default(given: Any, held: Any, convert: Convert | None) -> Convert:
    """Return a conversion that replaces the default `given` in the schema by `held`, and converts other values by `convert`.

    convert: None leaves other values as they are. fastavro uses the object in the schema itself as default, so `is` recognizes it.
    """

    def convert_others(value: Any) -> Any:
        if value is given:
            return held
        return value if convert is None else convert(value)

    return convert_others


def of_class(kind: type, convert: Convert) -> Convert:
    """Convert values of one class, and return other values unchanged."""
    return lambda value: convert(value) if isinstance(value, kind) else value


def bytes_of_decimal(size: int | None) -> Convert:
    """Convert decimals back to their bytes. size: the number of bytes; None for the least number."""

    def convert(value: Decimal) -> bytes:
        unscaled = int(value.scaleb(-int(value.as_tuple().exponent), _EXACT))
        return unscaled.to_bytes(unscaled.bit_length() // 8 + 1 if size is None else size, signed=True)

    return of_class(Decimal, convert)


def without_name(convert: Convert | None) -> Convert:
    """Remove the type name that fastavro returns with a value of a named type if the writer's schema has a union."""

    def bare(value: Any) -> Any:
        value = value[1] if type(value) is tuple else value
        return value if convert is None else convert(value)

    return bare


def member(branches: Mapping[str, Branch]) -> Convert:
    """Convert a value of a union to a struct with one field. branches: by name of the type, or by Python class."""
    return _member(branches, lambda value: branches.get(type(value).__name__))


def member_at(branches: Mapping[str, Branch], of_bare: Branch | None) -> Convert:
    """Like `member`, but with one branch for all values without a type name. of_bare: None if the schemas do not determine it."""
    return _member(branches, lambda value: of_bare)


def _member(branches: Mapping[str, Branch], of_bare: Callable[[Any], Branch | None]) -> Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        is_named = type(value) is tuple
        branch = branches.get(value[0]) if is_named else of_bare(value)
        if branch is None:
            raise MalformedError("of a branch that cannot be distinguished from the other branches of its union")
        return {branch.field: value if branch.convert is None else branch.convert(value)}

    return convert
