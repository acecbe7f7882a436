"""Structs behind their version, and coordinators' records behind their type."""

from __future__ import annotations

import pytest

from levada.errors import ProtocolError, TruncatedError, UnsupportedVersionError
from levada.protocol.embedded.consumer_protocol_assignment import ConsumerProtocolAssignment
from levada.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from levada.protocol.embedded.default_principal_data import DefaultPrincipalData
from levada.protocol.prefixed import (
    GROUP_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    UnknownRecordTypeError,
    UnknownVersionError,
    decode_prefixed,
    encode_prefixed,
)
from levada.protocol.records.control_record_type_schema import ControlRecordTypeSchema
from levada.protocol.records.end_txn_marker import EndTxnMarker
from levada.protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from levada.protocol.records.transaction_log import TransactionLogValue
from levada.protocol.schema import Data, RecordKey
from protocol_strategies import data_messages, filled, versions_of

PREFIXED = [message for package in ("embedded", "records") for message in data_messages(package) if not issubclass(message, RecordKey)]


@pytest.mark.parametrize("cls", PREFIXED)
def test_what_stands_behind_its_version_comes_back(cls: type[Data]) -> None:
    for version in versions_of(cls):
        example: Data = filled(cls, version)
        written = encode_prefixed(example, version)

        assert written[:2] == version.to_bytes(2, "big")
        assert decode_prefixed(cls, written) == example
        assert decode_prefixed(cls, memoryview(written + b"more")) == example


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (ConsumerProtocolSubscription(topics=["t"]), "0000 00000001 0001 74 ffffffff"),
        (ControlRecordTypeSchema(type=1), "0000 0001"),
        (EndTxnMarker(coordinator_epoch=7), "0000 00000007"),
        (OffsetCommitKey(group="g", topic="t", partition=3), "0001 0001 67 0001 74 00000003"),
        (DefaultPrincipalData(type="User", name="me"), "0000 05 55736572 03 6d65 00 00"),
    ],
)
def test_the_prefix_is_the_version_or_the_type_of_a_key(message: Data, text: str) -> None:
    assert encode_prefixed(message, 0) == bytes.fromhex(text)


@pytest.mark.parametrize("cls", [ConsumerProtocolSubscription, ConsumerProtocolAssignment, ControlRecordTypeSchema, EndTxnMarker])
def test_G17_what_only_grows_at_its_end_is_read_in_any_later_version(cls: type[Data]) -> None:
    newest = cls.NEWEST_VERSION
    example: Data = filled(cls, newest)
    later = (newest + 40).to_bytes(2, "big") + encode_prefixed(example, newest)[2:] + b"what came later"

    assert decode_prefixed(cls, later) == example


@pytest.mark.parametrize("cls", [OffsetCommitValue, TransactionLogValue, DefaultPrincipalData])
def test_a_later_version_of_anything_else_is_refused(cls: type[Data]) -> None:
    later = (cls.NEWEST_VERSION + 1).to_bytes(2, "big") + b"\x00" * 60

    with pytest.raises(UnknownVersionError, match=rf"^{cls.NAME} has versions 0 to \d; one of version {cls.NEWEST_VERSION + 1} came"):
        decode_prefixed(cls, later)


@pytest.mark.parametrize("cls", PREFIXED)
def test_a_negative_version_and_none_at_all_are_refused(cls: type[Data]) -> None:
    with pytest.raises(UnknownVersionError, match="one of version -1 came"):
        decode_prefixed(cls, b"\xff\xff" + b"\x00" * 60)
    with pytest.raises(TruncatedError, match=f"{cls.NAME} of 1 bytes is shorter than the version in front of it"):
        decode_prefixed(cls, b"\x00")


def test_no_version_is_written_that_does_not_exist() -> None:
    with pytest.raises(UnsupportedVersionError, match="has versions 0 to 3, not 4"):
        encode_prefixed(ConsumerProtocolSubscription(), 4)


def test_every_record_of_a_coordinator_is_found_by_its_type() -> None:
    declared = [message for message in data_messages("records") if issubclass(message, RecordKey)]
    found = [*GROUP_RECORDS.values(), *TRANSACTION_RECORDS.values(), *SHARE_RECORDS.values()]

    assert {record_type: key.RECORD_TYPE for record_type, key in GROUP_RECORDS.items()} == {number: number for number in GROUP_RECORDS}
    assert set(found) == set(declared)
    assert len(found) == len(declared)


@pytest.mark.parametrize("key_class", [*GROUP_RECORDS.values(), *TRANSACTION_RECORDS.values(), *SHARE_RECORDS.values()])
def test_a_coordinators_record_comes_back(key_class: type[RecordKey]) -> None:
    types = next(types for types in (GROUP_RECORDS, TRANSACTION_RECORDS, SHARE_RECORDS) if key_class in types.values())
    key, newest = filled(key_class, 0), key_class.VALUE.NEWEST_VERSION
    value = filled(key_class.VALUE, newest)

    assert types.decode(encode_prefixed(key, 0), encode_prefixed(value, newest)) == CoordinatorRecord(key, value)
    assert types.decode(encode_prefixed(key, 0), None) == CoordinatorRecord(key, None)


@pytest.mark.parametrize("record_type", [9, 18, 24, -1])
def test_a_record_of_an_unknown_type_says_so(record_type: int) -> None:
    with pytest.raises(UnknownRecordTypeError, match=f"of type {record_type}, which is unknown here") as caught:
        GROUP_RECORDS.decode(record_type.to_bytes(2, "big", signed=True) + b"\x00\x01g", None)

    assert caught.value.record_type == record_type


def test_a_broken_record_of_a_coordinator_is_refused() -> None:
    with pytest.raises(TruncatedError, match="the key of a coordinator's record of 0 bytes"):
        GROUP_RECORDS.decode(b"", None)
    with pytest.raises(ProtocolError, match=r"^OffsetCommitKey v0, at byte "):
        GROUP_RECORDS.decode(b"\x00\x01\x00", None)
