"""SASL authentication of a connection: SaslHandshake agrees on the mechanism, then SaslAuthenticate carries its messages.

Brokers before 1.0 have no SaslAuthenticate; they expect the messages as bare frames. levada does not support that, because without a
response no error text tells why a login failed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from levada.base.promise import Promise
from levada.base.text import as_text
from levada.client.driver_interface import Helpers
from levada.client.network.api_versions import BrokerVersions
from levada.client.setup.flow import Ask, Await, SetupFlow
from levada.client.setup.states import ConnectionEvent
from levada.credentials import BlockingStep, SaslError
from levada.error_codes import ErrorCode
from levada.errors import KafkaError, SaslAuthenticationError, UnsupportedSaslMechanismError, UnsupportedVersionError, broker_error
from levada.protocol.frame import decode_response
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest
from levada.protocol.schema import Request, Response

R = TypeVar("R", bound=Response)

_WITH_REQUESTS = 1
"""From this version of SaslHandshake on, the messages of the mechanism are sent in SaslAuthenticate."""


AnyExchange: TypeAlias = Generator[bytes | BlockingStep | Promise[Any], Any, None]
"""An Exchange that may also yield a promise of the engine. The exchange is resumed with the promise's result."""


class Mechanism(Protocol):
    """A SASL mechanism, of levada or of the program."""

    @property
    def name(self) -> str:
        """The name of the mechanism in SaslHandshake."""
        ...

    def begin(self, host: str) -> AnyExchange:
        """Begin the SASL exchange for a connection. host: the broker's host name."""
        ...


class SaslAuthentication:
    """Authenticates connections by one mechanism. helpers: runs each BlockingStep of the mechanism in another thread."""

    def __init__(self, mechanism: Mechanism, helpers: Helpers) -> None:
        self._mechanism = mechanism
        self._helpers = helpers

    def __call__(self, versions: BrokerVersions, host: str) -> SetupFlow[int]:
        """Authenticate a connection. Return the lifetime of the session in ms; 0 if the session does not end.

        Raises AuthenticationError, BrokerError for other error codes of SaslHandshake and SaslAuthenticate, and TimeoutError if the
        mechanism waits too long for a token or the like.
        """
        yield from self._agree(versions)
        try:
            return (yield from self._exchange(versions, host))
        except SaslError as error:
            # The traceback is removed, because tools that log its variables would log keys that are derived from a password.
            raise SaslAuthenticationError(f"{self._mechanism.name}: {as_text(error)}") from error.with_traceback(None)
        except KafkaError:
            raise
        except Exception as error:
            # A bug in a mechanism of the program, or in a library, must not end the client.
            raise SaslAuthenticationError(f"{self._mechanism.name} failed: {type(error).__name__}: {as_text(error)}") from error

    def _exchange(self, versions: BrokerVersions, host: str) -> SetupFlow[int]:
        exchange = self._mechanism.begin(host)
        lifetime_ms = 0
        resume: Any = None
        try:
            while True:
                step = exchange.throw(resume) if isinstance(resume, Exception) else exchange.send(resume)
                if isinstance(step, BlockingStep | Promise):
                    resume = yield from self._awaited(step)
                else:
                    reply = yield from self._say(step, versions)
                    resume, lifetime_ms = bytes(reply.auth_bytes), reply.session_lifetime_ms
        except StopIteration:
            return lifetime_ms

    def _awaited(self, step: BlockingStep | Promise[Any]) -> SetupFlow[Any]:
        """Run a step that the SASL exchange waits for, and return its result.

        If the step fails, its exception is returned, not raised: the caller throws it into the exchange.
        """
        promise = self._helpers.run(step.run) if isinstance(step, BlockingStep) else step
        try:
            return (yield Await(promise, f"credentials for {self._mechanism.name}"))
        except Exception as error:
            return error

    def _agree(self, versions: BrokerVersions) -> SetupFlow[None]:
        try:
            version = versions.version_for(SaslHandshakeRequest, min_version=_WITH_REQUESTS)
        except UnsupportedVersionError as error:
            raise UnsupportedSaslMechanismError(
                f"this broker is too old for SASL as levada speaks it (Kafka 1.0 or newer): {error}"
            ) from error
        reply = yield from _asked(SaslHandshakeRequest(mechanism=self._mechanism.name), version)
        if reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(sorted(reply.mechanisms)) or "none"
            raise UnsupportedSaslMechanismError(f"sasl.mechanism={self._mechanism.name}: this listener offers {offered}")
        if reply.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise UnsupportedSaslMechanismError("this listener has no SASL; security.protocol is to be PLAINTEXT or SSL")
        if reply.error_code:
            raise broker_error(reply.error_code, "the broker refused SaslHandshake")

    def _say(self, message: bytes, versions: BrokerVersions) -> SetupFlow[SaslAuthenticateResponse]:
        reply = yield from _asked(SaslAuthenticateRequest(auth_bytes=message), versions.version_for(SaslAuthenticateRequest))
        if reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise SaslAuthenticationError(f"{self._mechanism.name}: {reply.error_message or 'the broker does not accept the credentials'}")
        if reply.error_code:
            raise broker_error(reply.error_code, f"{self._mechanism.name}: {reply.error_message or 'the broker refused SaslAuthenticate'}")
        return reply


def _asked(request: Request[R], version: int) -> SetupFlow[R]:
    frame = yield Ask(request, version, ConnectionEvent.ASKED_TO_AUTHENTICATE)
    return decode_response(type(request), version, frame)  # type: ignore[return-value]
