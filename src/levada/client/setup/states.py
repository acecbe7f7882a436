"""The states of a connection. The table below has all transitions; nothing else changes a state.

    DISCONNECTED -> CONNECTING -> CHECKING_API_VERSIONS -> AUTHENTICATING -> READY <-> REAUTHENTICATING

CONNECTING lasts until the transport can send application bytes: TCP is connected, and the TLS handshake, if there is one, is done. The
Selector does this, within the set-up timeout (socket.connection.setup.timeout.ms, which grows after failures). Then the set-up flow
(`setup.flow`) changes the state, with one event for each request that it sends; the request timeout limits each request. Steps that are not
needed are left out: ApiVersions if the versions are configured, authentication without SASL. READY follows the response to the last request
of the flow, because a finished handshake proves nothing: with TLS 1.3 a server refuses a client's certificate after the client's handshake
is done.

In AUTHENTICATING the flow may wait for something other than the broker, such as a token; the request timeout limits this wait, too. If a
broker limits the lifetime of a session (KIP-368), the first request after most of the lifetime has to wait: the connection changes from
READY to REAUTHENTICATING. Requests that were sent before still get their responses, because responses come in the order of requests. No
other request is sent between the messages of the authentication.

ENDED leads from every state to DISCONNECTED: either side closed the connection, a timeout ended it, or the broker refused it. What can
never happen: a request of the program is sent before READY or in REAUTHENTICATING; a connection is being set up without a request in flight
or a wait with a deadline, so that it hangs without end.
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
