"""The SCRAM credentials of a cluster's users (KIP-554). A changed credential is valid at once."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from levada.net.sasl.scram import HASHES, ScramCredential

MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Mechanisms by their numbers in the protocol."""

Key: TypeAlias = tuple[str, str]
"""A user and a mechanism."""


class ScramUsers:
    """The SCRAM credentials of all users of a cluster.

    keep: a function that stores all credentials; it is called before a change takes effect. kept: the last value passed to `keep` before
    the broker was restarted, or None.
    """

    def __init__(self, kept: Any, keep: Callable[[Any], None]) -> None:
        self._credentials: dict[Key, ScramCredential] = {
            (user, mechanism): ScramCredential(_decoded(salt), iterations, _decoded(stored_key), _decoded(server_key))
            for user, mechanism, iterations, salt, stored_key, server_key in kept or ()
        }
        self._keep = keep

    def names(self) -> list[str]:
        """Return the users that have a credential, in the order in which they were added."""
        return list(dict.fromkeys(user for user, _ in self._credentials))

    def of(self, user: str) -> dict[str, ScramCredential]:
        """Return a user's credentials, by mechanism."""
        return {mechanism: credential for (name, mechanism), credential in self._credentials.items() if name == user}

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return a user's credential for a mechanism, None if there is none."""
        return self._credentials.get((user, mechanism))

    def set_passwords(self, passwords: Mapping[str, str]) -> None:
        """Set the passwords of users for all SCRAM mechanisms. A credential that already matches the password is not replaced."""
        self.change(
            {
                (user, mechanism): ScramCredential.of(mechanism, password)
                for user, password in passwords.items()
                for mechanism in HASHES
                if not _fits(self.credential(mechanism, user), mechanism, password)
            }
        )

    def change(self, changes: Mapping[Key, ScramCredential | None]) -> None:
        """Add, replace or remove credentials by user and mechanism. None removes the credential."""
        changed = {**self._credentials, **changes}
        known = {key: credential for key, credential in changed.items() if credential is not None}
        if known != self._credentials:
            self._keep([_written(user, mechanism, credential) for (user, mechanism), credential in known.items()])
            self._credentials = known


def _fits(credential: ScramCredential | None, mechanism: str, password: str) -> bool:
    if credential is None:
        return False
    same = ScramCredential.of(mechanism, password, salt=credential.salt, iterations=credential.iterations)
    return hmac.compare_digest(same.stored_key, credential.stored_key)


def _written(user: str, mechanism: str, credential: ScramCredential) -> list[Any]:
    keys = (credential.salt, credential.stored_key, credential.server_key)
    return [user, mechanism, credential.iterations, *(base64.b64encode(key).decode() for key in keys)]


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
