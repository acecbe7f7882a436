"""Ways to get a token without a function of the program: the grants of a token endpoint, and unsecured tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

from levada.base.clock import Clock
from levada.base.proxy import Proxy
from levada.credentials import OAuthToken
from levada.net.sasl import jwt
from levada.oauth.assertion import AssertionSettings, assertion
from levada.oauth.endpoint import OPTION, TokenRequest, fetch

Fetch = Callable[[], OAuthToken]
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def client_credentials(
    url: str,
    client_id: str,
    client_secret: str,
    *,
    scope: str | None,
    encode_header: bool,
    extensions: Mapping[str, str],
    ca_location: str | None,
    proxy: Proxy | None,
    clock: Clock,
    option: str = OPTION,
) -> Fetch:
    """Return a function that requests a token with a client's id and secret (RFC 6749, KIP-768).

    encode_header: whether to URL-encode both; the RFC requires it, but many endpoints do not accept it. scope: None sends none. extensions:
    the SASL extensions for the broker (KIP-342). ca_location: a file with CA certificates; None for those of the system. proxy: None for
    the proxy of the environment. option: gives the URL, for errors.
    """
    user, password = (quote_plus(client_id), quote_plus(client_secret)) if encode_header else (client_id, client_secret)
    form = {"grant_type": "client_credentials", **_scope(scope)}
    request = TokenRequest(url, lambda: form, f"{user}:{password}", ca_location, proxy, option)
    return lambda: fetch(request, extensions, clock)


def jwt_bearer(
    url: str,
    settings: AssertionSettings,
    *,
    scope: str | None,
    extensions: Mapping[str, str],
    ca_location: str | None,
    proxy: Proxy | None,
    clock: Clock,
) -> Fetch:
    """Return a function that requests a token with a new assertion each time (RFC 7523, KIP-1139).

    scope: None sends none. extensions: the SASL extensions for the broker (KIP-342). ca_location: a file with CA certificates; None for
    those of the system. proxy: None for the proxy of the environment.
    """

    def form() -> Mapping[str, str]:
        return {"grant_type": _JWT_BEARER, "assertion": assertion(settings, clock.wall_ms() // 1000), **_scope(scope)}

    request = TokenRequest(url, form, ca_location=ca_location, proxy=proxy)
    return lambda: fetch(request, extensions, clock)


def unsecured(claims: Mapping[str, Any], lifetime_s: int, extensions: Mapping[str, str], clock: Clock) -> Fetch:
    """Return a function that makes tokens without a signature, only for test brokers: any client can claim to be any user.

    claims: the claims of the token, without iat and exp, which are added. lifetime_s: seconds. extensions: the SASL extensions for the
    broker (KIP-342).
    """

    def made() -> OAuthToken:
        now_s = clock.wall_ms() / 1000
        return OAuthToken(jwt.unsecured({**claims, "iat": now_s, "exp": now_s + lifetime_s}), None, extensions)

    return made


def _scope(scope: str | None) -> dict[str, str]:
    return {} if scope is None else {"scope": scope}
