"""KafkaClient: any request to any node."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID

from levada.api.arguments import checked_timeout, deadline_ms
from levada.api.client import ClientCore, Operation
from levada.api.engine_setup import Connector
from levada.api.lifecycle import HoldsConnections
from levada.api.reporting import Reporting
from levada.client.requests.request import Destination
from levada.config import ClientConfig
from levada.metrics import Metrics
from levada.protocol.schema import Request
from levada.sync.connect import connect, start
from levada.sync.driver import Driver

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import ClientSettings

T = TypeVar("T")

CLOSE_TIMEOUT_S = 30.0


class KafkaClient(HoldsConnections):
    """Sends any request of Kafka's protocol, in any version that both sides support, to any node.

    It is for requests that no other client has a method for. The messages are in `levada.protocol.messages`, one module per API;
    docs/PROTOCOL.md lists them. Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md.
    Timeouts are in seconds, by default default.api.timeout.ms. Any thread may use it.
    """

    @ClientConfig.in_help
    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[ClientSettings],
    ) -> None:
        parsed = ClientConfig.parse(config, **settings)
        self._start(parsed, "client", _connect)
        self._core = ClientCore(parsed, self._engine)

    def _start(self, config: ClientConfig, kind: str, connect: Connector[Driver]) -> None:
        self._engine, self._driver = connect(config, kind)
        self._reporting = Reporting(config, self._engine, self._driver, kind)
        start(self, self._driver)

    def request(self, message: Request[T], *, node: Destination = None, version: int | None = None, timeout: float | None = None) -> T:
        """Send a request once and return its response unchanged. Error codes in the response raise nothing (see
        levada.errors.broker_error).

        node: a node id; "controller"; None for the least loaded node. version: None for the newest version that both sides have released;
        an unreleased version must be given. A Produce with acks=0 has no response: None is returned. timeout: if it is longer than
        request.timeout.ms, the broker may take that long to answer. A node answers in order, so a request waits behind those that other
        threads sent before.

        Raises UnsupportedVersionError, which names the versions of both sides, before anything is sent; BootstrapError if no broker can be
        reached; ConnectError if the node cannot be reached; DisconnectError if the response is lost (the request may have been carried
        out); TimeoutError.
        """
        return self._run(self._core.request(message, node, version, timeout))

    def api_versions(self, *, node: Destination = None, timeout: float | None = None) -> dict[str, tuple[int, int]]:
        """Return the versions that both a node and levada support, by API name ("Fetch"): the first and the last one. Raises as request()
        does.

        With broker.version.fallback no node is asked, and the result has the versions of that release.
        """
        assumed = self._core.assumed_versions()
        if assumed is not None:
            self._driver.check_usable()
            return assumed
        versions = self._run(self._core.api_versions(node, timeout))
        return dict(versions)

    def metrics(self) -> Metrics:
        """Return the client's metrics under the names of Java's metrics: see docs/METRICS.md. Any thread may call it."""
        return self._reporting.metrics()

    def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id that the cluster has given this client for telemetry, after waiting for it (KIP-714).

        timeout: seconds, by default default.api.timeout.ms. Raises IllegalStateError without enable.metrics.push=true, and TimeoutError,
        with the cause if it is known: a cluster without a plugin for telemetry gives no ids.
        """
        return self._driver.call(self._reporting.client_instance_id(timeout))

    def close(self, timeout: float | None = None) -> None:
        """Close the connections; calls of other threads end with ClosedError. Idempotent. timeout: seconds, by default 30."""
        limit_s = CLOSE_TIMEOUT_S if timeout is None else checked_timeout(timeout)
        try:
            self._driver.call(self._reporting.close(deadline_ms(self._driver.now_ms(), limit_s)))
        finally:
            self._driver.close(limit_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, operation: Operation[T]) -> T:
        return self._driver.run(operation.flow, operation.timeout_s, operation.what)
