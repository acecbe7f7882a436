"""The listeners of a broker. By which one a client came decides how it logs in, and which addresses it is told (KIP-103)."""

from __future__ import annotations

from dataclasses import dataclass

from levada.broker.access.logins import Logins

PLAINTEXT = "PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener, the same on every node of a cluster.

    name: of its own within the broker. protocol: one of PROTOCOLS; TLS is the driver's part. logins: who may log in, None where clients
    do not log in.
    """

    name: str = PLAINTEXT
    protocol: str = PLAINTEXT
    logins: Logins | None = None
