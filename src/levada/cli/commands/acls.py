"""levada acls: list, create and delete access control lists."""

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
from levada.acls import CLUSTER_NAME
from levada.cli.arguments import Yes, word
from levada.cli.command import command, command_group
from levada.cli.exits import CommandError, Exit
from levada.cli.invocation import Invocation, confirm
from levada.cli.outcomes import rows_of, show_outcomes

app = command_group("Access control lists: who may do what.")


Topics = Annotated[list[str] | None, typer.Option("--topic", "-t", help="Rules about this topic; * for all topics. Repeat it for more.")]
Groups = Annotated[list[str] | None, typer.Option("--group", "-g", help="Rules about this group.")]
Ids = Annotated[list[str] | None, typer.Option("--transactional-id", help="Rules about this transactional id.")]
Users = Annotated[list[str] | None, typer.Option("--user", help="Rules about delegation tokens of this user, such as User:alice.")]
Tokens = Annotated[list[str] | None, typer.Option("--token", help="Rules about the delegation token with this id.")]
Cluster = Annotated[bool, typer.Option("--cluster", help="Rules about the cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The names are prefixes of names.")]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", metavar="OPERATION", help="Rules about this operation: read, write, describe, all ... Repeat it for more."),
]
Principal = Annotated[str | None, typer.Option("--principal", metavar="PRINCIPAL", help="Rules for this principal, such as User:alice.")]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Rules for requests from this address.")]

EVERYWHERE = "*"


class AclRow(NamedTuple):
    """A rule. pattern: whether name is a literal name or a prefix of names."""

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
    """List rules. Without --prefixed, the rules for a topic include those for * and for prefixes of its name."""
    named = _named(topics, groups, ids, users, tokens, cluster=cluster)
    # Without a name and without --prefixed, both literal and prefixed patterns are listed.
    pattern = PatternType.PREFIXED if prefixed else PatternType.MATCH if named else PatternType.ANY
    filters = _filters(named, pattern, principal, operations, host)
    with invocation.admin() as admin:
        found = dict.fromkeys(binding for one in filters for binding in admin.describe_acls(one))
    invocation.show([_row(binding) for binding in sorted(found)], AclRow._fields)


@command(app)
def create(
    invocation: Invocation,
    operations: Operations = None,
    allowed: Annotated[
        list[str] | None,
        typer.Option("--allow-principal", metavar="PRINCIPAL", help="Allow the operations to this principal, such as User:alice."),
    ] = None,
    denied: Annotated[
        list[str] | None,
        typer.Option(
            "--deny-principal", metavar="PRINCIPAL", help="Deny the operations to this principal, even if another rule allows them."
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Rules for requests from this address; * for all.")] = EVERYWHERE,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    users: Users = None,
    tokens: Tokens = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
) -> Exit:
    """Create a rule for each combination of the given operations, resources and principals."""
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
    """Delete the rules that match all options. If a topic or another resource is named, only rules with exactly this name match."""
    named = _named(topics, groups, ids, users, tokens, cluster=cluster)
    if not (named or principal or operations or host):
        raise typer.BadParameter("select rules by a resource such as --topic, a --principal, an --operation or a --host")
    # Without a name and without --prefixed, both literal and prefixed patterns are deleted.
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL if named else PatternType.ANY
    filters = _filters(named, pattern, principal, operations, host)
    with invocation.admin() as admin:
        found = dict.fromkeys(binding for one in filters for binding in admin.describe_acls(one))
        if not found:
            raise CommandError("there is no such rule; levada acls list prints all rules")
        confirm(f"Delete {'; '.join(map(str, sorted(found)))}?", yes=yes)
        # Delete by exact rules instead of the filters: the user did not confirm rules that were created meanwhile.
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
    """Return the named resources as pairs of type and name."""
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
