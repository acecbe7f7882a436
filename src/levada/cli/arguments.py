"""Values of arguments and options as they are typed: names, principals, NAME=VALUE, topics and partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import typer

from levada.base.text import did_you_mean
from levada.errors import ConfigError
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada import TopicDescription


E = TypeVar("E", bound=StrEnum)

_NOBODYS = ("Unknown", "Any")


def not_empty(texts: Iterable[str], what: str) -> list[str]:
    """Return names, none of which is empty. what: their place on the command line. Raises typer.BadParameter."""
    found = list(texts)
    if "" in found:
        raise typer.BadParameter(f"{what} is empty")
    return found


def principals(texts: Iterable[str], where: str) -> list[str]:
    """Return principals, each written as Type:name. where: the option. Raises typer.BadParameter."""
    found = list(texts)
    for text in found:
        kind, _, name = text.partition(":")
        if not kind or not name:
            raise typer.BadParameter(f"{where}: {text!r} is no principal such as User:alice")
    return found


def as_typed(text: str) -> bytes:
    """Return the bytes of a word as it was typed, also where they are no UTF-8."""
    return text.encode(errors="surrogateescape")


def word(kind: type[E], text: str) -> E:
    """Read a word however it is spelt: DescribeConfigs, describe-configs, DESCRIBE_CONFIGS. Raises typer.BadParameter."""
    plain = text.replace("_", "").replace("-", "").lower()
    known = {one.value.lower(): one for one in kind if one.value not in _NOBODYS}
    if plain not in known:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(known)}{did_you_mean(plain, known)}")
    return known[plain]


def key_values(texts: Iterable[str], where: str) -> dict[str, str]:
    """Read NAME=VALUE. where: the option or argument, for the typer.BadParameter that other text raises."""
    pairs = [(text, *text.partition("=")) for text in texts]
    for text, name, equals, _ in pairs:
        if not equals or not name:
            raise typer.BadParameter(f"{where}: {text!r} is no NAME=VALUE")
    return {name: value for _, name, _, value in pairs}


def named_partitions(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Read TOPIC, which has None for its partitions, or TOPIC:0,2. Raises typer.BadParameter."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return topic, None
    if not topic or not all(index.isdecimal() for index in indexes.split(",")):
        raise typer.BadParameter(f"{text!r} is no topic with partitions; write orders, orders:0 or orders:0,2")
    return topic, tuple(int(index) for index in indexes.split(","))


def one_partition(text: str) -> TopicPartition:
    """Read TOPIC:0. Raises typer.BadParameter."""
    topic, indexes = named_partitions(text)
    if indexes is None or len(indexes) != 1:
        raise typer.BadParameter(f"{text!r} is no partition; write orders:0")
    return TopicPartition(topic, indexes[0])


def partitions_of(described: Iterable[TopicDescription]) -> list[TopicPartition]:
    """Return all partitions of topics."""
    return [TopicPartition(info.topic, info.partition) for found in described for info in found.partitions]


def check_partitions(topic: str, wanted: Collection[int], there: Collection[int]) -> None:
    """Raise ConfigError for a wanted partition that the topic does not have."""
    if missing := sorted(set(wanted) - set(there)):
        has = f"{len(there)}, from 0 to {len(there) - 1}" if len(there) > 1 else "partition 0 only"
        raise ConfigError(f"topic '{topic}' has no partition {missing[0]}; it has {has}")
