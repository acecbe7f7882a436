"""Delegation tokens, with which a program logs in on behalf of a user without the user's password (KIP-48).

A token is an id and the HMAC of it, made with a secret that all brokers of the cluster share. A client logs in with them as user and
password of SCRAM, with the extension tokenauth=true, and is authenticated as the token's owner. The owner and the token's renewers may
renew it until its maximum lifetime ends. Without delegation.token.secret.key there are no tokens.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from levada.broker.config.settings import BrokerSettings
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.net.sasl.scram import ScramCredential

USER: Final = "User"
FIRST_VERSION_WITH_REQUESTERS: Final = 3
"""The first version of CreateDelegationToken and DescribeDelegationToken in which a token's requester may not be its owner (KIP-373)."""
NEVER_MS: Final = -1
"""The times in a response with an error."""
_SEPARATOR = ":"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A delegation token. Principals are written as Type:name, times in milliseconds since the epoch.

    expiry_ms: the time when the token expires unless it is renewed. max_ms: the latest time to which the token can be renewed.
    """

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def may_be_changed_by(self, principal: str) -> bool:
        """Return whether a principal may renew or expire the token, because it is the token's owner or one of its renewers."""
        return principal in (self.owner, *self.renewers)

    def belongs_to(self, principal: str) -> bool:
        """Return whether a principal may see the token, because it is the token's owner, its requester, or one of its renewers."""
        return principal == self.requester or self.may_be_changed_by(principal)

    def has_ended(self, now_ms: int) -> bool:
        """Return whether the token has expired, so that it can neither be used nor renewed. now_ms: milliseconds since the epoch."""
        return min(self.expiry_ms, self.max_ms) < now_ms


class DelegationTokens:
    """All delegation tokens of a cluster. Its methods raise BrokerError with Kafka's codes, such as DELEGATION_TOKEN_NOT_FOUND.

    new_id: returns an unused token id. keep: a function that stores all tokens; it is called before a change takes effect.
    kept: the last value passed to `keep` before the broker was restarted, or None. Times (now_ms) are milliseconds since the epoch.
    """

    def __init__(self, settings: BrokerSettings, new_id: Callable[[], str], kept: Any, keep: Callable[[Any], None]) -> None:
        self._settings = settings
        self._new_id = new_id
        self._keep = keep
        self._tokens = {token.id: token for token in (Token(**{**one, "renewers": tuple(one["renewers"])}) for one in kept or ())}

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens.values())

    @property
    def is_enabled(self) -> bool:
        """Whether tokens can be created."""
        return bool(self._settings.delegation_token_secret_key)

    def create(self, owner: str, requester: str, renewers: tuple[str, ...], max_lifetime_ms: int, now_ms: int) -> Token:
        """Create a token. max_lifetime_ms: the longest lifetime to which the token can be renewed; the broker's maximum if that is shorter,
        or for 0 or less.

        owner, requester, renewers: principals.
        """
        self._check_enabled()
        max_ms = now_ms + _shorter(self._settings.delegation_token_max_lifetime_ms, max_lifetime_ms)
        token = Token(
            id=self._new_id(),
            owner=owner,
            requester=requester,
            renewers=renewers,
            issue_ms=now_ms,
            expiry_ms=min(max_ms, now_ms + self._settings.delegation_token_expiry_time_ms),
            max_ms=max_ms,
        )
        self._change({**self._tokens, token.id: token})
        return token

    def renew(self, token_hmac: bytes, period_ms: int, principal: str, now_ms: int) -> int:
        """Renew a token for a period in ms from now, up to its maximum lifetime. Return its new expiry time in ms since the epoch.

        period_ms: delegation.token.expiry.time.ms is used if that is shorter, or for 0 or less. principal: the user of the request. Raises
        BrokerError if there is no such token, if it has expired, or if this user may not change it.
        """
        token = self._found(token_hmac)
        self._check_alive(token, now_ms)
        _check_owner(token, principal)
        return self._set_expiry(token, now_ms + _shorter(self._settings.delegation_token_expiry_time_ms, period_ms))

    def expire(self, token_hmac: bytes, period_ms: int, principal: str, now_ms: int) -> int:
        """Let a token expire after a period in ms, at the latest after its maximum lifetime; remove it at once if the period is negative.
        Return the new expiry time in ms since the epoch.

        principal: the user of the request. Raises BrokerError if there is no such token, if this user may not change it, or, unless the
        period is negative, if it has expired.
        """
        token = self._found(token_hmac)
        _check_owner(token, principal)
        if period_ms < 0:
            self._change({name: known for name, known in self._tokens.items() if known is not token})
            return now_ms
        self._check_alive(token, now_ms)
        return self._set_expiry(token, now_ms + period_ms)

    def forget_ended(self, now_ms: int) -> None:
        """Remove the tokens that have expired."""
        self._change({name: token for name, token in self._tokens.items() if not token.has_ended(now_ms)})

    def hmac_of(self, token: Token) -> bytes:
        """Return the HMAC of a token, with which a client logs in and names the token. It is as secret as a password."""
        return hmac.digest(self._settings.delegation_token_secret_key.encode(), token.id.encode(), "sha512")

    def living(self, token_id: str, now_ms: int) -> Token | None:
        """Return the token with this id; None if there is no such token or it has expired."""
        token = self._tokens.get(token_id)
        return None if token is None or token.has_ended(now_ms) else token

    def credential(self, mechanism: str, token: Token) -> ScramCredential:
        """Return the SCRAM credential with which a client logs in by a token. The password is the token's HMAC in base64."""
        return ScramCredential.of(mechanism, base64.b64encode(self.hmac_of(token)).decode())

    def _check_enabled(self) -> None:
        if not self.is_enabled:
            raise BrokerError("delegation.token.secret.key is not set", code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _found(self, token_hmac: bytes) -> Token:
        self._check_enabled()
        found = next((token for token in self if hmac.compare_digest(self.hmac_of(token), token_hmac)), None)
        if found is None:
            raise BrokerError("there is no token with this hmac", code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return found

    def _check_alive(self, token: Token, now_ms: int) -> None:
        if token.has_ended(now_ms):
            raise BrokerError(f"token {token.id} has expired", code=ErrorCode.DELEGATION_TOKEN_EXPIRED)

    def _set_expiry(self, token: Token, expiry_ms: int) -> int:
        changed = replace(token, expiry_ms=min(token.max_ms, expiry_ms))
        self._change({**self._tokens, token.id: changed})
        return changed.expiry_ms

    def _change(self, tokens: dict[str, Token]) -> None:
        if tokens != self._tokens:
            self._keep([asdict(token) for token in tokens.values()])
            self._tokens = tokens


def _check_owner(token: Token, principal: str) -> None:
    if not token.may_be_changed_by(principal):
        raise BrokerError(f"{principal} may not renew or expire token {token.id}", code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _shorter(longest_ms: int, wanted_ms: int) -> int:
    return min(longest_ms, wanted_ms) if wanted_ms > 0 else longest_ms


def written(kind: str, name: str) -> str:
    """Return a principal as text in the form Type:name."""
    return f"{kind}{_SEPARATOR}{name}"


def parts_of(principal: str) -> tuple[str, str]:
    """Split a principal in the form Type:name; return its type and its name."""
    kind, _, name = principal.partition(_SEPARATOR)
    return kind, name
