"""A client's connection as the broker sees it: the listener by which it came, who is at its other end, and the requests that wait.

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
    """One listener, the same on every node of a cluster.

    name: of its own within the broker. protocol: one of PROTOCOLS; TLS is the driver's part. logins: who may log in, None where clients
    do not log in.
    """

    name: str = PLAINTEXT
    protocol: str = PLAINTEXT
    logins: Logins | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One connection's client.

    address: host:port of the other end, "" when the driver has none. listener: by which it came. principal: as whom it is authenticated.
    login: how far it has come, None on a listener without logins. is_refused: it failed, and the connection ends with the answer that
    says so. is_by_token: it has logged in with a delegation token.
    client_id: of its latest request, None before the first one and for a client that sends none. software_name, software_version: what it
    said in ApiVersions (KIP-511), "" if it did not.
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
        """The address of the other end, without the port."""
        return self.address.rsplit(":", 1)[0].strip("[]")

    def __str__(self) -> str:
        origin = f" from {self.address}" if self.address else ""
        # A client id is the client's text: repr() keeps line breaks out of logs.
        return f"connection {self.connection_id}{origin}, client {self.client_id!r}"


class Connection:
    """session: whose it is. muted: a request is being processed or its answer withheld. waiting: frames that came in meanwhile."""

    __slots__ = ("id", "muted", "session", "waiting")

    def __init__(self, session: Session) -> None:
        self.id = session.connection_id
        self.session = session
        self.muted = False
        self.waiting: deque[Frame] = deque()
