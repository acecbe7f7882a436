"""levada cluster: brokers, controllers, features, folders of logs, leaders and moves of partitions."""

from __future__ import annotations

from typing import Annotated, NamedTuple
from uuid import UUID

import typer

from levada import ClusterDescription, ElectionType, FeatureUpdate, RaftEndpoint, TopicPartitionReplica, UpgradeType
from levada.cli.arguments import key_values, one_partition
from levada.cli.command import command, command_group
from levada.cli.exits import Exit
from levada.cli.invocation import Invocation, confirm
from levada.cli.outcomes import rows_of, show_outcomes

app = command_group("The cluster: nodes, quorum, features, log dirs, leaders, reassignments.")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say whether it could be done.")]


DirectoryId = Annotated[
    UUID, typer.Option("--directory-id", help="Of the folder of its metadata log, as levada cluster quorum shows it.", show_default=False)
]


class ClusterRow(NamedTuple):
    """controller: the broker that passes on administrative requests, None where none is named."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[int, ...]


class NodeRow(NamedTuple):
    """controller: whether it passes on administrative requests. fenced: it is registered and not in use."""

    node: int
    address: str
    rack: str | None
    controller: bool
    fenced: bool


class QuorumRow(NamedTuple):
    """A node's copy of the metadata log. role: leader, voter or observer. lag: how far its end is behind the leader's.

    caught_up_ms_ago: since it had last all that the leader had. directory_id: of the folder that it is in, None before Kafka 3.9.
    """

    node: int
    role: str
    directory_id: UUID | None
    log_end_offset: int
    lag: int
    caught_up_ms_ago: int | None


class FeatureRow(NamedTuple):
    """A feature: the level that the cluster has finalized, 0 for none, and those that the broker that was asked supports."""

    feature: str
    finalized: int
    supported_min: int | None
    supported_max: int | None


class LogDirRow(NamedTuple):
    """A folder of a broker. size_bytes: of the logs in it. fault: why it cannot be used, "" where it can."""

    broker: int
    folder: str
    replicas: int
    size_bytes: int
    total_bytes: int | None
    usable_bytes: int | None
    fault: str


class ReassignmentRow(NamedTuple):
    """A move of a partition that is under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@command(app)
def info(invocation: Invocation) -> None:
    """Show the cluster's id, its controller and its brokers."""
    with invocation.admin() as admin:
        found = admin.describe_cluster()
    invocation.show([ClusterRow(found.cluster_id, _controller(found), tuple(node.id for node in found.nodes))], ClusterRow._fields)


@command(app)
def nodes(
    invocation: Invocation,
    fenced: Annotated[bool, typer.Option("--fenced", help="With brokers that are registered and down (Kafka 4.0).")] = False,
) -> None:
    """List the brokers."""
    with invocation.admin() as admin:
        found = admin.describe_cluster(include_fenced_brokers=fenced)
    controller = _controller(found)
    rows = [NodeRow(node.id, node.address, node.rack, node.id == controller, node.id in found.fenced) for node in found.nodes]
    invocation.show(rows, NodeRow._fields)


@command(app)
def quorum(invocation: Invocation) -> None:
    """Show the controllers, who leads them, and how far each follower is (Kafka 3.3)."""
    with invocation.admin() as admin:
        found = admin.describe_metadata_quorum()
    leader = next((one for one in found.voters if one.node_id == found.leader_id), None)
    # The leader's own time of its last fetch is its clock when it answered.
    now_ms, end = (None, found.high_watermark) if leader is None else (leader.last_fetch_ms, leader.log_end_offset)
    rows = []
    for role, replicas in (("voter", found.voters), ("observer", found.observers)):
        for one in replicas:
            ago = None if now_ms is None or one.last_caught_up_ms is None else max(0, now_ms - one.last_caught_up_ms)
            shown = "leader" if role == "voter" and one is leader else role
            rows.append(QuorumRow(one.node_id, shown, one.directory_id, one.log_end_offset, max(0, end - one.log_end_offset), ago))
    invocation.show(rows, QuorumRow._fields)


@command(app)
def features(invocation: Invocation) -> None:
    """Show the levels of features that the cluster has finalized, and those that it supports."""
    with invocation.admin() as admin:
        found = admin.describe_features()
    rows = []
    for name in sorted({*found.finalized, *found.supported}):
        supported, finalized = found.supported.get(name), found.finalized.get(name)
        rows.append(
            FeatureRow(
                name,
                finalized.max_version if finalized else 0,
                supported.min_version if supported else None,
                supported.max_version if supported else None,
            )
        )
    invocation.show(rows, FeatureRow._fields)


@command(app, "update-features")
def update_features(
    invocation: Invocation,
    updates: Annotated[list[str], typer.Argument(metavar="FEATURE=LEVEL...", help="Such as transaction.version=2.", show_default=False)],
    downgrade: Annotated[bool, typer.Option("--downgrade", help="Allow a lower level, where nothing is lost by it.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Exit:
    """Change the levels of features; most cannot be lowered again."""
    levels = {name: _level(text) for name, text in key_values(updates, "FEATURE=LEVEL").items()}
    if not dry_run:
        confirm(f"Change {', '.join(updates)} for the whole cluster?", yes=yes)
    kind = UpgradeType.SAFE_DOWNGRADE if downgrade else UpgradeType.UPGRADE
    with invocation.admin() as admin:
        wanted = {name: FeatureUpdate(level, kind) for name, level in levels.items()}
        outcomes = admin.outcomes(admin.update_features, wanted, validate_only=dry_run)
    return show_outcomes(invocation, rows_of(outcomes, "could be changed" if dry_run else "changed"))


@command(app, "log-dirs")
def log_dirs(
    invocation: Invocation,
    broker_ids: Annotated[list[int] | None, typer.Option("--broker", help="Only of this broker; repeat it for more.")] = None,
) -> None:
    """Show the folders in which brokers keep logs, and how full they are."""
    with invocation.admin() as admin:
        found = admin.describe_log_dirs(broker_ids or None)
    rows = [
        LogDirRow(
            broker,
            folder,
            len(one.replicas),
            sum(replica.size_bytes for replica in one.replicas.values()),
            one.total_bytes,
            one.usable_bytes,
            "" if one.error is None else str(one.error),
        )
        for broker, folders in sorted(found.items())
        for folder, one in sorted(folders.items())
    ]
    invocation.show(rows, LogDirRow._fields)


@command(app, "elect-leaders")
def elect_leaders(
    invocation: Invocation,
    partitions: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC:PARTITION...]", help="Default: all that need it.", show_default=False)
    ] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Let a replica lead that is not in sync, where none is: records are lost.")
    ] = False,
    yes: Yes = False,
) -> Exit:
    """Make the first replica of each partition lead again."""
    if unclean:
        confirm("Elect leaders that are not in sync? Records that only others have are lost.", yes=yes)
    wanted = [one_partition(text) for text in partitions] if partitions else None
    with invocation.admin() as admin:
        outcomes = admin.outcomes(admin.elect_leaders, ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED, wanted)
    return show_outcomes(invocation, rows_of(outcomes, lambda elected: "elected" if elected else "not needed"))


@command(app)
def reassignments(invocation: Invocation) -> None:
    """List the moves of partitions that are under way."""
    with invocation.admin() as admin:
        found = admin.list_partition_reassignments()
    invocation.show([ReassignmentRow(tp.topic, tp.partition, *move) for tp, move in sorted(found.items())], ReassignmentRow._fields)


@command(app)
def reassign(
    invocation: Invocation,
    partition: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False)],
    replicas: Annotated[
        str | None, typer.Option("--to", metavar="BROKER,...", help="Brokers to have replicas, the preferred leader first.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="End a move that is under way, and stay.")] = False,
) -> Exit:
    """Begin to move a partition to other brokers, or end a move."""
    if (replicas is None) != cancel:
        raise typer.BadParameter("give one of --to and --cancel")
    tp = one_partition(partition)
    brokers = None if replicas is None else [_level(text) for text in replicas.split(",")]
    with invocation.admin() as admin:
        outcomes = admin.outcomes(admin.alter_partition_reassignments, {tp: brokers})
    return show_outcomes(
        invocation, rows_of(outcomes, "the move is ended" if cancel else "the move has begun; see levada cluster reassignments")
    )


@command(app, "unregister-broker")
def unregister_broker(
    invocation: Invocation, broker: Annotated[int, typer.Argument(metavar="BROKER", show_default=False)], yes: Yes = False
) -> Exit:
    """Have the cluster forget a broker that is down for good."""
    confirm(f"Have the cluster forget broker {broker}?", yes=yes)
    with invocation.admin() as admin:
        admin.unregister_broker(broker)
    return show_outcomes(invocation, rows_of({broker: None}, "forgotten"))


@command(app, "move-log")
def move_log(
    invocation: Invocation,
    partition: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False)],
    broker: Annotated[int, typer.Option("--broker", help="The broker that has the replica.", show_default=False)],
    folder: Annotated[str, typer.Option("--to", metavar="FOLDER", help="An absolute path on that broker.", show_default=False)],
) -> Exit:
    """Move a broker's replica of a partition to another folder of that broker."""
    tp = one_partition(partition)
    with invocation.admin() as admin:
        wanted = {TopicPartitionReplica(tp.topic, tp.partition, broker): folder}
        outcomes = admin.outcomes(admin.alter_replica_log_dirs, wanted)
    return show_outcomes(invocation, rows_of({tp: next(iter(outcomes.values()))}, "the move has begun"))


@command(app, "add-controller")
def add_controller(
    invocation: Invocation,
    controller: Annotated[int, typer.Argument(metavar="ID", show_default=False)],
    directory: DirectoryId,
    endpoints: Annotated[list[str], typer.Option("--endpoint", metavar="LISTENER=HOST:PORT", help="Where it listens.", show_default=False)],
) -> Exit:
    """Make a controller that only follows a voter of the quorum (Kafka 3.9)."""
    listeners = [_endpoint(name, address) for name, address in key_values(endpoints, "--endpoint").items()]
    with invocation.admin() as admin:
        admin.add_raft_voter(controller, directory, listeners)
    return show_outcomes(invocation, rows_of({controller: None}, "votes"))


@command(app, "remove-controller")
def remove_controller(
    invocation: Invocation,
    controller: Annotated[int, typer.Argument(metavar="ID", show_default=False)],
    directory: DirectoryId,
    yes: Yes = False,
) -> Exit:
    """Make a voter of the quorum a controller that only follows (Kafka 3.9)."""
    confirm(f"Let controller {controller} vote no more?", yes=yes)
    with invocation.admin() as admin:
        admin.remove_raft_voter(controller, directory)
    return show_outcomes(invocation, rows_of({controller: None}, "votes no more"))


@command(app, "unregister-controller")
def unregister_controller(
    invocation: Invocation, controller: Annotated[int, typer.Argument(metavar="ID", show_default=False)], yes: Yes = False
) -> Exit:
    """Have the cluster forget a controller that is down for good (Kafka 4.4)."""
    confirm(f"Have the cluster forget controller {controller}?", yes=yes)
    with invocation.admin() as admin:
        admin.unregister_controller(controller)
    return show_outcomes(invocation, rows_of({controller: None}, "forgotten"))


def _endpoint(name: str, address: str) -> RaftEndpoint:
    host, _, port = address.rpartition(":")
    return RaftEndpoint(name, host, _level(port))


def _controller(found: ClusterDescription) -> int | None:
    return None if found.controller is None else found.controller.id


def _level(text: str) -> int:
    if not text.strip().isdecimal():
        raise typer.BadParameter(f"{text!r} is no whole number")
    return int(text)
