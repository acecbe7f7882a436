"""Where a connection stands. The table below is the behaviour; nothing else changes a state.

    DISCONNECTED -> CONNECTING -> CHECKING_API_VERSIONS -> AUTHENTICATING -> READY

CONNECTING lasts until the transport carries application bytes: TCP is connected and, where there is TLS, its handshake is done. The
Selector moves it, and the connection's set-up timeout bounds it. From there on the set-up flow (`setup.flow`) moves the state, with one
event for each request that it sends; each of these is bounded by the request timeout. A step that is not needed is left out: a broker
whose versions are configured is not asked for them, and without SASL there is no authentication. READY is reached by the answer to the last
step and never before: with TLS 1.3 a server refuses a client's certificate after the client's handshake is done, so a finished handshake
proves nothing yet.

ENDED leads back from everywhere: closed by either side, timed out, refused. It cannot happen that a user's request goes out before
READY, or that a connection is in CHECKING_API_VERSIONS without that request on its way (it could hang there for ever).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ConnectionState(Enum):
    """See the module's theory."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking api versions"
    AUTHENTICATING = "authenticating"
    READY = "ready"


class ConnectionEvent(Enum):
    """What moves a connection."""

    BEGUN = "a connection was begun"
    ASKED_VERSIONS = "ApiVersions was sent"
    ASKED_TO_AUTHENTICATE = "a request of the authentication was sent"
    SET_UP = "the last step was answered"
    ENDED = "the connection ended, or was not made"


_S, _E = ConnectionState, ConnectionEvent

TRANSITIONS: Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]] = {
    _S.DISCONNECTED: {_E.BEGUN: _S.CONNECTING},
    _S.CONNECTING: {
        _E.ASKED_VERSIONS: _S.CHECKING_API_VERSIONS,
        _E.ASKED_TO_AUTHENTICATE: _S.AUTHENTICATING,
        _E.SET_UP: _S.READY,
        _E.ENDED: _S.DISCONNECTED,
    },
    _S.CHECKING_API_VERSIONS: {
        _E.ASKED_VERSIONS: _S.CHECKING_API_VERSIONS,
        _E.ASKED_TO_AUTHENTICATE: _S.AUTHENTICATING,
        _E.SET_UP: _S.READY,
        _E.ENDED: _S.DISCONNECTED,
    },
    _S.AUTHENTICATING: {
        _E.ASKED_TO_AUTHENTICATE: _S.AUTHENTICATING,
        _E.SET_UP: _S.READY,
        _E.ENDED: _S.DISCONNECTED,
    },
    _S.READY: {_E.ENDED: _S.DISCONNECTED},
}
