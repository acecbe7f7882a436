"""Findings about one bootstrap address: host name, port, TLS, versions and login. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from levada.cli.doctor.findings import Finding, Status, Step
from levada.cli.doctor.listener import LOGIN_PROTOCOLS, TLS_PROTOCOLS
from levada.cli.doctor.probe import Reached, Resolved
from levada.errors import (
    AuthenticationError,
    BootstrapError,
    KafkaError,
    ProxyAuthenticationError,
    SslAuthenticationError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)

_ADVICE_ON_LOGIN = (
    "the user or the password is wrong, or the broker does not know this user for this sasl.mechanism: check sasl.username and "
    "sasl.password; `levada users list`, run as a user that can log in, shows for which SCRAM mechanisms each user was created"
)


def resolved(host: str, found: Resolved) -> Finding:
    """Return the finding about the DNS look-up of a host name."""
    if found.fault is not None:
        advice = "check the spelling in bootstrap.servers, this machine's DNS and /etc/hosts; inside a container, host names may differ"
        return Finding(Step.DNS, Status.FAILED, host, f"the name does not resolve: {found.fault}", advice)
    return Finding(Step.DNS, Status.OK, host, f"{', '.join(found.addresses)} ({found.took_ms:.0f} ms)")


def reached(address: str, found: Sequence[Reached]) -> Finding:
    """Return the finding about a port. found: the result of connecting, for each address of the host name."""
    good = [one for one in found if one.fault is None]
    bad = [one for one in found if one.fault is not None]
    # "localhost" often has two addresses, and a broker listens on one of them. A client tries both.
    if good and bad and not all(ip_address(one.address.partition("%")[0]).is_loopback for one in bad):
        failing = ", ".join(f"{one.address} ({one.fault})" for one in bad)
        text = f"some addresses of this name accept no connections: {failing}"
        return Finding(Step.TCP, Status.WARNING, address, text, "remove these from the DNS entry, or let the broker listen on them")
    if good:
        return Finding(Step.TCP, Status.OK, address, f"accepts connections ({good[0].took_ms:.0f} ms)")
    text = "; ".join(dict.fromkeys(f"{one.address}: {one.fault}" for one in bad))
    return Finding(Step.TCP, Status.FAILED, address, f"no connection: {text}", _advice_on_tcp(bad))


def _advice_on_tcp(found: Sequence[Reached]) -> str:
    if any("refused" in (one.fault or "").lower() for one in found):
        return "nothing listens there: is the broker up, and is this the port of its listener?"
    return "a firewall, a security group or a route drops packets, or the host is down"


def connected(address: str, error: KafkaError | None, security_protocol: str) -> list[Finding]:
    """Return the findings about TLS, versions and login after a client asked for metadata. error: why that failed, or None."""
    if error is None:
        return _well_until(Step.METADATA, address, security_protocol)
    return [*_well_until(_step_of(error), address, security_protocol), _failed(address, error)]


def _well_until(step: Step, address: str, security_protocol: str) -> list[Finding]:
    """Return the good findings of the steps before `step`: a client reaches it only after they succeeded."""
    texts: Mapping[Step, str | None] = {
        Step.TLS: "the certificate is accepted" if security_protocol in TLS_PROTOCOLS else None,
        Step.VERSIONS: "a Kafka broker answers",
        Step.LOGIN: "the login is accepted" if security_protocol in LOGIN_PROTOCOLS else None,
    }
    order = tuple(Step)
    return [
        Finding(done, Status.OK, address, text)
        for done, text in texts.items()
        if text is not None and order.index(done) < order.index(step)
    ]


def _step_of(error: KafkaError) -> Step:
    if isinstance(error, ProxyAuthenticationError):
        return Step.TCP
    if isinstance(error, SslAuthenticationError):
        return Step.TLS
    if isinstance(error, AuthenticationError):
        return Step.LOGIN
    return Step.VERSIONS


def _failed(address: str, error: KafkaError) -> Finding:
    step = _step_of(error)
    return Finding(step, Status.FAILED, address, _text(address, error), _advice(error))


def _text(address: str, error: KafkaError) -> str:
    text = next(iter(error.causes.values()), str(error)) if isinstance(error, BootstrapError) else str(error)
    return text.removeprefix(f"{address}: ")


def _advice(error: KafkaError) -> str:
    if isinstance(error, UnsupportedSaslMechanismError):
        return "set sasl.mechanism to one that the listener offers"
    if isinstance(error, SslAuthenticationError | ProxyAuthenticationError):
        # The error's text already names the setting to check.
        return ""
    if isinstance(error, AuthenticationError):
        return _ADVICE_ON_LOGIN
    if isinstance(error, UnsupportedVersionError):
        return "see broker.version.fallback for brokers before 0.10"
    return ""
