from __future__ import annotations

import linecache
import traceback
import tracemalloc

import pytest

from levada.base.gil import has_gil
from levada.errors import ProtocolError, TooManyElementsError, TruncatedError
from levada.protocol.codegen import decode, encode
from levada.protocol.frame import decode_request, decode_response
from levada.protocol.messages.api_versions import ApiVersionsResponse
from levada.protocol.messages.fetch import FetchResponse
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.protocol.runtime import MAX_REQUEST_ELEMENTS, MAX_UNKNOWN_TAGS
from levada.protocol.schema import Message
from levada.wire.varint import encode_uvarint


def refusal(cls: type[Message], version: int, text: str) -> str:
    with pytest.raises(ProtocolError) as caught:
        decode(cls, bytes.fromhex(text), version)
    return str(caught.value)


def test_an_error_names_message_version_position_field_and_cause() -> None:
    text = "ffff 0001 00000000 00000001 0001 74 00000001 00000000 000003e8"

    assert refusal(ProduceRequest, 3, text) == (
        "ProduceRequest v3, at byte 27, in topic_data.partition_data.records: 1000 bytes are announced, but only 0 remain"
    )


def test_a_fixed_size_field_that_is_cut_off_names_the_fields_read_together() -> None:
    assert refusal(ProduceRequest, 3, "ffff 0001 0000") == ("ProduceRequest v3, at byte 2, in acks .. topic_data: the bytes end too early")


def test_a_traceback_shows_the_generated_line() -> None:
    with pytest.raises(TruncatedError) as caught:
        decode(ProduceRequest, b"\xff\xff\x00", 3)

    shown = "".join(traceback.format_exception(caught.value))
    assert "<levada ProduceRequest decode v3>" in shown
    assert "message.acks, message.timeout_ms, n = unpack_hii(data, pos)" in shown


def test_generated_code_survives_a_check_of_the_line_cache() -> None:
    encode(MetadataRequest(), 4)
    linecache.checkcache()

    assert linecache.getline("<levada MetadataRequest encode v4>", 1) == "def encode(message, parts):\n"


@pytest.mark.parametrize("count", ["7fffffff", "00000002"])
def test_W3_a_count_that_the_remaining_bytes_cannot_hold_is_refused(count: str) -> None:
    # One broker takes at least 4 + 2 + 4 bytes.
    found = refusal(MetadataResponse, 0, count + "00" * 19)

    assert f"in brokers: {int(count, 16)} elements of at least 10 bytes are announced, but only 19 bytes remain" in found


def test_W3_a_huge_count_costs_no_memory() -> None:
    hostile = [(0, "00000000 7fffffff"), (9, "00000000 ffffffff0f 00 00 00 00")]
    # The first time, decoders are made.
    for traced in (False, True):
        if traced:
            tracemalloc.start()
        for version, data in hostile:
            refusal(MetadataResponse, version, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 100_000


def test_W3_a_count_of_numbers_is_checked_too() -> None:
    partition = "00000000 00000001 0000 0001 74 00000001  0000 00000000 00000000"

    many = refusal(MetadataResponse, 0, f"{partition} 00000033 0000000000000000")
    few = refusal(MetadataResponse, 0, f"{partition} 00000003 0000000000000000")

    assert "in topics.partitions.replica_nodes: 51 elements of at least 4 bytes" in many
    assert "in topics.partitions.replica_nodes: the bytes end too early" in few


@pytest.mark.parametrize(
    ("version", "text", "cause"),
    [
        (0, "ffffffff", "in topics: null where null is not allowed"),
        (0, "fffffffe", "in topics: negative count -2"),
        (0, "00000001 ffff", "in topics.name: null where null is not allowed"),
        (0, "00000001 fffe", "in topics.name: negative length -2"),
        (1, "fffffffe", "in topics: negative count -2"),
        (9, "02 00 00 00 00 00", "in topics.name: null where null is not allowed"),
    ],
)
def test_W2_null_where_it_is_not_allowed_is_refused(version: int, text: str, cause: str) -> None:
    assert cause in refusal(MetadataRequest, version, text)


def test_W2_null_array_is_refused_in_a_compact_form() -> None:
    assert "in api_keys: null where null is not allowed" in refusal(ApiVersionsResponse, 3, "0000 00 00000000 00")


@pytest.mark.parametrize(("version", "text"), [(0, "0002 c328"), (2, "03 c328 00000000 00")])
def test_W2_a_string_that_is_not_utf8_is_refused(version: int, text: str) -> None:
    found = refusal(InitProducerIdRequest, version, text + "00" * 8)

    assert "in transactional_id" in found
    assert "invalid continuation byte" in found


def test_W4_a_compact_string_longer_than_a_classic_one_is_refused() -> None:
    assert "announces 32768 bytes, more than 32767" in refusal(InitProducerIdRequest, 2, "818002" + "61" * 40_000)


def test_W4_a_length_beyond_32_bits_is_refused() -> None:
    assert "holds more than 32 bits" in refusal(InitProducerIdRequest, 2, "ffffffff7f" + "00" * 20)


def test_W5_a_varint_that_never_ends_is_refused() -> None:
    assert "longer than 5 bytes" in refusal(FetchResponse, 12, "00000000 0000 00000000" + "80" * 20)


# InitProducerIdRequest 2: null transactional id, timeout, tag section.
BODY = "00 00000000 "


def test_W7_unknown_tags_are_skipped() -> None:
    text = BODY + "02  00 03 616263  81 01 00"

    assert decode(InitProducerIdRequest, bytes.fromhex(text), 2) == (InitProducerIdRequest(), len(bytes.fromhex(text)))


def test_W7_unknown_tags_beside_known_ones_are_skipped() -> None:
    # Tags 1 (known, eight bytes), 3 (known, one byte) and 200 (unknown).
    text = "0000 01 00000000  03  01 08 0000000000000009  03 01 01  c801 02 ffff"
    message, end = decode(ApiVersionsResponse, bytes.fromhex(text), 3)

    assert message == ApiVersionsResponse(finalized_features_epoch=9, zk_migration_ready=True)
    assert end == len(bytes.fromhex(text))


@pytest.mark.parametrize("tags", ["02  05 00  05 00", "02  05 00  04 00"])
@pytest.mark.parametrize(("cls", "version", "body"), [(InitProducerIdRequest, 2, BODY), (ApiVersionsResponse, 3, "0000 01 00000000")])
def test_W7_tags_that_do_not_ascend_are_refused(cls: type[Message], version: int, body: str, tags: str) -> None:
    assert "tags must ascend" in refusal(cls, version, body + tags)


@pytest.mark.parametrize(("cls", "version", "body"), [(InitProducerIdRequest, 2, BODY), (ApiVersionsResponse, 3, "0000 01 00000000")])
def test_W7_a_tag_larger_than_what_remains_is_refused(cls: type[Message], version: int, body: str) -> None:
    assert "tag 9 announces 5 bytes, but only 4 remain" in refusal(cls, version, body + "01 09 05 00000000")


@pytest.mark.parametrize(("size", "where"), [("07", "1 bytes after"), ("09", "1 bytes before")])
def test_W7_a_tagged_value_that_does_not_fill_its_size_is_refused(size: str, where: str) -> None:
    text = f"0000 01 00000000  01  01 {size} 0000000000000009 00"

    assert f"the value of tag 1 ends {where} its announced end" in refusal(ApiVersionsResponse, 3, text)


def test_W7_a_count_of_tags_that_are_not_there_is_refused() -> None:
    assert "4294967295 elements of at least 2 bytes are announced, but only 0 bytes remain" in refusal(
        InitProducerIdRequest, 2, BODY + "ffffffff0f"
    )


def tag_section(count: int, first: int = 0) -> bytes:
    return encode_uvarint(count) + b"".join(encode_uvarint(tag) + b"\x00" for tag in range(first, first + count))


# Without known tags, and with some.
@pytest.mark.parametrize(("cls", "version", "body"), [(InitProducerIdRequest, 2, BODY), (ApiVersionsResponse, 3, "0000 01 00000000")])
def test_M_C6_a_message_has_so_many_unknown_tags_at_most(cls: type[Message], version: int, body: str) -> None:
    allowed = bytes.fromhex(body) + tag_section(MAX_UNKNOWN_TAGS, first=100)
    assert decode(cls, allowed, version)[1] == len(allowed)

    with pytest.raises(TooManyElementsError, match=f"{cls.__name__} v{version}, at byte .*, in tags: .* the limit is {MAX_UNKNOWN_TAGS}"):
        decode(cls, bytes.fromhex(body) + tag_section(MAX_UNKNOWN_TAGS + 1, first=100), version)


def test_M_C6_the_unknown_tags_of_all_structs_of_a_message_count_together() -> None:
    # Two brokers: node id, host, port, rack, tags.
    broker = bytes.fromhex("00000001 02 61 00000001 00") + tag_section(MAX_UNKNOWN_TAGS // 2 + 1)
    with pytest.raises(TooManyElementsError):
        decode(MetadataResponse, bytes.fromhex("00000000 03") + broker * 2, 9)


def test_M_C6_a_request_has_so_many_elements_in_its_arrays_at_most() -> None:
    def metadata_request(topics: int) -> bytes:
        return encode_uvarint(topics + 1) + b"\x01\x00" * topics + b"\x00\x00\x00\x00"

    assert len(decode(MetadataRequest, metadata_request(MAX_REQUEST_ELEMENTS), 9)[0].topics or ()) == MAX_REQUEST_ELEMENTS
    with pytest.raises(TooManyElementsError, match=f"in topics: a request has .* array elements; the limit is {MAX_REQUEST_ELEMENTS}"):
        decode(MetadataRequest, metadata_request(MAX_REQUEST_ELEMENTS + 1), 9)


def test_M_C6_the_elements_of_all_arrays_of_a_request_count_together() -> None:
    half = list(range(MAX_REQUEST_ELEMENTS // 2))
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=half) for name in "ab"]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    with pytest.raises(TooManyElementsError, match=r"in groups\.topics\.partition_indexes"):
        decode(OffsetFetchRequest, encode(request, 8), 8)


def test_a_response_has_as_many_elements_as_there_are() -> None:
    many = [MetadataResponseBroker(node_id=node) for node in range(MAX_REQUEST_ELEMENTS + 1)]
    assert len(decode(MetadataResponse, encode(MetadataResponse(brokers=many), 9), 9)[0].brokers) == len(many)


@pytest.mark.parametrize("is_request", [True, False])
def test_M_C6_headers_have_the_same_limit(is_request: bool) -> None:
    tags = tag_section(MAX_UNKNOWN_TAGS + 1)
    with pytest.raises(TooManyElementsError, match="header"):
        if is_request:
            decode_request(bytes.fromhex("0016 0002 00000001 ffff") + tags + bytes.fromhex(BODY + "00"))
        else:
            decode_response(InitProducerIdRequest, 2, bytes.fromhex("00000001") + tags)


@pytest.mark.skipif(not has_gil(), reason="without the interpreter lock, records are copied (ADR 64)")
def test_W10_records_are_a_view_and_not_a_copy() -> None:
    data = encode(ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=b"payload")])]), 9)
    message, _ = decode(ProduceRequest, data, 9)
    records = message.topic_data[0].partition_data[0].records

    assert isinstance(records, memoryview)
    assert records.obj is data
    assert bytes(records) == b"payload"


def test_a_broker_that_does_not_know_a_topic_by_name_may_send_null_since_version_12_only() -> None:
    topic = "00 02 0000 00" + "00" * 16 + "00 01 80000000 00 00"

    assert decode(MetadataResponse, bytes.fromhex("00000000 01 00 ffffffff" + topic[2:]), 12)[0].topics[0].name is None
    assert "in topics.name: null" in refusal(MetadataResponse, 11, "00000000 01 00 ffffffff" + topic[2:])


def test_strings_of_any_length_that_fits_are_read() -> None:
    for length in (0, 126, 127, 128, 16_383, 32_767):
        broker = MetadataResponseBroker(host="h" * length)
        assert decode(MetadataResponse, encode(MetadataResponse(brokers=[broker]), 9), 9)[0].brokers == [broker]
