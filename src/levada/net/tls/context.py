"""Makes an ssl.SSLContext from the settings: trusted authorities, this side's certificate, protocols and ciphers.

A client reads changed files again for later connections (ClientContext), because certificates are renewed while programs run. OpenSSL reads
keys only from files, so a key that is given as text is written to a file in memory, or to a temporary file that no other user can read.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from levada.errors import ConfigError
from levada.net.tls.errors import TlsFileError

_SUITE: Final = re.compile(r"[A-Z][A-Z0-9]+([-_][A-Z0-9]+)+")
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The settings of TLS. Each field has the name of its option, without `ssl.`.

    Truststore and keystore are each a file or a text. Without a truststore, the system's certificate authorities are trusted; without a
    keystore, no certificate is sent. PKCS12 files are opened with their password. context: an SSLContext of the program, which a
    client uses instead of all other settings; server_context() ignores it.
    """

    truststore_location: str | None = None
    truststore_type: str = "PEM"
    truststore_password: str | None = None
    truststore_certificates: str | None = None
    keystore_location: str | None = None
    keystore_type: str = "PEM"
    keystore_password: str | None = None
    keystore_key: str | None = None
    keystore_certificate_chain: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    key_password: str | None = None
    enabled_protocols: Sequence[str] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: Sequence[str] = ()
    dangerously_accept_any_host_name: bool = False
    context: Any = None

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files that the settings name."""
        named = (self.truststore_location, self.keystore_location, self.certificate_location, self.key_location)
        return tuple(file for file in named if file is not None)


class ClientContext:
    """Returns the SSLContext for each new connection of a client. Raises ConfigError at construction for settings that cannot be used."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._read = _stamps(settings.files)
        self._context = client_context(settings)

    def get(self) -> ssl.SSLContext:
        """Return the context. Files that have changed are read again; if they cannot be used, the previous context is returned."""
        stamps = _stamps(self._settings.files)
        if stamps != self._read:
            # A file that is being replaced may be missing or incomplete for a moment.
            with contextlib.suppress(ConfigError):
                self._context = client_context(self._settings)
                self._read = stamps
        return self._context


def _stamps(files: Sequence[str]) -> list[tuple[int, int, int]]:
    stamps = []
    for file in files:
        try:
            found = Path(file).stat()
        except OSError:
            stamps.append((0, 0, 0))
        else:
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return stamps


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return an SSLContext that verifies the broker's certificate, or settings.context if it is given. Raises ConfigError."""
    if settings.context is not None:
        context: ssl.SSLContext = settings.context
        return context
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = not settings.dangerously_accept_any_host_name
    _limit(context, settings)
    _trust(context, settings)
    _identify(context, settings)
    if keylog := os.environ.get("SSLKEYLOGFILE"):
        context.keylog_filename = keylog
    return context


def server_context(settings: TlsSettings, *, client_auth: str = "none") -> ssl.SSLContext:
    """Return an SSLContext for a listener. client_auth: none, requested or required, like ssl.client.auth. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, settings)
    _identify(context, settings)
    if client_auth != "none":
        context.verify_mode = ssl.CERT_REQUIRED if client_auth == "required" else ssl.CERT_OPTIONAL
        _trust(context, settings)
    return context


def _limit(context: ssl.SSLContext, settings: TlsSettings) -> None:
    chosen = [VERSIONS[name] for name in settings.enabled_protocols]
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)
    # A write in the middle of another handshake would fail. Java refuses it, too, and TLS 1.3 has no renegotiation.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.cipher_suites:
        _choose_ciphers(context, settings.cipher_suites)


def _choose_ciphers(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    # The cipher suites of TLS 1.3 are always enabled; Python cannot choose among them.
    older = [name for name in suites if not name.startswith(("TLS_AES_", "TLS_CHACHA20_"))]
    try:
        if older:
            context.set_ciphers(":".join(older))
    except ssl.SSLError as error:
        raise _unknown_ciphers(older) from error
    # OpenSSL ignores an unknown name if the list has a known one. Words such as HIGH and !aNULL are not names of suites: not checked.
    offered = {cipher["name"] for cipher in context.get_ciphers()}
    if unknown := [name for name in suites if _SUITE.fullmatch(name) and name not in offered]:
        raise _unknown_ciphers(unknown)


def _unknown_ciphers(names: Sequence[str]) -> ConfigError:
    return ConfigError(f"'ssl.cipher.suites': OpenSSL has no {', '.join(names)}; its names are others than Java's, see `openssl ciphers`")


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.truststore_certificates is not None:
        _load(context, "ssl.truststore.certificates", cadata=settings.truststore_certificates)
    elif settings.truststore_location is None:
        context.load_default_certs()
    elif settings.truststore_type == "PKCS12":
        from levada.net.tls.pkcs12 import authorities_of

        pem = authorities_of(_bytes_of("ssl.truststore.location", settings.truststore_location), settings.truststore_password)
        _load(context, "ssl.truststore.location", cadata=pem)
    else:
        _refuse_java_keystore("ssl.truststore.location", settings.truststore_location)
        _load(context, "ssl.truststore.location", cafile=settings.truststore_location)


def check_authorities(option: str, file: str) -> None:
    """Raise ConfigError if a file is missing or has no PEM certificates. option: the option that names the file."""
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), option, cafile=file)


def _load(context: ssl.SSLContext, option: str, **source: str) -> None:
    try:
        context.load_verify_locations(**source)
    except (OSError, ValueError) as error:
        what = source.get("cafile", "the text")
        raise TlsFileError(option, f"cannot be read as certificates in PEM: {_told(error)}", what=what) from error


def _identify(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.certificate_location is not None:
        _show(context, "ssl.certificate.location", settings.certificate_location, settings.key_location, settings.key_password)
    elif settings.keystore_certificate_chain is not None:
        # No variable holds the key, because tools that log the variables of a traceback would log the key.
        with _as_file(f"{settings.keystore_certificate_chain}\n{settings.keystore_key or ''}".encode()) as file:
            _show(context, "ssl.keystore.certificate.chain", file, None, settings.key_password)
    elif settings.keystore_location is None:
        return
    elif settings.keystore_type == "PKCS12":
        from levada.net.tls.pkcs12 import identity_of

        with _as_file(identity_of(_bytes_of("ssl.keystore.location", settings.keystore_location), settings.keystore_password)) as file:
            _show(context, "ssl.keystore.location", file, None, None)
    else:
        _refuse_java_keystore("ssl.keystore.location", settings.keystore_location)
        _show(context, "ssl.keystore.location", settings.keystore_location, None, settings.key_password)


def _show(context: ssl.SSLContext, option: str, certificate: str, key: str | None, password: str | None) -> None:
    try:
        # Without any password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password or "")
    except OSError as error:
        reason = f"cannot be read as a certificate and its key, in PEM: {_told(error)}"
        raise TlsFileError(option, reason, advice="an encrypted key needs ssl.key.password") from error


def _told(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "OpenSSL cannot read it"
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


_JAVA_KEYSTORES: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


def _refuse_java_keystore(option: str, file: str) -> None:
    if not _bytes_of(option, file).startswith(_JAVA_KEYSTORES):
        return
    convert = f"keytool -importkeystore -srckeystore {file} -destkeystore {file}.p12 -deststoretype PKCS12"
    kind = f"{option.rpartition('.')[0]}.type=PKCS12"
    raise TlsFileError(
        option, "is a Java keystore (JKS), which only Java reads", what=file, advice=f"convert it, and set {kind}: {convert}"
    )


def _bytes_of(option: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise TlsFileError(option, f"cannot be read: {_told(error)}", what=file) from error


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Return a context that yields the name of a temporary file with a key. No other user can read the file; it is deleted at the end."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("levada", os.MFD_CLOEXEC), "wb") as file:  # noqa: PTH123 - it has a descriptor and no path
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    # Only this user can read the files of NamedTemporaryFile.
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
