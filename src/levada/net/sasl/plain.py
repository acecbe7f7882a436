"""PLAIN (RFC 4616): user and password in clear text, so use TLS."""

from __future__ import annotations

from levada.credentials import Messages, SaslError


def client(user: str, password: str) -> Messages:
    """Run the client's side of PLAIN: send user and password. The broker does not authenticate itself."""
    yield b"\0".join([b"", user.encode(), password.encode()])


def parsed(message: bytes) -> tuple[str, str]:
    """Return the user and the password in a client's message.

    Raises SaslError for an invalid message, and if the client wants to act as another user.
    """
    try:
        acting_as, user, password = message.decode().split("\0")
    except ValueError as error:
        raise SaslError("a message of PLAIN has three parts, separated by zero bytes") from error
    if not user or not password or acting_as not in ("", user):
        raise SaslError("a message of PLAIN has a user and a password, and the user acts as nobody else")
    return user, password
