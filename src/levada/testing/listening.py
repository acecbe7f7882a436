"""The listeners of an EmbeddedKafka: which protocols they have, how they are served, and the settings of their clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from socket import socket
from typing import Any, Literal

from levada.base.text import did_you_mean
from levada.broker.access.aws import AwsAccounts
from levada.broker.access.logins import Logins, ValidateToken, validate_unsecured
from levada.broker.cluster.cluster import Access
from levada.broker.network.connection import PLAINTEXT, PROTOCOLS, Listener
from levada.broker.network.server import Endpoint
from levada.errors import ConfigError
from levada.net.sasl.kerberos import Keytab
from levada.net.transport import PlaintextTransport, TransportLayer
from levada.testing.security import Authority, Tls

Security = Tls | Literal["SSL"] | None
OAuth = ValidateToken | Literal["unsecured"] | None
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")


class Listening:
    """The listeners of each broker of an EmbeddedKafka. protocols: their security protocols by listener name, in order.

    listeners: as in EmbeddedKafka; None for a single listener, which has TLS if `security` is given and SASL if there are logins. Raises
    ConfigError if `listeners` contradicts `security` or `has_logins`.
    """

    def __init__(self, listeners: Mapping[str, str] | Sequence[str] | None, security: Security, *, has_logins: bool) -> None:
        self.protocols = _protocols(listeners, security, has_logins=has_logins)
        has_tls = any(protocol in TLS_PROTOCOLS for protocol in self.protocols.values())
        self._trust, self._transport = _secured("SSL" if has_tls and security is None else security)

    def with_logins(self) -> str | None:
        """Return the name of the first listener with SASL, None if there is none."""
        return next((name for name, protocol in self.protocols.items() if protocol in SASL_PROTOCOLS), None)

    def protocol(self, listener: str | None) -> str:
        """Return the security protocol of a listener. listener: its name, None for the first listener. Raises ConfigError for an unknown
        listener.
        """
        return self.protocols[self.name(listener)]

    def name(self, listener: str | None) -> str:
        """Return the name of a listener after checking it. listener: None for the first listener. Raises ConfigError for an unknown
        listener.
        """
        if listener is None:
            return next(iter(self.protocols))
        if listener not in self.protocols:
            raise ConfigError(
                f"there is no listener {listener!r}{did_you_mean(listener, self.protocols)}; there are {_list(self.protocols)}"
            )
        return listener

    def listeners(self, logins: Logins) -> list[Listener]:
        """Return the listeners for the nodes. logins: the users who may log in at listeners with SASL."""
        return [Listener(name, protocol, logins if protocol in SASL_PROTOCOLS else None) for name, protocol in self.protocols.items()]

    def endpoints(self, port: int) -> list[Endpoint]:
        """Return the endpoints of one broker, one for each listener. port: the port of the first listener; the others get free ports."""
        return [
            Endpoint(name, 0 if index else port, self._transport if protocol in TLS_PROTOCOLS else PlaintextTransport)
            for index, (name, protocol) in enumerate(self.protocols.items())
        ]

    def trust(self, listener: str | None) -> dict[str, Any]:
        """Return the settings with which a client connects to a listener, without addresses and login. If `security` was a Tls, a client
        also needs to know the authority of its certificate.
        """
        protocol = self.protocol(listener)
        trust = {name: value for name, value in self._trust.items() if protocol in TLS_PROTOCOLS}
        return trust if protocol == PLAINTEXT else {**trust, "security_protocol": protocol}


def logins_of(
    access: Access,
    users: Mapping[str, str] | None,
    oauth: OAuth,
    aws_accounts: Mapping[str, str] | None,
    keytab: Path | str | None = None,
) -> Logins:
    """Return the users of a cluster and the mechanisms by which they can log in. The passwords are also set for SCRAM users of `access`.

    users: passwords by user name; None disables PLAIN and SCRAM. oauth, aws_accounts, keytab: None disables their mechanism. Raises
    ConfigError for an argument that cannot be used.
    """
    if isinstance(oauth, str) and oauth != "unsecured":
        raise ConfigError(f"oauth must be 'unsecured' or a function that validates tokens, got {oauth!r}")
    access.scram_users.set_passwords(users or {})
    validate = validate_unsecured if oauth == "unsecured" else oauth
    accounts = None if aws_accounts is None else AwsAccounts(aws_accounts)
    kerberos = None if keytab is None else Keytab(keytab).accept
    return Logins(users, access.scram_users, access.delegation_tokens, validate=validate, accounts=accounts, kerberos=kerberos)


def _protocols(listeners: Mapping[str, str] | Sequence[str] | None, security: Security, *, has_logins: bool) -> dict[str, str]:
    if listeners is None:
        tls = "SSL" if security is not None else PLAINTEXT
        protocol = f"SASL_{tls}" if has_logins else tls
        return {protocol: protocol}
    if isinstance(listeners, str) or not listeners:
        raise ConfigError(f"listeners is a list of protocols, or a mapping of names to protocols; got {listeners!r}")
    protocols = dict(listeners) if isinstance(listeners, Mapping) else {protocol: protocol for protocol in listeners}
    for name, protocol in protocols.items():
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"listener {name!r}: unknown protocol {protocol!r}{did_you_mean(protocol, PROTOCOLS)}; known are {_list(PROTOCOLS)}"
            )
    if security is not None and not set(protocols.values()).intersection(TLS_PROTOCOLS):
        raise ConfigError(f"security is given, but no listener has TLS: {_list(protocols.values())}")
    if has_logins and not set(protocols.values()).intersection(SASL_PROTOCOLS):
        raise ConfigError(f"logins are given, but no listener has them: {_list(protocols.values())}")
    return protocols


def _list(names: Any) -> str:
    return ", ".join(names)


def _secured(security: Security) -> tuple[dict[str, Any], Callable[[socket], TransportLayer]]:
    """Return the settings with which clients trust the brokers' certificate, and the function that creates the transport layer of a
    broker's connection. There are no such settings without TLS, and none for a Tls, whose authority is not known.
    """
    if security is None:
        return {}, PlaintextTransport
    # OpenSSL takes time to load, and most tests do not need it.
    from levada.net.tls.context import TlsSettings, server_context
    from levada.net.tls.transport import TlsAcceptor

    trust: dict[str, Any] = {}
    if security == "SSL":
        authority = Authority()
        trust, security = authority.trust(), authority.listener()
    if not isinstance(security, Tls):
        raise ConfigError(f"security must be 'SSL' or a levada.testing.Tls, got {security!r}")
    ours = TlsSettings(
        keystore_certificate_chain=security.certificate_chain,
        keystore_key=security.key,
        truststore_certificates=security.trusted,
    )
    return trust, TlsAcceptor(server_context(ours, client_auth=security.client_auth)).accept
