"""A broker's settings by Kafka's names: what DescribeConfigs returns, and which can be changed while the broker runs (KIP-226).

A setting has the value of the first layer that has it: changed for this broker, changed for all brokers, given when the broker was
started, Kafka's default. Settings that this broker does not use are stored and described all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import dropwhile
from typing import Any, NamedTuple, Self

from levada.broker.config.checks import Kind, listed
from levada.broker.config.kafka_settings import KafkaSetting, Update, base_name, find_setting, kafka_settings
from levada.broker.config.resource_config import ResourceConfig, Setting
from levada.broker.config.settings import ATTRIBUTES, HOW_IT_IS_STARTED, BrokerSettings, Layers, dotted
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ConfigError
from levada.types import setting_text

# ConfigSource: dynamic for this broker or for all, static, or default.
OWN_SOURCE, SHARED_SOURCE, STARTED_SOURCE, DEFAULT_SOURCE = 2, 3, 4, 5

_SAME = {
    name: names
    for names in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    for name in names
}
"""Settings that are synonyms, the one with the highest priority first."""

_OF_THE_AUTHORIZER = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Settings that Kafka passes on to its authorizer. It describes them like the settings of any plugin."""

_FOR_ALL_OF_ONE_LISTENER = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""Settings that can be changed for a listener of all brokers."""

_THREADS = frozenset(
    {
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    }
)
"""Numbers of threads: a change may at most double or halve them, as in Kafka."""

_WITHOUT_EFFECT = frozenset(
    {
        "log.flush.interval.ms",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.preallocate",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "log.roll.jitter.ms",
        "log.segment.delete.delay.ms",
    }
)
"""Attributes of BrokerSettings that are only defaults of topic settings, and have no effect there."""

_LEAST = {
    "log.cleaner.threads": 1,
    "log.roll.jitter.ms": 0,
    "log.roll.ms": 1,
    "max.connection.creation.rate": 1,
    "max.connections": 1,
    "max.connections.per.ip": 1,
}
"""Bounds that Kafka checks beyond those of a setting's type."""

_LOCAL_OF = {"log.local.retention.bytes": "log.retention.bytes", "log.local.retention.ms": "log.retention.ms"}
"""Settings that may not exceed another one. -2 stands for the value of that one, -1 for no limit."""

_LISTENING = frozenset({"listeners", "listener.security.protocol.map"})
_PER_ADDRESS = re.compile(r"\S+:[0-9]+")
_MEBIBYTE = 1 << 20

_UPDATES = {
    Update.FIXED: "It cannot be changed while the broker runs.",
    Update.CLUSTER: "It can be changed for all brokers or for one.",
    Update.BROKER: "It can be changed for one broker.",
    Update.LISTENER: "It can be changed for one listener of a broker.",
}


class Origin(NamedTuple):
    """A value of a setting or of a synonym, and where it comes from. text: None for a sensitive value. source: a ConfigSource of
    DescribeConfigs.
    """

    name: str
    text: str | None
    source: int


class DescribedSetting(NamedTuple):
    """A setting in a DescribeConfigs response. text: its value, None if there is none or it is sensitive. setting: None for a name that
    Kafka does not know.
    """

    name: str
    text: str | None
    source: int
    origins: list[Origin]
    setting: KafkaSetting | None

    @property
    def is_sensitive(self) -> bool:
        """Whether the response leaves out the setting's value. A setting unknown to Kafka may be a secret and counts as sensitive."""
        return self.setting is None or self.setting.is_sensitive

    @property
    def is_read_only(self) -> bool:
        """Whether the response calls the setting read-only, as in Kafka: it is fixed or unknown, or its name has a listener's prefix."""
        return self.setting is None or self.setting.update is Update.FIXED or self.name != base_name(self.name)

    @property
    def documentation(self) -> str:
        """A text that says whether the setting has any effect here, and how it can be changed; "" for a setting unknown to Kafka."""
        if self.setting is None:
            return ""
        name = base_name(self.name)
        is_used = name in HOW_IT_IS_STARTED or (name.replace(".", "_") in ATTRIBUTES and name not in _WITHOUT_EFFECT)
        return f"{'It has effect' if is_used else 'It is kept and shown, and has no effect'} here. {_UPDATES[self.setting.update]}"


def settings_of_broker(layers: Layers) -> Iterator[DescribedSetting]:
    """Yield all settings of a broker for DescribeConfigs. layers: the values of its settings."""
    own, shared, started = layers
    for name in sorted({*kafka_settings(), *own, *shared, *started} - _our_own()):
        yield _told(layers, name)


def settings_of_all(layers: Layers) -> Iterator[DescribedSetting]:
    """Yield the settings that were changed for all brokers, for DescribeConfigs. layers: the values of a broker's settings."""
    shared = layers.shared
    for name in sorted(shared):
        told = _told(layers, name)
        of_all = [origin for origin in told.origins if origin.source == SHARED_SOURCE]
        text = None if told.is_sensitive else _shown(shared[name], told.setting)
        yield told._replace(text=text, source=SHARED_SOURCE, origins=of_all)


def origins(layers: Layers, name: str) -> list[Origin]:
    """Return the values that a setting and its synonyms have in the layers, the highest priority first. Values of synonyms that come before
    the first value of the setting itself are left out. The list is empty if the setting itself has no value.
    """
    base = base_name(name)
    names = _SAME.get(name) or ((name,) if base == name else (name, base))
    own, shared, started = layers
    sources = (
        (own, OWN_SOURCE),
        (shared, SHARED_SOURCE),
        ({**_started_differently(), **started}, STARTED_SOURCE),
        (_defaults(), DEFAULT_SOURCE),
    )
    found = (Origin(one, layer[one], source) for layer, source in sources for one in names if one in layer)
    known = find_setting(name)
    is_sensitive = known is None or known.is_sensitive
    told = dropwhile(lambda origin: origin.name != name, found)
    return [origin._replace(text=None) if is_sensitive else origin for origin in told]


def _told(layers: Layers, name: str) -> DescribedSetting:
    known = find_setting(name)
    found = origins(layers, name)
    text = found[0].text if found else None
    return DescribedSetting(name, None if text is None else _shown(text, known), found[0].source if found else DEFAULT_SOURCE, found, known)


def _shown(text: str, known: KafkaSetting | None) -> str:
    """Return a setting's value in the form in which Kafka's DescribeConfigs returns it. known: None for a setting that is not known."""
    kind = None if known is None else known.check.kind
    if kind is Kind.BOOLEAN:
        return text.strip().lower()
    return ",".join(listed(text)) if kind is Kind.LIST else text


@cache
def _defaults() -> Mapping[str, str]:
    return {name: setting.default for name, setting in kafka_settings().items() if setting.default is not None}


@cache
def _started_differently() -> Mapping[str, str]:
    """Return the settings whose default in this broker is not Kafka's, with their defaults."""
    ours = {dotted(name): setting_text(default) for name, default in ATTRIBUTES.items()}
    return {name: text for name, text in ours.items() if name in _defaults() and text != _defaults()[name]}


@cache
def _our_own() -> frozenset[str]:
    """Return the names of settings that only this broker has, which DescribeConfigs leaves out. In Kafka some of them are features of the
    cluster.
    """
    return frozenset(map(dotted, ATTRIBUTES)) - kafka_settings().keys() - _OF_THE_AUTHORIZER


class BrokerConfig(ResourceConfig):
    """The dynamic settings of one broker, or of all brokers if is_shared is True.

    settings: the settings of the broker that handles the request, as they are now. overrides: all dynamic settings after the change. Raises
    INVALID_REQUEST (BrokerError) for a setting that cannot be changed, and for an invalid value.
    """

    WHAT = "broker"

    def __init__(self, settings: BrokerSettings, overrides: Mapping[str, str | None], *, is_shared: bool) -> None:
        super().__init__(settings, overrides)
        self.is_shared = is_shared
        self._check_places()
        self._check_together()

    def with_overrides(self, overrides: Mapping[str, str | None]) -> Self:
        """Return the config of the same broker, or of all brokers, with other dynamic settings. Raises INVALID_REQUEST (BrokerError)."""
        return type(self)(self._settings, overrides, is_shared=self.is_shared)

    def setting(self, name: str) -> Setting | None:
        """Return the setting of this name, None if Kafka does not have it."""
        known = find_setting(name)
        return None if known is None else Setting(known.check, known.default or "")

    def default(self, name: str) -> str:
        """Return Kafka's default of a setting as text. APPEND adds values to the default if the setting was not changed before."""
        known = find_setting(name)
        return "" if known is None else known.default or ""

    def _checked(self, name: str, text: str | None) -> str:
        known = find_setting(name)
        if text is None:
            raise _refused(f"null is not allowed for broker config {name}")
        if known is None:
            # Plugins may have settings of any name.
            return text
        if name == base_name(name) and known.update is Update.FIXED:
            raise _refused(f"broker config {name} cannot be changed while the broker runs")
        if name == base_name(name) and known.update is Update.LISTENER:
            raise _refused(f"broker config {name} can be changed for a listener only, as listener.name.<its name>.{name}")
        try:
            value = known.check.parse(text)
            _check_beyond_its_type(base_name(name), value, _told(self._settings.layers, base_name(name)).text or "", self._settings)
        except ValueError as fault:
            raise _refused(f"invalid value '{text}' for broker config {name}: {fault}") from None
        return text

    def _check_places(self) -> None:
        for name in self.overrides if self.is_shared else ():
            base, known = base_name(name), find_setting(name)
            if known is not None and (known.update is Update.BROKER if base == name else base not in _FOR_ALL_OF_ONE_LISTENER):
                raise _refused(f"broker config {name} can be changed for one broker only, but the request names none")

    def _check_together(self) -> None:
        own, shared, _ = self._settings.layers
        try:
            after = self._settings.altered(*((own, self.overrides) if self.is_shared else (self.overrides, shared)))
        except ConfigError as fault:
            raise _refused(str(fault)) from fault
        for name in _THREADS:
            now, then = (int(settings.text(name.replace(".", "_"))) for settings in (self._settings, after))
            if not now // 2 <= then <= now * 2:
                raise _refused(f"broker config {name} must be between half and twice its present value, {now}; this would make it {then}")


def _check_beyond_its_type(name: str, value: Any, now: str, settings: BrokerSettings) -> None:
    """Raise ValueError for a value that has the right type but that Kafka refuses. now: the present value of the setting."""
    if name == "log.retention.ms" and value == 0:
        raise ValueError("must be at least 1, or negative for no limit")
    if name in _LISTENING and _shown(str(value) if isinstance(value, str) else ",".join(value), None) != now:
        raise ValueError(f"must be the listeners with which the broker was started, {now}")
    if name == "cordoned.log.dirs" and not set(value) <= set(listed(_told(settings.layers, "log.dirs").text or "")):
        raise ValueError("must be directories of log.dirs")
    if name == "max.connections.per.ip.overrides" and not all(_PER_ADDRESS.fullmatch(one) for one in listed(value)):
        raise ValueError("must be a list of <address>:<number>")
    if name in _LEAST and value < _LEAST[name]:
        raise ValueError(f"must be at least {_LEAST[name]}")
    if name in _LOCAL_OF and not _is_part(value, int(settings.text(_LOCAL_OF[name].replace(".", "_")))):
        raise ValueError(f"must be no more than {_LOCAL_OF[name]}")
    if name == "log.cleaner.dedupe.buffer.size" and value // int(_told(settings.layers, "log.cleaner.threads").text or 1) <= _MEBIBYTE:
        raise ValueError("must be more than 1 MiB for each of log.cleaner.threads")


def _is_part(local: int, whole: int) -> bool:
    return whole < 0 or local == -2 or 0 <= local <= whole


def _refused(reason: str) -> BrokerError:
    return BrokerError(reason, code=ErrorCode.INVALID_REQUEST)
