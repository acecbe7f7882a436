"""A client's connection as the broker sees it: its listener, its session, and its waiting requests.

Requests of one connection are processed one at a time, in the order in which they came.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

from levada.broker.access.logins import Login, Logins

PLAINTEXT = "PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ANONYMOUS = "User:ANONYMOUS"

Frame: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener, with the same name and protocol on every node of a cluster.

    name: unique within the broker. protocol: one of PROTOCOLS; the driver handles TLS. logins: the users who may log in, None if clients
    need not log in.
    """

    name: str = PLAINTEXT
    protocol: str = PLAINTEXT
    logins: Logins | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """The client of one connection.

    address: host:port of the client, "" if the driver does not know it. listener: the listener to which the client has connected.
    principal: the authenticated principal. login: the state of the login, None on a listener without logins. is_refused: whether the login
    has failed, so that the connection is closed after the response. is_by_token: whether the client has logged in with a delegation token.

    client_id: the client id in the latest request, None before the first request or if it has none. software_name, software_version: the
    client's software, from ApiVersions (KIP-511); "" if unknown.
    """

    connection_id: int
    address: str = ""
    listener: Listener = field(default_factory=Listener)
    principal: str = ANONYMOUS
    login: Login | None = None
    is_refused: bool = False
    client_id: str | None = None
    is_by_token: bool = False
    software_name: str = ""
    software_version: str = ""

    @property
    def host(self) -> str:
        """The client's host name or IP address, without the port."""
        return self.address.rsplit(":", 1)[0].strip("[]")

    def __str__(self) -> str:
        origin = f" from {self.address}" if self.address else ""
        # The client chooses its id: repr() keeps line breaks out of logs.
        return f"connection {self.connection_id}{origin}, client {self.client_id!r}"


class Connection:
    """A connection and its requests. muted: whether no further request is processed now, because the response to the last one was not sent
    or the client is throttled. waiting: requests that were received while the connection was muted.
    """

    __slots__ = ("id", "muted", "session", "waiting")

    def __init__(self, session: Session) -> None:
        self.id = session.connection_id
        self.session = session
        self.muted = False
        self.waiting: deque[Frame] = deque()
