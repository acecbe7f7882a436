"""levada copy: copies records to another topic or cluster, with their partitions, timestamps and headers."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from levada.cli.command import command
from levada.cli.invocation import Invocation
from levada.cli.offsets import EVERYTHING, parse_spans
from levada.cli.outcomes import failures_told_once
from levada.cli.positions import OffsetRange, remarks, settled
from levada.cli.records.columns import check_pyarrow
from levada.cli.text import counted
from levada.errors import ConfigError, UnknownTopicOrPartitionError
from levada.types import NewTopic, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from levada import ArrowDelivery, KafkaConsumer, KafkaProducer
    from levada.cli.progress import Progress

app = typer.Typer(help="Copy records to another topic or cluster.", add_completion=False)

COLUMNS = ("key", "value", "partition", "timestamp", "headers")
POLL_S = 1.0
UNDER_WAY = 4
"""Maximum number of unacknowledged Arrow batches while the next one is read."""


class Copied(NamedTuple):
    """The result of a copy. records: their number."""

    source: str
    target: str
    records: int


@command(app)
def copy(
    run: Invocation,
    source: Annotated[str, Argument(metavar="SOURCE", show_default=False, help="The topic to read.")],
    target: Annotated[
        str | None, Argument(metavar="[TARGET]", show_default=False, help="The topic to write. Default: the same name.")
    ] = None,
    to_profile: Annotated[str | None, Option("--to-profile", metavar="NAME", help="Profile of the cluster to write to.")] = None,
    to_brokers: Annotated[
        str | None, Option("--to-brokers", metavar="HOST[:PORT],...", help="Brokers of the cluster to write to, without other settings.")
    ] = None,
    offset: Annotated[
        str | None, Option("-o", "--offset", metavar="OFFSETS", help="Range to copy. Default: all records that exist now.")
    ] = None,
    partition: Annotated[list[int] | None, Option("-p", "--partition", help="Only this partition; repeat it for more.")] = None,
    follow: Annotated[bool, Option("--follow", help="Copy new records, too, until Ctrl-C.")] = False,
    group: Annotated[
        str | None, Option("-G", "--group", help="Commit the copied offsets for this group, and continue there the next time.")
    ] = None,
    create: Annotated[bool, Option("--create", help="If the target topic does not exist, create it with as many partitions.")] = False,
    spread: Annotated[
        bool, Option("--spread", help="Choose each record's partition by its key, instead of keeping the partition.")
    ] = False,
) -> None:
    """Copy records to another topic or cluster, byte for byte: keys, values, headers and timestamps, in the order of each partition.

    Record batches are written anew, so offsets and compression may differ. Records of aborted transactions are left out, unless
    -X isolation.level=read_uncommitted is given. With --group, an interrupted copy continues with the records that were not acknowledged;
    records that were in flight may then be copied twice.
    """
    name = target or source
    if name == source and to_profile is None and to_brokers is None:
        raise ConfigError("source and target are the same topic; name another TARGET, --to-profile or --to-brokers")
    if to_profile is not None and to_brokers is not None:
        raise ConfigError("give either --to-profile or --to-brokers")
    there = run if to_profile is None and to_brokers is None else run.of_cluster(to_profile, to_brokers)
    spans = EVERYTHING if offset is None else parse_spans(offset)
    check_pyarrow("copies")
    with _reading(run, group) as consumer:
        ranges = settled(consumer, [source], spans, only=partition or ())
        _check_target(there, name, max(tp.partition for tp in ranges) + 1, create=create, keeps=not spread)
        for remark in remarks(ranges, waits=follow):
            run.say(remark)
        left = _assign(consumer, ranges, resumes=group is not None, follows=follow)
        with failures_told_once(), there.producer() as producer, run.progress(f"copy {source}", total=None if follow else left) as bar:
            columns: dict[str, Any] = {column: column for column in COLUMNS if not (spread and column == "partition")}
            copying = _Copying(consumer, producer, name, columns, commits=group is not None, bar=bar)
            records = copying.run(len(ranges))
    run.show(Copied(source, name, records))


def _reading(run: Invocation, group: str | None) -> KafkaConsumer[Any, Any]:
    settings: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
    # In the copy, records of aborted transactions would look like committed records.
    committed = {"isolation.level": "read_committed"}
    return run.consumer(defaults=committed, **settings, **({} if group is None else {"group_id": group}))


def _check_target(there: Invocation, topic: str, partitions: int, *, create: bool, keeps: bool) -> None:
    """Create the target topic if it is missing and `create` is true. Raise ConfigError if it is missing otherwise.

    keeps: whether records keep their partitions; then ConfigError is also raised if the topic has fewer than `partitions`.
    """
    with there.admin() as admin:
        try:
            found = len(admin.describe_topics([topic])[topic].partitions)
        except UnknownTopicOrPartitionError:
            if not create:
                raise ConfigError(f"the target topic '{topic}' does not exist; --create creates it") from None
            admin.create_topics([NewTopic(topic, partitions)])
            return
    if found < partitions and keeps:
        raise ConfigError(
            f"the target topic '{topic}' has {counted(found, 'partition')}, but {partitions} are copied; add some, or give --spread"
        )


def _assign(consumer: KafkaConsumer[Any, Any], ranges: dict[TopicPartition, OffsetRange], *, resumes: bool, follows: bool) -> int:
    """Assign the ranges to the consumer, and return the number of offsets in those that have an end.

    resumes: begin at the committed offsets, if there are any. follows: whether ranges without a named end have no end; otherwise they end
    at the end of the log. Raises ConfigError if follows is true and a range that is not empty begins behind the end of its log.
    """
    committed = consumer.committed(ranges) if resumes else {}
    starts = {tp: at.offset if (at := committed.get(tp)) else span.start for tp, span in ranges.items()}
    ends = {tp: max(span.end if follows else span.there[1], starts[tp]) for tp, span in ranges.items() if span.bounded or not follows}
    for tp, start in starts.items():
        # A start behind the end of the log is out of range, so the consumer would reset it and copy the whole log.
        if follows and committed.get(tp) is None and start > ranges[tp].log.end and ends.get(tp) != start:
            raise ConfigError(
                f"--offset: {tp} ends at {ranges[tp].log.end}, so offset {start} does not exist yet; use --offset end for new records"
            )
    consumer.assign(ranges, ends)
    for tp, start in starts.items():
        consumer.seek(tp, start)
    return sum(ends[tp] - starts[tp] for tp in ends)


class _Copying:
    """Reads Arrow batches and sends them, a few batches ahead of their acknowledgements."""

    def __init__(
        self,
        consumer: KafkaConsumer[Any, Any],
        producer: KafkaProducer[Any, Any],
        topic: str,
        columns: dict[str, Any],
        *,
        commits: bool,
        bar: Progress,
    ) -> None:
        self._consumer, self._producer, self._topic, self._columns = consumer, producer, topic, columns
        self._commits, self._bar = commits, bar
        self._under_way: deque[tuple[ArrowDelivery, dict[TopicPartition, OffsetAndMetadata]]] = deque()

    def run(self, partitions: int) -> int:
        """Copy until all partitions are read to their end offsets. Return the number of records. Raises the error of a failed record."""
        records = 0
        while len(self._consumer.finished()) < partitions:
            batch = self._consumer.poll_arrow(POLL_S, columns=COLUMNS)
            if batch.num_rows:
                sent = self._producer.send_arrow(self._topic, batch, **self._columns)
                self._under_way.append((sent, self._consumer.consumed_offsets()))
                records += batch.num_rows
                self._bar.update(records)
            self._settle(UNDER_WAY if batch.num_rows else 0)
        self._settle(0)
        return records

    def _settle(self, left: int) -> None:
        """Wait for acknowledgements, the oldest batch first, until `left` batches remain. Then commit the offsets of the others."""
        offsets = None
        while len(self._under_way) > left:
            sent, offsets = self._under_way.popleft()
            sent.result()
        if self._commits and offsets:
            self._consumer.commit(offsets)
