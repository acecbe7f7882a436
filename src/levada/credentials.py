"""The credentials, other than passwords, that a program may give a client: tokens, token providers and SASL mechanisms of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from levada.errors import TokenError


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """An OAuth token, and the time at which it expires.

    value: the token itself, which is never logged or shown. expires_at: seconds since the epoch; None takes the time from the token, if it
    is a JSON web token. Without a known time only the logins that are waiting for the token use it. extensions: names and values for the
    broker (KIP-342).
    """

    value: str = field(repr=False)
    expires_at: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


class TokenProvider(Protocol):
    """An object that provides tokens, as in other Python clients. It may also have a method extensions() that returns a mapping."""

    def token(self) -> str | OAuthToken | Awaitable[str | OAuthToken]:
        """Return a token. It may be an awaitable in the asyncio API only."""
        ...


class SaslError(Exception):
    """The other side's message violates the mechanism, or does not prove the other side's identity. The text contains no secrets."""


def unanswered(message: str) -> TokenError:
    """Return a retriable error: a token or ticket could not be fetched, but was not refused either."""
    error = TokenError(message)
    error.retriable = True
    return error


class BlockingStep(NamedTuple):
    """A step of a login that may block, for example a request to a ticket server. The client calls `run` in a separate thread.

    Then the exchange is resumed with the result of `run`, or the error of `run` is raised in the exchange.
    """

    run: Callable[[], Any]


Exchange: TypeAlias = Generator[bytes | BlockingStep, Any, None]
"""The client's side of one authentication, as a generator.

It yields the bytes of a message, and is resumed with the broker's answer. Or it yields a BlockingStep, and is resumed with the result of
`run`, or the error of `run` is raised in it. It returns when the authentication is complete on the client's side, and raises SaslError if
the broker's answer is not acceptable.
"""


Messages: TypeAlias = Generator[bytes, bytes, None]
"""An Exchange that yields no BlockingStep."""


class SaslMechanism(Protocol):
    """A SASL mechanism of the program, for `sasl.mechanism`.

    begin() is called for each authentication and re-authentication of a connection. begin() and the exchange run while the client holds its
    lock, so they must not block: the exchange yields a BlockingStep for a call that may block.
    """

    @property
    def name(self) -> str:
        """The mechanism's name in the SaslHandshake request."""
        ...

    def begin(self, host: str) -> Exchange:
        """Return the exchange for a connection to this host. host: the name in bootstrap.servers or in the metadata."""
        ...
