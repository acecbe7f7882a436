"""Access control lists: describe, create and delete rules (KIP-140). Any broker is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias, TypeVar

from levada.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from levada.admin.per_key import ON_ADMIN_ERROR, Attempts, Doing, each, lost, take
from levada.admin.requests import Asked, Outcome, of_all
from levada.base.flow import ANY_NODE, Call, Flow
from levada.client.requests.fan_out import Answer, Whom
from levada.error_codes import ErrorCode
from levada.errors import ConnectError
from levada.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from levada.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from levada.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from levada.protocol.schema import Request

K = TypeVar("K")

FIRST_VERSION_WITH_PATTERNS = 1
"""Brokers before Kafka 2.0 know only literal patterns."""

_Outcomes: TypeAlias = Callable[[Any], Iterator[Outcome]]


def describe_acls(wanted: AclBindingFilter, attempts: Attempts) -> Flow[list[AclBinding]]:
    """Return the rules that match a filter."""
    asked = Asked(
        lambda _: "describe ACLs",
        lambda _: DescribeAclsRequest(**_filter_fields(wanted)),
        lambda response: {None: Outcome(response.error_code, response.error_message, _described(response))},
        min_version=_oldest_version(wanted.pattern_filter.pattern_type),
    )
    return of_all(asked, attempts, route=lambda _: ANY_NODE)


def create_acls(bindings: Collection[AclBinding], attempts: Attempts) -> Flow[dict[AclBinding, None]]:
    """Create rules. A rule that exists already causes no error. Return a dict that maps each rule to None."""
    return _carry_out(
        Doing(lambda binding: f"create the ACL {binding}", ON_ADMIN_ERROR, attempts, CreateAclsRequest.NAME),
        bindings,
        lambda wanted: CreateAclsRequest(creations=[_creation(binding) for binding in wanted]),
        lambda response: (Outcome(result.error_code, result.error_message) for result in response.results),
        max((_oldest_version(binding.pattern.pattern_type) for binding in bindings), default=0),
    )


def delete_acls(filters: Collection[AclBindingFilter], attempts: Attempts) -> Flow[dict[AclBindingFilter, list[AclBinding]]]:
    """Delete the rules that match filters; return the deleted rules of each filter."""
    return _carry_out(
        Doing(lambda wanted: f"delete the ACLs of {wanted}", ON_ADMIN_ERROR, attempts, DeleteAclsRequest.NAME),
        filters,
        lambda wanted: DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter_fields(one)) for one in wanted]),
        lambda response: map(_deleted, response.filter_results),
        max((_oldest_version(one.pattern_filter.pattern_type) for one in filters), default=0),
    )


def _carry_out(
    doing: Doing, keys: Collection[K], request: Callable[[list[K]], Request[Any]], outcomes: _Outcomes, min_version: int
) -> Flow[dict[K, Any]]:
    """Send one request about all keys, with retries; return the value for each key.

    request: makes the request. outcomes: reads the outcomes from its response, in the order of the keys. min_version: the lowest version
    of the API that may be used.
    """

    def ask(node: Whom, wanted: list[K]) -> Flow[Answer[K, Any]]:
        try:
            response = yield Call(request(wanted), node, min_version=min_version)
        except ConnectError as fault:
            return lost(doing, wanted, fault)
        answer: Answer[K, Any] = Answer(refresh=False)
        for key, outcome in zip(wanted, outcomes(response), strict=False):
            take(doing, answer, key, outcome.error_code, outcome.value, outcome.message)
        return answer

    return each(doing, list(dict.fromkeys(keys)), None, route=lambda key: ANY_NODE, ask=ask)


def _oldest_version(pattern_type: PatternType) -> int:
    return 0 if pattern_type in (PatternType.LITERAL, PatternType.ANY) else FIRST_VERSION_WITH_PATTERNS


def _creation(binding: AclBinding) -> AclCreation:
    pattern, entry = binding
    return AclCreation(
        resource_type=pattern.resource_type.number,
        resource_name=pattern.name,
        resource_pattern_type=pattern.pattern_type.number,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation.number,
        permission_type=entry.permission_type.number,
    )


def _filter_fields(wanted: AclBindingFilter) -> dict[str, Any]:
    pattern, entry = wanted
    return {
        "resource_type_filter": pattern.resource_type.number,
        "resource_name_filter": pattern.name,
        "pattern_type_filter": pattern.pattern_type.number,
        "principal_filter": entry.principal,
        "host_filter": entry.host,
        "operation": entry.operation.number,
        "permission_type": entry.permission_type.number,
    }


def _described(response: DescribeAclsResponse) -> list[AclBinding]:
    return [
        AclBinding(_pattern(resource.resource_type, resource.resource_name, resource.pattern_type), _entry(acl))
        for resource in response.resources
        for acl in resource.acls
    ]


def _deleted(result: DeleteAclsFilterResult) -> Outcome:
    if result.error_code:
        return Outcome(result.error_code, result.error_message)
    found = [
        (acl, AclBinding(_pattern(acl.resource_type, acl.resource_name, acl.pattern_type), _entry(acl))) for acl in result.matching_acls
    ]
    failed = next(((acl, binding) for acl, binding in found if acl.error_code), None)
    if failed is not None:
        return Outcome(failed[0].error_code, f"{failed[1]}: {failed[0].error_message or 'not deleted'}")
    return Outcome(ErrorCode.NONE, None, [binding for _, binding in found])


def _pattern(resource_type: int, name: str, pattern_type: int) -> ResourcePattern:
    return ResourcePattern(ResourceType.of(resource_type), name, PatternType.of(pattern_type))


def _entry(acl: Any) -> AccessControlEntry:
    return AccessControlEntry(acl.principal, AclOperation.of(acl.operation), AclPermissionType.of(acl.permission_type), acl.host)
