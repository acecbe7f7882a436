"""The options of a sink that writes exactly once, with their defaults, and the names that follow from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from levada.errors import AuthorizationError, ConfigError, KafkaError, UnsupportedVersionError
from levada.exactly_once.batch import DEFAULT_PREFIX, BatchId
from levada.exactly_once.ledger import Policy
from levada.spark.options.option_text import check_topic, choice, positive, shown, whole
from levada.types import TopicPartition

DEFAULT_INLINE_MAX_BYTES = 16 << 20
OPTIONS = (
    "exactlyOnce.id",
    "exactlyOnce.batchId",
    "transactionalIdPrefix",
    "ledgerTopic",
    "onMissingLedger",
    "onLedgerAhead",
    "onOtherRows",
    "onLostSlot",
    "inlineMaxBytes",
)
NEEDS = (
    "delivery=exactly-once needs, beyond WRITE on the topics: WRITE and DESCRIBE on transactional ids, and READ on groups, that begin with "
    "'{name}', READ on the topic '{topic}', and brokers of Kafka 2.5 or newer, 3.0 for batches beyond inlineMaxBytes; "
    "delivery=at-least-once needs none of these"
)
NO_BATCH = (
    "option 'exactlyOnce.id' needs 'exactlyOnce.batchId' here, because Spark does not tell which micro-batch is written: this is outside "
    "of a streaming query, or in a thread that foreachBatch has started. Nothing was written"
)
QUERY_ID = "sql.streaming.queryId"
"""The local property of a streaming query's jobs that contains the query's id."""
NOT_GIVEN = (AuthorizationError, UnsupportedVersionError)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,150}")


@dataclass(frozen=True)
class ExactlyOnce:
    """The options of a sink that writes exactly once.

    sink_id: the option exactlyOnce.id; None for the query's id. batch_number: exactlyOnce.batchId; None for the number that Spark gives its
    tasks. prefix: of the transactional id and of the ledger's group. ledger_topic: the ledger is an offset of its partition 0. topic: the
    topic to write to; None if the rows name it. inline_max_bytes: about how many bytes of record batches all tasks together may return to
    the driver; a task with more than its share writes a slot.
    """

    sink_id: str | None
    batch_number: int | None
    prefix: str
    ledger_topic: str
    topic: str | None
    policy: Policy
    inline_max_bytes: int

    @property
    def where(self) -> str:
        """The topic that the rows are written to, in words for messages."""
        return "the topics that they name" if self.topic is None else f"topic '{self.topic}'"

    def check_stream(self) -> None:
        """Raise ConfigError for an option that a streaming sink cannot have."""
        if self.batch_number is not None:
            raise ConfigError("option 'exactlyOnce.batchId' cannot be used by a stream: Spark numbers its micro-batches; leave it out")

    @property
    def needs_micro_batch(self) -> bool:
        """Whether a batch write must be part of a micro-batch, because it needs the number that Spark gives."""
        return self.sink_id is not None and self.batch_number is None

    def is_numbered(self, batch: BatchId) -> bool:
        """Whether the batch has a number by which a repeated write is recognized: it is part of a stream, or has an exactlyOnce.id."""
        return self.sink_id is not None or bool(batch.query_id)

    def id_for(self, batch: BatchId) -> str:
        """Return the id of the sink that writes a batch: exactlyOnce.id, else the id of the query, else an id for this write alone."""
        return self.sink_id or batch.query_id or f"batch-{batch.run_id}"

    def name_for(self, sink_id: str) -> str:
        """Return the sink's transactional id, which is also the id of its ledger's group."""
        return f"{self.prefix}{sink_id}"

    @contextmanager
    def explained(self, name: str) -> Iterator[None]:
        """Add a note with the needed permissions and versions to errors of authorization and of versions. name: the transactional id."""
        try:
            yield
        except KafkaError as error:
            if isinstance(error, NOT_GIVEN) or isinstance(error.__cause__, NOT_GIVEN):
                error.add_note(NEEDS.format(name=name, topic=self.ledger_topic))
            raise

    @property
    def ledger(self) -> TopicPartition:
        """The partition whose committed offset in the ledger's group is the number of the last batch."""
        return TopicPartition(self.ledger_topic, 0)


def exactly_once(own: Mapping[str, str], topic: str | None) -> ExactlyOnce | None:
    """Read the options. None for a sink that writes at least once. Raises ConfigError."""
    if choice(own, "delivery", ("at-least-once", "exactly-once"), "at-least-once") == "at-least-once":
        if given := [name for name in OPTIONS if name in own]:
            raise ConfigError(f"option '{given[0]}' has no effect without delivery=exactly-once")
        return None
    sink_id, number = own.get("exactlyOnce.id"), whole(own, "exactlyOnce.batchId")
    if number is not None and sink_id is None:
        raise ConfigError("option 'exactlyOnce.batchId' needs 'exactlyOnce.id': numbers count the batches of one id (not for streams)")
    ledger_topic = own.get("ledgerTopic", topic)
    if ledger_topic is None:
        raise ConfigError(
            "delivery=exactly-once needs the option 'topic', or, with topics from a column, 'ledgerTopic': any topic that exists; the id "
            "of the last batch is kept as a group's offset of its partition 0, and nothing is written to it"
        )
    check_topic("ledgerTopic", ledger_topic)
    return ExactlyOnce(
        sink_id=None if sink_id is None else _checked("exactlyOnce.id", sink_id),
        batch_number=number,
        prefix=_checked("transactionalIdPrefix", own.get("transactionalIdPrefix", DEFAULT_PREFIX)),
        ledger_topic=ledger_topic,
        topic=topic,
        policy=Policy(
            missing=choice(own, "onMissingLedger", ("warn", "fail", "write"), "warn"),
            ahead=choice(own, "onLedgerAhead", ("fail", "skip"), "fail"),
            other_rows=choice(own, "onOtherRows", ("fail", "skip"), "fail"),
            lost_slot=choice(own, "onLostSlot", ("fail", "rewrite", "skip"), "fail"),
        ),
        inline_max_bytes=positive(own, "inlineMaxBytes") or DEFAULT_INLINE_MAX_BYTES,
    )


def _checked(name: str, value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise ConfigError(f"option '{name}': {shown(value)}; give letters, digits, '.', '_' and '-', at most 150 of them")
    return value
