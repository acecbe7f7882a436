"""levada groups: list, describe, reset and delete groups of all types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from levada import GroupListing, GroupState, GroupType, KafkaAdmin, KafkaError, TopicPartition
from levada.base.text import did_you_mean
from levada.cli.arguments import Yes, named_partitions, partitions_of, word
from levada.cli.command import command, command_group
from levada.cli.exits import CommandError, Exit
from levada.cli.group_views import GroupView, MemberView, Plan, by_offsets, group_views, to_offsets
from levada.cli.invocation import Invocation, confirm
from levada.cli.lag import total
from levada.cli.ledgers import refuse_ledgers
from levada.cli.offsets import Spans
from levada.cli.outcomes import left_out, rows_of, show_outcomes, tell_errors
from levada.cli.output import OutputFormat
from levada.cli.positions import POSITIONS, log_ends, offsets_at, parse_positions
from levada.cli.text import named
from levada.error_codes import ErrorCode
from levada.errors import GroupError

app = command_group("Consumer groups: lag, members, offsets.")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="Id of the group.", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="GROUP...", help="Ids of groups.", show_default=False)]
Ledgers = Annotated[
    bool, typer.Option("--ledgers", help="Allow it for ledgers of exactly-once Spark sinks, too; these may then write rows twice.")
]
NO_LEDGERS = "If its query will never run again, add --ledgers"
OF_TOPICS = ("--topic", "-t")
TOPICS = "TOPIC[:PARTITION,...]"


LAG_COLUMNS = ("group", "topic", "partition", "committed", "log_end", "lag", "client_id", "host", "member_id")
"""Columns of a table of lags, the most important first: on a narrow terminal the last ones are left out."""


class StateRow(NamedTuple):
    """A group in one row. lag: sum over its partitions, in offsets."""

    group: str
    type: GroupType
    state: GroupState
    assignor: str
    coordinator: int
    members: int
    lag: int


@command(app, "list")
def list_(
    invocation: Invocation,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only groups of this type: classic, consumer, share, streams.")] = None,
    states: Annotated[list[str] | None, typer.Option("--state", help="Only groups in this state, such as stable or empty.")] = None,
) -> None:
    """List groups of all types."""
    only_types, only_states = [word(GroupType, one) for one in types or ()], [word(GroupState, one) for one in states or ()]
    with invocation.admin() as admin:
        invocation.show(admin.list_groups(types=only_types, states=only_states), GroupListing._fields)


@command(app)
def describe(
    invocation: Invocation,
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP...]", help="Ids of groups. Default: all groups.", show_default=False)
    ] = None,
    members: Annotated[bool, typer.Option("--members", "-m", help="Show members and their partitions.")] = False,
    state: Annotated[bool, typer.Option("--state", "-s", help="Show one row for each group.")] = False,
) -> Exit:
    """Show the committed offsets and the lag of groups in each partition."""
    with invocation.admin() as admin:
        outcomes = _views(admin, groups or ())
    views = [view for view in outcomes.values() if not isinstance(view, KafkaError)]
    if outcomes and not views and invocation.format is OutputFormat.TABLE:
        # A table without rows would be only a heading. JSON and YAML print an empty list.
        return tell_errors(invocation, outcomes)
    if members:
        invocation.show([member for view in views for member in view.members], MemberView._fields)
    elif state:
        invocation.show([_state_row(view) for view in views], StateRow._fields)
    else:
        invocation.show([lag for view in views for lag in view.lags], LAG_COLUMNS)
    return tell_errors(invocation, outcomes)


class Target(NamedTuple):
    """The target of a reset. to: the positions, or None to shift by `by` offsets instead.

    topics: TOPIC or TOPIC:0,2; () for all partitions with a committed offset.
    """

    group: str
    topics: tuple[str, ...]
    to: Spans | None
    by: int


@command(app)
def reset(
    invocation: Invocation,
    group: Name,
    to: Annotated[str | None, typer.Option("--to", metavar="POSITION", help=f"{POSITIONS}.")] = None,
    by: Annotated[
        int | None, typer.Option("--by", metavar="OFFSETS", help="Move forward by this number of offsets; back if negative.")
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(*OF_TOPICS, metavar=TOPICS, help="Only these partitions; repeat it for more. Default: all with a committed offset."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Default: only show the new offsets.")] = False,
) -> Exit:
    """Reset the committed offsets of a group without members. Without --execute nothing is changed.

    An offset outside of a log becomes its start or end.
    """
    if (to is None) == (by is None):
        raise typer.BadParameter("give one of --to and --by")
    target = Target(group, tuple(topics or ()), None if to is None else parse_positions(to), by or 0)
    with invocation.admin() as admin:
        view = _found(admin, group)
        plans, missing = _plans(invocation, admin, view, target)
        if not execute:
            invocation.show(plans, Plan._fields)
            invocation.say(f"nothing was changed; add --execute to reset group {group}")
            return tell_errors(invocation, {**dict.fromkeys(plan.tp for plan in plans), **left_out(missing)})
        if view is not None and view.members:
            raise CommandError(f"group {group} has members, and only a group without members can be reset: stop its consumers first")
        refuse_ledgers(admin, [group], "Its offset is the number of a batch, and not a position in a log")
        offsets = {plan.tp: plan.offset for plan in plans}
        alter = admin.alter_share_group_offsets if _is_share(view) else admin.alter_consumer_group_offsets
        outcomes = admin.outcomes(alter, group, offsets) if offsets else {}
    rows = [row for tp, found in outcomes.items() for row in rows_of({tp: found}, f"goes on at offset {offsets[tp]}")]
    return show_outcomes(invocation, [*rows, *rows_of(left_out(missing), "")])


@command(app)
def delete(invocation: Invocation, groups: Names, ledgers: Ledgers = False, yes: Yes = False) -> Exit:
    """Delete groups without members, and their committed offsets.

    The ledger of an exactly-once Spark sink is also such a group. It is deleted only with --ledgers.
    """
    confirm(f"Delete {_named(groups)} with all committed offsets?", yes=yes)
    with invocation.admin() as admin:
        if not ledgers:
            refuse_ledgers(admin, groups, NO_LEDGERS)
        return show_outcomes(invocation, rows_of(admin.outcomes(admin.delete_consumer_groups, groups), "deleted"))


@command(app, "delete-offsets")
def delete_offsets(
    invocation: Invocation,
    group: Name,
    topics: Annotated[
        list[str],
        typer.Option(
            *OF_TOPICS, metavar=TOPICS, help="These partitions; repeat it for more. For share groups only whole topics.", show_default=False
        ),
    ],
    ledgers: Ledgers = False,
    yes: Yes = False,
) -> Exit:
    """Delete a group's committed offsets for topics. Its consumers then begin where auto.offset.reset says."""
    confirm(f"Delete the committed offsets of group {group} for {', '.join(topics)}?", yes=yes)
    with invocation.admin() as admin:
        if any(listing.group_id == group and listing.type is GroupType.SHARE for listing in admin.list_groups()):
            if partly := [text for text in topics if named_partitions(text)[1] is not None]:
                raise typer.BadParameter(f"offsets of share group {group} are deleted for whole topics only, not for {partly[0]}")
            return show_outcomes(invocation, rows_of(admin.outcomes(admin.delete_share_group_offsets, group, topics), "deleted"))
        if not ledgers:
            refuse_ledgers(admin, [group], NO_LEDGERS)
        partitions = _partitions(admin, topics)
        return show_outcomes(invocation, rows_of(admin.outcomes(admin.delete_consumer_group_offsets, group, partitions), "deleted"))


def _views(admin: KafkaAdmin, groups: Sequence[str]) -> dict[str, GroupView | KafkaError]:
    """Return these groups, or all groups, by id. A group that cannot be described has its error."""
    listings = {listing.group_id: listing for listing in admin.list_groups()}
    missing = {
        group: GroupError(f"group '{group}' does not exist{did_you_mean(group, listings)}", code=ErrorCode.GROUP_ID_NOT_FOUND)
        for group in groups
        if group not in listings
    }
    wanted = [listings[group] for group in groups or sorted(listings) if group in listings]
    return {**group_views(admin, wanted, lambda partitions: log_ends(admin, partitions)), **missing}


def _found(admin: KafkaAdmin, group: str) -> GroupView | None:
    """Return a group without log ends, or None if it does not exist: committing offsets creates it. Raises the error of describing it."""
    listings = [listing for listing in admin.list_groups() if listing.group_id == group]
    for view in group_views(admin, listings, lambda partitions: {}).values():
        if isinstance(view, KafkaError):
            raise view
        return view
    return None


def _is_share(view: GroupView | None) -> bool:
    return view is not None and view.type is GroupType.SHARE


def _named(groups: Sequence[str]) -> str:
    return f"group {groups[0]}" if len(groups) == 1 else f"{len(groups)} groups ({', '.join(groups)})"


def _plans(invocation: Invocation, admin: KafkaAdmin, view: GroupView | None, target: Target) -> tuple[list[Plan], list[TopicPartition]]:
    """Return the plans, and the partitions that are left out because their log's offsets are unknown.

    Raises CommandError if such a partition is one of the target's topics.
    """
    committed = {TopicPartition(lag.topic, lag.partition): lag.committed for lag in (() if view is None else view.lags)}
    partitions = _partitions(admin, target.topics) if target.topics else sorted(committed)
    if not partitions:
        raise CommandError(f"group {target.group} has no committed offsets; name topics with --topic", Exit.WRONG_USE)
    ends = log_ends(admin, partitions)
    if target.topics and (missing := [tp for tp in partitions if tp not in ends]):
        raise CommandError(f"{missing[0]} does not exist, or has no leader")
    if target.to is None:
        plans = by_offsets(target.group, target.by, partitions, committed, ends)
        wanted = {plan.tp: (plan.committed or 0) + target.by for plan in plans}
        missing = []
    else:
        missing = [tp for tp in partitions if tp not in ends and target.to.of(tp.partition).start is not None]
        wanted = offsets_at(invocation, target.to, ends)
        # Asked again, because the log may have grown since: its new end is not outside of it.
        plans = to_offsets(target.group, wanted, committed, log_ends(admin, wanted))
    if outside := [f"{plan.tp} (from {wanted[plan.tp]} to {plan.offset})" for plan in plans if wanted[plan.tp] != plan.offset]:
        invocation.say(f"the offset is outside of the log, so it becomes the log's start or end: {named(outside)}")
    return plans, missing


def _partitions(admin: KafkaAdmin, wanted: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions of texts such as TOPIC and TOPIC:0,2."""
    given = [named_partitions(text) for text in wanted]
    whole = partitions_of(admin.describe_topics([topic for topic, indexes in given if indexes is None]).values())
    return sorted({*whole, *(TopicPartition(topic, index) for topic, indexes in given for index in indexes or ())})


def _state_row(view: GroupView) -> StateRow:
    return StateRow(view.group, view.type, view.state, view.assignor, view.coordinator, len(view.members), total(view.lags))
