"""GSSAPI (RFC 4752): Kerberos authenticates both sides, and then they agree on no further protection, because TLS protects the records.

    client  its tokens                              server  its tokens, until both contexts are complete
    client  empty, unless the last token was its    server  wrapped: the protections it has, and a size
    client  wrapped: the protection, a size, as whom to act

A context makes and checks the tokens; levada.net.sasl.kerberos gets it from the system.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from levada.credentials import BlockingStep, Exchange, SaslError

_NO_PROTECTION: Final = 1
"""Its bit among the protections."""
_AGREEMENT: Final = bytes([_NO_PROTECTION, 0, 0, 0])
"""The chosen protection, and the longest message with another protection, in three bytes."""

_PRINCIPAL: Final = re.compile(r"(?P<name>[^/@]+)(?:/[^/@]*)?@(?P<realm>[^/@]*)")
"""A principal that Kafka's rules accept: a name, perhaps a host or a role, and a realm."""


class Context(Protocol):
    """The security context of one side, client or broker, of a connection. All methods raise SaslError."""

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
    """Run the client's side of GSSAPI. begin: makes a context. Both begin() and the first step of the context may request tickets from a
    server.
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
    """Return the first part of a principal, as user name. Raises SaslError for a principal of another realm, or with more parts: its name
    may belong to another user.
    """
    found = _PRINCIPAL.fullmatch(principal)
    if found is None or found["realm"] != broker.rpartition("@")[2]:
        raise SaslError(f"no rule says who {principal!r} is here")
    return found["name"]


def _protections(message: bytes) -> int:
    if len(message) < len(_AGREEMENT):
        raise SaslError("the last message of GSSAPI is too short")
    return message[0]
