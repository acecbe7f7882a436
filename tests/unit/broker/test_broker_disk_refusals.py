"""A disk that refuses: what the broker answers, that it goes on, and that nothing which was acknowledged is lost by it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_kit import START_MS, make_batch
from disk_kit import Kept, kept, values, write
from group_kit import ConsumerGroupMember, GroupMember
from levada.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePattern,
    ResourceType,
)
from levada.broker.config.settings import STANDARD_AUTHORIZER, BrokerSettings
from levada.broker.disk import data_dir, files
from levada.broker.disk.data_dir import DataDir
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, IllegalStateError
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.types import TopicPartition
from transaction_kit import TransactionalProducer

pytestmark = pytest.mark.usefixtures("no_flushing")

SMALL: dict[str, str | None] = {"segment.bytes": "400"}
COMPACTED: dict[str, str | None] = {"cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0.01"}


@contextmanager
def full(refuses: Callable[[str], bool]) -> Iterator[None]:
    """Have the system refuse to open files for writing whose paths a predicate names."""
    real = os.open

    def open_(path: Any, flags: int, mode: int = 0o777, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and refuses(str(path)):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags, mode, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", open_)
        yield


@contextmanager
def refusing_writes() -> Iterator[None]:
    """Have the system refuse to write to files."""

    def refuse(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", refuse)
        yield


def produce(bench: Kept, value: bytes, topic: str = "t") -> int:
    code: int = bench.client().produce(topic, make_batch(value, timestamp=START_MS + bench.now_ms)).error_code
    return code


@pytest.mark.parametrize("what", [".index.tmp", ".timeindex.tmp", ".snapshot.tmp", ".log"])
def test_a_segment_that_cannot_be_ended_is_appended_to_further(tmp_path: Path, what: str) -> None:
    with kept(tmp_path) as bench:
        bench.node.create_topic("t", 1, SMALL)
        write(bench, b"a" * 250)
        with full(lambda path: path.endswith(what)):
            assert produce(bench, b"b" * 250) == ErrorCode.KAFKA_STORAGE_ERROR
            write(bench, b"c")
        write(bench, b"d" * 250)
        write(bench, b"e" * 250)
    with kept(tmp_path) as after:
        assert [(value or b"")[:1] for value in values(after.log())] == [b"a", b"c", b"d", b"e"]


@pytest.mark.parametrize("what", ["cluster.json.tmp", "partition.metadata.tmp", "leader-epoch-checkpoint.tmp"])
def test_a_topic_that_cannot_be_kept_is_not_created(tmp_path: Path, what: str) -> None:
    with kept(tmp_path) as bench:
        bench.node.create_topic("other")
        with full(lambda path: path.endswith(what)), pytest.raises(BrokerError, match="No space left"):
            bench.node.create_topic("t", 2)
        bench.node.create_topic("t", 2)
        write(bench, b"v")
    with kept(tmp_path) as after:
        assert values(after.log()) == [b"v"]


def test_settings_that_cannot_be_kept_do_not_take_effect(tmp_path: Path) -> None:
    with kept(tmp_path) as bench:
        cluster, topic = bench.node.cluster, bench.node.create_topic("t")
        changed = topic.config.with_overrides({"retention.ms": "1"})
        of_group = cluster.group_config("g").with_overrides({"consumer.session.timeout.ms": "50000"})
        before = topic.config.retention_ms, cluster.group_config("g").consumer_session_timeout_ms
        with full(lambda path: path.endswith("cluster.json.tmp")):
            with pytest.raises(BrokerError, match="No space left"):
                cluster.configure(topic, changed)
            with pytest.raises(BrokerError, match="No space left"):
                cluster.configure_group("g", of_group)
        assert (topic.config.retention_ms, cluster.group_config("g").consumer_session_timeout_ms) == before
        cluster.configure(topic, changed)
        cluster.configure_group("g", of_group)
        assert (topic.config.retention_ms, cluster.group_config("g").consumer_session_timeout_ms) == (1, 50_000)


def test_topics_of_one_request_are_written_down_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with all those before it would take a disk minutes for a thousand, in which the broker answers nobody."""
    writes: list[str] = []
    real = files.write_whole

    def write_whole(path: Path, data: bytes, **named: Any) -> None:
        writes.append(path.name)
        real(path, data, **named)

    names = [f"t{number}" for number in range(20)]
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names])
    with kept(tmp_path) as bench:
        monkeypatch.setattr(data_dir, "write_whole", write_whole)
        with full(lambda path: "t7-0" in path):
            codes = {topic.name: topic.error_code for topic in bench.client().ask(request).topics}
        assert [name for name, code in codes.items() if code] == ["t7"]
        assert codes["t7"] == ErrorCode.KAFKA_STORAGE_ERROR
        assert writes.count("cluster.json") == 1
        with full(lambda path: "cluster.json" in path):
            request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b")])
            assert [topic.error_code for topic in bench.client().ask(request).topics] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert set(bench.node.cluster.topics) == set(names) - {"t7"}
    with kept(tmp_path) as bench:
        assert set(bench.node.cluster.topics) == set(names) - {"t7"}


def test_a_topic_whose_deletion_cannot_be_kept_is_still_there(tmp_path: Path) -> None:
    with kept(tmp_path) as bench:
        bench.node.create_topic("t")
        write(bench, b"v")
        with full(lambda path: path.endswith("cluster.json.tmp")), pytest.raises(BrokerError, match="No space left"):
            bench.node.delete_topic("t")
        assert values(bench.log()) == [b"v"]
        bench.node.delete_topic("t")
    with kept(tmp_path) as after:
        assert after.node.cluster.topic("t") is None


def test_a_log_that_cannot_be_compacted_keeps_neither_others_nor_the_broker_from_going_on(tmp_path: Path) -> None:
    with kept(tmp_path, log_cleaner_backoff_ms=1000) as bench:
        for topic in ("bad", "good"):
            bench.node.create_topic(topic, 1, COMPACTED)
            for number in range(8):
                write(bench, b"%d" % number * 150, topic=topic, key=b"k")
        with full(lambda path: "bad-0" in path and path.endswith(".log.cleaned.tmp")):
            bench.advance(2000)
        assert len(values(bench.log("bad"))) == 8
        assert len(values(bench.log("good"))) < 8
        bench.advance(2000)
        assert len(values(bench.log("bad"))) < 8


def test_a_compaction_that_is_refused_midway_leaves_no_sign_of_it(tmp_path: Path) -> None:
    written: list[str] = []

    def second(path: str) -> bool:
        if path.endswith(".log.cleaned.tmp"):
            written.append(path)
        return len(written) > 1

    with kept(tmp_path, log_cleaner_backoff_ms=1000) as bench:
        bench.node.create_topic("t", 1, COMPACTED)
        for number in range(8):
            write(bench, b"%d" % number * 150, key=b"k%d" % (number % 5))
        with full(second):
            bench.advance(2000)
        assert len(written) > 1
        assert not list((tmp_path / "node-1" / "t-0").glob("*.cleaned"))


def test_indexes_that_cannot_be_written_do_not_undo_a_compaction(tmp_path: Path) -> None:
    with kept(tmp_path, log_cleaner_backoff_ms=1000) as bench:
        bench.node.create_topic("t", 1, COMPACTED)
        for number in range(8):
            write(bench, b"%d" % number * 150, key=b"k")
        with full(lambda path: path.endswith("index.tmp")):
            bench.advance(2000)
        compacted = values(bench.log())
        assert 0 < len(compacted) < 8
    with kept(tmp_path) as after:
        assert values(after.log()) == compacted


def test_what_cannot_be_forgotten_now_is_forgotten_later(tmp_path: Path) -> None:
    with kept(tmp_path, offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000) as bench:
        bench.node.create_topic("t")
        bench.client().ask(GroupMember("g").commit("t", 1), 8)
        committed = bench.node.cluster.group_offsets
        assert committed.has_any("g")

        def refuse(file: int, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", refuse)
            bench.advance(120_000)
        assert not committed.has_any("g")
        write(bench, b"the broker goes on")


def test_a_member_that_is_removed_while_the_disk_is_full_is_removed_on_disk_later(tmp_path: Path) -> None:
    with kept(tmp_path) as bench:
        bench.node.create_topic("t")
        member = ConsumerGroupMember("g", "m")
        assert not bench.client().ask(member.join(), 1).error_code
        assert members_of(bench) == ["m"]

        with refusing_writes():
            bench.advance(600_000)
        assert members_of(bench) == []
        write(bench, b"the broker goes on")
        bench.advance(1000)
    with kept(tmp_path) as again:
        assert members_of(again) == []


def test_no_member_gets_a_response_about_a_change_that_the_disk_refuses(tmp_path: Path) -> None:
    with kept(tmp_path) as bench:
        leader, other = GroupMember("g"), GroupMember("g")
        clients = [bench.client(), bench.client()]
        for client, member in zip(clients, (leader, other), strict=True):
            client.send(member.join(), 3)
        bench.advance(bench.node.settings.group_initial_rebalance_delay_ms)
        bench.advance(bench.node.settings.group_initial_rebalance_delay_ms)
        for client, member in zip(clients, (leader, other), strict=True):
            (joined,) = client.answers()
            member.take(joined)
        clients[1].send(other.sync(), 2)
        with refusing_writes():
            clients[0].send(leader.sync({leader.id: b"a", other.id: b"b"}), 2)
        assert [client.closed for client in clients] == [True, True]
        assert [client.answers() for client in clients] == [[], []]
        again = bench.client()
        assert again.ask(other.sync(), 2).assignment == b"b"


def members_of(bench: Kept) -> list[str]:
    (group,) = bench.client().ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    return [member.member_id for member in group.members]


def test_partitions_and_rules_that_a_disk_refuses_are_not_there(tmp_path: Path) -> None:
    rule = AclBinding(ResourcePattern(ResourceType.TOPIC, "t"), AccessControlEntry("User:a", AclOperation.READ, AclPermissionType.ALLOW))
    with kept(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER, allow_everyone_if_no_acl_found=True) as bench:
        topic = bench.node.create_topic("t")
        authorizer = bench.node.cluster.authorizer
        assert authorizer is not None
        with full(lambda path: "t-1" in path or "acl" in path or "cluster.json" in path):
            with pytest.raises(BrokerError):
                bench.node.cluster.add_partitions(topic, [(1,)])
            with pytest.raises(BrokerError):
                authorizer.add([rule])
        assert [partition.name.partition for partition in topic.partitions] == [0]
        assert authorizer.matching(AclBindingFilter()) == []
        bench.node.cluster.add_partitions(topic, [(1,)])
        authorizer.add([rule])
    with kept(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER) as again:
        assert len(again.node.cluster.topics["t"].partitions) == 2
        assert again.node.cluster.authorizer is not None
        assert again.node.cluster.authorizer.matching(AclBindingFilter()) == [rule]


def test_the_end_of_a_transaction_is_written_when_there_is_room_again(tmp_path: Path) -> None:
    with kept(tmp_path) as bench:
        bench.node.create_topic("t", 1, SMALL)
        producer = TransactionalProducer(bench.client())
        producer.init()
        producer.add()
        producer.write(b"v" * 310)
        with full(lambda path: path.endswith("t-0/00000000000000000000.index.tmp")):
            producer.commit()
            assert bench.log().high_watermark == 1
        bench.advance(1000)
        assert bench.log().high_watermark == 2


def test_closing_ends_every_log_whatever_becomes_of_others(tmp_path: Path) -> None:
    bench = Kept(tmp_path)
    for topic in ("a", "bad", "z"):
        bench.node.create_topic(topic)
        write(bench, b"v", topic=topic)
    with full(lambda path: "bad-0" in path), pytest.raises(BrokerError, match="No space left"):
        bench.data_dir.close()
    assert (tmp_path / "node-1" / "a-0" / f"{0:020d}.index").exists()
    assert (tmp_path / "node-1" / "z-0" / f"{0:020d}.index").exists()
    assert not (tmp_path / "node-1" / ".kafka_cleanshutdown").exists()
    assert all(files._active is None for files in bench.data_dir._node(1).files.values()), "a file was left open"
    with kept(tmp_path) as after:
        assert [values(after.log(topic)) for topic in ("a", "bad", "z")] == [[b"v"]] * 3


def test_a_replica_that_moves_takes_along_where_its_log_starts(tmp_path: Path) -> None:
    bench = Kept(tmp_path)
    try:
        topic = bench.node.create_topic("t")
        for _ in range(4):
            write(bench, b"v")
        replica = topic.partitions[0].replicas[1]
        topic.partitions[0].delete_records(2)
        replica.files.move_to(2)
        assert not (tmp_path / "node-1" / "t-0").exists()
        node = bench.data_dir._node
        assert (node(1).kept("log-start-offset-checkpoint", TopicPartition("t", 0)), node(1).files) == (0, {})
        assert node(2).kept("log-start-offset-checkpoint", TopicPartition("t", 0)) == 2
        write(bench, b"w")
        bench.node.delete_topic("t")
        assert node(2).kept("log-start-offset-checkpoint", TopicPartition("t", 0)) == 0
    finally:
        bench.data_dir.close()


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_folder_that_cannot_be_used_is_an_error_of_ours(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerError, match="KAFKA_STORAGE_ERROR"):
        DataDir(tmp_path / path, BrokerSettings.of())


def test_a_lock_that_cannot_be_used_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(BrokerError, match="KAFKA_STORAGE_ERROR"):
        DataDir(tmp_path, BrokerSettings.of())


TOPIC = {"name": "t", "id": "00000000-0000-0000-0000-000000000001", "config": {}, "assignment": [[1]]}
WRONG: list[Any] = [
    [],
    {"format": 1, "topics": "t"},
    {"format": 1, "topics": [{**TOPIC, "id": "t"}]},
    {"format": 1, "topics": [{**TOPIC, "id": None}]},
    {"format": 1, "topics": [{"name": "t"}]},
    {"format": 1, "topics": [{**TOPIC, "assignment": [1]}]},
    {"format": 1, "topics": [], "next_producer_id": "many"},
]


@pytest.mark.parametrize("content", WRONG, ids=map(str, range(len(WRONG))))
def test_a_list_of_topics_that_makes_no_sense_is_told_and_stays(tmp_path: Path, content: Any) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps(content))
    with pytest.raises(IllegalStateError, match="cannot be read"):
        DataDir(tmp_path, BrokerSettings.of())
    assert json.loads((tmp_path / "cluster.json").read_text()) == content
