"""Quotas of users, client ids and IP addresses."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from levada.admin import quotas
from levada.admin.quotas import ClientQuotaEntity, ClientQuotaFilter, ClientQuotaName
from levada.api.admin.core import AdminCore
from levada.api.client import Operation

_NAMES = f"a name or ClientQuotaName.{ClientQuotaName.DEFAULT.name}"


def describe_client_quotas(
    admin: AdminCore, wanted: ClientQuotaFilter | None = None, *, timeout: float | None = None
) -> Operation[dict[ClientQuotaEntity, dict[str, float]]]:
    """Return the quotas that are set, by entity and name. wanted: selects the entities; None selects all.

    Raises UnsupportedVersionError on brokers before 2.6.
    """
    flow = quotas.describe_client_quotas(_filter(wanted), admin.attempts())
    return admin.operation(flow, "describe client quotas", timeout)


def alter_client_quotas(
    admin: AdminCore,
    changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
    timeout: float | None = None,
) -> Operation[dict[ClientQuotaEntity, None]]:
    """Set or remove quotas; for each entity, either all changes are made or none. Return a dict that maps each entity to None.

    changes: for each entity, the new value of each quota; None removes the quota. producer_byte_rate and consumer_byte_rate are bytes per
    second and broker; request_percentage is time of a broker's threads, with 100 for one thread; controller_mutation_rate is the number of
    partitions created and deleted per second; connection_creation_rate, only for IP addresses, is connections per second. For example
    `admin.alter_client_quotas({ClientQuotaEntity(user="etl"): {"producer_byte_rate": 1_000_000}})`.

    validate_only: whether only to check the changes. Raises BrokerError (INVALID_REQUEST) for a name that is not a quota of such an entity,
    UnsupportedVersionError on brokers before 2.6.
    """
    flow = quotas.alter_client_quotas(_changes(changes), admin.attempts(), validate_only=validate_only)
    return admin.operation(flow, "alter client quotas", timeout)


# Arguments


def _changes(given: Any) -> dict[ClientQuotaEntity, dict[str, float | None]]:
    """Check and return the new quotas of each entity; the value is None for a quota to remove."""
    if not isinstance(given, Mapping):
        raise TypeError(f"expected a mapping of ClientQuotaEntity to its quotas, got {type(given).__name__}")
    return {_entity(entity): _limits(entity, limits) for entity, limits in given.items()}


def _entity(given: Any) -> ClientQuotaEntity:
    if not isinstance(given, ClientQuotaEntity):
        raise TypeError(f"quotas are those of a ClientQuotaEntity, got {given!r}")
    for part in given:
        if part is ClientQuotaName.ANY or not isinstance(part, str | ClientQuotaName | None):
            raise TypeError(f"a part of {given!r} must be {_NAMES}")
    return given


def _limits(entity: Any, given: Any) -> dict[str, float | None]:
    if not isinstance(given, Mapping):
        raise TypeError(f"expected a mapping of quotas to limits for {entity}, got {type(given).__name__}")
    if other := [key for key in given if not isinstance(key, str)]:
        raise TypeError(f"a quota is named by text such as 'producer_byte_rate', got {other[0]!r}")
    return {key: _limit(key, limit) for key, limit in given.items()}


def _limit(key: str, given: Any) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"the limit of '{key}' must be a number, or None to remove it; got {given!r}")
    return float(given)


def _filter(given: Any) -> ClientQuotaFilter:
    """Return a filter; None selects all entities."""
    wanted = ClientQuotaFilter() if given is None else given
    if not isinstance(wanted, ClientQuotaFilter):
        raise TypeError(f"expected a ClientQuotaFilter, got {given!r}")
    for part in wanted[:3]:
        if not isinstance(part, str | ClientQuotaName | None):
            raise TypeError(f"a part of {given!r} must be {_NAMES} or ClientQuotaName.{ClientQuotaName.ANY.name}")
    return wanted
