"""Retries, coordinators and timeouts for all operations of KafkaAdmin."""

from __future__ import annotations

from typing import TypeVar

from levada.admin.per_key import Attempts
from levada.api.client import ClientCore, Operation
from levada.base.clock import ExponentialBackoff
from levada.base.flow import Flow
from levada.client.engine import Engine
from levada.client.requests.coordinator_finder import CoordinatorFinder
from levada.client.requests.flow_runner import FlowsBeside
from levada.config import AdminConfig
from levada.errors import KafkaError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

CLIENT = "KafkaAdmin"


class AdminCore(ClientCore):
    """The part of KafkaAdmin that the blocking API and levada.aio share.

    spawn: runs flows in parallel. coordinators: finds the coordinators of groups and transactional ids. is_of_controllers: whether the
    client talks to controllers instead of brokers.
    """

    def __init__(self, config: AdminConfig, engine: Engine) -> None:
        super().__init__(config, engine)
        self.request_timeout_ms = config.request_timeout_ms
        self.spawn = FlowsBeside(engine.flows, engine.now)
        self.coordinators = engine.coordinators
        self.is_of_controllers = bool(config.bootstrap_controllers)
        self.log = engine.deferred.log(__name__)
        self._network = engine.network
        self._retries = config.retries
        self._random = engine.random

    def has_reached_brokers(self) -> bool:
        """Return whether any broker has answered a request of this client."""
        return self._network.ever_answered

    def operation(self, flow: Flow[T], what: str, timeout: float | None) -> Operation[T]:
        """Return a flow with its description for error messages. timeout: seconds, None for default.api.timeout.ms."""
        return self._operation(flow, what, timeout)

    def attempts(self) -> Attempts:
        """Return a new counter of retries for one call."""
        backoff = ExponentialBackoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms, self._random)
        return Attempts(self._metadata, backoff, self._retries)

    def about_groups(self) -> tuple[Attempts, CoordinatorFinder, FlowsBeside]:
        """Return arguments for calls to coordinators.

        They are a retry counter, the coordinator finder, and the object that runs flows in parallel.
        """
        return self.attempts(), self.coordinators, self.spawn


def outcomes_of(error: KafkaError) -> dict[K, V | KafkaError]:
    """Return the result or the error of each key of a call that has raised this error. An error without outcomes is raised again."""
    if not error.outcomes:
        raise error
    return {key: error.results[key] if failed is None else failed for key, failed in error.outcomes.items()}
