"""levada users: SCRAM credentials, quotas and delegation tokens."""

from __future__ import annotations

import sys
from base64 import b64decode
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from levada import (
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaName,
    DelegationToken,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from levada.cli.arguments import Yes, key_values, not_empty, principals
from levada.cli.command import command, command_group
from levada.cli.exits import CommandError, Exit
from levada.cli.invocation import Invocation, confirm
from levada.cli.outcomes import rows_of, show_outcomes
from levada.cli.private_files import read_private

app = command_group("Users: SCRAM credentials, quotas, delegation tokens.")

Name = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.", show_default=False)]
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="Quotas of this user; '' for the default of users.")]
ClientId = Annotated[
    str | None, typer.Option("--client-id", metavar="NAME", help="Quotas of this client id; '' for the default of client ids.")
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="Quotas of this IP address; '' for the default of addresses.")]
Token = Annotated[str, typer.Argument(metavar="PASSWORD", help="The token's password (its HMAC in base64); - reads standard input.")]


class Mechanism(StrEnum):
    """The SCRAM mechanisms."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


class CredentialRow(NamedTuple):
    """A SCRAM credential of a user. iterations: how often its password is hashed."""

    user: str
    mechanism: str
    iterations: int


class QuotaRow(NamedTuple):
    """A quota of a user, a client id, both together, or an IP address.

    user, client_id, ip: "" for the default of all users, client ids or addresses; None if the quota does not name one.
    """

    user: str | None
    client_id: str | None
    ip: str | None
    quota: str
    value: float


class TokenRow(NamedTuple):
    """A delegation token without its secret. Times are in ms since the epoch."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


class NewTokenRow(NamedTuple):
    """A delegation token with its secret. A client logs in with token_id and password by SCRAM, with sasl.tokenauth=true."""

    token_id: str
    password: str
    owner: str
    expiry_timestamp: int
    max_timestamp: int


@command(app, "list")
def list_(
    invocation: Invocation,
    users: Annotated[list[str] | None, typer.Argument(metavar="[USER...]", help="Only these users.", show_default=False)] = None,
) -> None:
    """List users with a SCRAM credential. Kafka cannot list users of other mechanisms."""
    names = not_empty(users or (), "USER")
    with invocation.admin() as admin:
        found = admin.describe_user_scram_credentials(names or None)
    invocation.show([_credential(user, info) for user, infos in sorted(found.items()) for info in infos], CredentialRow._fields)


@command(app, "set-password")
def set_password(
    invocation: Invocation,
    user: Name,
    mechanism: Annotated[Mechanism, typer.Option("--mechanism", help="The SCRAM mechanism.")] = Mechanism.SHA_256,
    iterations: Annotated[int, typer.Option("--iterations", help="How often the password is hashed.")] = 4096,
    file: Annotated[
        Path | None,
        typer.Option("--password-file", help="Read the password from this file. Default: ask, or read standard input if it is a pipe."),
    ] = None,
) -> Exit:
    """Create a user with a SCRAM credential, or change the user's password. The user can log in at once."""
    credential = UserScramCredentialUpsertion(user, _password(user, file), mechanism.value, iterations)
    with invocation.admin() as admin:
        return show_outcomes(invocation, rows_of(admin.outcomes(admin.alter_user_scram_credentials, [credential]), "the password is set"))


@command(app)
def delete(
    invocation: Invocation,
    user: Name,
    mechanism: Annotated[
        Mechanism | None, typer.Option("--mechanism", help="Only the credential of this mechanism. Default: all SCRAM credentials.")
    ] = None,
    yes: Yes = False,
) -> Exit:
    """Delete the SCRAM credentials of a user. Open connections of the user stay open."""
    confirm(f"Delete {mechanism or 'all SCRAM credentials'} of user {user}?", yes=yes)
    with invocation.admin() as admin:
        has = [mechanism.value] if mechanism else [info.mechanism for info in admin.describe_user_scram_credentials([user])[user]]
        wanted = [UserScramCredentialDeletion(user, one) for one in has]
        return show_outcomes(invocation, rows_of(admin.outcomes(admin.alter_user_scram_credentials, wanted), f"deleted {', '.join(has)}"))


@command(app)
def quotas(invocation: Invocation, user: User = None, client_id: ClientId = None, ip: Ip = None) -> None:
    """List quotas. The quotas of a user include those for the user together with a client id."""
    with invocation.admin() as admin:
        found = admin.describe_client_quotas(ClientQuotaFilter(_part(user), _part(client_id), _part(ip)))
    rows = [
        QuotaRow(_shown(entity.user), _shown(entity.client_id), _shown(entity.ip), quota, value)
        for entity, limits in found.items()
        for quota, value in limits.items()
    ]
    invocation.show(sorted(rows, key=str), QuotaRow._fields)


@command(app, "set-quota")
def set_quota(
    invocation: Invocation,
    limits: Annotated[
        list[str],
        typer.Argument(metavar="QUOTA=VALUE...", help="A quota and its value, such as producer_byte_rate=1000000.", show_default=False),
    ],
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
) -> Exit:
    """Set quotas: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate, connection_creation_rate."""
    wanted = {name: _number(text) for name, text in key_values(limits, "QUOTA=VALUE").items()}
    with invocation.admin() as admin:
        return show_outcomes(invocation, rows_of(admin.outcomes(admin.alter_client_quotas, {_entity(user, client_id, ip): wanted}), "set"))


@command(app, "unset-quota")
def unset_quota(
    invocation: Invocation,
    names: Annotated[
        list[str], typer.Argument(metavar="QUOTA...", help="Names of quotas, such as producer_byte_rate.", show_default=False)
    ],
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
) -> Exit:
    """Remove quotas."""
    changes = {_entity(user, client_id, ip): dict.fromkeys(names)}
    with invocation.admin() as admin:
        return show_outcomes(invocation, rows_of(admin.outcomes(admin.alter_client_quotas, changes), "removed"))


@command(app)
def tokens(
    invocation: Invocation,
    owners: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="PRINCIPAL", help="Only tokens of this owner, such as User:alice; repeat it for more."),
    ] = None,
) -> None:
    """List delegation tokens, without their secrets."""
    wanted = principals(owners or (), "--owner")
    with invocation.admin() as admin:
        invocation.show([_token(one) for one in admin.describe_delegation_token(wanted or None)], TokenRow._fields)


@command(app, "create-token")
def create_token(
    invocation: Invocation,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="PRINCIPAL", help="Owner of the token. Default: the user who asks.")
    ] = None,
    renewers: Annotated[
        list[str] | None, typer.Option("--renewer", metavar="PRINCIPAL", help="A principal that may also renew it; repeat it for more.")
    ] = None,
) -> None:
    """Create a delegation token, and print its password. Anyone with the password can act as the token's owner."""
    principals([] if owner is None else [owner], "--owner")
    others = principals(renewers or (), "--renewer")
    with invocation.admin() as admin:
        made = admin.create_delegation_token(owner=owner, renewers=others)
    invocation.show([NewTokenRow(made.token_id, made.password, made.owner, made.expiry_timestamp, made.max_timestamp)])


@command(app, "renew-token")
def renew_token(invocation: Invocation, token: Token) -> None:
    """Extend the lifetime of a token. The brokers' settings decide for how long."""
    with invocation.admin() as admin:
        invocation.show({"expiry_timestamp": admin.renew_delegation_token(_hmac(token))})


@command(app, "expire-token")
def expire_token(invocation: Invocation, token: Token) -> None:
    """Expire a token at once."""
    with invocation.admin() as admin:
        invocation.show({"expiry_timestamp": admin.expire_delegation_token(_hmac(token))})


def _password(user: str, file: Path | None) -> str:
    if file is not None:
        text = read_private(file, "the file with the password", others_may_read=False)
    elif sys.stdin.isatty():
        text = typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = _line_of_stdin()
    if not text.strip():
        raise CommandError("the password is empty", Exit.WRONG_USE)
    return text.rstrip("\r\n")


def _line_of_stdin() -> str:
    try:
        return sys.stdin.buffer.readline().decode()
    except UnicodeDecodeError:
        raise CommandError("standard input is not text in UTF-8", Exit.WRONG_USE) from None


def _hmac(text: str) -> bytes:
    try:
        return b64decode((_line_of_stdin() if text == "-" else text).strip(), validate=True)
    except ValueError:
        raise CommandError("the password of a token must be base64", Exit.WRONG_USE) from None


def _entity(user: str | None, client_id: str | None, ip: str | None) -> ClientQuotaEntity:
    if user is None and client_id is None and ip is None:
        raise typer.BadParameter("name the owner of the quota by --user, --client-id or --ip")
    return ClientQuotaEntity(_part(user), _part(client_id), _part(ip))


def _part(text: str | None) -> str | ClientQuotaName | None:
    return ClientQuotaName.DEFAULT if text == "" else text


def _shown(part: str | ClientQuotaName | None) -> str | None:
    return "" if isinstance(part, ClientQuotaName) else part


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


def _credential(user: str, info: ScramCredentialInfo) -> CredentialRow:
    return CredentialRow(user, info.mechanism, info.iterations)


def _token(one: DelegationToken) -> TokenRow:
    return TokenRow(one.token_id, one.owner, one.requester, one.renewers, one.issue_timestamp, one.expiry_timestamp, one.max_timestamp)
