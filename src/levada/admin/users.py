"""SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from levada.admin.per_key import Attempts
from levada.admin.requests import Asked, Outcome, carry_out, of_all
from levada.base.flow import ANY_NODE, Flow
from levada.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from levada.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

NUMBERS: Final[Mapping[str, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The mechanisms, with their numbers in the protocol."""
_MECHANISMS: Final = {number: name for name, number in NUMBERS.items()}
DEFAULT_ITERATIONS: Final = 4096


class ScramCredentialInfo(NamedTuple):
    """A SCRAM credential of a user. mechanism: its name, such as "SCRAM-SHA-256"; "UNKNOWN" for a mechanism that levada does not know."""

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A SCRAM credential to create. It replaces the user's present credential of the same mechanism.

    salt: by default random bytes. The client sends the salted and hashed password, never the password itself.
    """

    user: str
    password: str | bytes = field(repr=False)
    mechanism: str = "SCRAM-SHA-256"
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """A SCRAM credential to delete."""

    user: str
    mechanism: str = "SCRAM-SHA-256"


def describe_user_scram_credentials(users: Collection[str] | None, attempts: Attempts) -> Flow[dict[str, tuple[ScramCredentialInfo, ...]]]:
    """Return the SCRAM credentials of users, by user. users: None for all users who have a credential."""
    if users is None:
        return of_all(
            Asked(
                lambda _: "describe the SCRAM credentials of all users",
                lambda _: DescribeUserScramCredentialsRequest(users=None),
                lambda response: {
                    None: Outcome(response.error_code, response.error_message, {one.user: _infos(one) for one in response.results})
                },
            ),
            attempts,
            route=lambda _: ANY_NODE,
        )
    asked = Asked(
        lambda user: f"describe the SCRAM credentials of user '{user}'",
        lambda wanted: DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in wanted]),
        lambda response: _described(response, users),
    )
    return carry_out(asked, users, attempts, route=lambda _: ANY_NODE)


def alter_user_scram_credentials(
    upsertions: Sequence[ScramCredentialUpsertion], deletions: Sequence[ScramCredentialDeletion], attempts: Attempts
) -> Flow[dict[str, None]]:
    """Change the SCRAM credentials of users. For each user, either all changes are made or none.

    Return a dict that maps each user to None.
    """
    asked = Asked(
        lambda user: f"alter the SCRAM credentials of user '{user}'",
        lambda wanted: AlterUserScramCredentialsRequest(
            deletions=[one for one in deletions if one.name in wanted], upsertions=[one for one in upsertions if one.name in wanted]
        ),
        lambda response: {one.user: Outcome(one.error_code, one.error_message) for one in response.results},
    )
    users = [*(one.name for one in deletions), *(one.name for one in upsertions)]
    return carry_out(asked, list(dict.fromkeys(users)), attempts)


def _described(response: Any, users: Collection[str]) -> dict[str, Outcome]:
    if response.error_code:
        return {user: Outcome(response.error_code, response.error_message) for user in users}
    return {one.user: Outcome(one.error_code, one.error_message, _infos(one)) for one in response.results}


def _infos(one: Any) -> tuple[ScramCredentialInfo, ...]:
    return tuple(ScramCredentialInfo(_MECHANISMS.get(info.mechanism, "UNKNOWN"), info.iterations) for info in one.credential_infos)
