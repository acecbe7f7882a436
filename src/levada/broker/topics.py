"""What a topic is called and how it is configured: Kafka's naming rule (W15) and the table of topic settings.

A setting with a broker counterpart takes its default from there. Settings that only tune what an in-memory log does not have (flushing,
indexes, compaction, replication throttles) are accepted, checked and shown, and have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from levada.broker.settings import MAX_INT64, BrokerSettings
from levada.errors import ConfigError, InvalidTopicError
from levada.types import is_topic_name

MAX_INT32 = (1 << 31) - 1


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError with the reason unless Kafka allows the name (W15)."""
    if not name:
        raise InvalidTopicError("the topic name is empty")
    if name in (".", ".."):
        raise InvalidTopicError(f"the topic name '{name}' is reserved")
    if len(name) > 249:
        raise InvalidTopicError(f"the topic name has {len(name)} characters, more than 249")
    if not is_topic_name(name):
        raise InvalidTopicError(f"the topic name '{name}' has a character other than a-z, A-Z, 0-9, '.', '_' and '-'")


Check = Callable[[str], object]


def _integer(low: int, high: int = MAX_INT64) -> Check:
    def check(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return check


def _number(low: float, high: float) -> Check:
    def check(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return check


def _one_of(*choices: str) -> Check:
    def check(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return check


def _list_of(*choices: str) -> Check:
    def check(text: str) -> tuple[str, ...]:
        values = tuple(part.strip() for part in text.split(",") if part.strip())
        if any(value not in choices for value in values):
            raise ValueError(f"must be a list of {', '.join(choices)}")
        return values

    return check


def _any_text(text: str) -> str:
    return text


def _boolean(text: str) -> bool:
    return _one_of("true", "false")(text.lower()) == "true"


class TopicSetting(NamedTuple):
    """check: text to value, ValueError with the reason. default: a text, unless broker_setting names where it comes from."""

    check: Check
    default: str = ""
    broker_setting: str | None = None


SETTINGS: Mapping[str, TopicSetting] = {
    "cleanup.policy": TopicSetting(_list_of("delete", "compact"), broker_setting="log_cleanup_policy"),
    "compression.type": TopicSetting(_one_of("producer"), "producer"),
    "max.message.bytes": TopicSetting(_integer(0, MAX_INT32), broker_setting="message_max_bytes"),
    "message.timestamp.type": TopicSetting(_one_of("CreateTime", "LogAppendTime"), broker_setting="log_message_timestamp_type"),
    "message.timestamp.before.max.ms": TopicSetting(_integer(0), broker_setting="log_message_timestamp_before_max_ms"),
    "message.timestamp.after.max.ms": TopicSetting(_integer(0), broker_setting="log_message_timestamp_after_max_ms"),
    "min.insync.replicas": TopicSetting(_integer(1, MAX_INT32), broker_setting="min_insync_replicas"),
    "retention.bytes": TopicSetting(_integer(-1), broker_setting="log_retention_bytes"),
    "retention.ms": TopicSetting(_integer(-1), broker_setting="log_retention_ms"),
    "segment.bytes": TopicSetting(_integer(14, MAX_INT32), broker_setting="log_segment_bytes"),
    "delete.retention.ms": TopicSetting(_integer(0), "86400000"),
    "file.delete.delay.ms": TopicSetting(_integer(0), "60000"),
    "flush.messages": TopicSetting(_integer(1), str(MAX_INT64)),
    "flush.ms": TopicSetting(_integer(0), str(MAX_INT64)),
    "follower.replication.throttled.replicas": TopicSetting(_any_text),
    "index.interval.bytes": TopicSetting(_integer(0, MAX_INT32), "4096"),
    "leader.replication.throttled.replicas": TopicSetting(_any_text),
    "local.retention.bytes": TopicSetting(_integer(-2), "-2"),
    "local.retention.ms": TopicSetting(_integer(-2), "-2"),
    "max.compaction.lag.ms": TopicSetting(_integer(1), str(MAX_INT64)),
    "min.cleanable.dirty.ratio": TopicSetting(_number(0.0, 1.0), "0.5"),
    "min.compaction.lag.ms": TopicSetting(_integer(0), "0"),
    "preallocate": TopicSetting(_boolean, "false"),
    "segment.index.bytes": TopicSetting(_integer(4, MAX_INT32), "10485760"),
    "segment.jitter.ms": TopicSetting(_integer(0), "0"),
    "segment.ms": TopicSetting(_integer(1), "604800000"),
    "unclean.leader.election.enable": TopicSetting(_boolean, broker_setting="unclean_leader_election_enable"),
}


class EffectiveSetting(NamedTuple):
    """A setting's text as it holds for one topic, and whether the topic itself set it."""

    name: str
    text: str
    overridden: bool


class TopicConfig:
    """A topic's settings: those it was created with, over the broker's defaults. ConfigError for an unknown name or a bad value."""

    def __init__(self, settings: BrokerSettings, overrides: Mapping[str, str | None] | None = None) -> None:
        self._overrides: dict[str, str] = {}
        for name, text in (overrides or {}).items():
            self._overrides[name] = _checked(name, text)
        self._settings = settings
        self.max_message_bytes = self._integer("max.message.bytes")
        self.segment_bytes = self._integer("segment.bytes")
        self.retention_ms = self._integer("retention.ms")
        self.retention_bytes = self._integer("retention.bytes")
        self.min_insync_replicas = self._integer("min.insync.replicas")
        self.timestamp_before_max_ms = self._integer("message.timestamp.before.max.ms")
        self.timestamp_after_max_ms = self._integer("message.timestamp.after.max.ms")
        self.uses_append_time = self._text("message.timestamp.type") == "LogAppendTime"
        self.is_compacted = "compact" in self._text("cleanup.policy")
        self.may_elect_unclean = self._text("unclean.leader.election.enable").lower() == "true"

    def effective(self) -> list[EffectiveSetting]:
        """Every setting with its value for this topic."""
        return [EffectiveSetting(name, self._text(name), name in self._overrides) for name in SETTINGS]

    def _integer(self, name: str) -> int:
        return int(self._text(name))

    def _text(self, name: str) -> str:
        if name in self._overrides:
            return self._overrides[name]
        setting = SETTINGS[name]
        if setting.broker_setting is None:
            return setting.default
        value = getattr(self._settings, setting.broker_setting)
        return str(value).lower() if isinstance(value, bool) else str(value)


def _checked(name: str, text: str | None) -> str:
    setting = SETTINGS.get(name)
    if setting is None:
        raise ConfigError(f"unknown topic config name: {name}")
    if text is None:
        raise ConfigError(f"null is no value for topic config {name}")
    try:
        setting.check(text)
    except ValueError as fault:
        raise ConfigError(f"invalid value {text!r} for topic config {name}: {fault}") from None
    return text
