"""Reads certificates and keys from PKCS #12 files with the package cryptography, because Python does not expose OpenSSL's reader."""

from __future__ import annotations

from levada.errors import ConfigError

try:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
except ImportError as error:
    raise ConfigError(
        "PKCS12 needs the package cryptography: pip install 'levada[pkcs12]'; or convert the file to PEM with openssl"
    ) from error


def authorities_of(content: bytes, password: str | None) -> str:
    """Return all certificates in a PKCS12 file, as PEM. Raises ConfigError if the file cannot be opened."""
    found = _open("ssl.truststore.location", content, password)
    held = [found.cert, *found.additional_certs]
    return "".join(one.certificate.public_bytes(Encoding.PEM).decode() for one in held if one is not None)


def identity_of(content: bytes, password: str | None) -> bytes:
    """Return the certificate with its chain and its key in a PKCS12 file, as PEM.

    Raises ConfigError if it cannot be opened, or has no key.
    """
    found = _open("ssl.keystore.location", content, password)
    if found.key is None or found.cert is None:
        raise ConfigError("'ssl.keystore.location': the file has no key with a certificate")
    chain = [found.cert, *found.additional_certs]
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return b"".join(one.certificate.public_bytes(Encoding.PEM) for one in chain) + key


def _open(option: str, content: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError(f"'{option}': the file cannot be opened as PKCS12; is {option.rpartition('.')[0]}.password right?") from error
