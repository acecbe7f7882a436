"""The operations of KafkaClient for both APIs: they check the arguments and return the flows that the engine runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from levada.api import arguments
from levada.api.engine_setup import fallback
from levada.base.flow import Flow
from levada.client.engine import Engine
from levada.client.requests import request
from levada.client.requests.request import Destination
from levada.config import ClientConfig
from levada.protocol.schema import Request

T = TypeVar("T")


class Operation(NamedTuple, Generic[T]):
    """A flow, a text that describes it in error messages, and its timeout in seconds."""

    flow: Flow[T]
    what: str
    timeout_s: float


class ClientCore:
    """The operations of KafkaClient."""

    def __init__(self, config: ClientConfig, engine: Engine) -> None:
        self._config = config
        self._metadata = engine.metadata

    def request(self, message: Request[T], node: Destination, version: int | None, timeout: float | None) -> Operation[T]:
        """Send a request once and return its response unchanged. The arguments are those of KafkaClient.request()."""
        wanted = arguments.message(message)
        flow = request.request(
            wanted,
            node=arguments.destination(node),
            version=None if version is None else arguments.whole("version", version),
            timeout_ms=max(self._config.request_timeout_ms, arguments.deadline_ms(0, timeout)) if timeout is not None else None,
        )
        return self._operation(flow, f"{wanted.NAME} request", timeout)

    def assumed_versions(self) -> dict[str, tuple[int, int]] | None:
        """Return the first and last version of each API for broker.version.fallback, by API name; None if it is not set."""
        assumed = fallback(self._config.broker_version_fallback)
        return None if assumed is None else dict(request.shared_versions(assumed))

    def api_versions(self, node: Destination, timeout: float | None) -> Operation[Mapping[str, tuple[int, int]]]:
        """Return the versions that both a node and levada support, by API name: the first and the last one."""
        return self._operation(request.api_versions(node=arguments.destination(node)), "ApiVersions request", timeout)

    def _operation(self, flow: Flow[T], what: str, timeout: float | None) -> Operation[T]:
        return Operation(flow, what, self._config.default_api_timeout_ms / 1000 if timeout is None else timeout)
