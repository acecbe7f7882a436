"""The question before something that cannot be taken back."""

from __future__ import annotations

import sys
from typing import IO

import typer

from levada.cli.exits import CommandError, Exit
from levada.cli.text import in_one_line


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless the user has said --yes. Raises CommandError where the answer is no, and where there is no terminal to ask on."""
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise CommandError(f"{question} There is no terminal to ask on: add --yes", Exit.WRONG_USE)
    # Names in it may come from the cluster, such as the principals of access rules.
    if not typer.confirm(in_one_line(question), err=True):
        raise CommandError("nothing was done")


def is_terminal(stream: IO[str]) -> bool:
    """Whether somebody can answer."""
    return stream.isatty()
