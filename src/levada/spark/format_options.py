"""Options about what keys and values are: value.format, key.format, and what each format has to be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from levada.errors import ConfigError
from levada.spark.ddl import parse_schema
from levada.spark.formats.csv import DEFAULT_SEPARATOR, csv_format
from levada.spark.formats.format import Format
from levada.spark.formats.json import JsonFormat
from levada.spark.formats.string import StringFormat
from levada.spark.option_text import choice
from levada.spark.values import Mode, Typed

SIDES = ("key", "value")
BINARY = "binary"
_OF_ALL = ("mode", "columnNameOfCorruptRecord")
_SCHEMA_EXAMPLE = "'id long, tags array<string>'"


class SideOptions(NamedTuple):
    """The options of the key or the value: `get("schema")` is the option value.schema."""

    own: Mapping[str, str]
    side: str

    def name(self, suffix: str) -> str:
        """Return an option's full name."""
        return f"{self.side}.{suffix}"

    def get(self, suffix: str) -> str | None:
        """Return what is given, None where nothing is."""
        return self.own.get(self.name(suffix))

    def required(self, suffix: str, example: str) -> str:
        """Return what is given. Raises ConfigError where nothing is."""
        given = self.get(suffix)
        if given is None:
            raise ConfigError(
                f"option '{self.name('format')}'={self.get('format')} needs the option '{self.name(suffix)}', such as {example}"
            )
        return given


class Reading(NamedTuple):
    """How the format of a source is made of its options. suffixes: the options it has, without their side."""

    make: Callable[[SideOptions], Format]
    suffixes: tuple[str, ...]


def _json(given: SideOptions) -> Format:
    return JsonFormat(parse_schema(given.required("schema", _SCHEMA_EXAMPLE), given.name("schema")))


def _csv(given: SideOptions) -> Format:
    schema = parse_schema(given.required("schema", "'id long, name string'"), given.name("schema"))
    separator = given.get("csv.sep") or DEFAULT_SEPARATOR
    return csv_format(schema, separator, schema_option=given.name("schema"), separator_option=given.name("csv.sep"))


def _string(given: SideOptions) -> Format:
    return StringFormat()


READ: Mapping[str, Reading] = {
    "json": Reading(_json, ("schema",)),
    "string": Reading(_string, ()),
    "csv": Reading(_csv, ("schema", "csv.sep")),
}
_RAW = "raw"
SOURCE_FORMAT_OPTIONS = (
    *_OF_ALL,
    *(
        f"{side}.{suffix}"
        for side in SIDES
        for suffix in sorted({"format", _RAW, *(name for entry in READ.values() for name in entry.suffixes)})
    ),
)


def typed(own: Mapping[str, str], taken: tuple[str, ...]) -> Typed:
    """Read how keys and values come out. taken: the columns of a source, whose names an added one cannot have. Raises ConfigError."""
    formats: dict[str, Format] = {}
    raw: dict[str, str] = {}
    for side in SIDES:
        given = SideOptions(own, side)
        name = choice(own, given.name("format"), (BINARY, *READ), BINARY)
        _refuse_unused(given, name)
        if name != BINARY:
            formats[side] = READ[name].make(given)
        if (column := given.get(_RAW)) is not None:
            raw[side] = column
    if not formats and (unused := [name for name in _OF_ALL if name in own]):
        raise ConfigError(f"option '{unused[0]}' is for the options 'value.format' and 'key.format'")
    _check_added(
        {**{f"{side}.{_RAW}": name for side, name in raw.items()}, **{name: own[name] for name in _OF_ALL[1:] if name in own}}, taken
    )
    mode = Mode(choice(own, "mode", [mode.value for mode in Mode], Mode.PERMISSIVE.value))
    return Typed(formats, mode, own.get("columnNameOfCorruptRecord"), raw)


def _refuse_unused(given: SideOptions, chosen: str) -> None:
    """An option without effect would be a misunderstanding."""
    for suffix in sorted({_RAW, *(name for entry in READ.values() for name in entry.suffixes)}):
        users = [name for name, entry in READ.items() if suffix == _RAW or suffix in entry.suffixes]
        if given.get(suffix) is not None and chosen not in users:
            raise ConfigError(
                f"option '{given.name(suffix)}' is for the option '{given.name('format')}'={' or '.join(users)}, and that is {chosen}"
            )


def _check_added(added: Mapping[str, str], taken: tuple[str, ...]) -> None:
    names = list(taken)
    for option, name in added.items():
        if not name.strip() or name in names:
            raise ConfigError(f"option '{option}': a column cannot be called {name!r}, as another one is; give a name of its own")
        names.append(name)
