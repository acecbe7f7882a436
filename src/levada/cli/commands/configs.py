"""levada configs: settings of topics, brokers, groups, loggers and client metrics subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple, TypeAlias

import typer

from levada import AlterConfigOp, ConfigEntry, ConfigResource, ConfigResourceType, ConfigSource, ConfigType
from levada.base.text import did_you_mean
from levada.cli.command import command, command_group
from levada.cli.exits import Exit
from levada.cli.invocation import Invocation
from levada.cli.outcomes import rows_of, show_outcomes

app = command_group("Settings of topics, brokers, groups, loggers and client metrics.")

Changes: TypeAlias = dict[ConfigResource | tuple[str, str], Mapping[str, str | float | bool | AlterConfigOp | None]]

KINDS = {
    "topic": ConfigResourceType.TOPIC,
    "broker": ConfigResourceType.BROKER,
    "broker-logger": ConfigResourceType.BROKER_LOGGER,
    "group": ConfigResourceType.GROUP,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
}
Kind = Annotated[str, typer.Argument(metavar="KIND", help="topic, broker, broker-logger, group or client-metrics.", show_default=False)]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the resource; '' with broker for the settings of all brokers.", show_default=False)
]


class SettingRow(NamedTuple):
    """A setting. value: None if not set or secret. synonyms: all values that are set for it and its default, the one that applies first.

    documentation: Kafka's text. synonyms and documentation are empty unless they were asked for.
    """

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    synonyms: tuple[str, ...]
    documentation: str


COLUMNS = ("name", "value", "source", "read_only")
"""The columns of a table that are always shown."""


@command(app, "list")
def list_(
    invocation: Invocation,
    kinds: Annotated[
        list[str] | None, typer.Argument(metavar="[KIND...]", help="Only resources of these kinds.", show_default=False)
    ] = None,
) -> None:
    """List the resources that can have settings (Kafka 4.1)."""
    with invocation.admin() as admin:
        invocation.show(admin.list_config_resources([kind_of(kind) for kind in kinds or ()]), ConfigResource._fields)


@command(app)
def describe(
    invocation: Invocation,
    kind: Kind,
    name: Name,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include settings that still have Kafka's default.")] = False,
    synonyms: Annotated[
        bool, typer.Option("--synonyms", help="Include every value of each setting. The one that applies is the first.")
    ] = False,
    documentation: Annotated[bool, typer.Option("--documentation", help="Include Kafka's description of each setting.")] = False,
) -> None:
    """Show the settings of one topic, broker or other resource. Without --all, settings with Kafka's default are left out."""
    resource = ConfigResource(kind_of(kind), name)
    with invocation.admin() as admin:
        found = admin.describe_configs([resource], include_synonyms=synonyms, include_documentation=documentation)[resource]
    rows = [_row(key, entry) for key, entry in sorted(found.items()) if everything or entry.source is not ConfigSource.DEFAULT_CONFIG]
    more = [column for column, wanted in (("synonyms", synonyms), ("documentation", documentation)) if wanted]
    invocation.show(rows, [*COLUMNS, *more])
    if not rows:
        invocation.say("no setting differs from Kafka's default; --all shows all settings")


@command(app, "set")
def set_(
    invocation: Invocation,
    kind: Kind,
    name: Name,
    settings: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="NAME+=VALUE adds to a list, NAME-=VALUE removes from it.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check whether they can be set.")] = False,
) -> Exit:
    """Change settings. Other settings stay unchanged."""
    changes = {key: value for text in settings for key, value in [change_of(text)]}
    with invocation.admin() as admin:
        outcomes = admin.outcomes(admin.incremental_alter_configs, {ConfigResource(kind_of(kind), name): changes}, validate_only=dry_run)
    return show_outcomes(invocation, rows_of(outcomes, f"{', '.join(changes)} {'can be changed' if dry_run else 'changed'}"))


@command(app)
def unset(
    invocation: Invocation,
    kind: Kind,
    name: Name,
    settings: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of settings.", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check whether they can be removed.")] = False,
) -> Exit:
    """Remove settings, so that the defaults apply again."""
    with invocation.admin() as admin:
        changes: Changes = {ConfigResource(kind_of(kind), name): dict.fromkeys(settings)}
        outcomes = admin.outcomes(admin.incremental_alter_configs, changes, validate_only=dry_run)
    return show_outcomes(invocation, rows_of(outcomes, f"{', '.join(settings)} {'can be removed' if dry_run else 'removed'}"))


def kind_of(text: str) -> ConfigResourceType:
    """Return the kind of resource with this name. Raises typer.BadParameter."""
    if text.lower() not in KINDS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(KINDS)}{did_you_mean(text, KINDS)}")
    return KINDS[text.lower()]


def change_of(text: str) -> tuple[str, str | AlterConfigOp]:
    """Parse NAME=VALUE, NAME+=VALUE or NAME-=VALUE. Raises typer.BadParameter."""
    name, equals, value = text.partition("=")
    if not equals or not name.rstrip("+-"):
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
    if name.endswith("+"):
        return name[:-1], AlterConfigOp("Append", value)
    return (name[:-1], AlterConfigOp("Subtract", value)) if name.endswith("-") else (name, value)


def _row(name: str, entry: ConfigEntry) -> SettingRow:
    synonyms = tuple(f"{one.name}={one.value} ({one.source})" for one in entry.synonyms or ())
    return SettingRow(
        name, entry.value, entry.source, entry.type, entry.is_read_only, entry.is_sensitive, synonyms, entry.documentation or ""
    )
