"""A scan below its faces: what is asked for becomes a plan, and each reading of it is a consumer that ends by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from random import Random
from typing import Any, NamedTuple

from levada.client.engine import Engine
from levada.client.host import Host
from levada.config import ConsumerConfig
from levada.consumer.columns_ahead import BatchSink
from levada.consumer.ranges import Bound, Ranges
from levada.consumer.scanning import Scanning, ScanPlan
from levada.errors import ConfigError
from levada.face.arguments import column_names, topic_names, topic_partition
from levada.face.consuming import Consuming, decoder
from levada.flow import CallerFlow
from levada.types import AnyRecord, TopicPartition

PARTITION_FETCH_BYTES = 8 << 20


class ScanRequest(NamedTuple):
    """What scan() was asked for. rows, size: when an Arrow batch is full."""

    plan: ScanPlan
    config: ConsumerConfig
    columns: tuple[str, ...] | None
    text: tuple[str, ...]
    rows: int
    size: int

    def sink(self) -> Any:
        """Return what turns records into columns."""
        return decoder(self.columns, self.text, self.config)

    def stream(self, batches: Iterable[Any], requested_schema: object | None) -> object:
        """Return a reading's Arrow batches as a capsule of Arrow's C stream interface."""
        schema = self.sink().schema
        from levada.record.columnar import stream

        return stream(schema, batches, requested_schema)

    @property
    def engine_settings(self) -> Mapping[str, Any]:
        """What the engine of a reading is made with, beyond the configuration."""
        return {"allow_auto_create_topics": self.config.allow_auto_create_topics}


def scan_request(
    topics: str | Iterable[str] | None,
    config: Mapping[str, Any] | None,
    *,
    start: Bound | Mapping[Any, Bound] = "earliest",
    end: Bound | Mapping[Any, Bound] = "latest",
    assignments: Mapping[TopicPartition, tuple[Bound, Bound]] | None = None,
    columns: Sequence[str] | None = None,
    text: Sequence[str] = (),
    batch_rows: int = 65_536,
    batch_bytes: int = 16 << 20,
    on_data_loss: str = "raise",
    **settings: Any,
) -> ScanRequest:
    """Check the arguments of scan(), the same for every face (ScanArguments). Raises ConfigError, and ValueError for what is no column."""
    _refuse_misspelt(settings)
    if on_data_loss not in ("raise", "skip"):
        raise ConfigError(f"on_data_loss must be 'raise' or 'skip', got {on_data_loss!r}")
    if (topics is None) == (assignments is None):
        raise ConfigError("give either topics or assignments")
    names = topic_names([topics] if isinstance(topics, str) else topics or ())
    named = {topic_partition(tp): bounds for tp, bounds in (assignments or {}).items()}
    ranges = Ranges.of_topics(names, start, end) if assignments is None else Ranges.of_assignments(named)
    plan = ScanPlan(ranges, skips=on_data_loss == "skip")
    wanted = None if columns is None else column_names(columns)
    request = ScanRequest(plan, _config(config, settings), wanted, column_names(text), batch_rows, batch_bytes)
    if columns is not None or request.text:
        request.sink()  # It knows which columns there are.
    return request


def _refuse_misspelt(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for what is no setting of a consumer, and nearly an argument of scan()."""
    own = scan_request.__kwdefaults__ or ()
    for name in settings:
        dotted = name.replace("_", ".")
        if dotted in ConsumerConfig.OPTIONS or dotted in ConsumerConfig.ALIASES:
            continue
        if close := get_close_matches(name, own, n=1, cutoff=0.7):
            raise ConfigError(f"unknown option '{name}'; did you mean '{close[0]}'?")


def _config(config: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> ConsumerConfig:
    given = ConsumerConfig.parse(config, **settings).given
    if "auto.offset.reset" in given:
        raise ConfigError("'auto.offset.reset' does not apply to a scan; see start and on_data_loss")
    if "group.id" in given:
        raise ConfigError("'group.id' does not apply to a scan: it begins and ends where it is told to, and commits nothing")
    own = {"allow.auto.create.topics": False, "max.partition.fetch.bytes": PARTITION_FETCH_BYTES, "auto.offset.reset": "none"}
    return ConsumerConfig.parse({**(config or {}), **{key: value for key, value in own.items() if key not in given}}, **settings)


class ScanReading:
    """One reading of a scan, over connections of its own."""

    def __init__(self, request: ScanRequest, engine: Engine, host: Host, random: Random) -> None:
        self._request = request
        self._consuming = Consuming(request.config, engine, host, random=random)
        self._scanning = Scanning(request.plan, self._consuming.reading, engine, host)

    def records(self) -> CallerFlow[list[AnyRecord] | None]:
        """Return the next records, None at the end."""
        return self._scanning.records()

    def batch(self, sink: BatchSink) -> CallerFlow[Any]:
        """Return the next Arrow batch, None at the end."""
        return self._scanning.batch(sink, self._request.rows, self._request.size)

    def close(self) -> CallerFlow[None]:
        """Tell the brokers that nothing more is read."""
        return self._consuming.reading.close()
