"""KafkaAdmin on asyncio: topics and the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from levada.admin.cluster import ClusterDescription
from levada.admin.topics import CreatedTopic, TopicDescription
from levada.aio.client import KafkaClient
from levada.aio.connect import connect
from levada.aio.driver import Driver
from levada.config import AdminConfig
from levada.face.asking import Administering
from levada.face.engines import Connector
from levada.not_yet import ADMIN, lacks
from levada.types import NewTopic, TransactionHandle

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import AdminSettings


@lacks(ADMIN)
class KafkaAdmin(KafkaClient):
    """Creates, deletes and describes topics, describes the cluster, and sends any other request(): levada.KafkaAdmin, awaited."""

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

    async def commit_detached(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Commit a transaction that its producer has handed over. As levada.KafkaAdmin.commit_detached()."""
        await self._run(self._asking.end_detached(handle, True, timeout))

    async def abort_detached(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Abort a transaction that its producer has handed over. As levada.KafkaAdmin.abort_detached()."""
        await self._run(self._asking.end_detached(handle, False, timeout))
