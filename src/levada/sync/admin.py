"""KafkaAdmin: topics, the cluster, transactions, offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from levada.admin.cluster import ClusterDescription
from levada.admin.topics import CreatedTopic, TopicDescription
from levada.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing
from levada.client.group_offsets import Committed
from levada.config import AdminConfig
from levada.face.asking import Administering
from levada.face.engines import Connector
from levada.not_yet import ADMIN, lacks
from levada.sync.client import KafkaClient
from levada.sync.connect import connect
from levada.sync.driver import Driver
from levada.types import AbortTransactionSpec, NewTopic, OffsetAndMetadata, PartitionInfo, TopicPartition, TransactionHandle

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import AdminSettings


@lacks(ADMIN)
class KafkaAdmin(KafkaClient):
    """Manages topics, transactions and offsets of groups, describes the cluster, and sends any other request().

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. Timeouts are in seconds, default
    default.api.timeout.ms. Any thread may use it. Every call raises BootstrapError when no broker can be reached, TimeoutError when its
    time is over, and the error of a broker that refuses; a call about several topics, partitions or ids tries all of them, and then raises
    the first error, whose notes and `outcomes` tell what became of each.
    """

    _asking: Administering

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[AdminSettings],
    ) -> None:
        parsed = AdminConfig.parse(config, **settings)
        self._start(parsed, "admin", _connect)
        self._asking = Administering(parsed, self._engine)

    def create_topics(
        self, new_topics: Sequence[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]:
        """Create topics; return what was created, by name. validate_only: only say whether they could be.

        Raises TopicAlreadyExistsError, InvalidTopicError and others. Brokers may know a new topic a moment later than this returns.
        """
        return self._run(self._asking.create_topics(new_topics, validate_only, timeout))

    def delete_topics(self, names: Sequence[str], *, timeout: float | None = None) -> None:
        """Delete topics and all their records. Raises UnknownTopicOrPartitionError and others."""
        self._run(self._asking.delete_topics(names, timeout))

    def describe_topics(self, names: Sequence[str], *, timeout: float | None = None) -> dict[str, TopicDescription]:
        """Describe topics, by name; it creates none. Raises UnknownTopicOrPartitionError and others."""
        return self._run(self._asking.describe_topics(names, timeout))

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of the topics this user may see, sorted. internal: with Kafka's own, such as __consumer_offsets."""
        return self._run(self._asking.list_topics(internal, timeout))

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster's id and brokers."""
        return self._run(self._asking.describe_cluster(timeout))

    # Transactions

    def describe_transactions(self, transactional_ids: Sequence[str], *, timeout: float | None = None) -> dict[str, TransactionDescription]:
        """Describe transactional ids, by id. Raises TRANSACTIONAL_ID_NOT_FOUND (BrokerError) for one that its coordinator does not know."""
        return self._run(self._asking.describe_transactions(transactional_ids, timeout))

    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids that pass all filters, sorted by id; all brokers are asked.

        states: names such as "Ongoing". duration_ms: only transactions open for longer than that (Kafka since 3.8). pattern: a regular
        expression of Google's RE2 that the whole transactional id matches (Kafka since 4.1). Raises UnsupportedVersionError where brokers
        do not know a filter.
        """
        return self._run(self._asking.list_transactions(states, producer_ids, duration_ms, pattern, timeout))

    def describe_producers(
        self, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Describe the producers that partitions remember, with the transactions that are open there."""
        return self._run(self._asking.describe_producers(partitions, timeout))

    def fence_producers(self, transactional_ids: Sequence[str], *, timeout: float | None = None) -> dict[str, FencedProducer]:
        """Give each transactional id a new epoch: producers that use it now are refused, and what they have open is aborted."""
        return self._run(self._asking.fence_producers(transactional_ids, timeout))

    def abort_transaction(self, spec: AbortTransactionSpec, *, timeout: float | None = None) -> None:
        """Abort a transaction that hangs in one partition, whatever its coordinator knows of it; describe_producers() has the numbers.

        To end a transaction that its coordinator knows, use fence_producers(). Raises INVALID_PRODUCER_EPOCH and
        TRANSACTION_COORDINATOR_FENCED (BrokerError) for epochs older than the partition's, and UnknownTopicOrPartitionError.
        """
        self._run(self._asking.abort_transaction(spec, timeout))

    # Offsets of groups

    def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition | PartitionInfo] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> Committed:
        """Return what a group has committed for these partitions, None for nothing; by default all that it has committed.

        require_stable: wait for transactions that may change the offsets when they end. A group that does not exist has committed nothing.
        """
        return self._run(self._asking.list_consumer_group_offsets(group_id, partitions, require_stable, timeout))

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], *, timeout: float | None = None
    ) -> None:
        """Commit offsets for a group without members; one that does not exist is created. Raises GroupError where it has members."""
        self._run(self._asking.alter_consumer_group_offsets(group_id, offsets, timeout))

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None
    ) -> None:
        """Have a group forget what it has committed for these partitions. Raises GroupError for a group that does not exist."""
        self._run(self._asking.delete_consumer_group_offsets(group_id, partitions, timeout))

    def commit_detached(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Commit a transaction that its producer has handed over by detach_transaction(), in this process or another one.

        Asks again until there is an answer. To repeat the call is safe, after a success too, as long as nobody makes another producer with
        this transactional id: do not before the outcome is known. Raises BrokerError (INVALID_TXN_STATE) where it was not
        committed: after transaction.timeout.ms the coordinator aborts it. Raises ProducerFencedError and BrokerError
        (INVALID_PRODUCER_ID_MAPPING) where this call has not committed it, and the coordinator can no longer tell whether one before has;
        TransactionOutcomeUnknownError when the time is over.

        A success does not tell that an administrator aborted it by force before, nor that a topic was deleted meanwhile. Records become
        visible a few milliseconds after the answer.
        """
        self._run(self._asking.end_detached(handle, True, timeout))

    def abort_detached(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Abort a transaction that its producer has handed over. What commit_detached() says of repetitions and errors holds here.

        Raises BrokerError (INVALID_TXN_STATE) where it was committed before, ProducerFencedError where it is open no more.
        """
        self._run(self._asking.end_detached(handle, False, timeout))
