from __future__ import annotations

import pytest

from levada.errors import ProtocolError, TruncatedError, UnsupportedVersionError, UnwritableError
from levada.protocol import frame, header
from levada.protocol.frame import (
    RequestFrame,
    UnsupportedRequestError,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_response_parts,
    response_correlation_id,
)
from levada.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from levada.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from levada.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse


def body(whole: bytes) -> bytes:
    """Strip the size, which must be right."""
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return whole[4:]


def test_H1_a_classic_request_header_has_key_version_correlation_id_and_client_id() -> None:
    sent = encode_request(InitProducerIdRequest(), 1, 7, "me")

    assert sent == bytes.fromhex("00000012  0016 0001 00000007 0002 6d65  ffff 00000000")


def test_H1_a_flexible_request_header_ends_with_tags_and_keeps_the_classic_client_id() -> None:
    sent = encode_request(InitProducerIdRequest(), 2, 7, "me")

    assert sent == bytes.fromhex("00000013  0016 0002 00000007 0002 6d65 00  00 00000000 00")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("client_id", [None, "", "levada", "λ"])
def test_H1_a_request_comes_back(version: int, client_id: str | None) -> None:
    request = InitProducerIdRequest(transaction_timeout_ms=9)

    received = decode_request(body(encode_request(request, version, -5, client_id)))

    assert received == RequestFrame(22, version, -5, client_id, request)


def test_H1_the_oldest_controlled_shutdown_names_no_client() -> None:
    request = ControlledShutdownRequest(broker_id=3)
    framed = encode_request(request, 0, 7, "nobody asks")

    assert framed == bytes.fromhex("0000000c  0007 0000 00000007  00000003")
    assert decode_request(body(framed)) == RequestFrame(7, 0, 7, None, request)


def test_H1_tags_in_a_request_header_are_skipped() -> None:
    received = decode_request(bytes.fromhex("0016 0002 00000007 ffff 01 05 02 abcd  00 00000001 00"))

    assert received.request == InitProducerIdRequest(transaction_timeout_ms=1)


def test_H2_H4_a_response_header_has_tags_from_the_first_flexible_version_on() -> None:
    assert encode_response(InitProducerIdResponse(), 1, 7).startswith(bytes.fromhex("00000014 00000007 00000000"))
    assert encode_response(InitProducerIdResponse(), 2, 7).startswith(bytes.fromhex("00000016 00000007 00 00000000"))


@pytest.mark.parametrize("version", [1, 2])
def test_H2_a_response_comes_back(version: int) -> None:
    response = InitProducerIdResponse(producer_id=4, producer_epoch=1)
    received = body(encode_response(response, version, -7))

    assert response_correlation_id(received) == -7
    assert decode_response(InitProducerIdRequest, version, received) == response


def test_H2_tags_in_a_response_header_are_skipped() -> None:
    received = bytes.fromhex("00000007 01 00 01 ff  00000000 0000 0000000000000004 0001 00")

    assert decode_response(InitProducerIdRequest, 2, received) == InitProducerIdResponse(producer_id=4, producer_epoch=1)


@pytest.mark.parametrize("version", range(6))
def test_H3_api_versions_responses_never_have_tags_in_their_header(version: int) -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, max_version=1)])
    received = body(encode_response(response, version, 1))

    assert received[:6] == bytes.fromhex("00000001 0000")
    assert decode_response(ApiVersionsRequest, version, received) == response


@pytest.mark.parametrize(
    ("text", "key", "version", "says"),
    [
        ("03e7 0001 00000007", 999, 1, "API key 999 is unknown; a request of version 1 came"),
        ("0012 0063 00000007 0000", 18, 99, "ApiVersions has versions 0 to 5; a request of version 99 came"),
        ("0016 0006 00000007 0000", 22, 6, "InitProducerId has versions 0 to 5; a request of version 6 came"),
        ("0003 ffff 00000007 0000", 3, -1, "Metadata has versions 0 to 13"),
    ],
)
def test_H9_H13_an_unsupported_request_still_has_a_correlation_id(text: str, key: int, version: int, says: str) -> None:
    with pytest.raises(UnsupportedRequestError, match=says) as caught:
        decode_request(bytes.fromhex(text))

    assert (caught.value.api_key, caught.value.version, caught.value.correlation_id) == (key, version, 7)


@pytest.mark.parametrize("text", ["", "0016", "0016 0001 000000"])
def test_a_request_shorter_than_its_header_is_truncated(text: str) -> None:
    with pytest.raises(TruncatedError, match="shorter than its header"):
        decode_request(bytes.fromhex(text))


@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        ("0016 0001 00000007", TruncatedError, "the bytes end too early"),
        ("0016 0001 00000007 00", TruncatedError, "the bytes end too early"),
        ("0016 0001 00000007 0005 6d65", TruncatedError, "5 bytes are announced, but only 2 remain"),
        ("0016 0001 00000007 fffe", ProtocolError, "negative length -2"),
        ("0016 0001 00000007 0002 c328", ProtocolError, "invalid continuation byte"),
        ("0016 0002 00000007 ffff", TruncatedError, "the bytes end inside a varint"),
        ("0016 0002 00000007 ffff 02 05 00 05 00", ProtocolError, "tags must ascend"),
    ],
)
def test_a_broken_request_header_is_refused(text: str, kind: type[ProtocolError], cause: str) -> None:
    with pytest.raises(kind, match=f"^InitProducerId v[12] request header, .*{cause}"):
        decode_request(bytes.fromhex(text))


@pytest.mark.parametrize("text", ["", "000000"])
def test_a_response_shorter_than_its_header_is_truncated(text: str) -> None:
    with pytest.raises(TruncatedError, match="shorter than its header"):
        response_correlation_id(bytes.fromhex(text))
    with pytest.raises(TruncatedError, match="shorter than its header"):
        decode_response(MetadataRequest, 9, bytes.fromhex(text))


@pytest.mark.parametrize("text", ["00000007", "00000007 01 00 05 00"])
def test_broken_tags_in_a_response_header_are_refused(text: str) -> None:
    with pytest.raises(TruncatedError, match=r"^Metadata v9 response header"):
        decode_response(MetadataRequest, 9, bytes.fromhex(text))


def test_bytes_left_over_after_a_message_are_ignored_as_java_does() -> None:
    response = body(encode_response(MetadataResponse(), 9, 1))
    request = body(encode_request(MetadataRequest(), 9, 1, None))

    assert decode_response(MetadataRequest, 9, response + b"\x00\x00") == MetadataResponse()
    assert decode_request(request + b"\x00") == decode_request(request)


def test_a_response_in_pieces_is_the_same_response_with_its_records_uncopied() -> None:
    records = memoryview(b"x" * 1000)
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])
    response = FetchResponse(responses=[topic])

    parts = encode_response_parts(response, 12, 7)

    assert b"".join(parts) == encode_response(response, 12, 7)
    assert any(isinstance(part, memoryview) and part.obj is records.obj for part in parts)


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError):
        encode_request(MetadataRequest(), 14, 1, None)
    with pytest.raises(UnwritableError, match="Metadata request header cannot be written"):
        encode_request(MetadataRequest(), 9, 1 << 31, None)
    with pytest.raises(UnwritableError, match="Metadata request header cannot be written"):
        encode_request(MetadataRequest(), 9, 1, "x" * 32768)


def test_W11_a_message_that_no_frame_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "_MAX_FRAME", 20)

    with pytest.raises(ProtocolError, match="MetadataRequest v9 takes 24 bytes, more than a frame can hold"):
        encode_request(MetadataRequest(), 9, 1, "levada-1")


def test_H4_only_api_versions_is_an_exception() -> None:
    assert header.has_tagged_response_header(MetadataRequest, 9)
    assert not header.has_tagged_response_header(MetadataRequest, 8)
    assert not header.has_tagged_response_header(ApiVersionsRequest, 4)
