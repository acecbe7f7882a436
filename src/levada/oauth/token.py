"""Tokens of a program's own function, and what is looked at in every token before it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from levada.credentials import OAuthToken, unanswered
from levada.errors import KafkaError, TokenError
from levada.net.sasl import jwt, oauthbearer

_LATEST_S: Final = 1e15
"""Seconds since the epoch that no token reaches, and that can be counted in milliseconds."""


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
    except BaseException as error:
        # SystemExit too: it would end the helper's thread and nothing else.
        raise TokenError(f"the function that gives tokens raised {type(error).__name__}") from error
    if not isinstance(found, OAuthToken):
        raise TokenError(f"the function that gives tokens returned {type(found).__name__}; it returns str or levada.OAuthToken")
    return found


def checked(token: OAuthToken, now_s: float) -> tuple[float | None, OAuthToken]:
    """Return for how many seconds a token is good from now on, None where nobody says, and the token. Raises TokenError."""
    if fault := _wrong_type(token) or oauthbearer.fault_of(token.value, token.extensions):
        raise TokenError(f"the token cannot be sent: {fault}")
    try:
        expires_at = token.expires_at if token.expires_at is not None else jwt.expiry_s(token.value)
    except jwt.JwtError as error:
        raise TokenError(f"the token cannot be used: {error}") from None
    if expires_at is None:
        return None, token
    if expires_at <= now_s:
        raise unanswered(f"the token expired {now_s - expires_at:.0f} s ago; is this machine's clock right?")
    return expires_at - now_s, token


def _wrong_type(token: Any) -> str:
    """Return which field of a program's token is of another type than it has to be, "" for none. The text quotes nothing of it."""
    if not isinstance(token.value, str):
        return "it is no text"
    if token.expires_at is not None and not _is_moment(token.expires_at):
        return "its expires_at is no number of seconds since the epoch"
    extensions = token.extensions
    if not isinstance(extensions, Mapping) or not all(isinstance(one, str) for pair in extensions.items() for one in pair):
        return "its extensions are no mapping of text to text"
    return ""


def _is_moment(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < _LATEST_S
