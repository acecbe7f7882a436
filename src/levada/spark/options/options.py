"""Reads the options that a user gives after `.format("levada")`. This does not need a Spark session.

The names and meanings are those of Spark's own Kafka connector. docs/SPARK.md marks the options that levada adds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from levada.config import Config, ConsumerConfig, ProducerConfig
from levada.errors import ConfigError
from levada.formats.columns import Typed
from levada.formats.writing import WriteFormat
from levada.spark.clients import DEFAULT_PARTITIONER, ROUND_ROBIN
from levada.spark.options.format_options import typed
from levada.spark.options.java_regex import translate
from levada.spark.options.keywords import ReadOptions, WriteOptions, names_of
from levada.spark.options.option_text import (
    BOOTSTRAP,
    MOST_PARTITION,
    NO_TABLES,
    Side,
    boolean,
    check_topic,
    choice,
    duration_s,
    parse_json,
    positive,
    split,
    whole,
)
from levada.spark.options.sink_format_options import sink_formats
from levada.spark.schema import TAKEN_NAMES
from levada.spark.sink.exactly_once.settings import ExactlyOnce, exactly_once
from levada.spark.source.bounds import EARLIEST, LATEST, AtTime, Bound, OfGroup, parse_offsets, parse_time, parse_times
from levada.spark.source.cluster import Selection
from levada.spark.source.loss import OnLoss
from levada.spark.source.offsets import Offsets
from levada.spark.source.planning import Splitting
from levada.types import TopicPartition

logger = logging.getLogger(__name__)

SOURCE_OPTIONS = names_of(ReadOptions)
SINK_OPTIONS = names_of(WriteOptions)
FROM_SPARK = ("checkpointLocation", "queryName")
"""Spark passes these to a streaming sink together with the user's options."""
ONLY_FOR_STREAMS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commitOffsets")
GROUP = "group"
GROUP_ID = "group.id"
AVAILABLE_NOW = "availableNow"

_ASSIGN_FORM = 'give {"topic": [0, 1]}'
_FOREIGN_CODE = "levada returns keys and values as bytes; cast or parse the columns in Spark"
FORBIDDEN_TO_SOURCE: Mapping[str, str] = {
    "auto.offset.reset": "use startingOffsets: a stream continues at the offsets in its checkpoint",
    "key.deserializer": _FOREIGN_CODE,
    "value.deserializer": _FOREIGN_CODE,
    "enable.auto.commit": "a stream continues at the offsets in its checkpoint; commitOffsets=true also commits them for a group",
    "interceptor.classes": "class names are never looked up",
}
FORBIDDEN_TO_SINK: Mapping[str, str] = {
    "key.serializer": "give the key as a string or binary column, or the option key.format",
    "value.serializer": "give the value as a string or binary column, or the option value.format",
    "partitioner": "give the option 'partitioner'",
    "partitioner.class": "class names are never looked up; give the option 'partitioner'",
    "transactional.id": "leave it out; delivery=exactly-once chooses the id, and transactionalIdPrefix is its prefix",
}
IGNORED_OF_GROUPS = (
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "auto.commit.interval.ms",
    "internal.leave.group.on.close",
)
IGNORED_OF_JAVA = (
    "auto.include.jmx.reporter",
    "enable.metrics.push",
    "exclude.internal.topics",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
)
"""Settings of Java's client that have no effect here. Jobs that were written for that client may have them. None is about security."""

DEFAULT_MAX_TRIGGER_DELAY_S = 15 * 60.0
DEFAULT_POLL_TIMEOUT_S = 120.0
DEFAULT_RECORDS_PER_TASK = 100_000
TASK_LINGER_MS = 100
TASK_BATCH_BYTES = 1_000_000
UNKNOWN_TOPIC_S = 5.0
"""How long a sink waits for an unknown topic, if kafka.max.block.ms is not given. Brokers that create topics automatically need a moment
after the first request.
"""

READ_COMMITTED = "read_committed"
ALL_REPLICAS = -1

C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class SourceOptions:
    """The topics to read, the first and last offsets, the division into tasks, and the client settings (dotted Kafka names).

    starting_option, ending_option: the options that gave the bounds, for errors. is_available_now: None if the option is not given.
    columns: () for all. only_for_streams: the given options that only a stream has. group_id: kafka.group.id, or "".
    commits_offsets: whether the stream commits its progress for this group.
    """

    selection: Selection
    starting: Bound
    starting_option: str
    ending: Bound
    ending_option: str
    on_loss: OnLoss
    include_headers: bool
    columns: tuple[str, ...]
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_s: float
    is_available_now: bool | None
    splitting: Splitting
    fetch_offset_retries: int
    fetch_offset_interval_s: float
    poll_timeout_s: float
    only_for_streams: tuple[str, ...]
    typed: Typed
    reads_committed: bool
    pushes_filters: bool
    group_id: str
    commits_offsets: bool
    client: Mapping[str, str] = field(repr=False)


class Spreads(Enum):
    """The rows for which the sink chooses partitions, to spread them evenly."""

    NONE = "none"
    KEYLESS = "those without a key"
    ALL = "all"


@dataclass(frozen=True)
class SinkOptions:
    """Where and how to write. topic: None if each row names its topic. batch_size: in bytes.

    formats: the formats by side ("key", "value"); a side without a format is written unchanged.
    spreads: the rows that the sink spreads evenly over the partitions. topic_timeout_s: how long to wait for a topic that brokers do not
    know, in seconds; None for max.block.ms. exactly_once: None for a sink that writes at least once.
    """

    topic: str | None
    partitioner: str
    spreads: Spreads
    batch_size: int
    topic_timeout_s: float | None
    formats: Mapping[str, WriteFormat]
    exactly_once: ExactlyOnce | None
    client: Mapping[str, str] = field(repr=False)


def source_options(given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """Read the options of a source. Raises ConfigError.

    streaming: whether the query is a stream. None if this is not known yet: then options for streams and for batch queries are accepted.
    """
    own, client = split(given, Side("sink", SOURCE_OPTIONS, SINK_OPTIONS))
    group_id, commits_offsets = client.get(GROUP_ID, ""), boolean(own, "commitOffsets", False)
    starting_option, starting = _starting(own, streaming, group_id)
    if commits_offsets and not group_id:
        raise ConfigError(f"option 'commitOffsets' needs the option 'kafka.{GROUP_ID}': the group for which the stream commits its offsets")
    if commits_offsets or isinstance(starting, OfGroup):
        del client[GROUP_ID]
    client, config = _of_client(client, FORBIDDEN_TO_SOURCE, ConsumerConfig)
    ending_option, ending = _ending(own, streaming)
    _check_order(starting, starting_option, ending, ending_option)
    least, most = positive(own, "minOffsetsPerTrigger"), positive(own, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigError(f"option 'minOffsetsPerTrigger'={least} is above 'maxOffsetsPerTrigger'={most}")
    selection = _selection(own)
    return SourceOptions(
        selection=selection,
        starting=starting,
        starting_option=starting_option,
        ending=ending,
        ending_option=ending_option,
        on_loss=_on_loss(own),
        include_headers=boolean(own, "includeHeaders", False),
        columns=_columns(own),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_s=duration_s(own, "maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_S),
        is_available_now=boolean(own, AVAILABLE_NOW, False) if AVAILABLE_NOW in own else None,
        splitting=Splitting(
            positive(own, "minPartitions"),
            positive(own, "maxRecordsPerPartition"),
            positive(own, "recordsPerTask") or DEFAULT_RECORDS_PER_TASK,
        ),
        fetch_offset_retries=_or(whole(own, "fetchOffset.numRetries"), 3),
        fetch_offset_interval_s=_or(whole(own, "fetchOffset.retryIntervalMs"), 1000) / 1000,
        poll_timeout_s=duration_s(own, "kafkaConsumer.pollTimeoutMs", DEFAULT_POLL_TIMEOUT_S),
        typed=typed(own, tuple(selection.names), TAKEN_NAMES),
        reads_committed=config.isolation_level == READ_COMMITTED,
        pushes_filters=boolean(own, "pushFilters", False),
        group_id=group_id,
        commits_offsets=commits_offsets,
        only_for_streams=tuple(name for name in ONLY_FOR_STREAMS if name in own),
        client=client,
    )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink. Raises ConfigError."""
    own, client = split(given, Side("source", (*SINK_OPTIONS, *FROM_SPARK), SOURCE_OPTIONS))
    topic = own.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("option 'topic' is empty")
    topic = topic.strip() if topic is not None else None
    if topic is not None:
        check_topic("topic", topic)
    client, config = _of_client(client, FORBIDDEN_TO_SINK, ProducerConfig)
    _check_acks(config)
    once = exactly_once(own, topic)
    if once is not None:
        if not config.enable_idempotence and "enable.idempotence" in config.given:
            raise ConfigError("option 'kafka.enable.idempotence': delivery=exactly-once needs it; leave it out")
        _understood({**client, "transactional.id": once.name_for("")}, ProducerConfig)
    partitioner = choice(own, "partitioner", (DEFAULT_PARTITIONER, ROUND_ROBIN), DEFAULT_PARTITIONER)
    suited = _suited_to_tasks(config)
    return SinkOptions(
        topic=topic,
        partitioner=partitioner,
        spreads=_spreads(partitioner, config),
        batch_size=int(suited.get("batch.size", config.batch_size)),
        topic_timeout_s=None if "max.block.ms" in config.given else UNKNOWN_TOPIC_S,
        formats=sink_formats(own, topic),
        exactly_once=once,
        client={**suited, **client},
    )


def _check_acks(config: ProducerConfig) -> None:
    if config.acks != ALL_REPLICAS:
        raise ConfigError(
            f"option 'kafka.acks'={config.acks} cannot be used: a row may be lost although its brokers have acknowledged it, and the "
            "query goes on; leave it out (all)"
        )


def _spreads(partitioner: str, config: ProducerConfig) -> Spreads:
    if partitioner != DEFAULT_PARTITIONER:
        return Spreads.NONE
    return Spreads.ALL if config.partitioner_ignore_keys else Spreads.KEYLESS


# The client's settings


def _of_client(client: Mapping[str, str], forbidden: Mapping[str, str], config: type[C]) -> tuple[dict[str, str], C]:
    """Return the client's settings without those that have no effect: as text, and parsed. Log a warning that names the settings left out.

    Raises ConfigError for a forbidden or wrong setting, and if bootstrap.servers is missing.

    forbidden: by the name of a setting that must not be given, advice for the error text.
    """
    for name, advice in forbidden.items():
        if name in client:
            raise ConfigError(f"option 'kafka.{name}' cannot be set: {advice}")
    if "bootstrap.servers" not in client:
        advice = "" if client else f". If this is a table: {NO_TABLES}"
        raise ConfigError(f"option '{BOOTSTRAP}' is required: host:port of one or more brokers, separated by commas{advice}")
    idle = [f"kafka.{name}" for name in client if name in (*IGNORED_OF_GROUPS, *IGNORED_OF_JAVA)]
    if idle:
        logger.warning("these options have no effect: levada uses no consumer group and no Java client: %s", ", ".join(sorted(idle)))
    kept = {name: value for name, value in client.items() if name not in (*IGNORED_OF_GROUPS, *IGNORED_OF_JAVA)}
    return kept, _understood(kept, config)


def _understood(client: Mapping[str, str], config: type[C]) -> C:
    try:
        return config.parse(client)
    except ConfigError as fault:
        raise ConfigError(f"among the kafka.* options: {fault}") from fault


def _suited_to_tasks(config: ProducerConfig) -> dict[str, str]:
    """Return the settings that suit a task's producer, without those that the user has set.

    Spark passes rows in blocks of ten thousand, and a task ends with a flush. So waiting for large batches does not delay the task's end.
    """
    linger_ms = max(min(TASK_LINGER_MS, config.delivery_timeout_ms - config.request_timeout_ms), config.linger_ms)
    suited = {"linger.ms": str(linger_ms), "batch.size": str(min(TASK_BATCH_BYTES, config.max_request_size))}
    return {name: value for name, value in suited.items() if name not in config.given}


# Topics, partitions and columns to read


def _selection(own: Mapping[str, str]) -> Selection:
    given = [name for name in ("assign", "subscribe", "subscribePattern") if name in own]
    if len(given) != 1:
        raise ConfigError(
            "give exactly one of the options 'subscribe' (topics), 'subscribePattern' (a pattern for their names) and 'assign' (partitions)"
        )
    if "assign" in own:
        return Selection(partitions=_assigned(own["assign"]))
    if "subscribePattern" in own:
        return Selection(pattern=translate(own["subscribePattern"], "subscribePattern"))
    topics = _names(own["subscribe"])
    if not topics:
        raise ConfigError("option 'subscribe' names no topic; give one or more, separated by commas")
    for topic in topics:
        check_topic("subscribe", topic)
    return Selection(topics=topics)


def _columns(own: Mapping[str, str]) -> tuple[str, ...]:
    columns = _names(own.get("columns", ""))
    if "columns" in own and not columns:
        raise ConfigError("option 'columns' names no column; give one or more, separated by commas")
    return columns


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    data = parse_json(text, "assign", _ASSIGN_FORM)
    if not isinstance(data, dict) or not all(_are_partitions(numbers) for numbers in data.values()):
        raise ConfigError(f"option 'assign': cannot use {text!r}; {_ASSIGN_FORM}")
    partitions = sorted({TopicPartition(topic, number) for topic, numbers in data.items() for number in numbers})
    if not partitions:
        raise ConfigError(f"option 'assign' names no partition; {_ASSIGN_FORM}")
    return tuple(partitions)


def _are_partitions(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(number) is int and 0 <= number <= MOST_PARTITION for number in numbers)


def _on_loss(own: Mapping[str, str]) -> OnLoss:
    fails = boolean(own, "failOnDataLoss", True)
    if "onDataLoss" not in own:
        return OnLoss.FAIL if fails else OnLoss.NOT_FAIL
    kinds = [kind.value for kind in OnLoss if kind is not OnLoss.NOT_FAIL]
    chosen = OnLoss(choice(own, "onDataLoss", kinds, OnLoss.FAIL.value))
    if "failOnDataLoss" in own and fails is not (chosen is OnLoss.FAIL):
        raise ConfigError(f"options 'failOnDataLoss'={own['failOnDataLoss']} and 'onDataLoss'={chosen.value} contradict each other")
    return chosen


# The first and last offsets. If several options are given, each function uses the one that it tests first, like Spark's own connector.


def _starting(own: Mapping[str, str], streaming: bool | None, group_id: str) -> tuple[str, Bound]:
    or_latest = choice(own, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error") == "latest"
    if "startingTimestamp" in own:
        return "startingTimestamp", AtTime(parse_time(own["startingTimestamp"], "startingTimestamp"), or_latest)
    if "startingOffsetsByTimestamp" in own:
        return "startingOffsetsByTimestamp", AtTime(parse_times(own["startingOffsetsByTimestamp"], "startingOffsetsByTimestamp"), or_latest)
    if "startingOffsets" not in own:
        return "startingOffsets", LATEST if streaming else EARLIEST
    if own["startingOffsets"].strip().lower() == GROUP:
        if not group_id:
            raise ConfigError(
                f"option 'startingOffsets'={GROUP} needs the option 'kafka.{GROUP_ID}': the group at whose committed offsets to begin"
            )
        return "startingOffsets", OfGroup(group_id)
    starting = parse_offsets(own["startingOffsets"], "startingOffsets")
    if streaming is False and (starting == LATEST or LATEST in _numbers(starting)):
        raise ConfigError("option 'startingOffsets': a batch query cannot start at latest (-1 in JSON): it would read nothing")
    return "startingOffsets", starting


def _ending(own: Mapping[str, str], streaming: bool | None) -> tuple[str, Bound]:
    given = [name for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets") if name in own]
    if not given:
        return "endingOffsets", LATEST
    if streaming:
        raise ConfigError(f"option '{given[0]}' is for batch queries; a stream ends with trigger(availableNow=True) or stop()")
    if given[0] == "endingTimestamp":
        return given[0], AtTime(parse_time(own[given[0]], given[0]), or_latest=True)
    if given[0] == "endingOffsetsByTimestamp":
        return given[0], AtTime(parse_times(own[given[0]], given[0]), or_latest=True)
    ending = parse_offsets(own["endingOffsets"], "endingOffsets")
    if ending == EARLIEST or EARLIEST in _numbers(ending):
        raise ConfigError("option 'endingOffsets': a batch query cannot end at earliest (-2 in JSON): it would read nothing")
    return "endingOffsets", ending


def _check_order(starting: Bound, starting_option: str, ending: Bound, ending_option: str) -> None:
    """Raise ConfigError if the end of a partition is before its start.

    Only offsets and times that the options give for each partition are compared. Kafka resolves earliest and latest later.
    """
    first, last = _given(starting), _given(ending)
    if isinstance(starting, AtTime) is not isinstance(ending, AtTime):
        return
    for tp in sorted(first.keys() & last.keys()):
        if 0 <= last[tp] < first[tp]:
            raise ConfigError(f"option '{ending_option}' is before '{starting_option}': {tp} from {first[tp]} to {last[tp]}")


def _given(bound: Bound) -> Offsets:
    named = bound.times if isinstance(bound, AtTime) else bound
    return {} if isinstance(named, int | OfGroup) else named


def _numbers(offsets: int | dict[TopicPartition, int]) -> set[int]:
    return set() if isinstance(offsets, int) else set(offsets.values())


def _or(number: int | None, default: int) -> int:
    return default if number is None else number
