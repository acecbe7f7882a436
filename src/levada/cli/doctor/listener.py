"""Finds the security.protocol that a listener needs, from its answers to a TLS handshake and to two Kafka requests.

If a client uses the wrong security.protocol, the broker closes the connection and gives no reason. doctor therefore tries with TLS and
without, and can name the right security.protocol.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from levada.cli.doctor.findings import Finding, Status, Step

TLS_PROTOCOLS = ("SSL", "SASL_SSL")
LOGIN_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")


class Speaks(Enum):
    """The protocol of the bytes that an address answered."""

    KAFKA = "Kafka's protocol"
    HTTP = "HTTP, like a web server"
    SSH = "SSH"
    OTHER = "another protocol"
    NOTHING = "nothing"


class Listener(NamedTuple):
    """The properties of a listener that doctor found.

    has_tls: whether the listener answered a TLS handshake. speaks: the protocol of its answer to ApiVersions. mechanisms: its SASL
    mechanisms; () if it has no login, None if unknown.
    """

    has_tls: bool
    speaks: Speaks
    mechanisms: tuple[str, ...] | None = None

    @property
    def protocol(self) -> str | None:
        """The security.protocol that this listener needs, or None if unknown."""
        if self.speaks is not Speaks.KAFKA or self.mechanisms is None:
            return None
        return {
            (False, False): "PLAINTEXT",
            (True, False): "SSL",
            (False, True): "SASL_PLAINTEXT",
            (True, True): "SASL_SSL",
        }[self.has_tls, bool(self.mechanisms)]


def mismatch(address: str, listener: Listener, ours: str) -> Finding | None:
    """Return the finding if an address is no Kafka listener, or one that needs another security.protocol than ours.

    None if there is nothing wrong, or if the client's own error will tell more.
    """
    if listener.speaks is not Speaks.KAFKA:
        return _no_broker(address, listener)
    if listener.has_tls != (ours in TLS_PROTOCOLS):
        found = "this listener speaks TLS" if listener.has_tls else "this listener does not speak TLS"
        return Finding(Step.TLS, Status.FAILED, address, f"{found}, but this client has security.protocol={ours}", _set(listener, ours))
    if listener.mechanisms is not None and bool(listener.mechanisms) != (ours in LOGIN_PROTOCOLS):
        found = "this listener wants a login" if listener.mechanisms else "this listener has no login"
        return Finding(Step.LOGIN, Status.FAILED, address, f"{found}, but this client has security.protocol={ours}", _set(listener, ours))
    return None


def _no_broker(address: str, listener: Listener) -> Finding | None:
    if listener.speaks is Speaks.NOTHING:
        # The TLS handshake was answered, so the listener may require a client certificate. The client's own error will say so.
        if listener.has_tls:
            return None
        found = "a process accepts connections but does not answer Kafka's protocol, neither with TLS nor without"
        return Finding(Step.VERSIONS, Status.FAILED, address, found, "check the port in bootstrap.servers, and what runs there")
    found = f"this is not a Kafka listener: it speaks {listener.speaks.value}"
    return Finding(Step.VERSIONS, Status.FAILED, address, found, "check the port in bootstrap.servers")


def _set(listener: Listener, ours: str) -> str:
    protocol = listener.protocol
    if protocol is None:
        protocol = _with_tls(ours) if listener.has_tls else ours.replace("SASL_SSL", "SASL_PLAINTEXT").replace("SSL", "PLAINTEXT")
    advice = f"set security.protocol={protocol}"
    return f"{advice} and sasl.mechanism, one of {', '.join(listener.mechanisms)}" if listener.mechanisms else advice


def _with_tls(ours: str) -> str:
    return "SASL_SSL" if ours in LOGIN_PROTOCOLS else "SSL"
