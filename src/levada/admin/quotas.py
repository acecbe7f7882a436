"""Quotas of clients, by user, client id and address (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from levada.admin.per_key import Attempts
from levada.admin.requests import Asked, Outcome, carry_out, of_all
from levada.base.flow import ANY_NODE, Flow
from levada.protocol.messages import alter_client_quotas as alter_message
from levada.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from levada.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

FIELDS: Mapping[str, str] = {"user": "user", "client-id": "client_id", "ip": "ip"}
"""The entity types of the protocol, and their names in ClientQuotaEntity."""
_EXACT, _DEFAULT, _ANY = range(3)


class ClientQuotaName(Enum):
    """A special value in place of the name of a user, client id or address.

    DEFAULT: the quota of all users (client ids, addresses) that have no quota of their own. ANY: matches every name and DEFAULT; only for
    filters.
    """

    DEFAULT = "default"
    ANY = "any"


Named: TypeAlias = str | ClientQuotaName | None


class ClientQuotaEntity(NamedTuple):
    """The entity of a quota: a user, a client id, a user with a client id, or an IP address. Fields that the entity lacks are None."""

    user: Named = None
    client_id: Named = None
    ip: Named = None

    def __str__(self) -> str:
        return ", ".join(f"{kind} {_shown(name)}" for kind, name in _parts(self).items())


class ClientQuotaFilter(NamedTuple):
    """Selects quota entities by user, client id and IP address. A field that is None matches all entities.

    strict: do not select entities that have a part for which the filter has no field. A filter without fields selects all entities.
    """

    user: Named = None
    client_id: Named = None
    ip: Named = None
    strict: bool = False


def describe_client_quotas(wanted: ClientQuotaFilter, attempts: Attempts) -> Flow[dict[ClientQuotaEntity, dict[str, float]]]:
    """Return the quotas of the entities that a filter selects, by entity and by the name of the quota."""
    asked = Asked(
        lambda _: "describe client quotas",
        lambda _: DescribeClientQuotasRequest(
            components=[_component(kind, name) for kind, name in _parts(wanted).items()], strict=wanted.strict
        ),
        lambda response: {None: Outcome(response.error_code, response.error_message, _described(response.entries or ()))},
    )
    return of_all(asked, attempts, route=lambda _: ANY_NODE)


def alter_client_quotas(
    changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], attempts: Attempts, *, validate_only: bool
) -> Flow[dict[ClientQuotaEntity, None]]:
    """Change quotas. For each entity, either all changes are made or none. Return a dict that maps each entity to None.

    changes: the new value of each quota; None removes the quota. validate_only: check the changes without making them.
    """
    asked = Asked(
        lambda entity: f"alter the quotas of {entity}",
        lambda wanted: AlterClientQuotasRequest(entries=[_entry(one, changes[one]) for one in wanted], validate_only=validate_only),
        lambda response: {_entity(one.entity): Outcome(one.error_code, one.error_message) for one in response.entries},
    )
    return carry_out(asked, changes, attempts)


def _parts(of: ClientQuotaEntity | ClientQuotaFilter) -> dict[str, str | ClientQuotaName]:
    names = {kind: getattr(of, name) for kind, name in FIELDS.items()}
    return {kind: name for kind, name in names.items() if name is not None}


def _component(kind: str, name: str | ClientQuotaName) -> ComponentData:
    if isinstance(name, ClientQuotaName):
        return ComponentData(entity_type=kind, match_type=_DEFAULT if name is ClientQuotaName.DEFAULT else _ANY, match=None)
    return ComponentData(entity_type=kind, match_type=_EXACT, match=name)


def _entry(entity: ClientQuotaEntity, changes: Mapping[str, float | None]) -> alter_message.EntryData:
    return alter_message.EntryData(
        entity=[
            alter_message.EntityData(entity_type=kind, entity_name=None if isinstance(name, ClientQuotaName) else name)
            for kind, name in _parts(entity).items()
        ],
        ops=[alter_message.OpData(key=key, value=limit or 0.0, remove=limit is None) for key, limit in changes.items()],
    )


def _described(entries: Any) -> dict[ClientQuotaEntity, dict[str, float]]:
    return {_entity(one.entity): {value.key: value.value for value in one.values} for one in entries}


def _entity(parts: Any) -> ClientQuotaEntity:
    names = {FIELDS.get(part.entity_type, ""): part.entity_name or ClientQuotaName.DEFAULT for part in parts}
    return ClientQuotaEntity(names.get("user"), names.get("client_id"), names.get("ip"))


def _shown(name: str | ClientQuotaName) -> str:
    return f"<{name.value}>" if isinstance(name, ClientQuotaName) else f"'{name}'"
