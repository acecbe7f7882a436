"""Turns a function into a command: passes it an Invocation, and adds the options that every command has.

These options can stand before the command's name or after it: `levada -b host:9092 consume t` is `levada consume t -b host:9092`. If an
option stands at both places, the value after the name counts; the settings of -X count from both places. A command may use one of their
letters for an option of its own: `-o` of consume means offsets, like in kcat and rpk, so the output format of consume has only the long
spelling --output.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Annotated, Any, NamedTuple, Self, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from levada.cli.invocation import Invocation
from levada.cli.other_tools import ALIASES
from levada.cli.output import OutputFormat
from levada.errors import BootstrapError

F = TypeVar("F", bound=Callable[..., Any])

PANEL = "Options of every command"


class Given(NamedTuple):
    """The options of every command, as given either before or after the command's name."""

    brokers: str | None = None
    option: tuple[str, ...] = ()
    profile: str | None = None
    output: OutputFormat | None = None
    verbose: int = 0
    no_color: bool = False
    wait: bool = False

    def over(self, outer: Self) -> Given:
        """Return these options, completed by the outer ones: those that stood before the command's name.

        The settings of -X are joined; if both have a setting, these override the outer ones. For -v the greater number counts.
        """
        return Given(
            self.brokers or outer.brokers,
            outer.option + self.option,
            self.profile or outer.profile,
            self.output or outer.output,
            max(self.verbose, outer.verbose),
            self.no_color or outer.no_color,
            self.wait or outer.wait,
        )


class Flags(NamedTuple):
    """Declaration of an option that every command has. more: further arguments of typer.Option()."""

    type: Any
    default: Any
    spellings: tuple[str, ...]
    help: str
    more: Mapping[str, Any] = {}


OPTIONS: Mapping[str, Flags] = {
    "brokers": Flags(
        str | None,
        None,
        ("-b", "--brokers"),
        "Brokers to connect to first, separated by commas; port 9092 may be left out. Environment: LEVADA_BROKERS.",
        {"metavar": "HOST[:PORT],..."},
    ),
    "option": Flags(
        list[str],
        (),
        ("-X", "--option"),
        "A setting of the clients, such as -X security.protocol=SSL; repeat it for more. Environment: LEVADA_X_SECURITY_PROTOCOL.",
        {"metavar": "KEY=VALUE"},
    ),
    "profile": Flags(
        str | None, None, ("--profile",), "A profile of the configuration file. Environment: LEVADA_PROFILE.", {"metavar": "NAME"}
    ),
    "output": Flags(OutputFormat | None, None, ("-o", "--output"), "Format of results. Environment: LEVADA_OUTPUT."),
    "verbose": Flags(int, 0, ("-v", "--verbose"), "Log the clients' work to stderr; -vv logs more.", {"count": True}),
    "no_color": Flags(bool, False, ("--no-color",), "No colours. Environment: NO_COLOR."),
    "wait": Flags(bool, False, ("--wait",), "Wait for brokers that cannot be reached yet, instead of failing once all were tried."),
}


class Group(TyperGroup):
    """A group of commands, which also accepts the names of ALIASES. Help does not list these."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with this name or alias, or None."""
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, --help among them, changed by refined()."""
        return refined(super().get_params(ctx))


def command_group(help: str) -> typer.Typer:
    """Return an app for several commands, such as `levada topics list`. help: its text in its own --help and in that of a group above it.

    `levada --help` has the texts of application.COMMANDS instead.
    """
    return typer.Typer(cls=Group, help=help, no_args_is_help=True, add_completion=False)


def command(app: typer.Typer, name: str | None = None) -> Callable[[F], F]:
    """Make a function a command of an app. Its first parameter is an Invocation; the others are declared for typer.

    The function returns the exit code, or None if everything was done.
    """

    def make(context: typer.Context, given: Given) -> Invocation:
        outer = context.find_root().obj
        return Invocation(**given.over(outer if isinstance(outer, Given) else Given())._asdict())

    def register(function: F) -> F:
        app.command(name, cls=Command)(_accepting(_advised(function), make))
        return function

    return register


def _advised(function: F) -> F:
    """If the command's brokers cannot be reached, and waiting for them may help, add advice about --wait to the error."""

    @wraps(function)
    def call(run: Invocation, **values: Any) -> Any:
        try:
            return function(run, **values)
        except BootstrapError as error:
            if not run.waits and error.retriable:
                error.add_note("--wait waits for brokers that are still starting")
            raise

    return call  # type: ignore[return-value]


def options_before_commands(function: F) -> Any:
    """Make a function the callback of the application, with the options of every command.

    Its first parameter is typer's context, which passes these options on to the command.
    """

    def make(context: typer.Context, given: Given) -> typer.Context:
        context.obj = given
        return context

    return _accepting(function, make)


def _accepting(function: Callable[..., Any], make: Callable[[typer.Context, Given], Any]) -> Any:
    """Return the function with the options of every command in place of its first parameter. make() makes that parameter from them."""
    hints = get_type_hints(function, include_extras=True)
    own = [parameter.replace(annotation=hints[parameter.name]) for parameter in list(inspect.signature(function).parameters.values())[1:]]
    parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    taken = {spelling for parameter in own for spelling in _spellings(parameter.annotation)}
    parameters += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    parameters += [_parameter(name, flags, taken) for name, flags in OPTIONS.items()]

    @wraps(function)
    def call(*, context: typer.Context, **values: Any) -> Any:
        given = {name: values.pop(name) for name in OPTIONS}
        return function(make(context, Given(**{**given, "option": tuple(given["option"] or ())})), **values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameter(name: str, flags: Flags, taken: set[str]) -> inspect.Parameter:
    left = [spelling for spelling in flags.spellings if spelling not in taken]
    option = typer.Option(*left, help=flags.help, show_default=False, rich_help_panel=PANEL, **flags.more)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=flags.default, annotation=Annotated[flags.type, option])


class Command(TyperCommand):
    """A command whose help names the types of its values in plain words, instead of Python's."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, --help among them, changed by refined()."""
        return refined(super().get_params(ctx))


def refined(params: Any) -> Any:
    """Change typer's parameters and return them: help names their types in plain words, and a shell completes their values."""
    for param in params:
        param.display_type = partial(_type_name, param)
        if not param.type_descriptor.is_choice:
            param.shell_complete = partial(_completions, param)
    return params


COMPLETE_VAR = "_LEVADA_COMPLETE"
"""Environment variable that the shell sets when it asks for completions; see levada completion."""


def _completions(param: Any, ctx: Any, incomplete: str) -> list[Any]:
    from typer.core import CompletionItem  # type: ignore[attr-defined]

    # The context has the function that knows the values, so that commands do not import what only a shell asks for.
    return [CompletionItem(one) for one in ctx.find_root().obj(ctx, param, incomplete)]


def _type_name(param: Any, ctx: typer.Context) -> str:
    kind = param.type_descriptor
    if kind.is_choice:
        return "|".join(kind.choices)
    if param.param_type_name == "argument" or kind.annotation is bool or getattr(param, "count", False):
        return ""
    if kind.is_path:
        return "FILE"
    return "NUMBER" if kind.annotation in (int, float, list[int]) else "TEXT"


def _spellings(annotation: Any) -> list[str]:
    """Return the spellings of an option that a function declares with Annotated."""
    found = [spelling for info in get_args(annotation)[1:] for spelling in (getattr(info, "default", None), *(_declared(info) or ()))]
    return [spelling for spelling in found if isinstance(spelling, str)]


def _declared(info: Any) -> Any:
    return getattr(info, "param_decls", None)
