"""levada acls: who may do what with topics, groups and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from levada import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from levada.cli.arguments import word
from levada.cli.command import command, command_group
from levada.cli.exits import CommandError, Exit
from levada.cli.invocation import Invocation, confirm
from levada.cli.outcomes import rows_of, show_outcomes

app = command_group("Access control lists: who may do what.")


Topics = Annotated[list[str] | None, typer.Option("--topic", "-t", help="About this topic; * for all. Repeat it for more.")]
Groups = Annotated[list[str] | None, typer.Option("--group", "-g", help="About this group.")]
Ids = Annotated[list[str] | None, typer.Option("--transactional-id", help="About this transactional id.")]
Users = Annotated[list[str] | None, typer.Option("--user", help="About tokens of this user, such as User:alice.")]
Tokens = Annotated[list[str] | None, typer.Option("--token", help="About the delegation token of this id.")]
Cluster = Annotated[bool, typer.Option("--cluster", help="About the cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The names are beginnings of names.")]
Operations = Annotated[
    list[str] | None, typer.Option("--operation", metavar="OPERATION", help="Such as read, write, describe, all. Repeat it for more.")
]
Principal = Annotated[str | None, typer.Option("--principal", metavar="PRINCIPAL", help="Rules for this principal, such as User:alice.")]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Rules for requests from this address.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

CLUSTER_NAME = "kafka-cluster"
EVERYWHERE = "*"


class AclRow(NamedTuple):
    """A rule. pattern: literal, or prefixed for a beginning of names."""

    resource: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermissionType


@command(app, "list")
def list_(
    invocation: Invocation,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    users: Users = None,
    tokens: Tokens = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    principal: Principal = None,
    operations: Operations = None,
    host: Host = None,
) -> None:
    """List rules; those that count for a topic include the ones for * and for beginnings of its name."""
    named = _named(topics, groups, ids, users, tokens, cluster=cluster)
    # Without a name, patterns of both kinds are meant.
    pattern = PatternType.PREFIXED if prefixed else PatternType.MATCH if named else PatternType.ANY
    filters = _filters(named, pattern, principal, operations, host)
    with invocation.admin() as admin:
        found = dict.fromkeys(binding for one in filters for binding in admin.describe_acls(one))
    invocation.show([_row(binding) for binding in sorted(found)], AclRow._fields)


@command(app)
def create(
    invocation: Invocation,
    operations: Operations = None,
    allowed: Annotated[list[str] | None, typer.Option("--allow-principal", metavar="PRINCIPAL", help="Allow it to User:alice, ...")] = None,
    denied: Annotated[list[str] | None, typer.Option("--deny-principal", metavar="PRINCIPAL", help="Deny it, whatever allows it.")] = None,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="From where.")] = EVERYWHERE,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    users: Users = None,
    tokens: Tokens = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
) -> Exit:
    """Create rules: every operation on every resource, for every principal that is named."""
    named = _named(topics, groups, ids, users, tokens, cluster=cluster)
    if not named or not operations or not (allowed or denied):
        raise typer.BadParameter("name a resource such as --topic, an --operation, and --allow-principal or --deny-principal")
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    who = [(one, AclPermissionType.ALLOW) for one in allowed or ()] + [(one, AclPermissionType.DENY) for one in denied or ()]
    bindings = [
        AclBinding(ResourcePattern(kind, name, pattern), AccessControlEntry(principal, word(AclOperation, operation), permission, host))
        for kind, name in named
        for operation in operations
        for principal, permission in who
    ]
    with invocation.admin() as admin:
        return show_outcomes(invocation, rows_of(admin.outcomes(admin.create_acls, bindings), "created"))


@command(app)
def delete(
    invocation: Invocation,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    users: Users = None,
    tokens: Tokens = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    principal: Principal = None,
    operations: Operations = None,
    host: Host = None,
    yes: Yes = False,
) -> Exit:
    """Delete the rules about exactly these names that fit all that is given."""
    named = _named(topics, groups, ids, users, tokens, cluster=cluster)
    if not (named or principal or operations or host):
        raise typer.BadParameter("say which rules: a resource such as --topic, a --principal, an --operation or a --host")
    # Without a name, patterns of both kinds are meant.
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL if named else PatternType.ANY
    filters = _filters(named, pattern, principal, operations, host)
    with invocation.admin() as admin:
        found = dict.fromkeys(binding for one in filters for binding in admin.describe_acls(one))
        if not found:
            raise CommandError("there is no such rule; levada acls list has all")
        confirm(f"Delete {'; '.join(map(str, sorted(found)))}?", yes=yes)
        # The rules themselves, and not the filters again: what was created meanwhile was not asked about.
        outcomes = admin.outcomes(admin.delete_acls, [_exactly(binding) for binding in sorted(found)])
    return show_outcomes(invocation, rows_of(dict(zip(map(str, sorted(found)), outcomes.values(), strict=True)), "deleted"))


def _named(
    topics: Sequence[str] | None,
    groups: Sequence[str] | None,
    ids: Sequence[str] | None,
    users: Sequence[str] | None,
    tokens: Sequence[str] | None,
    *,
    cluster: bool,
) -> list[tuple[ResourceType, str]]:
    """Return the resources that are named."""
    given = {
        ResourceType.TOPIC: topics,
        ResourceType.GROUP: groups,
        ResourceType.TRANSACTIONAL_ID: ids,
        ResourceType.USER: users,
        ResourceType.DELEGATION_TOKEN: tokens,
        ResourceType.CLUSTER: [CLUSTER_NAME] if cluster else None,
    }
    return [(kind, name) for kind, names in given.items() for name in names or ()]


def _filters(
    named: Sequence[tuple[ResourceType, str]],
    pattern: PatternType,
    principal: str | None,
    operations: Sequence[str] | None,
    host: str | None,
) -> list[AclBindingFilter]:
    patterns = [ResourcePatternFilter(kind, name, pattern) for kind, name in named] or [ResourcePatternFilter(pattern_type=pattern)]
    wanted = [word(AclOperation, one) for one in operations or ()] or [AclOperation.ANY]
    entries = [AccessControlEntryFilter(principal, operation, AclPermissionType.ANY, host) for operation in wanted]
    return [AclBindingFilter(one, entry) for one in patterns for entry in entries]


def _exactly(binding: AclBinding) -> AclBindingFilter:
    pattern, entry = binding
    return AclBindingFilter(
        ResourcePatternFilter(pattern.resource_type, pattern.name, pattern.pattern_type),
        AccessControlEntryFilter(entry.principal, entry.operation, entry.permission_type, entry.host),
    )


def _row(binding: AclBinding) -> AclRow:
    (kind, name, pattern), (principal, operation, permission, host) = binding
    return AclRow(kind, name, pattern, principal, host, operation, permission)
