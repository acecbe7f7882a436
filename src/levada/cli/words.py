"""Words of Kafka's on a command line, and text that stands for bytes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

import typer

from levada.base.suggestion import did_you_mean

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
