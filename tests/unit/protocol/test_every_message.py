"""All that Kafka says is declared: how much that is, and what holds for each of it."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import pytest

from levada.errors import ProtocolError, UnsupportedVersionError
from levada.protocol.api import APIS
from levada.protocol.codegen import decode, encode
from levada.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from levada.protocol.embedded.consumer_protocol_subscription import TopicPartition as OwnedPartitions
from levada.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from levada.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from levada.protocol.messages.incremental_alter_configs import AlterableConfig
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from levada.protocol.records.consumer_group_member_metadata import ConsumerGroupMemberMetadataValue
from levada.protocol.records.leader_change_message import LeaderChangeMessage, Voter
from levada.protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from levada.protocol.schema import Field, Message, Struct
from protocol_strategies import API_MESSAGES, MESSAGES, VERSIONED, data_messages, filled, versions_of

# What Kafka's schemas describe and levada does not declare.
EXCLUDED = {
    "RequestHeader": "written by hand in header.py: its client id has the classic length in all versions",
    "ResponseHeader": "written by hand in header.py",
    "ListClientMetricsResources": "the name of ListConfigResources version 0 before Kafka 4.1; the bytes are the same",
}


def test_every_api_is_declared() -> None:
    versions = sum(len(versions_of(message)) for message in API_MESSAGES)
    drafts = {
        request.NAME: set(versions_of(request)) - set(range(request.MIN_VERSION, request.MAX_VERSION + 1)) for request in APIS.values()
    }

    print(f"{len(APIS)} APIs, {versions // 2} versions; {len(MESSAGES)} messages, {len(VERSIONED)} versions of them; excluded: {EXCLUDED}")
    assert list(APIS) == list(range(95))
    assert (len(API_MESSAGES), versions // 2) == (190, 368)
    assert (len(data_messages("embedded")), len(data_messages("records"))) == (3, 58)
    assert len(VERSIONED) == 813
    assert {name: found for name, found in drafts.items() if found} == {
        "InitProducerId": {6},
        "ShareGroupHeartbeat": {0},
        "ShareGroupDescribe": {0},
        "ShareFetch": {0},
        "ShareAcknowledge": {0},
    }


@pytest.mark.parametrize("message", API_MESSAGES)
def test_request_and_response_know_each_other(message: type[Message]) -> None:
    request = APIS[message.API_KEY]  # type: ignore[attr-defined]

    assert message in (request, request.RESPONSE)
    assert request.RESPONSE.REQUEST is request
    assert (request.__name__, request.RESPONSE.__name__) == (f"{request.NAME}Request", f"{request.NAME}Response")
    assert 0 <= message.OLDEST_VERSION <= message.MIN_VERSION <= message.MAX_VERSION <= message.NEWEST_VERSION


def test_a_record_and_its_key_know_each_other() -> None:
    assert OffsetCommitKey.VALUE is OffsetCommitValue
    assert OffsetCommitValue.KEY is OffsetCommitKey
    assert OffsetCommitKey.RECORD_TYPE == 1


@pytest.mark.parametrize("message", MESSAGES)
def test_tags_are_there_only_in_flexible_versions_and_no_two_are_the_same(message: type[Message]) -> None:
    for version in versions_of(message):
        for struct in structs(message):
            tags = [field.tag for field in struct.FIELDS if field.is_tagged(version)]
            assert len(set(tags)) == len(tags)
            assert not tags or message.is_flexible(version)


def structs(struct: type[Struct]) -> list[type[Struct]]:
    """A struct and all that are in it."""
    inner = [(field.element or field).struct for field in struct.FIELDS]
    return [struct, *(deeper for found in inner if found is not None for deeper in structs(found))]


@pytest.mark.parametrize("message", MESSAGES)
def test_W3_W4_a_length_that_lies_costs_nothing(message: type[Message]) -> None:
    version = message.MAX_VERSION
    written = encode(filled(message, version), version)
    decode(message, written, version)
    lies = [b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff"]
    tracemalloc.start()
    for position in range(0, len(written), 1 + len(written) // 50):
        for lie in lies:
            with suppress(ProtocolError):
                decode(message, written[:position] + lie + written[position + len(lie) :], version)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 200_000


def test_M_D11_secrets_are_not_printed() -> None:
    said = SaslAuthenticateRequest(auth_bytes=b"\x00me\x00hunter2")
    salted = ScramCredentialUpsertion(name="me", salt=b"salt", salted_password=b"hunter2")
    token = CreateDelegationTokenResponse(token_id="t", hmac=b"hunter2")
    setting = AlterableConfig(name="ssl.key.password", value="hunter2")

    assert repr(said) == "SaslAuthenticateRequest(auth_bytes=<secret>)"
    assert repr(SaslAuthenticateResponse(auth_bytes=b"")).count("auth_bytes=b''") == 1
    for shown in (said, AlterUserScramCredentialsRequest(upsertions=[salted]), token, setting):
        assert "<secret>" in repr(shown)
        assert "hunter2" not in repr(shown)


SECRET_WORDS = ("password", "hmac", "auth_bytes", "salt")


@pytest.mark.parametrize("message", MESSAGES)
def test_M_D11_what_sounds_like_a_secret_is_marked(message: type[Message]) -> None:
    suspects: list[Field] = [field for struct in structs(message) for field in struct.FIELDS if any(w in field.name for w in SECRET_WORDS)]

    assert all(field.secret for field in suspects)


def test_a_subscription_of_the_first_version_leaves_out_what_came_later() -> None:
    subscription = ConsumerProtocolSubscription(
        topics=["t"], owned_partitions=[OwnedPartitions(topic="t", partitions=[1])], generation_id=4
    )

    assert encode(subscription, 0).hex() == "00000001 0001 74 ffffffff".replace(" ", "")
    assert encode(subscription, 2).hex() == "00000001 0001 74 ffffffff 00000001 0001 74 00000001 00000001 00000004".replace(" ", "")


def test_a_committed_offset_is_written_as_kafka_writes_it() -> None:
    value = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=9)

    assert encode(value, 3).hex() == "0000000000000007 00000002 0001 6d 0000000000000009".replace(" ", "")
    assert encode(OffsetCommitKey(group="g", topic="t", partition=3), 0).hex() == "000167 000174 00000003".replace(" ", "")


def test_a_leader_change_names_directories_since_version_1() -> None:
    change = LeaderChangeMessage(version=0, leader_id=1, voters=[Voter(voter_id=1)])

    assert encode(change, 0).hex() == "0000 00000001 02 00000001 00 01 00".replace(" ", "")


def test_W8_a_struct_in_the_tag_section_is_null_by_a_zero() -> None:
    member = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    written = encode(member, 0)

    assert written.endswith(bytes.fromhex("01 00 01 00"))
    assert decode(ConsumerGroupMemberMetadataValue, written, 0)[0].classic_member_metadata is None


def test_a_version_that_lacks_what_was_set_refuses() -> None:
    with pytest.raises(UnsupportedVersionError, match="SaslAuthenticateRequest has versions 0 to 2, not 3"):
        encode(SaslAuthenticateRequest(), 3)
