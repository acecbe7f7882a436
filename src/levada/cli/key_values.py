"""NAME=VALUE on a command line."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def key_values(texts: Iterable[str], where: str) -> dict[str, str]:
    """Read NAME=VALUE. where: the option or argument, for the typer.BadParameter that other text raises."""
    pairs = [(text, *text.partition("=")) for text in texts]
    for text, name, equals, _ in pairs:
        if not equals or not name:
            raise typer.BadParameter(f"{where}: {text!r} is no NAME=VALUE")
    return {name: value for _, name, _, value in pairs}
