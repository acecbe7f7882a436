from __future__ import annotations

import pytest

from broker_kit import Bench, Client, fetch_request, make_batch, only_partition
from levada.error_codes import ErrorCode
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.record.compression import Codec
from levada.record.memory_records import read_batches

KIB = 1024


def values(records: memoryview | bytes | bytearray | None) -> list[bytes | None]:
    return [record.value for batch in read_batches(records or b"") for record in batch.records()]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_returns_the_records(client: Client, version: int) -> None:
    topic = client.bench.node.cluster.topics["t"]
    client.produce("t", make_batch(b"a", b"b", codec=Codec.GZIP))
    partitions = [FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=KIB)]
    wanted = FetchTopic(topic_id=topic.id, partitions=partitions) if version >= 13 else FetchTopic(topic="t", partitions=partitions)

    answer = client.ask(FetchRequest(max_bytes=KIB, min_bytes=1, topics=[wanted]), version)

    found = only_partition(answer)
    assert answer.session_id == 0
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 2, 2)
    assert values(found.records) == [b"a", b"b"]


def test_E9_offset_beyond_the_log_is_out_of_range_at_once(client: Client) -> None:
    client.produce("t", make_batch(b"a", b"b"))
    client.bench.node.log("t").advance_start(1)
    for offset in (0, 3):
        found = client.fetch("t", offset, max_wait_ms=60_000)
        assert (found.error_code, found.high_watermark, bytes(found.records or b"")) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, b"")
    assert client.fetch("t", 2).error_code == 0


def test_E9_a_fetch_waits_for_the_first_record(bench: Bench, client: Client) -> None:
    client.send(fetch_request("t", max_wait_ms=500), 12)
    assert client.answers() == []

    bench.client().produce("t", make_batch(b"late"))
    bench.collect()
    (answer,) = client.answers()
    assert values(only_partition(answer).records) == [b"late"]


def test_E9_a_fetch_waits_until_min_bytes_are_there_over_all_partitions(bench: Bench, client: Client) -> None:
    batch = make_batch(b"x" * 100)
    request = fetch_request("t", max_wait_ms=500, min_bytes=2 * len(batch))
    request.topics[0].partitions.append(FetchPartition(partition=1, partition_max_bytes=KIB))
    client.send(request, 12)
    producer = bench.client()

    producer.produce("t", batch, partition=1)
    assert client.answers() == []
    producer.produce("t", batch, partition=0)
    (answer,) = client.answers()
    assert [len(found.records) for found in answer.responses[0].partitions] == [len(batch)] * 2


def test_E9_a_fetch_answers_with_what_there_is_when_max_wait_is_over(bench: Bench, client: Client) -> None:
    client.produce("t", make_batch(b"a"))
    client.send(fetch_request("t", max_wait_ms=500, min_bytes=10_000), 12)

    assert bench.advance(499) == 500
    assert client.answers() == []
    bench.advance(1)
    (answer,) = client.answers()
    assert values(only_partition(answer).records) == [b"a"]


def test_E9_min_bytes_above_max_bytes_does_not_wait_for_ever(client: Client) -> None:
    client.produce("t", make_batch(b"x" * 100))
    assert values(client.fetch("t", max_wait_ms=60_000, min_bytes=5000, max_bytes=50).records) == [b"x" * 100]


def test_E9_without_partitions_there_is_nothing_to_wait_for(client: Client) -> None:
    assert client.ask(FetchRequest(max_wait_ms=60_000, min_bytes=1), 12).responses == []


def test_E9_an_error_in_one_partition_answers_for_all(bench: Bench, client: Client) -> None:
    request = fetch_request("t", max_wait_ms=60_000)
    request.topics.append(FetchTopic(topic="missing", partitions=[FetchPartition(partition=0, partition_max_bytes=KIB)]))
    answer = client.ask(request, 12)
    assert [topic.partitions[0].error_code for topic in answer.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_E9_deleting_a_topic_answers_the_fetches_that_wait_for_it(bench: Bench, client: Client) -> None:
    client.send(fetch_request("t", max_wait_ms=60_000), 12)
    bench.client().ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
    (answer,) = client.answers()
    assert only_partition(answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_E9_the_first_batch_is_returned_even_over_both_limits_and_later_ones_are_not(client: Client) -> None:
    batch = make_batch(b"x" * 1000)
    for partition in (0, 1):
        client.produce("t", batch, partition=partition)
    request = fetch_request("t", max_bytes=10, partition_max_bytes=10)
    request.topics[0].partitions.append(FetchPartition(partition=1, partition_max_bytes=10))

    answer = client.ask(request, 12)

    assert [len(found.records) for found in answer.responses[0].partitions] == [len(batch), 0]


def test_E9_an_empty_partition_leaves_the_first_batch_to_the_next(client: Client) -> None:
    client.produce("t", make_batch(b"x" * 1000), partition=1)
    request = fetch_request("t", max_bytes=10, partition_max_bytes=10)
    request.topics[0].partitions.append(FetchPartition(partition=1, partition_max_bytes=10))
    assert [values(found.records) for found in client.ask(request, 12).responses[0].partitions] == [[], [b"x" * 1000]]


def test_E9_limits_count_over_partitions(client: Client) -> None:
    batch = make_batch(b"x" * 1000)
    for _ in range(5):
        for partition in (0, 1):
            client.produce("t", batch, partition=partition)
    request = fetch_request("t", max_bytes=5 * len(batch), partition_max_bytes=3 * len(batch) + 1)
    request.topics[0].partitions.append(FetchPartition(partition=1, partition_max_bytes=10_000))

    answer = client.ask(request, 12)

    assert [len(found.records) / len(batch) for found in answer.responses[0].partitions] == [3, 2]


def test_E9_the_broker_has_a_limit_of_its_own() -> None:
    bench = Bench(fetch_max_bytes=1500)
    bench.node.create_topic("t")
    client = bench.client()
    for _ in range(5):
        client.produce("t", make_batch(b"x" * 500))
    assert len(values(client.fetch("t").records)) == 2


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (3, 0), (2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_E9_the_leader_epoch_a_client_believes_in_is_checked(bench: Bench, client: Client, epoch: int, code: int) -> None:
    for _ in range(3):
        bench.node.cluster.move_leader(bench.node.cluster.topics["t"].partitions[0], 1)
    assert client.fetch("t", leader_epoch=epoch).error_code == code


def test_unknown_topic_ids_and_partitions(client: Client) -> None:
    assert client.fetch("t", partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.fetch("t", version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_client_that_leaves_while_it_waits_is_forgotten(bench: Bench, client: Client) -> None:
    client.send(fetch_request("t", max_wait_ms=2**31 - 1), 12)
    assert len(bench.node._purgatory) == 1
    bench.node.disconnect(client.id)
    assert len(bench.node._purgatory) == 0
    bench.client().produce("t", make_batch(b"a"))
    assert bench.sent[client.id] == []


def test_read_committed_has_a_list_of_aborted_transactions_and_read_uncommitted_has_null(client: Client) -> None:
    request = fetch_request("t")
    assert only_partition(client.ask(request, 12)).aborted_transactions is None
    request.isolation_level = 1
    assert only_partition(client.ask(request, 12)).aborted_transactions == []
