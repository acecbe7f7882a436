"""The OAuth token of a registry's client: requested with the first request to the registry, and again before it expires.

All threads share the token. One of them requests the next one when most of the lifetime is over, while the others go on with the current
token. Without a valid token all wait for one request. While requests fail, the current token is used until it expires. A token that the
registry refuses is not used again, unless it is new.
"""

from __future__ import annotations

from typing import NamedTuple

from levada.base.clock import Clock
from levada.base.forks import lock_for_forks
from levada.config.registry import ISSUER, RegistryConfig
from levada.errors import TokenError
from levada.oauth.endpoint import checked_url
from levada.oauth.grants import Fetch, client_credentials
from levada.oauth.token import checked

_REFRESH_AFTER = 0.8
"""The part of a token's lifetime after which the next one is requested, as sasl.login.refresh.window.factor."""
_PAUSE_MS = 10_000
"""The pause after a failed request while the current token is valid, and the age from which a token that is refused is replaced."""


class _Token(NamedTuple):
    value: str
    since_ms: int
    refresh_ms: int
    ends_ms: int


class Tokens:
    """The token of one client. fetch: requests a token; may block."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = lock_for_forks()
        self._token = _Token("", 0, 0, 0)
        self._ended = 0
        """How many requests have ended."""
        self._error: TokenError | None = None
        """How the last request failed."""

    @staticmethod
    def of(config: RegistryConfig, clock: Clock) -> Tokens:
        """Return the tokens of a configuration with OAUTHBEARER. Raises ConfigError for an endpoint that is not allowed."""
        url = config.bearer_auth_issuer_endpoint_url or ""
        checked_url(url, ISSUER)
        fetch = client_credentials(
            url,
            config.bearer_auth_client_id or "",
            config.bearer_auth_client_secret or "",
            scope=config.bearer_auth_scope,
            encode_header=False,
            extensions={},
            ca_location=config.https_ca_location,
            proxy=config.proxy_url,
            clock=clock,
            option=ISSUER,
        )
        return Tokens(fetch, clock)

    def current(self) -> str:
        """Return a valid token; request one if necessary. Raises TokenError if there is none and the request for one fails."""
        # In this order: a request that ends between the two is not repeated.
        ended, token, now_ms = self._ended, self._token, self._clock.wall_ms()
        if now_ms < token.refresh_ms:
            return token.value
        # A thread that has a valid token does not wait for another one's request.
        if not self._lock.acquire(blocking=now_ms >= token.ends_ms):
            return token.value
        try:
            if self._ended == ended:
                self._refresh(token)
                self._ended += 1
            if self._error is not None:
                # Tools that log the variables of a traceback would log the secret with which the token was requested.
                raise self._error.with_traceback(None)
            return self._token.value
        finally:
            self._lock.release()

    def refused(self, value: str) -> bool:
        """Stop using a token that the registry refuses, because it may be revoked. Return whether current() may have another one.

        A new token is not replaced, so that a registry which refuses all tokens does not lead to a request for each of its answers.
        """
        token, now_ms = self._token, self._clock.wall_ms()
        if token.value != value:
            return True
        if now_ms - token.since_ms < _PAUSE_MS:
            return False
        self._token = token._replace(refresh_ms=0, ends_ms=0)
        return True

    def _refresh(self, before: _Token) -> None:
        self._error = None
        try:
            lifetime_s, token = checked(self._fetch(), self._clock.wall_ms() / 1000)
        except TokenError as error:
            now_ms = self._clock.wall_ms()
            if now_ms >= before.ends_ms:
                self._error = error
            else:
                self._token = before._replace(refresh_ms=min(now_ms + _PAUSE_MS, before.ends_ms))
            return
        now_ms = self._clock.wall_ms()
        # A token without a known lifetime is used once.
        lifetime_ms = (lifetime_s or 0) * 1000
        self._token = _Token(token.value, now_ms, now_ms + int(lifetime_ms * _REFRESH_AFTER), now_ms + int(lifetime_ms))
