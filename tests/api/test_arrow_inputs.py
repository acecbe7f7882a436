"""Data frames of other libraries in and out: whatever speaks Arrow's C interface is sent, and what is read becomes a frame again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import levada as lv
from levada.errors import RecordDeserializationError, SerializationError
from levada.testing import EmbeddedKafka

PATIENCE_S = 30
NOON = dt.datetime(2024, 5, 6, 12, tzinfo=dt.UTC)
COLUMNS = ["key", "value", "partition", "timestamp", "headers"]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as embedded:
        yield embedded


@pytest.fixture
def topic(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    kafka.create_topic(name, 3)
    return name


def send(kafka: EmbeddedKafka, topic: str, data: Any, **columns: Any) -> pa.RecordBatch:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        return producer.send_arrow(topic, data, **columns).to_arrow(timeout=PATIENCE_S)


def read(kafka: EmbeddedKafka, topic: str, **options: Any) -> pa.Table:
    return lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, columns=COLUMNS, **options).to_table()


def test_a_polars_frame_goes_through_and_comes_back(kafka: EmbeddedKafka, topic: str) -> None:
    sent = pl.DataFrame(
        {
            "id": pl.Series(["a", None, "b", "a"], dtype=pl.Categorical),
            "payload": ["first", "", None, "a payload that is too long for a view of twelve bytes"],
            "at": [NOON] * 4,
            "home": pl.Series([0, 1, 2, 0], dtype=pl.UInt8),
            "notes": [[{"key": "h", "value": b"x"}], [], None, [{"key": "i", "value": None}, {"key": "j", "value": b""}]],
        }
    )

    report = send(kafka, topic, sent, key="id", value="payload", timestamp="at", partition="home", headers="notes")
    found: Any = pl.from_arrow(read(kafka, topic, text=["key", "value"]))
    found = found.sort("partition", maintain_order=True)

    assert report["error"].null_count == 4
    assert found["key"].to_list() == ["a", "a", None, "b"]
    assert found["value"].to_list() == [sent["payload"][row] for row in (0, 3, 1, 2)]
    assert found["timestamp"].to_list() == [NOON] * 4
    assert found["headers"].to_list() == [sent["notes"][row].to_list() if row != 2 else [] for row in (0, 3, 1, 2)]


def test_a_pandas_frame_goes_through_and_comes_back(kafka: EmbeddedKafka, topic: str) -> None:
    sent = pd.DataFrame(
        {
            "payload": pd.Series(["first", None, "third"], index=["x", "y", "z"]),
            "kind": pd.Categorical(["a", "b", "a"]),
            "home": pd.array([2, None, 2], dtype="Int32"),
            "at": pd.to_datetime([NOON] * 3),
        }
    ).rename_axis("id")

    report = send(kafka, topic, sent, key="id", value="payload", timestamp="at", partition="home")
    found = read(kafka, topic, text=["key", "value"]).to_pandas().set_index("key")

    assert report["error"].null_count == 3
    assert report["partition"].to_pylist()[0] == report["partition"].to_pylist()[2] == 2
    assert found.loc["x", "value"] == "first"
    assert pd.isna(found.loc["y", "value"])
    assert found.loc["z", "partition"] == 2
    assert set(found["timestamp"]) == {pd.Timestamp(NOON)}
    assert send(kafka, topic, sent[sent["payload"].notna()].reset_index(), key="id", value="kind").num_rows == 2


def test_whole_numbers_that_pandas_made_floats_of_are_refused_with_a_way_out(kafka: EmbeddedKafka, topic: str) -> None:
    with pytest.raises(SerializationError, match=r"column 'home' \(partition\) is double; give integers; .* unless they are of type Int32"):
        send(kafka, topic, pd.DataFrame({"payload": ["x", "y"], "home": [1, None]}), value="payload", partition="home")


def test_a_duckdb_query_is_sent_as_it_runs(kafka: EmbeddedKafka, topic: str) -> None:
    query = duckdb.sql(
        "select 'id-' || (n % 7) as id, repeat('x', n % 50)::blob as payload, map {'n': n::varchar} as notes from range(20000) r(n)"
    )

    report = send(kafka, topic, query, key="id", value="payload", headers="notes")
    found = read(kafka, topic, text=["key"])

    assert (report.num_rows, report["error"].null_count) == (20_000, 20_000)
    totals: Any = duckdb.sql("select count(*), sum(octet_length(value)), count(distinct key) from found")
    assert totals.fetchall() == [(20_000, 490_000, 7)]
    assert found["headers"][0].as_py()[0]["key"] == "n"


def test_text_that_is_none_is_raised_where_it_stands_and_can_be_passed(kafka: EmbeddedKafka, topic: str) -> None:
    values = [b"one", b"two", b"\xff", b"four"]
    send(kafka, topic, pa.table({"value": values, "partition": [0] * 4}), value="value", partition="partition")
    home = lv.TopicPartition(topic, 0)

    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([home])
        options: dict[str, Any] = {"timeout": PATIENCE_S, "columns": ["value"], "text": ["value"]}
        assert consumer.poll_arrow(**options)["value"].to_pylist() == ["one", "two"]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError, match=f"{topic}-0 at offset 2: its value is not UTF-8") as raised:
                consumer.poll_arrow(**options)
            assert raised.value.record.value == b"\xff"
        assert consumer.poll_arrow(timeout=PATIENCE_S, columns=["value"])["value"].to_pylist() == [b"\xff", b"four"]
        consumer.seek(home, raised.value.record.offset + 1)
        assert consumer.poll_arrow(**options)["value"].to_pylist() == ["four"]


def test_a_scan_for_text_gives_what_comes_before_the_fault(kafka: EmbeddedKafka, topic: str) -> None:
    send(kafka, topic, pa.table({"value": [b"one", b"\xff"], "partition": [0] * 2}), value="value", partition="partition")
    batches = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, columns=["value"], text=["value"]).arrow()

    assert next(batches)["value"].to_pylist() == ["one"]
    with pytest.raises(RecordDeserializationError, match="at offset 1: its value is not UTF-8"):
        next(batches)


def test_columns_that_are_to_be_text_are_a_list(kafka: EmbeddedKafka, topic: str) -> None:
    with pytest.raises(TypeError, match=r"expected a list of columns that hold text, such as .*, got 'key'; write \['key'\]"):
        lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, text="key")
