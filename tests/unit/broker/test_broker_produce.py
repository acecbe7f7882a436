from __future__ import annotations

from typing import Any

import pytest

from broker_kit import START_MS, Bench, Client, fetch_request, make_batch, produce_request
from levada.error_codes import ErrorCode
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.record.batch import assign_offsets, set_producer_state
from levada.record.compression import Codec
from levada.types import TimestampType

MAX_SEQUENCE = 2**31 - 1


def bench_with(config: dict[str, str | None]) -> Client:
    bench = Bench()
    bench.node.create_topic("t", 1, config)
    return bench.client()


def patched(batch: bytes, at: int, value: bytes, *, seal: bool = True) -> bytes:
    changed = bytearray(batch)
    changed[at : at + len(value)] = value
    if seal:
        from levada.record.batch import seal as put_checksum

        put_checksum(changed)
    return bytes(changed)


def test_a_batch_is_appended_and_its_place_answered(client: Client) -> None:
    first, second = client.produce("t", make_batch(b"a", b"b")), client.produce("t", make_batch(b"c"))
    assert (first.error_code, first.base_offset, first.log_append_time_ms, first.log_start_offset) == (0, 0, -1, 0)
    assert second.base_offset == 2
    assert client.bench.node.log("t").end_offset == 3
    assert client.bench.node.log("t", 1).end_offset == 0


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce_appends(client: Client, version: int) -> None:
    topic = client.bench.node.cluster.topics["t"]
    data = [PartitionProduceData(index=1, records=make_batch(b"x"))]
    named = TopicProduceData(topic_id=topic.id, partition_data=data) if version >= 13 else TopicProduceData(name="t", partition_data=data)

    answer = client.ask(ProduceRequest(acks=1, topic_data=[named]), version).responses[0]

    assert (answer.name, answer.topic_id) == (("", topic.id) if version >= 13 else ("t", answer.topic_id))
    assert (answer.partition_responses[0].error_code, answer.partition_responses[0].base_offset) == (0, 0)


def test_partitions_succeed_and_fail_on_their_own(client: Client) -> None:
    data = [PartitionProduceData(index=index, records=make_batch(b"x")) for index in (7, 1)]
    answer = client.ask(ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=data)]), 9)
    assert [(found.index, found.error_code) for found in answer.responses[0].partition_responses] == [(7, 3), (1, 0)]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(make_batch(b"a") * 2, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(make_batch(b"a")[:-1], ErrorCode.INVALID_RECORD, id="a cut batch"),
        pytest.param(patched(make_batch(b"abc"), 65, b"X", seal=False), ErrorCode.CORRUPT_MESSAGE, id="wrong checksum"),
        pytest.param(patched(make_batch(b"abc"), 16, b"\x07"), ErrorCode.CORRUPT_MESSAGE, id="unknown magic"),
        pytest.param(patched(make_batch(b"abc"), 16, b"\x01"), ErrorCode.INVALID_RECORD, id="message set"),
        pytest.param(patched(make_batch(b"a", b"b"), 57, b"\0\0\0\1"), ErrorCode.INVALID_RECORD, id="fewer records than offsets"),
        pytest.param(patched(make_batch(b"a", b"b"), 57, b"\0\0\0\3"), ErrorCode.INVALID_RECORD, id="more records than offsets"),
        pytest.param(patched(make_batch(b"a"), 22, b"\x20"), ErrorCode.INVALID_RECORD, id="control batch"),
        pytest.param(patched(make_batch(b"a"), 22, b"\x05"), ErrorCode.UNKNOWN_SERVER_ERROR, id="unknown codec"),
        pytest.param(make_batch(b"a", producer=(5, 0, -1)), ErrorCode.INVALID_RECORD, id="producer without sequence"),
        pytest.param(make_batch(b"a", timestamp=START_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP, id="from the future"),
    ],
)
def test_E6_what_a_broker_does_not_take(client: Client, records: bytes, code: ErrorCode) -> None:
    answer = client.produce("t", records)
    assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
    assert answer.error_message
    assert client.bench.node.log("t").end_offset == 0


def test_E6_a_transactional_batch_needs_a_transactional_id_and_a_transaction(client: Client) -> None:
    request = produce_request("t", patched(make_batch(b"a", producer=(5, 0, 0)), 22, b"\x10"))
    for transactional_id, code in ((None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("id", ErrorCode.INVALID_PRODUCER_ID_MAPPING)):
        request.transactional_id = transactional_id
        assert client.ask(request, 12).responses[0].partition_responses[0].error_code == code
    assert client.bench.node.log("t").end_offset == 0


def test_E6_a_producer_cannot_claim_that_the_broker_stamped_its_records(client: Client) -> None:
    stamped = START_MS - 5
    assert client.produce("t", patched(make_batch(b"a", timestamp=stamped), 22, b"\x08")).error_code == 0
    (batch,) = client.bench.node.log("t").batches()
    batch.verify_crc()
    assert (batch.timestamp_type, batch.records()[0].timestamp) == (TimestampType.CREATE_TIME, stamped)


def test_E6_acks_must_be_minus_one_zero_or_one(client: Client) -> None:
    assert client.produce("t", make_batch(b"a"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_E6_a_batch_larger_than_max_message_bytes_is_refused() -> None:
    limit = len(make_batch(b"x" * 1000))
    client = bench_with({"max.message.bytes": str(limit)})
    assert client.produce("t", make_batch(b"x" * 1000)).error_code == 0
    assert client.produce("t", make_batch(b"x" * 1001)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_E6_a_batch_larger_than_a_segment_is_refused() -> None:
    client = bench_with({"segment.bytes": "500"})
    assert client.produce("t", make_batch(b"x" * 600)).error_code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_E6_zstd_needs_version_7(client: Client) -> None:
    batch = make_batch(b"a", codec=Codec.ZSTD)
    assert client.produce("t", batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.produce("t", batch, version=7).error_code == 0


def test_E6_a_compacted_topic_takes_no_record_without_a_key() -> None:
    client = bench_with({"cleanup.policy": "compact"})
    refused = client.produce("t", make_batch(b"a", b"b", key=None), version=8)
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [0, 1]
    assert client.produce("t", make_batch(b"a", key=b"k")).error_code == 0


@pytest.mark.parametrize("config", [{"cleanup.policy": "compact"}, {}])
def test_M_C2_records_that_break_their_format_are_refused_where_the_broker_looks_at_them(config: dict[str, str | None]) -> None:
    client = bench_with(config)
    batch = make_batch(b"abc", key=b"k", timestamp=START_MS * 2 if not config else START_MS)
    refused = client.produce("t", patched(batch, 61, b"\x01"), version=8)
    assert (refused.error_code, client.bench.node.log("t").end_offset) == (ErrorCode.INVALID_RECORD, 0)
    assert "length" in (refused.error_message or "")


def test_E6_records_with_timestamps_out_of_bounds_are_named_by_their_index(client: Client) -> None:
    refused = client.produce("t", make_batch(b"a", b"b", timestamp=[START_MS, START_MS * 2]), version=8)
    assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.record_errors] == [1]


def test_E6_log_append_time_replaces_the_timestamps() -> None:
    client = bench_with({"message.timestamp.type": "LogAppendTime"})
    client.bench.now_ms = 500

    answer = client.produce("t", make_batch(b"a", b"b", timestamp=[1, START_MS * 2]))

    assert answer.log_append_time_ms == START_MS + 500
    (batch,) = client.bench.node.log("t").batches()
    batch.verify_crc()
    assert {record.timestamp for record in batch.records()} == {START_MS + 500}


def test_E7_a_topic_with_fewer_replicas_than_min_insync_replicas_needs_them_all() -> None:
    client = bench_with({"min.insync.replicas": "2"})
    assert client.produce("t", make_batch(b"a"), acks=-1).error_code == 0
    assert client.fetch("t").high_watermark == 1


def test_E2_acks_0_has_no_response_and_the_next_request_is_answered(client: Client) -> None:
    client.send(produce_request("t", make_batch(b"a"), acks=0), 9)
    assert client.bench.sent[client.id] == []
    client._asked.clear()
    assert client.ask(fetch_request("t"), 12).responses[0].partitions[0].high_watermark == 1


@pytest.mark.parametrize(("topic", "records"), [("missing", make_batch(b"a")), ("t", b"rubbish")])
def test_E2_TR70_acks_0_that_fails_closes_the_connection(client: Client, topic: str, records: bytes) -> None:
    client.send(produce_request(topic, records, acks=0), 9)
    assert client.closed


def test_E2_acks_0_that_is_refused_as_a_whole_closes_the_connection(client: Client) -> None:
    batch = bytearray(make_batch(b"a"))
    set_producer_state(batch, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    client.send(produce_request("t", bytes(batch), acks=0), 9)
    assert client.bench.sent[client.id] == [None]


def test_an_unknown_topic_id_is_distinguished_from_an_unknown_name(client: Client) -> None:
    assert client.produce("missing", make_batch(b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce("missing", make_batch(b"a"), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID


# Idempotence


def send(client: Client, sequence: int, *values: bytes, epoch: int = 0, pid: int = 9) -> tuple[ErrorCode, int]:
    answer = client.produce("t", make_batch(*(values or (b"x",)), producer=(pid, epoch, sequence)))
    return ErrorCode(answer.error_code), answer.base_offset


OK = ErrorCode.NONE


def test_I13_the_next_sequence_is_taken_and_a_gap_is_not(client: Client) -> None:
    assert send(client, 0, b"a", b"b") == (OK, 0)
    assert send(client, 2) == (OK, 2)
    assert send(client, 4) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(client, 3) == (OK, 3)


def test_I15_a_batch_sent_again_is_answered_like_the_first_time_and_stored_once(client: Client) -> None:
    assert [send(client, sequence) for sequence in range(5)] == [(OK, offset) for offset in range(5)]
    assert [send(client, sequence) for sequence in range(5)] == [(OK, offset) for offset in range(5)]
    assert client.bench.node.log("t").end_offset == 5


def test_I15_a_duplicate_is_answered_with_its_first_timestamp(client: Client) -> None:
    batch = make_batch(b"x", producer=(9, 0, 0))
    assert [client.produce("t", batch).log_append_time_ms for _ in range(2)] == [-1, START_MS]


def test_I15_a_duplicate_is_answered_with_its_first_append_time() -> None:
    client = bench_with({"message.timestamp.type": "LogAppendTime"})
    batch = make_batch(b"x", producer=(9, 0, 0))
    first = client.produce("t", batch)
    client.bench.now_ms = 1000
    assert client.produce("t", batch).log_append_time_ms == first.log_append_time_ms == START_MS


def test_I14_only_the_last_five_batches_are_remembered(client: Client) -> None:
    for sequence in range(6):
        send(client, sequence)
    assert send(client, 0) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(client, 1) == (OK, 1)


def test_I15_the_same_first_sequence_with_another_last_one_is_no_duplicate(client: Client) -> None:
    send(client, 0, b"a", b"b")
    assert send(client, 0, b"a") == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_I16_an_older_epoch_is_fenced_and_a_newer_one_starts_at_0(client: Client) -> None:
    send(client, 0, epoch=3)
    assert send(client, 1, epoch=2) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert send(client, 1, epoch=4) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(client, 0, epoch=4) == (OK, 1)
    assert send(client, 1, epoch=3) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


def test_I16_a_producer_never_seen_may_start_anywhere(client: Client) -> None:
    assert send(client, 17) == (OK, 0)
    assert send(client, 18) == (OK, 1)


def test_I5_I16_the_sequence_wraps_from_the_largest_int_to_0(client: Client) -> None:
    assert send(client, MAX_SEQUENCE - 1, b"a", b"b", b"c") == (OK, 0)
    assert send(client, MAX_SEQUENCE - 1, b"a", b"b", b"c") == (OK, 0)
    assert send(client, 2) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(client, 1) == (OK, 3)


def test_partitions_and_producers_have_sequences_of_their_own(client: Client) -> None:
    assert send(client, 0, pid=1) == (OK, 0)
    assert send(client, 0, pid=2) == (OK, 1)
    assert client.produce("t", make_batch(b"x", producer=(1, 0, 0)), partition=1).base_offset == 0


def test_I17_state_expires_without_writes_and_survives_retention() -> None:
    bench = Bench(producer_id_expiration_ms=10_000, log_retention_ms=1_000, log_retention_check_interval_ms=1_000)
    bench.node.create_topic("t")
    client = bench.client()
    send(client, 0)
    bench.advance(5_000)
    assert bench.node.log("t").start_offset == 1
    assert send(client, 5)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    bench.advance(11_000)
    assert send(client, 5) == (OK, 1)


def test_I17_state_is_as_old_as_the_newest_record() -> None:
    client = Bench(producer_id_expiration_ms=10_000, log_retention_ms=-1, log_retention_check_interval_ms=1_000).client()
    client.bench.node.create_topic("t")
    for sequence, age_ms in ((0, 5_000), (1, 20_000)):
        old = make_batch(b"x", producer=(9, 0, sequence), timestamp=START_MS - age_ms)
        client.produce("t", old)
        client.bench.advance(1_000)
        known = client.bench.node.cluster.topics["t"].partitions[0].producers.epoch_of(9)
        assert (known is None) is (age_ms > 10_000)
    assert send(client, 5) == (OK, 2)


def test_I19_every_producer_gets_an_id_of_its_own_with_epoch_0(client: Client) -> None:
    answers: list[Any] = [client.ask(InitProducerIdRequest(transaction_timeout_ms=1), version) for version in range(6)]
    assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(0, 0)] * 6
    assert len({answer.producer_id for answer in answers}) == 6


def test_offsets_a_producer_wrote_into_its_batch_do_not_matter(client: Client) -> None:
    batch = bytearray(make_batch(b"a"))
    assign_offsets(batch, base_offset=77, leader_epoch=5)
    assert client.produce("t", bytes(batch)).base_offset == 0
