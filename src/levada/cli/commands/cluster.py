"""levada cluster: brokers, controllers, features, log directories, leaders and reassignments."""

from __future__ import annotations

from typing import Annotated, NamedTuple
from uuid import UUID

import typer

from levada import ClusterDescription, ElectionType, FeatureUpdate, RaftEndpoint, TopicPartitionReplica, UpgradeType
from levada.cli.arguments import Yes, key_values, one_partition
from levada.cli.command import command, command_group
from levada.cli.exits import Exit
from levada.cli.invocation import Invocation, confirm
from levada.cli.outcomes import rows_of, show_outcomes

app = command_group("The cluster: nodes, quorum, features, log dirs, leaders, reassignments.")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check whether it can be done.")]


DirectoryId = Annotated[
    UUID,
    typer.Option("--directory-id", help="Id of the directory of its metadata log; levada cluster quorum shows it.", show_default=False),
]


class ClusterRow(NamedTuple):
    """A cluster. controller: id of the broker that forwards administrative requests, or None."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[int, ...]


class NodeRow(NamedTuple):
    """A broker. controller: whether it forwards administrative requests. fenced: whether it is registered but not in use."""

    node: int
    address: str
    rack: str | None
    controller: bool
    fenced: bool


class QuorumRow(NamedTuple):
    """A node's replica of the metadata log. role: leader, voter or observer. lag: in offsets behind the leader's log end.

    caught_up_ms_ago: ms since the replica last had all records of the leader, None if unknown. directory_id: id of its log directory, None
    before Kafka 3.9.
    """

    node: int
    role: str
    directory_id: UUID | None
    log_end_offset: int
    lag: int
    caught_up_ms_ago: int | None


class FeatureRow(NamedTuple):
    """A feature. finalized: the cluster's level, 0 for none. supported_min, supported_max: levels that the asked broker supports."""

    feature: str
    finalized: int
    supported_min: int | None
    supported_max: int | None


class LogDirRow(NamedTuple):
    """A log directory of a broker. size_bytes: size of the logs in it. fault: why it cannot be used, or "".

    total_bytes, usable_bytes: size and free space of its volume; None before Kafka 3.3.
    """

    broker: int
    folder: str
    replicas: int
    size_bytes: int
    total_bytes: int | None
    usable_bytes: int | None
    fault: str


class ReassignmentRow(NamedTuple):
    """An ongoing reassignment of a partition. Each tuple holds broker ids."""

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
    fenced: Annotated[bool, typer.Option("--fenced", help="Include fenced brokers, which are registered but down (Kafka 4.0).")] = False,
) -> None:
    """List the brokers."""
    with invocation.admin() as admin:
        found = admin.describe_cluster(include_fenced_brokers=fenced)
    controller = _controller(found)
    rows = [NodeRow(node.id, node.address, node.rack, node.id == controller, node.id in found.fenced) for node in found.nodes]
    invocation.show(rows, NodeRow._fields)


@command(app)
def quorum(invocation: Invocation) -> None:
    """Show the quorum's leader, and the lag of each voter and observer (Kafka 3.3)."""
    with invocation.admin() as admin:
        found = admin.describe_metadata_quorum()
    leader = next((one for one in found.voters if one.node_id == found.leader_id), None)
    # The leader reports the time of its answer as the time of its own last fetch.
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
    """Show the finalized and the supported levels of features."""
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
    updates: Annotated[
        list[str],
        typer.Argument(metavar="FEATURE=LEVEL...", help="A feature and its level, such as transaction.version=2.", show_default=False),
    ],
    downgrade: Annotated[bool, typer.Option("--downgrade", help="Allow a lower level, if no data are lost by it.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Exit:
    """Change the levels of features. Most levels cannot be lowered again."""
    levels = {name: _level(text) for name, text in key_values(updates, "FEATURE=LEVEL").items()}
    if not dry_run:
        confirm(f"Change {', '.join(updates)} for the whole cluster?", yes=yes)
    kind = UpgradeType.SAFE_DOWNGRADE if downgrade else UpgradeType.UPGRADE
    with invocation.admin() as admin:
        wanted = {name: FeatureUpdate(level, kind) for name, level in levels.items()}
        outcomes = admin.outcomes(admin.update_features, wanted, validate_only=dry_run)
    return show_outcomes(invocation, rows_of(outcomes, "can be changed" if dry_run else "changed"))


@command(app, "log-dirs")
def log_dirs(
    invocation: Invocation,
    broker_ids: Annotated[
        list[int] | None, typer.Option("--broker", help="Only log directories of this broker; repeat it for more.")
    ] = None,
) -> None:
    """Show the log directories of brokers, and how full they are."""
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
        list[str] | None,
        typer.Argument(metavar="[TOPIC:PARTITION...]", help="Partitions. Default: all partitions that need it.", show_default=False),
    ] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="If no replica is in sync, elect another replica as leader. Records may be lost.")
    ] = False,
    yes: Yes = False,
) -> Exit:
    """Elect the preferred replica, which is the first one, as leader of each partition. With --unclean, elect one where there is none."""
    if unclean:
        confirm("Elect leaders that are not in sync? Records that they do not have are lost.", yes=yes)
    wanted = [one_partition(text) for text in partitions] if partitions else None
    with invocation.admin() as admin:
        outcomes = admin.outcomes(admin.elect_leaders, ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED, wanted)
    return show_outcomes(invocation, rows_of(outcomes, lambda elected: "elected" if elected else "not needed"))


@command(app)
def reassignments(invocation: Invocation) -> None:
    """List ongoing reassignments of partitions."""
    with invocation.admin() as admin:
        found = admin.list_partition_reassignments()
    invocation.show([ReassignmentRow(tp.topic, tp.partition, *move) for tp, move in sorted(found.items())], ReassignmentRow._fields)


@command(app)
def reassign(
    invocation: Invocation,
    partition: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False)],
    replicas: Annotated[
        str | None, typer.Option("--to", metavar="BROKER,...", help="Brokers for the replicas, the preferred leader first.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel an ongoing reassignment; the replicas stay.")] = False,
) -> Exit:
    """Begin to reassign a partition to other brokers, or cancel a reassignment."""
    if (replicas is None) != cancel:
        raise typer.BadParameter("give one of --to and --cancel")
    tp = one_partition(partition)
    brokers = None if replicas is None else [_level(text) for text in replicas.split(",")]
    with invocation.admin() as admin:
        outcomes = admin.outcomes(admin.alter_partition_reassignments, {tp: brokers})
    return show_outcomes(
        invocation, rows_of(outcomes, "cancelled" if cancel else "the reassignment has begun; see levada cluster reassignments")
    )


@command(app, "unregister-broker")
def unregister_broker(
    invocation: Invocation, broker: Annotated[int, typer.Argument(metavar="BROKER", show_default=False)], yes: Yes = False
) -> Exit:
    """Remove a broker that is down for good from the cluster."""
    confirm(f"Unregister broker {broker} from the cluster?", yes=yes)
    with invocation.admin() as admin:
        admin.unregister_broker(broker)
    return show_outcomes(invocation, rows_of({broker: None}, "unregistered"))


@command(app, "move-log")
def move_log(
    invocation: Invocation,
    partition: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False)],
    broker: Annotated[int, typer.Option("--broker", help="The broker that has the replica.", show_default=False)],
    folder: Annotated[
        str, typer.Option("--to", metavar="FOLDER", help="The log directory: an absolute path on that broker.", show_default=False)
    ],
) -> Exit:
    """Move a broker's replica of a partition to another log directory of that broker."""
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
    endpoints: Annotated[
        list[str], typer.Option("--endpoint", metavar="LISTENER=HOST:PORT", help="Its listener; repeat it for more.", show_default=False)
    ],
) -> Exit:
    """Add an observer to the quorum's voters (Kafka 3.9)."""
    listeners = [_endpoint(name, address) for name, address in key_values(endpoints, "--endpoint").items()]
    with invocation.admin() as admin:
        admin.add_raft_voter(controller, directory, listeners)
    return show_outcomes(invocation, rows_of({controller: None}, "is a voter"))


@command(app, "remove-controller")
def remove_controller(
    invocation: Invocation,
    controller: Annotated[int, typer.Argument(metavar="ID", show_default=False)],
    directory: DirectoryId,
    yes: Yes = False,
) -> Exit:
    """Remove a controller from the quorum's voters (Kafka 3.9). It stays an observer."""
    confirm(f"Remove controller {controller} from the voters?", yes=yes)
    with invocation.admin() as admin:
        admin.remove_raft_voter(controller, directory)
    return show_outcomes(invocation, rows_of({controller: None}, "is no voter any more"))


@command(app, "unregister-controller")
def unregister_controller(
    invocation: Invocation, controller: Annotated[int, typer.Argument(metavar="ID", show_default=False)], yes: Yes = False
) -> Exit:
    """Remove a controller that is down for good from the cluster (Kafka 4.4)."""
    confirm(f"Unregister controller {controller} from the cluster?", yes=yes)
    with invocation.admin() as admin:
        admin.unregister_controller(controller)
    return show_outcomes(invocation, rows_of({controller: None}, "unregistered"))


def _endpoint(name: str, address: str) -> RaftEndpoint:
    host, _, port = address.rpartition(":")
    return RaftEndpoint(name, host, _level(port))


def _controller(found: ClusterDescription) -> int | None:
    return None if found.controller is None else found.controller.id


def _level(text: str) -> int:
    if not text.strip().isdecimal():
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(text)
