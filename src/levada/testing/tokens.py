"""An OAuth token endpoint for tests, and the validation of its tokens for brokers. Needs PyJWT: `pip install 'levada[testing]'`."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

from levada.base.clock import SystemClock
from levada.broker.access.logins import ValidateToken, ValidToken
from levada.credentials import SaslError
from levada.errors import ConfigError

_MISSING = "levada.testing.EmbeddedTokenEndpoint needs the packages PyJWT and cryptography: pip install 'levada[testing]'"
_KEY_ID = "levada-testing"
_ALGORITHM = "RS256"
_LATE_S = 0.05
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(frozen=True)
class TokenAnswer:
    """A response of the token endpoint, for example one that a test wants instead of a token.

    delay_s: the seconds before the response is sent. trickle: whether to send the body byte by byte, with a pause before each byte; delay_s
    is then ignored.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    trickle: bool = False


class TokenIssuer:
    """Issues signed tokens, and has the public key with which brokers validate them.

    lifetime_s: the lifetime of each token in seconds. issuer, audience: the claims iss and aud of each token. issued: the number of tokens
    issued so far. Raises ConfigError if PyJWT or cryptography is not installed.
    """

    def __init__(self, *, lifetime_s: float = 3600.0, issuer: str = "https://issuer.test", audience: str = "kafka") -> None:
        try:
            import jwt
            from cryptography.hazmat.primitives.asymmetric import rsa
        except ImportError as error:
            raise ConfigError(_MISSING) from error
        self.lifetime_s = lifetime_s
        self.issuer, self.audience = issuer, audience
        self.issued = 0
        self._jwt = jwt
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def issue(self, user: str, **claims: Any) -> str:
        """Return a signed token for a user. claims: additional claims, or other values for the usual claims; None leaves a claim out."""
        now_s = SystemClock().wall_ms() / 1000
        usual = {"sub": user, "iss": self.issuer, "aud": self.audience, "iat": now_s, "exp": now_s + self.lifetime_s, "scope": "kafka"}
        said = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        self.issued += 1
        return self._jwt.encode(said, self._key, algorithm=_ALGORITHM, headers={"kid": _KEY_ID})

    @property
    def jwks(self) -> str:
        """The public key as a JSON web key set, the format that Kafka reads from sasl.oauthbearer.jwks.endpoint.url."""
        key = json.loads(self._jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return json.dumps({"keys": [{**key, "kid": _KEY_ID, "alg": _ALGORITHM, "use": "sig"}]})

    def validator(self) -> ValidateToken:
        """Return a function for EmbeddedKafka(oauth=...) that accepts only tokens of this issuer for its audience."""
        return jwks_validator(self.jwks, issuer=self.issuer, audience=self.audience)


class EmbeddedTokenEndpoint(TokenIssuer):
    """An OAuth 2 token endpoint on a free port of 127.0.0.1. It runs until the `with` block ends::

        with EmbeddedTokenEndpoint({"billing": "its secret"}) as tokens, EmbeddedKafka(oauth=tokens.validator()) as kafka:
            producer = KafkaProducer({**kafka.client_settings, "security_protocol": "SASL_PLAINTEXT", **tokens.settings_for("billing")})

    clients: client ids with their secrets. A client gets tokens for itself. trusted_key: a public key in PEM. An assertion that is signed
    with its private key gets a token for its subject. ssl_context: for https://. Without it levada's clients need permission for the
    address (levada.oauth.allow_token_endpoints). Other arguments are those of TokenIssuer. answers: the next answers instead of tokens.
    forms: the forms of all requests so far.
    """

    def __init__(
        self, clients: Mapping[str, str], *, trusted_key: str | None = None, ssl_context: ssl.SSLContext | None = None, **of_tokens: Any
    ) -> None:
        super().__init__(**of_tokens)
        self.answers: deque[TokenAnswer] = deque()
        self.forms: list[dict[str, str]] = []
        self._clients = dict(clients)
        self._trusted_key = trusted_key
        self._tls = ssl_context
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._server = _Server(self, self._tls)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="levada-token-endpoint")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None and self._thread is not None
        self._server.ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address of the endpoint, for sasl.oauthbearer.token.endpoint.url."""
        assert self._server is not None, "enter its `with` block first"
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._server.server_address[1]}/token"

    def settings_for(self, client: str) -> dict[str, Any]:
        """Return the settings of a Kafka client that logs in with tokens of this endpoint, without security_protocol and addresses. client:
        the client id. Raises KeyError if it is unknown.
        """
        return {
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": self.url,
            "sasl_oauthbearer_client_credentials_client_id": client,
            "sasl_oauthbearer_client_credentials_client_secret": self._clients[client],
        }

    def respond(self, authorization: str, form: dict[str, str]) -> TokenAnswer:
        """Add a request to `forms` and return its response: the next of `answers` if there are any, otherwise a token, or status 401 if the
        client is unknown. authorization: the request's Authorization header. The server's threads call it.
        """
        self.forms.append(form)
        if self.answers:
            return self.answers.popleft()
        try:
            user = self._user_of(authorization, form)
        except (ValueError, self._jwt.PyJWTError):
            user = ""
        if not user:
            return TokenAnswer(401, b'{"error":"invalid_client","error_description":"unknown client"}')
        answer = {"access_token": self.issue(user), "token_type": "Bearer", "expires_in": self.lifetime_s}
        return TokenAnswer(body=json.dumps(answer).encode())

    def _user_of(self, authorization: str, form: Mapping[str, str]) -> str:
        if form.get("grant_type") == _JWT_BEARER and self._trusted_key is not None:
            claims = self._jwt.decode(form.get("assertion", ""), self._trusted_key, algorithms=["RS256", "ES256"], audience=self.audience)
            return str(claims["sub"])
        user, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        return user if self._clients.get(user) == secret and form.get("grant_type") == "client_credentials" else ""


def jwks_validator(jwks: str, *, issuer: str | None = None, audience: str | None = None) -> ValidateToken:
    """Return a function that validates tokens with the keys of a JSON web key set. It returns a token's user and expiry; it raises
    SaslError for a token that is not valid.

    issuer: the required claim iss, None for any. audience: the required claim aud, None for any. Raises ConfigError if PyJWT is not
    installed.
    """
    try:
        import jwt
    except ImportError as error:
        raise ConfigError(_MISSING) from error
    keys = {key.key_id: key for key in jwt.PyJWKSet.from_json(jwks).keys}

    def validate(token: str, wall_ms: int) -> ValidToken:
        try:
            key = keys[jwt.get_unverified_header(token)["kid"]]
            # Times are checked below with the broker's clock, which a test may have set, and not with the machine's.
            options: Any = {"require": ["sub", "exp"], "verify_exp": False, "verify_iat": False, "verify_nbf": False}
            options["verify_aud"] = audience is not None
            claims = jwt.decode(token, key.key, algorithms=["RS256", "ES256"], issuer=issuer, audience=audience, options=options)
        except (KeyError, jwt.PyJWTError) as error:
            raise SaslError(f"the token is not believed: {type(error).__name__}") from None
        ends_ms = int(claims["exp"] * 1000)
        if ends_ms <= wall_ms:
            raise SaslError("the token has expired")
        return ValidToken(claims["sub"], ends_ms)

    return validate


class _Server(ThreadingHTTPServer):
    """An HTTP server with one thread for each connection. server_close() waits until all threads have ended."""

    daemon_threads = False

    def __init__(self, endpoint: EmbeddedTokenEndpoint, tls: ssl.SSLContext | None) -> None:
        self.endpoint = endpoint
        self.ending = threading.Event()
        self._tls = tls
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, in a thread of its own."""
        try:
            # The handshake happens at the first read, in this thread, so that a client that never begins it delays no other client.
            tls = None if self._tls is None else self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            super().finish_request(tls or request, client_address)
            if tls is not None:
                tls.close()
        except OSError:
            # The client has rejected the certificate, or has not waited for the answer. It reports this itself.
            return


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """Send what EmbeddedTokenEndpoint.respond() returns."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.endpoint.respond(self.headers.get("Authorization") or "", dict(parse_qsl(body.decode())))
        if not answer.trickle:
            self.server.ending.wait(answer.delay_s)
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if not answer.trickle:
            self.wfile.write(answer.body)
            return
        for position in range(len(answer.body)):
            if self.server.ending.wait(_LATE_S):
                return
            self.wfile.write(answer.body[position : position + 1])

    def log_message(self, format: str, *arguments: Any) -> None:
        """Do nothing, so that requests are not printed."""
