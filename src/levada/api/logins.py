"""Makes the SASL login of a client from its configuration, and runs its blocking functions in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import levada
from levada.api.engine_setup import warn_of_readable
from levada.api.waiting import not_awaitable
from levada.base.clock import Clock, ExponentialBackoff, SystemClock
from levada.client.driver_interface import HelperEnded, Helpers, StartHelper
from levada.client.engine import Engine
from levada.client.requests.flow_runner import FlowsBeside
from levada.config import ClientConfig
from levada.config.oauth import OAUTHBEARER
from levada.config.security import AWS_MSK_IAM, GSSAPI, OF_PASSWORDS, SASL_PROTOCOLS
from levada.credentials import Exchange
from levada.errors import ConfigError, KafkaError
from levada.logs import Log
from levada.net.selectable import Selectable

if TYPE_CHECKING:
    from levada.client.setup.authentication import AnyExchange, Mechanism
    from levada.client.setup.tokens import Token, TokenKeeper
    from levada.credentials import OAuthToken


log = Log(__name__)

_EVERYBODY = "sasl.mechanism=%s over SASL_PLAINTEXT: everybody on the way can read the %s; use SASL_SSL"
_KERBEROS_SERVICE = "kafka"
_READABLE = {"PLAIN": "password", OAUTHBEARER: "token"}


Login: TypeAlias = Callable[[Engine, Selectable], None]
"""Called once with a new engine: makes each connection of the engine log in."""


class _Parts(NamedTuple):
    """The objects that a login needs in addition to its settings."""

    engine: Engine
    helpers: Helpers


def login_for(config: ClientConfig, start_helper: StartHelper, finish: Finish) -> Login:
    """Return the function that adds the login to an engine's connections; without SASL the function does nothing. Raises ConfigError.

    start_helper: starts a blocking function, usually in another thread. finish: returns the result of a function of the program; an
    awaitable is awaited (levada.aio) or refused with TypeError (blocking API).
    """
    if config.security_protocol not in SASL_PROTOCOLS:
        return lambda engine, selectable: None
    name = config.mechanism_name
    if config.security_protocol == "SASL_PLAINTEXT" and name in _READABLE:
        log.warning(_EVERYBODY, name, _READABLE[name])
    # Imported only with SASL, because the modules take a while to load.
    from levada.client.setup.authentication import SaslAuthentication

    mechanism = _mechanism(config, finish)

    def add(engine: Engine, selectable: Selectable) -> None:
        helpers = Helpers(start_helper, selectable.notify)
        engine.add_poller(helpers)
        engine.network.setups.authenticate = SaslAuthentication(mechanism(_Parts(engine, helpers)), helpers)

    return add


def _mechanism(config: ClientConfig, finish: Finish) -> Callable[[_Parts], Mechanism]:
    named = config.sasl_mechanism
    if named in OF_PASSWORDS:
        passwords = _Passwords(named, config.sasl_username or "", config.sasl_password or "", are_token=config.sasl_tokenauth)
        return lambda parts: passwords
    if named == OAUTHBEARER:
        fetch = _fetch(config, finish, SystemClock())
        return lambda parts: _Tokens(_keeper(config, fetch, parts))
    if named == GSSAPI:
        from levada.net.sasl.kerberos import Kerberos

        service = config.sasl_kerberos_service_name or _KERBEROS_SERVICE
        if config.sasl_kerberos_keytab is not None:
            warn_of_readable({"sasl.kerberos.keytab": config.sasl_kerberos_keytab})
        tickets = Kerberos(service, config.sasl_kerberos_principal, config.sasl_kerberos_keytab)
        return lambda parts: tickets
    if named == AWS_MSK_IAM:
        from levada.oauth.aws import AwsMskIam

        signer = AwsMskIam(config.sasl_aws_region, config.sasl_aws_profile, SystemClock(), f"levada/{levada.__version__}")
        return lambda parts: signer
    return lambda parts: named


class _Passwords:
    """The mechanisms PLAIN and SCRAM. are_token: whether user and password are the id and the hmac of a delegation token."""

    def __init__(self, name: str, user: str, password: str, *, are_token: bool) -> None:
        self.name = name
        self._user = user
        self._password = password
        self._are_token = are_token

    def begin(self, host: str) -> Exchange:
        """Begin an exchange. The host is not used."""
        from levada.net.sasl import plain, scram

        if self.name == "PLAIN":
            return plain.client(self._user, self._password)
        return scram.client(self.name, self._user, self._password, with_token=self._are_token)


class _Tokens:
    """The SASL mechanism OAUTHBEARER. keeper: fetches tokens, and fetches the next one before a token expires."""

    name = OAUTHBEARER

    def __init__(self, keeper: TokenKeeper) -> None:
        self._keeper = keeper

    def begin(self, host: str) -> AnyExchange:
        """Begin an exchange. The exchange waits until the client has a token. The host is not used."""
        from levada.net.sasl import oauthbearer

        token = yield self._keeper.current()
        yield from oauthbearer.client(token.value, token.extensions)


def _keeper(config: ClientConfig, fetch: Callable[[], Token], parts: _Parts) -> TokenKeeper:
    from levada.client.setup.tokens import RefreshWindow, TokenKeeper

    window = RefreshWindow(
        config.sasl_login_refresh_window_factor,
        config.sasl_login_refresh_window_jitter,
        config.sasl_login_refresh_min_period_seconds * 1000,
        config.sasl_login_refresh_buffer_seconds * 1000,
    )
    engine = parts.engine
    least, most = config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms
    return TokenKeeper(
        lambda: parts.helpers.run(fetch),
        window,
        ExponentialBackoff(least, max(least, most), engine.random),
        patience_ms=config.request_timeout_ms,
        flows=FlowsBeside(engine.flows, engine.now),
        now=engine.now,
        wall_ms=SystemClock().wall_ms,
        random=engine.random,
        log=engine.deferred.log(__name__),
    )


def _fetch(config: ClientConfig, finish: Finish, clock: Clock) -> Callable[[], Token]:
    """Return a function that fetches an OAuth token. The function may block, so a helper thread calls it."""
    from levada.client.setup.tokens import Token
    from levada.oauth.token import checked

    source = _source(config, finish, clock)

    def fetch() -> Token:
        try:
            lifetime_s, token = checked(source(), clock.wall_ms() / 1000)
        except KafkaError as error:
            # Tools that log the variables of a traceback would log the secret with which the token was requested.
            raise error.with_traceback(None) from error.__cause__
        return Token(token.value, None if lifetime_s is None else int(lifetime_s * 1000), token.extensions)

    return fetch


def _source(config: ClientConfig, finish: Finish, clock: Clock) -> Callable[[], OAuthToken]:
    from levada.net.tls.context import check_authorities
    from levada.oauth import grants, token
    from levada.oauth.assertion import AssertionSettings, check
    from levada.oauth.endpoint import checked_url

    extensions, url = dict(config.sasl_oauthbearer_extensions), config.sasl_oauthbearer_token_endpoint_url
    source = config.token_source
    if source == "provider":
        return partial(token.called, config.sasl_oauth_token_provider, finish, extensions)
    if source == "unsecured":
        assert config.unsecured_token is not None
        return grants.unsecured(config.unsecured_token.claims, config.unsecured_token.lifetime_s, extensions, clock)
    assert url is not None
    checked_url(url)
    if config.https_ca_location is not None:
        check_authorities("https.ca.location", config.https_ca_location)
    of_all: Any = {"scope": config.sasl_oauthbearer_scope, "ca_location": config.https_ca_location}
    of_all["proxy"] = config.sasl_oauthbearer_token_endpoint_proxy_url
    of_all |= {"extensions": extensions, "clock": clock}
    if source == "client credentials":
        client_id = config.sasl_oauthbearer_client_credentials_client_id or ""
        secret = config.sasl_oauthbearer_client_credentials_client_secret or ""
        return grants.client_credentials(url, client_id, secret, encode_header=config.sasl_oauthbearer_header_urlencode, **of_all)
    settings = AssertionSettings(
        **{field.name: getattr(config, f"sasl_oauthbearer_assertion_{field.name}") for field in fields(AssertionSettings)}
    )
    of_assertions = "sasl.oauthbearer.assertion"
    warn_of_readable({f"{of_assertions}.file": settings.file, f"{of_assertions}.private.key.file": settings.private_key_file})
    check(settings, clock.wall_ms() // 1000)
    return grants.jwt_bearer(url, settings, **of_all)


def check_blocking_provider(provider: Any) -> None:
    """Raise ConfigError if a token provider is a coroutine function, which only clients of levada.aio can run."""
    import inspect

    if inspect.iscoroutinefunction(getattr(provider, "token", provider)):
        raise ConfigError("'sasl.oauth.token.provider' is a coroutine function; only the clients of levada.aio await it")


Finish: TypeAlias = Callable[[Any], Any]
"""Called with the value that a function of the program returned, which may be an awaitable. Returns the final result."""


def start_helper(function: Callable[[], Any], ended: HelperEnded) -> None:
    """Run a function in a new thread, or in the calling thread if none can be started because the interpreter exits.

    ended: called with the result and None, or with None and the error (levada.client.driver_interface.StartHelper).
    """
    try:
        threading.Thread(target=run_here, args=(function, ended), name="levada-login", daemon=True).start()
    except RuntimeError as error:
        if threading.main_thread().is_alive():
            ended(None, error)
        else:
            # At exit a producer may still flush for some seconds, and from Python 3.12 on no thread can be started then.
            run_here(function, ended)


def run_here(function: Callable[[], Any], ended: HelperEnded) -> None:
    """Run a function in the calling thread. ended: called with the result and None, or with None and the error."""
    try:
        value = function()
    except Exception as error:
        ended(None, error)
    except BaseException as error:
        # SystemExit, for example. Without an outcome, the waiting login would never end. It is a bug, so the client does not retry.
        told = RuntimeError(f"{type(error).__name__} was raised while a client logged in")
        told.__cause__ = error
        ended(None, told)
    else:
        ended(value, None)


def finish_nothing(found: Any) -> Any:
    """Return the result of a function of the program. Raise TypeError for an awaitable, because there is no event loop to run it."""
    return not_awaitable(found, "the function that gives tokens")
