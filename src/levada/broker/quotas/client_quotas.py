"""The quotas of clients: the limits for users, client ids and addresses that AlterClientQuotas has set (KIP-546).

An entity is a user, a client id, both of them, or an address; each name may also be the default of its type. Of the entities that match a
client, the most specific one with a quota of a kind decides about that kind (KIP-55). Quotas of addresses are stored but not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_MOST_REMEMBERED: Final = 10_000
"""The size of the cache of clients' quotas. Clients choose their ids, so it has to be limited."""

Entity: TypeAlias = frozenset[tuple[str, str | None]]
"""A name for each type that the entity has; None for the type's default."""

Meter: TypeAlias = tuple[str | None, str | None]
"""The user and the client id whose use is measured together; None for all users or all client ids."""


class Quota(NamedTuple):
    """A limit, and the meter against which the use is counted."""

    limit: float
    meter: Meter


class ClientQuotas:
    """The quotas of all entities of a cluster.

    keep: a function that stores all quotas; it is called before a change takes effect. kept: the last value passed to `keep`
    before the broker was restarted, or None.
    """

    def __init__(self, kept: Any, keep: Callable[[Any], None]) -> None:
        self._limits: dict[Entity, dict[str, float]] = {
            frozenset((kind, name) for kind, name in entity): dict(limits) for entity, limits in kept or ()
        }
        self._keep = keep
        self._found: dict[tuple[str, str, str], Quota | None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no quota is set."""
        return not self._limits

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._limits.items())

    def change(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        """Set limits of an entity by quota name. None removes the limit."""
        limits = {key: limit for key, limit in {**self._limits.get(entity, {}), **changes}.items() if limit is not None}
        changed = {**self._limits, entity: limits}
        if not limits:
            del changed[entity]
        if changed != self._limits:
            self._keep([[_sorted(known), dict(values)] for known, values in changed.items()])
            self._limits = changed
            self._found.clear()

    def of(self, key: str, user: str, client_id: str) -> Quota | None:
        """Return the quota that applies to a client, None if it has no limit. key: the name of the quota, such as producer_byte_rate."""
        asked = key, user, client_id
        if asked not in self._found:
            if len(self._found) >= _MOST_REMEMBERED:
                self._found.clear()
            self._found[asked] = self._closest(*asked)
        return self._found[asked]

    def _closest(self, key: str, user: str, client_id: str) -> Quota | None:
        for entity, meter in _by_precedence(user, client_id):
            limit = self._limits.get(entity, {}).get(key)
            if limit is not None:
                return Quota(limit, meter)
        return None


def _by_precedence(user: str, client_id: str) -> Iterable[tuple[Entity, Meter]]:
    """Yield the entities to which a client belongs, the most specific one first. Each comes with the meter that its clients share.

    None in an entity means the default of the users or client ids. None in a meter means that all users or client ids share it.
    """
    for named_user in (user, None):
        for named_client in (client_id, None):
            yield frozenset({(USER, named_user), (CLIENT_ID, named_client)}), (user, client_id)
        yield frozenset({(USER, named_user)}), (user, None)
    for named_client in (client_id, None):
        yield frozenset({(CLIENT_ID, named_client)}), (None, client_id)


def _sorted(entity: Entity) -> list[list[str | None]]:
    return [[kind, name] for kind, name in sorted(entity, key=lambda part: part[0])]
