"""Tokens from a program's own function, and the checks of every token before it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from levada.credentials import OAuthToken, unanswered
from levada.errors import KafkaError, TokenError
from levada.net.sasl import jwt, oauthbearer

_LATEST_S: Final = 1e15
"""Limit of expires_at in seconds since the epoch, so that it can be converted to milliseconds. No real token reaches it."""


def called(provider: Any, finish: Callable[[Any], Any], extensions: Mapping[str, str]) -> OAuthToken:
    """Call a program's provider: a function, or an object with token() and optionally extensions(), like in other clients.

    finish: waits for a result if it is an awaitable, and returns it. Raises the provider's own KafkaError as it is. After other errors
    it raises TokenError: retriable after an error of the network (OSError), otherwise not, also if the result is not a token.
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
        # SystemExit as well: it would only end the helper thread, without a message.
        raise TokenError(f"the function that gives tokens raised {type(error).__name__}") from error
    if not isinstance(found, OAuthToken):
        raise TokenError(f"the function that gives tokens returned {type(found).__name__}; it must return str or levada.OAuthToken")
    return found


def checked(token: OAuthToken, now_s: float) -> tuple[float | None, OAuthToken]:
    """Return the seconds until a token expires, None if its expiry is not known; and the token.

    Raises TokenError: retriable if the token has expired, not retriable if it is invalid.
    """
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
    """Return an error text if a field of a program's token has a wrong type, "" otherwise. The text contains nothing of the token."""
    if not isinstance(token.value, str):
        return "it is not text"
    if token.expires_at is not None and not _is_moment(token.expires_at):
        return "its expires_at is not a number of seconds since the epoch"
    extensions = token.extensions
    if not isinstance(extensions, Mapping) or not all(isinstance(one, str) for pair in extensions.items() for one in pair):
        return "its extensions are not a mapping of text to text"
    return ""


def _is_moment(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < _LATEST_S
