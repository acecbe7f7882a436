"""What KafkaConsumer does in both APIs: arguments become flows and changes of its core, which any driver runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, Protocol, TypeAlias, TypeVar

from levada.api.arguments import (
    column_names,
    deadline_ms,
    end_offsets,
    positive,
    text_columns,
    topic_name,
    topic_partition,
    topic_partitions,
    whole,
)
from levada.api.columns import ARROW_BYTES, decoder, typed_columns
from levada.api.consumer.health import health
from levada.api.consumer.iterations import Iterations
from levada.api.consumer.subscribing import OnRebalance, Pattern, Subscribing, listener_of, subscribed_to
from levada.api.interception import ConsumerInterceptors
from levada.api.lifecycle import HandedOver
from levada.api.record_offsets import OffsetsToCommit, RecordsToCommit, Span, offsets_to_commit, spans
from levada.api.reporting import Reporting
from levada.api.sent_offsets import Read, Sending, SentOffsets
from levada.base.clock import epoch_ms
from levada.base.flow import CallerFlow, Compute, Flow
from levada.base.measure import Measure
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.client.requests.group_offsets import Committed
from levada.config import ConsumerConfig
from levada.consumer.consumer_flows import ConsumerFlows, Post
from levada.consumer.core import ConsumerCore
from levada.consumer.health import ConsumerHealth
from levada.consumer.positions.commits import Commit, OnCommit
from levada.consumer.positions.position_resetter import PositionReset
from levada.consumer.scan.stop_at_end import unbound
from levada.consumer.settings import ConsumerSettings
from levada.errors import ClosedError, IllegalStateError, KafkaError
from levada.groups import RebalanceListener
from levada.logs import Log
from levada.types import (
    AnyRecord,
    ConsumerGroupMetadata,
    ConsumerRecords,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    OffsetSpec,
    PartitionInfo,
    TopicPartition,
)

T = TypeVar("T")

CLOSE_TIMEOUT_S = 30.0
NO_FORMATS: Mapping[str, Any] = {}
BROKEN_OFF_MS = 100
"""How long an interrupted close() waits until brokers have taken note of it."""

Offsets: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | None]
ToCommit: TypeAlias = OffsetsToCommit | RecordsToCommit
OnReset: TypeAlias = Callable[[PositionReset], None]


class OpenAcks(Protocol):
    """The part of an open acks() that other calls of its consumer use."""

    def settle(self) -> None:
        """Carry out the acknowledgements that the program has made so far, and send rejected records to the dead-letter topic."""
        ...

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the records of partitions that the program seeks; no partitions: of all. These records can no longer be acknowledged."""
        ...

    def leave_paused(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the program itself pauses these partitions, so that only the program resumes them."""
        ...

    def close(self) -> None:
        """Give up the unfinished records: the next poll(), or the next owner of the partition, returns them again. Idempotent."""
        ...


class Consuming:
    """The calls of a consumer, for both the synchronous and the asyncio API. host: the driver that runs them.

    on_reset: the program's function for positions that auto.offset.reset moved; None without one. post: sends dead letters; None without a
    dead-letter topic. keeps: selects the records to return; None returns all.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        engine: Engine,
        host: Host,
        *,
        random: Random,
        on_reset: OnReset | None = None,
        post: Post | None = None,
        keeps: Callable[[AnyRecord], bool] | None = None,
    ) -> None:
        self.config = config
        self.log = engine.log(__name__)
        report = partial(_report_reset, self.log, on_reset)
        self.core = ConsumerCore(engine, host=host, random=random, settings=ConsumerSettings.of(config, keeps), on_reset=report)
        self.reading = ConsumerFlows(self.core, engine, host, default_api_timeout_ms=config.default_api_timeout_ms, post=post)
        self.wakeup = self.reading.wakeup
        self._interceptors = ConsumerInterceptors(config.interceptors, self.log, engine.network.client_id, config.group_id)
        self.handed_over = HandedOver([*config.interceptors, config.key_deserializer, config.value_deserializer], self.log)
        self.subscribing = Subscribing(self.core, self.reading, host)
        self.reporting = Reporting(config, engine, host, "consumer", self.core)
        self._engine, self._host, self.now_ms = engine, host, host.now_ms
        self._loop: object | None = None
        """The Loop that reads; None if none does. Only its identity matters."""
        self.sent = SentOffsets()
        """The offsets that producers' transactions have sent."""
        self.tell_of_commits = CommitsTold(self.core, self.reading, host, self._interceptors, self.log).tell
        self.acking: OpenAcks | None = None
        """The open acks(), if there is one."""
        self._iterations = Iterations(self.reading)
        self.iterate, self.end_iteration = self._iterations.begin, self._iterations.end
        self._decoders: dict[tuple[tuple[str, ...] | None, tuple[str, ...], bool], Any] = {}
        self._typed: tuple[object, Any, Any] | None = None
        """The last arguments of poll_arrow() about formats, the columns that they make, and the function that decodes them."""

    # What is read

    def assign(self, partitions: Iterable[TopicPartition | PartitionInfo], ends: Mapping[TopicPartition, int] | None) -> None:
        """Read exactly these partitions.

        ends: the offset at which to stop reading, for some of the partitions; None reads all without end.
        """
        wanted = topic_partitions(partitions)
        stops = end_offsets(ends or {}, wanted)
        self.end_iteration()
        self.reading.change(lambda core, now_ms: core.assign(wanted, stops, now_ms))

    def subscribe(
        self,
        topics: Iterable[str] | None,
        listener: RebalanceListener | None,
        pattern: Pattern | None,
        on_assigned: OnRebalance | None,
        on_revoked: OnRebalance | None,
        on_lost: OnRebalance | None,
    ) -> None:
        """Subscribe to topics or to a pattern: the group assigns their partitions.

        Exactly one of `topics` and `pattern` is given. listener, or on_assigned and the others: called at a rebalance.
        """
        self.subscribing.subscribe(subscribed_to(topics, pattern), listener_of(listener, on_assigned, on_revoked, on_lost))

    def unsubscribe(self) -> CallerFlow[None]:
        """Give up all partitions and leave the group."""
        self.end_iteration()
        self._iterations.take_back_last()
        self._settle()
        yield from self.subscribing.unsubscribe()

    def finished(self) -> set[TopicPartition]:
        """Return the assigned partitions that are read up to their end offsets."""
        self.end_iteration()
        return self.reading.look(lambda core: {state.tp for state in core.subscription if state.finished})

    @property
    def is_finished(self) -> bool:
        """Whether every assigned partition has an end offset and is read up to it. Also true without partitions, in a bounded read."""
        return self.reading.look(lambda core: core.subscription.is_finished)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now."""
        return set(self.reading.look(lambda core: core.subscription.assignment))

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Move the position of a partition to this offset."""
        wanted, given = topic_partition(tp), offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        offset, epoch = whole("offset", given.offset), whole("leader epoch", given.leader_epoch)
        self._move([wanted], lambda core: core.seek(wanted, offset, epoch))

    def seek_to(self, partitions: Iterable[TopicPartition], to: OffsetSpec) -> None:
        """Move the positions of these partitions (none: of all assigned ones) to the beginning or the end of their logs."""
        wanted = topic_partitions(partitions)
        self._move(wanted, lambda core: core.seek_to(wanted, to))

    def seek_to_committed(self, partitions: Iterable[TopicPartition]) -> None:
        """Move the positions of these partitions (none: of all assigned ones) to the committed offsets of the group."""
        wanted = topic_partitions(partitions)
        self.group_metadata()
        self._move(wanted, lambda core: core.seek_to_committed(wanted))

    def _move(self, partitions: Collection[TopicPartition], seek: Callable[[ConsumerCore], None]) -> None:
        self.end_iteration()
        self.reading.change(lambda core, _: seek(core))
        self.sent.moved(partitions)
        if self.acking is not None:
            self.acking.forget(partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching and returning records of these partitions until resume()."""
        wanted = topic_partitions(partitions)
        self.end_iteration()
        if self.acking is not None:
            self.acking.leave_paused(wanted)
        self.reading.change(lambda core, _: core.subscription.pause(wanted))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch and return records of paused partitions again, from their positions on."""
        wanted = topic_partitions(partitions)
        self.end_iteration()
        self.reading.change(lambda core, now_ms: core.subscription.resume(wanted, now_ms))

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return set(self.reading.look(lambda core: core.subscription.paused))

    # Reading

    @property
    def next_call(self) -> int:
        """The number that the next poll() or poll_arrow() gets, for take_back()."""
        return self.reading.next_call

    def take_back(self, call: int) -> None:
        """Undo the poll with this number, because its result did not reach the caller. call: next_call, read before the poll."""
        self.reading.take_back(call)

    def poll(self, timeout: float | None, max_records: int | None) -> CallerFlow[ConsumerRecords[Any, Any]]:
        """Return the next records; none when the timeout, in seconds, is over. max_records: None for max.poll.records."""
        self._begin_reading()
        self.leave_loop()
        limit = self.config.max_poll_records if max_records is None else positive("max_records", max_records)
        return (yield from self.read(self._over_ms(timeout), limit))

    def poll_in_loop(self, timeout: float) -> CallerFlow[ConsumerRecords[Any, Any]]:
        """Return the next records for a loop over the consumer; none when the timeout, in seconds, is over."""
        self._begin_reading()
        # What the group assigns has to be given its ends before it is waited for.
        return (yield from self.read(self._over_ms(timeout), self.config.max_poll_records, stops_when_assigned=self.config.stop_at_end))

    def read(self, over_ms: int, limit: int, **how: Any) -> CallerFlow[ConsumerRecords[Any, Any]]:
        """Return the next records, after the interceptors have seen them. over_ms: the time at which to stop waiting.

        how: further arguments for ConsumerFlows.records().
        """
        self.tell_of_commits()
        self._note_abort()
        caller = self.subscribing.caller
        records: ConsumerRecords[Any, Any] = ConsumerRecords((yield from self.reading.records(over_ms, limit, caller, **how)))
        if records and self._interceptors:
            with self._host.user_code():
                return self._interceptors.on_consume(records)
        return records

    def poll_arrow(
        self,
        timeout: float | None,
        max_records: int | None,
        max_bytes: int | None,
        columns: Sequence[str] | None,
        text: Sequence[str],
        formats: Mapping[str, Any] = NO_FORMATS,
    ) -> CallerFlow[Any]:
        """Return the next records as an Arrow batch; one without rows when the timeout, in seconds, is over.

        The arguments are those of KafkaConsumer.poll_arrow(). formats: its keyword arguments about formats.
        """
        self.check_readable()
        self._interceptors.check_columns()
        self._begin_reading()
        self.leave_loop()
        self.tell_of_commits()
        limit = None if max_records is None else positive("max_records", max_records)
        most = ARROW_BYTES if max_bytes is None else positive("max_bytes", max_bytes)
        over_ms = self._over_ms(timeout)
        decode = None
        if formats:
            columns, decode = yield from self._typed_columns(columns, text, formats)
        sink = self._decoder(columns, text, in_parts=limit is not None)
        self._note_abort()
        batch = yield from self.reading.batch(over_ms, sink, limit, most, self.subscribing.caller)
        if decode is not None:
            batch = yield Compute(partial(decode, batch), batch.nbytes, may_block=True)
        if self._interceptors and batch.num_rows:
            with self._host.user_code():
                self._interceptors.on_consume_arrow(batch)
        return batch

    def enter_loop(self, loop: object) -> None:
        """Note which iteration over the consumer reads from now on. If another one was reading, that one counts as ended."""
        if loop is not self._loop:
            self.leave_loop()
            self._loop = loop

    def leave_loop(self, loop: object | None = None) -> None:
        """Remove the end offsets that an iteration over the consumer has set for partitions (stop.at.end), because it has ended.

        loop: has an effect only if this iteration is the one that reads; None ends any.
        """
        if self._loop is not None and (loop is None or loop is self._loop):
            self._loop = None
            if self.config.stop_at_end:
                # A generator that is dropped may find the consumer closed, or in the middle of a call: that one, or the next, sees to it.
                with suppress(ClosedError, IllegalStateError):
                    self.reading.change(lambda core, _: unbound(core.subscription))

    def _begin_reading(self) -> None:
        """Check that records may be read now, and note that the program is done with all earlier records, because it asks for more."""
        self.check_readable()
        if self.acking is not None:
            raise IllegalStateError("acks() hands out the records of this consumer; close it before poll() or a loop over the consumer")
        self.end_iteration()
        self._iterations.done_with_all()

    # Committing

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and the member for which offsets are committed."""
        return self.reading.look(lambda core: core.commits.group)

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset of each partition that is committed by default: after the last returned record or, with acks(), that of the
        first record that is not done.
        """
        self._settle()
        return self.reading.look(lambda core: core.commits.handed_out(self._iterations.left))

    def offsets_to_send(self, sending: Sending, records: RecordsToCommit | None) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Note that a transaction sends offsets of this consumer, and return them by partition: the offset after the last of these records,
        or those of consumed_offsets() if `records` is None.

        sending: the transaction. Raises IllegalStateError if that would skip records after an aborted transaction, or for records that may
        not be committed.
        """
        found = None if records is None else self._spans(records, "send_offsets()")
        offsets = self.consumed_offsets() if found is None else {tp: span.after for tp, span in found.items()}
        self._note_abort()
        reads = self._reads()
        if found is None:
            self.sent.send_all(sending, reads, offsets)
        else:
            self.sent.send_some(sending, reads, found)
        return offsets

    def _note_abort(self) -> None:
        """If a transaction of this process was aborted since the last call, note the positions at this time."""
        if self.sent.lacks_abort:
            self.sent.note_abort(self._reads())

    def _reads(self) -> list[Read]:
        return self.reading.look(lambda core: [Read(state, state.origin, state.done_to, state.position) for state in core.subscription])

    def _spans(self, records: Any, call: str) -> Mapping[TopicPartition, Span]:
        """Return the lowest offset of these records in each partition, and the offset to commit after them. Raises IllegalStateError for
        records that may not be committed.

        call: the name of the called method, for error messages.
        """
        if self.acking is not None:
            raise IllegalStateError(f"{call}: acks() commits what is acknowledged; call ack() of the records, and {call} without them")
        found = spans(records, call)
        lowest = self.reading.look(lambda core: {tp: state.lowest for tp in found if (state := core.subscription.find(tp))})
        if others := sorted(found.keys() - lowest.keys()):
            raise IllegalStateError(
                f"{call}: {others[0]} is not assigned to this consumer, or not any more, so its records are not committed: the "
                "consumer that has it now reads them again"
            )
        if older := sorted(tp for tp, span in found.items() if span.after.offset <= lowest[tp]):
            raise IllegalStateError(
                f"{call}: these records of {older[0]} were read in an earlier assignment, and this one begins after them, at offset "
                f"{lowest[older[0]]}; committing them would set the group back, to records that others may have handled"
            )
        return found

    def _to_commit(self, given: ToCommit, call: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return the offset that the program wants to commit for each partition, and note that it is done with all records before them.

        call: the name of the called method, for error messages.
        """
        if isinstance(given, Mapping):
            wanted = offsets_to_commit(given)
        else:
            wanted = {tp: span.after for tp, span in self._spans(given, call).items()}
        self._iterations.done_before(wanted)
        return wanted

    def commit(self, offsets: ToCommit | None, timeout: float | None) -> CallerFlow[None]:
        """Commit, and wait for the result. offsets: None commits everything that the program is done with. timeout: seconds."""
        wanted = None if offsets is None else self._to_commit(offsets, "commit()")
        group = self.group_metadata()
        self._settle()
        self.tell_of_commits()
        yield from self._timed(
            self.core.counters.commit_sync,
            self.run(
                lambda core, _: core.commits.commit_positions(self._given()) if wanted is None else core.commits.commit(wanted),
                timeout,
                f"commit for group '{group.group_id}'",
            ),
        )
        self.tell_of_commits()

    def commit_async(self, offsets: ToCommit | None, callback: OnCommit | None) -> Promise[None]:
        """Commit without waiting; return a promise of the result. offsets: None commits everything that the program is done with.

        callback: called later with the offsets and the error.
        """
        wanted = None if offsets is None else self._to_commit(offsets, "commit_async()")
        if not (callback is None or callable(callback)):
            raise TypeError(f"a callback is called with the offsets and an error or None, got {callback!r}")
        self._settle()
        self.tell_of_commits()
        return self._host.change(lambda _: self.core.commits.begin(self._given() if wanted is None else wanted, callback))

    def committed(self, partitions: Iterable[TopicPartition | PartitionInfo], timeout: float | None) -> CallerFlow[Committed]:
        """Return the committed offsets of the group for these partitions; None for a partition without one."""
        wanted = topic_partitions(partitions)
        return self._timed(self.core.counters.committed, self.run(lambda core, _: core.committed(wanted), timeout, "committed offsets"))

    def _timed(self, measure: Measure, flow: CallerFlow[T]) -> CallerFlow[T]:
        began_ms = self._host.now_ms()
        try:
            return (yield from flow)
        finally:
            now_ms = self._host.now_ms()
            with self._host.lock:
                measure.note(now_ms - began_ms, now_ms)

    def _given(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit by default (see consumed_offsets()), and note that the program is done with all returned records."""
        self._iterations.done_with_all()
        return self.core.commits.handed_out(self._iterations.left)

    def _settle(self) -> None:
        """Carry out the acknowledgements that the program has made so far, if an acks() is open.

        Not to be called under the engine's lock, because another producer sends the dead letters.
        """
        if self.acking is not None:
            self.acking.settle()

    # Positions and offsets

    def position(self, tp: TopicPartition, timeout: float | None) -> CallerFlow[int]:
        """Return the offset of the next record that poll() will return."""
        wanted = topic_partition(tp)
        self.end_iteration()
        return self.run(lambda core, now_ms: core.position(wanted, now_ms), timeout, f"position of {wanted}")

    def health(self, timeout: float | None) -> CallerFlow[ConsumerHealth]:
        """Return why no records arrive."""
        return health(self.reading, self._engine, self.config, timeout)

    def current_lag(self, tp: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end of the log, as of the last fetch; None before a fetch."""
        wanted = topic_partition(tp)
        self.end_iteration()
        return self.reading.look(lambda core: core.lag(wanted))

    def current_lead(self, tp: TopicPartition) -> int | None:
        """Return how many offsets the position is after the start of the log, as of the last fetch; None before a fetch."""
        wanted = topic_partition(tp)
        self.end_iteration()
        return self.reading.look(lambda core: core.lead(wanted))

    def ends(self, partitions: Iterable[TopicPartition], spec: OffsetSpec, timeout: float | None) -> CallerFlow[dict[TopicPartition, int]]:
        """Return the beginning (OffsetSpec.EARLIEST) or the end offset of each partition's log. timeout: seconds."""
        what = "beginning offsets" if spec is OffsetSpec.EARLIEST else "end offsets"
        found = yield from self._find(dict.fromkeys(topic_partitions(partitions), int(spec)), timeout, what)
        return {tp: 0 if at is None else at.offset for tp, at in found.items()}

    def offsets_for_times(self, times: Mapping[TopicPartition, datetime | int], timeout: float | None) -> CallerFlow[Offsets]:
        """Return, for each partition, the first offset whose timestamp is at or after a time; None if there is none."""
        return self._find({topic_partition(tp): epoch_ms(time) for tp, time in times.items()}, timeout, "offsets for times")

    def partitions_for(self, topic: str, timeout: float | None) -> CallerFlow[list[PartitionInfo]]:
        """Describe a topic's partitions."""
        topic_name(topic)
        return self.run(lambda core, _: core.partitions_for(topic), timeout, f"partitions of '{topic}'")

    def list_topics(self, timeout: float | None) -> CallerFlow[dict[str, list[PartitionInfo]]]:
        """Describe every topic that this user may describe."""
        return self.run(lambda core, _: core.list_topics(), timeout, "list topics")

    def close(self, timeout: float, leave_group: bool | None) -> CallerFlow[None]:
        """Commit for the last time, leave the group and stop reading. The driver has to be closed next, even if this raises.

        timeout: seconds. leave_group: like `tells` of Membership.leave().
        """
        over_ms = self._over_ms(timeout)
        # The client of a schema registry that poll_arrow() has made closes its connections.
        self._typed = None
        try:
            self.end_iteration()
            if self.acking is not None:
                self.acking.close()
            self._iterations.take_back_last()
            yield from self._commit_at_close(timeout)
            self.tell_of_commits()
        except Exception:
            raise
        except BaseException:
            # Ctrl-C and a cancelled task do not wait for brokers. The requests are sent, or the group would wait for the session timeout.
            over_ms = min(over_ms, self._host.now_ms() + BROKEN_OFF_MS)
            raise
        finally:
            yield from self._end_at_close(over_ms, leave_group)

    def _end_at_close(self, over_ms: int, leave_group: bool | None) -> CallerFlow[None]:
        try:
            yield from self.subscribing.leave_at_close(over_ms, leave_group)
            self.tell_of_commits()
            yield from self.reporting.close(over_ms)
        finally:
            yield from self.reading.close()

    def _commit_at_close(self, timeout: float) -> CallerFlow[None]:
        if not self.reading.look(lambda core: core.commits.has_work_at_close):
            return
        try:
            over_ms, what = deadline_ms(0, timeout), "the last commit, at close()"
            yield from self.reading.run(lambda core, _: core.commits.at_close(), over_ms, what, may_be_woken=False)
        except KafkaError as error:
            self.log.warning("what was read last may not be committed, and is read again: %s", error)

    def run(self, begin: Callable[[ConsumerCore, int], Flow[T]], timeout: float | None, what: str) -> CallerFlow[T]:
        """Run a flow of the engine. timeout: seconds, None for default.api.timeout.ms. what: names the call in a timeout error.

        begin: makes the flow, from the core and the time in ms.
        """
        return self.reading.run(begin, None if timeout is None else deadline_ms(0, timeout), what)

    def _find(self, wanted: Mapping[TopicPartition, int], timeout: float | None, what: str) -> CallerFlow[Offsets]:
        return self.run(lambda core, now_ms: core.find_offsets(wanted, now_ms), timeout, what)

    def _over_ms(self, timeout: float | None) -> int:
        return deadline_ms(self._host.now_ms(), timeout)

    def check_readable(self) -> None:
        """Raise IllegalStateError if nothing is assigned or subscribed to, or within a rebalance listener.

        Raises an error, too, if the consumer cannot be used.
        """
        self._host.check_usable()
        self.subscribing.check_not_telling()
        if not (len(self.core.subscription) or self.core.is_subscribed):
            raise IllegalStateError("there is nothing to read; subscribe() to topics, or assign() partitions, before poll()")

    def _decoder(self, columns: Sequence[str] | None, text: Sequence[str], *, in_parts: bool) -> Any:
        # Used again: it knows how large the last batch was.
        key = (None if columns is None else column_names(columns), text_columns(text), in_parts)
        if key not in self._decoders:
            self._decoders[key] = decoder(*key[:2], self.config, notes_offsets=in_parts)
        return self._decoders[key]

    def _typed_columns(
        self, columns: Sequence[str] | None, text: Sequence[str], formats: Mapping[str, Any]
    ) -> CallerFlow[tuple[Sequence[str], Callable[[Any], Any]]]:
        """Return the columns to read, and a function that decodes keys and values among them. The first call may ask the registry."""
        topics = self.subscribing.subscription() or {tp.topic for tp in self.assignment()}
        asked = None if columns is None else column_names(columns), text_columns(text), formats, topics
        if self._typed is None or self._typed[0] != asked:
            typed = typed_columns(asked[0], asked[1], formats, sorted(topics))
            self._typed = asked, typed.needed, (yield Compute(typed.decoder, may_block=True))
        return self._typed[1:]


def _report_reset(log: Log, on_reset: OnReset | None, reset: PositionReset) -> None:
    tp, asked = reset.partition, reset.asked_offset
    log.warning("%s at offset %d: %s; going on at %d", tp, asked, reset.reason, reset.offset, tp=tp, offset=asked)
    if on_reset is not None:
        on_reset(reset)


class CommitsTold:
    """Calls the interceptors and the callbacks of commit_async() when commits of one consumer have ended."""

    def __init__(self, core: ConsumerCore, reading: ConsumerFlows, host: Host, interceptors: ConsumerInterceptors, log: Log) -> None:
        self._commits = core.commits
        self._reading = reading
        self._host = host
        self._interceptors = interceptors
        self._log = log

    def tell(self) -> None:
        """Call the interceptors and callbacks for commits that have ended, in the order of the commits.

        If a callback raises, its exception is raised, and the remaining callbacks are called by the next tell().
        """
        if self._interceptors and self._commits.has_untold:
            for offsets in self._reading.look(lambda core: core.commits.newly_committed()):
                with self._host.user_code():
                    self._interceptors.on_commit(offsets)
        while self._commits.has_untold and (commit := self._reading.look(lambda core: core.commits.over())) is not None:
            error = commit.done.error
            assert error is None or isinstance(error, KafkaError), "flows fail with errors of levada's own"
            if commit.callback is not None:
                self._call_back(commit, commit.callback, error)
            elif error is not None:
                self._log.warning("%s", error)

    def _call_back(self, commit: Commit, callback: OnCommit, error: KafkaError | None) -> None:
        is_called = False
        try:
            with self._host.user_code():
                is_called = True
                callback(dict(commit.offsets), error)
        finally:
            if not is_called:
                # Ctrl-C came first; the next call tells.
                self._reading.look(lambda core: core.commits.give_back(commit))
