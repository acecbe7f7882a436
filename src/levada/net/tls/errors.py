"""Errors of TLS. A TlsError names the probable cause of an error of OpenSSL, and the setting to change.

OpenSSL is not loaded with this module, so that code that only catches these errors need not load it either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from levada.errors import ConfigError

if TYPE_CHECKING:
    import ssl

_OTHER_NAME: Final = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""

_UNTRUSTED: Final = "no authority that is trusted here has signed it; set ssl.truststore.location to the PEM file of the one that did"
_VERIFICATION: Final[Mapping[int, str]] = {
    9: "it is not valid yet; is the clock of this machine right?",
    10: "it has expired; the broker needs a new one",
    18: "it is signed by itself; to trust it all the same, set ssl.truststore.location to its PEM file",
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    21: _UNTRUSTED,
    23: "it has been revoked",
}

_OUR_CERTIFICATE: Final = "see ssl.keystore.location and ssl.keystore.certificate.chain"
_REASONS: Final[Mapping[str, str]] = {
    "WRONG_VERSION_NUMBER": "it answers with something that is not TLS: is this a listener for PLAINTEXT or SASL_PLAINTEXT?",
    "HTTP_REQUEST": "the other side speaks HTTP",
    "UNSUPPORTED_PROTOCOL": "it speaks only versions of TLS that are refused here; see ssl.enabled.protocols",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it accepts none of the versions of TLS that are offered; see ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "no cipher suite suits both sides; see ssl.cipher.suites",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it accepts none of the cipher suites that are offered, or wants a certificate of the client; "
    "see ssl.cipher.suites and ssl.keystore.location",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate of the client; set ssl.keystore.location",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has not shown a certificate",
    "TLSV1_ALERT_UNKNOWN_CA": f"it does not trust who signed the certificate that was shown to it; {_OUR_CERTIFICATE}",
    "SSLV3_ALERT_BAD_CERTIFICATE": f"it does not accept the certificate that was shown to it, or that none was; {_OUR_CERTIFICATE}",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": f"it does not accept the certificate that was shown to it; {_OUR_CERTIFICATE}",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"the certificate that was shown to it has expired; {_OUR_CERTIFICATE}",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": f"the certificate that was shown to it has been revoked; {_OUR_CERTIFICATE}",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": f"it cannot use a certificate of the kind that was shown to it; {_OUR_CERTIFICATE}",
    "TLSV1_ALERT_ACCESS_DENIED": f"it knows the certificate that was shown to it, and does not let it in; {_OUR_CERTIFICATE}",
}
"""Causes of a failure, by OpenSSL's name for the error. Names with ALERT mean that the other side sent a TLS alert."""


class TlsError(OSError):
    """The TLS handshake failed, or the TLS connection broke.

    is_refusal: whether the cause lasts until someone changes the settings, so that a retry is useless: one side does not accept the other's
    certificate, versions or ciphers, for example, or the listener does not use TLS.
    """

    def __init__(self, text: str, *, is_refusal: bool) -> None:
        super().__init__(text)
        self.is_refusal = is_refusal


class TlsFileError(ConfigError):
    """A file that a TLS setting names, or the text in its place, cannot be used.

    option: the setting. reason: why it cannot be used, without the name of the setting.
    """

    def __init__(self, option: str, reason: str, *, what: str = "", advice: str = "") -> None:
        super().__init__(f"'{option}'{what and f': {what}'} {reason}{advice and f'; {advice}'}")
        self.option = option
        self.reason = reason


def fault_of(error: ssl.SSLError, name: str, tls: Any) -> TlsError:
    """Return the TlsError to raise for an SSLError.

    name: the host name for which the certificate was verified. tls: the SSLObject that failed.
    """
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(f"its certificate is not accepted: {_why_not_verified(error, name, tls)}", is_refusal=True)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return closed_early()
    reason = error.reason or str(error)
    explained = _REASONS.get(reason)
    return TlsError(f"TLS failed: {explained or reason}", is_refusal=explained is not None)


def closed_early() -> TlsError:
    """Return the error for a connection that ended before the TLS handshake was done."""
    text = "it closed the connection during the TLS handshake: is this a listener for PLAINTEXT or SASL_PLAINTEXT?"
    return TlsError(text, is_refusal=False)


def _why_not_verified(error: ssl.SSLCertVerificationError, name: str, tls: Any) -> str:
    if error.verify_code in _OTHER_NAME:
        names = ", ".join(_names_in_certificate(tls)) or "another name"
        return (
            f"it is for {names}, and not for {name!r}; connect by a name that it has (bootstrap.servers, and the brokers' "
            "advertised.listeners), or have the broker use one with this name"
        )
    return _VERIFICATION.get(error.verify_code, error.verify_message)


def _names_in_certificate(tls: Any) -> list[str]:
    """Return the names in a certificate that was not accepted; [] if this version of Python cannot return them."""
    import ssl

    inner: Any = getattr(tls, "_sslobj", None)
    try:
        chain = inner.get_unverified_chain()
    except (AttributeError, ssl.SSLError, ValueError):
        return []
    names = chain[0].get_info().get("subjectAltName", ()) if chain else ()
    return [value for kind, value in names if kind in ("DNS", "IP Address")]
