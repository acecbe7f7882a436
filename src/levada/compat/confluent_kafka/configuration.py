"""Settings of librdkafka become settings of levada, or raise KafkaException with advice.

Settings of another kind of client are ignored with a warning. Every other setting is one of four kinds: this package itself acts on it
(_OWN); its unit or meaning is converted (_CONVERTED); it has no effect here (NO_EFFECT, listed in docs/MIGRATING.md); or levada reads it
under the same name. Levada refuses every other name, and says what to use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from levada import OAuthToken
from levada.compat.confluent_kafka.error import ErrorCodes, KafkaException, exception
from levada.logs import Log

log = Log(__name__)

Settings = dict[str, Any]
_INT32_MAX: Final = 2**31 - 1

NO_EFFECT: Final = frozenset(
    {
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "batch.num.messages",
        "broker.address.ttl",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "debug",
        "enable.random.seed",
        "fetch.error.backoff.ms",
        "fetch.queue.backoff.ms",
        "log.connection.close",
        "log.level",
        "log.queue",
        "log.thread.name",
        "message.copy.max.bytes",
        "metadata.max.age.ms",
        "produce.offset.report",
        "queue.buffering.backpressure.threshold",
        "queued.min.messages",
        "reconnect.backoff.jitter.ms",
        "socket.blocking.max.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "sticky.partitioning.linger.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
    }
)
"""Settings for tuning librdkafka's threads, queues and log lines, which levada does not have."""

_OF_PRODUCERS: Final = frozenset(
    {
        "acks",
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "compression.level",
        "compression.type",
        "delivery.report.only.error",
        "delivery.timeout.ms",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "linger.ms",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "message.max.bytes",
        "message.send.max.retries",
        "message.timeout.ms",
        "on.delivery",
        "partitioner",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "queuing.strategy",
        "request.required.acks",
        "retries",
        "sticky.partitioning.linger.ms",
        "topic.metadata.propagation.max.ms",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
_OF_CONSUMERS: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "client.rack",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.wait.max.ms",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "offset.store.method",
        "on.commit",
        "partition.assignment.strategy",
        "queued.max.messages.kbytes",
        "session.timeout.ms",
    }
)
"""_OF_PRODUCERS and _OF_CONSUMERS: settings of one kind of client. The others ignore them with a warning, as in librdkafka, because
programs use one mapping for several clients."""

_ONLY_LEVADAS: Final = frozenset(
    {
        "buffer.memory",
        "consumer.timeout.ms",
        "interceptors",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.poll.records",
        "on.decode.error",
        "stop.at.end",
        "value.deserializer",
        "value.serializer",
    }
)
"""Settings of levada that are refused, because they would change what this package promises."""

_CONNECTION: Final = (
    "bootstrap.",
    "broker.version.",
    "client.dns.",
    "client.id",
    "connections.",
    "metadata.max.age.",
    "metadata.recovery.",
    "reconnect.",
    "request.timeout.",
    "retry.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
    "topic.metadata.refresh.interval.",
)
"""Beginnings of the names of settings that an admin client for the same cluster needs."""


class Configuration(NamedTuple):
    """A translated configuration. levada: the settings of levada's client. own: the settings that this package acts on, by dotted name."""

    levada: Settings
    own: Settings

    @property
    def connection(self) -> Settings:
        """The settings with which an admin client connects to the same cluster."""
        return {name: value for name, value in self.levada.items() if name.startswith(_CONNECTION)}


def producer_configuration(config: Any, keywords: Mapping[str, Any]) -> Configuration:
    """Return the settings of a Producer. Raises KafkaException or TypeError for a setting that is not valid."""
    given = _given(config, keywords, {"request.required.acks": "acks", "message.send.max.retries": "retries"})
    _ignore(given, _OF_CONSUMERS, "a producer")
    own = _own(given, _COMMON_OWN | _PRODUCER_OWN)
    settings = _converted(given, _COMMON_CONVERTED | _PRODUCER_CONVERTED)
    most = _number("message.max.bytes", settings.pop("message.max.bytes", 1_000_000), 1000)
    own["message.max.bytes"] = most
    # librdkafka compares key and value with the limit, levada the whole record.
    settings["max.request.size"] = max(most + 4096, 1 << 20)
    _set_timeouts(settings)
    if "enable.idempotence" not in settings and not _may_be_idempotent(settings):
        settings["enable.idempotence"] = False
    level = settings.pop("compression.level", None)
    codec = str(settings.get("compression.type", settings.get("compression.codec", "none")))
    if level is not None and int(level) != -1 and codec in ("gzip", "lz4", "zstd"):
        settings[f"compression.{codec}.level"] = max(int(level), 1) if codec == "lz4" else level
    # This package counts messages and bytes itself, and never waits in produce().
    settings["buffer.memory"] = own["queue.buffering.max.kbytes"] * 1024 * 2 + (64 << 20)
    settings["max.block.ms"] = 0
    settings.setdefault("metadata.max.idle.ms", _INT32_MAX)
    return Configuration(settings, own)


def consumer_configuration(config: Any, keywords: Mapping[str, Any]) -> Configuration:
    """Return the settings of a Consumer. Raises ValueError without a group.id, as confluent-kafka does, and KafkaException or TypeError for
    a setting that is not valid.
    """
    given = _given(config, keywords, {"auto.commit.enable": "enable.auto.commit"})
    _ignore(given, _OF_PRODUCERS, "a consumer")
    if not given.get("group.id"):
        raise ValueError("Failed to create consumer: group.id must be set")
    own = _own(given, _COMMON_OWN | _CONSUMER_OWN)
    settings = _converted(given, _COMMON_CONVERTED | _CONSUMER_CONVERTED)
    settings = {"isolation.level": "read_committed", "allow.auto.create.topics": False, **settings, "enable.auto.commit": False}
    if str(settings.get("group.protocol", "classic")).lower() == "classic":
        settings.setdefault("partition.assignment.strategy", "range,roundrobin")
    return Configuration(settings, own)


def admin_configuration(config: Any, keywords: Mapping[str, Any]) -> Configuration:
    """Return the settings of an AdminClient. Raises KafkaException or TypeError for a setting that is not valid."""
    given = _given(config, keywords, {})
    _ignore(given, _OF_PRODUCERS | _OF_CONSUMERS, "an admin client")
    own = _own(given, _COMMON_OWN)
    settings = _converted(given, _COMMON_CONVERTED)
    return Configuration(settings, own)


def _given(config: Any, keywords: Mapping[str, Any], aliases: Mapping[str, str]) -> Settings:
    """Return the program's settings by dotted name, without those that are None.

    The settings in a nested mapping for topics are taken as they stand (None too), and only if the outer mapping does not have them.
    socket.timeout.ms is left out if request.timeout.ms is given. aliases: other names of settings, each with the name to use. Raises
    KafkaException for a setting of the outer mapping that only levada has, and TypeError if config is not a mapping or one of its names is
    not a str.
    """
    if config is not None and not isinstance(config, Mapping):
        raise TypeError("expected configuration dict")
    given: Settings = {}
    topic: Settings = {}
    for name, value in {**(config or {}), **keywords}.items():
        if not isinstance(name, str):
            raise TypeError("expected configuration property name as type unicode string")
        dotted = name.replace("_", ".")
        if dotted in ("topic", "default.topic.config"):
            topic |= {aliases.get(inner, inner): item for inner, item in value.items()}
        elif value is not None:
            given[aliases.get(dotted, dotted)] = value
    for name in _ONLY_LEVADAS & given.keys():
        raise exception(ErrorCodes._INVALID_ARG, f"No such configuration property: \"{name}\": it is levada's own, not confluent-kafka's")
    settings = topic | given
    if "request.timeout.ms" in settings:
        # In levada both are the setting request.timeout.ms.
        settings.pop("socket.timeout.ms", None)
    return settings


def _ignore(given: Settings, names: frozenset[str], who: str) -> None:
    """Take settings of other kinds of clients out of `given`, with a warning. who: the client that is made."""
    ignored = sorted(names & given.keys())
    for name in ignored:
        del given[name]
    if ignored:
        log.warning("%s ignores settings of other clients: %s", who, ", ".join(ignored))


def _own(given: Settings, kinds: Mapping[str, tuple[Any, Callable[[str, Any], Any]]]) -> Settings:
    """Take the settings that this package acts on out of `given`; return all of them, with defaults."""
    return {name: read(name, given.pop(name, default)) for name, (default, read) in kinds.items()}


def _converted(given: Settings, conversions: Mapping[str, Callable[[str, Any], Settings]]) -> Settings:
    settings: Settings = {}
    if "oauth.cb" in given:
        settings |= _tokens(given.pop("oauth.cb"), given.pop("sasl.oauthbearer.config", None))
    for name, value in given.items():
        if name not in NO_EFFECT:
            settings |= conversions[name](name, value) if name in conversions else {name: value}
    return settings


def _set_timeouts(settings: Settings) -> None:
    """Set delivery.timeout.ms, linger.ms and request.timeout.ms by levada's rule: the first is at least the sum of the others.

    request.timeout.ms is shortened if necessary, and so is linger.ms if the program has not set it. Raises KafkaException if the program's
    linger.ms is not less than message.timeout.ms.
    """
    timeout = _number("message.timeout.ms", settings.pop("message.timeout.ms", settings.pop("delivery.timeout.ms", 300_000)), 0)
    settings["delivery.timeout.ms"] = timeout = timeout or _INT32_MAX
    linger_name = "queue.buffering.max.ms" if "queue.buffering.max.ms" in settings else "linger.ms"
    given = settings.pop(linger_name, None)
    linger = round(_float(linger_name, 5 if given is None else given))
    if linger >= timeout:
        if given is not None:
            raise exception(ErrorCodes._INVALID_ARG, "`message.timeout.ms` must be greater than `linger.ms`")
        linger = timeout // 2
    settings["linger.ms"] = linger
    request = _number("request.timeout.ms", settings.get("request.timeout.ms", 30_000), 1)
    settings["request.timeout.ms"] = max(min(request, timeout - linger), 1)


def _may_be_idempotent(settings: Settings) -> bool:
    in_flight: Any = settings.get("max.in.flight", settings.get("max.in.flight.requests.per.connection", 5))
    return str(settings.get("acks", "all")) in ("all", "-1") and str(settings.get("retries", 1)) != "0" and int(in_flight) <= 5


def _number(name: str, value: Any, least: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = least - 1
    if number < least:
        raise exception(ErrorCodes._INVALID_ARG, f'Invalid value for configuration property "{name}": {value!r}; expected a number')
    return number


def _float(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise exception(ErrorCodes._INVALID_ARG, f'Invalid value for configuration property "{name}": {value!r}') from None


def _at_least(least: int) -> Callable[[str, Any], int]:
    return lambda name, value: _number(name, value, least)


def _boolean(name: str, value: Any) -> bool:
    read = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}.get(str(value).lower())
    if read is None:
        raise exception(ErrorCodes._INVALID_ARG, f'Invalid value for configuration property "{name}": {value!r}; expected true or false')
    return read


def _callback(name: str, value: Any) -> Callable[..., Any] | None:
    if value is not None and not callable(value):
        raise TypeError(f"expected {name.replace('.', '_')} property as a callable function")
    return value  # type: ignore[no-any-return]


def _logger(name: str, value: Any) -> Any:
    if value is not None and not hasattr(value, "handle"):
        raise TypeError(f"expected {name} property as a logging.Logger")
    return value


def _text(name: str, value: Any) -> str:
    return str(value).lower()


_COMMON_OWN: Final[dict[str, tuple[Any, Callable[[str, Any], Any]]]] = {
    "error.cb": (None, _callback),
    "logger": (None, _logger),
    "statistics.interval.ms": (0, _at_least(0)),
    "stats.cb": (None, _callback),
}
_PRODUCER_OWN: Final[dict[str, tuple[Any, Callable[[str, Any], Any]]]] = {
    "delivery.report.only.error": (False, _boolean),
    "on.delivery": (None, _callback),
    "partitioner": ("consistent_random", _text),
    "queue.buffering.max.kbytes": (1 << 20, _at_least(1)),
    "queue.buffering.max.messages": (100_000, _at_least(0)),
    "topic.metadata.propagation.max.ms": (30_000, _at_least(0)),
}
_CONSUMER_OWN: Final[dict[str, tuple[Any, Callable[[str, Any], Any]]]] = {
    "auto.commit.interval.ms": (5_000, _at_least(0)),
    "enable.auto.commit": (True, _boolean),
    "enable.auto.offset.store": (True, _boolean),
    "enable.partition.eof": (False, _boolean),
    "on.commit": (None, _callback),
}
"""In these three tables: the settings that this package acts on, each with its default and the function that reads a value."""


def _tokens(callback: Any, config: Any) -> Settings:
    """Return levada's setting for oauth_cb, a function that returns (token, expiry time in seconds since the epoch), and optionally a
    principal, which has no effect, and extensions. config: its argument, the value of sasl.oauthbearer.config, or None.
    """
    if not callable(callback):
        raise TypeError("expected oauth_cb property as a callable function")

    def provide() -> OAuthToken:
        token, expires_at, *more = callback(config)
        return OAuthToken(token, expires_at, more[1] if len(more) > 1 else {})

    return {"sasl.oauth.token.provider": provide}


def _only(value: str, advice: str) -> Callable[[str, Any], Settings]:
    """Return the conversion of a setting with one possible value, which has no effect. advice: for the error about any other value."""

    def convert(name: str, given: Any) -> Settings:
        if str(given).lower() != value:
            raise exception(ErrorCodes._INVALID_ARG, f'configuration property "{name}": only {value} is supported: {advice}')
        return {}

    return convert


def _times(factor: int, name: str) -> Callable[[str, Any], Settings]:
    return lambda given, value: {name: _number(given, value, 0) * factor}


def _system_sized(name: str, value: Any) -> Settings:
    return {name.removeprefix("socket."): _number(name, value, 0) or -1}


def _metadata_age(name: str, value: Any) -> Settings:
    number = _number(name, value, -1)
    return {"metadata.max.age.ms": _INT32_MAX if number <= 0 else number}


def _or_never(name: str, value: Any) -> Settings:
    return {name: _number(name, value, 0) or _INT32_MAX}


def _fallback(name: str, value: Any) -> Settings:
    release = ".".join(str(value).split(".")[:3])
    return {name: release} if release in ("0.8.0", "0.8.1", "0.8.2", "0.9.0") else {}


_COMMON_CONVERTED: Final[dict[str, Callable[[str, Any], Settings]]] = {
    "broker.address.family": _only("any", "levada tries every address of a name"),
    "broker.version.fallback": _fallback,
    "connections.max.idle.ms": _or_never,
    "socket.receive.buffer.bytes": _system_sized,
    "socket.send.buffer.bytes": _system_sized,
    "socket.timeout.ms": _times(1, "request.timeout.ms"),
    "topic.metadata.refresh.interval.ms": _metadata_age,
}
_PRODUCER_CONVERTED: Final[dict[str, Callable[[str, Any], Settings]]] = {
    "enable.gapless.guarantee": _only("false", "a failed message does not stop the messages after it"),
    "queuing.strategy": _only("fifo", "messages are sent in the order of produce()"),
}
_CONSUMER_CONVERTED: Final[dict[str, Callable[[str, Any], Settings]]] = {
    "offset.store.method": _only("broker", "offsets are stored by brokers"),
    "queued.max.messages.kbytes": _times(1024, "fetch.buffer.bytes"),
}


class LevadaLines(logging.Handler):
    """Passes levada's log lines about one client to a function."""

    def __init__(self, client_id: str, take: Callable[[logging.LogRecord], object]) -> None:
        super().__init__()
        self._client_id = client_id
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a line on if it is about this client."""
        if getattr(record, "kafka_client_id", None) == self._client_id:
            self._take(record)


def refused(error: Exception) -> KafkaException:
    """Return the exception for a configuration that levada refuses."""
    return exception(ErrorCodes._INVALID_ARG, str(error))
