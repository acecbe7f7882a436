"""DescribeClientQuotas: the entities with quotas that match a filter (KIP-546)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from levada.broker.node.state import Api, Call
from levada.broker.quotas.client_quotas import IP, TYPES, Entity
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_EXACT, _DEFAULT, _ANY = range(3)

Match: TypeAlias = Callable[[str | None], bool]
"""Returns whether an entity's name matches a component of the filter. The name None is the default entity of its type."""


def handle(call: Call) -> DescribeClientQuotasResponse:
    """Return the entities that match the filter, with all their quotas."""
    request: DescribeClientQuotasRequest = call.request
    try:
        wanted = _matches(request.components)
    except BrokerError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.reason, entries=None)
    quotas = call.state.cluster.access.client_quotas
    found = [_entry(entity, limits) for entity, limits in quotas if _fits(entity, wanted, strict=request.strict)]
    return DescribeClientQuotasResponse(entries=found)


def refuse(request: DescribeClientQuotasRequest, version: int, code: ErrorCode) -> DescribeClientQuotasResponse:
    """Answer with an error."""
    return DescribeClientQuotasResponse(error_code=code, entries=None)


def _matches(components: list[ComponentData]) -> dict[str, Match]:
    wanted: dict[str, Match] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in wanted:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
            raise BrokerError(f"Unsupported entity type {kind}", code=ErrorCode.UNSUPPORTED_VERSION)
        wanted[kind] = _match(component)
    if IP in wanted and len(wanted) > 1:
        raise _invalid("Invalid entity filter component combination: an ip goes with no user and no client-id.")
    return wanted


def _match(component: ComponentData) -> Match:
    how, name = component.match_type, component.match
    if how not in (_EXACT, _DEFAULT, _ANY):
        raise _invalid(f"Unknown match type {how}")
    if how == _EXACT and name is None:
        raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if how != _EXACT and name is not None:
        raise _invalid("Request specified a match string for a match type that has none.")
    if how == _ANY:
        return lambda found: True
    return lambda found: found == name


def _fits(entity: Entity, wanted: Mapping[str, Match], *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(wanted):
        return False
    return all(kind in names and match(names[kind]) for kind, match in wanted.items())


def _entry(entity: Entity, limits: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=lambda part: part[0])],
        values=[ValueData(key=key, value=limit) for key, limit in limits.items()],
    )


def _invalid(reason: str) -> BrokerError:
    return BrokerError(reason, code=ErrorCode.INVALID_REQUEST)


API = Api(DescribeClientQuotasRequest, 0, 1, handle, refuse, 0)
