"""H8 to H12: what a broker speaks."""

from __future__ import annotations

import pytest

import levada
from levada.client.network.api_versions import BrokerVersions, handshake_request, known_version, read_reply
from levada.client.setup.flow import Ask, negotiate
from levada.errors import BrokerError, ProtocolError, UnsupportedVersionError
from levada.protocol.frame import encode_response
from levada.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from levada.protocol.messages.produce import ProduceRequest

NEWEST = ApiVersionsRequest.MAX_VERSION
UNSUPPORTED = 35


def reply(version: int, error_code: int = 0, **ranges: tuple[int, int]) -> bytes:
    keys = [ApiVersion(api_key=int(key.strip("_")), min_version=low, max_version=high) for key, (low, high) in ranges.items()]
    return encode_response(ApiVersionsResponse(error_code=error_code, api_keys=keys), version, 1)[4:]


def converse(*frames: bytes) -> tuple[list[int], BrokerVersions]:
    """Feed frames to a negotiation; return the versions asked with, and the outcome."""
    talk = negotiate()
    steps = [next(talk)]
    for frame in frames:
        try:
            steps.append(talk.send(frame))
        except StopIteration as done:
            return [step.version for step in steps if isinstance(step, Ask)], done.value
    raise AssertionError("the negotiation goes on")


def test_H8_the_newest_version_is_asked_with_first() -> None:
    asked, spoken = converse(reply(NEWEST, _0=(3, 9), _18=(0, NEWEST)))
    assert asked == [NEWEST]
    assert spoken.ranges == {0: (3, 9), 18: (0, NEWEST)}


def test_H9_a_refusal_names_the_version_to_ask_with() -> None:
    asked, spoken = converse(reply(0, UNSUPPORTED, _18=(0, 3)), reply(3, _0=(0, 8)))
    assert asked == [NEWEST, 3]
    assert spoken.ranges == {0: (0, 8)}


def test_H9_a_refusal_that_names_nothing_leads_to_version_0() -> None:
    asked, spoken = converse(reply(0, UNSUPPORTED), reply(0, _0=(0, 2)))
    assert asked == [NEWEST, 0]
    assert spoken.ranges == {0: (0, 2)}


@pytest.mark.parametrize("count", [b"\x00", b"\x01"])
def test_H9_a_refusal_in_no_known_version_leads_to_version_0(count: bytes) -> None:
    # As librdkafka's mock broker sends it.
    odd = b"\0\0\0\1" + UNSUPPORTED.to_bytes(2, "big") + count
    asked, _ = converse(odd, reply(0, _0=(0, 2)))
    assert asked == [NEWEST, 0]


def test_H9_an_error_to_the_second_question_ends_it() -> None:
    with pytest.raises(BrokerError, match="UNSUPPORTED_VERSION"):
        converse(reply(0, UNSUPPORTED), reply(0, UNSUPPORTED))


def test_H9_any_other_error_ends_it() -> None:
    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        converse(reply(NEWEST, 31))


def test_H10_an_answer_in_version_0_is_understood_whatever_was_asked() -> None:
    assert converse(reply(0, _0=(0, 2), _1=(0, 3)))[1].ranges == {0: (0, 2), 1: (0, 3)}


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("keys", [[], [ApiVersion(api_key=18, min_version=0, max_version=4)]])
@pytest.mark.parametrize("code", [0, UNSUPPORTED])
def test_H10_any_answer_may_be_in_version_0(version: int, keys: list[ApiVersion], code: int) -> None:
    answer = ApiVersionsResponse(error_code=code, api_keys=keys)
    assert read_reply(encode_response(answer, 0, 1)[4:], version) == answer


def test_an_answer_in_no_version_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError):
        converse(b"\0\0\0\1\0\0\xff\xff\xff")


@pytest.mark.parametrize("length", range(6))
def test_M_C4_a_truncated_answer_breaks_the_protocol(length: int) -> None:
    with pytest.raises(ProtocolError):
        read_reply(reply(0)[:length], 0)


def test_a_hostile_range_does_not_lead_to_a_version_that_does_not_exist() -> None:
    own = [ApiVersion(api_key=18, min_version=0, max_version=99)]
    assert known_version(ApiVersionsResponse(api_keys=own)) == NEWEST
    own = [ApiVersion(api_key=18, min_version=-5, max_version=-1)]
    assert known_version(ApiVersionsResponse(api_keys=own)) == 0


def test_H12_features_are_kept() -> None:
    features = [FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)]
    frame = encode_response(ApiVersionsResponse(finalized_features=features, finalized_features_epoch=7), 3, 1)[4:]
    spoken = converse(reply(0, UNSUPPORTED, _18=(0, 3)), frame)[1]
    assert (spoken.features, spoken.features_epoch) == ({"transaction.version": 2}, 7)


@pytest.mark.parametrize(
    ("theirs", "bounds", "chosen"),
    [((0, 9), (0, 99), 9), ((0, 99), (0, 99), ProduceRequest.MAX_VERSION), ((0, 9), (3, 7), 7), ((5, 5), (0, 99), 5)],
)
def test_H11_the_newest_shared_version_is_chosen(theirs: tuple[int, int], bounds: tuple[int, int], chosen: int) -> None:
    assert BrokerVersions({0: theirs}).version_for(ProduceRequest, *bounds) == chosen


@pytest.mark.parametrize(
    ("theirs", "bounds"),
    [((0, 2), (3, 99)), ((0, 9), (10, 99)), ((90, 99), (0, 99)), ((9, 3), (0, 99))],
)
def test_H11_no_shared_version_is_an_error_with_both_ranges(theirs: tuple[int, int], bounds: tuple[int, int]) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"Produce: .* the broker speaks {theirs[0]} to {theirs[1]}"):
        BrokerVersions({0: theirs}).version_for(ProduceRequest, *bounds)


def test_H12_an_api_that_is_not_listed_is_not_spoken() -> None:
    with pytest.raises(UnsupportedVersionError, match="does not know Produce"):
        BrokerVersions({}).version_for(ProduceRequest)


def test_H8_brokers_are_told_the_version_of_the_package() -> None:
    request = handshake_request()
    assert (request.client_software_name, request.client_software_version) == ("levada", levada.__version__)
