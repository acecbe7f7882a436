"""What the driver does with the messages of a batch's tasks: it reads the ledger, decides, and writes rows and ledger in one transaction.

Each commit makes clients of its own and begins with InitProducerId, before it reads the ledger. Spark commits the batches of one query in
several processes in turn: a client that one of them keeps would be fenced by the next. A driver that is fenced within its transaction
raises, and does not initialize again, as two drivers would fence each other without end. Requests whose answers were lost may arrive late:
the client itself initializes anew after one (KafkaProducer.begin_transaction()).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from levada.errors import AuthorizationError, IllegalStateError, KafkaError, TransactionOutcomeUnknownError, UnsupportedVersionError
from levada.spark.clients import admin_settings
from levada.spark.exactly_once.ledger import NO_ROWS, BatchId, Entry, Rows, Verdict, judge, newest
from levada.spark.exactly_once.sealing import SealedRows
from levada.spark.exactly_once.settings import ExactlyOnce
from levada.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from levada import KafkaAdmin, KafkaProducer

logger = logging.getLogger(__name__)

ABORT_S = 10.0
NEEDS = (
    "delivery=exactly-once needs, beyond WRITE on the topics: WRITE and DESCRIBE on the transactional id, READ on the group (both are "
    "called '{name}') and READ on the topic '{topic}', and brokers of Kafka 2.5 or newer; delivery=at-least-once needs none of these"
)


class Marker:
    """The clients that end a sink's batches. name: the transactional id and the ledger's group."""

    def __init__(self, client: Mapping[str, str], name: str, ledger_topic: str) -> None:
        from levada import KafkaAdmin, KafkaProducer

        self._name = name
        self._ledger = TopicPartition(ledger_topic, 0)
        self._admin: KafkaAdmin = KafkaAdmin(admin_settings(client))
        try:
            settings = {**client, "transactional.id": name, "transaction.timeout.clamp": "true"}
            self._producer: KafkaProducer = KafkaProducer(settings)
        except BaseException:
            self._admin.close()
            raise

    def initialize(self) -> None:
        """Fence every other driver and abort the transaction that one left open."""
        self._producer.init_transactions()

    def last_entry(self) -> Entry | None:
        """Read the ledger, once no open transaction may change it."""
        # By name, because an entry that is the first one of its partition is otherwise left out, and not waited for, while it is pending;
        # and without names, for what a ledger on another topic says.
        named = self._admin.list_consumer_group_offsets(self._name, [self._ledger], require_stable=True)
        return newest({**self._admin.list_consumer_group_offsets(self._name, require_stable=True), **named}, self._name)

    def write(self, messages: Sequence[SealedRows], entry: Entry | None) -> None:
        """Write the rows, and the entry of the ledger with them: all of it, or nothing. entry: None for a write without a ledger.

        Raises TransactionOutcomeUnknownError where it is not known which of the two happened; the next look at the ledger tells it.
        """
        self._producer.begin_transaction()
        try:
            sent = self._producer.send_sealed([batch for message in messages for batch in message.batches])
            if entry is not None:
                offset = OffsetAndMetadata(entry.batch.number, metadata=entry.metadata)
                self._producer.send_offsets_to_transaction({self._ledger: offset}, self._name)
            self._commit()
            sent.result()
        except TransactionOutcomeUnknownError:
            raise
        except KafkaError:
            self._abort()
            raise

    def _commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except TransactionOutcomeUnknownError as unknown:
            logger.warning("asking again what became of the transaction: %s", unknown)
            self._producer.commit_transaction()

    def _abort(self) -> None:
        """Let readers go on at once. Where that fails the next InitProducerId does it, or the brokers after transaction.timeout.ms."""
        try:
            self._producer.abort_transaction(ABORT_S)
        except (KafkaError, IllegalStateError) as error:
            logger.info("the transaction was not aborted here: %s", error)

    def close(self) -> None:
        """Let go of the connections."""
        self._producer.close(timeout=0)
        self._admin.close()


def commit(messages: Sequence[SealedRows], settings: ExactlyOnce, client: Mapping[str, str]) -> None:
    """Write the rows of a batch exactly once. Raises IllegalStateError where the ledger forbids it, and errors of the client."""
    batch, rows = _summed(messages)
    if not rows.count:
        return
    sink_id = settings.sink_id or (batch.query_id if batch else f"batch-{uuid.uuid4()}")
    name = settings.name_for(sink_id)
    with _explained(name, settings), closing(Marker(client, name, settings.ledger_topic)) as marker:
        marker.initialize()
        if batch is None:
            logger.warning(
                "written in one transaction; if this write is repeated its rows are written again. exactlyOnce.id and exactlyOnce.batchId "
                "prevent that, also in a thread that foreachBatch has started, where Spark does not tell which micro-batch is written"
            )
            marker.write(messages, None)
            return
        entry = marker.last_entry()
        verdict = judge(batch, rows, entry, settings.policy, sink_id)
        level = logging.INFO if verdict in (Verdict.WRITE, Verdict.SKIP) else logging.WARNING
        logger.log(level, "exactly-once sink '%s', batch %d: %s", sink_id, batch.number, verdict.value)
        if verdict in (Verdict.WRITE, Verdict.WRITE_UNPROVEN):
            marker.write(messages, Entry(batch, rows))
        elif entry is not None and entry.batch.number == batch.number:
            # Claimed for this run: a second write of the batch with the same id would otherwise be taken for a repetition.
            marker.write((), Entry(batch, entry.rows))


def _summed(messages: Sequence[SealedRows]) -> tuple[BatchId | None, Rows]:
    batches = {message.batch for message in messages}
    if len(batches) != 1:
        raise IllegalStateError(f"the tasks of one write are of several micro-batches, {batches}; nothing was written")
    return batches.pop(), sum((message.rows for message in messages), NO_ROWS)


@contextmanager
def _explained(name: str, settings: ExactlyOnce) -> Iterator[None]:
    """Say what the guarantee needs where a permission, or the age of the brokers, is in its way."""
    try:
        yield
    except (AuthorizationError, UnsupportedVersionError) as error:
        error.add_note(NEEDS.format(name=name, topic=settings.ledger_topic))
        raise
