"""M-P8: random access rules, and whether a user may do what each API is for, as Kafka 4.4 answers it.

A seed makes rules for a user; then the user asks for everything once. Compared are the error codes and the sets of authorized operations of
each answer, and the names that they are about.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import levada as lv
from guarded_kafka import ALICE, ROOT, GuardedKafka, guarded_embedded
from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from levada.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from levada.protocol.messages.describe_acls import DescribeAclsRequest
from levada.protocol.schema import Request, Struct
from permission_course import Course

pytestmark = pytest.mark.kafka

SEEDS = 4
NAMES = frozenset({"name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_name"})
NUMBERS = frozenset({"partition_index", "index", "partition"})
TEMPORARY = {14, 15, 16, 51}
"""Codes of a coordinator that is not there yet, or still busy."""
PERMITTED = {int(ErrorCode.NONE), int(ErrorCode.INVALID_RECORD_STATE)}
"""Of a share group's partition: acknowledging what was not acquired has no effect, or is refused while the partition is being loaded."""


def told(answer: Struct) -> list[tuple[Any, ...]]:
    """Return what is compared of an answer: which names it has, with which codes, sorted."""
    found: list[tuple[Any, ...]] = []

    def take(struct: Any, about: tuple[Any, ...]) -> None:
        fields = {field.name: getattr(struct, field.name) for field in struct.FIELDS}
        about += tuple(value for name, value in fields.items() if name in NAMES or name in NUMBERS)
        codes = tuple((name, value) for name, value in fields.items() if name.endswith(("error_code", "authorized_operations")))
        found.append((*map(str, about), codes))
        for name, value in fields.items():
            for one in value if isinstance(value, list) and name != "configs" else ():
                if isinstance(one, Struct):
                    take(one, about)

    take(answer, ())
    return sorted(found, key=str)


class Side:
    """One broker, and how its user asks."""

    def __init__(self, kafka: GuardedKafka) -> None:
        self.kafka = kafka

    def run(self, course: Course, rules: list[lv.AclBinding]) -> list[tuple[str, list[tuple[Any, ...]]]]:
        self.kafka.delete_all()
        ids = {topic: self.kafka.create_topic(topic) for topic in course.topics}
        if rules:
            self.kafka.create(rules)
        self.kafka.find_coordinators()
        with lv.KafkaClient(self.kafka.settings_of(ALICE)) as alice:
            return [
                (request.NAME, self.only_of(course, told(self.ask(alice, request, version)))) for request, version in course.questions(ids)
            ]

    @staticmethod
    def ask(alice: lv.KafkaClient, request: Request[Any], version: int) -> Any:
        """Ask as the user, again while a coordinator is busy."""
        deadline = time.monotonic() + 20
        while True:
            answer: Any = alice.request(request, version=version, node=1)
            busy = any(code in TEMPORARY for entry in told(answer) for _, code in entry[-1])
            if not busy or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    @staticmethod
    def only_of(course: Course, entries: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Leave out what other courses have left behind, and the brokers' own topics."""
        return [entry for entry in entries if is_about(course, *entry)]


def is_about(course: Course, *entry: Any) -> bool:
    """Whether a part of an answer is about what a course has asked for."""
    *names, codes = entry
    if not names:
        return bool(codes)
    if names[0] == "0":
        # A partition of a topic that goes by its id. One without an error and without records is not in every answer.
        return any(code not in PERMITTED for _, code in codes)
    return course.prefix in names[0] or names[0] == "1"


@pytest.fixture(scope="module")
def sides(kafka44_acls: KafkaCluster) -> Iterator[list[Side]]:
    with guarded_embedded() as embedded:
        yield [Side(GuardedKafka(kafka44_acls)), Side(GuardedKafka(embedded))]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_M_P8_rules_decide_as_in_kafka_44(sides: list[Side], seed: int) -> None:
    course = Course(seed)
    rules = course.rules()
    real, ours = (side.run(course, rules) for side in sides)
    differences = [
        (api, sorted(set(mine) - set(theirs), key=str), sorted(set(theirs) - set(mine), key=str))
        for (api, mine), (_, theirs) in zip(ours, real, strict=True)
        if mine != theirs
    ]
    assert not differences, "\n".join(map(str, rules))


ANY, MATCH = 1, 2
FILTERS = 60


def random_filter(random: Random, prefix: str) -> dict[str, Any]:
    return {
        "resource_type_filter": random.choice([ANY, ANY, 2, 3, 4, 5]),
        "resource_name_filter": random.choice([None, None, "*", prefix, f"{prefix}-a", f"{prefix}-a1", f"{prefix}-b", "kafka-cluster"]),
        "pattern_type_filter": random.choice([ANY, MATCH, 3, 4]),
        "principal_filter": random.choice([None, None, "User:alice", "User:*"]),
        "host_filter": random.choice([None, None, "*", "10.0.0.1"]),
        "operation": random.choice([ANY, ANY, ANY, 2, 3, 8]),
        "permission_type": random.choice([ANY, ANY, 2, 3]),
    }


def answers_about_rules(kafka: GuardedKafka, rules: list[lv.AclBinding], filters: list[dict[str, Any]]) -> list[Any]:
    """Return what a broker says of rules: of those that can be none, and which each filter means, before they are deleted, and then."""
    kafka.delete_all()
    kafka.create(rules)
    valid: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "t",
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    good = AclCreation(**valid)
    wrong: list[dict[str, Any]] = [
        {"resource_type": ANY},
        {"resource_pattern_type": MATCH},
        {"operation": ANY},
        {"permission_type": ANY},
        {"principal": "nobody"},
        {"resource_name": ""},
        {"resource_type": 4},
    ]
    with lv.KafkaClient(kafka.settings_of(ROOT)) as root:
        refused = [
            [one.error_code for one in root.request(CreateAclsRequest(creations=[AclCreation(**{**valid, **fault}), good])).results]
            for fault in wrong
        ]
        described = []
        for one in filters:
            answer = root.request(DescribeAclsRequest(**one))
            found = {(of.resource_type, of.resource_name, of.pattern_type, *fields(acl)) for of in answer.resources for acl in of.acls}
            described.append((answer.error_code, found))
        results = root.request(DeleteAclsRequest(filters=[DeleteAclsFilter(**one) for one in filters[:3]])).filter_results
        deleted = [
            (one.error_code, {(acl.resource_type, acl.resource_name, acl.pattern_type, *fields(acl)) for acl in one.matching_acls})
            for one in results
        ]
    return [refused, described, deleted]


def fields(acl: Any) -> tuple[str, str, int, int]:
    return acl.principal, acl.host, acl.operation, acl.permission_type


def test_M_P8_rules_are_kept_found_and_deleted_as_in_kafka_44(sides: list[Side]) -> None:
    course = Course(1)
    rules = [course.rule() for _ in range(30)]
    filters = [random_filter(course.random, course.prefix) for _ in range(FILTERS)]
    real, ours = (answers_about_rules(side.kafka, rules, filters) for side in sides)
    assert ours == real
