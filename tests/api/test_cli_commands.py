"""The commands of `levada` that look at a cluster and change it, on every broker."""

from __future__ import annotations

import json
import platform
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

import levada as lv
from cli_kit import Ran, Terminal, run, started
from guarded_kafka import ROOT, GuardedKafka
from levada.cli.exits import Exit
from levada.cli.positions import log_ends
from levada.exactly_once.batch import BatchId, Rows, Slot, SlotName
from levada.exactly_once.ledger import Entry
from levada.testing import Authority, EmbeddedKafka, EmbeddedRegistry

NewTopic = Callable[..., str]


class Levada(Protocol):
    """Runs `levada` for a broker; a code that is not expected fails the test.

    until: the command is repeated until this holds, for ten seconds at most: what a real controller has accepted, its broker knows later.
    """

    def __call__(self, *arguments: str | Path, code: int = 0, stdin: bytes = b"", until: Callable[[Ran], bool] = ...) -> Ran: ...


def on(**environment: str) -> Levada:
    def call(*arguments: str | Path, code: int = 0, stdin: bytes = b"", until: Callable[[Ran], bool] = lambda ran: True) -> Ran:
        give_up = time.monotonic() + 10
        while not until(ran := run(*arguments, stdin=stdin, env={"LEVADA_OUTPUT": "json", **environment})):
            assert time.monotonic() < give_up, ran
            time.sleep(0.05)
        assert ran.code == code, ran.err
        return ran

    return call


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka44", marks=pytest.mark.kafka)])
def kafka(request: pytest.FixtureRequest) -> Any:
    """The embedded broker, and one real one: what else differs between brokers, tests of the library have shown."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def levada(kafka: Any) -> Levada:
    return on(LEVADA_BROKERS=kafka.bootstrap_servers)


@pytest.fixture
def topic(kafka: Any, new_topic: NewTopic) -> str:
    """A topic of two partitions, with three records in the first one."""
    name = new_topic(kafka, 2)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(3):
            producer.send(name, b"%d" % number, partition=0, timestamp=1_000 + number).result()
    return name


@pytest.fixture
def admin(kafka: Any) -> Iterator[lv.KafkaAdmin]:
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


# Topics


def test_topics_are_created_listed_and_deleted(levada: Levada, topic: str) -> None:
    name = f"{topic}-new"
    (made,) = levada("topics", "create", name, "-p", "3", "-c", "retention.ms=86400000").json()
    assert made == {"name": name, "outcome": "created with 3 partitions, 1 replica each", "error": None}
    rows = {row["topic"]: row for row in levada("topics", "list", until=lambda ran: f'"{name}"' in ran.text).json()}
    assert rows[name] == {"topic": name, "partitions": 3, "replicas": 1, "without_leader": 0, "out_of_sync": 0}
    again = levada("topics", "create", name, code=1)
    assert "it exists already" in again.err
    assert levada("topics", "create", name, "--if-not-exists").json()[0]["outcome"] == "exists already"
    assert levada("topics", "delete", name, f"{name}-2", "--yes", code=6).json()[0]["outcome"] == "deleted"


def test_what_failed_is_told_once(levada: Levada, topic: str) -> None:
    refused = f"create topic '{topic}': it exists already"
    for names, code in (([topic], 1), ([topic, f"{topic}-more"], 6)):
        ran = levada("topics", "create", *names, "--dry-run", "-o", "table", code=code)
        assert (ran.text + ran.err).count(refused) == 1
        assert ran.err.startswith(f"levada: {refused}")
    assert [row["error"] is None for row in levada("topics", "create", topic, f"{topic}-more", "--dry-run", code=6).json()] == [False, True]


def test_topics_that_could_be_created(levada: Levada, topic: str) -> None:
    assert levada("topics", "create", f"{topic}-x", "-p", "1", "--dry-run").json()[0]["outcome"].startswith("can be created")
    assert f"{topic}-x" not in {row["topic"] for row in levada("topics", "list").json()}


def test_a_topic_is_described(levada: Levada, topic: str) -> None:
    first, second = levada("topics", "describe", topic).json()
    assert (first["partition"], first["start"], first["end"]) == (0, 0, 3)
    assert first["in_sync"] == first["replicas"] == [first["leader"]]
    assert (second["partition"], second["end"]) == (1, 0)


def test_a_topic_gets_partitions(levada: Levada, topic: str) -> None:
    levada("topics", "add-partitions", topic, "--total", "3")
    levada("topics", "describe", topic, until=lambda ran: len(ran.json()) == 3)
    assert "INVALID_PARTITIONS" in levada("topics", "add-partitions", topic, "--total", "2", code=1).err


@pytest.mark.parametrize(("at", "offsets"), [("start", [0, 0]), ("end", [3, 0]), ("-2", [1, 0]), ("@1970-01-01T00:00:01.002Z", [2, 0])])
def test_offsets_at_a_position(levada: Levada, topic: str, at: str, offsets: list[int]) -> None:
    assert [row["offset"] for row in levada("topics", "offsets", topic, "--at", at).json()] == offsets


def test_offsets_at_positions_of_single_partitions(levada: Levada, topic: str) -> None:
    assert levada("topics", "offsets", topic, "--at", "0:end").json() == [{"topic": topic, "partition": 0, "offset": 3}]
    assert "a range is not possible here" in levada("topics", "offsets", topic, "--at", "1..2", code=2).err
    beyond = levada("topics", "offsets", topic, "--at", "0:99").err
    assert beyond == f"levada: there are no records at this position: {topic}-0 (99, the log is from 0 to 3)\n"


def test_an_empty_topic_cannot_be_measured(levada: Levada, kafka: Any, new_topic: NewTopic) -> None:
    ran = levada("perf", "consume", new_topic(kafka), code=1)
    assert (ran.out, "has no records, so there is nothing to measure" in ran.err) == (b"", True)


def test_records_are_deleted(levada: Levada, topic: str) -> None:
    outcomes = levada("topics", "delete-records", topic, "--before", "0:2,end", "--yes").json()
    assert [row["outcome"] for row in outcomes] == ["begins at offset 2", "begins at offset 0"]
    assert levada("topics", "offsets", topic, "--at", "start").json()[0]["offset"] == 2


@pytest.mark.parametrize("before", ["4", "+4", "0:4", "0:3,1:1"])
def test_no_records_are_deleted_before_an_offset_behind_the_end(levada: Levada, topic: str, before: str) -> None:
    """A topic whose first partition has 3 records, and whose second has none."""
    told = levada("topics", "delete-records", topic, "--before", before, "--yes", code=2).err
    expected = f"{topic}-1 (before 1, the log ends at 0)" if "1:1" in before else f"{topic}-0 (before 4, the log ends at 3)"
    assert "so nothing is deleted" in told
    assert expected in told
    assert [row["offset"] for row in levada("topics", "offsets", topic, "--at", "start").json()] == [0, 0]


def test_what_cannot_be_taken_back_needs_yes_without_a_terminal(levada: Levada, topic: str) -> None:
    assert "add --yes" in levada("topics", "delete", topic, code=2).err
    assert levada("topics", "describe", topic).json()


def test_settings_of_a_topic(levada: Levada, topic: str) -> None:
    levada("configs", "set", "topic", topic, "retention.ms=60000", "cleanup.policy=compact")
    levada("configs", "set", "topic", topic, "cleanup.policy+=delete")
    described = levada("configs", "describe", "topic", topic, until=lambda ran: "delete" in ran.text)
    changed = {row["name"]: row["value"] for row in described.json()}
    assert (changed["retention.ms"], set(changed["cleanup.policy"].split(","))) == ("60000", {"compact", "delete"})
    levada("configs", "unset", "topic", topic, "retention.ms")
    levada("configs", "describe", "topic", topic, until=lambda ran: "retention.ms" not in ran.text)
    described = levada("configs", "describe", "topic", topic, "--all", "--synonyms")
    everything = {row["name"]: row for row in described.json()}
    assert everything["cleanup.policy"]["synonyms"][0].startswith("cleanup.policy=")
    refused = levada("configs", "set", "topic", topic, "retention.ms=soon", code=1).err
    assert "soon" in refused and "retention.ms" in refused and "INVALID_CONFIG (40)" in refused
    levada("configs", "set", "topic", topic, "retention.ms=1", "--dry-run")
    assert "retention.ms" not in {row["name"] for row in levada("configs", "describe", "topic", topic).json()}


def test_the_end_of_a_log_that_grows_meanwhile_is_not_outside_of_it(
    kafka: Any, levada: Levada, topic: str, admin: lv.KafkaAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends_of_a_growing_log(asked: lv.KafkaAdmin, partitions: Any) -> Any:
        found = log_ends(asked, partitions)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send(topic, b"meanwhile", partition=0).result(timeout=10)
        return found

    monkeypatch.setattr("levada.cli.commands.groups.log_ends", ends_of_a_growing_log)
    admin.alter_consumer_group_offsets(topic, {lv.TopicPartition(topic, 0): 1})
    planned = levada("groups", "reset", topic, "--to", "end")
    assert [(plan["committed"], plan["offset"]) for plan in planned.json()] == [(1, 4)]
    assert "outside of the log" not in planned.err


def test_what_has_settings(levada: Levada) -> None:
    assert "did you mean 'topic'?" in levada("configs", "describe", "topik", "t", code=2).err
    assert levada("configs", "describe", "broker", "1", "--all").json()


# Groups


def test_a_group_is_described_moved_and_deleted(levada: Levada, topic: str, admin: lv.KafkaAdmin) -> None:
    admin.alter_consumer_group_offsets(topic, {lv.TopicPartition(topic, 0): 1})
    assert topic in {row["group_id"] for row in levada("groups", "list", "--state", "empty").json()}
    (lag,) = levada("groups", "describe", topic).json()
    assert (lag["committed"], lag["log_end"], lag["lag"]) == (1, 3, 2)
    (state,) = levada("groups", "describe", topic, "--state").json()
    assert (state["state"], state["members"], state["lag"]) == ("Empty", 0, 2)

    planned = levada("groups", "reset", topic, "--to", "end")
    assert [(plan["committed"], plan["offset"], plan["records"]) for plan in planned.json()] == [(1, 3, -2)]
    assert "nothing was changed" in planned.err
    assert levada("groups", "describe", topic).json()[0]["committed"] == 1
    for move in (["--to", "99"], ["--by", "9"]):
        outside = levada("groups", "reset", topic, *move)
        assert outside.json()[0]["offset"] == 3
        assert f"so it becomes the log's start or end: {topic}-0 (from " in outside.err
    levada("groups", "reset", topic, "--by", "1", "--execute")
    assert levada("groups", "describe", topic).json()[0]["committed"] == 2
    levada("groups", "reset", topic, "-t", topic, "--to", "0:-2,1:end", "--execute")
    assert [row["committed"] for row in levada("groups", "describe", topic).json()] == [1, 0]

    levada("groups", "delete-offsets", topic, "-t", f"{topic}:1", "--yes")
    assert [row["partition"] for row in levada("groups", "describe", topic).json()] == [0]
    levada("groups", "delete", topic, "--yes")
    assert "does not exist" in levada("groups", "describe", topic, code=1).err
    assert levada("groups", "describe", topic, "-o", "table", code=1).text == "", "no heading without a row"


def test_a_group_that_reads(levada: Levada, topic: str, kafka: Any) -> None:
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "earliest"}
    with lv.KafkaConsumer(**settings, group_id=topic, client_id="reader") as consumer:
        consumer.subscribe([topic])
        while not consumer.poll(1):
            pass
        consumer.commit()
        (member,) = levada("groups", "describe", topic, "--members").json()
        assert (member["client_id"], member["partitions"]) == (
            "reader",
            [{"topic": topic, "partition": partition} for partition in (0, 1)],
        )
        assert [row["lag"] for row in levada("groups", "describe", topic).json()] == [0, 0]
        assert "NON_EMPTY_GROUP" in levada("groups", "delete", topic, "--yes", code=1).err
        assert "stop its consumers first" in levada("groups", "reset", topic, "--to", "start", "--execute", code=1).err


def test_a_reset_needs_to_know_where_to(levada: Levada, topic: str) -> None:
    assert "give one of --to and --by" in levada("groups", "reset", topic, code=2).err
    assert "has no committed offsets" in levada("groups", "reset", topic, "--to", "end", code=2).err


def test_a_share_group_is_moved(embedded: Any, new_topic: NewTopic) -> None:
    levada, topic = on(LEVADA_BROKERS=embedded.bootstrap_servers), new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for _ in range(3):
            producer.send(topic, b"v")
    with lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers) as admin:
        admin.alter_share_group_offsets(topic, {lv.TopicPartition(topic, 0): 1})
    assert levada("groups", "describe", topic, "--state").json()[0]["type"] == "Share"
    levada("groups", "reset", topic, "--to", "end", "--execute")
    assert levada("groups", "describe", topic).json()[0]["committed"] == 3
    partly = levada("groups", "delete-offsets", topic, "-t", f"{topic}:0", "--yes", code=2).err
    assert f"offsets of share group {topic} are deleted for whole topics only, not for {topic}:0" in partly
    levada("groups", "delete-offsets", topic, "-t", topic, "--yes")


def test_partitions_without_a_leader_are_left_out_and_named() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        with lv.KafkaAdmin(**kafka.client_settings) as admin:
            admin.create_topics([lv.NewTopic("half", assignment={0: [1], 1: [2]}), lv.NewTopic("gone", assignment={0: [2]})])
            admin.alter_consumer_group_offsets("half", {lv.TopicPartition("half", 0): 0, lv.TopicPartition("half", 1): 0})
            admin.alter_consumer_group_offsets("gone", {lv.TopicPartition("gone", 0): 0})
        with lv.KafkaProducer(**kafka.client_settings) as producer:
            producer.send("half", b"v", partition=0).result()
        kafka.stop_node(2)
        levada = on(LEVADA_BROKERS=kafka.bootstrap_servers.split(",")[0])
        for command, *more in (("topics", "delete-records"), "--yes", "--before"), (("groups", "reset"), "--execute", "--to"):
            ran = levada(*command, "half", *more, "end", code=6)
            assert ran.err == "levada: half-1: left out, because it does not exist or has no leader\n"
            assert [(row["name"], row["error"] is None) for row in ran.json()] == [("half-0", True), ("half-1", False)]
            assert levada(*command, "half", *more, "0:end").err == "", "the other partition was not asked for"
            assert "gone-0: left out" in levada(*command, "gone", *more, "end", code=1).err
        planned = levada("groups", "reset", "half", "--to", "start", code=6)
        assert ([plan["partition"] for plan in planned.json()], "half-1: left out" in planned.err) == ([0], True)


# The cluster


def test_the_cluster_is_shown(levada: Levada, kafka: Any) -> None:
    (info,) = levada("cluster", "info").json()
    (node,) = levada("cluster", "nodes").json()
    assert info["brokers"] == [node["node"]]
    assert node["address"] in kafka.bootstrap_servers
    assert [row["role"] for row in levada("cluster", "quorum").json() if row["role"] == "leader"] == ["leader"]
    assert levada("cluster", "features").json()
    assert levada("cluster", "log-dirs", "--broker", str(node["node"])).json()[0]["fault"] == ""
    assert levada("cluster", "reassignments").json() == []


def test_leaders_are_elected_where_that_is_needed(levada: Levada, topic: str) -> None:
    assert levada("cluster", "elect-leaders", f"{topic}:0").json()[0]["outcome"] == "not needed"
    assert "orders:0" in levada("cluster", "elect-leaders", topic, code=2).err


def test_a_partition_is_moved() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        levada = on(LEVADA_BROKERS=kafka.bootstrap_servers)
        levada("topics", "create", "t", "-p", "1", "-r", "1")
        (before,) = levada("topics", "describe", "t").json()
        other = 3 - before["leader"]
        levada("cluster", "reassign", "t:0", "--to", str(other))
        assert levada("topics", "describe", "t").json()[0]["replicas"] == [other]
        assert "NO_REASSIGNMENT_IN_PROGRESS" in levada("cluster", "reassign", "t:0", "--cancel", code=1).err


# Transactions


def test_an_open_transaction_is_shown_and_aborted(levada: Levada, topic: str, kafka: Any) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=1).result()
        assert topic in {row["transactional_id"] for row in levada("transactions", "list", "--state", "Ongoing").json()}
        (found,) = levada("transactions", "describe", topic).json()
        assert (found["state"], found["partitions"]) == ("Ongoing", [{"topic": topic, "partition": 1}])
        assert found["open_for_s"] >= 0
        assert levada("transactions", "find-hanging", "-t", topic, "--older-than-minutes", "-1").json() == []
        for outcome in ("aborted; its producers are fenced", "no transaction was open; its producers are fenced"):
            assert levada("transactions", "abort", topic, "--yes").json() == [{"name": topic, "outcome": outcome, "error": None}]
        assert levada("transactions", "describe", topic).json()[0]["state"] != "Ongoing"
        producer.close(0)


def test_a_transactional_id_that_nobody_uses_is_not_made_by_aborting_it(levada: Levada, topic: str) -> None:
    assert "TRANSACTIONAL_ID_NOT_FOUND" in levada("transactions", "abort", topic, "--yes", code=1).err
    assert topic not in {row["transactional_id"] for row in levada("transactions", "list").json()}


def test_a_transaction_in_one_partition_is_aborted(levada: Levada, topic: str, kafka: Any) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result()
        place = ("-t", topic, "-p", "0", "--start-offset")
        assert "open ones begin at: 3" in levada("transactions", "abort", *place, "9", "--yes", code=1).err
        levada("transactions", "abort", *place, "3", "--yes")
        markers = [row["control"] for row in levada("log", "fetch", f"{topic}:0").json()]
        assert markers[-1] == "abort"
        producer.close(0)
    assert "give transactional ids, or" in levada("transactions", "abort", "-t", topic, code=2).err


# Logs


def test_a_log_is_shown_batch_by_batch(levada: Levada, topic: str) -> None:
    batches = levada("log", "fetch", f"{topic}:0", "--from", "1").json()
    assert [(row["base_offset"], row["records"], row["fault"]) for row in batches] == [(1, 1, ""), (2, 1, "")]
    records = levada("log", "fetch", f"{topic}:0", "--records", "--to", "2").json()
    assert [(row["offset"], row["value"]) for row in records] == [(0, "0"), (1, "1")]
    assert "the topic has partitions 0 to 1" in levada("log", "fetch", f"{topic}:2", code=1).err


def test_nothing_is_asked_twice_for_a_log_or_a_reset() -> None:
    with EmbeddedKafka() as kafka, lv.KafkaProducer(**kafka.client_settings) as producer:
        levada, asked = on(LEVADA_BROKERS=kafka.bootstrap_servers), kafka.faults.requests
        producer.send("t", b"v").result()
        before = Counter(asked)
        levada("log", "fetch", "t:0")
        assert {api: asked[api] - before[api] for api in ("DescribeTopicPartitions", "ListOffsets")} == {
            "DescribeTopicPartitions": 1,
            "ListOffsets": 2,
        }
        with lv.KafkaAdmin(**kafka.client_settings) as admin:
            admin.alter_consumer_group_offsets("g", {lv.TopicPartition("t", 0): 1})
        before = Counter(asked)
        levada("groups", "reset", "g", "--by", "-1")
        assert asked["ListOffsets"] - before["ListOffsets"] == 2
        levada("groups", "delete-offsets", "g", "-t", "t:0", "--yes")
        assert asked["ListOffsets"] - before["ListOffsets"] == 2


def test_files_of_a_log_are_dumped(tmp_path: Path) -> None:
    levada = on()
    with EmbeddedKafka(data_dir=tmp_path) as kafka, lv.KafkaProducer(**kafka.client_settings) as producer:
        producer.send("t", b"v", key=b"k").result()
        with lv.KafkaAdmin(**kafka.client_settings) as admin:
            admin.alter_consumer_group_offsets("g", {lv.TopicPartition("t", 0): 1})
    (segment,) = tmp_path.rglob("t-0/*.log")
    assert [row["records"] for row in levada("log", "dump", segment).json()] == [1]
    (record,) = levada("log", "dump", segment, "--records").json()
    assert (record["key"], record["value"]) == ("k", "v")

    commits = [row for file in tmp_path.rglob("__consumer_offsets-*/*.log") for row in levada("log", "dump", file, "--records").json()]
    assert any(row["key"] == {"type": "OffsetCommitKey", "group": "g", "topic": "t", "partition": 0} for row in commits)

    other = tmp_path / "other.log"
    other.write_bytes(segment.read_bytes())
    files = [segment.as_posix(), other.as_posix()]
    assert [row["file"] for row in levada("log", "dump", segment, other).json()] == files
    assert [row["file"] for row in levada("log", "dump", segment, other, "--records").json()] == files
    heading, *rows = levada("log", "dump", segment, other, "--output", "table").lines
    assert [heading.split()[0], *(row.split()[0] for row in rows)] == ["FILE", *files]
    assert not levada("log", "dump", segment, "--output", "table").text.startswith("FILE")

    segment.write_bytes(segment.read_bytes()[:-1] + b"\x7f")
    assert f"{segment}: position 0: " in levada("log", "dump", other, segment, code=1).err
    damaged = levada("log", "dump", segment, code=1)
    assert "checksum" in damaged.json()[0]["fault"]
    assert "checksum" in damaged.err
    assert "its segment is" in levada("log", "dump", segment.with_suffix(".index"), code=2).err


# Watching


def test_top_shows_one_frame_without_a_terminal(levada: Levada, topic: str) -> None:
    seen = levada("top", "--interval", "0.1").json()
    assert [row["leaders"] > 0 for row in seen["brokers"]] == [True]
    assert {row["topic"]: row["records"] for row in seen["topics"]}[topic] == 3


def test_top_says_when_nobody_answers() -> None:
    with EmbeddedKafka() as kafka:
        for number in range(30):
            kafka.create_topic(f"topic-{number:02}")
        with Terminal("top", "-b", kafka.bootstrap_servers, "--interval", "0.2", columns=80, rows=24) as terminal:
            terminal.wait_for("1 topics 30")
            terminal.wait_for(" 0.0")
            kafka.close()
            terminal.wait_for("STALE: last seen at")
            terminal.wait_for("connection refused")
            terminal.wait_until_gone(" 0.0")
            assert " topic-0" in terminal.text
            terminal.press("\x03")
            assert terminal.end() == 0


def test_a_question_in_a_terminal(embedded: Any, new_topic: NewTopic) -> None:
    topic = new_topic(embedded)
    with Terminal("topics", "delete", topic, "-b", embedded.bootstrap_servers) as terminal:
        terminal.wait_for(f"Delete topic {topic} and all records in it?")
        terminal.press("y\r")
        terminal.wait_for("deleted")
        assert terminal.end() == 0


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_a_question_that_is_not_answered(embedded: Any, new_topic: NewTopic, key: str) -> None:
    topic = new_topic(embedded)
    with Terminal("topics", "delete", topic, "-b", embedded.bootstrap_servers) as terminal:
        terminal.wait_for(f"Delete topic {topic}")
        terminal.press(key)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text
    on(LEVADA_BROKERS=embedded.bootstrap_servers)("topics", "describe", topic)


def test_positions_of_partitions_that_are_not_there(levada: Levada, topic: str) -> None:
    assert "partition 9 is not among" in levada("topics", "offsets", topic, "--at", "9:42", code=2).err
    assert "partition 9 is not among" in levada("topics", "delete-records", topic, "--before", "9:1", "--yes", code=2).err
    assert "partition 1 is not among" in levada("log", "fetch", f"{topic}:0", "--from", "1:0", code=2).err
    assert f"{topic}-7 does not exist" in levada("groups", "reset", "g-7", "-t", f"{topic}:7", "--to", "start", code=1).err


def test_words_that_nobody_knows(levada: Levada) -> None:
    assert "did you mean 'stable'" in levada("groups", "list", "--state", "stabel", code=2).err
    assert "did you mean 'share'" in levada("groups", "list", "--type", "shares", code=2).err
    assert "did you mean 'ongoing'" in levada("transactions", "list", "--state", "ongoin", code=2).err
    assert "at least one character" in levada("produce", "t", "-K", "", code=2).err


def test_a_question_that_is_answered_with_no(embedded: Any, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    levada, topic = on(LEVADA_BROKERS=embedded.bootstrap_servers), new_topic(embedded)
    monkeypatch.setattr("levada.cli.invocation.is_terminal", lambda stream: True)
    assert "nothing was done" in levada("topics", "delete", topic, code=1, stdin=b"n\n").err
    levada("topics", "describe", topic)


def test_doctor_prints_steps_and_says_how_it_ended(embedded: Any, levada: Levada) -> None:
    ran = run("doctor", "-b", embedded.bootstrap_servers, "--group", "nobody")
    assert ran.code == 1
    assert any(line.startswith("ok    dns") for line in ran.lines)
    assert "FAIL  groups        group nobody: it does not exist" in ran.lines
    assert any(line.startswith("                    -> check the name") for line in ran.lines)
    assert {line[4:6] + line[18:20] for line in ran.lines} == {" " * 4}, "columns are aligned, also beside the longest step, transactions"


# A schema registry


def test_a_schema_registry() -> None:
    with EmbeddedRegistry() as server:
        levada = on(LEVADA_X_SCHEMA_REGISTRY_URL=server.url)
        (made,) = levada("registry", "register", "s-value", "-", stdin=b'"int"').json()
        assert made == {"subject": "s-value", "version": 1, "schema_id": 1, "type": "AVRO"}
        assert levada("registry", "subjects").json() == [{"subject": "s-value"}]
        assert levada("registry", "versions", "s-value").json() == [made]
        (by_subject,), (by_id,) = levada("registry", "schema", "s-value").json(), levada("registry", "schema", "--id", "1").json()
        assert by_subject == by_id
        assert by_id["schema"] == '"int"'
        assert levada("registry", "test", "s-value", "-", stdin=b'"string"', code=1).json()[0]["messages"]
        assert levada("registry", "test", "s-value", "-", stdin=b'"long"').json()[0]["compatible"]
        assert levada("registry", "compatibility", "s-value", "--set", "none").json()[0]["level"] == "NONE"
        assert "nothing was compared: the level of s-value is NONE" in levada("registry", "test", "s-value", "-", stdin=b'"string"').err
        assert levada("registry", "compatibility", "s-value", "--unset").json()[0]["level"] == "BACKWARD"
        assert levada("registry", "test", "s-value", "-", stdin=b'"long"').err == ""
        assert levada("registry", "delete", "s-value", "--yes").json()[0]["outcome"] == "deleted softly: versions 1"
        assert "not found" in levada("registry", "versions", "s-value", code=1).err
        assert levada("registry", "schema", "--id", "1").json() == [by_id | {"subject": None, "version": None}]
        assert "add --yes" in levada("registry", "delete", "s-value", code=2).err
        assert levada("registry", "delete", "s-value", "--permanent", "--yes").json()[0]["outcome"] == "deleted for good: versions 1"
        assert "40403" in levada("registry", "schema", "--id", "1", code=1).err
    assert "no Schema Registry is named" in on()("registry", "subjects", code=2).err


# Who may do what


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users={"admin": "of admin"}, super_users=["admin"], delegation_token_secret_key="planted") as kafka:
        yield kafka


@pytest.fixture
def as_admin(guarded: EmbeddedKafka) -> Levada:
    names = {"bootstrap_servers": "LEVADA_BROKERS"}
    return on(**{names.get(name, f"LEVADA_X_{name.upper()}"): value for name, value in guarded.settings_for("admin").items()})


@pytest.fixture(params=["embedded", pytest.param("kafka44_acls", marks=pytest.mark.kafka)])
def as_root(request: pytest.FixtureRequest, as_admin: Levada) -> Levada:
    """A super user of a cluster that goes by rules."""
    if request.param == "embedded":
        return as_admin
    settings = GuardedKafka(request.getfixturevalue("kafka44_acls")).settings_of(ROOT)
    servers = settings.pop("bootstrap_servers")
    return on(LEVADA_BROKERS=servers, **{f"LEVADA_X_{name.upper()}": value for name, value in settings.items()})


def rules(levada: Levada, *filters: str, count: int) -> list[dict[str, Any]]:
    """Return the rules that are listed, once there are so many: a real broker learns of them a moment after they were kept."""
    deadline = time.monotonic() + 10
    while len(found := levada("acls", "list", *filters).json()) != count:
        assert time.monotonic() < deadline, found
    rows: list[dict[str, Any]] = found
    return rows


def test_rules_are_created_listed_and_deleted(as_root: Levada) -> None:
    who = ("--allow-principal", "User:carol", "--operation", "read", "--operation", "describe-configs")
    created = as_root("acls", "create", *who, "--topic", "cli-orders", "--topic", "x").json()
    assert [row["outcome"] for row in created] == ["created"] * 4
    as_root("acls", "create", *who, "--topic", "cli-ord", "--prefixed")
    as_root("acls", "create", "--deny-principal", "User:dave", "--operation", "all", "--cluster")

    (denied,) = rules(as_root, "--principal", "User:dave", count=1)
    assert (denied["resource"], denied["operation"], denied["permission"]) == ("Cluster", "All", "Deny")
    counting = rules(as_root, "--topic", "cli-orders", "--operation", "read", count=2)
    assert {(row["name"], row["pattern"], row["permission"]) for row in counting} == {
        ("cli-orders", "Literal", "Allow"),
        ("cli-ord", "Prefixed", "Allow"),
    }

    assert "add --yes" in as_root("acls", "delete", "--topic", "cli-orders", code=2).err
    assert len(as_root("acls", "delete", "--topic", "cli-orders", "--yes").json()) == 2
    assert {row["name"] for row in rules(as_root, "--topic", "cli-orders", count=2)} == {"cli-ord"}
    assert "there is no such rule" in as_root("acls", "delete", "--topic", "cli-orders", "--yes", code=1).err

    as_root("acls", "create", *who, "--topic", "cli-orders")
    before = rules(as_root, "--principal", "User:carol", "--topic", "cli-orders", count=4)
    deleted = as_root("acls", "delete", "--prefixed", "--principal", "User:carol", "--yes").json()
    assert len(deleted) == 2, "those about the prefix"
    after = rules(as_root, "--principal", "User:carol", "--topic", "cli-orders", count=2)
    assert [row for row in before if row["pattern"] == "Literal"] == after


def test_rules_need_to_be_whole(as_admin: Levada, embedded: Any) -> None:
    assert "name a resource" in as_admin("acls", "create", "--topic", "t", code=2).err
    assert "select rules by a resource" in as_admin("acls", "delete", "--yes", code=2).err
    wrong = as_admin("acls", "create", "--topic", "t", "--operation", "red", "--allow-principal", "User:a", code=2)
    assert "did you mean 'read'?" in wrong.err
    assert "SECURITY_DISABLED" in on(LEVADA_BROKERS=embedded.bootstrap_servers)("acls", "list", code=1).err


def test_users_of_scram(kafka: Any, levada: Levada, topic: str, tmp_path: Path) -> None:
    levada("users", "set-password", topic, stdin=b"of a pipe\n")
    (tmp_path / "password").write_text("of a file\n")
    (tmp_path / "password").chmod(0o600)
    levada("users", "set-password", topic, "--mechanism", "SCRAM-SHA-512", "--password-file", tmp_path / "password", "--iterations", "5000")
    rows = levada("users", "list", topic, until=lambda ran: "SCRAM-SHA-512" in ran.text).json()
    assert {(row["mechanism"], row["iterations"]) for row in rows} == {("SCRAM-SHA-256", 4096), ("SCRAM-SHA-512", 5000)}
    assert levada("users", "delete", topic, "--mechanism", "SCRAM-SHA-256", "--yes").json()[0]["outcome"] == "deleted SCRAM-SHA-256"
    levada("users", "delete", topic, "--yes")
    assert "RESOURCE_NOT_FOUND" in levada("users", "list", topic, code=1, until=lambda ran: ran.code == 1).err
    assert "the password is empty" in levada("users", "set-password", topic, code=2).err
    (tmp_path / "password").chmod(0o644)
    assert "chmod 600" in levada("users", "set-password", topic, "--password-file", tmp_path / "password", code=2).err


def test_a_user_logs_in_with_the_password_that_was_set(guarded: EmbeddedKafka, as_admin: Levada) -> None:
    as_admin("users", "set-password", "carol", stdin=b"of carol\n")
    login = {**guarded.settings_for("admin"), "sasl_username": "carol", "sasl_password": "of carol"}
    with lv.KafkaAdmin(**login) as admin:
        assert admin.list_topics() == []


def test_quotas(levada: Levada, topic: str) -> None:
    levada("users", "set-quota", "--user", topic, "--client-id", "", "producer_byte_rate=1000000", "request_percentage=50")
    rows = levada("users", "quotas", "--user", topic).json()
    assert [(row["client_id"], row["ip"], row["quota"], row["value"]) for row in rows] == [
        ("", None, "producer_byte_rate", 1_000_000.0),
        ("", None, "request_percentage", 50.0),
    ]
    levada("users", "unset-quota", "--user", topic, "--client-id", "", "producer_byte_rate", "request_percentage")
    assert levada("users", "quotas", "--user", topic).json() == []
    assert "name the owner of the quota" in levada("users", "set-quota", "producer_byte_rate=1", code=2).err
    assert "INVALID_REQUEST" in levada("users", "set-quota", "--user", topic, "no_such_rate=1", code=1).err


def test_delegation_tokens(as_admin: Levada) -> None:
    (made,) = as_admin("users", "create-token", "--renewer", "User:bob").json()
    listed = as_admin("users", "tokens", "--owner", "User:admin")
    assert made["password"] not in listed.text
    assert [(row["token_id"], row["owner"], row["renewers"]) for row in listed.json()] == [(made["token_id"], "User:admin", ["User:bob"])]
    assert as_admin("users", "renew-token", made["password"]).json()["expiry_timestamp"] >= made["expiry_timestamp"]
    as_admin("users", "expire-token", "-", stdin=made["password"].encode())
    assert as_admin("users", "tokens").json() == []
    assert "must be base64" in as_admin("users", "renew-token", "&", code=2).err


# The program itself


def test_a_broker_with_tls_and_users(tmp_path: Path) -> None:
    authority = Authority()
    tls = authority.listener()
    files = {"certificate": tls.certificate_chain, "key": tls.key, "users": "# who may log in\nalice=of alice\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    options = [part for name in files for part in (f"--{name}", tmp_path / name)]
    broker = started("broker", "--port", "0", "--set", "num.partitions=4", "--data-dir", tmp_path / "data", *options)
    assert broker.stdout is not None
    with broker:
        line = broker.stdout.readline().decode()
        address = line.removeprefix("levada broker: listening on ").partition(",")[0]
        assert "security.protocol=SASL_SSL" in line
        login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice", "sasl_password": "of alice"}
        with lv.KafkaAdmin(bootstrap_servers=address, **{**authority.trust(), **login}) as admin:
            assert admin.create_topics([lv.NewTopic("t")])["t"].partitions == 4
        broker.send_signal(signal.SIGINT)
        assert broker.stdout.read() == b"levada broker: ended\n"
    assert (broker.returncode, bool(list(tmp_path.rglob("t-0")))) == (0, True)


def test_a_broker_with_another_node_id_and_any_setting(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("node.id=7\nnum.partitions=2\nbroker.rack=r1\nnum.io.threads=4\n")
    options: list[str | Path] = ["--properties", tmp_path / "server.properties", "--set", "node.id=0", "--data-dir", tmp_path / "data"]
    broker = started("broker", "--port", "0", *options)
    assert broker.stdout is not None
    with broker:
        try:
            address = broker.stdout.readline().decode().removeprefix("levada broker: listening on ").partition(",")[0]
            _use_node_0(address)
        finally:
            broker.send_signal(signal.SIGINT)
    assert (tmp_path / "data" / "node-0").is_dir()
    told = on()("broker", "--port", "0", "--data-dir", tmp_path / "data", code=2).err
    assert "is the folder of node 0: start the broker with node.id=0, or give it another folder" in told


def _use_node_0(address: str) -> None:
    with lv.KafkaAdmin(bootstrap_servers=address) as admin:
        assert admin.create_topics([lv.NewTopic("t")])["t"].partitions == 2
        node = lv.ConfigResource(lv.ConfigResourceType.BROKER, "0")
        described = admin.describe_configs([node])[node]
        assert [described[name].value for name in ("node.id", "broker.rack", "num.io.threads")] == ["0", "r1", "4"]
        admin.incremental_alter_configs({node: {"message.max.bytes": 5_000}})
        assert admin.describe_configs([node])[node]["message.max.bytes"].value == "5000"
        assert [known.id for known in admin.describe_cluster().nodes] == [0]
    with lv.KafkaProducer(bootstrap_servers=address, transactional_id="tx") as producer, producer.transaction():
        producer.send("t", b"x", partition=1)
    settings: dict[str, Any] = {"group_id": "g", "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with lv.KafkaConsumer(bootstrap_servers=address, **settings) as consumer:
        consumer.subscribe(["t"])
        assert [record.value for record in consumer.poll(timeout=10)] == [b"x"]


def test_a_broker_that_cannot_start(tmp_path: Path, embedded: Any) -> None:
    levada, port = on(), embedded.bootstrap_servers.rpartition(":")[2]
    assert port in levada("broker", "--port", port, code=3).err
    assert "did you mean 'num.partitions'?" in levada("broker", "--port", "0", "--set", "num.partition=4", code=2).err
    assert "go together" in levada("broker", "--key", "key.pem", code=2).err
    told = levada("broker", "--host", "0.0.0.0", "--port", "0", code=2).err
    assert "can be reached from other machines" in told
    assert "insecure_listen" not in told
    assert told.endswith("; listen on 127.0.0.1, or give --insecure-listen if you want that\n")
    for option in ("--certificate", "--users"):
        key = ("--key", tmp_path / "key") if option == "--certificate" else ()
        assert f"{option} {tmp_path / 'no'}: No such file" in levada("broker", option, tmp_path / "no", *key, code=2).err
    (bad := tmp_path / "bad.pem").write_text("no certificate")
    refused = levada("broker", "--port", "0", "--certificate", bad, "--key", bad, code=2).err
    assert refused.startswith(f"levada: --certificate {bad} with --key {bad} cannot be read as a certificate and its key")
    assert "ssl." not in refused
    tls = Authority().listener()
    (both := tmp_path / "listener.pem").write_text(tls.certificate_chain + tls.key)
    both.chmod(0o600)
    refused = levada("broker", "--port", "0", "--certificate", both, "--key", both, "--client-ca", bad, code=2).err
    assert refused.startswith(f"levada: --client-ca {bad} cannot be read as certificates in PEM: ")
    bad.write_bytes(b"\xfe\xed\xfe\xed")
    refused = levada("broker", "--port", "0", "--certificate", both, "--key", both, "--client-ca", bad, code=2).err
    assert refused == f"levada: --client-ca {bad} is a Java keystore (JKS), which only Java reads\n"
    (tmp_path / "users").write_text("alice=of alice\n")
    (tmp_path / "users").chmod(0o644)
    assert "chmod 600" in levada("broker", "--users", tmp_path / "users", code=2).err
    (tmp_path / "users").chmod(0o600)
    (tmp_path / "users").write_text("# who may log in\nalice: a secret\n")
    told = levada("broker", "--users", tmp_path / "users", code=2).err
    assert "line 2 is not NAME=PASSWORD" in told
    assert "secret" not in told


def test_version_says_what_a_bug_report_needs() -> None:
    told = {row["part"]: row["version"] for row in json.loads(on()("version").text)}
    assert told["levada"] == lv.__version__
    assert told["Python"].startswith(platform.python_version())
    assert told["lz4"].startswith("cramjam 2")
    assert told["zstd"].startswith(("zstandard 0", "compression.zstd"))
    assert told["botocore"] == "not installed" or told["botocore"][0].isdecimal()
    modules = len(list(Path(lv.__file__).parent.rglob("*.pxd")))
    assert told["compiled"] == f"yes, {modules} modules" or told["compiled"].startswith("no: ")
    assert "LEVADA_PURE is set" in on(LEVADA_PURE="1")("version").text


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o default"), ("zsh", "#compdef levada"), ("fish", "complete --command levada")]
)
def test_the_script_that_completes_commands(shell: str, mark: str) -> None:
    assert mark in on()("completion", shell).text


def test_commands_are_completed() -> None:
    asked = {"_LEVADA_COMPLETE": "complete_bash", "COMP_WORDS": "levada topics add", "COMP_CWORD": "2"}
    assert run(env=asked).code == 0


def test_a_group_of_commands_prints_its_help() -> None:
    ran = run("topics")
    assert ran.code == 2
    assert "add-partitions" in ran.text
    assert ran.err == ""


def test_controllers_are_changed_where_the_quorum_allows_it(levada: Levada) -> None:
    (leader,) = [row for row in levada("cluster", "quorum").json() if row["role"] == "leader"]
    directory = ("--directory-id", leader["directory_id"] or "00000000-0000-0000-0000-000000000001")
    node = str(leader["node"])
    at = ("--endpoint", "CONTROLLER=localhost:9093")
    assert f"add voter {node}" in levada("cluster", "add-controller", node, *directory, *at, code=1).err
    assert "remove voter 99" in levada("cluster", "remove-controller", "99", *directory, "--yes", code=1).err
    assert "unregister controller 99" in levada("cluster", "unregister-controller", "99", "--yes", code=1).err
    assert "unregister broker 99" in levada("cluster", "unregister-broker", "99", "--yes", code=1).err


def test_the_log_of_a_replica_is_moved_where_there_is_a_folder(levada: Levada, topic: str) -> None:
    (node,) = levada("cluster", "nodes").json()
    refused = levada("cluster", "move-log", f"{topic}:0", "--broker", str(node["node"]), "--to", "/no/such/folder", code=1)
    assert "LOG_DIR_NOT_FOUND" in refused.err


def test_features_are_changed(levada: Levada) -> None:
    row = next(row for row in levada("cluster", "features").json() if row["feature"] == "transaction.version")
    wanted = f"transaction.version={row['supported_max'] + 1}"
    assert "transaction.version" in levada("cluster", "update-features", wanted, "--dry-run", code=1).err
    assert "add --yes" in levada("cluster", "update-features", wanted, code=2).err
    assert "is not a whole number" in levada("cluster", "update-features", "transaction.version=new", code=2).err


# Spark's exactly-once sinks


@pytest.fixture
def sink(kafka: Any, topic: str, admin: lv.KafkaAdmin) -> Iterator[tuple[str, list[lv.TransactionHandle]]]:
    """A sink whose driver has decided a batch and died before it committed the two slots; a task of the next batch has one open, too."""
    name, at, run = f"{topic}-sink", lv.TopicPartition(topic, 0), "0123abcd-0000-0000-0000-000000000000"
    slots: list[Slot] = []
    handles: list[lv.TransactionHandle] = []
    for number, task in ((7, 0), (7, 1), (8, 0)):
        slot = SlotName.of(BatchId("q", run, number), task, 0)
        full = slot.within(name)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=full) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"%d-%d" % (number, task), partition=1)
            producer.send_offsets_to_transaction({at: lv.OffsetAndMetadata(number)}, full)
            handles.append(producer.detach_transaction())
        slots.append(Slot(slot, handles[-1]._replace(partitions=(), groups=(full,)), Rows(1, task)))
    entry = Entry(BatchId("q", run, 7), Rows(2, 1), at, tuple(slots[:2]))
    for group, offset in entry.offsets(name).items():
        admin.alter_consumer_group_offsets(group, {at: offset})
    yield name, handles
    admin.end_transactions(handles, commit=False)


def committed_values(kafka: Any, topic: str) -> list[bytes]:
    reader = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed")
    return sorted(record.value for record in reader if record.partition == 1 and record.value is not None)


def test_what_a_spark_sink_has_open_is_listed_and_recovered(levada: Levada, kafka: Any, topic: str, sink: Any) -> None:
    name, _ = sink
    (row,) = [row for row in levada("spark", "transactions", "list", "--prefix", topic).json() if row["sink"] == name]
    assert row.pop("open_for_s") >= 0
    assert row == {"sink": name, "query": "q", "batch": 7, "rows": 2, "slots": 2, "decided": 2, "undecided": 1, "error": None}
    (done,) = levada("spark", "transactions", "recover", name).json()
    rest = "; 1 transaction of undecided batches still open: start the query again, or abort"
    assert done == {"name": name, "outcome": f"batch 7 is committed, with 2 transactions of tasks{rest}", "error": None}
    levada("spark", "transactions", "list", "--prefix", topic, until=lambda ran: ran.json()[0]["decided"] == 0)
    (again,) = levada("spark", "transactions", "recover", name).json()
    assert again == done


def test_what_a_spark_sink_has_open_is_aborted_but_for_what_was_decided(levada: Levada, kafka: Any, topic: str, sink: Any) -> None:
    name, _ = sink
    assert "add --yes" in levada("spark", "transactions", "abort", name, code=2).err
    (done,) = levada("spark", "transactions", "abort", name, "--yes").json()
    assert done["outcome"] == "1 transaction of tasks aborted; batch 7 is committed, with 2 transactions of tasks"
    levada("spark", "transactions", "list", "--prefix", topic, until=lambda ran: ran.json()[0]["open_for_s"] is None)
    give_up = time.monotonic() + 10
    while committed_values(kafka, topic) != [b"7-0", b"7-1"]:
        assert time.monotonic() < give_up


def test_a_transaction_of_a_spark_sink_is_not_aborted_alone(levada: Levada, topic: str, sink: Any) -> None:
    name, handles = sink
    refused = levada("transactions", "abort", handles[0].transactional_id, "--yes", code=1).err
    assert "nothing was done" in refused
    assert f"levada spark transactions recover {name}" in refused.replace("\n", " ")
    place = ("--topic", topic, "--partition", "1", "--start-offset", "0")
    assert f"the exactly-once Spark sink {name} has opened" in levada("transactions", "abort", *place, "--yes", code=1).err
    (row,) = [row for row in levada("spark", "transactions", "list", "--prefix", topic).json() if row["sink"] == name]
    assert (row["decided"], row["undecided"]) == (2, 1)


def test_names_of_the_same_form_may_be_other_programs(levada: Levada, kafka: Any, topic: str) -> None:
    name = f"{topic}~0123abcd.0.0.0"
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"x").result(10)
        (done,) = levada("transactions", "abort", name, "--yes").json()
        assert done["outcome"] == "aborted; its producers are fenced"


def test_groups_of_a_spark_sinks_tasks_are_not_taken_for_consumers_that_are_behind(
    levada: Levada, topic: str, sink: Any, admin: lv.KafkaAdmin
) -> None:
    name, handles = sink
    admin.end_transactions(handles, commit=True)
    groups = [flag for handle in handles for flag in ("-g", handle.transactional_id)]
    levada("groups", "list", until=lambda ran: handles[0].transactional_id in ran.text)
    found = [row for row in levada("doctor", "-t", topic, *groups).json() if row["step"] == "groups"]
    assert [(row["about"], row["status"]) for row in found] == [(f"sink {name}", "ok")]


@pytest.mark.parametrize("action", [("recover",), ("abort", "--yes")])
def test_a_spark_sink_is_found_by_what_its_user_knows_of_it(levada: Levada, topic: str, sink: Any, action: tuple[str, ...]) -> None:
    name, _ = sink
    of_topic = ("--prefix", f"{topic}-")
    for known in (name, "sink", "q"):
        (done,) = levada("spark", "transactions", *action, known, *of_topic).json()
        assert done["name"] == name
    assert levada("spark", "transactions", *action, name).json()[0]["name"] == name
    error = levada("spark", "transactions", *action, "typo", *of_topic, code=1).err
    assert f"no sink is called 'typo', and no query of a sink has this id; with --prefix {topic}- there are {name}" in error
    error = levada("spark", "transactions", *action, "typo", "--prefix", "no-such-", code=1).err
    assert "with --prefix no-such- there is none" in error


def test_a_query_with_two_spark_sinks_does_not_tell_which_is_meant(levada: Levada, topic: str, admin: lv.KafkaAdmin, sink: Any) -> None:
    name, _ = sink
    at, second = lv.TopicPartition(topic, 0), f"{topic}-second"
    entry = Entry(BatchId("q", "0123abcd", 7), Rows(1, 1), at)
    admin.alter_consumer_group_offsets(second, {at: entry.offsets(second)[second]})
    error = levada("spark", "transactions", "recover", "q", "--prefix", topic, code=1).err
    assert f"'q' means 2 sinks: {second}, {name}; give the name of one" in error
    assert levada("spark", "transactions", "recover", name).json()[0]["name"] == name


def test_the_ledger_of_a_spark_sink_is_deleted_only_by_somebody_who_insists(
    levada: Levada, topic: str, admin: lv.KafkaAdmin, sink: Any
) -> None:
    name, handles = sink
    where = ("--topic", topic)
    for command in (("delete", name), ("delete-offsets", name, *where), ("delete", "no-such-group", name)):
        error = levada("groups", *command, "--yes", code=1).err
        assert f"nothing was done: group {name} is the ledger of an exactly-once Spark sink, at batch 7" in error
        assert "rows that are in Kafka are written twice when Spark repeats their batch" in error
        assert "add --ledgers" in error
    for part in (f"{name}~1", handles[0].transactional_id):
        assert f"group {part} belongs to the ledger {name}" in levada("groups", "delete", part, "--yes", code=1).err
    error = levada("groups", "reset", name, "--to", "start", *where, "--execute", code=1).err
    assert "Its offset is the number of a batch, and not a position" in error
    assert admin.list_consumer_group_offsets(name)
    levada("groups", "delete-offsets", name, *where, "--ledgers", "--yes")
    assert not admin.list_consumer_group_offsets(name)


def test_the_ledger_of_a_spark_sink_is_deleted_with_ledgers(levada: Levada, admin: lv.KafkaAdmin, sink: Any) -> None:
    name, _ = sink
    levada("groups", "delete", name, "--ledgers", "--yes")
    assert name not in {group.group_id for group in admin.list_groups()}


def test_the_ledger_of_a_newer_levada_is_not_deleted_either(levada: Levada, topic: str, admin: lv.KafkaAdmin) -> None:
    at, group = lv.TopicPartition(topic, 0), f"{topic}-newer"
    admin.alter_consumer_group_offsets(group, {at: lv.OffsetAndMetadata(7, metadata='{"v":99}')})
    error = levada("groups", "delete", group, "--yes", code=1).err
    assert f"nothing was done: group {group} is a ledger" in error
    assert "version 99 is not known to this version of levada" in error
    levada("groups", "delete", group, "--ledgers", "--yes")


def test_a_group_whose_offsets_cannot_be_read_is_not_deleted() -> None:
    with EmbeddedKafka() as kafka, lv.KafkaAdmin(**kafka.client_settings) as admin:
        kafka.create_topic("t", 1)
        at = lv.TopicPartition("t", 0)
        admin.alter_consumer_group_offsets("orders", {at: 7})
        kafka.faults.fail_next("OffsetFetch", "GROUP_AUTHORIZATION_FAILED")
        refused = on(LEVADA_BROKERS=kafka.bootstrap_servers)("groups", "delete", "orders", "--yes", code=Exit.REFUSED)
        assert "GROUP_AUTHORIZATION_FAILED" in refused.err
        assert [group.group_id for group in admin.list_groups()] == ["orders"]


def test_doctor_does_not_take_the_ledger_of_a_spark_sink_for_a_group_that_lags(levada: Levada, sink: Any) -> None:
    name, _ = sink
    rows = levada("doctor", "--group", name).json()
    assert [row["found"] for row in rows if row["step"] == "groups"] == [
        "an exactly-once Spark sink keeps its progress here; last batch: 7"
    ]


def test_a_driver_that_died_within_its_transaction_is_listed_and_recover_says_what_to_do(levada: Levada, kafka: Any, sink: Any) -> None:
    name, _ = sink
    client = {"bootstrap_servers": kafka.bootstrap_servers, "transactional_id": name}
    with lv.KafkaProducer(**client) as driver:
        driver.init_transactions()
        driver.begin_transaction()
        topic = name.removesuffix("-sink")
        driver.send_offsets_to_transaction({lv.TopicPartition(topic, 0): lv.OffsetAndMetadata(8)}, name)
        (row,) = levada("spark", "transactions", "list", "--prefix", name).json()
        assert (row["batch"], row["decided"], row["undecided"], row["error"]) == (7, 2, 2, None)
        impatient = ("-X", "default.api.timeout.ms=1000", "-X", "request.timeout.ms=500")
        ran = levada("spark", "transactions", "recover", name, *impatient, code=1)
        assert f"levada spark transactions abort {name}" in ran.err
        driver.abort_transaction()


def test_rows_of_a_spark_sink_that_are_lost_are_told(levada: Levada, admin: lv.KafkaAdmin, sink: Any) -> None:
    name, handles = sink
    admin.fence_producers([handles[1].transactional_id])
    ran = levada("spark", "transactions", "recover", name, code=1)
    assert "batch 7: 1 of 2 transactions of tasks was aborted before it was committed; start the query" in ran.err
