"""Keys of OAUTHBEARER, under Java's names: the source of tokens, and when a new one is fetched (KIP-255, KIP-768, KIP-1139)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from levada.base.proxy import Proxy
from levada.config.base import Config
from levada.config.option import (
    INT32_MAX,
    boolean,
    choice,
    file_name,
    fraction,
    integer,
    java_class,
    milliseconds,
    pairs,
    text,
    token_provider,
)
from levada.config.proxy import proxy
from levada.errors import ConfigError

OAUTHBEARER = "OAUTHBEARER"
_ASSERTION = "sasl.oauthbearer.assertion."
_JWT_BEARER, _CLIENT_CREDENTIALS = "JwtBearerJwtRetriever", "ClientCredentialsJwtRetriever"
_STRING, _NUMBER, _LIST = "unsecuredLoginStringClaim_", "unsecuredLoginNumberClaim_", "unsecuredLoginListClaim_"
_LIFETIME, _PRINCIPAL = "unsecuredLoginLifetimeSeconds", "unsecuredLoginPrincipalClaimName"
_DEFAULT_LIFETIME_S = 3600
_SOURCES = (
    "one of 'sasl.oauth.token.provider', 'sasl.oauthbearer.token.endpoint.url', or 'sasl.jaas.config' with unsecuredLoginStringClaim_sub"
)


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """The content of a token without a signature: its claims, and its lifetime in seconds."""

    claims: Mapping[str, Any] = field(repr=False)
    lifetime_s: int


class OAuthConfig(Config):
    """Settings of OAUTHBEARER tokens."""

    unsecured_token: UnsecuredToken | None = None
    """Read from sasl.jaas.config; None if that has no options of such a token."""

    sasl_oauth_token_provider: Callable[[], str | Awaitable[str]] | None = token_provider(
        "For OAUTHBEARER: a function that returns a token as text or as levada.OAuthToken, or an object with token() and extensions(), "
        "like in other Python clients. It runs in a thread of its own. With asyncio it may be a coroutine function, which runs in the "
        "client's loop. All connections of a client share one token until most of its lifetime is over. Not a setting of Java's client.",
    )
    sasl_oauthbearer_token_endpoint_url: str | None = text(
        None,
        "URL that issues tokens (KIP-768). Only https://, unless the program allows the address with "
        "levada.oauth.allow_token_endpoints(). For a proxy see sasl.oauthbearer.token.endpoint.proxy.url.",
    )
    sasl_oauthbearer_token_endpoint_proxy_url: Proxy | None = proxy(
        "Proxy for the token endpoint, like proxy.url. Default: the proxy of the environment (https_proxy, no_proxy). Not a Kafka setting."
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = text(
        None,
        "Client id for the token endpoint. Java's sasl.jaas.config with clientId and clientSecret works too.",
        aliases=("sasl.oauthbearer.client.id",),
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = text(
        None, "Client secret for the token endpoint.", aliases=("sasl.oauthbearer.client.secret",), secret=True
    )
    sasl_oauthbearer_scope: str | None = text(None, "OAuth scope to request from the token endpoint.")
    sasl_oauthbearer_header_urlencode: bool = boolean(
        False,
        "URL-encode the client id and secret in the Authorization header, as RFC 6749 requires. Many endpoints expect them unencoded.",
    )
    sasl_oauthbearer_extensions: Mapping[str, str] = pairs(
        "SASL extensions that are sent to the broker (KIP-342): name=value separated by commas, or a mapping. Java has them in "
        "sasl.jaas.config."
    )
    sasl_oauthbearer_jwt_retriever_class: str = java_class(
        ("DefaultJwtRetriever", _CLIENT_CREDENTIALS, _JWT_BEARER),
        "Grant type to request from the token endpoint, by the name of Java's class: client credentials (ClientCredentialsJwtRetriever) or "
        "assertions (JwtBearerJwtRetriever). Default: assertions if a sasl.oauthbearer.assertion setting is given, else client "
        "credentials. No class is loaded.",
        advice="for a token in a file, set sasl.oauth.token.provider to a function that reads it",
    )
    sasl_oauthbearer_assertion_file: str | None = file_name("File with a signed assertion (JWT) to send instead of a client secret.")
    sasl_oauthbearer_assertion_private_key_file: str | None = file_name(
        "PEM file with the private key that signs assertions. Needs levada[oauth]."
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = text(
        None, "Passphrase of sasl.oauthbearer.assertion.private.key.file.", secret=True
    )
    sasl_oauthbearer_assertion_algorithm: str = choice("RS256", ("RS256", "ES256"), "Algorithm that signs assertions.")
    sasl_oauthbearer_assertion_template_file: str | None = file_name(
        'File with {"header": {...}, "payload": {...}} in JSON. The other assertion settings are added to it.'
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = text(None, "Claim aud of assertions: their audience.")
    sasl_oauthbearer_assertion_claim_iss: str | None = text(None, "Claim iss of assertions: their issuer.")
    sasl_oauthbearer_assertion_claim_sub: str | None = text(None, "Claim sub of assertions: their subject.")
    sasl_oauthbearer_assertion_claim_exp_seconds: int = integer(300, "Lifetime of an assertion.", low=1, high=86_400, unit="s")
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = integer(
        60, "An assertion is valid from this long before now, in case clocks differ.", high=3_600, unit="s"
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = boolean(False, "Add a unique id to each assertion (claim jti).")
    https_ca_location: str | None = file_name(
        "File with the certificates of the authorities to trust for the token endpoint. Default: the system's. "
        "Not a setting of Java's client, which has ssl settings in sasl.jaas.config.",
    )
    sasl_login_callback_handler_class: str = java_class(
        ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler"),
        "Accepted so that Java's settings work unchanged. No class is loaded: the other settings select the source of tokens.",
        advice="for tokens from another source, set sasl.oauth.token.provider to a function",
    )
    sasl_login_refresh_window_factor: float = fraction(
        0.8, "Fetch the next token after this fraction of the token's lifetime.", low=0.5, high=1.0
    )
    sasl_login_refresh_window_jitter: float = fraction(
        0.05, "Fetch the next token later than that by a random time, up to this fraction of the lifetime.", low=0.0, high=0.25
    )
    sasl_login_refresh_min_period_seconds: int = integer(
        60, "Fetch the next token no sooner than this long after the last.", high=900, unit="s"
    )
    sasl_login_refresh_buffer_seconds: int = integer(
        300,
        "Fetch the next token at least this long before the token expires. This and sasl.login.refresh.min.period.seconds are both ignored "
        "if their sum is longer than the lifetime.",
        high=3_600,
        unit="s",
    )
    sasl_login_retry_backoff_ms: int = milliseconds(
        100, "Pause before the client requests a token again after a failure; doubles with each."
    )
    sasl_login_retry_backoff_max_ms: int = milliseconds(10_000, "Longest pause before the client requests a token again.", high=INT32_MAX)

    @property
    def token_source(self) -> str:
        """The source of tokens: "provider", "client credentials", "assertion" or "unsecured"; "" if none is set."""
        if self.sasl_oauth_token_provider is not None:
            return "provider"
        if self.sasl_oauthbearer_token_endpoint_url is None:
            return "unsecured" if self.unsecured_token is not None else ""
        named = self.sasl_oauthbearer_jwt_retriever_class
        by_assertion = named == _JWT_BEARER or (named != _CLIENT_CREDENTIALS and any(name.startswith(_ASSERTION) for name in self.given))
        return "assertion" if by_assertion else "client credentials"

    def _check_tokens(self) -> None:
        """Check the settings of OAUTHBEARER together. Call it after sasl.jaas.config was read."""
        source = self.token_source
        if not source:
            raise ConfigError(f"sasl.mechanism=OAUTHBEARER needs {_SOURCES}")
        if source == "provider" and self.sasl_oauthbearer_token_endpoint_url is not None:
            raise ConfigError("'sasl.oauth.token.provider' and 'sasl.oauthbearer.token.endpoint.url' exclude each other")
        if source == "client credentials":
            for part in ("id", "secret"):
                if not getattr(self, f"sasl_oauthbearer_client_credentials_client_{part}"):
                    raise ConfigError(
                        f"'sasl.oauthbearer.token.endpoint.url' needs 'sasl.oauthbearer.client.credentials.client.{part}', or a "
                        "sasl.oauthbearer.assertion setting"
                    )
        if source == "assertion":
            given = [name for name in ("file", "private_key_file") if getattr(self, f"sasl_oauthbearer_assertion_{name}") is not None]
            if len(given) != 1:
                raise ConfigError(f"an assertion needs either '{_ASSERTION}file' or '{_ASSERTION}private.key.file'")

    def _take_oauth_login(self, options: Mapping[str, str]) -> None:
        """Take over the options of OAuthBearerLoginModule from sasl.jaas.config, unless they are also settings. Raises ConfigError."""
        named = {
            "clientId": "sasl_oauthbearer_client_credentials_client_id",
            "clientSecret": "sasl_oauthbearer_client_credentials_client_secret",
            "scope": "sasl_oauthbearer_scope",
        }
        for option, attribute in named.items():
            if option in options and getattr(self, attribute) is None:
                self._settle(attribute, options[option])
        prefixes = ("extension_", "unsecuredLoginExtension_")
        added = {name.removeprefix(prefix): value for name, value in options.items() for prefix in prefixes if name.startswith(prefix)}
        self._settle("sasl_oauthbearer_extensions", {**added, **self.sasl_oauthbearer_extensions})
        if any(name.startswith("unsecuredLogin") for name in options):
            self._settle("unsecured_token", _unsecured(options))


def _unsecured(options: Mapping[str, str]) -> UnsecuredToken:
    claims: dict[str, Any] = {}
    for name, value in options.items():
        if name.startswith(_STRING):
            claims[name.removeprefix(_STRING)] = value
        elif name.startswith(_NUMBER):
            claims[name.removeprefix(_NUMBER)] = _number(name, value)
        elif name.startswith(_LIST):
            # The first character is the separator, like in Java.
            claims[name.removeprefix(_LIST)] = value[1:].split(value[0]) if value else []
    principal = options.get(_PRINCIPAL, "sub")
    if not claims.get(principal):
        raise ConfigError(f"'sasl.jaas.config': a token without a signature needs {_STRING}{principal}")
    return UnsecuredToken(claims, int(_number(_LIFETIME, options.get(_LIFETIME, str(_DEFAULT_LIFETIME_S)))))


def _number(name: str, value: str) -> float:
    try:
        return int(value) if value.lstrip("-").isdecimal() else float(value)
    except ValueError:
        raise ConfigError(f"'sasl.jaas.config': {name} must be a number") from None
