"""Encodes and decodes structs with an int16 prefix: their version or record type.

A struct in a bytes field or in a record has no request around it that names its version, so it has a prefix:

- the version, before subscriptions and assignments of classic groups, principals, and values of coordinators' records;
- the record type, before keys of coordinators' records. The format of a type never changes; Kafka adds a new type instead (0 and 1 are
offsets);
- the version, before keys of control records and values of transaction markers.

KRaft's control records (leader change, snapshot header and footer, voters) have the version in a field and no prefix:
`codegen.decode(LeaderChangeMessage, value, 0)`.

If Kafka reads newer versions of a struct like the newest version that it knows, because they only append fields, so does this module. For
other structs a newer version is an error. As in Kafka, bytes after the struct are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final, NamedTuple, TypeVar

from levada.errors import ProtocolError, TruncatedError
from levada.protocol.codegen import decode, encode
from levada.protocol.schema import Data, RecordKey, RecordValue
from levada.wire.varint import Bytes

D = TypeVar("D", bound=Data)

_PREFIX: Final = struct.Struct(">h")
_READ_AS_OUR_NEWEST: Final = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "ControlRecordTypeSchema", "EndTxnMarker")


class UnknownVersionError(ProtocolError):
    """A struct has an unknown version: its writer is newer than this levada, or the bytes are corrupt."""


class UnknownRecordTypeError(ProtocolError):
    """A record of a coordinator's topic has an unknown type. Readers skip such records."""

    def __init__(self, record_type: int) -> None:
        super().__init__(f"a coordinator's record of type {record_type}, which is unknown here")
        self.record_type = record_type


def encode_prefixed(message: Data, version: int) -> bytes:
    """Encode a version and a struct, or, for a record key, the record type and the key. Raises the errors of codegen.encode()."""
    prefix = message.RECORD_TYPE if isinstance(message, RecordKey) else version
    return _PREFIX.pack(prefix) + encode(message, version)


def decode_prefixed(cls: type[D], data: Bytes) -> D:
    """Decode a struct that follows its version. For record keys use RecordTypes.decode().

    Raises UnknownVersionError for an unknown version, and ProtocolError like codegen.decode().
    """
    version = read_prefix(cls.NAME, data)
    if version > cls.NEWEST_VERSION and cls.NAME in _READ_AS_OUR_NEWEST:
        version = cls.NEWEST_VERSION
    if not cls.OLDEST_VERSION <= version <= cls.NEWEST_VERSION:
        raise UnknownVersionError(f"{cls.NAME} has versions {cls.OLDEST_VERSION} to {cls.NEWEST_VERSION}; one of version {version} came")
    return decode(cls, data, version, _PREFIX.size)[0]


def read_prefix(name: str, data: Bytes) -> int:
    """Return the version, or the record type, with which the data begin. name: the struct's name, for the text of a TruncatedError."""
    if len(data) < _PREFIX.size:
        raise TruncatedError(f"{name} of {len(data)} bytes is shorter than the version in front of it")
    (prefix,) = _PREFIX.unpack_from(data)
    return int(prefix)


class CoordinatorRecord(NamedTuple):
    """A decoded record of a coordinator's topic. A value of None means a tombstone: the object that the key names was deleted."""

    key: RecordKey
    value: RecordValue | None


class RecordTypes(Mapping[int, type[RecordKey]]):
    """Decodes the records of one coordinator's topic. Maps record types to the classes of keys, which are imported at first use.

    modules: the names of modules in protocol/records, by record type.
    """

    def __init__(self, modules: Mapping[int, str]) -> None:
        self._modules = modules

    def __getitem__(self, record_type: int) -> type[RecordKey]:
        name = self._modules[record_type]
        module = import_module(f"levada.protocol.records.{name}")
        found: type[RecordKey] = getattr(module, name.title().replace("_", "") + "Key")
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def decode(self, key: Bytes, value: Bytes | None) -> CoordinatorRecord:
        """Decode a record. Raises UnknownRecordTypeError for a record that should be skipped, and ProtocolError like decode_prefixed()."""
        record_type = read_prefix("the key of a coordinator's record", key)
        if record_type not in self._modules:
            raise UnknownRecordTypeError(record_type)
        key_class = self[record_type]
        found, _ = decode(key_class, key, 0, _PREFIX.size)
        return CoordinatorRecord(found, None if value is None else decode_prefixed(key_class.VALUE, value))


GROUP_RECORDS: Final = RecordTypes(
    {
        0: "legacy_offset_commit",
        1: "offset_commit",
        2: "group_metadata",
        3: "consumer_group_metadata",
        4: "consumer_group_partition_metadata",
        5: "consumer_group_member_metadata",
        6: "consumer_group_target_assignment_metadata",
        7: "consumer_group_target_assignment_member",
        8: "consumer_group_current_member_assignment",
        10: "share_group_member_metadata",
        11: "share_group_metadata",
        12: "share_group_target_assignment_metadata",
        13: "share_group_target_assignment_member",
        14: "share_group_current_member_assignment",
        15: "share_group_state_partition_metadata",
        16: "consumer_group_regular_expression",
        17: "streams_group_metadata",
        19: "streams_group_member_metadata",
        20: "streams_group_target_assignment_metadata",
        21: "streams_group_target_assignment_member",
        22: "streams_group_current_member_assignment",
        23: "streams_group_topology",
    }
)
"""The records of __consumer_offsets."""

TRANSACTION_RECORDS: Final = RecordTypes({0: "transaction_log"})
"""The records of __transaction_state."""

SHARE_RECORDS: Final = RecordTypes({0: "share_snapshot", 1: "share_update"})
"""The records of __share_group_state."""
