"""What consumer.acks() does in both APIs: returns records one by one, to be acknowledged in any order (ADR 44).

A call returns records that may be processed now. It polls when there are none, or when the last poll is too long ago. A poll fetches more
records only when no record is waiting to be returned; otherwise it does the rest of a poll: the poll interval of the group, rebalances,
automatic commits. Partitions are paused when their first unfinished record is too far behind.

Commits knows the first unfinished record of each partition. No commit of positions passes it: not the automatic one, nor the one before
partitions are revoked, nor the one at close(), nor commit() without arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, NamedTuple

from levada.api.arguments import deadline_ms, positive
from levada.api.consumer.consuming import Consuming
from levada.api.consumer.dead_letters import dead_letter
from levada.api.consumer.iterations import Iteration
from levada.api.consumer.looping import Loop
from levada.base.clock import NEVER_MS
from levada.base.flow import CallerFlow
from levada.base.text import as_text, did_you_mean
from levada.client.driver_interface import Host
from levada.consumer.acks.lanes import Entry
from levada.consumer.acks.record import AckRecord
from levada.consumer.acks.states import RecordEvent
from levada.consumer.acks.unacked import LANE_OF, UnackedRecords, WorkLimit
from levada.consumer.consumer_flows import Post, post_letter
from levada.consumer.core import ConsumerCore
from levada.consumer.positions.subscription_state import PartitionState
from levada.dead_letter import DeadLetter, letter_of_rejected
from levada.errors import IllegalStateError, KafkaError, ProcessingError, TimeoutError
from levada.types import AnyRecord, ConsumerRecords, TopicPartition

POLL_EVERY_MS = 1_000
"""How often a loop polls even when it has records, so that a slow program stays in its group."""
IDLE_MS = 60_000
"""How long a loop waits in one call."""
TOLD_MS = 0
"""The value of _finish_by_ms after the warning that a rebalance waits no longer."""
FINISHING_SHARE = 0.9
"""The part of max.poll.interval.ms for which a rebalance waits for records in progress. The coordinator has been waiting a little longer
already.
"""


class AckSettings(NamedTuple):
    """The checked arguments of acks() or process(). limit: how long a handler of process() may take for a record; None for no limit."""

    max_unacked: int
    lanes: int | None
    ordering: str
    dead_letter: DeadLetter | None
    limit: WorkLimit | None = None


def ack_settings(max_unacked: Any, lanes: Any, ordering: Any, to: Any, *, awaited: bool) -> AckSettings:
    """Check the arguments of acks() and process(). Raises ValueError, TypeError, and ConfigError for a producer that cannot be used.

    to: the argument dead_letter. awaited: whether the consumer belongs to levada.aio.
    """
    if ordering not in LANE_OF:
        raise ValueError(f"ordering is 'key', 'partition' or 'none', got {ordering!r}{did_you_mean(str(ordering), LANE_OF)}")
    if to is not None:
        if not isinstance(to, DeadLetter):
            raise TypeError(f"dead_letter is a levada.DeadLetter(producer, topic), got {to!r}")
        to = dead_letter(to, "dead_letter", awaited=awaited)
    return AckSettings(positive("max_unacked", max_unacked), None if lanes is None else positive("lanes", lanes), ordering, to)


class Acking:
    """An open acks() of a consumer: decides which records are returned to the program, and carries out their acknowledgements.

    post: sends dead letters; None without a dead-letter topic.
    """

    def __init__(self, consuming: Consuming, host: Host, settings: AckSettings, post: Post | None) -> None:
        consuming.check_readable()
        if consuming.acking is not None:
            raise IllegalStateError("this consumer has an acks() that is open; close it first, or leave its block")
        consuming.end_iteration()
        consuming.leave_loop()
        self._consuming = consuming
        self.log = consuming.log
        self._reading = consuming.reading
        self._host = host
        self._settings = settings
        self._post = post
        self.unacked = UnackedRecords(
            max_at_work=settings.lanes,
            ordering=settings.ordering,
            may_reject=settings.dead_letter is not None,
            limit=settings.limit,
            wake=self._reading.look_again,
        )
        # Half of it, so that a partition is paused early enough for a poll never to bring more than fits.
        self._portion = min(consuming.config.max_poll_records, max(settings.max_unacked // 2, 1))
        self._polled_ms = host.now_ms()
        self._finish_by_ms = NEVER_MS
        """Until when a rebalance waits for records in progress; NEVER_MS when none is waiting, TOLD_MS when it waits no longer."""
        self._leaving: list[PartitionState] = []
        """The partitions that this rebalance takes away."""
        self._is_finishing = False
        """Whether the last poll was to give them up."""
        self._hand: Iteration | None = None
        """The records that a loop has and was not given completely."""
        self._taken: list[AckRecord[Any, Any]] = []
        """The records that the last call returns."""
        self._calls = 0
        """How many calls have begun."""
        self._is_closed = False
        consuming.acking = self
        consuming.subscribing.caller.finish = self._finish
        consuming.core.commits.unacked = self.unacked

    # Returning records

    def poll(self, timeout: float | None, max_records: int | None) -> CallerFlow[list[AckRecord[Any, Any]]]:
        """Return records to process; an empty list when the timeout is over. timeout: seconds. max_records: None for the default."""
        limit = self._portion if max_records is None else positive("max_records", max_records)
        over_ms = deadline_ms(self._host.now_ms(), timeout)
        return (yield from self._until_some(over_ms, limit, self._poll, lambda: False))

    def new_loop(self) -> Loop:
        """Return a loop over the records, for next_hand()."""
        return Loop(self._consuming, self._poll_in_loop)

    def next_hand(self, loop: Loop) -> CallerFlow[Iteration | None]:
        """Return the next records for a loop, possibly none. Return None when the loop is over and every record is done."""

        def read(over_ms: int) -> CallerFlow[None]:
            # Its end is looked for by a poll that may bring records.
            if loop.is_over or self.unacked.has_ready:
                yield from self._poll(over_ms, brings=False)
            else:
                yield from loop.read(self._host.now_ms())

        def is_over() -> bool:
            return loop.is_over and not len(self.unacked)

        records = yield from self._until_some(self._host.now_ms() + IDLE_MS, self._portion, read, is_over)
        if not records and is_over():
            return None
        self._hand = Iteration(records, 0)
        return self._hand

    def _until_some(
        self, over_ms: int, limit: int, poll: Callable[[int], CallerFlow[None]], is_over: Callable[[], bool]
    ) -> CallerFlow[list[AckRecord[Any, Any]]]:
        self._begin()
        has_polled = False
        while True:
            self.settle()
            failure = self.unacked.take_failure()
            if failure is not None:
                raise failure
            now_ms = self._host.now_ms()
            if has_polled or not self.is_due:
                self._taken = self.unacked.take(limit, now_ms)
                if self._taken or is_over() or (has_polled and now_ms >= over_ms):
                    return self._taken
            yield from poll(now_ms if self.unacked.may_take else min(over_ms, self._next_ms))
            has_polled = True

    @property
    def is_due(self) -> bool:
        """Whether the last poll was at least POLL_EVERY_MS ago. Then the consumer has to be polled even if there are records to return."""
        return self._host.now_ms() >= self._polled_ms + POLL_EVERY_MS

    @property
    def next_call(self) -> int:
        """The number that the next call of poll() or next_hand() gets, for take_back()."""
        return self._calls + 1

    def take_back(self, call: int) -> None:
        """Undo a call whose result did not reach the caller. call: next_call, read before the call. No effect if the call raised an error
        before it got this number.
        """
        if call == self._calls:
            taken, self._taken = self._taken, []
            self.unacked.put_back(taken)

    def end_hand(self) -> None:
        """Put back the records that a loop has received but not given to the program yet."""
        hand, self._hand = self._hand, None
        if hand is not None:
            hand.end()
            with self._host.undisturbed():
                self.unacked.settle(self._host.now_ms())
                self.unacked.put_back(hand.left)  # type: ignore[arg-type]

    def _begin(self) -> None:
        if self._is_closed:
            raise IllegalStateError("this acks() is closed; consumer.acks() makes another one")
        self._consuming.check_readable()
        self._taken = []
        self._calls += 1
        self.end_hand()

    # Waiting for returned records

    def wait_empty(self, timeout: float | None) -> CallerFlow[None]:
        """Wait until the program has reported a result for every record that it has, and rejected records are in the dead-letter topic.

        No records are returned meanwhile. timeout: seconds, after which TimeoutError is raised.
        """
        self._begin()
        over_ms = deadline_ms(self._host.now_ms(), timeout)
        while True:
            self.settle()
            if not self.unacked.at_work:
                return
            if self._host.now_ms() >= over_ms:
                raise TimeoutError(f"{self.unacked.at_work} records are still at work after {timeout:g} s")
            # Records that could be returned do not end the wait: they are not taken here, and other tasks of the loop would not run.
            yield from self._attend(min(over_ms, self._next_ms), self._has_changes)

    def _finish(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether a rebalance may take these partitions: True if the program has no records of theirs, or has had them for too long.

        From now on no records of these partitions are returned. A consumer that is no longer a member of the group returns True at once,
        because its commit would not be accepted.
        """
        now_ms = self._host.now_ms()
        if not self._leaving:
            self._finish_by_ms = now_ms + int(self._consuming.config.max_poll_interval_ms * FINISHING_SHARE)
        self._is_finishing = True
        self._leaving, may_commit = self._reading.look(
            lambda core: ([core.subscription.state(tp) for tp in partitions], core.member is not None and core.member.may_commit)
        )
        self.unacked.held = frozenset(partitions)
        self._pause_full()
        self.settle()
        at_work = self.unacked.at_work_of(partitions)
        if not at_work or not may_commit:
            return True
        if now_ms < self._finish_by_ms:
            return False
        if self._finish_by_ms != TOLD_MS:
            self.log.warning("%s", self._not_done(at_work, partitions))
            self._finish_by_ms = TOLD_MS
        return True

    def _end_finishing(self) -> None:
        """Allow records of the held partitions to be returned again. No effect while a rebalance still waits to take the partitions."""
        if not self._is_finishing or self._has_finished:
            self._leaving = []
            self.unacked.held = frozenset()
            self._finish_by_ms = NEVER_MS

    @property
    def _next_ms(self) -> int:
        """The time, in ms, at which a record's delay or time limit ends, or a rebalance stops waiting for records in progress."""
        is_waiting = self._finish_by_ms > self._host.now_ms()
        return min(self.unacked.due_ms, self._finish_by_ms if is_waiting else NEVER_MS)

    @property
    def _has_finished(self) -> bool:
        return bool(self._leaving) and all(state.retired for state in self._leaving)

    def _not_done(self, at_work: int, partitions: Iterable[TopicPartition]) -> str:
        waited_s = self._consuming.config.max_poll_interval_ms * FINISHING_SHARE / 1000
        gone = ", ".join(map(str, sorted(partitions)))
        return (
            f"group '{self._consuming.config.group_id}' takes {gone} away, and {at_work} of their records were not acknowledged within "
            f"{waited_s:g} s, nine tenths of max.poll.interval.ms; whoever reads there next gets them again"
        )

    # What becomes of records

    def settle(self) -> None:
        """Carry out the acknowledgements that the program has made so far, and send rejected records to the dead-letter topic."""
        with self._host.undisturbed():
            self.unacked.settle(self._host.now_ms())
        rejected = self.unacked.take_rejected()
        try:
            while rejected:
                self._send_letter(rejected[0])
                rejected.pop(0)
        finally:
            self.unacked.give_back_rejected(rejected)

    def _send_letter(self, entry: Entry) -> None:
        assert self._post is not None and self._settings.dead_letter is not None, "nothing is rejected without a dead-letter topic"
        topic = self._settings.dead_letter.topic

        def settled(failure: BaseException | None) -> None:
            if failure is None:
                self.unacked.tell(entry, RecordEvent.WRITTEN)
            else:
                self.unacked.tell(entry, RecordEvent.UNWRITTEN, _unwritten(entry, topic, failure))

        post_letter(self._host, self._post, letter_of_rejected(topic, entry.record, entry.reason, entry.attempts), settled)

    def _give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the records of these partitions, and move each position that is still assigned back to the first unfinished record."""
        for tp in partitions:
            lanes = self.unacked.partition(tp)
            if lanes is not None:
                self.unacked.give_up(tp)
                self._reading.change(partial(_go_back, lanes.state, lanes.oldest))

    def _forget_lost(self) -> None:
        """Forget the records of each partition that is not assigned any more, or that was revoked and assigned again."""
        for lanes in self.unacked.partitions:
            if lanes.state.retired:
                self.unacked.give_up(lanes.tp)

    # Polling

    def _poll_in_loop(self, wait_s: float) -> CallerFlow[ConsumerRecords[Any, Any]]:
        over_ms = min(deadline_ms(self._host.now_ms(), wait_s), self._next_ms)
        return (yield from self._poll_records(over_ms, stops_when_assigned=self._consuming.config.stop_at_end))

    def _poll(self, over_ms: int, *, brings: bool = True) -> CallerFlow[None]:
        """Poll until a record or a change arrives, or until the time over_ms. brings: whether to fetch records if none is ready."""
        if brings and not self.unacked.has_ready:
            yield from self._poll_records(over_ms)
        else:
            yield from self._attend(over_ms, self._is_enough)

    def _attend(self, over_ms: int, is_enough: Callable[[], bool]) -> CallerFlow[None]:
        self._consuming.tell_of_commits()
        yield from self._polling(self._reading.attend(over_ms, self._consuming.subscribing.caller, is_enough))

    def _poll_records(self, over_ms: int, **how: Any) -> CallerFlow[ConsumerRecords[Any, Any]]:
        self._pause_full()
        call = self._reading.next_call
        try:
            read = self._consuming.read(over_ms, self._portion, is_enough=self._is_enough, **how)
            records: ConsumerRecords[Any, Any] = yield from self._polling(read)
            self._add(records)
        except BaseException:
            self._reading.take_back(call)
            raise
        return records

    def _polling(self, poll: CallerFlow[Any]) -> CallerFlow[Any]:
        self._is_finishing = False
        self.unacked.is_waited_for = True
        try:
            return (yield from poll)
        finally:
            self.unacked.is_waited_for = False
            self._polled_ms = self._host.now_ms()
            self._forget_lost()
            self._end_finishing()

    def _is_enough(self) -> bool:
        """Whether to end a poll that waits for records: a record can be returned, or _has_changes() is true."""
        return self.unacked.may_take or self._has_changes()

    def _has_changes(self) -> bool:
        """Whether there are acknowledgements to carry out, delays or time limits that have ended, or records of revoked partitions to
        forget.
        """
        unacked = self.unacked
        if unacked.has_notes or unacked.due_ms <= self._host.now_ms():
            return True
        return any(lanes.state.retired for lanes in unacked.partitions)

    def _add(self, records: ConsumerRecords[Any, Any]) -> None:
        by_partition: dict[TopicPartition, list[AnyRecord]] = {}
        for record in records:
            by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        states = self._reading.look(lambda core: {tp: core.subscription.state(tp) for tp in by_partition})
        for tp, found in by_partition.items():
            self.unacked.add(states[tp], found)

    # Back-pressure

    def _pause_full(self) -> None:
        """Pause partitions with too many unfinished records and held ones. Resume the others that were paused for that reason."""
        most = self._settings.max_unacked - self._portion
        full = {lanes.tp for lanes in self.unacked.partitions if lanes.span > most} | self.unacked.held
        if not (full or self.unacked.paused):
            return
        assigned, paused = self._reading.look(lambda core: (core.subscription.assignment, core.subscription.paused))
        ours = self.unacked.paused & paused
        if to_resume := ours - full:
            self._reading.change(lambda core, now_ms: core.subscription.resume(to_resume, now_ms))
        if to_pause := (full & assigned) - paused:
            self._reading.change(lambda core, _: core.subscription.pause(to_pause))
        self.unacked.paused = (ours & full) | to_pause

    def leave_paused(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the program itself pauses these partitions, so that only the program resumes them."""
        self.unacked.paused.difference_update(partitions)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the records of partitions that the program seeks; no partitions: of all. These records can no longer be acknowledged."""
        for tp in list(partitions) or [lanes.tp for lanes in self.unacked.partitions]:
            self.unacked.give_up(tp)

    # The end

    def close(self) -> None:
        """Give up the unfinished records: the next poll(), or the next owner of the partition, returns them again. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._consuming.acking = None
        self._consuming.subscribing.caller.finish = None
        try:
            self._host.check_usable()
        except KafkaError:
            # The consumer is closed, or of the parent process: nothing is read any more.
            self.unacked.close()
            return
        self.end_hand()
        self.settle()
        self._give_up(lanes.tp for lanes in self.unacked.partitions)
        self._reading.change(self._let_go)
        self.unacked.close()

    def _let_go(self, core: ConsumerCore, now_ms: int) -> None:
        core.commits.unacked = None
        core.subscription.resume(self.unacked.paused & core.subscription.assignment, now_ms)


def _go_back(state: PartitionState, oldest: AnyRecord | None, core: ConsumerCore, _: int) -> None:
    """Move the position back to the record `oldest`, if the partition is still assigned and its position is after that record."""
    if oldest is not None and not state.retired and state.position > oldest.offset:
        core.rewind([oldest], core.subscription.generations.newest)


def _unwritten(entry: Entry, topic: str, failure: BaseException) -> ProcessingError:
    record = entry.record
    error = ProcessingError(
        f"{record.topic}-{record.partition} at offset {record.offset}: the record was rejected and could not be written to the dead-letter "
        f"topic '{topic}': {as_text(failure)}; it is handed out again, and nothing is committed past it",
        record,
        entry.attempts,
    )
    error.__cause__ = failure
    return error
