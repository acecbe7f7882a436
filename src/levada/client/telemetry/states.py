"""The states of a client's telemetry (KIP-714). The table below has all transitions; nothing else changes a state.

    SUBSCRIPTION_NEEDED -> SUBSCRIPTION_IN_PROGRESS -> PUSH_NEEDED <-> PUSH_IN_PROGRESS
    close(): PUSH_NEEDED -> TERMINATING_PUSH_NEEDED -> TERMINATING_PUSH_IN_PROGRESS -> TERMINATED

The client first requests a broker's subscription: which metrics to push, how often, in which form. In SUBSCRIPTION_NEEDED and PUSH_NEEDED
the client waits until a time; in an IN_PROGRESS state it waits for a response. So at most one request is in flight. If the broker
subscribes to no metrics, the client requests the subscription again after the push interval. Every error leads back to SUBSCRIPTION_NEEDED,
because the subscription may have changed, or another broker has to be asked. The pause before the next request depends on the error
(PAUSES).

close() pushes once more if a subscription to metrics is known, because the program may have run for less than one interval. An error then
leads to TERMINATED. What can never happen: the client sends a request after TERMINATED; it sends a second terminating push, which brokers
refuse; it pushes metrics to which no broker subscribes.
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
"""The push interval, and the pause after an error, until a broker has sent a push interval."""


class Pause(Enum):
    """How long to wait before the subscription is requested again."""

    NONE = "not at all"
    INTERVAL = "the push interval"
    FOR_EVER = "for ever: telemetry is off"


PAUSES: Mapping[ErrorCode, Pause] = {
    # The subscription has changed, or the broker has forgotten the client.
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: Pause.NONE,
    # The client does not use this codec again.
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: Pause.NONE,
    ErrorCode.TELEMETRY_TOO_LARGE: Pause.INTERVAL,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Pause.INTERVAL,
    # The next request would have the same fault.
    ErrorCode.INVALID_REQUEST: Pause.FOR_EVER,
    ErrorCode.INVALID_RECORD: Pause.FOR_EVER,
    ErrorCode.UNSUPPORTED_VERSION: Pause.FOR_EVER,
}
"""The pauses after error codes of GetTelemetrySubscriptions and PushTelemetry. For other codes it is the push interval, as in Java."""


def pause_ms(code: ErrorCode, interval_ms: int) -> int:
    """Return how many ms to pause after an error code; NEVER_MS if telemetry is off. interval_ms: the push interval."""
    pause = PAUSES.get(code, Pause.INTERVAL)
    return {Pause.NONE: 0, Pause.INTERVAL: interval_ms, Pause.FOR_EVER: NEVER_MS}[pause]
