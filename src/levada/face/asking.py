"""KafkaClient and KafkaAdmin below their faces: arguments become flows of the engine, each with its name in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from levada.admin import cluster, topics
from levada.admin.cluster import ClusterDescription
from levada.admin.retry import Attempts
from levada.admin.topics import CreatedTopic, TopicDescription
from levada.client import request
from levada.client.backoff import ExponentialBackoff
from levada.client.engine import Engine
from levada.client.request import Destination
from levada.config import AdminConfig, ClientConfig
from levada.face import arguments
from levada.face.engines import fallback
from levada.flow import Flow
from levada.protocol.schema import Request
from levada.types import NewTopic

T = TypeVar("T")


class Operation(NamedTuple, Generic[T]):
    """A flow, what it does in words, and how many seconds it may take."""

    flow: Flow[T]
    what: str
    timeout_s: float


class Asking:
    """What KafkaClient can do."""

    def __init__(self, config: ClientConfig, engine: Engine) -> None:
        self._config = config
        self._metadata = engine.metadata
        self._random = engine.random

    def request(self, message: Request[T], node: Destination, version: int | None, timeout: float | None) -> Operation[T]:
        """Send a request once and return its response as it came."""
        wanted = arguments.message(message)
        flow = request.request(
            wanted,
            node=arguments.destination(node),
            version=None if version is None else arguments.whole("version", version),
            timeout_ms=max(self._config.request_timeout_ms, arguments.deadline_ms(0, timeout)) if timeout is not None else None,
        )
        return self._operation(flow, f"{wanted.NAME} request", timeout)

    def assumed_versions(self) -> dict[str, tuple[int, int]] | None:
        """Return what broker.version.fallback says is spoken, None without it."""
        assumed = fallback(self._config.broker_version_fallback)
        return None if assumed is None else dict(request.shared_versions(assumed))

    def api_versions(self, node: Destination, timeout: float | None) -> Operation[Mapping[str, tuple[int, int]]]:
        """Return the versions that a node and levada share."""
        return self._operation(request.api_versions(node=arguments.destination(node)), "ApiVersions request", timeout)

    def _operation(self, flow: Flow[T], what: str, timeout: float | None) -> Operation[T]:
        return Operation(flow, what, self._config.default_api_timeout_ms / 1000 if timeout is None else timeout)


class Administering(Asking):
    """What KafkaAdmin can do."""

    _config: AdminConfig

    def create_topics(
        self, new_topics: Sequence[NewTopic], validate_only: bool, timeout: float | None
    ) -> Operation[dict[str, CreatedTopic]]:
        """Create topics."""
        wanted, limit_ms = arguments.new_topics(new_topics), self._config.request_timeout_ms
        flow = topics.create_topics(wanted, self._attempts(), timeout_ms=limit_ms, validate_only=validate_only)
        return self._operation(flow, "create topics", timeout)

    def delete_topics(self, names: Sequence[str], timeout: float | None) -> Operation[None]:
        """Delete topics."""
        wanted = arguments.topic_names(names)
        flow = topics.delete_topics(wanted, self._attempts(), timeout_ms=self._config.request_timeout_ms)
        return self._operation(flow, "delete topics", timeout)

    def describe_topics(self, names: Sequence[str], timeout: float | None) -> Operation[dict[str, TopicDescription]]:
        """Describe topics."""
        return self._operation(topics.describe_topics(arguments.topic_names(names)), "describe topics", timeout)

    def list_topics(self, internal: bool, timeout: float | None) -> Operation[list[str]]:
        """List topics."""
        return self._operation(topics.list_topics(internal=internal), "list topics", timeout)

    def describe_cluster(self, timeout: float | None) -> Operation[ClusterDescription]:
        """Describe the cluster."""
        return self._operation(cluster.describe_cluster(), "describe cluster", timeout)

    def _attempts(self) -> Attempts:
        backoff = ExponentialBackoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms, self._random)
        return Attempts(self._metadata, backoff, self._config.retries)
