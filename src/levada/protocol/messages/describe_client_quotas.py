"""DescribeClientQuotas (key 48): list the quotas that match a filter (KIP-546).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, float64, int8, int16, int32, string


class ComponentData(Struct):
    """One part of the filter. match_type: 0 this name, 1 the default, 2 any name that is set."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"], key=48, versions="0-1", flexible="1+"):
    """strict: leave out entities with parts that the filter does not name."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class EntityData(Struct):
    """A part of an entity: a type (user, client-id, ip), and a name or null for the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class ValueData(Struct):
    """The limit of one quota."""

    key: str = string()
    value: float = float64()


class EntryData(Struct):
    """The quotas of one entity."""

    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(Response, request=DescribeClientQuotasRequest):
    """The quotas, grouped by entity. Entries are null if there is an error."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[EntryData] | None = array(EntryData, nullable="0+")
