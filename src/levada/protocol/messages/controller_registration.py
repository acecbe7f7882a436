"""ControllerRegistration (key 70): a controller registers at the active controller (KIP-919).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, string, uint16, uuid


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


class ControllerRegistrationRequest(Request["ControllerRegistrationResponse"], key=70, versions="0", flexible="0+"):
    """The controller's id, addresses and features. incarnation_id differs at every start."""

    controller_id: int = int32()
    incarnation_id: UUID = uuid()
    zk_migration_ready: bool = boolean()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)


class ControllerRegistrationResponse(Response, request=ControllerRegistrationRequest):
    """It says whether the request succeeded."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
