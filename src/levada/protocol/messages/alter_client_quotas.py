"""AlterClientQuotas (key 49): change quotas (KIP-546).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, float64, int16, int32, string


class EntityData(Struct):
    """A part of an entity: a type (user, client-id, ip), and a name or null for the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Struct):
    """A limit to set, or to remove."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class EntryData(Struct):
    """The changes for one entity."""

    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"], key=49, versions="0-1", flexible="1+"):
    """validate_only: only check whether the changes are possible."""

    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


class EntryResponse(Struct):
    """The result for one entity."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Response, request=AlterClientQuotasRequest):
    """One result for each entity."""

    throttle_time_ms: int = int32()
    entries: list[EntryResponse] = array(EntryResponse)
