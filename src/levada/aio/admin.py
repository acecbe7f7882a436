"""KafkaAdmin on asyncio: topics, the cluster, transactions, offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from levada.admin.cluster import ClusterDescription
from levada.admin.topics import CreatedTopic, TopicDescription
from levada.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing
from levada.aio.client import KafkaClient
from levada.aio.connect import connect
from levada.aio.driver import Driver
from levada.client.group_offsets import Committed
from levada.config import AdminConfig
from levada.face.asking import Administering
from levada.face.engines import Connector
from levada.not_yet import ADMIN, lacks
from levada.types import AbortTransactionSpec, NewTopic, OffsetAndMetadata, PartitionInfo, TopicPartition, TransactionHandle

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import AdminSettings


@lacks(ADMIN)
class KafkaAdmin(KafkaClient):
    """Manages topics, transactions and offsets of groups, and sends any other request(): levada.KafkaAdmin, awaited."""

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

    async def create_topics(
        self, new_topics: Sequence[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]:
        """Create topics; return what was created, by name. validate_only: only say whether they could be.

        Raises TopicAlreadyExistsError, InvalidTopicError and others. Brokers may know a new topic a moment later than this returns.
        """
        return await self._run(self._asking.create_topics(new_topics, validate_only, timeout))

    async def delete_topics(self, names: Sequence[str], *, timeout: float | None = None) -> None:
        """Delete topics and all their records. Raises UnknownTopicOrPartitionError and others."""
        await self._run(self._asking.delete_topics(names, timeout))

    async def describe_topics(self, names: Sequence[str], *, timeout: float | None = None) -> dict[str, TopicDescription]:
        """Describe topics, by name; it creates none. Raises UnknownTopicOrPartitionError and others."""
        return await self._run(self._asking.describe_topics(names, timeout))

    async def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of the topics this user may see, sorted. internal: with Kafka's own, such as __consumer_offsets."""
        return await self._run(self._asking.list_topics(internal, timeout))

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster's id and brokers."""
        return await self._run(self._asking.describe_cluster(timeout))

    # Transactions

    async def describe_transactions(
        self, transactional_ids: Sequence[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Describe transactional ids, by id. Raises TRANSACTIONAL_ID_NOT_FOUND (BrokerError) for one that its coordinator does not know."""
        return await self._run(self._asking.describe_transactions(transactional_ids, timeout))

    async def list_transactions(
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
        return await self._run(self._asking.list_transactions(states, producer_ids, duration_ms, pattern, timeout))

    async def describe_producers(
        self, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Describe the producers that partitions remember, with the transactions that are open there."""
        return await self._run(self._asking.describe_producers(partitions, timeout))

    async def fence_producers(self, transactional_ids: Sequence[str], *, timeout: float | None = None) -> dict[str, FencedProducer]:
        """Give each transactional id a new epoch: producers that use it now are refused, and what they have open is aborted."""
        return await self._run(self._asking.fence_producers(transactional_ids, timeout))

    async def abort_transaction(self, spec: AbortTransactionSpec, *, timeout: float | None = None) -> None:
        """Abort a transaction that hangs in one partition, whatever its coordinator knows of it; describe_producers() has the numbers.

        To end a transaction that its coordinator knows, use fence_producers(). Raises INVALID_PRODUCER_EPOCH and
        TRANSACTION_COORDINATOR_FENCED (BrokerError) for epochs older than the partition's, and UnknownTopicOrPartitionError.
        """
        await self._run(self._asking.abort_transaction(spec, timeout))

    # Offsets of groups

    async def list_consumer_group_offsets(
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
        return await self._run(self._asking.list_consumer_group_offsets(group_id, partitions, require_stable, timeout))

    async def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], *, timeout: float | None = None
    ) -> None:
        """Commit offsets for a group without members; one that does not exist is created. Raises GroupError where it has members."""
        await self._run(self._asking.alter_consumer_group_offsets(group_id, offsets, timeout))

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None
    ) -> None:
        """Have a group forget what it has committed for these partitions. Raises GroupError for a group that does not exist."""
        await self._run(self._asking.delete_consumer_group_offsets(group_id, partitions, timeout))

    async def commit_detached(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Commit a transaction that its producer has handed over. As levada.KafkaAdmin.commit_detached()."""
        await self._run(self._asking.end_detached(handle, True, timeout))

    async def abort_detached(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Abort a transaction that its producer has handed over. As levada.KafkaAdmin.abort_detached()."""
        await self._run(self._asking.end_detached(handle, False, timeout))
