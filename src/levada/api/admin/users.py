"""Users: their SCRAM credentials, and delegation tokens that log in on their behalf."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from levada.admin import tokens
from levada.admin import users as scram_users
from levada.admin.tokens import DelegationToken, Principal
from levada.admin.users import NUMBERS, ScramCredentialInfo, UserScramCredentialDeletion, UserScramCredentialUpsertion
from levada.api import arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation
from levada.base.text import did_you_mean
from levada.net.sasl.scram import MOST_ITERATIONS, salted
from levada.protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion

AT_ONCE = FOR_DEFAULT = -1

_SALT_BYTES = 24


def describe_user_scram_credentials(
    admin: AdminCore, users: Iterable[str] | None = None, *, timeout: float | None = None
) -> Operation[dict[str, tuple[ScramCredentialInfo, ...]]]:
    """Return the SCRAM credentials of users, by user name. users: None for all users that have credentials.

    Raises BrokerError (RESOURCE_NOT_FOUND) for a user without credentials, UnsupportedVersionError on brokers before 2.7.
    """
    flow = scram_users.describe_user_scram_credentials(_users(users), admin.attempts())
    return admin.operation(flow, "describe user SCRAM credentials", timeout)


def alter_user_scram_credentials(
    admin: AdminCore,
    alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
    *,
    timeout: float | None = None,
) -> Operation[dict[str, None]]:
    """Create, replace and delete SCRAM credentials; for each user, either all changes are made or none. Return a dict that maps each user
    to None.

    The client salts the passwords, which takes some milliseconds for each, and does not send them. The user can log in with a new
    credential at once; existing connections stay.

    Raises BrokerError (RESOURCE_NOT_FOUND) for a credential to delete that does not exist, BrokerError (UNACCEPTABLE_CREDENTIAL) for a
    number of iterations that brokers do not accept, BrokerError (DUPLICATE_RESOURCE) if the same mechanism of a user is named twice,
    UnsupportedVersionError on brokers before 2.7.
    """
    upsertions, deletions = _alterations(alterations)
    flow = scram_users.alter_user_scram_credentials(upsertions, deletions, admin.attempts())
    return admin.operation(flow, "alter user SCRAM credentials", timeout)


def create_delegation_token(
    admin: AdminCore,
    *,
    owner: str | None = None,
    renewers: Iterable[str] = (),
    max_lifetime_ms: int = FOR_DEFAULT,
    timeout: float | None = None,
) -> Operation[DelegationToken]:
    """Create a token with which programs log in as its owner, by the token's token_id and password, with sasl.tokenauth=true.

    owner: default: the user of this client; brokers since 3.3 accept another one. renewers: who else may renew the token. Principals are
    written as User:name. max_lifetime_ms: for how long the token can be renewed; default and maximum: delegation.token.max.lifetime.ms of
    the broker.

    Raises BrokerError (DELEGATION_TOKEN_AUTH_DISABLED) for brokers without delegation.token.secret.key, BrokerError
    (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED) for a client that has not logged in, or that has logged in with a token, UnsupportedVersionError
    on brokers before 1.1.
    """
    flow = tokens.create_delegation_token(
        None if owner is None else _principal(owner),
        _principals(renewers),
        arguments.whole("max_lifetime_ms", max_lifetime_ms),
        admin.attempts(),
    )
    return admin.operation(flow, "create delegation token", timeout)


def renew_delegation_token(
    admin: AdminCore, token: DelegationToken | bytes, *, period_ms: int = FOR_DEFAULT, timeout: float | None = None
) -> Operation[int]:
    """Renew a token for a period from now on; return when it expires, in milliseconds since the epoch.

    token: the token, or its hmac. period_ms: default and maximum: delegation.token.expiry.time.ms of the broker. Raises BrokerError
    (DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED; DELEGATION_TOKEN_OWNER_MISMATCH for a user who may not renew it),
    UnsupportedVersionError on brokers before 1.1.
    """
    period = arguments.whole("period_ms", period_ms)
    flow = tokens.renew_delegation_token(_hmac(token), period, admin.attempts())
    return admin.operation(flow, "renew delegation token", timeout)


def expire_delegation_token(
    admin: AdminCore, token: DelegationToken | bytes, *, period_ms: int = AT_ONCE, timeout: float | None = None
) -> Operation[int]:
    """Let a token expire after a period; return when it expires, in milliseconds since the epoch.

    token: the token, or its hmac. period_ms: by default, the token expires at once. Raises as renew_delegation_token() does.
    """
    period = arguments.whole("period_ms", period_ms)
    flow = tokens.expire_delegation_token(_hmac(token), period, admin.attempts())
    return admin.operation(flow, "expire delegation token", timeout)


def describe_delegation_token(
    admin: AdminCore, owners: Iterable[str] | None = None, *, timeout: float | None = None
) -> Operation[list[DelegationToken]]:
    """Return the delegation tokens that this user may see.

    owners: principals such as User:alice, to return only tokens that one of them owns or may renew; None for all tokens. Raises BrokerError
    (DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED), UnsupportedVersionError on brokers before 1.1.
    """
    wanted = None if owners is None else _principals(owners)
    return admin.operation(tokens.describe_delegation_token(wanted, admin.attempts()), "describe delegation token", timeout)


# Arguments


def _users(given: Any) -> list[str] | None:
    """Check names of users, and return each once; None for all users."""
    return None if given is None else arguments.ids(given, "users")


def _alterations(given: Any) -> tuple[list[ScramCredentialUpsertion], list[ScramCredentialDeletion]]:
    """Return the credentials to set, with salted passwords instead of the passwords, and those to delete."""
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


def _principal(given: Any) -> Principal:
    """Return a principal that is written as Type:name."""
    if not isinstance(given, str):
        raise TypeError(f"a principal is text such as 'User:alice', got {given!r}")
    kind, colon, name = given.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"a principal is text such as 'User:alice', got {given!r}")
    return Principal(kind, name)


def _principals(given: Any) -> list[Principal]:
    """Return the principals, each of which is written as Type:name."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"expected a list of principals such as ['User:alice'], got {given!r}")
    return [_principal(one) for one in given]


def _hmac(given: Any) -> bytes:
    """Return the hmac of a delegation token. Either the token or its hmac may be given."""
    hmac = given.hmac if isinstance(given, DelegationToken) else given
    if not isinstance(hmac, bytes):
        raise TypeError(f"a delegation token is named by itself or by its hmac, which is bytes; got {type(given).__name__}")
    return hmac
