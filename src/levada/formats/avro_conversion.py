"""Converts fastavro's values to values that Arrow accepts, for one writer's schema and one reader's schema.

fastavro does not tell which branch of the reader's union it took if the writer has no union. It returns defaults as they are in the
schema's JSON. Both can be derived from the two schemas, so both are traversed together, once, by fastavro's own rules: by name, by alias,
the first match. Functions that convert are composed; None stands for no conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, NamedTuple

from levada.errors import ConfigError
from levada.formats.avro_schema import ParsedSchema, python_key
from levada.formats.reading import MalformedError
from levada.registry.avro_codec import NAMED, RECORDS, kind_of
from levada.registry.avro_defaults import alternatives, decimal_of, default_of, logical_of

Convert = Callable[[Any], Any]
_EXACT = Context(prec=1000)
"""Decimals of type fixed may have more digits than Arrow's decimals."""


def conversion(reader: ParsedSchema, writer: ParsedSchema | None, names_branches: bool) -> Convert | None:
    """Return a function that converts values. None if they need no conversion.

    writer: None if values are not resolved. names_branches: whether fastavro returns the type names of values in unions. Raises ConfigError
    if a needed default does not fit its field.
    """
    walk = _Conversions(reader.names, {} if writer is None else writer.names, names_branches)
    return walk.of(reader.schema, () if writer is None else (writer.schema,))


class _Conversions:
    """Traverses a reader's schema together with the types that the writer may have at each place. Without a writer: no types."""

    def __init__(self, names: Mapping[str, Any], writer_names: Mapping[str, Any], names_branches: bool) -> None:
        self._names = names
        self._writer_names = writer_names
        self._names_branches = names_branches

    def of(self, schema: Any, writers: Sequence[Any]) -> Convert | None:
        """Return a function that converts values of a type. None if they need no conversion."""
        schema = named(schema, self._names)
        if isinstance(schema, list):
            others = alternatives(schema)
            return self._members(others, writers) if len(others) > 1 else unless_null(self.of(others[0], writers))
        convert = self._inner(schema, [one for one in self._flat(writers) if resolves(one, schema)])
        return without_name(convert) if self._names_branches and kind_of(schema) in NAMED else convert

    def _inner(self, schema: Any, writers: Sequence[Any]) -> Convert | None:
        kind = kind_of(schema)
        if kind in RECORDS:
            return self._record(schema, writers)
        if kind == "array":
            return each(self.of(schema["items"], [one["items"] for one in writers]))
        if kind == "map":
            return pairs(self.of(schema["values"], [one["values"] for one in writers]))
        if kind in ("bytes", "fixed"):
            return _bytes(schema, writers)
        return None

    def _record(self, schema: Any, writers: Sequence[Any]) -> Convert | None:
        written = [_types_of(one, schema) for one in writers]
        converts: dict[str, Convert] = {}
        for inner in schema["fields"]:
            types = [found[inner["name"]] for found in written if inner["name"] in found]
            convert = self.of(inner["type"], types)
            if "default" in inner and len(types) < len(written):
                convert = instead_of_default(inner["default"], self._default(schema["name"], inner), convert)
            if convert is not None:
                converts[inner["name"]] = convert
        return fields(converts)

    def _default(self, record: str, inner: Mapping[str, Any]) -> Any:
        try:
            value = default_of(inner["type"], inner["default"], self._names)
        except ValueError as fault:
            raise ConfigError(f"the reader's schema has a wrong default for the field '{inner['name']}' of '{record}': {fault}") from fault
        convert = self.of(inner["type"], ())
        return value if convert is None else convert(value)

    def _members(self, branches: Sequence[Any], writers: Sequence[Any]) -> Convert:
        """Return a function that makes the struct of a union. The branch of a value follows from its type name, or from its Python class.

        A record, an enum or a fixed comes without its name if the writer has no union. Then the branch follows from the schemas.
        """
        schemas = [named(branch, self._names) for branch in branches]
        flat = [(one, _first(schemas, one)) for one in self._flat(writers)]
        made = [Branch(f"member{at}", self.of(schema, [one for one, first in flat if first == at])) for at, schema in enumerate(schemas)]
        told_by = {python_key(schema): branch for schema, branch in zip(schemas, made, strict=True)}
        for one, other in (("bytes", "Decimal"), ("Decimal", "bytes")):
            if one in told_by:
                told_by.setdefault(other, told_by[one])
        plain = [named(one, self._writer_names) for one in writers]
        without_names = {_first(schemas, one) if not isinstance(one, list) and kind_of(one) in NAMED else None for one in plain}
        if without_names <= {None}:
            return member(told_by)
        (at,) = without_names if len(without_names) == 1 else (None,)
        return member_at(told_by, None if at is None else made[at])

    def _flat(self, writers: Sequence[Any]) -> list[Any]:
        """Return the types that a writer may have written. Unions are replaced by their branches, and names by their types."""
        found = []
        for one in writers:
            schema = named(one, self._writer_names)
            found += [named(branch, self._writer_names) for branch in schema] if isinstance(schema, list) else [schema]
        return found


def named(schema: Any, names: Mapping[str, Any]) -> Any:
    """Return the type that a schema names; a schema that is no name unchanged."""
    return names.get(schema, schema) if isinstance(schema, str) else schema


def _first(schemas: Sequence[Any], writer: Any) -> int | None:
    return next((at for at, schema in enumerate(schemas) if resolves(writer, schema)), None)


def resolves(writer: Any, reader: Any) -> bool:
    """Whether fastavro resolves the writer's type to the reader's type. False for promoted numbers, which need no conversion."""
    kind, of_writer = kind_of(reader), kind_of(writer)
    if kind not in NAMED or of_writer not in NAMED:
        return kind == of_writer or {kind, of_writer} == {"bytes", "string"}
    if kind == of_writer == "fixed" and reader["size"] != writer["size"]:
        return False
    name, aliases = _unqualified(writer), reader.get("aliases", ())
    return name == _unqualified(reader) or writer["name"] in aliases or name in aliases


def _unqualified(schema: Any) -> str:
    return str(schema["name"]).rpartition(".")[2]


def _types_of(writer: Any, reader: Any) -> dict[str, Any]:
    """Return the writer's types for the fields of the reader, by the reader's field names."""
    of_writer = fields_of(writer, reader)
    return {of_writer[inner["name"]]: inner["type"] for inner in writer.get("fields", ()) if inner["name"] in of_writer}


def fields_of(writer: Any, reader: Any) -> dict[str, str]:
    """Return the reader's names of the writer's fields, by the writer's names. Fields that the reader lacks are left out."""
    own = {inner["name"]: inner["name"] for inner in reader["fields"]}
    called = {alias: inner["name"] for inner in reader["fields"] for alias in inner.get("aliases", ())} | own
    return {inner["name"]: called[inner["name"]] for inner in writer.get("fields", ()) if inner["name"] in called}


def _bytes(schema: Any, writers: Sequence[Any]) -> Convert | None:
    """Return a function that converts bytes to a decimal if only the reader's schema has a decimal, or a decimal to bytes if it has none.

    If the writer has text, there is no conversion: fastavro returns bytes, which Arrow refuses for a decimal column. Return None if nothing
    has to be converted.
    """
    has_decimal = logical_of(schema) == "decimal"
    if all((logical_of(one) == "decimal") == has_decimal for one in writers) or (has_decimal and "string" in map(kind_of, writers)):
        return None
    if has_decimal:
        return of_class(bytes, lambda data: decimal_of(data, schema))
    return bytes_of_decimal(schema.get("size") if isinstance(schema, dict) else None)


class Branch(NamedTuple):
    """A branch of a union. field: the struct's field for the branch. convert: converts its values; None if not needed."""

    field: str
    convert: Convert | None


def each(convert: Convert | None) -> Convert | None:
    """Return a function that converts the elements of an array, or None if `convert` is None."""
    return None if convert is None else lambda values: [convert(value) for value in values]


def pairs(convert: Convert | None) -> Convert:
    """Return a function that converts a map to pairs, because pyarrow before 20 accepts no mapping. convert: None keeps the values."""
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
    """Return a function that converts values of one class, and returns other values unchanged."""
    return lambda value: convert(value) if isinstance(value, kind) else value


def bytes_of_decimal(size: int | None) -> Convert:
    """Return a function that converts decimals back to their bytes. size: the number of bytes; None for as few as possible."""

    def convert(value: Decimal) -> bytes:
        unscaled = int(value.scaleb(-int(value.as_tuple().exponent), _EXACT))
        return unscaled.to_bytes(unscaled.bit_length() // 8 + 1 if size is None else size, signed=True)

    return of_class(Decimal, convert)


def without_name(convert: Convert | None) -> Convert:
    """Return a function that removes the type name of a value, and converts the rest. convert: None leaves the rest as it is.

    fastavro returns the type name with a value of a named type if the writer's schema has a union.
    """

    def bare(value: Any) -> Any:
        value = value[1] if type(value) is tuple else value
        return value if convert is None else convert(value)

    return bare


def member(branches: Mapping[str, Branch]) -> Convert:
    """Return a function that converts a value of a union to a struct with one field, and raises MalformedError if no branch fits.

    branches: by name of the type, or by Python class.
    """
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
