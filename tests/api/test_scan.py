"""scan() with real sockets: many fetches, several partitions, and connections that end with it."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
from collections.abc import Callable, Iterator

import pytest

import levada as lv
from levada import aio
from levada.errors import ConfigError
from levada.testing import EmbeddedKafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    """Topic t: 3 x 4,000 records in small segments' worth of batches, written by a foreign client."""
    from confluent_kafka import Producer

    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 3)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "batch.num.messages": 100, "compression.type": "lz4"})
        for n in range(12_000):
            producer.produce("t", value=b"%d" % n, partition=n % 3)
            if n % 1_000 == 0:
                producer.poll(0)
        assert producer.flush(30) == 0
        yield kafka


def test_every_record_once_over_many_fetches(kafka: EmbeddedKafka) -> None:
    records = list(lv.scan("t", bootstrap_servers=kafka.bootstrap_servers, max_partition_fetch_bytes=2_000))
    assert len(records) == 12_000
    for partition in range(3):
        mine = [record for record in records if record.partition == partition]
        assert [record.offset for record in mine] == list(range(4_000))
        assert [int(record.value or b"") for record in mine] == list(range(partition, 12_000, 3))


def test_columns_over_many_fetches(kafka: EmbeddedKafka) -> None:
    pytest.importorskip("pyarrow")
    whole = lv.scan("t", bootstrap_servers=kafka.bootstrap_servers, columns=["value"], batch_rows=1_000, max_partition_fetch_bytes=2_000)
    batches = list(whole.arrow())
    assert [batch.num_rows for batch in batches] == [1_000] * 12
    assert sorted(int(value) for batch in batches for value in batch["value"].to_pylist()) == list(range(12_000))
    assert whole.to_table().num_rows == 12_000


def test_polars_takes_a_scan_as_it_is_and_as_often_as_it_likes(kafka: EmbeddedKafka) -> None:
    polars = pytest.importorskip("polars")
    whole = lv.scan("t", bootstrap_servers=kafka.bootstrap_servers, columns=["value", "offset"], text=["value"], batch_rows=1_000)
    for _ in range(2):
        frame = polars.DataFrame(whole)
        assert frame.shape == (12_000, 2)
        assert sorted(map(int, frame["value"])) == list(range(12_000))


def test_duckdb_queries_a_scan(kafka: EmbeddedKafka) -> None:
    duckdb = pytest.importorskip("duckdb")
    whole = lv.scan("t", bootstrap_servers=kafka.bootstrap_servers, columns=["partition", "value"], text=["value"])
    # A thread of DuckDB's own that has run Python stays in threading's list.
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("whole", whole)
        found = database.sql("SELECT partition, count(*), sum(value::INT) FROM whole GROUP BY ALL ORDER BY ALL").fetchall()
    assert found == [(partition, 4_000, sum(range(partition, 12_000, 3))) for partition in range(3)]


def test_a_stream_of_columns_that_is_left_closes_its_connections(kafka: EmbeddedKafka) -> None:
    pa = pytest.importorskip("pyarrow")
    before = threading.active_count()
    stream = pa.RecordBatchReader.from_stream(lv.scan("t", bootstrap_servers=kafka.bootstrap_servers, batch_rows=100))
    assert stream.read_next_batch().num_rows == 100
    stream.close()
    del stream
    gc.collect()
    assert threading.active_count() == before


def test_what_a_scan_fails_with_stands_in_the_error_of_its_stream(kafka: EmbeddedKafka) -> None:
    pa = pytest.importorskip("pyarrow")
    stream = pa.RecordBatchReader.from_stream(lv.scan("nope", bootstrap_servers=kafka.bootstrap_servers, allow_auto_create_topics=False))
    with pytest.raises(Exception, match="topic 'nope' does not exist"):
        stream.read_all()


@pytest.mark.parametrize("scan", [lv.scan, aio.scan])
def test_columns_that_do_not_exist_are_refused_before_anything_is_read(scan: Callable[..., object]) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="unknown column 'vale'; there are: key, value"):
        scan("t", bootstrap_servers="nowhere:9092", columns=["vale"])
    with pytest.raises(ValueError, match="column 'offset' cannot be text"):
        scan("t", bootstrap_servers="nowhere:9092", text=["offset"])
    with pytest.raises(ValueError, match="column 'key' cannot be text: it is not among the columns asked for: value"):
        scan("t", bootstrap_servers="nowhere:9092", columns=["value"], text=["key"])


@pytest.mark.parametrize(
    ("given", "meant"), [("colums", "columns"), ("txt", "text"), ("batch_row", "batch_rows"), ("on_dataloss", "on_data_loss")]
)
def test_M_C13_a_misspelt_argument_of_scan_is_answered_with_the_right_one(given: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown option '{given}'; did you mean '{meant}'"):
        lv.scan("t", bootstrap_servers="nowhere:9092", **{given: 1})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown option 'fetch_max_byte'; did you mean 'fetch_max_bytes'"):
        lv.scan("t", bootstrap_servers="nowhere:9092", fetch_max_byte=1)  # type: ignore[call-arg]


def test_settings_may_come_as_a_mapping_with_dots(kafka: EmbeddedKafka) -> None:
    found = lv.scan(
        "t", {"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": "read_committed"}, start={0: 3_990, 1: "latest", 2: "latest"}
    )
    assert [record.offset for record in found] == list(range(3_990, 4_000))


def test_a_scan_that_is_left_closes_its_connections(kafka: EmbeddedKafka) -> None:
    before = threading.active_count()
    for record in lv.scan("t", bootstrap_servers=kafka.bootstrap_servers):
        assert record.topic == "t"
        break
    gc.collect()
    assert threading.active_count() == before


def test_a_deserializer_applies_to_records(kafka: EmbeddedKafka) -> None:
    found = lv.scan("t", bootstrap_servers=kafka.bootstrap_servers, end={0: 2, 1: 0, 2: 0}, value_deserializer=int)
    assert [record.value for record in found] == [0, 3]


def test_splits_may_be_pickled_and_read_elsewhere(kafka: EmbeddedKafka) -> None:
    parts = lv.scan("t", bootstrap_servers=kafka.bootstrap_servers, value_deserializer=int).splits(rows=1_500)
    assert len(parts) == 9
    values = [record.value for part in parts for record in pickle.loads(pickle.dumps(part))]
    assert sorted(values) == list(range(12_000))


def test_splits_on_asyncio(kafka: EmbeddedKafka) -> None:
    async def run() -> list[int]:
        parts = await aio.scan("t", bootstrap_servers=kafka.bootstrap_servers).splits(bytes=4_000)
        assert len(parts) > 3
        return [int(record.value or b"") for part in parts async for record in part]

    assert sorted(asyncio.run(run())) == list(range(12_000))


def test_a_reader_gives_columns_piece_by_piece(kafka: EmbeddedKafka) -> None:
    pytest.importorskip("pyarrow")
    told: list[lv.ScanProgress] = []
    whole = lv.scan("t", bootstrap_servers=kafka.bootstrap_servers, columns=["value"], batch_rows=5_000, progress=told.append)
    with whole.to_reader() as reader:
        assert [batch.num_rows for batch in reader] == [5_000, 5_000, 2_000]
    assert [step.records for step in told] == [5_000, 10_000, 12_000, 12_000]
    assert told[-1] == lv.ScanProgress(12_000, 12_000, 12_000, 3, 3)
