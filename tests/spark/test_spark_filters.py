"""Filters that reduce reading: they narrow the offset ranges, and no row is lost."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Not

import levada as lv
from levada.spark.options.options import source_options
from levada.spark.schema import record_schema
from levada.spark.source.batch import BatchReader
from levada.spark.source.filters import push
from levada.types import TopicPartition

T0, T1, S0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("s", 0)
START, END = {T0: 0, T1: 10, S0: 5}, {T0: 100, T1: 90, S0: 50}
OFFSET, TIME = ("offset",), ("timestamp",)


class Times:
    """A cluster in which the timestamp of each record equals its offset. S0 has no record from 40 on."""

    def at_times(self, times: Any) -> Any:
        return {tp: None if tp == S0 and time >= 40 else time for tp, time in times.items()}


def narrowed(*filters: Filter) -> dict[TopicPartition, tuple[int, int]]:
    start, end = push(filters).narrow(START, END, Times())  # type: ignore[arg-type]
    return {tp: (start[tp], end[tp]) for tp in start}


ALL = {tp: (START[tp], END[tp]) for tp in START}


def at(microseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=microseconds)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("topic",), "s")], {S0: (5, 50)}),
        ([In(("topic",), ("t", "u"))], {T0: (0, 100), T1: (10, 90)}),
        ([EqualTo(("partition",), 1)], {T1: (10, 90)}),
        ([EqualTo(("topic",), "t"), In(("partition",), (0, 7))], {T0: (0, 100)}),
        ([GreaterThan(OFFSET, 20), LessThanOrEqual(OFFSET, 60)], {T0: (21, 61), T1: (21, 61), S0: (21, 50)}),
        ([GreaterThanOrEqual(OFFSET, 20), LessThan(OFFSET, 60)], {T0: (20, 60), T1: (20, 60), S0: (20, 50)}),
        ([EqualTo(OFFSET, 30)], {T0: (30, 31), T1: (30, 31), S0: (30, 31)}),
        ([In(OFFSET, (30, 12))], {T0: (12, 31), T1: (12, 31), S0: (12, 31)}),
        ([GreaterThanOrEqual(TIME, at(20_000))], {T0: (20, 100), T1: (20, 90), S0: (20, 50)}),
        ([GreaterThanOrEqual(TIME, at(20_001))], {T0: (21, 100), T1: (21, 90), S0: (21, 50)}),
        ([GreaterThan(TIME, at(20_000))], {T0: (21, 100), T1: (21, 90), S0: (21, 50)}),
        ([GreaterThan(TIME, at(44_999))], {T0: (45, 100), T1: (45, 90), S0: (50, 50)}),
    ],
)
def test_what_a_filter_leaves(filters: list[Filter], expected: Any) -> None:
    assert narrowed(*filters) == expected


@pytest.mark.parametrize(
    "not_understood",
    [
        LessThan(TIME, at(20_000)),
        EqualTo(("key",), b"k"),
        EqualTo(("headers", "key"), "h"),
        Not(EqualTo(OFFSET, 3)),
        In(OFFSET, ()),
        GreaterThan(TIME, dt.datetime(2024, 1, 1)),
        GreaterThanOrEqual(TIME, at(-5_000_000)),
        GreaterThan(TIME, at(-1_000)),
    ],
)
def test_what_is_not_understood_changes_nothing(not_understood: Filter) -> None:
    assert narrowed(not_understood) == ALL


def test_spark_takes_the_method_for_that_of_the_base_class_and_keeps_all_filters() -> None:
    options = source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"}, streaming=False)
    reader = BatchReader(options, record_schema(False))
    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    filters: list[Filter] = [EqualTo(OFFSET, 3)]
    assert reader.pushFilters(filters) == filters


def test_filters_count_with_the_option_alone_and_the_log_says_what_they_could_save(caplog: pytest.LogCaptureFixture) -> None:
    for given, said in (({}, "would reduce reading with the option pushFilters"), ({"pushFilters": "true"}, "filters that reduce reading")):
        options = source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given}, streaming=False)
        with caplog.at_level(logging.INFO):
            BatchReader(options, record_schema(False)).pushFilters([EqualTo(OFFSET, 3)])
        assert said in caplog.text
        assert "offset = 3" in caplog.messages[-1]


@pytest.fixture
def filled(spark: Any, embedded: Any, new_topic: Any) -> Iterator[Any]:
    """The reader of a topic of four partitions with a hundred records each; push-down is on in Spark."""
    topic = new_topic(embedded, partitions=4)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for number in range(400):
            producer.send(topic, b"%d" % number, partition=number % 4)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    given = {"kafka.bootstrap.servers": embedded.bootstrap_servers, "subscribe": topic, "recordsPerTask": "1"}
    yield lambda **more: spark.read.format("levada").options(**given, **more).load()
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.spark
@pytest.mark.parametrize("is_on", ["true", "false"])
def test_a_filter_saves_tasks_and_no_row_is_missing(spark: Any, filled: Any, is_on: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", is_on)
    rows = filled(pushFilters="true").where("partition = 2 and offset >= 90")
    assert sorted(row.offset for row in rows.collect()) == list(range(90, 100))
    assert rows.rdd.getNumPartitions() == (1 if is_on == "true" else 4)


@pytest.mark.spark
def test_a_dataframe_that_is_used_more_than_once_has_all_its_rows(filled: Any) -> None:
    """Spark keeps with a DataFrame what was planned after a filter, and gives it to every later use."""
    frame = filled()
    first, second = frame.where("partition = 0"), frame.where("partition = 1")
    assert first.count() == 100
    assert frame.count() == 400
    assert first.union(second).count() == 200
    assert frame.exceptAll(first).count() == 300
