"""The quotas of clients: what users, client ids and addresses are allowed, as AlterClientQuotas has said (KIP-546).

An entity is a user, a client id, both of them, or an address; in place of each name may stand the default of that type. Of the entities
that fit a client, the most specific one that has a quota of a kind decides about that kind (KIP-55).
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
"""Clients whose quotas are found without a look at each entity that might fit. Client ids are theirs to choose, so there is a limit."""

Entity: TypeAlias = frozenset[tuple[str, str | None]]
"""A name for each type that the entity has, None for the default."""

Meter: TypeAlias = tuple[str | None, str | None]
"""The user and the client id whose use is measured together; None where all users, or all client ids, are."""


class Quota(NamedTuple):
    """A limit, and whose use counts against it."""

    limit: float
    meter: Meter


class ClientQuotas:
    """All quotas, by entity.

    kept: what was kept before, as `keep` was given it. keep: called with all of them when they have changed.
    """

    def __init__(self, kept: Any, keep: Callable[[Any], None]) -> None:
        self._limits: dict[Entity, dict[str, float]] = {
            frozenset((kind, name) for kind, name in entity): dict(limits) for entity, limits in kept or ()
        }
        self._keep = keep
        self._found: dict[tuple[str, str, str], Quota | None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there are no quotas."""
        return not self._limits

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._limits.items())

    def change(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        """Set limits of an entity; None removes one."""
        limits = {key: limit for key, limit in {**self._limits.get(entity, {}), **changes}.items() if limit is not None}
        changed = {**self._limits, entity: limits}
        if not limits:
            del changed[entity]
        if changed != self._limits:
            self._keep([[_sorted(known), dict(values)] for known, values in changed.items()])
            self._limits = changed
            self._found.clear()

    def of(self, key: str, user: str, client_id: str) -> Quota | None:
        """Return the quota of a kind that holds for a client, None where nothing limits it."""
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
    """Yield the entities that fit a client, the most specific one first, with whose use each of them limits."""
    for named_user in (user, None):
        for named_client in (client_id, None):
            yield frozenset({(USER, named_user), (CLIENT_ID, named_client)}), (user, client_id)
        yield frozenset({(USER, named_user)}), (user, None)
    for named_client in (client_id, None):
        yield frozenset({(CLIENT_ID, named_client)}), (None, client_id)


def _sorted(entity: Entity) -> list[list[str | None]]:
    return [[kind, name] for kind, name in sorted(entity, key=lambda part: part[0])]
