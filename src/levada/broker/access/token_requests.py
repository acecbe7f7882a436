"""Who may ask for delegation tokens: whoever has logged in, and not with a token (KIP-48)."""

from __future__ import annotations

from collections.abc import Callable

from levada.broker.network.listeners import PLAINTEXT
from levada.broker.network.session import ANONYMOUS, Session
from levada.broker.node.state import Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

FIRST_VERSION_WITH_REQUESTERS = 3
"""Of the APIs that describe tokens (KIP-373)."""
NEVER_MS = -1
"""Stands for a time where there is an error instead."""


def check_allowed(session: Session) -> None:
    """Raise BrokerError (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED) for a client that cannot be sure to be who it says, or has only a token."""
    if session.listener.protocol == PLAINTEXT or session.principal == ANONYMOUS or session.is_by_token:
        raise BrokerError(
            "delegation tokens are for clients that have logged in, and not with a token",
            code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        )


def new_expiry(call: Call, change: Callable[[bytes, int, str, int], int], token_hmac: bytes, period_ms: int) -> tuple[ErrorCode, int]:
    """Change when a token ends; return the error code of the answer, and its time, 0 where the token or the user is refused."""
    try:
        check_allowed(call.session)
    except BrokerError as error:
        return error.code, NEVER_MS
    try:
        return ErrorCode.NONE, change(token_hmac, period_ms, call.session.principal, call.wall_ms)
    except BrokerError as error:
        return error.code, 0
