"""SQL: temporary views read and write; tables are refused, as Spark keeps their options from a Python source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import levada as lv

pytestmark = pytest.mark.spark

REFUSED = "CREATE TABLE cannot be used.*use CREATE TEMPORARY VIEW"


@pytest.fixture
def sql(spark: Any) -> Iterator[Any]:
    """Run statements; `made_view` and `made_table` are dropped at the end."""
    yield spark.sql
    spark.sql("DROP VIEW IF EXISTS made_view")
    spark.sql("DROP TABLE IF EXISTS made_table")


def test_a_view_reads(sql: Any, embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, value=b"%d" % number)
    start = json.dumps({topic: {0: 4}})
    options = f"kafka.bootstrap.servers '{embedded.bootstrap_servers}', subscribe '{topic}', startingOffsets '{start}'"
    sql(f"CREATE TEMPORARY VIEW made_view USING levada OPTIONS ({options})")
    (row,) = sql("SELECT count(*) AS records, min(offset) AS first FROM made_view").collect()
    assert (row.records, row.first) == (6, 4)


def test_a_view_writes(sql: Any, embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    options = f"kafka.bootstrap.servers '{embedded.bootstrap_servers}', topic '{topic}'"
    sql(f"CREATE TEMPORARY VIEW made_view (key STRING, value STRING) USING levada OPTIONS ({options})")
    sql("INSERT INTO made_view VALUES ('k', 'one'), ('k', 'two')")
    assert sorted(record.value or b"" for record in lv.scan(topic, bootstrap_servers=embedded.bootstrap_servers)) == [b"one", b"two"]


def test_a_table_is_refused_when_it_is_made(sql: Any, embedded: Any) -> None:
    with pytest.raises(Exception, match=REFUSED):
        sql(f"CREATE TABLE made_table USING levada OPTIONS (kafka.bootstrap.servers '{embedded.bootstrap_servers}', subscribe 't')")


def test_a_table_with_columns_is_refused_when_it_is_used(sql: Any, embedded: Any) -> None:
    """Spark does not ask the source when such a table is made, and hands it no options later."""
    columns = "(key STRING, value STRING)"
    sql(f"CREATE TABLE made_table {columns} USING levada OPTIONS (kafka.bootstrap.servers '{embedded.bootstrap_servers}', topic 't')")
    with pytest.raises(Exception, match=REFUSED):
        sql("INSERT INTO made_table VALUES ('k', 'v')")


def test_options_of_a_statement_are_handed_on(sql: Any, embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    sql("CREATE TABLE made_table (key STRING, value STRING) USING levada")
    options = f"`kafka.bootstrap.servers` '{embedded.bootstrap_servers}', topic '{topic}'"
    sql(f"INSERT INTO made_table WITH ({options}) VALUES ('k', 'v')")
    assert [record.value for record in lv.scan(topic, bootstrap_servers=embedded.bootstrap_servers)] == [b"v"]
