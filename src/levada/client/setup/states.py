"""Where a connection stands. The table below is the behaviour; nothing else changes a state.

    DISCONNECTED -> CONNECTING -> CHECKING_API_VERSIONS -> AUTHENTICATING -> READY <-> REAUTHENTICATING

CONNECTING lasts until the transport carries application bytes: TCP is connected and, where there is TLS, its handshake is done. The
Selector moves it, and the connection's set-up timeout bounds it. From there on the set-up flow (`setup.flow`) moves the state, with one
event for each request that it sends; each of these is bounded by the request timeout. A step that is not needed is left out: a broker
whose versions are configured is not asked for them, and without SASL there is no authentication. READY is reached by the answer to the last
step and never before: with TLS 1.3 a server refuses a client's certificate after the client's handshake is done, so a finished handshake
proves nothing yet.

While AUTHENTICATING the flow may wait for something that no broker answers, such as a token; the request timeout bounds that, too. Where a
broker believes who we are only for some time (KIP-368), the first request after most of that time has to wait: the connection goes from
READY to REAUTHENTICATING. Requests that were sent before are answered meanwhile, as answers come in the order of requests, and nothing is
sent between the messages of the login.

ENDED leads back from everywhere: closed by either side, timed out, refused. It cannot happen that a user's request goes out before
READY or while REAUTHENTICATING, or that a connection is being set up while neither a request is on its way nor a wait has a deadline (it
could hang there for ever).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ConnectionState(Enum):
    """The states of a connection."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking api versions"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    REAUTHENTICATING = "authenticating again"


class ConnectionEvent(Enum):
    """An event that changes the state of a connection."""

    BEGUN = "a connection was begun"
    ASKED_VERSIONS = "ApiVersions was sent"
    ASKED_TO_AUTHENTICATE = "a request of the authentication was sent"
    WAITS_FOR_CREDENTIALS = "the authentication waits for a token or the like"
    SESSION_ENDS = "the session is about to end"
    SET_UP = "the last step was answered"
    ENDED = "the connection ended, or was not made"


BEING_SET_UP = frozenset({ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS, ConnectionState.AUTHENTICATING})
ESTABLISHED = frozenset({ConnectionState.READY, ConnectionState.REAUTHENTICATING})
"""The states of a connection that was set up and has not ended."""

_S, _E = ConnectionState, ConnectionEvent

TRANSITIONS: Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]] = {
    _S.DISCONNECTED: {_E.BEGUN: _S.CONNECTING},
    _S.CONNECTING: {
        _E.ASKED_VERSIONS: _S.CHECKING_API_VERSIONS,
        _E.ASKED_TO_AUTHENTICATE: _S.AUTHENTICATING,
        _E.WAITS_FOR_CREDENTIALS: _S.AUTHENTICATING,
        _E.SET_UP: _S.READY,
        _E.ENDED: _S.DISCONNECTED,
    },
    _S.CHECKING_API_VERSIONS: {
        _E.ASKED_VERSIONS: _S.CHECKING_API_VERSIONS,
        _E.ASKED_TO_AUTHENTICATE: _S.AUTHENTICATING,
        _E.WAITS_FOR_CREDENTIALS: _S.AUTHENTICATING,
        _E.SET_UP: _S.READY,
        _E.ENDED: _S.DISCONNECTED,
    },
    _S.AUTHENTICATING: {
        _E.ASKED_TO_AUTHENTICATE: _S.AUTHENTICATING,
        _E.WAITS_FOR_CREDENTIALS: _S.AUTHENTICATING,
        _E.SET_UP: _S.READY,
        _E.ENDED: _S.DISCONNECTED,
    },
    _S.READY: {_E.SESSION_ENDS: _S.REAUTHENTICATING, _E.ENDED: _S.DISCONNECTED},
    _S.REAUTHENTICATING: {
        _E.ASKED_TO_AUTHENTICATE: _S.REAUTHENTICATING,
        _E.WAITS_FOR_CREDENTIALS: _S.REAUTHENTICATING,
        _E.SET_UP: _S.READY,
        _E.ENDED: _S.DISCONNECTED,
    },
}
