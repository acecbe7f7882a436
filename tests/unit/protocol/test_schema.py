from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any
from uuid import UUID

import pytest

from levada.errors import ProtocolError
from levada.protocol import schema
from levada.protocol.api import APIS, request_type
from levada.protocol.codegen import decode, encode
from levada.protocol.messages.fetch import EpochEndOffset, FetchRequest, PartitionData
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponseTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from levada.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from levada.protocol.schema import ZERO_UUID, Request, Response, Struct, Versions


class Coin(Struct):
    value: int = schema.uint16()


class EverythingRequest(Request, key=999, versions="0-1", flexible="1+"):
    """Kinds of fields that the first APIs do not use."""

    small: int = schema.int8()
    weight: float = schema.float64(default=1.5)
    flags: int = schema.uint32()
    blob: bytes = schema.bytestring()
    perhaps: bytes | None = schema.bytestring(nullable="0+")
    coin: Coin = schema.struct(Coin)
    purse: Coin | None = schema.struct(Coin, nullable="0+")
    ids: list[UUID] = schema.array(schema.uuid)
    blobs: list[bytes] = schema.array(schema.bytestring)
    numbers: list[int] | None = schema.array(schema.int16, nullable="0+")
    late: bytes = schema.bytestring("1+", tagged="1+", tag=4)
    spare: Coin | None = schema.struct(Coin, "1+", nullable="1+", tagged="1+", tag=2)


class EverythingResponse(Response, request=EverythingRequest):
    """Empty."""


FULL = EverythingRequest(
    small=-1,
    weight=-0.25,
    flags=1 << 31,
    blob=b"b",
    perhaps=b"",
    coin=Coin(value=65535),
    purse=Coin(value=1),
    ids=[ZERO_UUID, UUID(int=1)],
    blobs=[b"", b"x" * 300],
    numbers=[1, -2],
)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("message", [FULL, EverythingRequest()])
def test_every_kind_of_field_survives(message: EverythingRequest, version: int) -> None:
    written = encode(message, version)

    assert decode(EverythingRequest, written, version) == (message, len(written))


def test_tagged_fields_are_written_in_the_order_of_their_tags() -> None:
    message = EverythingRequest(late=b"l", spare=Coin(value=7))
    written = encode(message, 1)

    assert written.endswith(bytes.fromhex("02  02 04 01 0007 00  04 02 02 6c"))
    assert decode(EverythingRequest, written, 1)[0] == message


def test_W8_a_nullable_struct_starts_with_a_sign() -> None:
    assert encode(EverythingRequest(), 0)[-13:] == bytes.fromhex("ff 00000000 00000000 ffffffff")
    assert encode(EverythingRequest(purse=Coin(value=2)), 0)[-15:-12] == bytes.fromhex("01 0002")


def test_every_field_has_a_default_and_may_be_given_by_name() -> None:
    request = ProduceRequest(acks=-1)

    assert (request.transactional_id, request.acks, request.timeout_ms, request.topic_data) == (None, -1, 0, [])
    assert FetchRequest().max_bytes == 0x7FFFFFFF
    assert MetadataResponseTopic().topic_id == ZERO_UUID


def test_a_nullable_field_defaults_to_null_where_all_its_versions_allow_it() -> None:
    assert InitProducerIdRequest().transactional_id is None
    assert MetadataRequest().topics == []


def test_defaults_that_can_change_are_never_shared() -> None:
    assert ProduceRequest().topic_data is not ProduceRequest().topic_data
    assert PartitionData().diverging_epoch is not PartitionData().diverging_epoch
    assert PartitionData().diverging_epoch == EpochEndOffset(epoch=-1, end_offset=-1)


@pytest.mark.parametrize("wrong", [{"ack": 1}, {"acks": 1, "topics": []}])
def test_an_unknown_field_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        ProduceRequest(**wrong)
    with pytest.raises(AttributeError):
        ProduceRequest().ack = 1  # type: ignore[attr-defined]


def test_messages_compare_by_value_and_type() -> None:
    assert TopicProduceData(name="t") == TopicProduceData(name="t")
    assert TopicProduceData(name="t") != TopicProduceData(name="u")
    assert ProduceRequest() != ProduceResponse()
    assert PartitionProduceData(records=b"r") == PartitionProduceData(records=memoryview(b"r"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(ProduceRequest())


def test_repr_shows_fields_but_no_payload() -> None:
    assert repr(PartitionProduceData(index=1, records=memoryview(b"tiny"))) == "PartitionProduceData(index=1, records=b'tiny')"
    assert repr(PartitionProduceData(index=1, records=b"x" * 1000)) == "PartitionProduceData(index=1, records=<1000 bytes>)"


def test_messages_are_copied_and_pickled() -> None:
    message = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=b"r")])

    assert pickle.loads(pickle.dumps(message)) == message
    assert copy.deepcopy(message) == message


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3", [3], [2, 4]), ("0-12", [0, 12], [13]), ("9+", [9, 32767], [8]), ("none", [], [0, 1])],
)
def test_versions_are_spans(text: str, inside: list[int], outside: list[int]) -> None:
    span = Versions.parse(text)

    assert all(span.has(version) for version in inside)
    assert not any(span.has(version) for version in outside)


@pytest.mark.parametrize(
    ("key", "name", "oldest", "newest", "flexible"),
    [
        (0, "Produce", 0, 13, 9),
        (1, "Fetch", 0, 18, 12),
        (2, "ListOffsets", 0, 11, 6),
        (3, "Metadata", 0, 13, 9),
        (18, "ApiVersions", 0, 5, 3),
        (19, "CreateTopics", 0, 7, 5),
        (20, "DeleteTopics", 0, 6, 4),
        (22, "InitProducerId", 0, 5, 2),
    ],
)
def test_the_first_apis_span_the_versions_of_kafka_3_9_to_4_4(key: int, name: str, oldest: int, newest: int, flexible: int) -> None:
    request = APIS[key]

    for message in (request, request.RESPONSE):
        found = (message.API_KEY, message.NAME, message.MIN_VERSION, message.MAX_VERSION, message.FIRST_FLEXIBLE)
        assert found == (key, name, oldest, newest, flexible)
    assert request.RESPONSE.REQUEST is request
    assert (request.is_flexible(flexible - 1), request.is_flexible(flexible)) == (False, True)


def test_a_draft_version_is_known_but_not_stable() -> None:
    assert (InitProducerIdRequest.MAX_VERSION, InitProducerIdRequest.NEWEST_VERSION) == (5, 6)
    assert decode(InitProducerIdRequest, encode(InitProducerIdRequest(enable_2pc=True), 6), 6)[0].enable_2pc


def test_a_draft_older_than_all_releases_is_known_but_not_stable() -> None:
    found = (ShareFetchRequest.OLDEST_VERSION, ShareFetchRequest.MIN_VERSION, ShareFetchRequest.MAX_VERSION)

    assert found == (0, 1, 2)
    assert ShareFetchResponse.OLDEST_VERSION == 0
    assert decode(ShareFetchRequest, encode(ShareFetchRequest(max_wait_ms=5), 0), 0)[0].max_wait_ms == 5


def test_the_apis_are_a_mapping() -> None:
    assert list(APIS) == list(range(95))
    assert len(APIS) == 95
    assert 0 in APIS
    assert APIS.get(95) is None
    assert request_type(0) is ProduceRequest
    with pytest.raises(ProtocolError, match="unknown API key 95"):
        request_type(95)


def test_importing_the_frame_module_loads_no_message() -> None:
    # Python 3.13 has linecache loaded for what is given with -c.
    script = "before = {*sys.modules}; import levada.protocol.frame; "
    script += "print([m for m in {*sys.modules} - before if 'messages' in m or m == 'linecache'])"
    ran = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {script}"], capture_output=True, text=True)

    assert ran.stdout.strip() == "[]", ran.stderr
