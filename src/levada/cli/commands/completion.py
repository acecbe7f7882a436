"""levada completion: prints the script with which a shell completes command lines."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from levada.cli.command import COMPLETE_VAR, command
from levada.cli.invocation import Invocation

app = typer.Typer(add_completion=False)


class Shell(StrEnum):
    """The supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


@command(app)
def completion(invocation: Invocation, shell: Annotated[Shell, typer.Argument(help="The shell.", show_default=False)]) -> None:
    """Print the script that completes commands, options, topics, groups, profiles and formats in a shell.

    Use it like this: eval "$(levada completion bash)". For topics and groups the brokers are asked, for 0.6 s at most.
    """
    typer.echo(get_completion_script(prog_name="levada", complete_var=COMPLETE_VAR, shell=shell.value))
