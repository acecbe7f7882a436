"""One configuration key: its type, default, bounds and meaning, declared once.

Values arrive as Python objects or as text (Java properties, Spark options), so every kind reads both. A kind is a function from a raw
value to a typed one that raises ValueError with the reason; who calls it adds the key's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Read = Callable[[Any], Any]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
LONGEST_TEXT = 2**15 - 1
"""The length of text in a request has 16 bits."""
HIDDEN = "[hidden]"
"""Stands for a secret wherever a setting is shown, as in Kafka's own logs."""


@dataclass(frozen=True, slots=True)
class Option:
    """A key of a Config class.

    annotation: what a type checker may expect of a value given as keyword, as source. aliases: names of the same setting in other clients,
    with dots. secret: its value is shown nowhere. name: Kafka's dotted spelling, filled in from the attribute's name.
    """

    kind: str
    read: Read
    default: Any
    doc: str
    bounds: str = ""
    annotation: str = "Any"
    required: bool = False
    aliases: tuple[str, ...] = ()
    secret: bool = False
    name: str = ""


def read_int(value: Any) -> int:
    """Read a whole number; booleans and fractions are refused."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"expected a whole number, got {value!r}")
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"expected a whole number, got {value!r}") from None


def integer(default: int, doc: str, *, low: int = 0, high: int = INT32_MAX, unit: str = "", aliases: tuple[str, ...] = ()) -> Any:
    """Declare a whole number within [low, high]."""

    def read(value: Any) -> int:
        number = read_int(value)
        if not low <= number <= high:
            raise ValueError(f"must be between {low} and {high}, got {number}")
        return number

    bounds = f"{low} .. {_power(high)}"
    return Option(f"int ({unit})" if unit else "int", read, default, doc, bounds, "int", aliases=aliases)


def milliseconds(default: int, doc: str, *, low: int = 0, high: int = INT32_MAX, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a duration in milliseconds."""
    return integer(default, doc, low=low, high=high, unit="ms", aliases=aliases)


def size_bytes(default: int, doc: str, *, low: int = 0, high: int = INT32_MAX, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a size in bytes."""
    return integer(default, doc, low=low, high=high, unit="bytes", aliases=aliases)


def boolean(default: bool, doc: str, *, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a switch; the words true and false are read too."""

    def read(value: Any) -> bool:
        if isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else value
        if word not in ("true", "false"):
            raise ValueError(f"expected true or false, got {value!r}")
        return bool(word == "true")

    return Option("bool", read, default, doc, annotation="bool", aliases=aliases)


def text(default: str | None, doc: str, *, aliases: tuple[str, ...] = (), secret: bool = False) -> Any:
    """Declare free text. It goes to brokers as UTF-8. A secret one is not quoted in errors either."""

    def read(value: Any) -> str | None:
        if value is None and default is None:
            return None
        shown = HIDDEN if secret else repr(value)
        if not isinstance(value, str):
            raise ValueError(f"expected text, got {type(value).__name__ if secret else shown}")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError(f"expected text that can be written as UTF-8, got {shown}") from None
        if size > LONGEST_TEXT:
            raise ValueError(f"must take at most {LONGEST_TEXT} bytes, takes {size}")
        return value

    annotation = "str" if default is not None else "str | None"
    return Option("text", read, default, doc, f"up to {LONGEST_TEXT} bytes", annotation, aliases=aliases, secret=secret)


def choice(
    default: str,
    choices: Sequence[str],
    doc: str,
    *,
    advice: str = "",
    aliases: tuple[str, ...] = (),
    other_words: Mapping[str, str] | None = None,
) -> Any:
    """Declare one of a few words, upper or lower case; "" among them is leaving the key out.

    advice: for who gives another word. other_words: words of other clients, each with the one of ours that means the same.
    """
    by_folded = {word.lower(): word for word in choices} | dict(other_words or {})
    named = ", ".join(word for word in choices if word)

    def read(value: Any) -> str:
        word = by_folded.get(str(value).strip().lower())
        if word is None:
            raise ValueError(f"must be one of {named}; got {value!r}" + (f"; {advice}" if advice else ""))
        return word

    return Option("choice", read, default, doc, named, _literal(choices), aliases=aliases)


def words(default: Mapping[str, int], chosen: int, doc: str, *, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a number that also has names, such as acks=all."""

    def read(value: Any) -> int:
        folded = str(value).strip().lower()
        if folded in default:
            return default[folded]
        try:
            number = int(folded)
        except ValueError:
            number = INT64_MAX
        if number not in default.values():
            raise ValueError(f"must be one of {', '.join(default)}; got {value!r}")
        return number

    annotation = _literal([*default, *dict.fromkeys(default.values())])
    return Option("choice", read, chosen, doc, ", ".join(default), annotation, aliases=aliases)


def function(doc: str, annotation: str, *, advice: str = "class names are not looked up") -> Any:
    """Declare a Python callable; it cannot be given as text, so no configuration file can name code to run.

    annotation: its type, as source. advice: for who gives text.
    """

    def read(value: Any) -> Any:
        if value is not None and not callable(value):
            raise ValueError(f"expected a callable, got {value!r}; {advice}")
        return value

    return Option("callable", read, None, doc, annotation=f"{annotation} | None")


def objects(doc: str, base: type, *, advice: str = "class names are not looked up") -> Any:
    """Declare a list of objects of a class; it cannot be given as text, so no configuration file can name code to run."""

    def read(value: Any) -> tuple[Any, ...]:
        items = (value,) if isinstance(value, base) else value
        if isinstance(items, str) or not isinstance(items, Iterable):
            raise ValueError(f"expected a list of {base.__name__}, got {value!r}; {advice}")
        found = tuple(items)
        if wrong := [item for item in found if not isinstance(item, base)]:
            made = "the class itself; make an object of it" if isinstance(wrong[0], type) else repr(wrong[0])
            raise ValueError(f"expected objects of classes derived from levada.{base.__name__}, got {made}")
        return found

    return Option("list", read, (), doc, "objects", f"Sequence[{base.__name__}]")


def addresses(doc: str) -> Any:
    """Declare a list of host:port, as text with commas or as a sequence; becomes a tuple of (host, port)."""
    annotation = "str | Sequence[str | tuple[str, int]]"
    return Option("list", _read_addresses, (), doc, "host:port, ...", annotation, required=True, aliases=("metadata.broker.list",))


def _read_addresses(value: Any) -> tuple[tuple[str, int], ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Sequence):
        raise ValueError(f"expected 'host:port,host:port' or a list of such, got {value!r}")
    found = tuple(_read_address(item.strip() if isinstance(item, str) else item) for item in items if item != "")
    if not found:
        raise ValueError("names no broker; give at least one host:port")
    return found


def _read_address(item: Any) -> tuple[str, int]:
    if isinstance(item, tuple) and len(item) == 2:
        host, port = item
    elif isinstance(item, str):
        host, _, port = item.rpartition(":")
        if "://" in item:
            raise ValueError(f"{item!r} is a URL; give host:port, and the protocol as security.protocol")
    else:
        raise ValueError(f"expected host:port, got {item!r}")
    if any(character.isspace() for character in str(host)):
        raise ValueError(f"{item!r} has white space in an address; separate addresses by commas")
    if not host or not str(port).isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"expected host:port with a port from 1 to 65535, got {item!r}")
    return host.strip("[]"), int(port)


def _literal(values: Sequence[str | int]) -> str:
    shown = ", ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in values)
    return f"Literal[{shown}]"


def _power(number: int) -> str:
    return {INT32_MAX: "2^31-1", INT64_MAX: "2^63-1"}.get(number, str(number))
