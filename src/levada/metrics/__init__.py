"""The snapshots that metrics() returns, and the tables that define metrics. Names and groups are those of Java's client.

A Reading is one row of a table: a metric's name, its meaning, and the function that reads its value from measures (levada.base.measure).
Values are computed only when metrics() is called. `levada.metrics.prometheus` exports the metrics of clients to Prometheus, `levada.otel`
to OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from levada.base.measure import Measure
from levada.base.text import did_you_mean

S = TypeVar("S")

CLIENT_ID = "client-id"
"""The tag that all metrics of a client have."""


class MetricName(NamedTuple):
    """Identifies a metric: its name, its group, and its tags, such as ("topic", "orders")."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def own_tags(self) -> dict[str, str]:
        """The tags without client-id, which all metrics of a client have."""
        return {tag: text for tag, text in self.tags if tag != CLIENT_ID}

    @property
    def is_total(self) -> bool:
        """Whether the metric is a counter, whose value never decreases while the client lives. All other metrics are gauges."""
        return self.name.endswith("-total")

    @property
    def telemetry_name(self) -> str:
        """The metric's name in KIP-714, which is derived from its name in Java, such as
        org.apache.kafka.producer.node.request.latency.avg.
        """
        return f"org.apache.kafka.{self.group.removesuffix('-metrics')}.{self.name}".replace("-", ".")


class Metrics(Mapping[MetricName, float]):
    """An immutable snapshot of a client's metrics. An average or a maximum is nan while there are no values."""

    def __init__(self, values: Mapping[MetricName, float], meanings: Mapping[tuple[str, str], str] = MappingProxyType({})) -> None:
        self._values = dict(values)
        self._meanings = meanings

    def __getitem__(self, name: MetricName) -> float:
        return self._values[name]

    def __iter__(self) -> Iterator[MetricName]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def value(self, name: str, **tags: str) -> float:
        """Return the value of a metric. Without tags, it is the metric of the whole client. In a tag's name, write an underscore for a
        dash.

        Examples: metrics.value("record-send-rate"), metrics.value("record-send-rate", topic="orders"), metrics.value("request-rate",
        node_id="node-1"). Raises KeyError if there is no such metric; the error suggests similar names or tags.
        """
        wanted = {tag.replace("_", "-"): value for tag, value in tags.items()}
        for metric, value in self._values.items():
            if metric.name == name and metric.own_tags == wanted:
                return value
        raise KeyError(self._advice(name, wanted))

    def meaning(self, metric: MetricName) -> str:
        """Return the description of a metric, as in docs/METRICS.md; "" for an unknown metric."""
        return self._meanings.get((metric.group, metric.name), "")

    def _advice(self, name: str, wanted: Mapping[str, str]) -> str:
        tagged = [dict(metric.own_tags) for metric in self if metric.name == name]
        if not tagged:
            return f"no metric is named {name!r}{did_you_mean(name, {metric.name for metric in self})}"
        known = sorted({_described(tags) for tags in tagged})
        hint = did_you_mean(_described(wanted), known)
        shown = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")
        return f"the metric {name!r} has no value for {_described(wanted)}{hint or f'; there is one for {shown}'}"

    def __str__(self) -> str:
        """Return one line of text for each metric, sorted by group and name."""
        lines = sorted((metric.group, metric.name, _described(metric.own_tags), value) for metric, value in self._values.items())
        return "\n".join(f"{group} {name} ({tags}): {value:g}" for group, name, tags, value in lines)

    def __repr__(self) -> str:
        return f"<Metrics: {len(self)} values>"


_SHOWN = 5


def _described(tags: Mapping[str, str]) -> str:
    """Return tags as text, in the form in which value() takes them as keyword arguments."""
    return ", ".join(f"{tag.replace('-', '_')}={text!r}" for tag, text in tags.items()) or "the client as a whole"


class Reading(NamedTuple, Generic[S]):
    """A row of a table of metrics. read: a function that returns the metric's value; it gets the object to which the metrics belong, and
    the time in ms.
    """

    name: str
    meaning: str
    read: Callable[[S, int], float]


class Section(NamedTuple):
    """A section of docs/METRICS.md: a table of metrics and the groups in which they occur. heading: the title of the section; if it is "",
    the name of the group.
    """

    groups: tuple[str, ...]
    tags: str
    table: Sequence[Reading[Any]]
    heading: str = ""


def gauge(name: str, meaning: str, read: Callable[[S, int], float]) -> tuple[Reading[S], ...]:
    """Declare one metric, whose value `read` returns directly."""
    return (Reading(name, meaning, read),)


def summed(name: str, meaning: str, measure: Callable[[S], Measure]) -> tuple[Reading[S], ...]:
    """Declare the metrics name-rate and name-total of a measured sum, for example of bytes.

    measure: returns the measured values of a source.
    """
    return (
        Reading(f"{name}-rate", f"{meaning}, per second", lambda source, now_ms: measure(source).rate(now_ms)),
        Reading(f"{name}-total", f"{meaning}, in all", lambda source, now_ms: measure(source).total),
    )


def counted(name: str, meaning: str, measure: Callable[[S], Measure]) -> tuple[Reading[S], ...]:
    """Declare the metrics name-rate and name-total of the number of events. measure: returns the measured values of a source."""
    return (
        Reading(f"{name}-rate", f"{meaning}, per second", lambda source, now_ms: measure(source).frequency(now_ms)),
        Reading(f"{name}-total", f"{meaning}, in all", lambda source, now_ms: measure(source).count),
    )


def averaged(name: str, meaning: str, measure: Callable[[S], Measure]) -> tuple[Reading[S], ...]:
    """Declare the metrics name-avg and name-max of measured values. measure: returns the measured values of a source."""
    return (
        Reading(f"{name}-avg", f"{meaning}, on average", lambda source, now_ms: measure(source).average(now_ms)),
        Reading(f"{name}-max", f"{meaning}, at most", lambda source, now_ms: measure(source).maximum(now_ms)),
    )


def read_all(
    readings: Iterable[Reading[S]], source: S, now_ms: int, group: str, tags: tuple[tuple[str, str], ...]
) -> dict[MetricName, float]:
    """Return the present values of all metrics of a table. source: the object to which they belong. group, tags: parts of the names of the
    metrics.
    """
    return {MetricName(reading.name, group, tags): float(reading.read(source, now_ms)) for reading in readings}
