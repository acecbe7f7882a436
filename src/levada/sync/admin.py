"""KafkaAdmin: topics and the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from levada.admin import cluster, topics
from levada.admin.cluster import ClusterDescription
from levada.admin.retry import Attempts
from levada.admin.topics import CreatedTopic, TopicDescription
from levada.client.backoff import ExponentialBackoff
from levada.config import AdminConfig
from levada.face import arguments
from levada.not_yet import ADMIN, lacks
from levada.sync.client import KafkaClient
from levada.types import NewTopic


@lacks(ADMIN)
class KafkaAdmin(KafkaClient):
    """Creates, deletes and describes topics, describes the cluster, and sends any other request().

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. Timeouts are in seconds, default
    default.api.timeout.ms. Any thread may use it. Every call raises BootstrapError when no broker can be reached, TimeoutError when its
    time is over, and the error of a broker that refuses; a call about several topics tries all of them, and then raises the first error.
    """

    CONFIG: ClassVar[type[AdminConfig]] = AdminConfig
    KIND: ClassVar[str] = "admin"

    _config: AdminConfig

    def create_topics(
        self, new_topics: Sequence[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]:
        """Create topics; return what was created, by name. validate_only: only say whether they could be.

        Raises TopicAlreadyExistsError, InvalidTopicError and others. Brokers may know a new topic a moment later than this returns.
        """
        wanted = arguments.new_topics(new_topics)
        return self._run(
            topics.create_topics(wanted, self._attempts(), timeout_ms=self._config.request_timeout_ms, validate_only=validate_only),
            timeout,
            "create topics",
        )

    def delete_topics(self, names: Sequence[str], *, timeout: float | None = None) -> None:
        """Delete topics and all their records. Raises UnknownTopicOrPartitionError and others."""
        wanted = arguments.topic_names(names)
        self._run(topics.delete_topics(wanted, self._attempts(), timeout_ms=self._config.request_timeout_ms), timeout, "delete topics")

    def describe_topics(self, names: Sequence[str], *, timeout: float | None = None) -> dict[str, TopicDescription]:
        """Describe topics, by name; it creates none. Raises UnknownTopicOrPartitionError and others."""
        wanted = arguments.topic_names(names)
        return self._run(topics.describe_topics(wanted), timeout, "describe topics")

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of the topics this user may see, sorted. internal: with Kafka's own, such as __consumer_offsets."""
        return self._run(topics.list_topics(internal=internal), timeout, "list topics")

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster's id and brokers."""
        return self._run(cluster.describe_cluster(), timeout, "describe cluster")

    def _attempts(self) -> Attempts:
        backoff = ExponentialBackoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms, Random())
        return Attempts(self._engine.metadata, backoff, self._config.retries)
