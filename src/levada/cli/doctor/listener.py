"""What a listener speaks, from what it answers to a TLS handshake and to two requests of Kafka's protocol; and what that means.

A client knows only its own security.protocol: where that does not fit, the other side closes the connection and says no more. doctor asks
in both ways and can name the right one.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from levada.cli.doctor.findings import Finding, Status, Step

TLS_PROTOCOLS = ("SSL", "SASL_SSL")
LOGIN_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")


class Speaks(Enum):
    """What the bytes say that were received."""

    KAFKA = "Kafka's protocol"
    HTTP = "HTTP: this is a web server"
    SSH = "SSH"
    OTHER = "another protocol than Kafka's"
    NOTHING = "nothing"


class Listener(NamedTuple):
    """What is known of a listener.

    has_tls: whether it completed a TLS handshake. speaks: what came back for ApiVersions. mechanisms: of SASL, () where it has no
    login, None where that was not found out.
    """

    has_tls: bool
    speaks: Speaks
    mechanisms: tuple[str, ...] | None = None

    @property
    def protocol(self) -> str | None:
        """The security.protocol that suits it, None where that is not known."""
        if self.speaks is not Speaks.KAFKA or self.mechanisms is None:
            return None
        return {
            (False, False): "PLAINTEXT",
            (True, False): "SSL",
            (False, True): "SASL_PLAINTEXT",
            (True, True): "SASL_SSL",
        }[self.has_tls, bool(self.mechanisms)]


def mismatch(address: str, listener: Listener, ours: str) -> Finding | None:
    """Return what is wrong between a listener and our security.protocol, None where they fit."""
    if listener.speaks is not Speaks.KAFKA:
        return _no_broker(address, listener)
    if listener.has_tls != (ours in TLS_PROTOCOLS):
        found = "this listener speaks TLS" if listener.has_tls else "this listener does not speak TLS"
        return Finding(Step.TLS, Status.FAILED, address, f"{found}, and security.protocol={ours} does not fit", _set(listener, ours))
    if listener.mechanisms is not None and bool(listener.mechanisms) != (ours in LOGIN_PROTOCOLS):
        found = "this listener wants a login" if listener.mechanisms else "this listener has no login"
        return Finding(Step.LOGIN, Status.FAILED, address, f"{found}, and security.protocol={ours} does not fit", _set(listener, ours))
    return None


def _no_broker(address: str, listener: Listener) -> Finding | None:
    if listener.speaks is Speaks.NOTHING:
        # With TLS, the handshake was answered: a certificate of the client may be what is missing, and the client's own error tells.
        if listener.has_tls:
            return None
        found = "something accepts connections and does not answer Kafka's protocol, with TLS or without"
        return Finding(Step.VERSIONS, Status.FAILED, address, found, "check the port in bootstrap.servers, and what runs there")
    found = f"it speaks {listener.speaks.value}, and is no Kafka listener"
    return Finding(Step.VERSIONS, Status.FAILED, address, found, "check the port in bootstrap.servers")


def _set(listener: Listener, ours: str) -> str:
    protocol = listener.protocol
    if protocol is None:
        protocol = _with_tls(ours) if listener.has_tls else ours.replace("SASL_SSL", "SASL_PLAINTEXT").replace("SSL", "PLAINTEXT")
    advice = f"set security.protocol={protocol}"
    return f"{advice} and sasl.mechanism, one of {', '.join(listener.mechanisms)}" if listener.mechanisms else advice


def _with_tls(ours: str) -> str:
    return "SASL_SSL" if ours in LOGIN_PROTOCOLS else "SSL"
