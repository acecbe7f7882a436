"""The embedded broker, set up as services that speak Kafka's protocol with peculiarities of their own.

They are imitations from what users of these services have reported: which APIs and versions they have, their limits, and how they end a
connection. docs/CLUSTERS.md says what is known, and from where.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levada.testing import EmbeddedKafka

NOT_SERVED = -1

EVENT_HUBS_USER = "$ConnectionString"
EVENT_HUBS_PASSWORD = "Endpoint=sb://name.example/;SharedAccessKeyName=send;SharedAccessKey=a+/b=="
EVENT_HUBS_REQUEST_BYTES = 1_046_528
EVENT_HUBS_VERSIONS: Mapping[str, int] = {
    "Produce": 7,
    "Fetch": 6,
    "ListOffsets": 2,
    "Metadata": 5,
    "OffsetCommit": 3,
    "OffsetFetch": 3,
    "FindCoordinator": 1,
    "JoinGroup": 4,
    "Heartbeat": 1,
    "LeaveGroup": 1,
    "SyncGroup": 1,
    "DescribeGroups": 1,
    "ListGroups": 1,
    "SaslHandshake": 1,
    "CreateTopics": 2,
    "DeleteTopics": 2,
    "InitProducerId": 1,
    "OffsetForLeaderEpoch": 0,
}
"""The newest versions in a log of a client that talked to Azure Event Hubs (azure-event-hubs-for-kafka, issue 209)."""
_LOGIN = ("ApiVersions", "SaslAuthenticate")


def event_hubs(*, api_versions: int = 1, **settings: Any) -> EmbeddedKafka:
    """Azure Event Hubs: few APIs in old versions, connections that are closed at newer versions of ApiVersions and at large requests.

    api_versions: the newest version of ApiVersions; 3 in newer reports.
    """
    kafka = EmbeddedKafka(
        users={EVENT_HUBS_USER: EVENT_HUBS_PASSWORD},
        security="SSL",
        socket_request_max_bytes=EVENT_HUBS_REQUEST_BYTES,
        **settings,
    )
    only(kafka, EVENT_HUBS_VERSIONS)
    kafka.faults.cap_version("ApiVersions", api_versions, closes=True)
    return kafka


def only(kafka: EmbeddedKafka, versions: Mapping[str, int]) -> None:
    """Have a broker serve these APIs only, up to these versions, and what a login needs."""
    for api in kafka.faults.requests:
        if api not in _LOGIN:
            kafka.faults.cap_version(api, versions.get(api, NOT_SERVED))


def without(kafka: EmbeddedKafka, *apis: str) -> None:
    """Have a broker not serve these APIs."""
    for api in apis:
        kafka.faults.cap_version(api, NOT_SERVED)
