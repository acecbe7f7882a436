"""The API versions and finalized features of brokers, and how the client asks for them (ApiVersions, KIP-511).

ApiVersions is the first request on every connection, in the newest version we know, unless broker.version.fallback is set. A broker that
does not know that version answers UNSUPPORTED_VERSION in the encoding of version 0, perhaps with its own range, and is asked once more
(`setup.flow.negotiate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from levada import __version__
from levada.error_codes import ErrorCode
from levada.errors import ProtocolError, UnsupportedVersionError
from levada.protocol.frame import decode_response
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.schema import Request

SOFTWARE_NAME = "levada"

HANDSHAKE_CORRELATION_ID = 0x0D0A0D0A
"""Two line ends. A server of a line protocol (HTTP, SMTP, FTP, Redis) takes them for the end of a request and answers at once, so
that a wrong port is found out in a moment and not at a timeout; Kafka echoes the number like any other."""

_IS_CONTROLLER = ", so it is a controller: brokers go into bootstrap.servers, controllers into bootstrap.controllers of KafkaAdmin"

AnyFrame: TypeAlias = bytes | memoryview


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """The API versions that one broker supports, both ends included, and the cluster's finalized features (name to max level).

    throttle_time_ms: for how long the broker asked the client to send nothing.
    """

    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int] = field(default_factory=dict)
    features_epoch: int = -1
    throttle_time_ms: int = 0

    @classmethod
    def of(cls, reply: ApiVersionsResponse) -> BrokerVersions:
        """Read an ApiVersions response without an error."""
        return cls(
            {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys},
            {feature.name: feature.max_version_level for feature in reply.finalized_features},
            reply.finalized_features_epoch,
            reply.throttle_time_ms,
        )

    def version_for(self, request_type: type[Request], min_version: int = 0, max_version: int = 32767) -> int:
        """Return the newest version that the broker, the client and the caller support. Raises UnsupportedVersionError if there is none.

        Unreleased versions are chosen only for a caller that accepts exactly one version.
        """
        theirs = self.ranges.get(request_type.API_KEY)
        if theirs is None:
            reason = _IS_CONTROLLER if request_type is MetadataRequest else ""
            raise UnsupportedVersionError(f"the broker does not know {request_type.NAME}{reason}")
        is_named = min_version == max_version
        released = (request_type.MIN_VERSION, request_type.MAX_VERSION)
        ours = (request_type.OLDEST_VERSION, request_type.NEWEST_VERSION) if is_named else released
        newest = min(ours[1], theirs[1], max_version)
        if newest >= max(ours[0], theirs[0], min_version):
            return newest
        if is_named:
            spoken = f"levada speaks {ours[0]} to {ours[1]}, the broker {theirs[0]} to {theirs[1]}"
            raise UnsupportedVersionError(f"{request_type.NAME} v{min_version} is not spoken by both sides: {spoken}")
        needed = f"versions {max(ours[0], min_version)} to {min(ours[1], max_version)} are needed"
        raise UnsupportedVersionError(f"{request_type.NAME}: {needed}, the broker speaks {theirs[0]} to {theirs[1]}")


def handshake_request() -> ApiVersionsRequest:
    """Return the ApiVersions request. Versions before 3 leave its fields out."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)


def known_version(reply: ApiVersionsResponse) -> int:
    """Return the newest version of ApiVersions that both sides know, from a response that refuses the version; 0 if it does not say."""
    own = next((api for api in reply.api_keys if api.api_key == ApiVersionsRequest.API_KEY), None)
    return 0 if own is None else max(0, min(own.max_version, ApiVersionsRequest.MAX_VERSION))


def read_reply(frame: AnyFrame, version: int) -> ApiVersionsResponse:
    """Decode an ApiVersions response, which may be in version 0 whatever version was requested.

    An UNSUPPORTED_VERSION response is first read as version 0, because its bytes could also be valid in another version. Only if it fits
    neither version, its error code alone is returned: librdkafka's mock broker sends such a response. Any other response that fits neither
    version raises ProtocolError.
    """
    code = int.from_bytes(frame[4:6], "big", signed=True)
    attempts = (0, version) if code == ErrorCode.UNSUPPORTED_VERSION else (version, 0)
    for attempt in attempts:
        try:
            reply = decode_response(ApiVersionsRequest, attempt, frame)
        except ProtocolError as error:
            fault = error
        else:
            assert isinstance(reply, ApiVersionsResponse)
            return reply
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return ApiVersionsResponse(error_code=code)
    raise fault


class FinalizedFeatures:
    """The feature levels that all brokers of the cluster use (KIP-584), for example transaction.version.

    Every broker reports the levels that it knows when a connection is set up. The levels have an epoch that grows with each change; those
    with the highest epoch are valid. epoch: -1 before any broker has reported levels.
    """

    def __init__(self) -> None:
        self.epoch = -1
        self._levels: Mapping[str, int] = {}

    def learn(self, versions: BrokerVersions) -> None:
        """Take over the levels that a broker reports, unless newer levels are known."""
        if versions.features_epoch >= self.epoch:
            self.epoch, self._levels = versions.features_epoch, versions.features

    def level(self, name: str) -> int:
        """Return the level of a feature, 0 if the cluster has not finalized it."""
        return self._levels.get(name, 0)
