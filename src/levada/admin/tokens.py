"""Delegation tokens: programs log in with them on behalf of a user, without the user's password (KIP-48, KIP-373)."""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from levada.admin.per_key import Attempts
from levada.admin.requests import Asked, Outcome, of_all
from levada.base.flow import ANY_NODE, Flow
from levada.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from levada.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from levada.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from levada.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from levada.protocol.schema import Request

FIRST_VERSION_WITH_OWNERS = 3


class Principal(NamedTuple):
    """A principal: its type, such as User, and its name."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token. A client logs in as the token's owner by SCRAM, with token_id as user, `password`, and sasl.tokenauth=true.

    owner, requester, renewers: principals in the form User:name; requester is "" on brokers before 3.3. Times are milliseconds since the
    epoch. expiry_timestamp: when the token expires unless it is renewed. max_timestamp: the latest time to which it can be renewed.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int

    @property
    def password(self) -> str:
        """The token's hmac in base64, which is the value for sasl.password."""
        return base64.b64encode(self.hmac).decode()


def create_delegation_token(
    owner: Principal | None, renewers: Sequence[Principal], max_lifetime_ms: int, attempts: Attempts
) -> Flow[DelegationToken]:
    """Create a delegation token. owner: None for the user who asks. renewers: users who may renew the token, in addition to the owner.

    max_lifetime_ms: negative for the broker's limit. Another owner needs Kafka 3.3.
    """
    asked = Asked(
        lambda _: "create a delegation token" + (f" of {owner}" if owner else ""),
        lambda _: CreateDelegationTokenRequest(
            owner_principal_type=owner and owner.type,
            owner_principal_name=owner and owner.name,
            renewers=[CreatableRenewers(principal_type=one.type, principal_name=one.name) for one in renewers],
            max_lifetime_ms=max_lifetime_ms,
        ),
        lambda response: {None: Outcome(response.error_code, None, _created(response, renewers))},
        min_version=FIRST_VERSION_WITH_OWNERS if owner else 0,
    )
    return of_all(asked, attempts, route=lambda _: ANY_NODE)


def renew_delegation_token(hmac: bytes, period_ms: int, attempts: Attempts) -> Flow[int]:
    """Renew a token for period_ms from now on; negative for the broker's default. Return when it expires, in ms since the epoch."""
    return _change("renew", RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), attempts)


def expire_delegation_token(hmac: bytes, period_ms: int, attempts: Attempts) -> Flow[int]:
    """Let a token expire after period_ms, or at once if period_ms is negative. Return the expiry time in ms since the epoch."""
    return _change("expire", ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), attempts)


def describe_delegation_token(owners: Collection[Principal] | None, attempts: Attempts) -> Flow[list[DelegationToken]]:
    """Return the tokens that this user may see. owners: only tokens that one of them owns or may renew; None for all."""
    named = None if owners is None else [DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name) for one in owners]
    asked = Asked(
        lambda _: "describe delegation tokens",
        lambda _: DescribeDelegationTokenRequest(owners=named),
        lambda response: {None: Outcome(response.error_code, None, [_described(token) for token in response.tokens])},
    )
    return of_all(asked, attempts, route=lambda _: ANY_NODE)


def _change(what: str, request: Request[Any], attempts: Attempts) -> Flow[int]:
    asked = Asked(
        lambda _: f"{what} a delegation token",
        lambda _: request,
        lambda response: {None: Outcome(response.error_code, None, response.expiry_timestamp_ms)},
    )
    return of_all(asked, attempts, route=lambda _: ANY_NODE)


def _created(response: Any, renewers: Sequence[Principal]) -> DelegationToken:
    return DelegationToken(
        response.token_id,
        bytes(response.hmac),
        _principal(response.principal_type, response.principal_name),
        _principal(response.token_requester_principal_type, response.token_requester_principal_name),
        tuple(str(one) for one in renewers),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


def _described(token: Any) -> DelegationToken:
    return DelegationToken(
        token.token_id,
        bytes(token.hmac),
        _principal(token.principal_type, token.principal_name),
        _principal(token.token_requester_principal_type, token.token_requester_principal_name),
        tuple(_principal(one.principal_type, one.principal_name) for one in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )


def _principal(kind: str, name: str) -> str:
    return str(Principal(kind, name)) if kind or name else ""
