"""Who may log in to a broker, and the state of one connection's login.

On a listener with logins, a connection may only send ApiVersions, SaslHandshake and SaslAuthenticate before it is authenticated. Any
other request closes it. After a failed login, the broker answers with the error and then closes the connection. Where sessions expire
(KIP-368), a client logs in again on the same connection, with the same mechanism and as the same user.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from levada.base.clock import NEVER_MS
from levada.broker.access.aws import AwsAccounts
from levada.broker.access.delegation_tokens import USER, DelegationTokens, Token, parts_of, written
from levada.broker.access.scram_users import ScramUsers
from levada.credentials import SaslError
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.net.sasl import jwt, oauthbearer, plain, scram
from levada.net.sasl.gssapi import Context, GssapiServer
from levada.net.sasl.scram import TOKENAUTH, ScramCredential, ScramServer
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest

PLAIN: Final = "PLAIN"
OF_PASSWORDS: Final = (PLAIN, *scram.HASHES)
OAUTHBEARER: Final = "OAUTHBEARER"
AWS_MSK_IAM: Final = "AWS_MSK_IAM"
GSSAPI: Final = "GSSAPI"
_BEFORE_LOGIN: Final = frozenset({ApiVersionsRequest.API_KEY, SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY})
_AFTER_SESSION: Final = frozenset({SaslHandshakeRequest.API_KEY})
_ANY_MORE: Final = b"\x01"
"""What an OAUTHBEARER client sends after it has been told that its token is refused."""


class ValidToken(NamedTuple):
    """A token that was accepted. user: its user. ends_ms: the time when the token expires, in ms since the epoch."""

    user: str
    ends_ms: int


ValidateToken: TypeAlias = Callable[[str, int], ValidToken]
"""Validates a token at a time in ms since the epoch. Raises SaslError for an invalid token."""


def validate_unsecured(token: str, wall_ms: int) -> ValidToken:
    """Accept a token without a signature, as Kafka's validator for development does. Raises SaslError if it is malformed or signed, has
    no subject or no expiry time, or has expired.
    """
    try:
        header, claimed, signature = jwt.parts(token)
        ends_s, begins_s = jwt.number(claimed, "exp"), jwt.number(claimed, "iat")
    except jwt.JwtError as error:
        raise SaslError(str(error)) from None
    user = claimed.get("sub")
    if header.get("alg") != "none" or signature:
        raise SaslError("the token is signed, but this broker expects unsigned tokens")
    if not isinstance(user, str) or not user or ends_s is None:
        raise SaslError("the token has no subject or no expiry time")
    if ends_s * 1000 <= wall_ms or (begins_s is not None and begins_s > ends_s):
        raise SaslError("the token has expired")
    return ValidToken(user, int(ends_s * 1000))


class Logins:
    """The users of a cluster and the SASL mechanisms with which they can log in.

    users: passwords by user name, for PLAIN; None disables PLAIN and SCRAM. scram: the SCRAM credentials. tokens: delegation tokens, with
    which clients can log in by SCRAM. validate: checks OAUTHBEARER tokens. accounts: the accounts for AWS_MSK_IAM. kerberos: returns a new
    GSSAPI context for each login. If one of the last three is None, its mechanism is disabled.

    mechanisms: the enabled mechanisms.
    """

    def __init__(
        self,
        users: Mapping[str, str] | None,
        scram: ScramUsers,
        tokens: DelegationTokens,
        *,
        validate: ValidateToken | None = None,
        accounts: AwsAccounts | None = None,
        kerberos: Callable[[], Context] | None = None,
    ) -> None:
        self._passwords = dict(users or {})
        self._scram = scram
        self.tokens = tokens
        self.validate, self.accounts, self.kerberos = validate, accounts, kerberos
        by_mechanism = {OAUTHBEARER: validate, GSSAPI: kerberos, AWS_MSK_IAM: accounts}
        given = [mechanism for mechanism, what in by_mechanism.items() if what is not None]
        self.mechanisms = [*(OF_PASSWORDS if users is not None else ()), *given]

    def check_password(self, user: str, password: str) -> bool:
        """Return whether the password of a user of PLAIN is right. The duration of the comparison does not tell how many characters are."""
        known = self._passwords.get(user, "")
        return hmac.compare_digest(known.encode(), password.encode()) and user in self._passwords

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return the SCRAM credential of a user for a mechanism, None if the user has none."""
        return self._scram.credential(mechanism, user)


@dataclass(slots=True)
class Login:
    """The state of the login on one connection.

    mechanism: the mechanism that the client has chosen by SaslHandshake, "" before SaslHandshake. user: the authenticated user, "" before
    the login and while the client logs in again. credentials_end_ms: when the client's credentials expire, in ms since the epoch.
    session_ends_ms: when the session ends unless the client logs in again; a time of the node's clock. Both are NEVER_MS for no limit.
    """

    logins: Logins
    mechanism: str = ""
    user: str = ""
    credentials_end_ms: int = NEVER_MS
    session_ends_ms: int = NEVER_MS
    _user_before: str = ""
    _scram: ScramServer | None = field(default=None, repr=False)
    _token: Token | None = field(default=None, repr=False)
    _kerberos: GssapiServer | None = field(default=None, repr=False)
    _refused: bytes = b""

    @property
    def is_by_token(self) -> bool:
        """Whether the client has logged in, or is logging in, with a delegation token."""
        return self._token is not None

    @property
    def principal(self) -> str:
        """The authenticated principal: the user, or the owner of the delegation token."""
        return written(USER, self.user) if self._token is None else self._token.owner

    def permits(self, api_key: int, now_ms: int) -> bool:
        """Return whether the client may send a request of this API now.

        Before the login, only ApiVersions, SaslHandshake and SaslAuthenticate are permitted; after the session has expired, only
        SaslHandshake, which begins another login.
        """
        if not self.user:
            return api_key in _BEFORE_LOGIN
        return now_ms <= self.session_ends_ms or api_key in _AFTER_SESSION

    def agree(self, mechanism: str) -> None:
        """Begin a login with the mechanism that the client has sent in SaslHandshake. A client that has logged in is not authenticated
        until this login has succeeded.

        Raises BrokerError if the mechanism is not enabled, if a login is in progress, or if the client has logged in with another one.
        """
        if self.mechanism and not self.user:
            raise BrokerError("a SASL mechanism was chosen already", code=ErrorCode.ILLEGAL_SASL_STATE)
        if mechanism not in self.logins.mechanisms:
            raise BrokerError(f"{mechanism!r} is not enabled", code=ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        if self.user and mechanism != self.mechanism:
            raise BrokerError("re-authentication needs the same SASL mechanism as before", code=ErrorCode.ILLEGAL_SASL_STATE)
        self._user_before = self.user
        self.mechanism, self.user, self._refused = mechanism, "", b""
        self._scram = self._token = self._kerberos = None
        self.credentials_end_ms = NEVER_MS

    def take(self, message: bytes, wall_ms: int) -> bytes:
        """Process a SASL message of the client; return the answer to send. Raises BrokerError if agree() has not begun a login and, with
        Kafka's message, if the login fails.

        wall_ms: the present time in milliseconds since the epoch.
        """
        if not self.mechanism or self.user:
            raise BrokerError("SaslAuthenticate came before SaslHandshake", code=ErrorCode.ILLEGAL_SASL_STATE)
        try:
            answer = self._take(message, wall_ms)
        except SaslError as error:
            raise _failed(
                f"Authentication failed during authentication due to invalid credentials with SASL mechanism {self.mechanism}"
            ) from error
        if self.user and self._user_before not in ("", self.user):
            before, self.user = self._user_before, ""
            raise _failed(f"Cannot change principals during re-authentication from User.{before}")
        return answer

    def begin_session(self, max_reauth_ms: int, now_ms: int, wall_ms: int) -> int:
        """Begin the session of a client that has logged in; return the session's lifetime in ms, 0 for no limit.

        max_reauth_ms: the setting connections.max.reauth.ms, 0 for no limit. wall_ms: the present time in milliseconds since the epoch.
        """
        limits = [self.credentials_end_ms - wall_ms] if self.credentials_end_ms != NEVER_MS else []
        limits += [max_reauth_ms] if max_reauth_ms > 0 else []
        lifetime_ms = max(min(limits), 0) if limits else 0
        self.session_ends_ms = now_ms + lifetime_ms if limits else NEVER_MS
        return lifetime_ms

    def _take(self, message: bytes, wall_ms: int) -> bytes:
        if self.mechanism == PLAIN:
            return self._take_plain(message)
        if self.mechanism == OAUTHBEARER:
            return self._take_token(message, wall_ms)
        if self.mechanism == AWS_MSK_IAM:
            assert self.logins.accounts is not None
            self.user, answer = self.logins.accounts.check(message, wall_ms)
            return answer
        if self.mechanism == GSSAPI:
            return self._take_ticket(message)
        return self._take_scram(message, wall_ms)

    def _take_plain(self, message: bytes) -> bytes:
        user, password = plain.parsed(message)
        if not self.logins.check_password(user, password):
            raise _failed("Authentication failed: Invalid username or password")
        self.user = user
        return b""

    def _take_token(self, message: bytes, wall_ms: int) -> bytes:
        if self._refused and message == _ANY_MORE:
            raise _failed(self._refused.decode())
        assert self.logins.validate is not None
        first = oauthbearer.parsed(message)
        try:
            found = self.logins.validate(first.token, wall_ms)
        except SaslError:
            self._refused = oauthbearer.refusal()
            return self._refused
        if first.acting_as not in ("", found.user):
            raise _failed("Authentication failed: Client requested an authorization id that is different from the token's principal name")
        self.user, self.credentials_end_ms = found
        return b""

    def _take_ticket(self, message: bytes) -> bytes:
        if self._kerberos is None:
            assert self.logins.kerberos is not None
            self._kerberos = GssapiServer(self.logins.kerberos())
        answer = self._kerberos.take(message)
        self.user = self._kerberos.user
        return answer

    def _take_scram(self, message: bytes, wall_ms: int) -> bytes:
        if self._scram is None:
            self._scram = ScramServer(self.mechanism, lambda user, extensions: self._credential(user, extensions, wall_ms))
            return self._scram.first(message)
        answer = self._scram.last(message)
        self.user = self._scram.user
        if self._token is not None:
            self.user, self.credentials_end_ms = parts_of(self._token.owner)[1], self._token.expiry_ms
        return answer

    def _credential(self, user: str, extensions: Mapping[str, str], wall_ms: int) -> ScramCredential | None:
        if extensions.get(TOKENAUTH, "").lower() != "true":
            return self.logins.credential(self.mechanism, user)
        self._token = self.logins.tokens.living(user, wall_ms)
        return None if self._token is None else self.logins.tokens.credential(self.mechanism, self._token)


def _failed(message: str) -> BrokerError:
    return BrokerError(message, code=ErrorCode.SASL_AUTHENTICATION_FAILED)
