"""levada produce, consume, scan and copy, what they read and write in detail; test_cli_brokers.py runs each against real brokers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import yaml

import levada as lv
from cli_kit import Ran, done, run
from levada.cli.commands import produce
from levada.cli.exits import Exit
from levada.cli.records import sinks
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from levada.registry import AvroSerializer, SchemaRegistryClient
from levada.testing import EmbeddedRegistry

NewTopic = Callable[..., str]
Levada = Callable[..., Ran]


@pytest.fixture
def kafka(embedded: Any) -> Any:
    return embedded


@pytest.fixture
def levada(kafka: Any) -> Levada:
    """Run a command against the broker, which has to succeed."""
    return lambda *arguments, **more: done("-b", kafka.bootstrap_servers, *arguments, **more)


def records_of(kafka: Any, topic: str) -> list[tuple[int, bytes | None, bytes | None, Any, int]]:
    read = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers)
    return sorted(((record.partition, record.key, record.value, list(record.headers), record.timestamp) for record in read), key=repr)


def values_of(kafka: Any, topic: str) -> list[bytes | None]:
    return [value for _, _, value, _, _ in records_of(kafka, topic)]


# produce


@pytest.fixture(params=["records", "columns"])
def lines_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lines are sent as columns from some size on; here always, or never."""
    monkeypatch.setattr("levada.cli.commands.produce.LEAST_BLOCK", 0 if request.param == "columns" else 1 << 30)
    return str(request.param)


@pytest.mark.usefixtures("lines_as")
def test_lines_without_a_key_delimiter_end_the_run_after_those_before(kafka: Any, new_topic: NewTopic) -> None:
    topic = new_topic(kafka)
    ran = run("-b", kafka.bootstrap_servers, "produce", topic, "-K", ":", "-k", "k", "-Z", stdin=b":1\nb:\nc\nd:4\n")
    assert ran.code == Exit.PARTLY
    assert ran.err.splitlines() == ["levada: 2 records acknowledged", "levada: line 3: there is no key delimiter ':' in it"]
    assert [(key, value) for _, key, value, _, _ in records_of(kafka, topic)] == [(b"b", None), (b"k", b"1")]


@pytest.mark.usefixtures("lines_as")
def test_lines_become_records_and_are_counted(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(kafka)
    ran = levada("produce", topic, "-K", ":", "-Z", "-H", "h=1", "--timestamp", "@5", stdin=b"a:1\nb:2:3\nc:\n")
    assert (ran.out, ran.err) == (b"", "levada: 3 records acknowledged\n")
    headers = [("h", b"1")]
    assert records_of(kafka, topic) == [(0, b"a", b"1", headers, 5_000), (0, b"b", b"2:3", headers, 5_000), (0, b"c", None, headers, 5_000)]


@pytest.mark.usefixtures("lines_as")
def test_other_delimiters_nulls_and_one_key(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(kafka, 3)
    ran = levada("produce", topic, "-D", "\\0", "-k", "me", "--null", "NIL", "-p", "2", "-q", stdin=b"a\nb\0NIL\0c")
    assert ran.err == ""
    read = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers)
    assert [(record.partition, record.key, record.value) for record in read] == [(2, b"me", b"a\nb"), (2, b"me", None), (2, b"me", b"c")]


def test_a_partition_that_is_not_there_is_not_waited_for(kafka: Any, new_topic: NewTopic) -> None:
    topic = new_topic(kafka, 2)
    ran = run("-b", kafka.bootstrap_servers, "-X", "max.block.ms=2000", "produce", topic, "-p", "2", stdin=b"a\nb\n")
    assert ran.code == Exit.WRONG_USE
    assert f"topic '{topic}' has no partition 2; it has 2, from 0 to 1" in ran.err


@pytest.mark.usefixtures("lines_as")
def test_a_partition_of_the_input_that_is_not_there_is_not_waited_for(kafka: Any, new_topic: NewTopic) -> None:
    topic = new_topic(kafka, 2)
    records = b'{"value": "a", "partition": 1}\n{"value": "b", "partition": 2}\n{"value": "c", "partition": 3}\n'
    arguments = ("-b", kafka.bootstrap_servers, "-X", "max.block.ms=1000", "produce", topic, "-f", "json", "--keep-partitions")
    ran = run(*arguments, stdin=records)
    assert ran.code == Exit.PARTLY
    assert ran.err.splitlines()[1] == f"levada: line 2: topic '{topic}' has no partition 2; it has 2, from 0 to 1"
    assert values_of(kafka, topic) == [b"a"]


@pytest.mark.usefixtures("lines_as")
@pytest.mark.parametrize("options", [(), ("--transactional-id", "cli-broken-off")])
def test_a_run_that_is_broken_off_counts_what_was_acknowledged(
    kafka: Any, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    tp = lv.TopicPartition(topic := new_topic(kafka), 0)

    def broken_off(*given: Any) -> Iterator[tuple[int, bytes]]:
        yield 1, b"\n".join([b"v"] * 100)
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
            until_s = time.monotonic() + 20
            while consumer.end_offsets([tp])[tp] < 100:
                assert time.monotonic() < until_s
        raise KeyboardInterrupt

    monkeypatch.setattr("levada.cli.commands.produce.blocks", broken_off)
    ran = run("-b", kafka.bootstrap_servers, "produce", topic, *options)
    assert ran.code == Exit.INTERRUPTED
    assert f"{0 if options else 100} records acknowledged" in ran.err
    assert "without an acknowledgement" not in ran.err


@pytest.mark.parametrize("format", ["lines", "json"])
def test_rows_whose_sending_was_interrupted_may_have_been_written(
    format: str, kafka: Any, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levada.cli.commands.produce.LEAST_BLOCK", 0)
    send_arrow = lv.KafkaProducer.send_arrow

    def interrupted(*given: Any, **more: Any) -> None:
        send_arrow(*given, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(lv.KafkaProducer, "send_arrow", interrupted)
    ran = run("-b", kafka.bootstrap_servers, "produce", topic := new_topic(kafka), "-f", format, stdin=b"{}\n{}\n")
    assert ran.code == Exit.INTERRUPTED
    assert "2 records sent without an acknowledgement; some may have been written" in ran.err
    assert len(records_of(kafka, topic)) == 2


def test_blocks_go_as_records_where_pyarrow_cannot_be_imported(
    kafka: Any, new_topic: NewTopic, levada: Levada, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levada.cli.commands.produce.LEAST_BLOCK", 0)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    produce._has_pyarrow.cache_clear()
    try:
        levada("produce", topic := new_topic(kafka), stdin=b"a\n")
    finally:
        produce._has_pyarrow.cache_clear()
    monkeypatch.undo()
    assert values_of(kafka, topic) == [b"a"]


def test_options_are_for_rows_that_have_no_field_of_their_own(kafka: Any, new_topic: NewTopic, levada: Levada, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    topic, path = new_topic(kafka, 3), tmp_path / "x.arrow"
    batch = pa.record_batch({"value": [b"a", b"b"], "partition": pa.array([1, None], pa.int8())})
    nothing = pa.record_batch({"value": [b"c"], "partition": pa.array([None], pa.int8())})
    with pa.ipc.new_file(path, batch.schema) as writer:
        for part in (batch, batch.slice(0, 0), nothing):
            writer.write_batch(part)
    levada("produce", topic, path, "--keep-partitions", "-p", "2", "-H", "h=1", "-k", "me")
    found = [(partition, key, value, headers) for partition, key, value, headers, _ in records_of(kafka, topic)]
    assert found == [(partition, b"me", value, [("h", b"1")]) for partition, value in ((1, b"a"), (2, b"b"), (2, b"c"))]


def test_an_option_that_does_not_fit_the_column_is_named(kafka: Any, new_topic: NewTopic, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"value": [b"a"], "partition": ["0"]})
    with pa.ipc.new_file(tmp_path / "x.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    ran = run("-b", kafka.bootstrap_servers, "produce", new_topic(kafka), tmp_path / "x.arrow", "--keep-partitions", "-p", "0")
    assert (ran.code, ran.err) == (Exit.FAILED, "levada: the column partition is string, which --partition cannot fill; give integers\n")


def test_compressed_files_are_not_read_as_lines(kafka: Any, new_topic: NewTopic, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").touch()
    ran = run("-b", kafka.bootstrap_servers, "produce", topic := new_topic(kafka), tmp_path / "x.jsonl.gz")
    assert ran.code == Exit.WRONG_USE
    assert f"x.jsonl.gz is compressed; give its content to stdin: gzip -dc or the like, then levada produce {topic} -f json" in ran.err


@pytest.mark.usefixtures("lines_as")
def test_a_record_that_is_too_large_is_named_by_its_line(kafka: Any, new_topic: NewTopic) -> None:
    arguments = ("-b", kafka.bootstrap_servers, "-X", "max.request.size=1000", "produce", new_topic(kafka), "-f", "json")
    ran = run(*arguments, stdin=b'{"value": "a"}\n{"value": "' + b"x" * 2_000 + b'"}\n{"value": "c"}\n')
    assert ran.code == Exit.PARTLY
    assert "line 2: " in ran.err
    assert "row" not in ran.err


@pytest.mark.usefixtures("lines_as")
def test_options_are_for_json_records_that_have_no_field_of_their_own(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(kafka, 3)
    own = {"key": "k", "value": 1.50, "headers": {"h": "own"}, "partition": 1, "timestamp": 5}
    records = "\n".join([json.dumps(own), "{}", "", json.dumps({**dict.fromkeys(own), "timestamp": -1, "value": ["v"]})]).encode()
    options = ("-k", "me", "-H", "c=x", "-p", "2", "--timestamp", "@7")
    levada("produce", topic, "-f", "json", "--keep-partitions", *options, stdin=records)
    without, both = [("c", b"x")], [("h", b"own"), ("c", b"x")]
    assert records_of(kafka, topic) == [(1, b"k", b"1.5", both, 5), (2, b"me", None, without, 7_000), (2, b"me", b'["v"]', without, 7_000)]
    levada("produce", topic := new_topic(kafka, 3), "-f", "json", *options, stdin=records.replace(b"\n\n", b"\n"))
    assert [(partition, key) for partition, key, *_ in records_of(kafka, topic)] == [(2, b"k"), (2, b"me"), (2, b"me")]


def test_csv_is_records_or_rows_as_json(kafka: Any, new_topic: NewTopic, levada: Levada, tmp_path: Path) -> None:
    records, rows = new_topic(kafka, 2), new_topic(kafka)
    (tmp_path / "records.csv").write_text('key,value,partition,timestamp,headers\nk,"a,b",1,7,"{""h"": ""x""}"\n')
    (tmp_path / "rows.csv").write_text("id,name\n1,Ada\n2,Bob\n")
    levada("produce", records, tmp_path / "records.csv", "--keep-partitions")
    levada("produce", rows, tmp_path / "rows.csv")
    assert records_of(kafka, records) == [(1, b"k", b"a,b", [("h", b"x")], 7)]
    assert values_of(kafka, rows) == [b'{"id":"1","name":"Ada"}', b'{"id":"2","name":"Bob"}']


def test_a_file_is_one_value(kafka: Any, new_topic: NewTopic, levada: Levada, tmp_path: Path) -> None:
    topic = new_topic(kafka)
    (tmp_path / "a").write_bytes(b"one\ntwo\xff")
    levada("produce", topic, tmp_path / "a", "-f", "file", "-z", "zstd", "-a", "all")
    assert values_of(kafka, topic) == [b"one\ntwo\xff"]


@pytest.mark.usefixtures("lines_as")
def test_a_record_that_fails_is_an_exit_code_and_its_line(kafka: Any, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic(kafka, config={"max.message.bytes": "1000"})
    ran = run(
        "-b", kafka.bootstrap_servers, "produce", topic, stdin=b"small\n" + b"x" * 3_000 + b"\nsmall\n", env={"LEVADA_X_LINGER_MS": "0"}
    )
    assert ran.code == Exit.PARTLY
    assert "levada: line 2: " in ran.err
    assert "2 records acknowledged, 1 failed" in ran.err
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"value": [b"a", b"x" * 3_000, b"b"], "key": [b"1", b"2", b"3"]}), tmp_path / "x.parquet")
    ran = run("-b", kafka.bootstrap_servers, "produce", topic, str(tmp_path / "x.parquet"), "-o", "json")
    assert ran.code == Exit.PARTLY
    assert "row 2" in ran.err
    assert ran.json() == {"acknowledged": 2, "failed": 1}


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.arrows"])
def test_columns_come_from_stdin(kafka: Any, new_topic: NewTopic, levada: Levada, name: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"value": [b"a", b"b"]})
    if name == "x.parquet":
        pq.write_table(table, tmp_path / name)
    else:
        with (pa.ipc.new_file if name == "x.arrow" else pa.ipc.new_stream)(tmp_path / name, table.schema) as writer:
            writer.write_table(table)
    topic = new_topic(kafka)
    ran = levada("produce", topic, "-f", "parquet" if name == "x.parquet" else "arrow", stdin=(tmp_path / name).read_bytes())
    assert ran.err == "levada: 2 records acknowledged\n"
    assert values_of(kafka, topic) == [b"a", b"b"]


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_what_is_no_file_of_columns_is_told_by_its_name(kafka: Any, new_topic: NewTopic, format: str, tmp_path: Path) -> None:
    for given in (b"", b"neither"):
        ran = run("-b", kafka.bootstrap_servers, "produce", new_topic(kafka), "-f", format, stdin=given)
        assert (ran.code, f"levada: stdin: this cannot be read as {format}: " in ran.err) == (Exit.FAILED, True), ran.err
    (tmp_path / "x").write_bytes(b"neither")
    assert (
        f"{tmp_path / 'x'}: this cannot be read as" in run("-b", kafka.bootstrap_servers, "produce", "t", "-f", format, tmp_path / "x").err
    )


@pytest.mark.usefixtures("lines_as")
def test_a_line_that_cannot_be_read_ends_it_after_what_stood_before(kafka: Any, new_topic: NewTopic) -> None:
    topic = new_topic(kafka)
    ran = run("-b", kafka.bootstrap_servers, "produce", topic, "-f", "json", stdin=b'{"value": "a"}\n{"valu": "b"}\n{"value": "c"}\n')
    assert ran.code == Exit.PARTLY
    assert ran.err.splitlines()[0] == "levada: 1 record acknowledged"
    assert "line 2: unknown field 'valu'" in ran.err
    assert values_of(kafka, topic) == [b"a"]


@pytest.mark.usefixtures("lines_as")
def test_without_a_record_before_it_or_in_a_transaction_a_bad_line_is_no_part(kafka: Any, new_topic: NewTopic) -> None:
    arguments = ("-b", kafka.bootstrap_servers, "produce", topic := new_topic(kafka), "-f", "json")
    nothing = run(*arguments, stdin=b"{\n")
    assert (nothing.code, len(nothing.err.splitlines())) == (Exit.FAILED, 1)
    assert "line 1: " in nothing.err
    aborted = run(*arguments, "--transactional-id", topic, stdin=b'{"value": "a"}\n{\n')
    assert (aborted.code, aborted.err.splitlines()[0]) == (Exit.FAILED, "levada: 0 records acknowledged")


def test_a_file_that_is_not_there_leaves_a_part(kafka: Any, new_topic: NewTopic, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n")
    ran = run("-b", kafka.bootstrap_servers, "produce", new_topic(kafka), tmp_path / "a", tmp_path / "b")
    assert ran.code == Exit.PARTLY
    assert ran.err.splitlines() == ["levada: 1 record acknowledged", f"levada: {tmp_path / 'b'}: No such file or directory"]


def test_rows_of_any_columns_become_json(kafka: Any, new_topic: NewTopic, levada: Levada, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    topic = new_topic(kafka)
    rows = pa.table({"id": [1], "tags": [["a", "b"]], "raw": [b"\xff"], "at": pa.array([5], pa.timestamp("us")), "in": [{"a": b"x"}]})
    pq.write_table(rows, tmp_path / "x.parquet")
    levada("produce", topic, tmp_path / "x.parquet")
    assert values_of(kafka, topic) == [b'{"id":1,"tags":["a","b"],"raw":{"base64":"/w=="},"at":0,"in":{"a":"x"}}']


def test_columns_that_records_do_not_have(kafka: Any, new_topic: NewTopic, levada: Levada, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    topic, path = new_topic(kafka), tmp_path / "x.parquet"
    pq.write_table(pa.table({"value": [b"a"], "header": ["h"]}), path)
    refused = run("-b", kafka.bootstrap_servers, "produce", topic, path)
    assert refused.code == Exit.FAILED
    assert "no column 'header'" in refused.err
    assert "did you mean 'headers'?" in refused.err
    levada("produce", topic, path, "--ignore-columns")
    assert values_of(kafka, topic) == [b"a"]


@pytest.mark.usefixtures("lines_as")
def test_a_record_that_no_broker_would_take_is_named_by_its_line(kafka: Any, new_topic: NewTopic) -> None:
    ran = run("-b", kafka.bootstrap_servers, "produce", new_topic(kafka), "-f", "json", stdin=b'{"value": "a"}\n{"timestamp": -5}\n')
    assert ran.code == Exit.PARTLY
    assert "line 2: " in ran.err
    assert "Traceback" not in ran.err


def test_a_transaction_is_all_or_nothing(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(kafka, config={"max.message.bytes": "1000"})
    arguments = ("-b", kafka.bootstrap_servers, "produce", topic, "--transactional-id", topic)
    ran = run(*arguments, stdin=b"a\n" + b"x" * 3_000 + b"\n")
    assert ran.code == Exit.FAILED
    assert "levada: 0 records acknowledged, 1 failed" in ran.err
    assert done(*arguments, stdin=b"b\nc\n").err == "levada: 2 records acknowledged\n"
    ran = levada("consume", topic, "-e", "-X", "isolation.level=read_committed")
    assert ran.lines == ["b", "c"]


# consume


@pytest.fixture
def filled(kafka: Any, new_topic: NewTopic, levada: Levada) -> str:
    """A topic with two partitions of five records each: 0-0 to 0-4, at 1000 s to 1004 s, and 1-0 to 1-4."""
    topic = new_topic(kafka, 2)
    lines = [
        {"partition": p, "timestamp": (1_000 + n) * 1_000, "key": f"k{n}", "value": f"{p}-{n}", "headers": {"n": str(n)}}
        for p in range(2)
        for n in range(5)
    ]
    levada("produce", topic, "-f", "json", "--keep-partitions", stdin="\n".join(map(json.dumps, lines)).encode())
    return topic


ALL = [f"{p}-{n}" for p in range(2) for n in range(5)]


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["-e"], ALL),
        (["-e", "-o", "start"], ALL),
        (["-e", "-o", "end"], []),
        (["-e", "-o", "-1"], ["0-4", "1-4"]),
        (["-e", "-o", "+4"], ["0-4", "1-4"]),
        (["-o", "1..2"], ["0-1", "1-1"]),
        (["-o", "0:3..,1:4", "-e"], ["0-3", "0-4", "1-4"]),
        (["-o", "1:1..3"], ["1-1", "1-2"]),
        (["-o", "@1003..@1004"], ["0-3", "1-3"]),
        (["-o", "-1h..end"], []),
        (["-e", "-p", "1", "-o", "3"], ["1-3", "1-4"]),
        (["-c", "3", "-p", "0"], ["0-0", "0-1", "0-2"]),
        (["-e", "--key", "k1"], ["0-1", "1-1"]),
        (["-e", "--value", "/^1-[34]$/"], ["1-3", "1-4"]),
        (["-e", "--header", "n=2", "--value", "0-"], ["0-2"]),
        (["-e", "--header", "m"], []),
    ],
)
def test_what_is_asked_for_is_printed(levada: Levada, filled: str, arguments: list[str], values: list[str]) -> None:
    assert sorted(levada("consume", filled, *arguments).lines) == values


def test_formats(levada: Levada, filled: str) -> None:
    one = ("consume", filled, "-o", "1:4", "-e")
    record = {"topic": filled, "partition": 1, "offset": 4, "timestamp": 1_004_000, "key": "k4", "value": "1-4"}
    whole = {**record, "headers": [{"key": "n", "value": "4"}]}
    for asked in (["-J"], ["-f", "json"], ["--output", "json"]):
        assert levada(*one, *asked).json() == whole
    for asked in (["-f", "yaml"], ["--output", "yaml"]):
        assert yaml.safe_load(levada(*one, *asked).text) == [whole]
    assert levada(*one, "--output", "table").lines[0].split() == ["PARTITION", "OFFSET", "TIME", "KEY", "VALUE"]
    assert levada(*one, "-K", "=").text == "k4=1-4\n"
    assert levada(*one, "-f", "%t %p %o %T %k %s %K %S %h\\n").text == f"{filled} 1 4 1004000 k4 1-4 2 3 n=4\n"
    assert levada(*one, "-f", "table").lines[1].split() == [f"{filled}-1", "4", "1970-01-01T00:16:44.000Z", "k4", "1-4"]
    assert "31 2d 34" in levada(*one, "-f", "hex").text


def test_the_format_may_come_from_the_environment_or_the_profile(levada: Levada, kafka: Any, filled: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[profiles.dev]\noutput = "yaml"\n')
    (tmp_path / "config.toml").chmod(0o600)
    profile = {"LEVADA_CONFIG": str(tmp_path / "config.toml"), "LEVADA_PROFILE": "dev"}
    one = ("consume", filled, "-o", "1:4", "-e")
    assert yaml.safe_load(levada(*one, env=profile).text)[0]["value"] == "1-4"
    json_wanted = {**profile, "LEVADA_OUTPUT": "json"}
    assert levada(*one, env=json_wanted).json()["value"] == "1-4"
    assert levada("produce", filled, "-p", "0", env=json_wanted, stdin=b"x\n").json() == {"acknowledged": 1, "failed": 0}
    # What the command line says counts first.
    assert levada(*one, "-K", "=", env=json_wanted).text == "k4=1-4\n"
    assert levada(*one, "-f", "%s", env=json_wanted).text == "1-4"
    assert levada(*one, "-K", "=", "--output", "json").json()["value"] == "1-4"
    # A table is the usual form of other commands: to say so once for all does not change what a pipe gets.
    assert levada(*one, env={"LEVADA_OUTPUT": "table"}).text == "1-4\n"


@pytest.mark.usefixtures("lines_as")
def test_what_json_prints_json_reads(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    source, target = new_topic(kafka, 3), new_topic(kafka, 3)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(source, b"\xff\x00", b"\xfe", partition=1, timestamp=5, headers=[("h", b"\xfd"), ("h", None)])
        producer.send(source, None, None, partition=2, timestamp=6)
        producer.send(source, "ä\x1b{}".encode(), b"", partition=0, timestamp=7)
    printed = levada("consume", source, "-e", "-J")
    levada("produce", target, "-f", "json", "--keep-partitions", stdin=printed.out)
    assert records_of(kafka, target) == records_of(kafka, source)


def test_a_member_commits_what_it_printed(levada: Levada, filled: str) -> None:
    group = f"{filled}-group"
    first = levada("consume", filled, "-G", group, "-e", "-c", "3").lines
    rest = levada("consume", filled, "-G", group, "-e").lines
    assert sorted(first + rest) == ALL
    again = levada("consume", filled, "-G", group, "-e")
    assert (again.lines, again.err) == ([], f"levada: nothing new for group {group} in {filled}-0, {filled}-1\n")


def test_a_topic_that_is_not_there_is_named_and_not_created(kafka: Any) -> None:
    ran = run("-b", kafka.bootstrap_servers, "consume", "no-such-topic", "-e")
    assert ran.code == Exit.FAILED
    assert "no-such-topic" in ran.err
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        assert "no-such-topic" not in admin.list_topics()


def test_values_that_a_registry_knows_the_schema_of(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    pytest.importorskip("fastavro")
    topic = new_topic(kafka)
    schema = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, {"name": "price", "type": "int"}]})
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as registry:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send(topic, AvroSerializer(registry, schema, topic=topic)({"id": "apple", "price": 3}), b'{"k": 1}')
            producer.send(topic, b"no Avro", b"{}")
        command = ("consume", topic, "-e", "-s", "value=avro", "-s", "key=json", "-X", f"schema.registry.url={server.url}", "-J")
        failed = run("-b", kafka.bootstrap_servers, *command)
        assert failed.code == Exit.FAILED
        assert f"{topic}-0" in failed.err
        printed = levada(*command, "--on-decode-error", "null").json_lines()
        assert [(one["key"], one["value"]) for one in printed] == [({"k": 1}, {"id": "apple", "price": 3}), ({}, None)]
        assert levada(*command, "--on-decode-error", "skip", "-f", "%k %s").text == '{"k":1} {"id":"apple","price":3}'
    unnamed = run("-b", kafka.bootstrap_servers, "consume", topic, "-s", "avro")
    assert unnamed.code == Exit.WRONG_USE
    assert "schema.registry.url" in unnamed.err


def test_a_member_prints_and_commits_what_is_before_a_bad_record(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(kafka)
    levada("produce", topic, stdin=b"1\n2\nno JSON\n4\n")
    member = ("-b", kafka.bootstrap_servers, "consume", topic, "-G", topic, "-e", "-s", "value=json")
    for lines in (["1", "2"], []):
        ran = run(*member)
        assert (ran.code, ran.lines) == (Exit.FAILED, lines)
        assert f"{topic}-0" in ran.err
    assert levada(*member[2:], "--on-decode-error", "skip").lines == ["4"]


def test_skipped_records_are_told_three_times_and_then_counted(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(kafka)
    levada("produce", topic, stdin=b"1\n" + b"no JSON\n" * 9)
    ran = levada("consume", topic, "-e", "-s", "value=json", "--on-decode-error", "skip")
    assert ran.lines == ["1"]
    *skipped, counted = ran.err.splitlines()
    assert [f"{topic}-0 at offset {offset}:" in line for offset, line in enumerate(skipped, 1)] == [True] * 3
    assert counted == "levada: 6 more records skipped"


def test_records_that_cannot_be_decoded_are_printed_alone_with_the_reason(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in (b"1", b"{bad", None, b"[also bad"):
            producer.send(topic, value, headers=[("service", b"old")])
    command = ("consume", topic, "-e", "-s", "value=json")
    only = (*command, "--on-decode-error", "only")
    first, second = levada(*only, "-f", "%o %h %s %e\\n").lines
    assert first.startswith("1 service=old {bad Expecting property name")
    assert second.startswith("3 service=old [also bad Expecting value")
    assert [one["value"] for one in levada(*only, "-J", "--value", "also").json_lines()] == ["[also bad"]
    failed = run("-b", kafka.bootstrap_servers, *command)
    assert (failed.code, failed.lines) == (Exit.FAILED, ["1"])
    error, advice = failed.err.splitlines()
    assert "at offset 1: " in error
    assert "--on-decode-error skip leaves such records out" in advice
    assert run("-b", kafka.bootstrap_servers, "consume", topic, "--on-decode-error", "only").code == Exit.WRONG_USE


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_records_behind_an_open_transaction_are_told(isolation: str, kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"v").result(timeout=10)
        ran = levada("consume", topic, "-e", "-X", f"isolation.level={isolation}")
        producer.abort_transaction()
    waits = isolation == "read_committed"
    assert ran.lines == ([] if waits else ["v"])
    assert (f"{topic}-0 (from offset 0, the log ends at 1)" in ran.err) == waits
    assert (f"open there: {topic}; `levada transactions abort {topic}` ends" in ran.err) == waits
    assert "is empty" not in ran.err


def test_an_offset_behind_the_end_is_waited_for(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(kafka)

    def write(*numbers: int) -> None:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in numbers:
                producer.send(topic, b"%d" % number)

    write(0, 1)
    later = Timer(0.5, write, range(2, 6))
    later.start()
    ran = levada("consume", topic, "-o", "3", "-c", "2")
    assert ran.lines == ["3", "4"]
    assert "so its first record is waited for" in ran.err
    later.join()


def test_a_schema_that_is_none_is_refused() -> None:
    assert "did you mean 'avro'" in run("consume", "t", "-s", "avr").err
    assert "did you mean 'value'" in run("consume", "t", "-s", "valu=avro").err


# scan


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.csv", "x.jsonl", "x.duckdb"])
def test_a_scan_writes_a_file_that_others_read(levada: Levada, filled: str, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    result = levada("scan", filled, "--to", path, "-o", "1..4", "--text", "-o", "1..4", "--output", "json").json()
    assert (result["records"], result["bytes"]) == (6, path.stat().st_size)
    assert sorted(rows_in(path)) == [f"{p}-{n}" for p in range(2) for n in range(1, 4)]
    assert sorted(one.name for one in tmp_path.iterdir()) == [name]


def rows_in(path: Path) -> list[str]:
    """The values in a file, as another program reads them."""
    duckdb = pytest.importorskip("duckdb")
    if path.suffix == ".arrow":
        pa = pytest.importorskip("pyarrow")
        return list(pa.ipc.open_file(path).read_all().column("value").to_pylist())
    # A thread of DuckDB's own that has run Python stays in threading's list.
    where = str(path) if path.suffix == ".duckdb" else ":memory:"
    with duckdb.connect(where, config={"threads": 1}) as database:
        table = "records" if path.suffix == ".duckdb" else f"'{path}'"
        return [value for (value,) in database.sql(f"SELECT value FROM {table}").fetchall()]


def test_a_database_on_a_full_disk_is_no_bug(
    levada: Levada, kafka: Any, filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "x.duckdb"

    class Full(sinks._DuckDB):
        def _insert(self, rows: Any, statement: str) -> None:
            super()._insert(rows, statement)
            if rows.num_rows:
                raise duckdb.IOException("No space left on device")

    monkeypatch.setitem(sinks._MAKERS, "duckdb", Full)
    ran = run("-b", kafka.bootstrap_servers, "scan", filled, "--to", str(path))
    assert (ran.code, ran.err) == (Exit.FAILED, f"levada: {path}: No space left on device\n")
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_added_to_a_database_that_is_there(levada: Levada, kafka: Any, filled: str, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "x.duckdb"
    levada("scan", filled, "--to", path)
    again = run("-b", kafka.bootstrap_servers, "scan", filled, "--to", str(path))
    assert again.code == Exit.FAILED
    assert "choose another name with --table" in again.err
    levada("scan", filled, "--to", path, "--table", "more", "-o", "4")
    with duckdb.connect(str(path), config={"threads": 1}) as database:
        assert database.sql("SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM more)").fetchall() == [(10, 2)]


def test_bytes_that_are_no_text_need_another_format_than_csv(kafka: Any, new_topic: NewTopic, levada: Levada, tmp_path: Path) -> None:
    levada("produce", topic := new_topic(kafka), stdin=b"\xff\n")
    ran = run("-b", kafka.bootstrap_servers, "scan", topic, "--to", tmp_path / "x.csv")
    assert ran.code == Exit.FAILED
    assert ran.err.splitlines()[-1] == "levada: csv, duckdb and --text are for text; --format parquet, arrow and jsonl keep all bytes"


def test_mistakes_in_a_scan_are_named(kafka: Any, tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        ran = run("-b", kafka.bootstrap_servers, "scan", "t", *arguments)
        assert ran.code == Exit.WRONG_USE
        return ran.err

    assert "did you mean 'headers'" in refused("--to", "x.csv", "--columns", "header")
    assert "lists, which CSV does not have" in refused("--to", "x.csv", "--columns", "headers")
    assert f"there is no folder {tmp_path / 'no'}" in refused("--to", str(tmp_path / "no" / "x.parquet"))
    assert "its name does not show a format" in refused("--to", "x.foo")
    assert "did you mean 'parquet'" in refused("--to", "x", "-f", "parket")


def test_mistakes_about_files_are_named(levada: Levada, kafka: Any, filled: str) -> None:
    for arguments, fault in (
        (["x.csv", "--compression", "zstd"], "not for csv"),
        (["x.parquet", "--compression", "zst"], "did you mean 'zstd'"),
        (["-", "-f", "duckdb"], "cannot be written to a pipe"),
        (["-"], "stdout has no suffix; give --format arrow|csv|duckdb|jsonl|parquet"),
    ):
        ran = run("-b", kafka.bootstrap_servers, "scan", filled, "--to", *arguments)
        assert (ran.code, fault in ran.err) == (Exit.WRONG_USE, True), ran.err


def test_parquet_goes_through_a_pipe(levada: Levada, kafka: Any, filled: str, new_topic: NewTopic) -> None:
    written = levada("scan", filled, "--to", "-", "-f", "parquet")
    assert written.out.startswith(b"PAR1")
    assert written.err == "levada: 10 records\n"
    topic = new_topic(kafka, 2)
    assert levada("produce", topic, "-", "-f", "parquet", "--keep-partitions", "--ignore-columns", stdin=written.out).err == (
        "levada: 10 records acknowledged\n"
    )
    assert values_of(kafka, topic) == values_of(kafka, filled)


def test_a_range_without_records_is_told(levada: Levada, kafka: Any, filled: str, new_topic: NewTopic) -> None:
    empty = new_topic(kafka)
    for command in (("consume", "-e"), ("scan", "--to", "-", "-f", "jsonl")):
        assert levada(*command, empty).err.splitlines()[0] == f"levada: the log is empty, so nothing is read: {empty}-0"
        for offset in ("2..2", "end", "-2h..-1h"):
            told = levada(*command, filled, "-o", offset).err
            assert told.splitlines()[0] == f"levada: there are no records in the range, so nothing is read: {filled}-0, {filled}-1"
    assert run("-b", kafka.bootstrap_servers, "consume", filled, "-e", "-p", "7").code == Exit.WRONG_USE
    assert levada("consume", filled, "-e", "-o", "2..3").err == ""


def test_topics_of_a_regular_expression(levada: Levada, kafka: Any, new_topic: NewTopic) -> None:
    first, second = new_topic(kafka), new_topic(kafka)
    for topic in (first, second):
        levada("produce", topic, stdin=topic.encode())
    both = f"/{first}|{second}/"
    assert sorted(levada("consume", both, "-e").lines) == sorted([first, second])
    assert sorted(levada("consume", both, first, "-e", "-G", f"{first}-readers").lines) == sorted([first, second])
    assert sorted(levada("consume", "-t", f"/{first}x?/", "-e", "-f", "%t\\n").lines) == [first]
    assert {row["topic"] for row in levada("scan", both, "--to", "-", "-f", "jsonl").json_lines()} == {first, second}
    nothing = run("-b", kafka.bootstrap_servers, "consume", f"/{first[:-1]}/", "-e")
    assert (nothing.code, nothing.err) == (Exit.FAILED, f"levada: no topic matches /{first[:-1]}/\n")
    wrong = run("-b", kafka.bootstrap_servers, "consume", "/(/", "-e")
    assert (wrong.code, "is no regular expression" in wrong.err) == (Exit.WRONG_USE, True)


def test_offsets_outside_of_the_log(levada: Levada, kafka: Any, filled: str) -> None:
    assert sorted(levada("consume", filled, "-o", "4..100", "-e").lines) == ["0-4", "1-4"]
    assert len(levada("scan", filled, "--to", "-", "-f", "jsonl", "-o", "4..100").lines) == 2
    for command in (
        ("consume", filled, "-e"),
        ("scan", filled, "--to", "-", "-f", "jsonl"),
        ("copy", filled, f"{filled}-copy", "--create"),
    ):
        ran = levada(*command, "--offset", "9")
        assert "the range begins behind the end of the log, so nothing is read: " in ran.err
        assert f"{filled}-0 (from 9, the log ends at 5), {filled}-1 (from 9, the log ends at 5)" in ran.err
        assert "the range ends behind the end of the log, so only what is there is read" in levada(*command, "--offset", "4..9").err
        ran = levada(*command, "--offset", "@2200-01-01")
        assert "the range begins at a time to come, so nothing is read: " in ran.err
        assert "time to come" not in levada(*command, "--offset", "-1h").err
        assert "the range ends before it begins, so nothing is read" in levada(*command, "--offset", "4..-3").err
        reversed_range = run("-b", kafka.bootstrap_servers, *command, "--offset", "4..3")
        assert (reversed_range.code, reversed_range.err) == (
            Exit.WRONG_USE,
            "levada: offsets '4..3': the range 4..3 ends before it begins\n",
        )
    partition = DeleteRecordsPartition(partition_index=0, offset=3)
    with lv.KafkaClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        client.request(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=filled, partitions=[partition])], timeout_ms=5_000))
    ran = levada("consume", filled, "-p", "0", "-o", "1..4", "-e")
    assert (ran.lines, ran.err) == (["0-3"], f"levada: {filled}-0: records before offset 3 are gone\n")
    lost = run("-b", kafka.bootstrap_servers, "scan", filled, "--to", "-", "-f", "jsonl", "-o", "0:1..4")
    assert lost.code == Exit.FAILED
    assert "records [1, 3) are gone" in lost.err


def test_columns_keys_and_stdout(levada: Levada, filled: str) -> None:
    ran = levada("scan", filled, "--to", "-", "-f", "csv", "--columns", "value,offset", "--key", "k2")
    assert sorted(ran.lines) == ['"0-2",2', '"1-2",2', '"value","offset"']
    assert ran.err == "levada: 2 records\n"


def test_what_a_scan_wrote_can_be_produced_again(kafka: Any, new_topic: NewTopic, levada: Levada, filled: str, tmp_path: Path) -> None:
    for name in ("x.parquet", "x.arrow", "x.jsonl"):
        target = new_topic(kafka, 2)
        levada("scan", filled, "--to", tmp_path / name)
        levada("produce", target, tmp_path / name, "--keep-partitions")
        assert records_of(kafka, target) == records_of(kafka, filled)


def test_a_scan_that_is_broken_off_leaves_the_old_file(levada: Levada, kafka: Any, filled: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("old")
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(filled, b"\xff\xfe")
    ran = run("-b", kafka.bootstrap_servers, "scan", filled, "--to", str(path))
    assert ran.code == Exit.FAILED
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("x.csv", "old")]


# copy


def test_a_copy_is_the_same_byte_for_byte(kafka: Any, new_topic: NewTopic, levada: Levada, filled: str) -> None:
    target = f"{filled}-copy"
    refused = run("-b", kafka.bootstrap_servers, "copy", filled, target)
    assert refused.code == Exit.WRONG_USE
    assert "--create creates it" in refused.err
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(filled, None, b"\xff", partition=0, timestamp=8, headers=[("h", None), ("h", b"\xff")])
        producer.send(filled, b"", None, partition=1, timestamp=9)
    assert levada("copy", filled, target, "--create", "--output", "json").json()["records"] == 12
    assert records_of(kafka, target) == records_of(kafka, filled)
    small = new_topic(kafka)
    refused = run("-b", kafka.bootstrap_servers, "copy", filled, small)
    assert "has 1 partition, but 2 are copied" in refused.err
    assert levada("copy", filled, small, "--spread", "--offset", "..2", "--output", "json").json()["records"] == 4


def test_nothing_is_copied_from_before_the_offset_that_was_given(kafka: Any, new_topic: NewTopic, filled: str) -> None:
    target = new_topic(kafka, 2)
    refused = run("-b", kafka.bootstrap_servers, "copy", filled, target, "-o", "7..9", "--follow")
    assert refused.code == Exit.WRONG_USE
    assert f"{filled}-0 ends at 5" in refused.err
    assert values_of(kafka, target) == []


def test_what_was_aborted_is_not_copied(kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    source, target, all_of_it = (new_topic(kafka) for _ in range(3))
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=source) as producer:
        producer.init_transactions()
        for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
            producer.begin_transaction()
            producer.send(source, value)
            producer.flush()
            end()
    levada("copy", source, target)
    assert values_of(kafka, target) == [b"committed"]
    levada("copy", source, all_of_it, "-X", "isolation.level=read_uncommitted")
    assert values_of(kafka, all_of_it) == [b"aborted", b"committed"]


def test_a_copy_goes_on_where_it_stopped(kafka: Any, new_topic: NewTopic, levada: Levada, filled: str) -> None:
    target, group = new_topic(kafka, 2), f"{filled}-copier"
    again = ("copy", filled, target, "-G", group, "--output", "json")
    assert levada(*again, "-o", "..3").json()["records"] == 6
    assert levada(*again).json()["records"] == 4
    assert levada(*again).json()["records"] == 0
    assert records_of(kafka, target) == records_of(kafka, filled)
