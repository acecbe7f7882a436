"""Parses arguments and options: names, principals, NAME=VALUE, topics and partitions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from levada.base.text import did_you_mean
from levada.errors import ConfigError
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada import TopicDescription


E = TypeVar("E", bound=StrEnum)

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_SOURCES = typer.Argument(
    metavar="TOPIC...", help="Topics to read; /orders-.*/ is a regular expression for whole names.", show_default=False
)
Sources = Annotated[list[str], _SOURCES]
SourcesIfAny = Annotated[list[str] | None, _SOURCES]
OnDecodeError = Annotated[str, typer.Option("--on-decode-error", help="With --schema, for records in another format: raise, skip or null.")]


def schemas(help: str) -> Any:
    """Return the option that names the kinds of keys and values."""
    return typer.Option("-s", "--schema", metavar="[key=|value=]KIND", help=help)


_NOBODYS = ("Unknown", "Any")


def not_empty(texts: Iterable[str], what: str) -> list[str]:
    """Return the texts as a list. Raises typer.BadParameter if one is empty. what: the argument's name, for the error."""
    found = list(texts)
    if "" in found:
        raise typer.BadParameter(f"{what} is empty")
    return found


def principals(texts: Iterable[str], where: str) -> list[str]:
    """Return the principals as a list. Raises typer.BadParameter unless each has the form Type:name. where: the option, for the error."""
    found = list(texts)
    for text in found:
        kind, _, name = text.partition(":")
        if not kind or not name:
            raise typer.BadParameter(f"{where}: {text!r} is not a principal such as User:alice")
    return found


def as_typed(text: str) -> bytes:
    """Return the bytes of a command-line argument as they were typed, even if they are not UTF-8."""
    return text.encode(errors="surrogateescape")


def word(kind: type[E], text: str) -> E:
    """Return the enum member with this name in any spelling: DescribeConfigs, describe-configs, DESCRIBE_CONFIGS.

    Raises typer.BadParameter for another name, also for Unknown and Any.
    """
    plain = text.replace("_", "").replace("-", "").lower()
    known = {one.value.lower(): one for one in kind if one.value not in _NOBODYS}
    if plain not in known:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(known)}{did_you_mean(plain, known)}")
    return known[plain]


def key_values(texts: Iterable[str], where: str) -> dict[str, str]:
    """Parse texts of the form NAME=VALUE. Raises typer.BadParameter for other text. where: the option or argument, for the error."""
    pairs = [(text, *text.partition("=")) for text in texts]
    for text, name, equals, _ in pairs:
        if not equals or not name:
            raise typer.BadParameter(f"{where}: {text!r} is not NAME=VALUE")
    return {name: value for _, name, _, value in pairs}


def named_partitions(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Parse TOPIC or TOPIC:0,2 into the topic and its partitions, None if no partitions are named. Raises typer.BadParameter."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return topic, None
    if not topic or not all(index.isdecimal() for index in indexes.split(",")):
        raise typer.BadParameter(f"{text!r} is not a topic with partitions; write orders, orders:0 or orders:0,2")
    return topic, tuple(int(index) for index in indexes.split(","))


def pattern_of(topic: str) -> re.Pattern[str] | None:
    """Return the regular expression of /.../, or None for the name of a topic. Raises ConfigError if it is invalid."""
    if len(topic) < 3 or not (topic.startswith("/") and topic.endswith("/")):
        return None
    try:
        return re.compile(topic[1:-1])
    except re.error as fault:
        raise ConfigError(f"'{topic}' is no regular expression: {fault}") from None


def one_partition(text: str) -> TopicPartition:
    """Parse TOPIC:0. Raises typer.BadParameter."""
    topic, indexes = named_partitions(text)
    if indexes is None or len(indexes) != 1:
        raise typer.BadParameter(f"{text!r} is not a partition; write orders:0")
    return TopicPartition(topic, indexes[0])


def partitions_of(described: Iterable[TopicDescription]) -> list[TopicPartition]:
    """Return all partitions of these topics."""
    return [TopicPartition(info.topic, info.partition) for found in described for info in found.partitions]


def check_partitions(topic: str, wanted: Collection[int], there: Collection[int]) -> None:
    """Raise ConfigError if a wanted partition does not exist. there: the partitions that the topic has."""
    if missing := sorted(set(wanted) - set(there)):
        has = f"{len(there)}, from 0 to {len(there) - 1}" if len(there) > 1 else "partition 0 only"
        raise ConfigError(f"topic '{topic}' has no partition {missing[0]}; it has {has}")
