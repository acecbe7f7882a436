"""The application with all its commands. The module of a command is loaded when the command is called, or asked for its help."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from levada._importing import import_undisturbed
from levada.cli.command import COMPLETE_VAR, Group, options_before_commands
from levada.cli.exits import Exit, say


class Lazy(NamedTuple):
    """A command that is not loaded yet. module: its module, which has an `app`, a typer.Typer. help: its line in the list of commands."""

    module: str
    help: str


COMMANDS: Mapping[str, Lazy] = {
    "produce": Lazy("levada.cli.commands.produce", "Write records from stdin or files to a topic."),
    "consume": Lazy("levada.cli.commands.consume", "Print records of topics, and follow them."),
    "scan": Lazy("levada.cli.commands.scan", "Write a range of topics' records to a file."),
    "copy": Lazy("levada.cli.commands.copy", "Copy records to another topic or cluster."),
    "perf": Lazy("levada.cli.commands.perf", "Measure throughput and latency of a cluster."),
    "topics": Lazy("levada.cli.commands.topics", "Topics: list, create, describe, change and delete them."),
    "groups": Lazy("levada.cli.commands.groups", "Consumer groups: lag, members, offsets."),
    "configs": Lazy("levada.cli.commands.configs", "Settings of topics, brokers, groups, loggers and client metrics."),
    "acls": Lazy("levada.cli.commands.acls", "Access control lists: who may do what."),
    "users": Lazy("levada.cli.commands.users", "Users: SCRAM credentials, quotas, delegation tokens."),
    "cluster": Lazy("levada.cli.commands.cluster", "The cluster: nodes, quorum, features, log dirs, leaders, reassignments."),
    "transactions": Lazy("levada.cli.commands.transactions", "Transactions: list, describe, find hanging ones, abort."),
    "spark": Lazy("levada.cli.commands.spark", "Exactly-once Spark sinks: list, commit or abort their open transactions."),
    "log": Lazy("levada.cli.commands.log", "Print the record batches of a log."),
    "registry": Lazy("levada.cli.commands.registry", "A schema registry: subjects, versions, schemas, compatibility."),
    "top": Lazy("levada.cli.commands.top", "Watch a cluster: records per second, lag of groups, leaders."),
    "doctor": Lazy("levada.cli.commands.doctor", "Check the connection and the cluster step by step, and advise what to do."),
    "broker": Lazy("levada.cli.commands.broker", "Run a Kafka broker for tests and development."),
    "version": Lazy("levada.cli.commands.version", "Print versions, and whether levada is compiled."),
    "completion": Lazy("levada.cli.commands.completion", "Print the script that completes commands in a shell."),
}


class LazyGroup(Group):
    """The commands by name. Listing them takes only their line of help. A command is loaded when it is called or asked for its own help."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of COMMANDS."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Load the command that the first argument names. Return its name, the command and the other arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load(str(command.name)), rest

    def loaded(self, name: str) -> Any:
        """Load the command with this name and return it, or return None if there is none."""
        return load(name) if name in self.commands else None


def load(name: str) -> Any:
    """Import the module of a command and return the command."""
    command = get_command(import_undisturbed(COMMANDS[name].module).app)
    command.name = name
    return command


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
@options_before_commands
def levada(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Kafka from the command line: records, topics, groups, and their faults."""
    if version:
        from levada import __version__

        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(Exit.WRONG_USE)


def application() -> LazyGroup:
    """Return the application. Each command is only a name and a line of help until resolve_command() loads it."""
    group = get_command(app)
    assert isinstance(group, LazyGroup)
    for name, lazy in COMMANDS.items():
        group.add_command(TyperCommand(name, help=lazy.help), name)
    return group


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Mistakes on the command line are printed. Other errors of a command are raised.

    If a shell asks for completions (COMPLETE_VAR is set), print those instead.
    """
    more: dict[str, Any] = {}
    if COMPLETE_VAR in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        from levada.cli.completing import completions

        completion_init()
        more["obj"] = completions
    try:
        code = application().main(list(arguments), "levada", standalone_mode=False, **more)
    except typer.TyperException as mistake:
        if not mistake.format_message():
            # A command group was called without a command, and typer has printed the group's help.
            return Exit.WRONG_USE
        _tell(mistake, arguments)
        return Exit.WRONG_USE
    except typer.Abort:
        # Ctrl-C or Ctrl-D was typed at a prompt: end the prompt's line.
        typer.echo(err=True)
        return Exit.INTERRUPTED
    except SystemExit as ended:
        # typer ends the process itself if a pipe is closed, with another exit code than ours.
        if isinstance(ended.__context__, BrokenPipeError):
            return Exit.OUTPUT_CLOSED
        raise
    return code if isinstance(code, int) else Exit.DONE


PLAINER: Mapping[str, str] = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "expected a whole number",
    "Input should be a valid integer": "expected a whole number",
    "Input should be a valid number, unable to parse string as a number": "expected a number",
    "Input should be greater than or equal to": "expected at least",
    "Input should be less than or equal to": "expected at most",
}
"""Texts in typer's messages, and what is printed instead."""


def _tell(mistake: typer.TyperException, arguments: Sequence[str]) -> None:
    """Print a mistake on the command line. If the words are another tool's, add the command line to write, else name the --help to read."""
    from levada.cli.other_tools import answer

    text = mistake.format_message()
    for typers, ours in PLAINER.items():
        text = text.replace(typers, ours)
    if written := answer(application(), arguments):
        # typer's "Did you mean" is left out: the right command line is known.
        say(f"{text.partition(' Did you mean')[0].rstrip('.')}. Write: {written}")
        return
    say(text)
    if context := getattr(mistake, "ctx", None):
        say(f"see '{context.command_path} --help'")
