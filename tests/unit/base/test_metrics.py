"""Measures over two windows of 30 seconds, and snapshots of them."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest

from levada.api.metric_tables import PAGE, page
from levada.base.measure import Measure
from levada.metrics import MetricName, Metrics

S = 1000


def noted(*values: tuple[int, float]) -> Measure:
    measure = Measure()
    for at_ms, value in values:
        measure.note(value, at_ms)
    return measure


def test_a_measure_of_nothing_has_no_average() -> None:
    measure = Measure()
    assert (measure.count, measure.total, measure.rate(0), measure.frequency(5)) == (0, 0, 0, 0)
    assert isnan(measure.average(0)) and isnan(measure.maximum(0))


def test_rates_are_about_one_window_at_least() -> None:
    measure = noted((0, 60), (100, 30))
    assert measure.rate(200) == 90 / 30
    assert measure.frequency(200) == 2 / 30
    assert measure.rate(45 * S) == 90 / 45
    assert (measure.average(200), measure.maximum(200)) == (45, 60)


def test_windows_pass_and_totals_stay() -> None:
    measure = noted((0, 60), (31 * S, 30), (40 * S, 10))
    assert (measure.average(50 * S), measure.maximum(50 * S)) == (100 / 3, 60)
    assert measure.rate(50 * S) == 100 / 50
    assert (measure.average(65 * S), measure.maximum(65 * S)) == (20, 30), "the first window is over"
    assert isnan(measure.maximum(200 * S))
    assert measure.rate(200 * S) == 0
    assert (measure.count, measure.total) == (3, 100)


def test_a_long_pause_ends_both_windows() -> None:
    measure = noted((0, 60), (500 * S, 1))
    assert (measure.maximum(501 * S), measure.average(501 * S)) == (1, 1)


def test_values_below_zero_have_a_maximum_too() -> None:
    assert noted((0, -5), (1, -7)).maximum(2) == -5


CLIENT = ("client-id", "c")
METRICS = Metrics(
    {
        MetricName("rate", "g", (CLIENT,)): 1.0,
        MetricName("rate", "topics", (CLIENT, ("topic", "t"))): 2.0,
        MetricName("rate", "nodes", (CLIENT, ("node-id", "node-1"))): 3.0,
    }
)


def test_a_value_is_found_by_its_name_and_tags() -> None:
    assert METRICS.value("rate") == 1
    assert METRICS.value("rate", topic="t") == 2
    assert METRICS.value("rate", node_id="node-1") == 3
    assert METRICS[MetricName("rate", "g", (CLIENT,))] == 1
    assert (len(METRICS), len(list(METRICS)), repr(METRICS)) == (3, 3, "<Metrics: 3 values>")


@pytest.mark.parametrize(
    ("name", "tags", "said"),
    [
        ("rtae", {}, "no metric is named 'rtae'; did you mean 'rate'?"),
        ("x", {}, "no metric is named 'x'\""),
        ("rate", {"topic": "u"}, "no value for topic='u'; did you mean 'topic='t''?"),
        ("rate", {"group": "xyz"}, "no value for group='xyz'; there is one for node_id='node-1', the client as a whole, topic='t'"),
    ],
)
def test_a_value_that_does_not_exist_is_a_KeyError_with_what_is_near(name: str, tags: dict[str, str], said: str) -> None:
    with pytest.raises(KeyError) as raised:
        METRICS.value(name, **tags)
    assert said in f'{raised.value.args[0]}"'


def test_metrics_print_a_line_each() -> None:
    assert str(METRICS).splitlines() == [
        "g rate (the client as a whole): 1",
        "nodes rate (node_id='node-1'): 3",
        "topics rate (topic='t'): 2",
    ]


def test_the_page_of_metrics_is_current() -> None:
    assert (Path(__file__).parents[3] / "docs" / "METRICS.md").read_text() == page(), "run: make docs"


def test_no_metric_is_described_twice_in_a_group() -> None:
    for section in PAGE:
        names = [row.name for row in section.table]
        assert len(set(names)) == len(names), section
