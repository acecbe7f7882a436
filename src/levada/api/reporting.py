"""The metrics of a client: metrics() for its program, and telemetry for the brokers with enable.metrics.push=true (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from levada.api.arguments import deadline_ms
from levada.api.metric_tables import MEANINGS, read_metrics
from levada.base.clock import ExponentialBackoff
from levada.base.flow import CallerFlow, Until
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.client.network.network_client import timeout_error
from levada.config import ClientConfig
from levada.errors import IllegalStateError, KafkaError, TimeoutError
from levada.metrics import MetricName, Metrics
from levada.metrics import exported as watched

if TYPE_CHECKING:
    from levada.client.telemetry.telemetry import Telemetry
    from levada.consumer.core import ConsumerCore
    from levada.consumer.share.core import ShareConsumerCore
    from levada.producer.core import ProducerCore

LAST_PUSH_MS = 1_000
"""How long closing a client waits at most for its last push."""
LABELS = ("transactional_id", "group_id", "client_rack")
"""Settings that are pushed as labels, with their names there. Brokers know the client.id and the client software already."""


class Reporting:
    """The metrics and the telemetry of one client. kind: one of levada.api.metric_tables.PREFIXES.

    core: of a producer, a consumer or a share consumer; None for other clients.
    """

    def __init__(
        self,
        config: ClientConfig,
        engine: Engine,
        host: Host,
        kind: str,
        core: ProducerCore | ConsumerCore | ShareConsumerCore | None = None,
    ) -> None:
        self._default_s = config.default_api_timeout_ms / 1000
        self._engine = engine
        self._host = host
        self._kind = kind
        self._core = core
        self._telemetry = self._telemetry_of(config) if config.enable_metrics_push else None
        watched.opened(self)

    def metrics(self) -> Metrics:
        """Return the current metrics. May be called from any thread.

        Raises ClosedError, CrashedError, ForkedError, and IllegalStateError in a finalizer that interrupts the client's own work.
        """
        self._host.check_open()
        with self._host.undisturbed(), self._host.lock:
            return Metrics(self._read(self._host.now_ms()), MEANINGS)

    def client_instance_id(self, timeout: float | None) -> CallerFlow[UUID]:
        """Return the id that the cluster has given this client. timeout: seconds, None for default.api.timeout.ms.

        Raises IllegalStateError without enable.metrics.push=true, and TimeoutError.
        """
        self._host.check_usable()
        telemetry = self._telemetry
        if telemetry is None:
            raise IllegalStateError("client_instance_id(): telemetry is off; set enable.metrics.push=true")
        limit_s = self._default_s if timeout is None else timeout
        if not (yield Until(telemetry.instance_id, deadline_ms(self._host.now_ms(), limit_s))):
            with self._host.lock:
                why = f": {telemetry.failure}" if telemetry.failure else ""
                late = TimeoutError(f"client_instance_id(): no broker has given this client an id within {limit_s:g} s{why}")
                raise timeout_error(self._engine.network, late, limit_s)
        return telemetry.instance_id.result()

    def close(self, over_ms: int) -> CallerFlow[None]:
        """Push metrics for the last time, if brokers want them. Waits at most LAST_PUSH_MS, and not beyond the time over_ms."""
        if self._telemetry is None:
            return
        try:
            self._host.check_usable()
        except KafkaError:
            return
        with self._host.lock:
            now_ms = self._host.now_ms()
            limit_ms = min(over_ms, now_ms + LAST_PUSH_MS)
            pushed = self._telemetry.close(now_ms, limit_ms)
        self._host.due_now()
        yield Until(pushed, limit_ms)

    def _read(self, now_ms: int) -> Mapping[MetricName, float]:
        return read_metrics(self._engine, now_ms, self._kind, self._core)

    def _telemetry_of(self, config: ClientConfig) -> Telemetry:
        # Off by default: most programs never load it.
        from levada.client.telemetry.telemetry import Telemetry
        from levada.record.compression import Codec, compress

        telemetry = Telemetry(
            self._engine,
            read=self._read,
            wall_ms=self._host.wall_ms,
            resource=tuple((name, value) for name in LABELS if (value := getattr(config, name, None))),
            compress=lambda codec, data: bytes(compress(Codec(codec), data)),
            codecs=[codec.value for codec in Codec if codec is not Codec.NONE],
            backoff=ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self._engine.random),
            random=self._engine.random,
        )
        self._engine.add_poller(telemetry)
        # An event loop does not step an engine that was not asked for anything.
        self._host.wakeup()
        return telemetry
