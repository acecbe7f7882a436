"""KafkaClient and KafkaAdmin below their faces: arguments become flows of the engine, each with its name in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from levada.admin import cluster, detached, group_offsets, topics, transactions
from levada.admin.cluster import ClusterDescription
from levada.admin.retry import Attempts
from levada.admin.topics import CreatedTopic, TopicDescription
from levada.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing
from levada.client import request
from levada.client.backoff import ExponentialBackoff
from levada.client.engine import Engine
from levada.client.flow_runner import FlowsBeside
from levada.client.group_offsets import Committed
from levada.client.request import Destination
from levada.config import AdminConfig, ClientConfig
from levada.face import arguments
from levada.face.engines import fallback
from levada.flow import Flow
from levada.protocol.schema import Request
from levada.types import AbortTransactionSpec, NewTopic, OffsetAndMetadata, PartitionInfo, TopicPartition, TransactionHandle

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
        self._spawn = FlowsBeside(engine.flows, engine.now)
        self._coordinators = engine.coordinators

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

    # Transactions

    def describe_transactions(self, ids: Sequence[str], timeout: float | None) -> Operation[dict[str, TransactionDescription]]:
        """Describe transactional ids."""
        wanted = arguments.ids(ids, "transactional ids")
        flow = transactions.describe_transactions(wanted, self._attempts(), self._coordinators, self._spawn)
        return self._operation(flow, "describe transactions", timeout)

    def list_transactions(
        self,
        states: Sequence[str],
        producer_ids: Sequence[int],
        duration_ms: int | None,
        pattern: str | None,
        timeout: float | None,
    ) -> Operation[list[TransactionListing]]:
        """List transactional ids."""
        if pattern is not None and not isinstance(pattern, str):
            raise TypeError(f"a pattern is a regular expression as text, got {pattern!r}")
        flow = transactions.list_transactions(
            self._attempts(),
            self._spawn,
            states=arguments.transaction_states(states),
            producer_ids=[arguments.whole("producer_ids", producer_id) for producer_id in producer_ids],
            duration_ms=None if duration_ms is None else arguments.whole("duration_ms", duration_ms),
            pattern=pattern,
        )
        return self._operation(flow, "list transactions", timeout)

    def describe_producers(
        self, partitions: Iterable[TopicPartition | PartitionInfo], timeout: float | None
    ) -> Operation[dict[TopicPartition, tuple[ProducerState, ...]]]:
        """Describe the producers of partitions."""
        flow = transactions.describe_producers(arguments.topic_partitions(partitions), self._attempts())
        return self._operation(flow, "describe producers", timeout)

    def fence_producers(self, ids: Sequence[str], timeout: float | None) -> Operation[dict[str, FencedProducer]]:
        """Fence the producers of transactional ids."""
        wanted, limit_ms = arguments.ids(ids, "transactional ids"), self._config.request_timeout_ms
        flow = transactions.fence_producers(wanted, self._attempts(), self._coordinators, self._spawn, timeout_ms=limit_ms)
        return self._operation(flow, "fence producers", timeout)

    def abort_transaction(self, spec: AbortTransactionSpec, timeout: float | None) -> Operation[None]:
        """Abort a transaction in one partition."""
        return self._operation(transactions.abort_transaction(arguments.abort_spec(spec), self._attempts()), "abort transaction", timeout)

    # Offsets of groups

    def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition | PartitionInfo] | None, require_stable: bool, timeout: float | None
    ) -> Operation[Committed]:
        """List what a group has committed."""
        group, wanted = arguments.group_id(group_id), None if partitions is None else arguments.topic_partitions(partitions)
        flow = group_offsets.list_group_offsets(group, wanted, self._attempts(), self._coordinators, stable=require_stable)
        return self._operation(flow, "list consumer group offsets", timeout)

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], timeout: float | None
    ) -> Operation[None]:
        """Commit for a group."""
        group, wanted = arguments.group_id(group_id), arguments.offsets_to_commit(offsets)
        flow = group_offsets.alter_group_offsets(group, wanted, self._attempts(), self._coordinators)
        return self._operation(flow, "alter consumer group offsets", timeout)

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition | PartitionInfo], timeout: float | None
    ) -> Operation[None]:
        """Have a group forget offsets."""
        group, wanted = arguments.group_id(group_id), arguments.topic_partitions(partitions)
        flow = group_offsets.delete_group_offsets(group, wanted, self._attempts(), self._coordinators)
        return self._operation(flow, "delete consumer group offsets", timeout)

    def end_detached(self, handle: TransactionHandle, commits: bool, timeout: float | None) -> Operation[None]:
        """Commit or abort a transaction that was handed over."""
        wanted = arguments.transaction_handle(handle)
        flow = detached.end(wanted, self._coordinators, self._attempts(), commits=commits)
        return self._operation(flow, f"{'commit' if commits else 'abort'} of a detached transaction", timeout)

    def _attempts(self) -> Attempts:
        backoff = ExponentialBackoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms, self._random)
        return Attempts(self._metadata, backoff, self._config.retries)
