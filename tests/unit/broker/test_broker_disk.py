"""What a broker keeps in a folder, and goes on with: after close(), and after a crash."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from broker_kit import START_MS, Bench, fetch_request, make_batch, only_partition
from disk_kit import Kept, kept, values, write
from levada.broker.config.settings import BrokerSettings
from levada.broker.disk.data_dir import DataDir
from levada.broker.disk.files import write_whole
from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import IllegalStateError, InvalidTopicError
from levada.record.memory_records import read_batches
from levada.types import IsolationLevel, OffsetAndMetadata, TopicPartition
from replica_kit import Trio
from transaction_kit import TransactionalProducer, read

SMALL: dict[str, str | None] = {"segment.bytes": "300"}

pytestmark = [pytest.mark.usefixtures("no_flushing"), pytest.mark.parametrize("crash", [False, True], ids=["closed", "crashed"])]


def test_records_topics_ids_and_settings_are_there_again(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        topic = before.node.create_topic("t", 2, {**SMALL, "retention.ms": "-1"})
        for number in range(20):
            write(before, b"%d" % number * 20)
        identity = (before.node.cluster.id, topic.id)
    with kept(tmp_path) as after:
        found = after.node.cluster.topics["t"]
        assert (after.node.cluster.id, found.id) == identity
        assert (len(found.partitions), found.config.retention_ms, found.config.segment_bytes) == (2, -1, 300)
        assert values(after.log()) == [b"%d" % number * 20 for number in range(20)]
        assert (after.log().end_offset, after.log().high_watermark) == (20, 20)
        assert write(after, b"next") == 20
        assert only_partition(after.client().ask(fetch_request("t", 7), 12)).high_watermark == 21


def test_only_what_a_crash_has_left_is_flushed_when_a_broker_opens(tmp_path: Path, crash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many partitions would take a flush each, which is milliseconds on a disk."""
    flushed: list[int] = []
    with kept(tmp_path, crash=crash) as before:
        for number in range(20):
            before.node.create_topic(f"t{number}")
            write(before, b"a", topic=f"t{number}")
    index = next(tmp_path.glob("node-*/t3-0/*.index"), None)
    if index is not None:
        index.unlink()
    monkeypatch.setattr(os, "fsync", flushed.append)
    with kept(tmp_path, crash=True) as after:
        opened = len(flushed)
        assert values(after.log("t3")) == [b"a"]
    assert opened >= 20 if crash else opened < 10
    assert list(tmp_path.glob("node-*/t3-0/*.index")), "what is missing is written again"


def test_what_was_not_changed_is_closed_without_a_flush(tmp_path: Path, crash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    with kept(tmp_path) as before:
        for number in range(20):
            before.node.create_topic(f"t{number}")
        write(before, b"a", topic="t3", producer=(7, 1, 5))
    monkeypatch.setattr(os, "fsync", flushed.append)
    with kept(tmp_path, crash=crash):
        del flushed[:]
    assert len(flushed) < 15
    with kept(tmp_path) as after:
        gap = make_batch(b"b", producer=(7, 1, 9))
        assert after.client().produce("t3", gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the producer is known"


def test_every_offset_is_read_from_files_and_from_memory(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 1, SMALL)
        for number in range(20):
            write(before, b"%d" % number * 20)
        check_every_offset(before)
    with kept(tmp_path) as after:
        check_every_offset(after)
        assert after.client().offset_of("t", START_MS)[1] == 0


def check_every_offset(bench: Kept) -> None:
    client = bench.client()
    for offset in range(20):
        (first, *_) = values_from(bench, offset)
        assert first == b"%d" % offset * 20
        assert client.fetch("t", offset, partition_max_bytes=1).error_code == 0


def values_from(bench: Bench, offset: int) -> list[bytes | None]:
    return [record.value for batch in read_batches(bench.client().fetch("t", offset).records or b"") for record in batch.records()]


def test_a_batch_that_is_sent_again_after_a_restart_is_a_duplicate(tmp_path: Path, crash: bool) -> None:
    batch = make_batch(b"a", b"b", producer=(7, 1, 5))
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t")
        assert before.client().produce("t", batch).base_offset == 0
    with kept(tmp_path) as after:
        assert after.client().produce("t", batch).base_offset == 0
        assert after.log().end_offset == 2
        gap = make_batch(b"d", producer=(7, 1, 9))
        assert after.client().produce("t", gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_I17_what_is_known_of_producers_outlives_their_records(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash, log_retention_check_interval_ms=1000) as before:
        before.node.create_topic("t", 1, {**SMALL, "retention.bytes": "0"})
        write(before, b"a" * 200, producer=(7, 1, 5))
        write(before, b"b" * 200)
        write(before, b"c" * 200)
        before.advance(1000)
        assert before.log().start_offset == 2
    with kept(tmp_path) as after:
        assert (after.log().start_offset, values(after.log())) == (2, [b"c" * 200])
        assert write(after, b"next", producer=(7, 1, 6)) == 3
        gap = make_batch(b"d", producer=(7, 1, 9))
        assert after.client().produce("t", gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_producer_ids_are_never_given_twice(tmp_path: Path, crash: bool) -> None:
    given = []
    for _ in range(3):
        with kept(tmp_path, crash=crash) as bench:
            given += [bench.node.cluster.allocate_producer_id() for _ in range(3)]
    assert len(set(given)) == 9


def test_deleted_records_stay_deleted(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 1, SMALL)
        for number in range(10):
            write(before, b"%d" % number * 100)
        before.node.cluster.topics["t"].partitions[0].delete_records(7)
    with kept(tmp_path) as after:
        assert after.log().start_offset == 7
        after.node.cluster.topics["t"].partitions[0].delete_records(-1)
    with kept(tmp_path) as at_last:
        assert (at_last.log().start_offset, at_last.log().end_offset) == (10, 10)


def test_a_deleted_topic_leaves_nothing_and_may_come_back_empty(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 1, SMALL)
        write(before, b"a" * 200)
        write(before, b"b" * 200)
        before.node.delete_topic("t")
        assert not (tmp_path / "node-1" / "t-0").exists()
        before.node.create_topic("t")
        write(before, b"c")
    with kept(tmp_path) as after:
        assert values(after.log()) == [b"c"]


def test_aborted_and_open_transactions_are_known_again(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 1, SMALL)
        producer = TransactionalProducer(before.client())
        producer.init()
        for text in (b"aborted", b"open"):
            producer.add()
            producer.write(text * 30)
            if text == b"aborted":
                producer.abort()
    with kept(tmp_path) as after:
        data = read(after.client())
        assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()] == [(0, 0)]
        assert data.last_stable_offset == 2
        (index,) = (tmp_path / "node-1" / "t-0").glob("*.txnindex")
        assert index.stat().st_size == 34


def test_compaction_is_kept(tmp_path: Path, crash: bool) -> None:
    config: dict[str, str | None] = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 1, config)
        for number in range(12):
            write(before, b"%d" % number * 40, key=b"%d" % (number % 3))
        before.advance(15_000)
        left = values(before.log())
        assert len(left) < 12
        assert write(before, b"next") == 12
        clean_until = before.log().clean_until
    with kept(tmp_path) as after:
        assert after.log().clean_until == clean_until > 0
        assert values(after.log()) == [*left, b"next"]
        after.advance(15_000)
        assert len(list((tmp_path / "node-1" / "t-0").glob("*.log"))) <= 4


def test_truncation_is_kept(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 1, SMALL)
        for number in range(8):
            write(before, b"%d" % number * 100)
        partition = before.node.cluster.topics["t"].partitions[0]
        before.node.cluster.move_leader(partition, 1, lose_from=5)
        assert write(before, b"five") == 5
        before.node.cluster.move_leader(partition, 1, lose_from=0)
        assert write(before, b"zero") == 0
    with kept(tmp_path) as after:
        assert values(after.log()) == [b"zero"]
        assert after.node.cluster.topics["t"].partitions[0].leader_epoch == 3


def test_a_leader_epoch_is_never_used_twice(tmp_path: Path, crash: bool) -> None:
    epochs = []
    for _ in range(3):
        with kept(tmp_path, crash=crash) as bench:
            if "t" not in bench.node.cluster.topics:
                bench.node.create_topic("t")
            epochs.append(bench.node.cluster.topics["t"].partitions[0].leader_epoch)
    assert epochs == [0, 1, 2]


def test_of_three_nodes_the_newest_log_leads(tmp_path: Path, crash: bool) -> None:
    for attempt in range(2):
        data_dir, trio = three_nodes(tmp_path)
        if attempt == 0:
            trio.cluster.add(trio.cluster.plan("kept", 1))
            partition = trio.cluster.topics["kept"].partitions[0]
            trio.cluster.pause_replication(1)
            trio.cluster.move_leader(partition, 2)
            for value in (b"a", b"b"):
                assert trio.clients[2].produce("kept", make_batch(value), acks=1).error_code == 0
            assert [replica.log.end_offset for replica in partition.replicas.values()] == [0, 2, 2]
        else:
            partition = trio.cluster.topics["kept"].partitions[0]
            assert (partition.leader, partition.log.high_watermark) == (2, 2)
            assert [replica.log.end_offset for replica in partition.replicas.values()] == [2, 2, 2]
        if crash:
            data_dir._lock.close()
        else:
            data_dir.close()


def three_nodes(folder: Path) -> tuple[DataDir, Trio]:
    settings = BrokerSettings.of(default_replication_factor=3)
    data_dir = DataDir(folder, settings)
    return data_dir, Trio(storage=data_dir)


def test_a_folder_is_used_by_one_broker_at_a_time(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash), pytest.raises(IllegalStateError, match="in use by another broker"):
        Kept(tmp_path)
    with kept(tmp_path):
        pass


def test_flush_messages_says_when_records_are_flushed(tmp_path: Path, crash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    with kept(tmp_path, crash=crash) as bench:
        bench.node.create_topic("t", 1, {"flush.messages": "3"})
        write(bench, b"first")
        monkeypatch.setattr(os, "fsync", lambda file: flushed.append(bench.log().end_offset))
        write(bench, b"2")
        assert not flushed
        write(bench, b"3", b"4")
        assert len(flushed) == 1


def test_a_full_disk_is_an_answer_and_no_damage(tmp_path: Path, crash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def full(file: int, data: Any) -> int:
        real(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with kept(tmp_path, crash=crash) as bench:
        bench.node.create_topic("t")
        write(bench, b"a", producer=(7, 0, 0))
        monkeypatch.setattr(os, "write", full)
        answer = bench.client().produce("t", make_batch(b"b" * 100, producer=(7, 0, 1)))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        monkeypatch.setattr(os, "write", real)
        assert values(bench.log()) == [b"a"]
        if not crash:
            assert write(bench, b"b", producer=(7, 0, 1)) == 1
    with kept(tmp_path) as after:
        assert values(after.log()) == ([b"a"] if crash else [b"a", b"b"])


def test_a_file_of_another_format_is_not_overwritten(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as bench:
        bench.node.create_topic("t")
    write_whole(tmp_path / "cluster.json", b'{"format": 99}')
    with pytest.raises(IllegalStateError, match="format 99"):
        Kept(tmp_path)
    assert (tmp_path / "cluster.json").read_bytes() == b'{"format": 99}'


def test_what_is_only_checked_leaves_no_files(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as bench:
        node: BrokerNode = bench.node
        node.cluster.plan("t", 3)
        assert not (tmp_path / "node-1").exists()


def test_readers_of_committed_data_see_the_same(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t")
        producer = TransactionalProducer(before.client())
        producer.init()
        producer.add()
        producer.write(b"committed")
        producer.commit()
    with kept(tmp_path) as after:
        request = fetch_request("t", 0)
        request.isolation_level = IsolationLevel.READ_COMMITTED
        assert only_partition(after.client().ask(request, 12)).last_stable_offset == 2


def test_retention_of_everything_leaves_no_files_behind(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash, log_retention_check_interval_ms=1000) as bench:
        bench.node.create_topic("t", 1, {**SMALL, "retention.ms": "1000"})
        for number in range(6):
            write(bench, b"%d" % number * 100)
        bench.advance(5000)
        assert bench.log().start_offset == 6
        write(bench, b"next")
        names = {path.name for path in (tmp_path / "node-1" / "t-0").iterdir()}
        assert names == {f"{6:020d}.log", f"{6:020d}.snapshot", "leader-epoch-checkpoint", "partition.metadata"}
    with kept(tmp_path) as after:
        assert values(after.log()) == [b"next"]


def test_what_is_left_of_a_deleted_topic_never_comes_back(tmp_path: Path, crash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t")
        write(before, b"old")
        files = before.node.cluster.topics["t"].partitions[0].replicas[1].files
        monkeypatch.setattr(files, "delete", lambda: None)  # As when the broker ends just before.
        before.node.delete_topic("t")
    with kept(tmp_path, crash=crash) as after:
        after.node.create_topic("t")
        assert values(after.log()) == []
        write(after, b"new")
    with kept(tmp_path) as at_last:
        assert values(at_last.log()) == [b"new"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_M_D16_nobody_else_reads_the_folder(tmp_path: Path, crash: bool) -> None:
    folder = tmp_path / "data"
    with kept(folder, crash=crash) as bench:
        bench.node.create_topic("t", 1, SMALL)
        for number in range(6):
            write(bench, b"%d" % number * 100)
        bench.node.cluster.group_offsets.commit("g", {TopicPartition("t", 0): OffsetAndMetadata(1)})
    rights = {path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")] if path.is_dir()}
    assert rights == {0o700}
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o600}


@pytest.mark.parametrize("name", ["../t", "..", "a/b", ""])
def test_M_D16_a_topic_name_does_not_leave_the_folder(tmp_path: Path, crash: bool, name: str) -> None:
    with kept(tmp_path / "data", crash=crash) as bench:
        with pytest.raises(InvalidTopicError):
            bench.node.create_topic(name)
        bench.node.create_topic("t")
    cluster = tmp_path / "data" / "cluster.json"
    cluster.write_text(cluster.read_text().replace('"name": "t"', f'"name": "{name}"'))
    with pytest.raises(IllegalStateError, match="the topic name"):
        Kept(tmp_path / "data")
