"""Tokens of a program's own function, and what is looked at in every token before it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from levada.credentials import OAuthToken
from levada.errors import KafkaError, TokenError
from levada.net.sasl import jwt, oauthbearer


def unanswered(message: str) -> TokenError:
    """Return the error for a token that nobody has refused: the client tries again by itself."""
    error = TokenError(message)
    error.retriable = True
    return error


def called(provider: Any, finish: Callable[[Any], Any], extensions: Mapping[str, str]) -> OAuthToken:
    """Call a program's provider: a function, or an object with token() and, if it likes, extensions(), as other clients have them.

    finish: returns the result of an awaitable. Raises TokenError, which says whether another attempt makes sense: after an error of the
    network it does, after any other it does not.
    """
    function = getattr(provider, "token", provider)
    try:
        found = finish(function())
        if isinstance(found, str):
            added = getattr(provider, "extensions", None)
            found = OAuthToken(found, None, {**extensions, **(finish(added()) if callable(added) else {})})
    except KafkaError:
        raise
    except OSError as error:
        raise unanswered(f"the function that gives tokens raised {type(error).__name__}") from error
    except Exception as error:
        raise TokenError(f"the function that gives tokens raised {type(error).__name__}") from error
    if not isinstance(found, OAuthToken):
        raise TokenError(f"the function that gives tokens returned {type(found).__name__}; it returns str or levada.OAuthToken")
    return found


def checked(token: OAuthToken, now_s: float) -> tuple[float | None, OAuthToken]:
    """Return for how many seconds a token is good from now on, None where nobody says, and the token. Raises TokenError."""
    if not isinstance(token.value, str) or (fault := oauthbearer.fault_of(token.value, token.extensions)):
        raise TokenError(f"the token cannot be sent: {fault if isinstance(token.value, str) else 'it is no text'}")
    try:
        expires_at = token.expires_at if token.expires_at is not None else jwt.expiry_s(token.value)
    except jwt.JwtError as error:
        raise TokenError(f"the token cannot be used: {error}") from None
    if expires_at is None:
        return None, token
    if expires_at <= now_s:
        raise unanswered(f"the token expired {now_s - expires_at:.0f} s ago; is this machine's clock right?")
    return expires_at - now_s, token
