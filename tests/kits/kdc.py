"""A Kerberos realm for tests, with its own ticket server (KDC) on this machine. Needs MIT Kerberos and the packages gssapi and k5test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_cluster import free_ports

REALM = "LEVADA.TEST"
_PORTS_OF_A_REALM = 10


class Kdc:
    """A running realm."""

    def __init__(self, realm: Any) -> None:
        self._realm = realm

    @property
    def config(self) -> Path:
        """The realm's krb5.conf."""
        return Path(self._realm.env["KRB5_CONFIG"])

    def keytab(self, name: str) -> Path:
        """Add a principal, and return a file with its key."""
        path = Path(self._realm.tmpdir) / f"{name.replace('/', '-')}.keytab"
        if not path.exists():
            self._realm.addprinc(f"{name}@{REALM}")
            self._realm.extract_keytab(f"{name}@{REALM}", str(path))
            path.chmod(0o600)
        return path

    def stop(self) -> None:
        """Stop the ticket server."""
        self._realm.stop_kdc()

    def start(self) -> None:
        """Start the ticket server again."""
        self._realm.start_kdc()


@contextmanager
def running() -> Iterator[Kdc]:
    """Run a realm, and set this process's environment to use it. Skips the test if MIT Kerberos or a package is missing."""
    if shutil.which("krb5kdc", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip("MIT Kerberos is missing: krb5kdc (`make kerberos` installs it)")
    for package in ("gssapi", "k5test"):
        pytest.importorskip(package, reason=f"the package {package} is missing (`make kerberos` installs it)")
    from k5test.realm import K5Realm

    # Principals contain the address 127.0.0.1, so that they do not depend on the names of this machine.
    plain_names = {"dns_canonicalize_hostname": "false", "rdns": "false"}
    settings = {"libdefaults": plain_names, "realms": {"$realm": {"kdc": "127.0.0.1:$port0"}}}
    port = max(free_ports(_PORTS_OF_A_REALM))
    realm = K5Realm(realm=REALM, portbase=port, krb5_conf=settings, get_creds=False, create_user=False, create_host=False)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("KRB5_CONFIG", "KRB5CCNAME", "KRB5_KTNAME", "KRB5_CLIENT_KTNAME"):
            patched.setenv(name, realm.env[name])
        try:
            yield Kdc(realm)
        finally:
            realm.stop()
