"""TLS settings of embedded brokers' listeners, and temporary certificates for brokers and clients.

Authority needs the package trustme: `pip install 'levada[testing]'`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from levada.errors import ConfigError

LOCAL = ("127.0.0.1", "localhost", "::1")
_MISSING = "levada.testing.Authority needs the package trustme: pip install 'levada[testing]'"


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS settings of a listener, all in PEM.

    certificate_chain, key: the broker's certificate and private key. client_auth: whether clients must present a certificate, with the
    values of Kafka's ssl.client.auth. trusted: the certificates of the authorities that may issue client certificates.
    """

    certificate_chain: str
    key: str
    trusted: str | None = None
    client_auth: Literal["none", "requested", "required"] = "none"

    def __post_init__(self) -> None:
        if self.client_auth not in ("none", "requested", "required"):
            raise ConfigError(f"client_auth must be none, requested or required; got {self.client_auth!r}")
        if self.client_auth != "none" and self.trusted is None:
            raise ConfigError(f"client_auth={self.client_auth!r} needs the certificates of the authorities to trust: trusted")

    def __repr__(self) -> str:
        return f"Tls(client_auth={self.client_auth!r})"


class Authority:
    """A certificate authority for tests. Raises ConfigError if trustme is not installed.

    certificate: the authority's own certificate in PEM, for ssl.truststore.certificates.
    """

    def __init__(self) -> None:
        try:
            import trustme
        except ImportError as error:
            raise ConfigError(_MISSING) from error
        self._authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.certificate: str = self._authority.cert_pem.bytes().decode()

    def listener(self, *names: str, client_auth: Literal["none", "requested", "required"] = "none") -> Tls:
        """Return the TLS settings of a listener with a new certificate. names: the host names and addresses in it, by default those of the
        loopback interface. client_auth: whether clients must present a certificate.
        """
        issued = self._authority.issue_cert(*(names or LOCAL))
        return Tls(_chain(issued), _key(issued), self.certificate, client_auth)

    def client(self, name: str = "client") -> dict[str, Any]:
        """Return the settings with which a client presents a new certificate of this authority. name: the common name in it."""
        issued = self._authority.issue_cert(common_name=name)
        return {"ssl_keystore_certificate_chain": _chain(issued), "ssl_keystore_key": _key(issued)}

    def trust(self) -> dict[str, Any]:
        """Return the settings with which a client uses TLS and trusts certificates of this authority."""
        return {"security_protocol": "SSL", "ssl_truststore_certificates": self.certificate}


def _chain(issued: Any) -> str:
    return "".join(pem.bytes().decode() for pem in issued.cert_chain_pems)


def _key(issued: Any) -> str:
    """Return the private key of an issued certificate in PKCS #8, the only format that Kafka reads."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

    key = load_pem_private_key(issued.private_key_pem.bytes(), password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
