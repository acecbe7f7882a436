"""Who is at the other end of a connection: what handlers go by when they decide what it may do and how it is served."""

from __future__ import annotations

from dataclasses import dataclass, field

from levada.broker.access.logins import Login
from levada.broker.network.listeners import Listener

ANONYMOUS = "User:ANONYMOUS"


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
