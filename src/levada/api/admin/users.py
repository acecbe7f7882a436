"""Users: their SCRAM credentials, and delegation tokens that log in on their behalf."""

from __future__ import annotations

from collections.abc import Iterable

from levada.admin import tokens
from levada.admin import users as scram_users
from levada.admin.tokens import DelegationToken
from levada.admin.users import ScramCredentialInfo, UserScramCredentialDeletion, UserScramCredentialUpsertion
from levada.api import arguments
from levada.api.admin import security_arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation

AT_ONCE = FOR_DEFAULT = -1


def describe_user_scram_credentials(
    admin: AdminCore, users: Iterable[str] | None = None, *, timeout: float | None = None
) -> Operation[dict[str, tuple[ScramCredentialInfo, ...]]]:
    """Return the SCRAM credentials of users, by user; None for all users that have any (Kafka since 2.7).

    Raises BrokerError (RESOURCE_NOT_FOUND) for a user without credentials.
    """
    flow = scram_users.describe_user_scram_credentials(security_arguments.users(users), admin.attempts())
    return admin.operation(flow, "describe user SCRAM credentials", timeout)


def alter_user_scram_credentials(
    admin: AdminCore,
    alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
    *,
    timeout: float | None = None,
) -> Operation[dict[str, None]]:
    """Create, replace and delete SCRAM credentials; of each user, all changes are made or none (Kafka since 2.7).

    Passwords are salted by the client and not sent, which takes some milliseconds for each. The user can log in with a new credential at
    once, and keeps existing connections. Raises BrokerError: RESOURCE_NOT_FOUND for a credential to delete that does not exist,
    UNACCEPTABLE_CREDENTIAL for a number of iterations that brokers do not accept, DUPLICATE_RESOURCE for a mechanism of a user that is
    named twice.
    """
    upsertions, deletions = security_arguments.scram_alterations(alterations)
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

    owner: by default the requester; brokers since 3.3 accept another one. renewers: who else may renew it. Principals are written as
    User:name. max_lifetime_ms: how long it can be renewed; by default, and at most, as long as the broker's settings say.

    Raises BrokerError: DELEGATION_TOKEN_AUTH_DISABLED for brokers without delegation.token.secret.key, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    for a client that has not logged in, or that has logged in with a token.
    """
    flow = tokens.create_delegation_token(
        None if owner is None else security_arguments.principal(owner),
        security_arguments.principals(renewers),
        arguments.whole("max_lifetime_ms", max_lifetime_ms),
        admin.attempts(),
    )
    return admin.operation(flow, "create delegation token", timeout)


def renew_delegation_token(
    admin: AdminCore, token: DelegationToken | bytes, *, period_ms: int = FOR_DEFAULT, timeout: float | None = None
) -> Operation[int]:
    """Renew a token for a period from now on; return when it expires, in milliseconds since the epoch.

    token: the token, or its hmac. period_ms: by default, and at most, as long as the broker's settings say. Raises BrokerError:
    DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, and DELEGATION_TOKEN_OWNER_MISMATCH for a user who may not renew it.
    """
    period = arguments.whole("period_ms", period_ms)
    flow = tokens.renew_delegation_token(security_arguments.token_hmac(token), period, admin.attempts())
    return admin.operation(flow, "renew delegation token", timeout)


def expire_delegation_token(
    admin: AdminCore, token: DelegationToken | bytes, *, period_ms: int = AT_ONCE, timeout: float | None = None
) -> Operation[int]:
    """Let a token expire after a period, by default at once; return when it expires, in milliseconds since the epoch.

    token: the token, or its hmac. Raises what renew_delegation_token() raises.
    """
    period = arguments.whole("period_ms", period_ms)
    flow = tokens.expire_delegation_token(security_arguments.token_hmac(token), period, admin.attempts())
    return admin.operation(flow, "expire delegation token", timeout)


def describe_delegation_token(
    admin: AdminCore, owners: Iterable[str] | None = None, *, timeout: float | None = None
) -> Operation[list[DelegationToken]]:
    """Return the tokens of owners and renewers, written as User:name; with None, all tokens that this user may see."""
    wanted = None if owners is None else security_arguments.principals(owners)
    return admin.operation(tokens.describe_delegation_token(wanted, admin.attempts()), "describe delegation token", timeout)
