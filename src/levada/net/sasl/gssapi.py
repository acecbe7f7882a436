"""GSSAPI (RFC 4752): Kerberos authenticates both sides. Then they agree on no protection by Kerberos, because TLS protects the records.

    client  its tokens                              server  its tokens, until both contexts are complete
    client  empty, if the broker sent the last token server  wrapped: the protections that it offers, and a size
    client  wrapped: the protection, a size, the user to act as

A context makes and checks the tokens. levada.net.sasl.kerberos makes contexts with the system's Kerberos library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from levada.credentials import BlockingStep, Exchange, SaslError

_NO_PROTECTION: Final = 1
"""The bit of "no protection" in a byte of protections."""
_AGREEMENT: Final = bytes([_NO_PROTECTION, 0, 0, 0])
"""No protection (one byte), and the size of the longest protected message (three bytes), which is 0 without protection."""

_PRINCIPAL: Final = re.compile(r"(?P<name>[^/@]+)(?:/[^/@]*)?@(?P<realm>[^/@]*)")
"""A principal that Kafka's rules accept: a name, perhaps a host or a role, and a realm."""


class Context(Protocol):
    """The security context of one side, client or broker, of a connection.

    All methods raise SaslError, and a retriable TokenError if no ticket server answers.
    """

    @property
    def is_complete(self) -> bool:
        """Whether both sides are authenticated."""
        ...

    @property
    def client(self) -> str:
        """The client's principal, such as alice@EXAMPLE.COM. Known only once the context is complete."""
        ...

    @property
    def broker(self) -> str:
        """The broker's principal. Known only once the context is complete."""
        ...

    def step(self, token: bytes | None) -> bytes:
        """Process a token of the other side (None in the first step). Return the token to send; b"" if there is none."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """Return a message with a signature."""
        ...

    def unwrap(self, message: bytes) -> bytes:
        """Return a message after checking its signature."""
        ...


def client(begin: Callable[[], Context]) -> Exchange:
    """Run the client's side of GSSAPI.

    begin: makes a context. Both begin() and the first step of the context may request tickets from a server, so they run as BlockingStep.
    """

    def first() -> tuple[Context, bytes]:
        context = begin()
        return context, context.step(None)

    context, token = yield BlockingStep(first)
    answer = yield token
    while not context.is_complete:
        answer = yield context.step(answer)
    if not _protections(context.unwrap(answer)) & _NO_PROTECTION:
        raise SaslError("the broker wants Kerberos to protect all messages (sasl.qop), which levada leaves to TLS: use SASL_SSL there")
    yield context.wrap(_AGREEMENT)


class GssapiServer:
    """The broker's side of GSSAPI, for one connection.

    user: the client's name by the rule DEFAULT of sasl.kerberos.principal.to.local.rules; "" before it is known.
    """

    def __init__(self, context: Context) -> None:
        self.user = ""
        self._context = context
        self._has_offered = False

    def take(self, message: bytes) -> bytes:
        """Return the answer to a client's message. Raises SaslError."""
        if not self._context.is_complete:
            answer = self._context.step(message)
            if answer or not self._context.is_complete:
                return answer
        if not self._has_offered:
            self._has_offered = True
            return self._context.wrap(_AGREEMENT)
        # The user to act as is ignored: Kafka uses the authenticated principal, and clients write all kinds of names there.
        if _protections(self._context.unwrap(message)) != _NO_PROTECTION:
            raise SaslError("the client wants a protection that was not offered")
        self.user = _user_of(self._context.client, self._context.broker)
        return b""


def _user_of(principal: str, broker: str) -> str:
    """Return the first part of a client's principal, which is the user name.

    Raises SaslError for a principal of another realm than the broker's, or with more than two parts before the realm: the same first part
    may be the name of another user.
    """
    found = _PRINCIPAL.fullmatch(principal)
    if found is None or found["realm"] != broker.rpartition("@")[2]:
        raise SaslError(f"no rule says who {principal!r} is here")
    return found["name"]


def _protections(message: bytes) -> int:
    if len(message) < len(_AGREEMENT):
        raise SaslError("the last message of GSSAPI is too short")
    return message[0]
