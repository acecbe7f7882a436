"""What follows from access rules, as Kafka's StandardAuthorizer decides it."""

from __future__ import annotations

import time
from random import Random

import pytest

from levada.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from levada.broker.access.authorizer import Authorizer, Requester

Op, Type = AclOperation, ResourceType
ALICE = Requester("User:alice", "10.0.0.1")


def rule(
    operation: AclOperation,
    name: str = "t",
    *,
    who: str = "User:alice",
    host: str = "*",
    prefixed: bool = False,
    denies: bool = False,
    of: ResourceType = Type.TOPIC,
) -> AclBinding:
    pattern = ResourcePattern(of, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    return AclBinding(pattern, AccessControlEntry(who, operation, AclPermissionType.DENY if denies else AclPermissionType.ALLOW, host))


@pytest.mark.parametrize(
    ("rules", "operation", "name", "is_allowed"),
    [
        ([], Op.READ, "t", False),
        ([rule(Op.READ)], Op.READ, "t", True),
        ([rule(Op.READ)], Op.WRITE, "t", False),
        ([rule(Op.READ)], Op.READ, "t2", False),
        ([rule(Op.ALL)], Op.ALTER_CONFIGS, "t", True),
        ([rule(Op.READ, "*")], Op.READ, "any", True),
        ([rule(Op.READ, "or", prefixed=True)], Op.READ, "orders", True),
        ([rule(Op.READ, "or", prefixed=True)], Op.READ, "o", False),
        ([rule(Op.READ, "*", prefixed=True)], Op.READ, "orders", False),
        ([rule(Op.READ, of=Type.GROUP)], Op.READ, "t", False),
        ([rule(Op.READ, who="User:*")], Op.READ, "t", True),
        ([rule(Op.READ, who="User:bob")], Op.READ, "t", False),
        ([rule(Op.READ, host="10.0.0.1")], Op.READ, "t", True),
        ([rule(Op.READ, host="10.0.0.2")], Op.READ, "t", False),
        # Deny counts more, however it is said.
        ([rule(Op.READ), rule(Op.READ, denies=True)], Op.READ, "t", False),
        ([rule(Op.READ), rule(Op.ALL, "*", who="User:*", denies=True)], Op.READ, "t", False),
        ([rule(Op.READ), rule(Op.WRITE, denies=True)], Op.READ, "t", True),
        ([rule(Op.READ), rule(Op.READ, denies=True, host="10.0.0.2")], Op.READ, "t", True),
        # What may be done implies what has to be known for it; what may not be done implies nothing.
        *(([rule(implying)], Op.DESCRIBE, "t", True) for implying in (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER)),
        ([rule(Op.CREATE)], Op.DESCRIBE, "t", False),
        ([rule(Op.ALTER_CONFIGS)], Op.DESCRIBE_CONFIGS, "t", True),
        ([rule(Op.ALTER_CONFIGS)], Op.DESCRIBE, "t", False),
        ([rule(Op.WRITE), rule(Op.READ, denies=True)], Op.DESCRIBE, "t", True),
        ([rule(Op.WRITE), rule(Op.DESCRIBE, denies=True)], Op.DESCRIBE, "t", False),
        ([rule(Op.WRITE), rule(Op.DESCRIBE, denies=True)], Op.WRITE, "t", True),
    ],
)
def test_rules_decide(rules: list[AclBinding], operation: AclOperation, name: str, is_allowed: bool) -> None:
    assert Authorizer(rules).allows(ALICE, operation, Type.TOPIC, name) is is_allowed


def test_super_users_may_do_everything() -> None:
    authorizer = Authorizer([rule(Op.ALL, "*", who="User:*", denies=True)], super_users=["User:alice"])
    assert authorizer.allows(ALICE, Op.WRITE, Type.TOPIC, "t")
    assert authorizer.allows_with_any(ALICE, Op.WRITE, Type.TOPIC)
    assert not authorizer.allows(Requester("User:bob", ALICE.host), Op.WRITE, Type.TOPIC, "t")


def test_everybody_may_where_no_rule_is_about_the_resource() -> None:
    authorizer = Authorizer([rule(Op.READ, who="User:bob")], allows_if_none=True)
    assert authorizer.allows(ALICE, Op.WRITE, Type.TOPIC, "other")
    assert not authorizer.allows(ALICE, Op.READ, Type.TOPIC, "t"), "a rule about others is one about the topic"


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ([], False),
        ([rule(Op.WRITE)], True),
        ([rule(Op.ALL)], True),
        ([rule(Op.READ)], False),
        ([rule(Op.WRITE, of=Type.GROUP)], False),
        ([rule(Op.WRITE), rule(Op.WRITE, denies=True)], False),
        ([rule(Op.WRITE, "*"), rule(Op.WRITE, denies=True)], True),
        ([rule(Op.WRITE), rule(Op.WRITE, "*", denies=True)], False),
        ([rule(Op.WRITE, "orders"), rule(Op.WRITE, "or", prefixed=True, denies=True)], False),
        ([rule(Op.WRITE, "or", prefixed=True), rule(Op.WRITE, "orders", denies=True)], True),
        ([rule(Op.WRITE, "or", prefixed=True), rule(Op.WRITE, "o", prefixed=True, denies=True)], False),
        ([rule(Op.WRITE, "or", prefixed=True), rule(Op.WRITE, "or", denies=True)], True),
    ],
)
def test_who_may_write_somewhere(rules: list[AclBinding], is_allowed: bool) -> None:
    assert Authorizer(rules).allows_with_any(ALICE, Op.WRITE, Type.TOPIC) is is_allowed


def test_an_index_of_many_rules_decides_as_a_look_at_each_rule() -> None:
    random = Random(7)
    names = ["", "*", "a", "ab", "abc", "b", "hardcode"]
    for _ in range(300):
        rules = [
            rule(
                random.choice([Op.READ, Op.ALL]),
                random.choice(names[1:]),
                who=random.choice(["User:alice", "User:bob", "User:*"]),
                prefixed=random.random() < 0.5,
                denies=random.random() < 0.3,
                of=random.choice([Type.TOPIC, Type.GROUP]),
            )
            for _ in range(random.randrange(6))
        ]
        authorizer = Authorizer(rules[:2], allows_if_none=True)
        authorizer.add([*rules[2:], *rules[:1]])
        authorizer.remove(gone := rules[4:])
        left = [one for one in rules if one not in gone]
        for name in names:
            assert authorizer.allows(ALICE, Op.READ, Type.TOPIC, name) is decided_one_by_one(left, name), (left, name)


def decided_one_by_one(rules: list[AclBinding], name: str) -> bool:
    """What rules about READ and ALL of topics decide for alice, with allow.everyone.if.no.acl.found."""
    about = [
        entry
        for pattern, entry in rules
        if pattern.resource_type is Type.TOPIC
        and (name.startswith(pattern.name) if pattern.pattern_type is PatternType.PREFIXED else pattern.name in (name, "*"))
    ]
    permissions = [entry.permission_type for entry in about if entry.principal in ("User:alice", "User:*")]
    return not about or (bool(permissions) and AclPermissionType.DENY not in permissions)


def test_a_question_looks_at_few_of_many_rules() -> None:
    authorizer = Authorizer([*(rule(Op.READ, f"t{number}", prefixed=True) for number in range(20_000)), rule(Op.READ, "*", who="User:bob")])
    authorizer.add(rule(Op.READ, "*", who=f"User:{number}") for number in range(20_000))
    began_s = time.process_time()
    assert sum(authorizer.allows(ALICE, Op.READ, Type.TOPIC, f"t{number}") for number in range(0, 30_000, 30)) == 1000
    assert time.process_time() - began_s < 1
