"""Slots: transactions that tasks write because their rows do not fit into the driver, and that the driver ends.

A slot is open until the batch is decided. The ledger's entry is the decision, and names the slots to commit. Every driver that reads the
entry commits its slots. Repeating the commit is harmless.

A slot also commits the number of its batch, as the offset of a group that has the slot's name. The task sends this offset before all rows.
The offset shows later whether the slot was committed. The answer to EndTxn does not always show it: another run may have aborted the slot,
and a late request of its task have begun another transaction, with the same epoch until transaction.version 2.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from levada.base.clock import SystemClock
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, CorruptRecordError, IllegalStateError, KafkaError
from levada.exactly_once.batch import RUN_SIZE, Slot, parsed
from levada.exactly_once.ledger import Entry, continued_in, further_groups, newest, read
from levada.types import OffsetAndMetadata, TopicPartition, TransactionHandle

if TYPE_CHECKING:
    from levada import KafkaAdmin, TransactionDescription

logger = logging.getLogger(__name__)

ABORT_S = 10.0
"""How long to wait until a transaction is aborted, or a group is deleted. If this takes longer, brokers do it later."""
CLASSIC_END, RAISING_END = 4, 5
"""Versions of EndTxn. The second one raises the epoch. Brokers accept it from level 2 of the feature transaction.version on (KIP-890)."""
TOOK_LONGER = (
    "Transactions are aborted after transaction.timeout.ms (kafka.transaction.timeout.ms, at most the brokers' transaction.max.timeout.ms, "
    "15 minutes by default), by an administrator, or by another run or job of this sink. If tasks take longer, divide the rows among more "
    "tasks (repartition)"
)
TIME_LEFT = 0.2
"""The share of transaction.timeout.ms that a slot must have left at the decision, so that there is time to commit it."""


class Unfinished(NamedTuple):
    """Slots that cannot be committed. lost: aborted slots. unknown: the brokers no longer know whether these slots were committed."""

    lost: tuple[Slot, ...]
    unknown: tuple[Slot, ...]

    @property
    def all(self) -> tuple[Slot, ...]:
        """Lost and unknown slots."""
        return self.lost + self.unknown


NOTHING_LEFT = Unfinished((), ())


class Slots:
    """Requests about a sink's ledger and slots. sink: the sink's name, the driver's transactional id."""

    def __init__(self, admin: KafkaAdmin, sink: str) -> None:
        self._admin = admin
        self._sink = sink

    def last_entry(self, at: TopicPartition | None = None, timeout_s: float | None = None, *, stable: bool = True) -> Entry | None:
        """Return the ledger's newest entry, read when no open transaction can change it; None if there is no entry.

        Raises TimeoutError if a transaction stays open; CorruptRecordError and IllegalStateError like ledger.read().

        at: the partition of the ledger's offset. None if it is not known; then a pending first entry is not waited for. stable: False, only
        without `at`, to read the committed offsets without waiting for open transactions. timeout_s: None for default.api.timeout.ms.
        """
        last = self._last_offset(at, timeout_s, stable=stable)
        if last is None:
            return None
        kept_at, offset = last
        groups = further_groups(self._sink, continued_in(offset))
        further = self._admin.list_consumer_group_offsets({group: [kept_at] for group in groups}, require_stable=stable) if groups else {}
        try:
            return read(self._sink, kept_at, offset, [further[group].get(kept_at) for group in groups])
        except CorruptRecordError:
            if self._last_offset(at, timeout_s, stable=stable) == last:
                raise
        # The groups were read one after the other, and another driver has written a new entry in between.
        return self.last_entry(at, timeout_s, stable=stable)

    def _last_offset(
        self, at: TopicPartition | None, timeout_s: float | None, *, stable: bool
    ) -> tuple[TopicPartition, OffsetAndMetadata] | None:
        begun_s = monotonic()
        found = self._admin.list_consumer_group_offsets(self._sink, require_stable=stable, timeout=timeout_s)
        if at is not None and found.get(at) is None:
            # The answer above leaves out a pending offset if it is the first offset of its partition.
            left_s = None if timeout_s is None else max(0.0, timeout_s - (monotonic() - begun_s))
            found = {**found, **self._admin.list_consumer_group_offsets(self._sink, [at], require_stable=True, timeout=left_s)}
        return newest(found)

    def check(self, entry: Entry, begun_ms: Mapping[Slot, int], *, decided: bool = False) -> None:
        """Check the slots of an entry before it is written. Raises IllegalStateError if a slot is not open, or will time out soon, or was
        aborted while its task wrote it.

        begun_ms: when their transactions began, by the coordinators' clocks. After an abort a task may go on, and write the rest of its
        rows into a new transaction with the same epoch. decided: whether the batch was decided before, and these slots replace lost slots.
        """
        slots = entry.slots
        if not slots:
            return
        program = entry.batch.program
        found = self._admin.outcomes(self._admin.describe_transactions, [slot.handle.transactional_id for slot in slots])
        now_ms = SystemClock().wall_ms()
        for slot in slots:
            described = found[slot.handle.transactional_id]
            if isinstance(described, KafkaError):
                if isinstance(described, BrokerError) and described.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise _gone(slot, "its coordinator has forgotten it", program, decided)
                raise described
            if (described.state, described.producer_id, described.producer_epoch) != ("Ongoing", *slot.handle[1:3]):
                raise _gone(slot, f"its coordinator has {described.state} at epoch {described.producer_epoch}", program, decided)
            if described.start_time_ms != begun_ms[slot]:
                raise _gone(slot, "it was aborted while its task wrote it, and has not all of its rows", program, decided)
            if (left_ms := _time_left_ms(described, now_ms)) < TIME_LEFT * described.timeout_ms:
                why = (
                    f"it has {left_ms / 1000:.0f} s left of {described.timeout_ms / 1000:.0f} s, if this machine's clock agrees with the "
                    "brokers'"
                )
                raise _gone(slot, why, program, decided)

    def finish(self, entry: Entry, *, just_decided: bool = False) -> Unfinished:
        """Commit the slots of a decided batch. Return the slots that cannot be committed. May be called again.

        just_decided: whether the caller has decided the batch. Then the outcomes are there, and better proof.
        """
        if not entry.unfinished:
            return NOTHING_LEFT
        try:
            return self._finish(entry, just_decided)
        except KafkaError as error:
            error.add_note(
                f"batch {entry.batch.number} was decided before, but it is not known whether all of it is committed. To commit the rest, "
                f"run the query again within transaction.timeout.ms, or run levada spark transactions recover {self._sink}"
            )
            raise

    def _finish(self, entry: Entry, just_decided: bool) -> Unfinished:
        from levada import TransactionOutcome

        outcomes = self._admin.end_transactions([slot.handle for slot in entry.unfinished], commit=True)
        # Where EndTxn does not raise the epoch, it may have committed a later transaction, which a late request of the task has begun.
        unsure = [
            slot
            for slot in entry.unfinished
            if outcomes[slot.handle] is not TransactionOutcome.COMMITTED or (just_decided and slot.handle.end_version < RAISING_END)
        ]
        if not unsure:
            return NOTHING_LEFT
        # A task that counts as dead may have opened a transaction with the slot's name again, which hides the outcome of the slot.
        if reopened := [slot.handle.transactional_id for slot in unsure if outcomes[slot.handle] is TransactionOutcome.LOST]:
            self._admin.fence_producers(reopened)
        wanted = {slot.handle.transactional_id: [entry.at] for slot in unsure}
        committed = self._admin.list_consumer_group_offsets(wanted, require_stable=True)
        numbers = {group: offset.offset for group, found in committed.items() if (offset := found.get(entry.at)) is not None}
        left = [slot for slot in unsure if numbers.get(slot.handle.transactional_id) != entry.batch.number]
        lost = tuple(slot for slot in left if outcomes[slot.handle] is TransactionOutcome.LOST)
        return Unfinished(lost, tuple(slot for slot in left if slot not in lost))

    def left_open(self, known: Collection[Slot]) -> list[TransactionHandle] | None:
        """Return the sink's open transactions without the known slots: those of unused task attempts, and of runs that have died.

        None if brokers cannot list them. That does no harm: open transactions end at transaction.timeout.ms.
        """
        try:
            listed = self._admin.list_transactions(states=["Ongoing"], timeout=ABORT_S)
            mine = [
                one.transactional_id for one in listed if (parts := parsed(one.transactional_id)) is not None and parts[0] == self._sink
            ]
            if not mine:
                return []
            found = self._admin.outcomes(self._admin.describe_transactions, mine, timeout=ABORT_S)
            features = self._admin.describe_features(timeout=ABORT_S).finalized
        except KafkaError as error:
            logger.info("the open transactions of sink '%s' are not known: %s", self._sink, error)
            return None
        # A task that goes on after an abort that raises the epoch is fenced, instead of beginning another transaction.
        level = features["transaction.version"].max_version if "transaction.version" in features else 0
        end_version = RAISING_END if level >= 2 else CLASSIC_END
        live = {slot.handle[:3] for slot in known}
        return [
            TransactionHandle(name, one.producer_id, one.producer_epoch, end_version, groups=(name,))
            for name, one in found.items()
            if not isinstance(one, KafkaError) and one.state == "Ongoing" and (name, one.producer_id, one.producer_epoch) not in live
        ]

    def abort(self, handles: Collection[TransactionHandle]) -> None:
        """Abort slots that will not be committed, so that readers need not wait. If this fails, they end at transaction.timeout.ms."""
        if not handles:
            return
        try:
            self._admin.end_transactions(handles, commit=False, timeout=ABORT_S)
        except KafkaError as error:
            logger.warning("%d open transactions of sink '%s' were not all aborted: %s", len(handles), self._sink, error)

    def abort_losers(self, handles: Collection[TransactionHandle], run_id: str) -> None:
        """Abort open transactions that are not slots of the batch. run_id: the driver's own run.

        Tasks of this run may still write, without the driver's knowledge. They are fenced: after EndTxn alone they could continue to write,
        before Kafka 3.6 even into a transaction that no coordinator knows. Slots of other runs are ended with their epochs: a driver that
        was paused must not fence tasks of its successor. If one of them continues to write, check() sees it.
        """
        own = {handle for handle in handles if (parts := parsed(handle.transactional_id)) is not None and parts[1].run == run_id[:RUN_SIZE]}
        self.abort([handle for handle in handles if handle not in own])
        if own:
            try:
                self._admin.fence_producers([handle.transactional_id for handle in own], timeout=ABORT_S)
            except KafkaError as error:
                logger.warning("%d unused task attempts of sink '%s' were not all fenced: %s", len(own), self._sink, error)

    def forget(self, groups: Collection[str]) -> None:
        """Delete groups whose offsets are not needed any more, such as those of committed slots. If this fails, they expire."""
        if not groups:
            return
        try:
            found = self._admin.outcomes(self._admin.delete_consumer_groups, list(groups), timeout=ABORT_S)
        except KafkaError as error:
            found = dict.fromkeys(groups, error)
        refused = [error for error in found.values() if isinstance(error, KafkaError) and not _is_missing(error)]
        if refused:
            logger.info("%d groups of sink '%s' stay until they expire: %s", len(refused), self._sink, refused[0])


def _time_left_ms(described: TransactionDescription, now_ms: int) -> float:
    return described.timeout_ms - max(0, now_ms - (described.start_time_ms or now_ms))


def _gone(slot: Slot, why: str, program: str, decided: bool) -> IllegalStateError:
    what = f"transaction '{slot.handle.transactional_id}', with {slot.rows.count} rows of a task, will not be committed: {why}. "
    if decided:
        return IllegalStateError(
            f"{what}It was to replace rows that were lost after an earlier run had decided the batch; the other rows are written. Run the "
            f"{program} again. {TOOK_LONGER}"
        )
    through = "run the query through this batch once" if program == "query" else "write them"
    return IllegalStateError(
        f"{what}Nothing of this batch was written; run the {program} again. {TOOK_LONGER}, or {through} with delivery=at-least-once"
    )


def _is_missing(error: KafkaError) -> bool:
    return isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND
