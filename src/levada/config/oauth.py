"""Keys of OAUTHBEARER: where the token comes from, and when the next one is fetched, by Java's names (KIP-255, KIP-768, KIP-1139)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
    """What a token without a signature is to say."""

    claims: Mapping[str, Any] = field(repr=False)
    lifetime_s: int


class OAuthConfig(Config):
    """Settings of tokens to log in with."""

    unsecured_token: UnsecuredToken | None = None
    """Out of sasl.jaas.config."""

    sasl_oauth_token_provider: Callable[[], str | Awaitable[str]] | None = token_provider(
        "For OAUTHBEARER: a function that returns a token as text, or a levada.OAuthToken, or an object with token() and extensions() as "
        "other Python clients have it. It runs in a thread of its own; on asyncio a coroutine function works too, and runs in the client's "
        "loop. One token serves all connections of a client, until most of its lifetime is over. Not a setting of Java's client.",
    )
    sasl_oauthbearer_token_endpoint_url: str | None = text(
        None,
        "Where tokens are given out (KIP-768). https:// only, unless the program allows the address with "
        "levada.oauth.allow_token_endpoints(). A proxy is taken from the environment.",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = text(
        None,
        "This client's name at the token endpoint. Java's sasl.jaas.config with clientId and clientSecret works too.",
        aliases=("sasl.oauthbearer.client.id",),
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = text(
        None, "Its secret there.", aliases=("sasl.oauthbearer.client.secret",), secret=True
    )
    sasl_oauthbearer_scope: str | None = text(None, "The scope to ask for.")
    sasl_oauthbearer_header_urlencode: bool = boolean(
        False, "Encode client id and secret in the request's header as RFC 6749 wants it; many endpoints want them as they are."
    )
    sasl_oauthbearer_extensions: Mapping[str, str] = pairs(
        "Extensions for the broker (KIP-342), name=value separated by commas, or a mapping. Java has them in sasl.jaas.config."
    )
    sasl_oauthbearer_jwt_retriever_class: str = java_class(
        ("DefaultJwtRetriever", _CLIENT_CREDENTIALS, _JWT_BEARER),
        "Which grant the token endpoint is asked for, by the name of Java's class: that of client credentials, or that of assertions. "
        "Default: of assertions where a sasl.oauthbearer.assertion setting is given. No class is loaded.",
        advice="for a token in a file give sasl.oauth.token.provider a function that reads it",
    )
    sasl_oauthbearer_assertion_file: str | None = file_name("File with a finished assertion to show instead of a secret.")
    sasl_oauthbearer_assertion_private_key_file: str | None = file_name(
        "File with the private key, in PEM, that assertions are signed with. Needs levada[oauth]."
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = text(None, "Passphrase of that key.", secret=True)
    sasl_oauthbearer_assertion_algorithm: str = choice("RS256", ("RS256", "ES256"), "How assertions are signed.")
    sasl_oauthbearer_assertion_template_file: str | None = file_name(
        'File with {"header": {...}, "payload": {...}} in JSON, to which the other assertion settings are added.'
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = text(None, "Claim aud of assertions: for whom they are.")
    sasl_oauthbearer_assertion_claim_iss: str | None = text(None, "Claim iss of assertions: who signs them.")
    sasl_oauthbearer_assertion_claim_sub: str | None = text(None, "Claim sub of assertions: whom they are about.")
    sasl_oauthbearer_assertion_claim_exp_seconds: int = integer(300, "For how long an assertion is good.", low=1, high=86_400, unit="s")
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = integer(
        60, "Since when an assertion is good already, before now: for clocks that differ.", high=3_600, unit="s"
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = boolean(False, "Give each assertion an id of its own (claim jti).")
    https_ca_location: str | None = file_name(
        "File with the certificates of the authorities to trust for the token endpoint. Default: those that the system trusts. "
        "Not a setting of Java's client, which has ssl settings within sasl.jaas.config.",
    )
    sasl_login_callback_handler_class: str = java_class(
        ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler"),
        "Taken so that Java's settings work as they are. No class is loaded: the other settings say where a token comes from.",
        advice="for tokens of your own give sasl.oauth.token.provider a function",
    )
    sasl_login_refresh_window_factor: float = fraction(0.8, "Fetch the next token after this part of the lifetime.", low=0.5, high=1.0)
    sasl_login_refresh_window_jitter: float = fraction(0.05, "Up to this part of the lifetime later, at random.", low=0.0, high=0.25)
    sasl_login_refresh_min_period_seconds: int = integer(60, "Fetch the next token no sooner than after this time.", high=900, unit="s")
    sasl_login_refresh_buffer_seconds: int = integer(
        300,
        "Fetch the next token no later than this before the end. Where this and the least period together are longer than the lifetime, "
        "neither counts.",
        high=3_600,
        unit="s",
    )
    sasl_login_retry_backoff_ms: int = milliseconds(100, "Pause before a token is asked for again after a failure; doubles with each.")
    sasl_login_retry_backoff_max_ms: int = milliseconds(10_000, "Longest such pause.", high=INT32_MAX)

    @property
    def token_source(self) -> str:
        """Where tokens come from: "provider", "client credentials", "assertion" or "unsecured"; "" nowhere."""
        if self.sasl_oauth_token_provider is not None:
            return "provider"
        if self.sasl_oauthbearer_token_endpoint_url is None:
            return "unsecured" if self.unsecured_token is not None else ""
        named = self.sasl_oauthbearer_jwt_retriever_class
        by_assertion = named == _JWT_BEARER or (named != _CLIENT_CREDENTIALS and any(name.startswith(_ASSERTION) for name in self.given))
        return "assertion" if by_assertion else "client credentials"

    def _check_tokens(self) -> None:
        """Check the settings of OAUTHBEARER together, once sasl.jaas.config was read."""
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
        """Take what sasl.jaas.config has for OAuthBearerLoginModule. Raises ConfigError."""
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
            # As in Java, the first character separates the others.
            claims[name.removeprefix(_LIST)] = value[1:].split(value[0]) if value else []
    principal = options.get(_PRINCIPAL, "sub")
    if not claims.get(principal):
        raise ConfigError(f"'sasl.jaas.config': a token without a signature needs {_STRING}{principal}")
    return UnsecuredToken(claims, int(_number(_LIFETIME, options.get(_LIFETIME, str(_DEFAULT_LIFETIME_S)))))


def _number(name: str, value: str) -> float:
    try:
        return int(value) if value.lstrip("-").isdecimal() else float(value)
    except ValueError:
        raise ConfigError(f"'sasl.jaas.config': {name} is no number") from None
