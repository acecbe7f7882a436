"""The API versions of brokers that cannot be asked for them (broker.version.fallback).

ApiVersions came with Kafka 0.10.0. A 0.9 broker never answers it and leaves the connection open; a 0.8 broker closes the connection. Other
kinds of servers do the same. So users of such brokers name the release, and the client takes the versions from these tables, which have the
APIs that clients of that time used.
"""

from __future__ import annotations

from collections.abc import Mapping

from levada.client.network.api_versions import BrokerVersions
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.fetch import FetchRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest
from levada.protocol.messages.leave_group import LeaveGroupRequest
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.list_offsets import ListOffsetsRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from levada.protocol.messages.offset_fetch import OffsetFetchRequest
from levada.protocol.messages.produce import ProduceRequest
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest
from levada.protocol.messages.sync_group import SyncGroupRequest
from levada.protocol.schema import Request

Newest = Mapping[type[Request], int]
"""The newest version of each API; these releases speak all the older ones too."""

_IN_0_8_0: Newest = {ProduceRequest: 0, FetchRequest: 0, ListOffsetsRequest: 0, MetadataRequest: 0}
_IN_0_8_1: Newest = {**_IN_0_8_0, OffsetCommitRequest: 0, OffsetFetchRequest: 0}
_IN_0_8_2: Newest = {**_IN_0_8_1, OffsetCommitRequest: 1, OffsetFetchRequest: 1, FindCoordinatorRequest: 0}
_IN_0_9_0: Newest = {
    **_IN_0_8_2,
    ProduceRequest: 1,
    FetchRequest: 1,
    OffsetCommitRequest: 2,
    JoinGroupRequest: 0,
    HeartbeatRequest: 0,
    LeaveGroupRequest: 0,
    SyncGroupRequest: 0,
    DescribeGroupsRequest: 0,
    ListGroupsRequest: 0,
}
_IN_0_10_0: Newest = {
    **_IN_0_9_0,
    ProduceRequest: 2,
    FetchRequest: 2,
    MetadataRequest: 1,
    SaslHandshakeRequest: 0,
    ApiVersionsRequest: 0,
}

RELEASES: Mapping[str, Newest] = {
    "0.8.0": _IN_0_8_0,
    "0.8.1": _IN_0_8_1,
    "0.8.2": _IN_0_8_2,
    "0.9.0": _IN_0_9_0,
    "0.10.0": _IN_0_10_0,
}


def versions_of(release: str) -> BrokerVersions:
    """Return the API versions that brokers of one of RELEASES support."""
    return BrokerVersions({request_type.API_KEY: (0, newest) for request_type, newest in RELEASES[release].items()})
