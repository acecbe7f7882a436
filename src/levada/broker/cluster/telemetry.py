"""The client metrics that a cluster subscribes to, and those that clients have pushed (KIP-714).

All clients get one subscription. Kafka can have several, for clients with certain ids, software or addresses. A client is known by its
instance id. Its subscription id is a checksum of the subscription and of the instance id, so it changes with the subscription, and the
client learns from an error that its subscription is out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from uuid import UUID
from zlib import crc32

from levada.base.clock import NEVER_MS
from levada.broker.config.checks import Check, Kind, integer, list_of, listed
from levada.broker.config.resource_config import ResourceConfig, Setting
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, DecompressionError
from levada.record.compression import Codec, decompress

NO_ID = UUID(int=0)
RESERVED_IDS = (NO_ID, UUID(int=1))
ACCEPTED = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""In Kafka's order of preference."""
DEFAULT_INTERVAL_MS = 300_000
# Metrics compress well, but not that well. A payload that decompresses to far more is an attack.
_MOST_TIMES_LARGER = 64


class Subscription(NamedTuple):
    """The metrics that clients are to push. metrics: prefixes of metric names; "" matches all names, an empty tuple matches none.
    interval_ms: the push interval. delta: whether totals count from the previous push.
    """

    metrics: tuple[str, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS
    delta: bool = True


class Pushed(NamedTuple):
    """One push of metrics by a client. metrics: the metrics in OTLP, decompressed. codec: the codec with which they were compressed."""

    client_instance_id: UUID
    client_id: str | None
    subscription_id: int
    terminating: bool
    codec: Codec
    metrics: bytes


@dataclass(slots=True)
class _Instance:
    """The requests of one client instance so far.

    asked_ms, pushed_ms: when its last GetTelemetrySubscriptions and its last PushTelemetry arrived, without those that came too early. A
    push counts even if it is refused because of its subscription id, its codec or its size. last_error: the error code of its last push;
    NONE after the next GetTelemetrySubscriptions.
    """

    subscription_id: int
    asked_ms: int = -NEVER_MS
    pushed_ms: int = -NEVER_MS
    last_error: ErrorCode = ErrorCode.NONE
    has_ended: bool = False


class ClientTelemetry:
    """Receives the metrics that clients push (KIP-714). wanted: the subscription for all clients. pushed: all accepted pushes, in order."""

    def __init__(self, max_bytes: int, new_id: Callable[[], UUID]) -> None:
        self.max_bytes = max_bytes
        self.wanted = Subscription()
        self.pushed: list[Pushed] = []
        self._new_id = new_id
        self._instances: dict[UUID, _Instance] = {}

    def subscribe(self, metrics: Sequence[str], interval_ms: int, *, delta: bool) -> None:
        """Replace the subscription. metrics: prefixes of metric names. delta: whether totals count from the previous push."""
        self.wanted = Subscription(tuple(metrics), interval_ms, delta)

    def ask(self, client_instance_id: UUID, now_ms: int) -> tuple[UUID, int]:
        """Handle GetTelemetrySubscriptions. Returns the client's instance id, which is new if the client has none, and its subscription id.

        A client may ask when the push interval has passed since it last asked or pushed, or at once if the subscription has changed or the
        last push was answered with an error that requires it. Otherwise BrokerError (THROTTLING_QUOTA_EXCEEDED) is raised.
        """
        known = self._new_id() if client_instance_id == NO_ID else client_instance_id
        instance = self._instance(known)
        may_ask_at_once = instance.last_error in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        has_changed = instance.subscription_id != self._subscription_id(known)
        if not (may_ask_at_once or has_changed or self._is_time(max(instance.asked_ms, instance.pushed_ms), now_ms)):
            raise BrokerError("asked again within the push interval", code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.asked_ms, instance.last_error = now_ms, ErrorCode.NONE
        instance.subscription_id = self._subscription_id(known)
        return known, instance.subscription_id

    def push(self, push: Pushed, codec: int, now_ms: int) -> None:
        """Handle PushTelemetry: decompress the metrics and add them to `pushed`. push.metrics: the metrics as they were sent, compressed.
        codec: the number of the compression codec. Raises BrokerError with Kafka's error code.
        """
        if push.client_instance_id in RESERVED_IDS:
            raise BrokerError("the client has no instance id", code=ErrorCode.INVALID_REQUEST)
        instance = self._instance(push.client_instance_id)
        try:
            self._check(push, codec, instance, now_ms)
            self.pushed.append(push._replace(codec=Codec(codec), metrics=self._unpacked(push.metrics, Codec(codec))))
        except BrokerError as error:
            instance.last_error = error.code
            raise
        instance.last_error = ErrorCode.NONE
        instance.has_ended = push.terminating

    def _check(self, push: Pushed, codec: int, instance: _Instance, now_ms: int) -> None:
        """Raise BrokerError if a push is not allowed. The checks are in Kafka's order."""
        if instance.has_ended:
            raise BrokerError("the client has announced before that it terminates", code=ErrorCode.INVALID_REQUEST)
        is_first = instance.asked_ms > instance.pushed_ms
        if not (push.terminating or is_first or self._is_time(instance.pushed_ms, now_ms)):
            raise BrokerError("pushed again within the push interval", code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.pushed_ms = now_ms
        if push.subscription_id != self._subscription_id(push.client_instance_id):
            raise BrokerError("the subscription has changed", code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if codec not in (Codec.NONE, *ACCEPTED):
            raise BrokerError(f"there is no codec {codec}", code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(push.metrics) > self.max_bytes:
            raise BrokerError(f"more than telemetry.max.bytes={self.max_bytes}", code=ErrorCode.TELEMETRY_TOO_LARGE)

    def _unpacked(self, metrics: bytes, codec: Codec) -> bytes:
        if not metrics:
            return b""
        try:
            return bytes(decompress(codec, metrics, _MOST_TIMES_LARGER * self.max_bytes))
        except DecompressionError as error:
            raise BrokerError(str(error), code=ErrorCode.INVALID_RECORD) from error

    def _instance(self, client_instance_id: UUID) -> _Instance:
        return self._instances.setdefault(client_instance_id, _Instance(self._subscription_id(client_instance_id)))

    def _is_time(self, since_ms: int, now_ms: int) -> bool:
        return now_ms - since_ms >= self.wanted.interval_ms

    def _subscription_id(self, client_instance_id: UUID) -> int:
        number = crc32(repr(self.wanted).encode()) ^ crc32(client_instance_id.bytes)
        return number - (1 << 32) if number >> 31 else number


ALL_METRICS = "*"
_ALL_BY_PREFIX = ""


def _no_match() -> Check:
    def check(text: str) -> tuple[str, ...]:
        if text.strip():
            raise ValueError("this broker has one subscription for all clients; leave it out")
        return ()

    return Check(Kind.LIST, check)


class ClientMetricsConfig(ResourceConfig):
    """The settings of one client metrics subscription."""

    SETTINGS: ClassVar[Mapping[str, Setting]] = {
        "interval.ms": Setting(integer(100, 3_600_000), str(DEFAULT_INTERVAL_MS)),
        "match": Setting(_no_match()),
        "metrics": Setting(list_of()),
    }
    WHAT = "client metrics"
    SOURCE = 7


def combined(subscriptions: Iterable[ClientMetricsConfig]) -> Subscription:
    """Combine all subscriptions into one that has all their metrics and the shortest push interval of those that have metrics."""
    known = list(subscriptions)
    metrics = {_ALL_BY_PREFIX if name == ALL_METRICS else name for one in known for name in listed(one.text("metrics"))}
    interval_ms = min((one.integer("interval.ms") for one in known if one.text("metrics")), default=DEFAULT_INTERVAL_MS)
    return Subscription((_ALL_BY_PREFIX,) if _ALL_BY_PREFIX in metrics else tuple(sorted(metrics)), interval_ms)
