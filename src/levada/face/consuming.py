"""A consumer below its faces: arguments become flows and changes of its core, which any driver runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, TypeAlias, TypeVar

from levada.client.engine import Engine
from levada.client.group_offsets import Committed
from levada.client.host import Host
from levada.clock import epoch_ms
from levada.config import ConsumerConfig
from levada.consumer.commits import OnCommit
from levada.consumer.core import ConsumerCore
from levada.consumer.position_resetter import PositionReset
from levada.consumer.reading import Reading
from levada.consumer.settings import ConsumerSettings
from levada.consumer.subscription_state import OffsetSpec
from levada.errors import ClosedError, IllegalStateError, KafkaError
from levada.face.arguments import (
    column_names,
    deadline_ms,
    end_offsets,
    offsets_to_commit,
    positive,
    topic_name,
    topic_partition,
    topic_partitions,
    whole,
)
from levada.face.columns import importing_columns
from levada.face.measured import measured
from levada.flow import CallerFlow, Flow
from levada.metrics import Metrics
from levada.promise import Promise
from levada.types import (
    AnyRecord,
    ConsumerGroupMetadata,
    ConsumerRecords,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

ITERATION_POLL_S = 60.0
ARROW_BYTES = 16 << 20
CLOSE_TIMEOUT_S = 30.0
DEFAULT_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")

Offsets: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | None]
OffsetsToCommit: TypeAlias = Mapping[TopicPartition, int | OffsetAndMetadata]
OnReset: TypeAlias = Callable[[PositionReset], None]


class Iteration:
    """The records that a loop over a consumer has, and how many it was given. is_over: it may have no more of them.

    committed: how many it was given when the program committed what it was given.
    """

    __slots__ = ("committed", "generation", "given", "is_over", "records")

    def __init__(self, records: Sequence[AnyRecord], generation: int) -> None:
        self.records = records
        self.generation = generation
        self.given = 0
        self.committed = 0
        self.is_over = False

    @property
    def left(self) -> Sequence[AnyRecord]:
        """What it was not given."""
        return self.records[self.given :]


class Consuming:
    """One consumer. host: its driver. on_reset: the user's callback."""

    def __init__(self, config: ConsumerConfig, engine: Engine, host: Host, *, random: Random, on_reset: OnReset | None = None) -> None:
        self.config = config
        report = partial(_report_reset, on_reset)
        self.core = ConsumerCore(engine, host=host, random=random, settings=ConsumerSettings.of(config), on_reset=report)
        self.reading = Reading(self.core, engine, host, default_api_timeout_ms=config.default_api_timeout_ms)
        self.wakeup = self.reading.wakeup
        self._engine = engine
        self._host = host
        self._iteration: Iteration | None = None
        self._in_hand: tuple[AnyRecord, int] | None = None
        """The record that the last loop was given last, until a call for more or a commit shows that the program is done with it; and the
        newest generation when that loop ended."""
        self._decoders: dict[tuple[tuple[str, ...] | None, tuple[str, ...], bool], Any] = {}

    # What is read

    def assign(self, partitions: Iterable[TopicPartition | PartitionInfo], ends: Mapping[TopicPartition, int] | None) -> None:
        """Read exactly these partitions, up to their ends where they have one."""
        wanted = topic_partitions(partitions)
        stops = end_offsets(ends or {}, wanted)
        self.end_iteration()
        self.reading.change(lambda core, now_ms: core.assign(wanted, stops, now_ms))

    def finished(self) -> set[TopicPartition]:
        """Return the partitions that are read to their ends."""
        self.end_iteration()
        return self.reading.look(lambda core: {state.tp for state in core.subscription if state.finished})

    @property
    def is_finished(self) -> bool:
        """Whether all partitions are read to their ends."""
        return self.reading.look(lambda core: core.subscription.is_finished)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions now assigned."""
        return set(self.reading.look(lambda core: core.subscription.assignment))

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at this offset."""
        wanted = topic_partition(tp)
        given = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        place = whole("offset", given.offset), whole("leader epoch", given.leader_epoch)
        self.end_iteration()
        self.reading.change(lambda core, _: core.seek(wanted, *place))

    def seek_to(self, partitions: Iterable[TopicPartition], to: OffsetSpec) -> None:
        """Go on at one end of the log."""
        wanted = topic_partitions(partitions)
        self.end_iteration()
        self.reading.change(lambda core, _: core.seek_to(wanted, to))

    def seek_to_committed(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on where the group has committed."""
        wanted = topic_partitions(partitions)
        self.group_metadata()
        self.end_iteration()
        self.reading.change(lambda core, _: core.seek_to_committed(wanted))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions until resume()."""
        wanted = topic_partitions(partitions)
        self.end_iteration()
        self.reading.change(lambda core, _: core.subscription.pause(wanted))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on where pause() stopped."""
        wanted = topic_partitions(partitions)
        self.end_iteration()
        self.reading.change(lambda core, now_ms: core.subscription.resume(wanted, now_ms))

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return set(self.reading.look(lambda core: core.subscription.paused))

    def metrics(self) -> Metrics:
        """Return what has been counted so far."""
        return measured(self._engine, self._host, "consumer", self.core)

    # Reading

    @property
    def next_call(self) -> int:
        """The number of the next poll() or poll_arrow(), for take_back()."""
        return self.reading.next_call

    def take_back(self, call: int) -> None:
        """Undo a poll whose result did not reach the caller."""
        self.reading.take_back(call)

    def poll(self, timeout: float | None, max_records: int | None) -> CallerFlow[ConsumerRecords[Any, Any]]:
        """Return the next records."""
        self._check_assigned()
        self._end_iteration_for_more()
        self.tell_of_commits()
        limit = self.config.max_poll_records if max_records is None else positive("max_records", max_records)
        return ConsumerRecords((yield from self.reading.records(self._over_ms(timeout), limit)))

    def poll_arrow(
        self,
        timeout: float | None,
        max_records: int | None,
        max_bytes: int | None,
        columns: Sequence[str] | None,
        text: Sequence[str],
    ) -> CallerFlow[Any]:
        """Return the next records as columns."""
        self._check_assigned()
        self._end_iteration_for_more()
        self.tell_of_commits()
        limit = None if max_records is None else positive("max_records", max_records)
        most = ARROW_BYTES if max_bytes is None else positive("max_bytes", max_bytes)
        return (
            yield from self.reading.batch(self._over_ms(timeout), self._decoder(columns, text, in_parts=limit is not None), limit, most)
        )

    def iterate(self, records: ConsumerRecords[Any, Any]) -> Iteration:
        """Let a loop have these records one by one."""
        self._iteration = Iteration(records, self.reading.look(lambda core: core.subscription.generations.newest))
        return self._iteration

    def end_iteration(self) -> None:
        """Take back what a loop has not been given yet, before anything is read, moved, or asked about positions.

        The loop itself may come too late for that: asyncio ends a generator that a loop was left with only some time later.
        """
        iteration, self._iteration = self._iteration, None
        if iteration is not None:
            iteration.is_over = True
            with suppress(ClosedError):
                if iteration.left:
                    self.reading.change(lambda core, _: core.rewind(iteration.left, iteration.generation))
                if iteration.given > iteration.committed:
                    newest = self.reading.look(lambda core: core.subscription.generations.newest)
                    self._in_hand = iteration.records[iteration.given - 1], newest

    def _end_iteration_for_more(self) -> None:
        """Whoever asks for more is done with what came before."""
        self.end_iteration()
        self._in_hand = None

    def _take_back_in_hand(self) -> None:
        """An exception came between a record and the next call: it was not worked off, and is not to be committed."""
        in_hand, self._in_hand = self._in_hand, None
        if in_hand is not None:
            record, generation = in_hand
            self.reading.change(lambda core, _: core.rewind([record], generation))

    # Committing

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return on whose behalf offsets are committed."""
        return self.reading.look(lambda core: core.commits.group)

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions after what was handed out."""
        return self.reading.look(lambda core: core.commits.handed_out(self._not_given))

    def commit(self, offsets: OffsetsToCommit | None, timeout: float | None) -> CallerFlow[None]:
        """Commit, and wait until that is done."""
        wanted = None if offsets is None else offsets_to_commit(offsets)
        group = self.group_metadata()
        self.tell_of_commits()
        yield from self.run(
            lambda core, _: core.commits.commit(self._given() if wanted is None else wanted),
            timeout,
            f"commit for group '{group.group_id}'",
        )
        self.tell_of_commits()

    def commit_async(self, offsets: OffsetsToCommit | None, callback: OnCommit | None) -> Promise[None]:
        """Commit without waiting."""
        wanted = None if offsets is None else offsets_to_commit(offsets)
        if not (callback is None or callable(callback)):
            raise TypeError(f"a callback is called with the offsets and an error or None, got {callback!r}")
        self.tell_of_commits()
        return self._host.change(lambda _: self.core.commits.begin(self._given() if wanted is None else wanted, callback))

    def committed(self, partitions: Iterable[TopicPartition | PartitionInfo], timeout: float | None) -> CallerFlow[Committed]:
        """Return what the group has committed."""
        wanted = topic_partitions(partitions)
        return self.run(lambda core, _: core.committed(wanted), timeout, "committed offsets")

    def tell_of_commits(self) -> None:
        """Call the callbacks of commits that are over, in the order of the commits. What one raises comes out, and the others wait."""
        while self.core.commits.has_untold and (commit := self.reading.look(lambda core: core.commits.over())) is not None:
            error = commit.done.error
            assert error is None or isinstance(error, KafkaError), "flows fail with errors of levada's own"
            if commit.callback is not None:
                with self._host.user_code():
                    commit.callback(dict(commit.offsets), error)
            elif error is not None:
                log.warning("%s", error)

    def _given(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what is to be committed by a program that says no offsets, which is thereby done with all that it was given."""
        self._in_hand = None
        if self._iteration is not None:
            self._iteration.committed = self._iteration.given
        return self.core.commits.handed_out(self._not_given)

    @property
    def _not_given(self) -> Sequence[AnyRecord]:
        """What a loop over the consumer was not given yet of the records that it has."""
        return self._iteration.left if self._iteration is not None else ()

    # Positions and offsets

    def position(self, tp: TopicPartition, timeout: float | None) -> CallerFlow[int]:
        """Return the offset of the next record poll() will return."""
        wanted = topic_partition(tp)
        self.end_iteration()
        return self.run(lambda core, now_ms: core.position(wanted, now_ms), timeout, f"position of {wanted}")

    def current_lag(self, tp: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end known from the last fetch."""
        wanted = topic_partition(tp)
        self.end_iteration()
        return self.reading.look(lambda core: core.lag(wanted))

    def ends(self, partitions: Iterable[TopicPartition], spec: OffsetSpec, timeout: float | None) -> CallerFlow[dict[TopicPartition, int]]:
        """Return one end of each partition's log."""
        what = "beginning offsets" if spec is OffsetSpec.EARLIEST else "end offsets"
        found = yield from self._find(dict.fromkeys(topic_partitions(partitions), int(spec)), timeout, what)
        return {tp: 0 if at is None else at.offset for tp, at in found.items()}

    def offsets_for_times(self, times: Mapping[TopicPartition, datetime | int], timeout: float | None) -> CallerFlow[Offsets]:
        """Find the earliest offset whose timestamp is at or after a time, per partition."""
        return self._find({topic_partition(tp): epoch_ms(time) for tp, time in times.items()}, timeout, "offsets for times")

    def partitions_for(self, topic: str, timeout: float | None) -> CallerFlow[list[PartitionInfo]]:
        """Describe a topic's partitions."""
        topic_name(topic)
        return self.run(lambda core, _: core.partitions_for(topic), timeout, f"partitions of '{topic}'")

    def list_topics(self, timeout: float | None) -> CallerFlow[dict[str, list[PartitionInfo]]]:
        """Describe every topic this user may see."""
        return self.run(lambda core, _: core.list_topics(), timeout, "list topics")

    def close(self, timeout: float, *, after_error: bool = False) -> CallerFlow[None]:
        """Commit for the last time, tell of commits, and stop reading; the driver is to be closed next, whatever happens here.

        after_error: the program ends with an exception, so the record that a loop was given last is not committed.
        """
        try:
            self.end_iteration()
            if after_error:
                self._take_back_in_hand()
            yield from self._commit_at_close(timeout)
            self.tell_of_commits()
        finally:
            yield from self.reading.close()

    def _commit_at_close(self, timeout: float) -> CallerFlow[None]:
        if not self.reading.look(lambda core: core.commits.has_work_at_close):
            return
        try:
            yield from self.reading.run(
                lambda core, _: core.commits.at_close(), deadline_ms(0, timeout), "the last commit, at close()", may_be_woken=False
            )
        except KafkaError as error:
            log.warning("what was read last may not be committed, and is read again: %s", error)

    def run(self, begin: Callable[[ConsumerCore, int], Flow[T]], timeout: float | None, what: str) -> CallerFlow[T]:
        """Run a flow of the engine. timeout: seconds, None for default.api.timeout.ms."""
        return self.reading.run(begin, None if timeout is None else deadline_ms(0, timeout), what)

    def _find(self, wanted: Mapping[TopicPartition, int], timeout: float | None, what: str) -> CallerFlow[Offsets]:
        return self.run(lambda core, now_ms: core.find_offsets(wanted, now_ms), timeout, what)

    def _over_ms(self, timeout: float | None) -> int:
        return deadline_ms(self._host.now_ms(), timeout)

    def _check_assigned(self) -> None:
        self._host.check_usable()
        if not len(self.core.subscription):
            raise IllegalStateError("nothing is assigned; assign() partitions before poll()")

    def _decoder(self, columns: Sequence[str] | None, text: Sequence[str], *, in_parts: bool) -> Any:
        # Used again: it knows how large the last batch was.
        key = (None if columns is None else column_names(columns), column_names(text), in_parts)
        if key not in self._decoders:
            self._decoders[key] = decoder(*key[:2], self.config, notes_offsets=in_parts)
        return self._decoders[key]


def decoder(columns: tuple[str, ...] | None, text: tuple[str, ...], config: ConsumerConfig, *, notes_offsets: bool = False) -> Any:
    """Return a ColumnDecoder for these columns, None for DEFAULT_COLUMNS; imports pyarrow, an extra. Raises ValueError for none."""
    if columns == ():
        raise ValueError(f"columns=[] would read records and return nothing of them; name at least one of {', '.join(DEFAULT_COLUMNS)}")
    with importing_columns():
        from levada.record.columnar import ColumnDecoder
    wanted = DEFAULT_COLUMNS if columns is None else columns
    return ColumnDecoder(wanted, config.max_decompressed_bytes, text=text, notes_offsets=notes_offsets)


def _report_reset(on_reset: OnReset | None, reset: PositionReset) -> None:
    log.warning("%s at offset %d: %s; going on at %d", reset.partition, reset.asked_offset, reset.reason, reset.offset)
    if on_reset is not None:
        on_reset(reset)
