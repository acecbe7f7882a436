"""What a program may give a client to log in with, beside a password: tokens, what gives them, and mechanisms of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from levada.errors import TokenError


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token that somebody else gave out, and until when it is good.

    value: the token itself; shown nowhere. expires_at: seconds since the epoch; None takes it from the token where that is a JSON web
    token. Where that has none either, only the logins that wait for the token use it. extensions: names and values for the broker
    (KIP-342).
    """

    value: str = field(repr=False)
    expires_at: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


class TokenProvider(Protocol):
    """An object that gives tokens, as other Python clients have it; it may also have extensions(), which returns a mapping."""

    def token(self) -> str | OAuthToken | Awaitable[str | OAuthToken]:
        """Return a token; an awaitable on asyncio only."""
        ...


class SaslError(Exception):
    """The other side's message is not what the mechanism allows, or does not prove what it has to. The text names no secret."""


def unanswered(message: str) -> TokenError:
    """Return a retriable error: a token or ticket could not be fetched, but nobody refused it."""
    error = TokenError(message)
    error.retriable = True
    return error


class BlockingStep(NamedTuple):
    """What takes long or waits for somebody else, such as a ticket server: `run` is called in a thread of its own.

    The exchange is resumed with what it returns, or has its error thrown in.
    """

    run: Callable[[], Any]


Exchange: TypeAlias = Generator[bytes | BlockingStep, Any, None]
"""A client's part of one login. It yields bytes to say, and is resumed with the broker's answer; or a BlockingStep, and is resumed with its
result. It returns once the broker is believed, and raises SaslError otherwise.
"""


Messages: TypeAlias = Generator[bytes, bytes, None]
"""An Exchange that waits for the broker only."""


class SaslMechanism(Protocol):
    """A way to log in, for `sasl.mechanism`. `begin` is called for each connection, and each time that one authenticates again.

    It runs while the client holds its lock: it must not wait for anything, but yield BlockingStep. name: as brokers know it.
    """

    @property
    def name(self) -> str:
        """What SaslHandshake asks for."""
        ...

    def begin(self, host: str) -> Exchange:
        """Return the exchange for a connection to this host, as bootstrap.servers or the broker's metadata name it."""
        ...
