"""What a user may write after `.format("levada")`, read without Spark.

The names and meanings are those of Spark's own Kafka connector. Spark hands option names over in lower case; they are shown back in
their usual spelling. Options of the connector that are not built yet are refused by name, everything else with a did-you-mean: an option
that is silently ignored is a wrong result.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from levada.config import Config, ConsumerConfig, ProducerConfig
from levada.errors import ConfigError
from levada.spark.offsets import EARLIEST, LATEST, Starts, parse_offsets
from levada.types import TopicPartition

SOURCE_OPTIONS = (
    "assign",
    "endingOffsets",
    "failOnDataLoss",
    "includeHeaders",
    "maxOffsetsPerTrigger",
    "startingOffsets",
    "subscribe",
)
SINK_OPTIONS = ("topic",)
FROM_SPARK = ("checkpointLocation", "queryName")
"""Spark passes these to a streaming sink along with the user's own."""

_TIMES = "give startingOffsets or endingOffsets, or filter on the timestamp column"
NOT_YET: Mapping[str, str] = {
    "subscribePattern": "name the topics with subscribe",
    "startingTimestamp": _TIMES,
    "startingOffsetsByTimestamp": _TIMES,
    "startingOffsetsByTimestampStrategy": _TIMES,
    "endingTimestamp": _TIMES,
    "endingOffsetsByTimestamp": _TIMES,
    "minPartitions": "each topic partition is read by one task",
    "maxRecordsPerPartition": "each topic partition is read by one task",
    "minOffsetsPerTrigger": "choose a longer processing time trigger",
    "maxTriggerDelay": "choose a longer processing time trigger",
    "kafkaConsumer.pollTimeoutMs": "set kafka.default.api.timeout.ms",
    "fetchOffset.numRetries": "offset look-ups are retried until kafka.default.api.timeout.ms has passed",
    "fetchOffset.retryIntervalMs": "set kafka.retry.backoff.ms",
    "groupIdPrefix": "levada reads without a consumer group",
}

_ASSIGN_FORM = 'give {"topic": [0, 1]}'
_FOREIGN_CODE = "levada hands out the bytes as they are; cast or parse the columns in Spark"
FORBIDDEN_TO_SOURCE: Mapping[str, str] = {
    "auto.offset.reset": "use startingOffsets: where a query goes on is kept in its checkpoint",
    "key.deserializer": _FOREIGN_CODE,
    "value.deserializer": _FOREIGN_CODE,
    "enable.auto.commit": "offsets are kept in the query's checkpoint, not in a consumer group",
    "interceptor.classes": "class names are never looked up",
}
FORBIDDEN_TO_SINK: Mapping[str, str] = {
    "key.serializer": "give the key as a string or binary column",
    "value.serializer": "give the value as a string or binary column",
}

C = TypeVar("C", bound=Config)


class _Side(NamedTuple):
    other: str
    known: tuple[str, ...]
    of_other: tuple[str, ...]


@dataclass(frozen=True)
class SourceOptions:
    """Where to read, from where to where, and with which client settings (dotted Kafka names)."""

    topics: tuple[str, ...]
    assigned: tuple[TopicPartition, ...]
    starting: Starts
    ending: Starts
    fail_on_data_loss: bool
    include_headers: bool
    max_offsets_per_trigger: int | None
    client: Mapping[str, str]


@dataclass(frozen=True)
class SinkOptions:
    """Where to write; `topic` None means that each row names its own."""

    topic: str | None
    client: Mapping[str, str]


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Read the options of a source. Raises ConfigError."""
    own, client = _split(given, _Side("sink", SOURCE_OPTIONS, SINK_OPTIONS))
    _refuse_forbidden(client, FORBIDDEN_TO_SOURCE)
    _check_client(client, ConsumerConfig)
    topics, assigned = _read_where(own)
    return SourceOptions(
        topics=topics,
        assigned=assigned,
        starting=_read_starting(own, streaming),
        ending=_read_ending(own, streaming),
        fail_on_data_loss=_boolean(own, "failOnDataLoss", True),
        include_headers=_boolean(own, "includeHeaders", False),
        max_offsets_per_trigger=_positive(own, "maxOffsetsPerTrigger"),
        client=client,
    )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink. Raises ConfigError."""
    own, client = _split(given, _Side("source", (*SINK_OPTIONS, *FROM_SPARK), SOURCE_OPTIONS))
    _refuse_forbidden(client, FORBIDDEN_TO_SINK)
    _check_client(client, ProducerConfig)
    topic = own.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("option 'topic' is empty")
    return SinkOptions(topic=topic.strip() if topic is not None else None, client=client)


def wants_headers(given: Mapping[str, str]) -> bool:
    """Whether the schema has the headers column; looked at before it is known whether Spark will read or write."""
    values = [value for name, value in given.items() if name.lower() == "includeheaders"]
    return _boolean({"includeHeaders": values[-1]} if values else {}, "includeHeaders", False)


def _split(given: Mapping[str, str], side: _Side) -> tuple[dict[str, str], dict[str, str]]:
    own: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, value in given.items():
        if name.lower().startswith("kafka."):
            client[name.lower().removeprefix("kafka.")] = value
        else:
            own[_spelling(name, side)] = value
    return own, client


def _spelling(name: str, side: _Side) -> str:
    by_folded = {option.lower(): option for option in side.known}
    folded = name.lower()
    if folded in by_folded:
        return by_folded[folded]
    for option, advice in NOT_YET.items():
        if option.lower() == folded:
            raise ConfigError(f"option '{option}' is not there yet: {advice}")
    for option in side.of_other:
        if option.lower() == folded:
            raise ConfigError(f"option '{option}' belongs to a levada {side.other}, not here")
    raise ConfigError(f"unknown option '{name}'{_did_you_mean(folded, by_folded)}")


def _did_you_mean(folded: str, by_folded: Mapping[str, str]) -> str:
    if folded == "path":
        return "; topics are named with 'subscribe' or 'assign' when reading and with 'topic' when writing"
    if folded in ConsumerConfig.OPTIONS or folded in ProducerConfig.OPTIONS:
        return f"; did you mean 'kafka.{folded}'?"
    candidates = {**by_folded, "kafka.bootstrap.servers": "kafka.bootstrap.servers"}
    close = difflib.get_close_matches(folded, candidates, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{candidates[close[0]]}'?"
    return f"; known here: {', '.join(sorted(by_folded.values()))} and kafka.* for the client's own settings"


def _refuse_forbidden(client: Mapping[str, str], forbidden: Mapping[str, str]) -> None:
    for name, advice in forbidden.items():
        if name in client:
            raise ConfigError(f"option 'kafka.{name}' cannot be set: {advice}")


def _check_client(client: Mapping[str, str], config: type[C]) -> C:
    if "bootstrap.servers" not in client:
        raise ConfigError("option 'kafka.bootstrap.servers' is required: host:port of one or more brokers, separated by commas")
    try:
        return config.parse(client)
    except ConfigError as fault:
        raise ConfigError(f"among the kafka.* options: {fault}") from fault


def _read_where(own: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[TopicPartition, ...]]:
    if ("subscribe" in own) == ("assign" in own):
        raise ConfigError("give exactly one of the options 'subscribe' (topics) and 'assign' (partitions)")
    if "assign" in own:
        return (), _read_assign(own["assign"])
    topics = tuple(dict.fromkeys(topic.strip() for topic in own["subscribe"].split(",") if topic.strip()))
    if not topics:
        raise ConfigError("option 'subscribe' names no topic; give one or more, separated by commas")
    return topics, ()


def _read_assign(text: str) -> tuple[TopicPartition, ...]:
    try:
        data: Any = json.loads(text)
    except ValueError as fault:
        raise ConfigError(f"option 'assign': {text!r} is not JSON ({fault}); {_ASSIGN_FORM}") from None
    if not isinstance(data, dict) or not all(_are_partitions(numbers) for numbers in data.values()):
        raise ConfigError(f"option 'assign': cannot use {text!r}; {_ASSIGN_FORM}")
    partitions = sorted({TopicPartition(topic, number) for topic, numbers in data.items() for number in numbers})
    if not partitions:
        raise ConfigError(f"option 'assign' names no partition; {_ASSIGN_FORM}")
    return tuple(partitions)


def _are_partitions(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)


def _read_starting(own: Mapping[str, str], streaming: bool) -> Starts:
    if "startingOffsets" not in own:
        return LATEST if streaming else EARLIEST
    starting = parse_offsets(own["startingOffsets"], "startingOffsets")
    if not streaming and (starting == LATEST or LATEST in _numbers(starting)):
        raise ConfigError("option 'startingOffsets': a batch query cannot start at latest (-1 in JSON), it would read nothing")
    return starting


def _read_ending(own: Mapping[str, str], streaming: bool) -> Starts:
    if "endingOffsets" not in own:
        return LATEST
    if streaming:
        raise ConfigError("option 'endingOffsets' is for batch queries; a stream ends with trigger(availableNow=True) or stop()")
    ending = parse_offsets(own["endingOffsets"], "endingOffsets")
    if ending == EARLIEST or EARLIEST in _numbers(ending):
        raise ConfigError("option 'endingOffsets': a batch query cannot end at earliest (-2 in JSON), it would read nothing")
    return ending


def _numbers(offsets: Starts) -> set[int]:
    return set() if isinstance(offsets, int) else set(offsets.values())


def _boolean(own: Mapping[str, str], name: str, default: bool) -> bool:
    word = own.get(name, str(default)).strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"option '{name}': expected true or false, got {own[name]!r}")
    return word == "true"


def _positive(own: Mapping[str, str], name: str) -> int | None:
    if name not in own:
        return None
    text = own[name].strip()
    if not text.isdigit() or int(text) == 0:
        raise ConfigError(f"option '{name}': expected a whole number above 0, got {own[name]!r}")
    return int(text)
