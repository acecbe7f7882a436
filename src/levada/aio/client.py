"""KafkaClient on asyncio: any request to any node."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID

from levada.aio.connect import connect, start
from levada.aio.driver import Driver
from levada.api.arguments import deadline_ms
from levada.api.client import ClientCore, Operation
from levada.api.engine_setup import Connector
from levada.api.lifecycle import HoldsConnections
from levada.api.reporting import Reporting
from levada.base.unsupported_names import asynchronous
from levada.client.requests.request import Destination
from levada.config import ClientConfig
from levada.metrics import Metrics
from levada.protocol.schema import Request

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import ClientSettings

T = TypeVar("T")


@asynchronous
class KafkaClient(HoldsConnections):
    """Sends any request of Kafka's protocol. See levada.KafkaClient; calls that wait are coroutines.

    It is created in a running event loop, and used only in that loop.
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

    async def request(
        self, message: Request[T], *, node: Destination = None, version: int | None = None, timeout: float | None = None
    ) -> T:
        """Send a request once and return its response unchanged, like levada.KafkaClient.request().

        node: a node id, "controller", or None for the least loaded node. timeout: seconds.
        """
        return await self._run(self._core.request(message, node, version, timeout))

    async def api_versions(self, *, node: Destination = None, timeout: float | None = None) -> dict[str, tuple[int, int]]:
        """Return the versions that both a node and levada support, by API name ("Fetch"): the first and the last one.

        Like levada.KafkaClient.api_versions().
        """
        assumed = self._core.assumed_versions()
        if assumed is not None:
            self._driver.check_usable()
            return assumed
        versions = await self._run(self._core.api_versions(node, timeout))
        return dict(versions)

    def metrics(self) -> Metrics:
        """Return the client's metrics under the names of Java's metrics: see docs/METRICS.md. Does not wait; any thread may call it."""
        return self._reporting.metrics()

    async def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id that the cluster has given this client for telemetry, as levada.KafkaClient.client_instance_id()."""
        return await self._driver.call(self._reporting.client_instance_id(timeout))

    async def close(self, timeout: float | None = None) -> None:
        """Close the connections; calls of other tasks end with ClosedError. Idempotent.

        timeout: seconds for the last push of telemetry, if there is one; it never takes more than one second. Raises IllegalStateError in
        another event loop.
        """
        if not self._driver.has_ended():
            try:
                await self._driver.call(self._reporting.close(deadline_ms(self._driver.now_ms(), timeout)))
            finally:
                self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _run(self, operation: Operation[T]) -> T:
        return await self._driver.run(operation.flow, operation.timeout_s, operation.what)
