"""Each command that moves records, against the embedded broker and real ones; one in a pipe, one in a terminal."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from cli_kit import Ran, Terminal, done, piped, run, started
from levada.cli.exits import Exit

NewTopic = Callable[..., str]
Levada = Callable[..., Ran]


@pytest.fixture
def levada(any_kafka: Any) -> Levada:
    """Run a command against the broker, which has to succeed."""
    return lambda *arguments, **more: done("-b", any_kafka.bootstrap_servers, *arguments, **more)


def test_produce_and_consume(any_kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(any_kafka, config={"max.message.bytes": "1000"})
    lines = b"a:1\nb:2\n"
    assert levada("produce", topic, "-K", ":", stdin=lines).err.endswith("levada: 2 records acknowledged\n")
    assert levada("consume", topic, "-e", "-K", ":").out == lines
    assert levada("consume", topic, "-o", "-1..", "-e", "-f", "%o %k").text == "1 b"
    refused = run("-b", any_kafka.bootstrap_servers, "produce", topic, stdin=b"c\n" + b"x" * 3_000 + b"\n", env={"LEVADA_X_LINGER_MS": "0"})
    assert refused.code == Exit.PARTLY
    assert "levada: line 2: " in refused.err
    assert "1 record acknowledged, 1 failed" in refused.err


def test_a_transaction_and_a_member_of_a_group(any_kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(any_kafka)
    assert levada("produce", topic, "--transactional-id", topic, stdin=b"1\n2\n3\n").err.endswith("levada: 3 records acknowledged\n")
    member = ("consume", topic, "-G", f"{topic}-group", "-e", "-X", "isolation.level=read_committed")
    assert levada(*member, "-c", "2").lines == ["1", "2"]
    assert levada(*member).lines == ["3"]


def test_scan_and_copy(any_kafka: Any, new_topic: NewTopic, levada: Levada, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow.parquet")
    source, target = new_topic(any_kafka, 2), f"{new_topic(any_kafka)}-copy"
    rows = [{"partition": n % 2, "timestamp": 5 + n, "key": "k", "value": str(n), "headers": {"h": "x"}} for n in range(6)]
    levada("produce", source, "-f", "json", "--keep-partitions", stdin="\n".join(map(json.dumps, rows)).encode())
    assert levada("scan", source, "--to", tmp_path / "x.parquet", "-o", "..2", "--output", "json").json()["records"] == 4
    assert sorted(pa.read_table(tmp_path / "x.parquet").column("value").to_pylist()) == [b"0", b"1", b"2", b"3"]
    copied = ("copy", source, target, "--create", "-G", f"{target}-group", "--output", "json")
    assert [levada(*copied).json()["records"] for _ in range(2)] == [6, 0]
    printed = [sorted(levada("consume", topic, "-e", "-f", "%p@%o %T %k=%s [%h]\\n").lines) for topic in (source, target)]
    assert printed[0] == printed[1]
    assert printed[0][0] == "0@0 5 k=0 [h=x]"


def test_perf(any_kafka: Any, new_topic: NewTopic, levada: Levada) -> None:
    topic = new_topic(any_kafka)
    wrote = levada("perf", "produce", topic, "-n", "300", "-s", "10", "-o", "json").json()
    assert wrote["records"] == 300
    assert wrote["latency"]["p50_ms"] <= wrote["latency"]["p99_ms"] <= wrote["latency"]["max_ms"]
    assert levada("perf", "produce", topic, "-n", "200", "--columns", "-o", "json").json()["latency"] is None
    for columns in ([], ["--columns"]):
        assert levada("perf", "consume", topic, *columns, "-o", "json").json()["records"] == 500
    assert levada("perf", "latency", topic, "-n", "5", "-o", "json").json()["records"] == 5


def test_verbose_logs_to_stderr(embedded: Any, new_topic: NewTopic) -> None:
    topic = new_topic(embedded)
    assert "levada." not in done("-b", embedded.bootstrap_servers, "consume", topic, "-e").err
    told = done("-b", embedded.bootstrap_servers, "consume", topic, "-e", "-vv")
    assert told.out == b""
    assert "levada." in told.err


# Pipes, terminals and signals


def test_in_a_pipe(embedded: Any, new_topic: NewTopic) -> None:
    topic = new_topic(embedded)
    ran = piped("produce", topic, "-b", embedded.bootstrap_servers, stdin=b"a\nb\n")
    assert (ran.code, ran.out, ran.err) == (0, b"", "levada: 2 records acknowledged\n")
    reader = started("consume", topic, "-b", embedded.bootstrap_servers)
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"a\n"
    reader.send_signal(signal.SIGTERM)
    _, err = reader.communicate(timeout=30)
    assert (reader.returncode, err) == (Exit.TERMINATED, b"")


def test_a_reader_that_leaves_ends_consume_quietly(embedded: Any, new_topic: NewTopic) -> None:
    topic = new_topic(embedded)
    done("-b", embedded.bootstrap_servers, "produce", topic, stdin=b"x" * 100 + b"\n")
    reader = started("consume", topic, "-b", embedded.bootstrap_servers)
    assert reader.stdout is not None
    reader.stdout.readline()
    reader.stdout.close()
    done("-b", embedded.bootstrap_servers, "produce", topic, stdin=b"y\n")
    assert reader.wait(30) == Exit.OUTPUT_CLOSED
    assert reader.stderr is not None
    assert reader.stderr.read() == b""
    reader.stderr.close()
    assert reader.stdin is not None
    reader.stdin.close()


def test_followed_in_a_terminal_until_ctrl_c(embedded: Any, new_topic: NewTopic) -> None:
    topic = new_topic(embedded)
    with Terminal("consume", topic, "-b", embedded.bootstrap_servers, "-f", "table", columns=200) as terminal:
        for value in ("first", "second"):
            done("-b", embedded.bootstrap_servers, "produce", topic, stdin=f"{value}\x1b[2J\n".encode())
            terminal.wait_for(f"{value}\\x1b[2J")
        assert "PARTITION" in terminal.text
        terminal.press("\x03")
        assert terminal.end() == Exit.INTERRUPTED
    assert "Traceback" not in terminal.text


HOSTILE = "v\x1b]0;t\x07\x9b2J\u202e"


@pytest.mark.parametrize("command", ["consume {} -e", "consume {} -e -f %k=%s[%h]\\n", "scan {} --to - -f csv"])
def test_no_record_commands_a_terminal(embedded: Any, new_topic: NewTopic, command: str) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        producer.send(topic, HOSTILE.encode(), b"\x1b[31mk", headers=[("h", b"\x1b[2J")])
    words = [word.format(topic) for word in command.split()]
    with Terminal(*words, "-b", embedded.bootstrap_servers, columns=200) as terminal:
        assert terminal.end() == 0
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(terminal.raw.decode())
    assert "v\\x1b]0;t\\x07" in terminal.text
    assert HOSTILE in done("-b", embedded.bootstrap_servers, *words).text


def test_a_terminal_gets_no_arrow(embedded: Any, new_topic: NewTopic) -> None:
    with Terminal("scan", new_topic(embedded), "--to", "-", "-f", "arrow", "-b", embedded.bootstrap_servers, columns=200) as terminal:
        assert terminal.end() == Exit.WRONG_USE
    assert "arrow is binary" in terminal.text


def test_a_scan_in_a_terminal(embedded: Any, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic(embedded)
    done("-b", embedded.bootstrap_servers, "produce", topic, stdin=b"x\n" * 3)
    with Terminal("scan", topic, "--to", tmp_path / "x.csv", "-b", embedded.bootstrap_servers, columns=200) as terminal:
        assert terminal.end() == 0
    assert f"file     {tmp_path / 'x.csv'}" in terminal.text
    assert "records  3" in terminal.text


@pytest.mark.parametrize(("name", "line"), [("lines", b"x\n"), ("x.jsonl", b'{"value":"x"}\n'), ("x.csv", b"value\n")])
def test_progress_in_a_terminal_only(embedded: Any, new_topic: NewTopic, tmp_path: Path, name: str, line: bytes) -> None:
    topic = new_topic(embedded)
    file = tmp_path / name
    file.write_bytes(line * 31)
    command = ("produce", topic, file, "-b", embedded.bootstrap_servers, "--rate", "20")
    with Terminal(*command) as terminal:
        assert terminal.end() == 0
        assert f"{30 if name == 'x.csv' else 31} records acknowledged" in terminal.text
        assert f"produce {topic}".encode() in terminal.raw
        assert b"100%" in terminal.raw
        assert b"/s" in terminal.raw
