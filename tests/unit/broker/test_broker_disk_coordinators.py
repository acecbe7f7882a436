"""What coordinators have decided is known again when a broker starts in its folder."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from disk_kit import Kept, kept, write
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.logs import CoordinatorRecord
from levada.broker.coordinators.transactions.transaction_states import State
from levada.broker.disk.coordinator_files import CoordinatorFiles
from levada.error_codes import ErrorCode
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.prefixed import encode_prefixed
from levada.protocol.records.share_snapshot import ShareSnapshotKey, ShareSnapshotValue, StateBatch
from levada.types import OffsetAndMetadata, TopicPartition
from share_kit import RELEASE, Got, ShareMember, Told, got
from transaction_kit import TransactionalProducer, commit_offset, read, values

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)

pytestmark = [pytest.mark.usefixtures("no_flushing"), pytest.mark.parametrize("crash", [False, True], ids=["closed", "crashed"])]


def committed(bench: Kept, group: str = "g", tp: TopicPartition = TP) -> OffsetAndMetadata | None:
    return bench.node.cluster.group_offsets.committed(group, tp)


def test_committed_offsets_are_there_with_epoch_and_metadata(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        offsets = before.node.cluster.group_offsets
        offsets.commit("g", {TP: OffsetAndMetadata(3, 1, "so far"), OTHER: OffsetAndMetadata(4)}, now_ms=1000)
        offsets.commit("g", {TP: OffsetAndMetadata(5, 2, "further")}, now_ms=2000)
        offsets.commit("other", {TP: OffsetAndMetadata(7)}, now_ms=2000, retention_ms=10)
    with kept(tmp_path) as after:
        assert committed(after) == OffsetAndMetadata(5, 2, "further")
        assert committed(after, tp=OTHER) == OffsetAndMetadata(4)
        assert committed(after, "other") == OffsetAndMetadata(7)
        after.node.cluster.group_offsets.expire("other", 2011, None, 10**9, lambda topic: False)
        after.node.cluster.group_offsets.delete("g", [TP])
        after.node.cluster.group_offsets.delete_group("none")
    with kept(tmp_path) as at_last:
        assert committed(at_last) is committed(at_last, "other") is None
        assert committed(at_last, tp=OTHER) == OffsetAndMetadata(4)


def test_offsets_of_a_deleted_topic_and_of_a_deleted_group_stay_away(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t")
        before.node.cluster.group_offsets.commit("g", {TP: OffsetAndMetadata(3)})
        before.node.delete_topic("t")
        before.node.cluster.group_offsets.commit("h", {OTHER: OffsetAndMetadata(3)})
        before.node.cluster.group_offsets.delete_group("h")
    with kept(tmp_path) as after:
        assert committed(after) is committed(after, "h", OTHER) is None


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_of_an_open_transaction_stay_pending_until_it_ends(tmp_path: Path, crash: bool, commit: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t")
        producer = TransactionalProducer(before.client())
        producer.init()
        producer.add_group("g")
        assert commit_offset(producer, "g") == ErrorCode.NONE
    with kept(tmp_path, crash=crash) as after:
        assert committed(after) is None
        assert after.node.cluster.group_offsets.is_pending("g", TP)
        producer.client = after.client()
        assert producer.end(commit=commit).code == ErrorCode.NONE
        assert (committed(after) is not None) == commit
    with kept(tmp_path) as at_last:
        assert (committed(at_last) is not None) == commit
        assert not at_last.node.cluster.group_offsets.is_pending("g", TP)


@pytest.mark.parametrize("how", ["offset", "group", "topic"])
def test_pending_offsets_that_were_deleted_stay_away_when_their_transaction_is_committed(tmp_path: Path, crash: bool, how: str) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t")
        producer = TransactionalProducer(before.client())
        producer.init()
        producer.add_group("g")
        assert commit_offset(producer, "g") == ErrorCode.NONE
        offsets = before.node.cluster.group_offsets
        {
            "offset": lambda: offsets.delete("g", [TP]),
            "group": lambda: offsets.delete_group("g"),
            "topic": lambda: offsets.forget_topic("t"),
        }[how]()
        assert not offsets.is_pending("g", TP)
        assert not offsets.has_any("g")
    with kept(tmp_path) as after:
        assert not after.node.cluster.group_offsets.is_pending("g", TP)
        producer.client = after.client()
        assert producer.end(commit=True).code == ErrorCode.NONE
        assert committed(after) is None


@pytest.mark.parametrize("tv2", [True, False])
def test_a_transaction_goes_on_where_it_was(tmp_path: Path, crash: bool, tv2: bool) -> None:
    settings: dict[str, Any] = {"transaction_version": 2 if tv2 else 0}
    with kept(tmp_path, crash=crash, **settings) as before:
        before.node.create_topic("t")
        producer = TransactionalProducer(before.client(), tv2=tv2)
        producer.init()
        producer.add()
        producer.write(b"a")
    with kept(tmp_path, crash=crash, **settings) as after:
        producer.client = after.client()
        assert producer.write(b"b") == ErrorCode.NONE
        assert producer.commit() == ErrorCode.NONE
        assert values(read(after.client()).records) == [b"a", b"b"]
        second = TransactionalProducer(after.client(), tv2=tv2)
        assert second.init().code == ErrorCode.NONE
        assert (second.producer_id, second.epoch) > (producer.producer_id, 0)
    with kept(tmp_path, **settings) as at_last:
        producer.client = at_last.client()
        assert producer.add() in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


def test_an_open_transaction_is_aborted_when_its_time_is_up(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t")
        producer = TransactionalProducer(before.client())
        producer.init(timeout_ms=5000)
        producer.add()
        producer.write(b"a")
    with kept(tmp_path) as after:
        after.advance(10)
        assert read(after.client()).last_stable_offset == 0
        after.advance(20_000)
        assert read(after.client()).last_stable_offset == 2
        (transaction,) = after.node.cluster.transactions
        assert transaction.state is State.COMPLETE_ABORT


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_was_decided_is_written_after_the_restart(tmp_path: Path, crash: bool, commit: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t")
        producer = TransactionalProducer(before.client())
        producer.init()
        producer.add()
        producer.write(b"a")
        before.node.faults.hold("WriteTxnMarkers")
        assert producer.end(commit=commit).code == ErrorCode.NONE
        assert read(before.client()).last_stable_offset == 0
    with kept(tmp_path) as after:
        after.advance(10)
        data = read(after.client())
        assert (data.last_stable_offset, len(data.aborted_transactions or ())) == (2, 0 if commit else 1)
        (transaction,) = after.node.cluster.transactions
        assert transaction.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


def test_an_id_that_expired_is_not_known_again(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        producer = TransactionalProducer(before.client())
        producer.init()
        before.node.expire_transactional_id(producer.id)
    with kept(tmp_path) as after:
        assert not list(after.node.cluster.transactions)


def test_what_coordinators_write_is_compacted(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as bench:
        for number in range(8_000):
            bench.node.cluster.group_offsets.commit("g", {TP: OffsetAndMetadata(number, metadata="m" * 20)}, now_ms=number)
        size = sum(path.stat().st_size for path in (tmp_path / "coordinators").rglob("*.log"))
        assert size < 700_000, "written were 1.2 MB"
    with kept(tmp_path) as after:
        assert committed(after) == OffsetAndMetadata(7_999, metadata="m" * 20)


def test_records_of_a_newer_kafka_are_passed_over(tmp_path: Path, crash: bool, caplog: pytest.LogCaptureFixture) -> None:
    with kept(tmp_path, crash=crash) as bench:
        bench.node.cluster.group_offsets.commit("g", {TP: OffsetAndMetadata(3)})
        for topic in ("__consumer_offsets", "__transaction_state"):
            bench.data_dir.coordinators.append(
                TopicPartition(topic, 0), [CoordinatorRecord(b"\x7f\xff!", b"?"), CoordinatorRecord(b"", b"")]
            )
    with kept(tmp_path) as after:
        assert committed(after) == OffsetAndMetadata(3)
    assert "a record is skipped" in caplog.text


def test_records_and_offsets_agree(tmp_path: Path, crash: bool) -> None:
    files = CoordinatorFiles(tmp_path / "coordinators", BrokerSettings())
    assert list(files.read()) == []
    with kept(tmp_path, crash=crash) as bench:
        bench.node.create_topic("t")
        write(bench, b"a")
        bench.node.cluster.group_offsets.commit("g", {TP: OffsetAndMetadata(1)})
    with kept(tmp_path) as after:
        found = committed(after)
        assert found is not None
        assert found.offset == after.log().end_offset


def test_share_groups_go_on_where_they_were(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash) as before:
        before.node.create_topic("t", 2)
        before.node.cluster.configure_group(
            "g", before.node.cluster.group_config("g").with_overrides({"share.auto.offset.reset": "earliest"})
        )
        write(before, *[b"v"] * 4)
        member = sharing(before)
        assert shared(before, member) == [Got(0, 3, 1)]
        told = {part: [Told(0, 0), Told(2, 2, (RELEASE,))] for part in member.has if part[1] == 0}
        assert not before.client().ask(member.acknowledge(told)).error_code
    with kept(tmp_path, crash=crash) as after:
        (group,) = after.client().ask(ListGroupsRequest(types_filter=["share"])).groups
        assert (group.group_id, group.group_state) == ("g", "Empty")
        assert after.node.cluster.group_config("g").text("share.auto.offset.reset") == "earliest"
        # Nothing is stored of records that were only acquired.
        assert shared(after, sharing(after)) == [Got(1, 1, 1), Got(2, 2, 2), Got(3, 3, 1)]
        after.node.cluster.share_states.forget_group("g")
    with kept(tmp_path) as at_last:
        assert not at_last.node.cluster.share_states.of_group("g")


def sharing(bench: Kept) -> ShareMember:
    member = ShareMember("g", "m")
    assert not member.take(bench.client().ask(member.join())).error_code
    return member


def shared(bench: Kept, member: ShareMember) -> list[Got]:
    """What a member is given of the first partition."""
    (topic,) = bench.client().ask(member.fetch()).responses
    member.follow()
    return [one for partition in topic.partitions if partition.partition_index == 0 for one in got(partition)]


def test_a_record_of_share_groups_that_nobody_understands_is_passed_over(
    tmp_path: Path, crash: bool, caplog: pytest.LogCaptureFixture
) -> None:
    place, topic = TopicPartition("__share_group_state", 0), UUID(int=1)
    batch = StateBatch(first_offset=3, last_offset=4, delivery_state=3, delivery_count=1)
    values = [ShareSnapshotValue(start_offset=3, state_batches=[batch]), ShareSnapshotValue(start_offset=3)]
    files = CoordinatorFiles(tmp_path / "coordinators", BrokerSettings())
    for number, value in enumerate(values):
        key = encode_prefixed(ShareSnapshotKey(group_id="g", topic_id=topic, partition=number), 0)
        files.append(place, [CoordinatorRecord(key, encode_prefixed(value, 0))])
    files.close()
    with kept(tmp_path, crash=crash) as bench:
        assert [key.partition for key in bench.node.cluster.share_states.of_group("g")] == [1]
    assert "__share_group_state-0: a record is skipped" in caplog.text


def test_leader_epochs_of_internal_topics_never_go_back(tmp_path: Path, crash: bool) -> None:
    """A client with a newer epoch takes what it is told for older than what it knows, and waits for news that do not come (KIP-320)."""
    topics = ("__consumer_offsets", "__transaction_state", "__share_group_state")
    seen: list[dict[TopicPartition, int]] = []

    def see(bench: Kept) -> None:
        partitions = [partition for name in topics for partition in bench.node.cluster.topics[name].partitions]
        seen.append({partition.name: partition.leader_epoch for partition in partitions})

    settings = {
        "offsets_topic_num_partitions": 3,
        "transaction_state_log_num_partitions": 3,
        "share_coordinator_state_topic_num_partitions": 3,
    }
    for attempt in range(3):
        with kept(tmp_path, crash=crash, **settings) as bench:
            if attempt == 0:
                for name in topics:
                    bench.node.cluster.create_internal_topic(name)
            see(bench)
            for name in topics:
                placement = bench.node.cluster.internal_topics.placement(name)
                for _ in range(2):
                    placement.move_partition(0, 1)
                    placement.move_partition(1, 1)
            see(bench)
            bench.node.cluster.group_offsets.commit("g", {TP: OffsetAndMetadata(attempt)})
            assert TransactionalProducer(bench.client()).init().code == ErrorCode.NONE
            see(bench)
            written = [batch for name in topics for index in range(3) for batch in bench.log(name, index).batches()]
            assert written
            for name in topics:
                for partition in bench.node.cluster.topics[name].partitions:
                    assert all(batch.partition_leader_epoch <= partition.leader_epoch for batch in partition.log.batches())
                    assert [batch.partition_leader_epoch for batch in partition.log.batches()][-1:] in ([], [partition.leader_epoch])
    for before, after in pairwise(seen):
        assert not [(place, epoch, after[place]) for place, epoch in before.items() if after[place] < epoch]


def test_leader_epochs_of_an_internal_topic_that_is_made_again_after_a_restart_do_not_go_back(tmp_path: Path, crash: bool) -> None:
    """Coordinators go by the epoch, whatever topic it is of."""
    with kept(tmp_path, crash=crash) as before:
        before.node.cluster.create_internal_topic("__consumer_offsets")
        before.node.delete_topic("__consumer_offsets")
    with kept(tmp_path) as after:
        assert after.node.cluster.create_internal_topic("__consumer_offsets").partitions[0].leader_epoch > 0
