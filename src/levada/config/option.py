"""One configuration key: its type, default, bounds and meaning, declared once.

Values arrive as Python objects or as text (Java properties, Spark options). Kinds read both, except those whose values are Python objects,
such as functions. Each kind has a function that turns a raw value into a typed value, or raises ValueError with the reason. Its caller adds
the key's name to the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from levada.base.clock import duration_ms
from levada.base.text import did_you_mean
from levada.config.address import read_addresses
from levada.dead_letter import DeadLetter
from levada.types import is_topic_name

Read = Callable[[Any], Any]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
LONGEST_TEXT = 2**15 - 1
"""Longest text in bytes: requests store the length of a text in 16 bits, as a signed number."""
HIDDEN = "[hidden]"
"""Shown instead of a secret value, like in Kafka's own logs."""


class Secret(str):
    """A str whose repr() hides its value. Debuggers and logged tracebacks show variables by repr()."""

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN


@dataclass(frozen=True, slots=True)
class Option:
    """A key of a Config class.

    kind: the type as docs/CONFIGURATION.md shows it, with the unit. read: turns a raw value into a typed one, or raises ValueError.
    bounds: the allowed values, in words. annotation: source of the type annotation, for a value given as keyword. aliases: names of the
    same setting in other clients, with dots. secret: if true, the value is never shown. name: Kafka's dotted spelling, derived from the
    attribute's name.
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

    @property
    def shown_default(self) -> str:
        """The default as the documentation shows it; empty if there is none."""
        if self.required:
            return "required"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple):
            return ", ".join(self.default)
        return "" if self.default in (None, "") else f"{self.default}"


def read_int(value: Any) -> int:
    """Return a whole number, given as int or as text. Any other value, a bool too, raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"expected a whole number, got {value!r}")
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"expected a whole number, got {value!r}") from None


def integer(default: int, doc: str, *, low: int = 0, high: int = INT32_MAX, unit: str = "", aliases: tuple[str, ...] = ()) -> Any:
    """Declare a whole number within [low, high].

    doc: the description of the option. unit: for the documentation. aliases: names of the same setting in other clients.
    """

    def read(value: Any) -> int:
        number = read_int(value)
        if not low <= number <= high:
            raise ValueError(f"must be between {low} and {high}, got {number}")
        return number

    bounds = f"{low} .. {_power(high)}"
    return Option(f"int ({unit})" if unit else "int", read, default, doc, bounds, "int", aliases=aliases)


def milliseconds(default: int, doc: str, *, low: int = 0, high: int = INT32_MAX, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a duration in milliseconds. The arguments are those of integer()."""
    return integer(default, doc, low=low, high=high, unit="ms", aliases=aliases)


def size_bytes(default: int, doc: str, *, low: int = 0, high: int = INT32_MAX, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a size in bytes. The arguments are those of integer()."""
    return integer(default, doc, low=low, high=high, unit="bytes", aliases=aliases)


def boolean(default: bool, doc: str, *, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a switch: a bool, or the text "true" or "false". doc, aliases: as for integer()."""

    def read(value: Any) -> bool:
        if isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else value
        if word not in ("true", "false"):
            raise ValueError(f"expected true or false, got {value!r}")
        return bool(word == "true")

    return Option("bool", read, default, doc, annotation="bool", aliases=aliases)


def text(default: str | None, doc: str, *, aliases: tuple[str, ...] = (), secret: bool = False) -> Any:
    """Declare free text of at most LONGEST_TEXT bytes in UTF-8. default: None if the option may be unset. doc, aliases: as for integer().

    secret: whether errors and logs must not quote it.
    """

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
            raise ValueError(f"must be at most {LONGEST_TEXT} bytes long, is {size}")
        return Secret(value) if secret else value

    annotation = "str" if default is not None else "str | None"
    return Option("text", read, default, doc, f"up to {LONGEST_TEXT} bytes", annotation, aliases=aliases, secret=secret)


def file_name(doc: str, *, aliases: tuple[str, ...] = ()) -> Any:
    """Declare the name of a file. A name with a zero byte is refused here, because the error of open() would not name the option.

    doc, aliases: as for integer().
    """
    option = text(None, doc, aliases=aliases)

    def read(value: Any) -> str | None:
        name: str | None = option.read(value)
        if name is not None and "\0" in name:
            raise ValueError(f"a file's name has no zero byte; got {name!r}")
        return name

    return replace(option, read=read)


def choice(
    default: str,
    choices: Sequence[str],
    doc: str,
    *,
    advice: str = "",
    aliases: tuple[str, ...] = (),
    other_words: Mapping[str, str] | None = None,
) -> Any:
    """Declare one of a few words, in upper or lower case. The choice "" means that the key is not set.

    advice: appended to the error for any other word. other_words: words of other clients, each with our word of the same meaning. doc,
    aliases: as for integer().
    """
    by_folded = {word.lower(): word for word in choices} | dict(other_words or {})
    named = ", ".join(word for word in choices if word)

    def read(value: Any) -> str:
        word = by_folded.get(str(value).strip().lower())
        if word is None:
            raise ValueError(f"must be one of {named}; got {value!r}" + (f"; {advice}" if advice else ""))
        return word

    return Option("choice", read, default, doc, named, _literal(choices), aliases=aliases)


def fraction(default: float, doc: str, *, low: float, high: float) -> Any:
    """Declare a number within [low, high] that may have a fraction. doc: as for integer()."""

    def read(value: Any) -> float:
        try:
            number = float(value) if isinstance(value, float | int | str) and not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            raise ValueError(f"must be a number between {low} and {high}, got {value!r}")
        return number

    return Option("float", read, default, doc, f"{low} .. {high}", "float")


def java_class(known: Sequence[str], doc: str, *, advice: str) -> Any:
    """Declare a choice among Java class names, with or without package. Default: "", no class. No class is loaded.

    known: the names without package. advice: appended to the error for any other name.
    """

    def read(value: Any) -> str:
        name = value.strip().rpartition(".")[2] if isinstance(value, str) else ""
        if name not in known:
            raise ValueError(f"no class is loaded; known by name are {', '.join(known)}; got {value!r}; {advice}")
        return name

    return Option("choice", read, "", doc, ", ".join(known), "str")


def pairs(doc: str) -> Any:
    """Declare names with values: a mapping, or text like name=value,name=value. Default: an empty mapping."""

    def read(value: Any) -> Mapping[str, str]:
        if isinstance(value, str):
            value = dict(item.strip().partition("=")[::2] for item in value.split(",") if item.strip())
        if not isinstance(value, Mapping) or not all(isinstance(part, str) and part for item in value.items() for part in item):
            raise ValueError("expected name=value,name=value, or a mapping of text to text")
        return dict(value)

    return Option("map", read, {}, doc, "name=value, ...", "str | Mapping[str, str]")


def token_provider(doc: str) -> Any:
    """Declare a function that returns tokens, or an object with a method token()."""

    def read(value: Any) -> Any:
        if value is not None and not callable(value) and not callable(getattr(value, "token", None)):
            # The value may be the token itself, so the error does not show it.
            raise ValueError(f"expected a function that returns a token, or an object with token(), got {type(value).__name__}")
        if isinstance(value, type):
            raise ValueError(f"expected a function that returns a token; {value.__name__} is a class: make an object of it")
        return value

    annotation = "Callable[[], str | OAuthToken | Awaitable[str | OAuthToken]] | TokenProvider | None"
    return Option("callable", read, None, doc, annotation=annotation)


def mechanism(names: Sequence[str], doc: str, *, advice: str, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a SASL mechanism: the name of a built-in one, "" for none, or an object with a name and begin().

    doc, aliases: as for integer().
    """
    named = choice("", ("", *names), doc, advice=advice)

    def read(value: Any) -> Any:
        if isinstance(value, type):
            raise ValueError(f"{value.__name__} is a class: make an object of it")
        if isinstance(getattr(value, "name", None), str) and callable(getattr(value, "begin", None)):
            return value
        return named.read(value)

    annotation = f"{named.annotation} | SaslMechanism"
    return Option("choice", read, "", doc, f"{', '.join(names)}, or an object", annotation, aliases=aliases)


def reset_policy(default: str, doc: str, *, other_words: Mapping[str, str]) -> Any:
    """Declare auto.offset.reset: a word, or "by_duration:" followed by an ISO 8601 duration (KIP-1106)."""
    named = "latest, earliest, by_duration:<duration>, none"
    by_folded = {word: word for word in ("latest", "earliest", "none")} | dict(other_words)

    def read(value: Any) -> str:
        word = str(value).strip()
        prefix, colon, duration = word.partition(":")
        if prefix.lower() == "by_duration" and colon:
            duration_ms(duration)
            return f"by_duration:{duration.upper()}"
        if word.lower() not in by_folded:
            raise ValueError(f"must be one of {named}, such as by_duration:PT6H; got {value!r}")
        return by_folded[word.lower()]

    return Option("choice", read, default, doc, named, "str")


def words(numbers: Mapping[str, int], default: int, doc: str, *, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a number that may also be given as a word, such as acks=all.

    numbers: the accepted words, each with its number; other numbers are not accepted. default: one of these numbers. doc, aliases: as for
    integer().
    """

    def read(value: Any) -> int:
        folded = str(value).strip().lower()
        if folded in numbers:
            return numbers[folded]
        try:
            number = int(folded)
        except ValueError:
            number = INT64_MAX
        if number not in numbers.values():
            raise ValueError(f"must be one of {', '.join(numbers)}; got {value!r}")
        return number

    annotation = _literal([*numbers, *dict.fromkeys(numbers.values())])
    return Option("choice", read, default, doc, ", ".join(numbers), annotation, aliases=aliases)


def function(
    doc: str, annotation: str, *, advice: str = "class names are not looked up", advice_by_name: Mapping[str, str] | None = None
) -> Any:
    """Declare a Python callable. Text is refused, so that no configuration file can name code to run.

    annotation: source of its type annotation. advice: appended to the error for values that are not callable. advice_by_name: replaces it
    for names that other clients take.
    """

    def read(value: Any) -> Any:
        if value is not None and not callable(value):
            fitting = (advice_by_name or {}).get(value, advice) if isinstance(value, str) else advice
            raise ValueError(f"expected a callable, got {value!r}; {fitting}")
        return value

    return Option("callable", read, None, doc, annotation=f"{annotation} | None")


def objects(doc: str, base: type, *, advice: str = "class names are not looked up") -> Any:
    """Declare a list of instances of a class, or one instance. Text is refused, so that no configuration file can name code to run."""

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


def on_decode_error(doc: str) -> Any:
    """Declare the reaction to a record that cannot be deserialized: a word, or a DeadLetter with the topic to write it to."""
    named = "raise, skip, null"

    def read(value: Any) -> str | DeadLetter:
        if isinstance(value, DeadLetter):
            return _checked_dead_letter(value)
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in named.split(", "):
            raise ValueError(f"must be one of {named}, or a levada.DeadLetter(producer, topic); got {value!r}")
        return word

    return Option("choice", read, "raise", doc, f"{named}, DeadLetter", 'Literal["raise", "skip", "null"] | DeadLetter')


def _checked_dead_letter(to: DeadLetter) -> DeadLetter:
    if not callable(getattr(to.producer, "send", None)):
        raise ValueError(f"DeadLetter wants a KafkaProducer first, got {to.producer!r}")
    if not isinstance(to.topic, str) or not is_topic_name(to.topic):
        raise ValueError(f"DeadLetter wants the name of a topic second, got {to.topic!r}")
    return to


def named_objects(default: Sequence[str], doc: str, names: Mapping[str, str], base: type) -> Any:
    """Declare a list of built-in objects, given by name, and of the user's own objects. names: every accepted spelling, with its name."""
    known = ", ".join(dict.fromkeys(names.values()))

    def read_one(item: Any) -> Any:
        if isinstance(item, base):
            return item
        name = names.get(item.strip()) if isinstance(item, str) else None
        if name is None:
            made = "; make an object of the class" if isinstance(item, type) else ""
            meant = made or (did_you_mean(item, names.values()) if isinstance(item, str) else "")
            raise ValueError(f"expected {known}, or an object of a class derived from levada.{base.__name__}; got {item!r}{meant}")
        return name

    def read(value: Any) -> tuple[Any, ...]:
        items = value.split(",") if isinstance(value, str) else (value,) if isinstance(value, base) else value
        if isinstance(items, type) or not isinstance(items, Iterable):
            return (read_one(items),)
        found = tuple(read_one(item) for item in items)
        called = [item if isinstance(item, str) else item.NAME for item in found]
        if not found:
            raise ValueError("must name at least one")
        if twice := [name for name in called if called.count(name) > 1]:
            raise ValueError(f"{twice[0]!r} is given twice")
        return found

    annotation = f"str | {base.__name__} | Sequence[str | {base.__name__}]"
    return Option("list", read, tuple(default), doc, f"{known}, or objects", annotation)


def names(default: Sequence[str], doc: str, *, known: Sequence[str] = (), advice: str = "", aliases: tuple[str, ...] = ()) -> Any:
    """Declare a list of words: text with commas, or a sequence.

    known: the only words allowed; () allows all. advice: appended to the error for any other word. doc, aliases: as for integer().
    """

    def read(value: Any) -> tuple[str, ...]:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, Iterable):
            raise ValueError(f"expected words separated by commas, or a list of them, got {value!r}")
        words = tuple(item.strip() if isinstance(item, str) else item for item in items)
        if wrong := [word for word in words if not isinstance(word, str) or not word or (known and word not in known)]:
            expected = f"some of {', '.join(known)}" if known else "words separated by commas, or a list of them"
            raise ValueError(f"expected {expected}; got {wrong[0]!r}" + (f"; {advice}" if advice else ""))
        if known and not words:
            raise ValueError(f"must name at least one: {', '.join(known)}")
        return words

    return Option("list", read, tuple(default), doc, ", ".join(known), "str | Sequence[str]", aliases=aliases)


def tls_context(doc: str) -> Any:
    """Declare an ssl.SSLContext that the user made."""

    def read(value: Any) -> Any:
        if value is not None and not hasattr(value, "wrap_bio"):
            raise ValueError(f"expected an ssl.SSLContext, got {type(value).__name__}")
        return value

    return Option("ssl.SSLContext", read, None, doc, annotation="SSLContext | None")


def addresses(doc: str, *, required: bool = True, default_port: int | None = None) -> Any:
    """Declare a list of host:port, given as text with commas or as a sequence. Its value is a tuple of (host, port) pairs.

    required: whether the option must be given; then metadata.broker.list, its name in librdkafka, is an alias. default_port: the port of an
    address that names none; None refuses such an address.
    """
    return Option(
        "list",
        lambda value: read_addresses(value, default_port),
        (),
        doc,
        "host:port, ..." if default_port is None else "host[:port], ...",
        "str | Sequence[str | tuple[str, int]]",
        required=required,
        aliases=("metadata.broker.list",) if required else (),
    )


def _literal(values: Sequence[str | int]) -> str:
    shown = ", ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in values)
    return f"Literal[{shown}]"


def _power(number: int) -> str:
    return {INT32_MAX: "2^31-1", INT64_MAX: "2^63-1"}.get(number, str(number))
