"""The system's Kerberos, through the package gssapi: the client's credentials, and the broker's keytab.

Tickets come from the servers in the system's krb5.conf. With a keytab, Kerberos fetches tickets into memory, and fetches new ones before
they expire. Without a keytab, it uses the tickets that kinit has stored for the user.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from levada.credentials import Exchange, SaslError, unanswered
from levada.errors import ConfigError
from levada.net.sasl import gssapi

GSSAPI: Final = "GSSAPI"
_MISSING: Final = "sasl.mechanism=GSSAPI needs the package gssapi, which needs MIT Kerberos: pip install 'levada[gssapi]'"
_KDC_UNREACHABLE: Final = (1 << 32) - 1_765_328_228
"""KRB5_KDC_UNREACH of MIT Kerberos, as a minor status."""


class Kerberos:
    """The Kerberos login of a client, as SASL mechanism. Raises ConfigError if the package gssapi is missing, or the keytab cannot be read.

    service: the first part of the brokers' principals; the host name is the second part. principal, keytab: the client's principal, and the
    file with its key; None for the tickets of the operating system's user.
    """

    name = GSSAPI

    def __init__(self, service: str, principal: str | None, keytab: str | None) -> None:
        self._gssapi = _package()
        self._service = service
        self._principal = principal
        self._keytab = keytab
        if keytab is not None and not _is_readable(keytab):
            raise ConfigError(f"'sasl.kerberos.keytab': {keytab} is no file that can be read")
        # The tickets are in memory and not in a file, so that no other user gets them, and they do not outlive the process.
        self._tickets = f"MEMORY:levada-{secrets.token_hex(8)}"

    def begin(self, host: str) -> Exchange:
        """Begin an exchange. It uses a ticket for the broker with this host name."""
        return gssapi.client(lambda: self._context(host))

    def _context(self, host: str) -> gssapi.Context:
        library = self._gssapi
        kerberos = library.MechType.kerberos
        ours = self._credentials()
        with _explained(library):
            broker = library.Name(f"{self._service}@{host}", library.NameType.hostbased_service)
            flags = library.RequirementFlag.mutual_authentication | library.RequirementFlag.integrity
            made = library.SecurityContext(name=broker, creds=ours, usage="initiate", mech=kerberos, flags=flags)
        return _SystemContext(library, made)

    def _credentials(self) -> Any:
        library = self._gssapi
        keys = "tickets of kinit" if self._keytab is None else f"keys in {self._keytab}"
        whom = "" if self._principal is None else f" of {self._principal}"
        store = None if self._keytab is None else {"client_keytab": f"FILE:{self._keytab}", "ccache": self._tickets}
        with _explained(library, f"no {keys}{whom}: "):
            user = None if self._principal is None else library.Name(self._principal, library.NameType.kerberos_principal)
            return library.Credentials(name=user, usage="initiate", mechs=[library.MechType.kerberos], store=store)


class Keytab:
    """The keys of a broker. Raises ConfigError if the file cannot be read or has no key, or if the package gssapi is missing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._gssapi = _package()
        if not _is_readable(path):
            raise ConfigError(f"the keytab {os.fspath(path)} cannot be used: it is no file that can be read")
        try:
            with _explained(self._gssapi):
                self._keys = self._gssapi.Credentials(usage="accept", store={"keytab": f"FILE:{os.fspath(path)}"})
        except SaslError as error:
            raise ConfigError(f"the keytab {os.fspath(path)} cannot be used: {error}") from error

    def accept(self) -> gssapi.Context:
        """Begin the broker's side of an exchange."""
        return _SystemContext(self._gssapi, self._gssapi.SecurityContext(creds=self._keys, usage="accept"))


class _SystemContext:
    """A security context of the package gssapi. It raises levada's errors instead of those of the package."""

    def __init__(self, library: Any, context: Any) -> None:
        self._gssapi = library
        self._context = context

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def client(self) -> str:
        with _explained(self._gssapi):
            return str(self._context.initiator_name)

    @property
    def broker(self) -> str:
        with _explained(self._gssapi):
            return str(self._context.target_name)

    def step(self, token: bytes | None) -> bytes:
        with _explained(self._gssapi):
            return self._context.step(token) or b""

    def wrap(self, message: bytes) -> bytes:
        with _explained(self._gssapi):
            return bytes(self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        with _explained(self._gssapi):
            return bytes(self._context.unwrap(message).message)


def _is_readable(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a file that can be read. A FIFO is not, because Kerberos would wait until another process opens it."""
    return Path(path).is_file() and os.access(path, os.R_OK)


def _package() -> Any:
    try:
        import gssapi as library
    except ImportError as error:
        raise ConfigError(_MISSING) from error
    return library


@contextmanager
def _explained(library: Any, about: str = "") -> Iterator[None]:
    """Return a context that turns errors of Kerberos into SaslError, or into a retriable TokenError if no ticket server answers.

    about: the beginning of the error text.
    """
    try:
        yield
    except library.exceptions.GSSError as error:
        # The minor status is the reason in Kerberos' words; the major one only says that there is one.
        code, is_major = (error.min_code, False) if error.min_code else (error.maj_code, True)
        reason = "; ".join(str(status) for status in error.get_all_statuses(code, is_major))
        if error.min_code == _KDC_UNREACHABLE:
            raise unanswered(reason) from None
        raise SaslError(about + reason) from None
