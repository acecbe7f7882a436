"""Where the telemetry of a client stands (KIP-714). The table below is the behaviour; nothing else changes a state.

    SUBSCRIPTION_NEEDED -> SUBSCRIPTION_IN_PROGRESS -> PUSH_NEEDED <-> PUSH_IN_PROGRESS
    close(): PUSH_NEEDED -> TERMINATING_PUSH_NEEDED -> TERMINATING_PUSH_IN_PROGRESS -> TERMINATED

A broker is asked for its subscription first: which metrics it wants, how often, in which form. The NEEDED states wait for a time, the
IN_PROGRESS ones for an answer, so there is never more than one request under way. A broker that wants nothing is asked again after its
interval. Whatever goes wrong leads back to SUBSCRIPTION_NEEDED: the subscription may have changed, or another broker has to be asked. How
long to wait before that depends on the error (PAUSES).

A client that is closed pushes once more, if it has a subscription: the program may have run for less than one interval. Without one there
is nobody to tell. What can never happen: that anything is sent after TERMINATED, that a second terminating push is sent, which brokers
refuse, and that metrics are pushed that no subscription asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from levada.base.clock import NEVER_MS
from levada.error_codes import ErrorCode


class State(Enum):
    """The states of client telemetry, with the names of Java's ClientTelemetryState."""

    SUBSCRIPTION_NEEDED = "subscription needed"
    SUBSCRIPTION_IN_PROGRESS = "subscription in progress"
    PUSH_NEEDED = "push needed"
    PUSH_IN_PROGRESS = "push in progress"
    TERMINATING_PUSH_NEEDED = "terminating push needed"
    TERMINATING_PUSH_IN_PROGRESS = "terminating push in progress"
    TERMINATED = "terminated"


class Event(Enum):
    """An event that changes the state of client telemetry."""

    ASKED = "a broker is asked for its subscription"
    SUBSCRIBED = "the broker wants metrics"
    NOTHING_WANTED = "the broker wants no metrics"
    PUSHING = "metrics are on their way"
    PUSHED = "the broker took them"
    FAILED = "a request failed or was refused"
    CLOSING = "the client is being closed"
    ENDED = "nothing is sent any more"


_S, _E = State, Event

TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    _S.SUBSCRIPTION_NEEDED: {
        _E.ASKED: _S.SUBSCRIPTION_IN_PROGRESS,
        _E.CLOSING: _S.TERMINATED,
        _E.ENDED: _S.TERMINATED,
    },
    _S.SUBSCRIPTION_IN_PROGRESS: {
        _E.SUBSCRIBED: _S.PUSH_NEEDED,
        _E.NOTHING_WANTED: _S.SUBSCRIPTION_NEEDED,
        _E.FAILED: _S.SUBSCRIPTION_NEEDED,
        _E.CLOSING: _S.TERMINATED,
        _E.ENDED: _S.TERMINATED,
    },
    _S.PUSH_NEEDED: {
        _E.PUSHING: _S.PUSH_IN_PROGRESS,
        _E.CLOSING: _S.TERMINATING_PUSH_NEEDED,
        _E.ENDED: _S.TERMINATED,
    },
    _S.PUSH_IN_PROGRESS: {
        _E.PUSHED: _S.PUSH_NEEDED,
        _E.FAILED: _S.SUBSCRIPTION_NEEDED,
        _E.CLOSING: _S.TERMINATING_PUSH_NEEDED,
        _E.ENDED: _S.TERMINATED,
    },
    _S.TERMINATING_PUSH_NEEDED: {
        _E.PUSHING: _S.TERMINATING_PUSH_IN_PROGRESS,
        _E.ENDED: _S.TERMINATED,
    },
    _S.TERMINATING_PUSH_IN_PROGRESS: {
        _E.PUSHED: _S.TERMINATED,
        _E.FAILED: _S.TERMINATED,
        _E.ENDED: _S.TERMINATED,
    },
    _S.TERMINATED: {
        _E.CLOSING: _S.TERMINATED,
        _E.ENDED: _S.TERMINATED,
    },
}


DEFAULT_INTERVAL_MS = 300_000
"""The time between two pushes, and between two attempts, before a broker has given a push interval."""


class Pause(Enum):
    """How long to wait before the subscription is requested again."""

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
"""Error codes of both requests. All others wait for the push interval, as in Java's client."""


def pause_ms(code: ErrorCode, interval_ms: int) -> int:
    """Return the pause after an error code in ms; NEVER_MS if it never ends. interval_ms: the push interval."""
    pause = PAUSES.get(code, Pause.INTERVAL)
    return {Pause.NONE: 0, Pause.INTERVAL: interval_ms, Pause.FOR_EVER: NEVER_MS}[pause]
