"""BrokerRegistration (key 62): a starting broker registers at the controller (KIP-631).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string, uint16, uuid


class Listener(Struct):
    """The address of a listener."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class Feature(Struct):
    """The levels of a feature that the node supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"], key=62, versions="0-4", flexible="0+"):
    """The broker's id, addresses, features and log directories. incarnation_id differs at every start."""

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: UUID = uuid()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(nullable="0+")
    is_migrating_zk_broker: bool = boolean("1+")
    log_dirs: list[UUID] = array(uuid, "2+", ignorable=True)
    previous_broker_epoch: int = int64("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Response, request=BrokerRegistrationRequest):
    """The broker's epoch, which fences its earlier starts."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)
