"""Checks the users, quotas and delegation tokens that callers of KafkaAdmin pass."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from levada.admin.quotas import ClientQuotaEntity, ClientQuotaFilter, ClientQuotaName
from levada.admin.tokens import DelegationToken, Principal
from levada.admin.users import NUMBERS, UserScramCredentialDeletion, UserScramCredentialUpsertion
from levada.api import arguments
from levada.base.text import did_you_mean
from levada.net.sasl.scram import MOST_ITERATIONS, salted
from levada.protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion

_SALT_BYTES = 24
_QUOTA_NAMES = f"a name or ClientQuotaName.{ClientQuotaName.DEFAULT.name}"


def scram_alterations(given: Any) -> tuple[list[ScramCredentialUpsertion], list[ScramCredentialDeletion]]:
    """Return the alterations, with salted passwords in place of the passwords."""
    if isinstance(given, UserScramCredentialUpsertion | UserScramCredentialDeletion) or not isinstance(given, Iterable):
        raise TypeError("expected a list of UserScramCredentialUpsertion and UserScramCredentialDeletion")
    upsertions, deletions = [], []
    for one in given:
        if isinstance(one, UserScramCredentialUpsertion):
            upsertions.append(_upsertion(one))
        elif isinstance(one, UserScramCredentialDeletion):
            deletions.append(ScramCredentialDeletion(name=_user(one.user), mechanism=_mechanism(one.mechanism)))
        else:
            raise TypeError(f"expected UserScramCredentialUpsertion or UserScramCredentialDeletion, got {type(one).__name__}")
    return upsertions, deletions


def _upsertion(given: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    number, iterations = _mechanism(given.mechanism), arguments.positive("iterations", given.iterations)
    if iterations > MOST_ITERATIONS:
        raise ValueError(f"at most {MOST_ITERATIONS} iterations are possible, got {iterations}; brokers take fewer")
    if not isinstance(given.password, str | bytes) or not given.password:
        raise ValueError(f"the password of user '{given.user}' must be text or bytes, and not empty")
    salt = secrets.token_bytes(_SALT_BYTES) if given.salt is None else bytes(given.salt)
    return ScramCredentialUpsertion(
        name=_user(given.user),
        mechanism=number,
        iterations=iterations,
        salt=salt,
        salted_password=salted(given.mechanism, given.password, salt, iterations),
    )


def _user(given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise ValueError(f"a user is named by text that is not empty, got {given!r}")
    return given


def _mechanism(given: Any) -> int:
    if given not in NUMBERS:
        raise ValueError(f"{given!r} is no mechanism of SCRAM{did_you_mean(str(given), NUMBERS)}; there are {', '.join(NUMBERS)}")
    return NUMBERS[given]


def users(given: Any) -> list[str] | None:
    """Return names of users, each once; None for all users."""
    return None if given is None else arguments.ids(given, "users")


def quota_changes(given: Any) -> dict[ClientQuotaEntity, dict[str, float | None]]:
    """Return the new quotas of entities, None for a quota that is to be removed."""
    if not isinstance(given, Mapping):
        raise TypeError(f"expected a mapping of ClientQuotaEntity to its quotas, got {type(given).__name__}")
    return {_entity(entity): _limits(entity, limits) for entity, limits in given.items()}


def _entity(given: Any) -> ClientQuotaEntity:
    if not isinstance(given, ClientQuotaEntity):
        raise TypeError(f"quotas are those of a ClientQuotaEntity, got {given!r}")
    for part in given:
        if part is ClientQuotaName.ANY or not isinstance(part, str | ClientQuotaName | None):
            raise TypeError(f"a part of {given!r} must be {_QUOTA_NAMES}")
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


def quota_filter(given: Any) -> ClientQuotaFilter:
    """Return a filter; None selects all entities."""
    wanted = ClientQuotaFilter() if given is None else given
    if not isinstance(wanted, ClientQuotaFilter):
        raise TypeError(f"expected a ClientQuotaFilter, got {given!r}")
    for part in wanted[:3]:
        if not isinstance(part, str | ClientQuotaName | None):
            raise TypeError(f"a part of {given!r} must be {_QUOTA_NAMES} or ClientQuotaName.{ClientQuotaName.ANY.name}")
    return wanted


def principal(given: Any) -> Principal:
    """Return a principal that is written as Type:name."""
    if not isinstance(given, str):
        raise TypeError(f"a principal is text such as 'User:alice', got {given!r}")
    kind, colon, name = given.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"a principal is text such as 'User:alice', got {given!r}")
    return Principal(kind, name)


def principals(given: Any) -> list[Principal]:
    """Return principals."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"expected a list of principals such as ['User:alice'], got {given!r}")
    return [principal(one) for one in given]


def token_hmac(given: Any) -> bytes:
    """Return the hmac of a delegation token, which may be given itself."""
    hmac = given.hmac if isinstance(given, DelegationToken) else given
    if not isinstance(hmac, bytes):
        raise TypeError(f"a delegation token is named by itself or by its hmac, which is bytes; got {type(given).__name__}")
    return hmac
