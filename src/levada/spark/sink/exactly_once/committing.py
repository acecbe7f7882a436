"""What the driver does with the messages of a batch's tasks: it reads the ledger, decides, and writes rows and ledger in one transaction.

A commit sends InitProducerId, which fences other drivers, and then reads the ledger. A process that wrote the ledger's last entry needs
neither for the next batch of the run, if no slots are involved: another driver would have sent InitProducerId before it changed the ledger,
and this process would be fenced. If brokers refuse its producer id and epoch at the first request of the transaction, the commit starts
over with InitProducerId. Each further commit of the run in this process then begins with InitProducerId, too: Spark shares its processes
for commits between all queries of a driver, and processes that commit a query's batches in turn would be fenced each time.

A driver that is fenced later in a commit raises, and does not initialize again, because two drivers would fence each other without end.
A request whose response was lost may arrive late. After such a request the client itself initializes again
(KafkaProducer.begin_transaction()).

The order in which slots are ended makes a batch whole. No slot is committed before the decision. Every driver that decides by an entry
first commits the slots that the entry names. Other open transactions are aborted last, and only those that were listed before the
decision: a driver that was paused after it must not abort what its successor has written.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from levada.base.clock import SystemClock
from levada.errors import IllegalStateError, KafkaError, TimeoutError, TransactionOutcomeUnknownError
from levada.exactly_once.batch import NO_ROWS, BatchId, Rows, Slot, is_of
from levada.exactly_once.ledger import Entry, Verdict, called, check_same_rows, judge
from levada.exactly_once.slots import ABORT_S, NOTHING_LEFT, Slots, Unfinished
from levada.spark.clients import reused_admin, reused_transactional_producer
from levada.spark.sink.exactly_once.sealing import SealedRows, has_lost_identity
from levada.spark.sink.exactly_once.settings import ExactlyOnce
from levada.spark.task import begin_task, tell
from levada.types import TransactionHandle

if TYPE_CHECKING:
    from levada import ArrowDelivery, KafkaProducer

logger = logging.getLogger(__name__)

UNSTABLE_S = 5.0
"""How long to wait for the end of a transaction that may change the ledger, where the driver that began it is probably dead."""
IN_FLIGHT_BYTES = 8 << 20
"""buffer.memory of the driver's producer, where the query has no setting of its own."""
REFRESH_S = 3600.0
"""After how long without rows an empty batch is written into the ledger, which expires after the brokers' offsets.retention.minutes."""


class SinkClients:
    """The clients with which the driver writes a sink's batches. name: the transactional id, and the id of the ledger's group.

    The attribute `sink` identifies the sink: its bootstrap servers and name.
    """

    def __init__(self, client: Mapping[str, str], name: str, settings: ExactlyOnce) -> None:
        self.sink = (client["bootstrap.servers"], name)
        self._name = name
        self._ledger = settings.ledger
        self._groups: set[str] = set()
        # The user's transaction.timeout.ms is for slots. The driver needs milliseconds, and readers wait for one that died.
        mine = {key: value for key, value in client.items() if key != "transaction.timeout.ms"}
        # Records in flight are copies of the batches in the messages, so little memory is enough.
        memory = {"buffer.memory": str(max(IN_FLIGHT_BYTES, 2 * int(mine.get("max.request.size", 0))))}
        self._settings = {**memory, **mine, "transactional.id": name, "transaction.timeout.clamp": "true"}
        self._open = ExitStack()
        self._is_initialized = False
        self.has_begun = False
        self.slots = Slots(self._open.enter_context(reused_admin(client)), name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.close(*raised)

    @cached_property
    def _producer(self) -> KafkaProducer:
        """Made at first use: a batch without rows, and one that is aborted, mostly need only the admin client."""
        return self._open.enter_context(reused_transactional_producer(self._settings, _written.__contains__))

    @property
    def written(self) -> Entry | None:
        """The entry that the producer wrote in its last transaction. None if that is not known to be committed, or the producer is new.

        It is the ledger's last entry, unless brokers fence the next transaction.
        """
        return _written.get(self._producer)

    @property
    def keeps_identity(self) -> bool:
        """Whether a transaction can begin without InitProducerId."""
        return self._producer._keeps_identity

    def initialize(self) -> None:
        """Fence every other driver, and abort the transaction that it has left open. Further calls have no effect."""
        if not self._is_initialized:
            _written.pop(self._producer, None)
            self._producer._forget_identity()
            self._producer.init_transactions()
            self._is_initialized = True

    def last_entry(self, timeout_s: float | None = None) -> Entry | None:
        """Wait until no open transaction can change the ledger, and return its last entry; None if it is empty.

        timeout_s: None for default.api.timeout.ms. Raises TimeoutError if such a transaction stays open for longer, and the errors of
        ledger.read().
        """
        return self.slots.last_entry(self._ledger, timeout_s)

    def entry_after_the_dead(self) -> Entry | None:
        """Return the ledger's last entry; None if it is empty.

        A transaction of another driver that is still open after UNSTABLE_S seconds is aborted first.
        """
        try:
            return self.last_entry(UNSTABLE_S)
        except TimeoutError:
            self.initialize()
            return self.last_entry()

    def write(self, messages: Sequence[SealedRows], entry: Entry | None) -> None:
        """Write the rows in the messages, and the entry into the ledger, in one transaction. entry: None to write no entry.

        Raises TransactionOutcomeUnknownError if it is not known whether the transaction was committed; the ledger shows it later. After
        another error it tries to abort the transaction, and raises the error.
        """
        _written.pop(self._producer, None)
        self._producer.begin_transaction()
        sent: ArrowDelivery | None = None
        try:
            # First the entry: it takes brokers longer than rows, and readers wait from the first row to the end of the transaction.
            for group, offset in entry.offsets(self._name).items() if entry is not None else ():
                self._producer.send_offsets_to_transaction({self._ledger: offset}, group)
                self._groups.add(group)
                self.has_begun = True
            sent = self._producer.send_sealed([batch for message in messages for batch in message.batches])
            self._commit()
            sent.result()
        except TransactionOutcomeUnknownError:
            raise
        except Exception:
            self._abort()
            if sent is not None:
                # This error is enough. Without report() the producer would also warn of the rows that failed.
                with suppress(KafkaError):
                    sent.report(timeout=0)
            raise
        if entry is not None:
            _written[self._producer] = entry

    def _commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except TransactionOutcomeUnknownError as unknown:
            logger.warning("asking again what became of the transaction: %s", unknown)
            try:
                self._producer.commit_transaction()
            except IllegalStateError:  # The producer has a new epoch, and cannot repeat the request of the old one.
                raise unknown from None

    def _abort(self) -> None:
        """Abort, so that readers need not wait. If this fails, the next InitProducerId aborts, or the transaction times out."""
        try:
            self._producer.abort_transaction(ABORT_S)
        except KafkaError as error:
            logger.info("the transaction was not aborted here: %s", error)

    def forget_ledger(self) -> None:
        """Delete the ledger. It is of no use after a write that cannot be repeated."""
        self.slots.forget(self._groups)

    def close(self, *raised: Any) -> None:
        """Give the clients back, for the next commit; close them instead after an exception. raised: the arguments of `__exit__()`."""
        self._open.__exit__(*(raised or (None, None, None)))


def commit(messages: Sequence[SealedRows], settings: ExactlyOnce, client: Mapping[str, str]) -> None:
    """Write the rows of a batch exactly once.

    Raises IllegalStateError if the ledger forbids it or a slot is lost, and errors of the client. A batch without a number
    (ExactlyOnce.is_numbered()) is written again by each call. A batch without rows only changes the ledger, and only if _concerns().
    """
    begin_task()
    batch = _batch_of(messages)
    rows = sum((message.rows for message in messages), NO_ROWS)
    name = settings.name_for(settings.id_for(batch))
    with settings.explained(name), _advised(batch, settings):
        if settings.is_numbered(batch):
            _commit_numbered(messages, batch, rows, settings, client)
        elif rows.count:
            _commit_unnumbered(messages, batch, rows, settings, client)


def _commit_numbered(messages: Sequence[SealedRows], batch: BatchId, rows: Rows, settings: ExactlyOnce, client: Mapping[str, str]) -> None:
    if rows.count and _try_to_continue(messages, rows, settings, client):
        return
    with SinkClients(client, settings.name_for(settings.id_for(batch)), settings) as clients:
        if rows.count or _concerns(batch, clients.entry_after_the_dead()):
            clients.initialize()
            Committing(clients, settings, batch, rows, messages).run()


def _commit_unnumbered(
    messages: Sequence[SealedRows], batch: BatchId, rows: Rows, settings: ExactlyOnce, client: Mapping[str, str]
) -> None:
    slots = _slots_of(messages)
    with SinkClients(client, settings.name_for(settings.id_for(batch)), settings) as clients:
        clients.initialize()
        logger.warning(
            "if this write to %s is repeated, its rows are written again. exactlyOnce.id and exactlyOnce.batchId prevent that, also in "
            "a thread that foreachBatch has started, where Spark does not tell which micro-batch is written",
            settings.where,
        )
        if not slots:
            clients.write(messages, None)
            return
        Committing(clients, settings, batch, rows, messages).run()
        clients.slots.forget(_names(slots))
        clients.forget_ledger()
        _seen.pop(clients.sink, None)


@contextmanager
def _advised(batch: BatchId, settings: ExactlyOnce) -> Iterator[None]:
    """Add notes to errors of the producer, whose texts are for programs that call it."""
    try:
        yield
    except TransactionOutcomeUnknownError as error:
        error.add_note(
            f"Run the {batch.program} again: the ledger tells whether the batch was written"
            if settings.is_numbered(batch)
            else "Look whether the rows are in Kafka before you repeat this write, which would write them again"
        )
        raise
    except KafkaError as error:
        if has_lost_identity(error):
            error.add_note(
                f"another run of this {batch.program}, or a job with the same exactlyOnce.id, has written meanwhile, or this one took too "
                "long: stop one of them, and run the other one again"
            )
        raise


def _try_to_continue(messages: Sequence[SealedRows], rows: Rows, settings: ExactlyOnce, client: Mapping[str, str]) -> bool:
    """Write a batch with the producer id, epoch and entry that this process has from the batch before. Return whether it was written.

    False, with nothing written, if the process has none of them, if slots are involved, or if brokers refuse the producer id and epoch at
    the first request. Raises IllegalStateError if this process has written the batch before, and errors of the client.
    """
    batch = _batch_of(messages)
    sink_id = settings.id_for(batch)
    name = settings.name_for(sink_id)
    clients = SinkClients(client, name, settings)
    try:
        with clients:
            last = clients.written
            if last is None or last.batch.run_id != batch.run_id or last.at != settings.ledger:
                return False
            if judge(batch, last, settings.policy, sink_id) is not Verdict.WRITE or last.slots or _slots_of(messages):
                return False
            # After a lost request, to initialize again could give this process the producer id of another one (KIP-360).
            if not clients.keeps_identity or _refused.get(clients.sink) == batch.run_id:
                return False
            clients.write(messages, Entry(batch, rows, settings.ledger, written_s=_now_s()))
            return True
    except KafkaError as error:
        if clients.has_begun or not has_lost_identity(error):
            raise
        logger.info("%s: it begins anew, as the producer id of the batch before was refused: %s", called(sink_id, batch), error)
        _refused[clients.sink] = batch.run_id
        return False


def _concerns(batch: BatchId, entry: Entry | None) -> bool:
    """Whether a batch without rows has to be written into the ledger. entry: the ledger's last entry; None if it is empty.

    True for batch 0: if a later batch finds the ledger empty, it was lost, even if no batch before had rows. True for a batch that another
    run has written, and after a batch whose slots may not be committed, to finish it. True if the ledger would expire otherwise.
    """
    if entry is None:
        return batch.number == 0
    if entry.batch.number >= batch.number:
        return entry.batch.number == batch.number and entry.batch.run_id != batch.run_id
    if entry.unfinished:
        return True
    return _now_s() - entry.written_s > REFRESH_S


_written: WeakKeyDictionary[KafkaProducer, Entry] = WeakKeyDictionary()
"""By producer: the ledger's entry that it wrote in its last transaction."""
_refused: dict[tuple[str, str], str] = {}
"""By cluster and sink: the run in which brokers refused the producer id and epoch that this process had from a batch before."""
_seen: dict[tuple[str, str], str] = {}
"""By cluster and sink: the run of the batch that this process committed last. The first batch of another run also aborts the transactions
that earlier runs have left open.
"""


class Committing:
    """The commit of one batch. clients: must be initialized."""

    def __init__(self, clients: SinkClients, settings: ExactlyOnce, batch: BatchId, rows: Rows, messages: Sequence[SealedRows]) -> None:
        self._clients = clients
        self._sink = clients.sink
        self._slots = clients.slots
        self._settings = settings
        self._batch = batch
        self._rows = rows
        self._messages = messages
        self._own = _slots_of(messages)
        self._begun_ms = {message.slot: message.begun_ms for message in messages if message.slot and message.begun_ms is not None}
        self._is_overtaken = False
        self._sink_id = settings.id_for(batch)

    def run(self) -> None:
        """Read the ledger, commit the slots of its last entry, and then write, repeat or skip the batch. Raises IllegalStateError."""
        entry = self._clients.last_entry()
        strangers = self._strangers(entry)
        # The entry may be of another batch: a program that gives the numbers may continue without repeating that batch.
        lost = self._slots.finish(entry) if entry is not None else NOTHING_LEFT
        verdict = judge(self._batch, entry, self._settings.policy, self._sink_id)
        name = called(self._sink_id, self._batch)
        if verdict is Verdict.SKIP_AHEAD and entry is not None:
            text = "%s: batch %d was written before: none of this batch's %d rows is written; those that are new since then are lost"
            logger.warning(text, name, entry.batch.number, self._rows.count)
            self._slots.abort([slot.handle for slot in self._own])
            return
        self._announce(entry)
        logger.log(logging.WARNING if verdict is Verdict.WRITE_UNPROVEN else logging.INFO, "%s: %s", name, verdict.value)
        if verdict is Verdict.REPEAT and entry is not None:
            self._repeat(entry, lost)
            # A successor may be at the next batch, and must not lose slots that it has decided by now.
            strangers = [handle for handle in strangers if is_of(handle.transactional_id, self._batch)]
        else:
            if entry is not None and lost.all:
                self._leave_out(entry, lost)
            self._decide(self._messages, self._entry(self._rows, self._own))
        if self._is_overtaken:
            return  # The successor may have decided its slots, which were open before this decision, too.
        self._slots.abort_losers(strangers, self._batch.run_id)
        self._slots.forget(_names(entry.slots) if entry is not None else ())

    def _strangers(self, entry: Entry | None) -> list[TransactionHandle]:
        """Return open transactions of the sink that are neither slots of this batch nor of the ledger's entry.

        Brokers are not asked for them at each batch: only where there are slots, and once in a run.
        """
        known = [*self._own, *(entry.slots if entry is not None else ())]
        if not known and _seen.get(self._sink) == self._batch.run_id:
            return []
        strangers = self._slots.left_open(known)
        if strangers is None:
            return []
        _seen[self._sink] = self._batch.run_id
        return strangers

    def _announce(self, entry: Entry | None) -> None:
        """Log the guarantee and the place of the ledger, at the first batch of a run that is written into the ledger.

        The ledger shows whether it is the first one: the batches of a run may be committed in different processes.
        """
        if entry is not None and entry.batch.run_id == self._batch.run_id:
            return
        last = "is empty" if entry is None else f"has batch {entry.batch.number} as the last one"
        tell(
            logger,
            "%s: the rows of this %s are written to %s exactly once, for readers with isolation.level=read_committed; the ledger is group "
            "'%s' (%s) and %s",
            called(self._sink_id, self._batch),
            self._batch.program,
            self._settings.where,
            self._settings.name_for(self._sink_id),
            self._settings.ledger,
            last,
        )

    def _leave_out(self, entry: Entry, lost: Unfinished) -> None:
        """Log that lost rows of an earlier batch, which no task has now, are left out. Raises IllegalStateError unless onLostSlot=skip."""
        count = sum(slot.rows.count for slot in lost.all)
        text = (
            f"{called(self._sink_id, entry.batch)}: it was decided, and {_listed(lost.all)} with {count} of its {entry.rows.count} rows "
            "was aborted before it was committed"
        )
        if self._settings.policy.lost_slot != "skip":
            raise IllegalStateError(
                f"{text}. Batch {self._batch.number} is another one and has not these rows; nothing of it was written. Repeat batch "
                f"{entry.batch.number}, or go on without the rows by onLostSlot=skip"
            )
        logger.warning("%s; they are left out", text)

    def _decide(self, messages: Sequence[SealedRows], decision: Entry, *, decided: bool = False) -> None:
        """Write the rows of the messages and the ledger's entry in one transaction, which decides the batch. Then commit the batch's slots.

        If a numbered batch has slots, the entry is written again at the end, marked as finished. A later batch of this run may have slots
        with the same names, and no driver may take them for the slots of this entry. decided: whether an earlier run has decided the batch.
        Raises IllegalStateError if a slot is not open before the decision, when nothing is written yet, or was aborted after it.
        """
        self._slots.check(decision, self._begun_ms, decided=decided)
        self._clients.write(messages, decision)
        left = self._slots.finish(decision, just_decided=True)
        if left.unknown:
            count = sum(slot.rows.count for slot in left.unknown)
            raise IllegalStateError(
                f"{called(self._sink_id, self._batch)}: decided, but it is not known whether {_listed(left.unknown)} was committed with "
                f"its {count} rows: the offset that would show it is missing. Look whether these rows are in Kafka before you run the "
                f"{self._batch.program} again, which may take them for written"
            )
        if lost := left.lost:
            again = (
                f"Run the {self._batch.program} again, which writes its rows again if its task has the same ones; if not, see onLostSlot"
                if self._settings.is_numbered(self._batch)
                else "The other rows of this write are in Kafka; to repeat it would write them twice"
            )
            raise IllegalStateError(
                f"{called(self._sink_id, self._batch)}: decided, but {_listed(lost)} was aborted before it was committed: this took longer "
                f"than transaction.timeout.ms, or somebody has fenced it. {again}"
            )
        if decision.slots and self._settings.is_numbered(self._batch):
            self._mark_finished(decision)

    def _mark_finished(self, decision: Entry) -> None:
        """Write into the ledger that all slots are committed. If a job cannot, another driver has taken over, and that is no error."""
        try:
            self._clients.write((), replace(decision, is_finished=True))
        except KafkaError as error:
            whole = f"{called(self._sink_id, self._batch)}: it is decided, and all of it is committed; only the ledger does not say so"
            # Jobs never use the names of their slots again, so nobody needs the mark.
            if not self._batch.is_of_job:
                error.add_note(f"{whole}: run the query again")
                raise
            logger.info("%s: %s", whole, error)
            self._is_overtaken = True

    def _repeat(self, entry: Entry, lost: Unfinished) -> None:
        """Finish a batch that an earlier run has decided, and claim it for this run.

        A second write of the batch in this run would otherwise be taken for a repetition.
        """
        again, decision = self._replaced(entry, lost) if lost.all else ((), self._entry(entry.rows))
        decision = replace(decision, repetition=entry.repetition + 1)
        self._slots.abort([slot.handle for slot in set(self._own) - set(decision.slots)])
        if not lost.all:
            self._compare(entry)
        self._decide(again, decision, decided=True)
        if lost.all:
            self._compare(decision)

    def _compare(self, entry: Entry) -> None:
        if not check_same_rows(self._batch, self._rows, entry, self._settings.policy, self._sink_id):
            logger.warning(
                "%s: it was written before, with %d other rows; none of its %d rows of now is written",
                called(self._sink_id, self._batch),
                entry.rows.count,
                self._rows.count,
            )

    def _entry(self, rows: Rows, slots: tuple[Slot, ...] = ()) -> Entry:
        """Return an entry of this batch. slots: those that have to be committed."""
        return Entry(self._batch, rows, self._settings.ledger, slots, written_s=_now_s())

    def _replaced(self, entry: Entry, unfinished: Unfinished) -> tuple[Sequence[SealedRows], Entry]:
        """Return the messages to write in place of lost slots, and the new entry of the batch.

        If the tasks that wrote the slots have the same rows now, these are written again. Otherwise onLostSlot decides, and "fail" raises
        IllegalStateError.
        """
        lost = unfinished.all
        by_task = {message.task: message for message in self._messages}
        lost_rows = sum((slot.rows for slot in lost), NO_ROWS)
        name = called(self._sink_id, self._batch)
        if not unfinished.unknown and all(slot.name.task in by_task and by_task[slot.name.task].rows == slot.rows for slot in lost):
            logger.warning("%s: %s was lost after the decision; its %d rows are written again", name, _listed(lost), lost_rows.count)
            again = [by_task[slot.name.task] for slot in lost]
            return again, self._entry(entry.rows, _slots_of(again))
        if self._settings.policy.lost_slot == "rewrite":
            logger.warning("%s: %s is lost; the whole batch is written again, and some of its rows twice", name, _listed(lost))
            return self._messages, self._entry(self._rows, self._own)
        if self._settings.policy.lost_slot == "skip":
            logger.warning("%s: %s is lost, and with it %d rows, which nobody writes again", name, _listed(lost), lost_rows.count)
            return (), self._entry(self._rows)
        program = self._batch.program
        raise IllegalStateError(
            f"{name}: an earlier run has decided it, and {_listed(lost)} with {lost_rows.count} of its {entry.rows.count} rows was aborted "
            "before it was committed: transaction.timeout.ms was over, or somebody has aborted it"
            f"{'; of some it is not known any more' if unfinished.unknown else ''}. The rows cannot be written again exactly, because "
            "they are divided among the tasks otherwise now, computed to other values, or may be there. If you have changed how rows are "
            f"divided (maxRecordsPerPartition, shuffle partitions), change that back and run the {program} again, which writes exactly the "
            f"lost rows. Otherwise run the {program} once with onLostSlot=rewrite, which writes the whole batch again, so that some rows "
            "are there twice, or with onLostSlot=skip, which leaves these rows out"
        )


def abort(messages: Sequence[SealedRows], settings: ExactlyOnce, client: Mapping[str, str]) -> None:
    """Abort the slots of a batch that was not committed. If the ledger shows that it was decided, commit its slots instead."""
    begin_task()
    own = _slots_of(messages)
    if not own:
        return
    batch = _batch_of(messages)
    name = settings.name_for(settings.id_for(batch))
    with settings.explained(name), SinkClients(client, name, settings) as clients:
        entry = clients.entry_after_the_dead()
        is_over = entry is not None and entry.batch.number > batch.number and entry.batch.run_id == batch.run_id
        decided: Collection[Slot] = own if is_over else entry.slots if entry is not None else ()
        # Abort before committing: a second write in the same run has slots of the same names, and finish() waits for them.
        clients.slots.abort([slot.handle for slot in set(own) - set(decided)])
        if entry is not None and entry.batch.number == batch.number:
            clients.slots.finish(entry)


def _batch_of(messages: Sequence[SealedRows]) -> BatchId:
    batches = {message.batch for message in messages}
    if len(batches) != 1:
        raise IllegalStateError(f"the tasks of one write are of several micro-batches, {batches}; nothing was written")
    return batches.pop()


def _slots_of(messages: Sequence[SealedRows]) -> tuple[Slot, ...]:
    return tuple(message.slot for message in messages if message.slot is not None)


def _names(slots: Sequence[Slot]) -> list[str]:
    return [slot.handle.transactional_id for slot in slots]


def _now_s() -> int:
    return SystemClock().wall_ms() // 1000


def _listed(slots: Sequence[Slot]) -> str:
    first = f"transaction '{slots[0].handle.transactional_id}'"
    return first if len(slots) == 1 else f"{first} and {len(slots) - 1} more"
