"""When a broker is asked for its subscription again, after an error of either request (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from levada.base.clock import NEVER_MS
from levada.error_codes import ErrorCode

DEFAULT_INTERVAL_MS = 300_000
"""Between two pushes, and two attempts, where no broker has said how long."""


class Pause(Enum):
    """How long to wait before a broker is asked again."""

    NONE = "not at all"
    INTERVAL = "the push interval"
    FOR_EVER = "for ever: telemetry is off"


PAUSES: Mapping[ErrorCode, Pause] = {
    # The subscription has changed, or the broker has forgotten the client.
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: Pause.NONE,
    # Another codec is taken then.
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: Pause.NONE,
    ErrorCode.TELEMETRY_TOO_LARGE: Pause.INTERVAL,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Pause.INTERVAL,
    # What was sent is wrong, and would be the next time.
    ErrorCode.INVALID_REQUEST: Pause.FOR_EVER,
    ErrorCode.INVALID_RECORD: Pause.FOR_EVER,
    ErrorCode.UNSUPPORTED_VERSION: Pause.FOR_EVER,
}
"""Any other error waits for the interval, as Java's client does."""


def pause_ms(code: ErrorCode, interval_ms: int) -> int:
    """Return how many milliseconds to wait, NEVER_MS for ever."""
    pause = PAUSES.get(code, Pause.INTERVAL)
    return {Pause.NONE: 0, Pause.INTERVAL: interval_ms, Pause.FOR_EVER: NEVER_MS}[pause]
