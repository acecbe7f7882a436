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
    """A listener, the same on every node of a cluster.

    name: unique within the broker. protocol: one of PROTOCOLS; TLS itself is done by the driver. logins: who may log in, None if clients
    need not log in.
    """

    name: str = PLAINTEXT
    protocol: str = PLAINTEXT
    logins: Logins | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """The client of one connection.

    address: host:port of the client, "" if the driver has none. listener: the one that it has connected to. principal: the authenticated
    one. login: the state of its login, None on a listener without logins. is_refused: the login has failed, and the connection is closed
    after the response. is_by_token: the client has logged in with a delegation token.
    client_id: of its latest request, None before the first one and for a client that sends none. software_name, software_version: from
    ApiVersions (KIP-511), "" if they were not sent.
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
        """The client's address without the port."""
        return self.address.rsplit(":", 1)[0].strip("[]")

    def __str__(self) -> str:
        origin = f" from {self.address}" if self.address else ""
        # The client chooses its id: repr() keeps line breaks out of logs.
        return f"connection {self.connection_id}{origin}, client {self.client_id!r}"


class Connection:
    """A connection. muted: a request is in process or its response is withheld. waiting: requests that were received meanwhile."""

    __slots__ = ("id", "muted", "session", "waiting")

    def __init__(self, session: Session) -> None:
        self.id = session.connection_id
        self.session = session
        self.muted = False
        self.waiting: deque[Frame] = deque()
