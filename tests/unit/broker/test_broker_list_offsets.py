from __future__ import annotations

import pytest

from broker_kit import Bench, Client, make_batch
from levada.broker.log.offset_lookup import EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from levada.error_codes import ErrorCode
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.record.batch import RecordBatch
from levada.record.compression import Codec


@pytest.fixture
def filled(client: Client) -> Client:
    """Offsets 0-2 at 10, 40, 20; 3 at 15; 4-5 at 60, 50."""
    for stamps in ([10, 40, 20], [15], [60, 50]):
        client.produce("t", make_batch(*[b"x"] * len(stamps), timestamp=stamps, codec=Codec.GZIP))
    return client


@pytest.mark.parametrize("version", range(1, 12))
def test_the_ends_of_the_log_in_every_version(filled: Client, version: int) -> None:
    assert filled.offset_of("t", LATEST, version) == (0, 6, -1)
    assert filled.offset_of("t", EARLIEST, version) == (0, 0, -1)


@pytest.mark.parametrize(("timestamp", "found"), [(0, (0, 10)), (11, (1, 40)), (41, (4, 60)), (60, (4, 60)), (61, (-1, -1))])
def test_the_first_record_at_or_after_a_time(filled: Client, timestamp: int, found: tuple[int, int]) -> None:
    assert filled.offset_of("t", timestamp) == (0, *found)


def test_a_time_before_the_log_start_finds_the_first_record_that_is_left(filled: Client) -> None:
    filled.bench.node.log("t").advance_start(2)
    assert filled.offset_of("t", 30) == (0, 4, 60)
    assert filled.offset_of("t", 16) == (0, 2, 20)
    assert filled.offset_of("t", EARLIEST) == (0, 2, -1)


def test_the_record_with_the_largest_timestamp(filled: Client) -> None:
    assert filled.offset_of("t", MAX_TIMESTAMP) == (0, 4, 60)


def test_an_empty_log_has_ends_and_no_records(client: Client) -> None:
    assert client.offset_of("t", LATEST) == (0, 0, -1)
    assert client.offset_of("t", MAX_TIMESTAMP) == (0, -1, -1)
    assert client.offset_of("t", 5) == (0, -1, -1)


def test_a_broken_record_is_in_the_way_of_later_times_only(client: Client) -> None:
    data = bytearray(make_batch(b"a", b"bb", timestamp=[10, 40]))
    data[-10] = 0x7E
    client.bench.node.log("t").append(RecordBatch(memoryview(data)), leader_epoch=0)
    client.bench.node.cluster.replicate(client.bench.node.cluster.topics["t"].partitions[0])
    assert client.offset_of("t", 5) == (0, 0, 10)
    assert client.offset_of("t", 20)[0] == ErrorCode.CORRUPT_MESSAGE


def test_without_tiered_storage_everything_is_local(filled: Client) -> None:
    assert filled.offset_of("t", EARLIEST_LOCAL) == (0, 0, -1)
    assert filled.offset_of("t", LATEST_TIERED) == (0, -1, -1)
    assert filled.offset_of("t", EARLIEST_PENDING_UPLOAD) == (0, -1, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (-6, 10), (-7, 11)])
def test_a_special_time_that_the_version_does_not_know_is_refused(filled: Client, timestamp: int, version: int) -> None:
    assert filled.offset_of("t", timestamp, version)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_errors_are_per_partition(bench: Bench, client: Client) -> None:
    for _ in range(2):
        bench.node.cluster.move_leader(bench.node.cluster.topics["t"].partitions[1], 1)
    wanted = [
        ListOffsetsPartition(partition_index=0, timestamp=LATEST),
        ListOffsetsPartition(partition_index=1, timestamp=LATEST, current_leader_epoch=1),
        ListOffsetsPartition(partition_index=2, timestamp=LATEST),
    ]
    missing = ListOffsetsTopic(name="missing", partitions=[ListOffsetsPartition(timestamp=LATEST)])
    answer = client.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=wanted), missing]))
    codes = [found.error_code for topic in answer.topics for found in topic.partitions]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [0, ErrorCode.FENCED_LEADER_EPOCH, unknown, unknown]
