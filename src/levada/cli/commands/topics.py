"""levada topics: list, create, describe, change and delete topics, and delete records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from levada import KafkaError, NewTopic, TopicDescription, TopicPartition
from levada.cli.arguments import Yes, key_values, partitions_of
from levada.cli.command import command, command_group
from levada.cli.exits import Exit
from levada.cli.invocation import Invocation, confirm
from levada.cli.lag import LogEnds
from levada.cli.outcomes import left_out, rows_of, show_outcomes
from levada.cli.positions import POSITIONS, log_ends, offsets_at, parse_positions
from levada.cli.text import counted, named
from levada.errors import ConfigError

app = command_group("Topics: list, create, describe, change and delete them.")

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names of topics.", show_default=False)]
Settings = Annotated[
    list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting of the topic; repeat it for more.")
]


class TopicRow(NamedTuple):
    """A topic. replicas: number of replicas of its first partition. without_leader: number of partitions without a leader.

    out_of_sync: number of partitions with replicas that are not in sync.
    """

    topic: str
    partitions: int
    replicas: int
    without_leader: int
    out_of_sync: int


class PartitionRow(NamedTuple):
    """A partition. leader: None if it has none. start: offset of its first record. end: offset of the next record to be appended.

    start and end are None without a leader.
    """

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start: int | None
    end: int | None


class OffsetRow(NamedTuple):
    """The offset at a position of a partition."""

    topic: str
    partition: int
    offset: int


@command(app, "list")
def list_(
    invocation: Invocation,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics, such as __consumer_offsets.")] = False,
) -> None:
    """List topics, with the number of their partitions that have no leader, or have out-of-sync replicas."""
    with invocation.admin() as admin:
        described = admin.outcomes(admin.describe_topics, admin.list_topics(internal=internal))
    # A topic with an error was deleted between the two requests.
    invocation.show([_topic_row(found) for found in described.values() if not isinstance(found, KafkaError)], TopicRow._fields)


@command(app)
def create(
    invocation: Invocation,
    topics: Names,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="Number of partitions; -1 for the broker's default.")] = -1,
    replicas: Annotated[
        int, typer.Option("--replicas", "-r", help="Number of replicas of each partition; -1 for the broker's default.")
    ] = -1,
    config: Settings = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Skip topics that already exist.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check whether they can be created.")] = False,
) -> Exit:
    """Create topics."""
    settings = key_values(config or [], "--config")
    with invocation.admin() as admin:
        existing = set(admin.list_topics(internal=True)) if if_not_exists else set()
        wanted = [NewTopic(name, partitions, replicas, dict(settings)) for name in topics if name not in existing]
        outcomes = admin.outcomes(admin.create_topics, wanted, validate_only=dry_run) if wanted else {}
    done = "can be created" if dry_run else "created"
    rows = rows_of(
        outcomes, lambda made: f"{done} with {counted(made.partitions, 'partition')}, {counted(made.replication_factor, 'replica')} each"
    )
    return show_outcomes(invocation, [*rows, *rows_of(dict.fromkeys(existing.intersection(topics)), "exists already")])


@command(app)
def describe(invocation: Invocation, topics: Names) -> None:
    """Show the partitions of topics: leaders, replicas, offsets."""
    with invocation.admin() as admin:
        described = admin.describe_topics(topics)
        ends = log_ends(admin, partitions_of(described.values()))
    invocation.show([row for found in described.values() for row in _partition_rows(found, ends)], PartitionRow._fields)


@command(app)
def delete(invocation: Invocation, topics: Names, yes: Yes = False) -> Exit:
    """Delete topics and all their records."""
    confirm(f"Delete {_listed(topics)} and all records in {'it' if len(topics) == 1 else 'them'}?", yes=yes)
    with invocation.admin() as admin:
        return show_outcomes(invocation, rows_of(admin.outcomes(admin.delete_topics, topics), "deleted"))


@command(app, "add-partitions")
def add_partitions(
    invocation: Invocation,
    topic: Name,
    total: Annotated[int, typer.Option("--total", metavar="COUNT", help="The new total number of partitions.", show_default=False)],
) -> Exit:
    """Add partitions to a topic. Keys may then map to other partitions than before."""
    with invocation.admin() as admin:
        return show_outcomes(
            invocation, rows_of(admin.outcomes(admin.create_partitions, {topic: total}), f"has {counted(total, 'partition')}")
        )


@command(app)
def offsets(
    invocation: Invocation,
    topics: Names,
    at: Annotated[str, typer.Option("--at", metavar="POSITION", help=f"{POSITIONS}.")] = "end",
) -> None:
    """Show the offset at a position of each partition, such as the first record at or after a time."""
    spans = parse_positions(at)
    with invocation.admin() as admin:
        partitions = partitions_of(admin.describe_topics(topics).values())
    found = offsets_at(invocation, spans, partitions, outside="there are no records at this position")
    invocation.show([OffsetRow(tp.topic, tp.partition, offset) for tp, offset in sorted(found.items())], OffsetRow._fields)


@command(app, "delete-records")
def delete_records(
    invocation: Invocation,
    topic: Name,
    before: Annotated[str, typer.Option("--before", metavar="POSITION", help=f"{POSITIONS}.", show_default=False)],
    yes: Yes = False,
) -> Exit:
    """Delete the records before a position in each partition with a leader. If the position is behind the end of one, delete nothing."""
    spans = parse_positions(before)
    with invocation.admin() as admin:
        partitions = partitions_of(admin.describe_topics([topic]).values())
        led = log_ends(admin, partitions)
        missing = [tp for tp in partitions if tp not in led and spans.of(tp.partition).start is not None]
        found = offsets_at(invocation, spans, led)
        # Ask for the ends again: if the topic is written to, the offset of "end" may be behind the ends that were read before.
        _check_before(found, log_ends(admin, found))
        if found:
            where = ", ".join(f"{tp} before offset {offset}" for tp, offset in sorted(found.items()))
            confirm(f"Delete the records of {where}?", yes=yes)
        outcomes = admin.outcomes(admin.delete_records, found) if found else {}
    return show_outcomes(invocation, [*rows_of(outcomes, lambda low: f"begins at offset {low}"), *rows_of(left_out(missing), "")])


def _check_before(before: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, LogEnds]) -> None:
    """Raise ConfigError for offsets behind the end of the log, which a broker refuses with OFFSET_OUT_OF_RANGE."""
    behind = [
        f"{tp} (before {offset}, the log ends at {ends[tp].end})" for tp, offset in before.items() if tp in ends and offset > ends[tp].end
    ]
    if behind:
        raise ConfigError(
            f"--before is behind the end of the log, so nothing is deleted: {named(behind)}; write end for all records, or name "
            "partitions, such as 0:42"
        )


def _topic_row(found: TopicDescription) -> TopicRow:
    infos = found.partitions
    return TopicRow(
        found.name,
        len(infos),
        len(infos[0].replicas) if infos else 0,
        sum(info.leader < 0 for info in infos),
        sum(len(info.isr) < len(info.replicas) for info in infos),
    )


def _partition_rows(found: TopicDescription, ends: dict[TopicPartition, LogEnds]) -> list[PartitionRow]:
    rows = []
    for info in found.partitions:
        start, end = ends.get(TopicPartition(info.topic, info.partition), (None, None))
        leader = info.leader if info.leader >= 0 else None
        rows.append(PartitionRow(info.topic, info.partition, leader, info.leader_epoch, info.replicas, info.isr, start, end))
    return rows


def _listed(names: Sequence[str]) -> str:
    return f"topic {names[0]}" if len(names) == 1 else f"{len(names)} topics ({', '.join(names)})"
