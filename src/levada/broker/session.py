"""Who is at the other end of a connection: what handlers go by when they decide what it may do and how it is served."""

from __future__ import annotations

from dataclasses import dataclass

ANONYMOUS = "User:ANONYMOUS"
PLAINTEXT = "PLAINTEXT"


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One connection's client.

    address: host:port of the other end, "" when the driver has none. listener: by which it came. principal: as whom it is authenticated.
    client_id: of its latest request, None before the first one and for a client that sends none. software_name, software_version: what it
    said in ApiVersions (KIP-511), "" if it did not.
    """

    connection_id: int
    address: str = ""
    listener: str = PLAINTEXT
    principal: str = ANONYMOUS
    client_id: str | None = None
    software_name: str = ""
    software_version: str = ""

    def __str__(self) -> str:
        origin = f" from {self.address}" if self.address else ""
        # A client id is the client's text: repr() keeps line breaks out of logs.
        return f"connection {self.connection_id}{origin}, client {self.client_id!r}"
