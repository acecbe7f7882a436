"""SCRAM credentials: what AdminClient takes and returns, and their form in levada."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import levada


class ScramMechanism(Enum):
    """A mechanism of SCRAM."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredentialInfo:
    """A credential of a user."""

    def __init__(self, mechanism: ScramMechanism, iterations: int) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class UserScramCredentialsDescription:
    """The credentials of a user."""

    def __init__(self, user: str, scram_credential_infos: list[ScramCredentialInfo]) -> None:
        self.user = user
        self.scram_credential_infos = scram_credential_infos


class UserScramCredentialAlteration:
    """A change of a user's credentials."""

    def __init__(self, user: str) -> None:
        self.user = user


class UserScramCredentialUpsertion(UserScramCredentialAlteration):
    """A credential to create or replace. salt: random by default."""

    def __init__(self, user: str, scram_credential_info: ScramCredentialInfo, password: bytes, salt: bytes | None = None) -> None:
        super().__init__(user)
        self.scram_credential_info = scram_credential_info
        self.password = password
        self.salt = salt


class UserScramCredentialDeletion(UserScramCredentialAlteration):
    """A credential to delete."""

    def __init__(self, user: str, mechanism: ScramMechanism) -> None:
        super().__init__(user)
        self.mechanism = mechanism


def described(user: str, found: Iterable[levada.ScramCredentialInfo]) -> UserScramCredentialsDescription:
    """Return the credentials of a user in confluent-kafka's form."""
    infos = [
        ScramCredentialInfo(ScramMechanism.__members__.get(one.mechanism.replace("-", "_"), ScramMechanism.UNKNOWN), one.iterations)
        for one in found
    ]
    return UserScramCredentialsDescription(user, infos)


def to_levada(change: UserScramCredentialAlteration) -> levada.UserScramCredentialUpsertion | levada.UserScramCredentialDeletion:
    """Return a change in levada's form. Raises TypeError for anything else."""
    if isinstance(change, UserScramCredentialDeletion):
        return levada.UserScramCredentialDeletion(change.user, _mechanism(change.mechanism))
    if not isinstance(change, UserScramCredentialUpsertion):
        raise TypeError("Expected each element of list to be subclass of UserScramCredentialAlteration")
    info = change.scram_credential_info
    return levada.UserScramCredentialUpsertion(change.user, change.password, _mechanism(info.mechanism), info.iterations, change.salt)


def _mechanism(mechanism: ScramMechanism) -> str:
    return mechanism.name.replace("_", "-")
