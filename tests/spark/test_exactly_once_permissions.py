"""What an exactly-once sink may not do: each permission is missed once, the error names it and all others, and nothing is half written."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

import pytest

import levada as lv
from cli_kit import done
from guarded_kafka import ALICE, REAL_PROPERTIES, ROOT, GuardedKafka, guarded_embedded
from kafka_cluster import KafkaCluster
from levada.errors import KafkaError
from levada.exactly_once.batch import parsed
from levada.testing import Authority
from spark_guide import SECTIONS
from spark_sink import Query, close_idle

Op, Type = lv.AclOperation, lv.ResourceType
_numbers = count(1)
pytestmark = pytest.mark.usefixtures("no_idle_clients")


@pytest.fixture(scope="module")
def guarded_broker() -> Iterator[Any]:
    with guarded_embedded(auto_create_topics_enable=False) as running:
        yield running


@pytest.fixture(scope="module")
def kafka39_acls(start_real_kafka: Callable[..., AbstractContextManager[KafkaCluster]]) -> Iterator[KafkaCluster]:
    with start_real_kafka("3.9.2", authority=Authority(), properties=REAL_PROPERTIES) as cluster:
        yield cluster


REAL = [
    pytest.param("kafka44_acls", marks=pytest.mark.kafka),
    pytest.param("kafka39_acls", marks=[pytest.mark.kafka, pytest.mark.matrix]),
]


@pytest.fixture(params=["guarded_broker", *REAL])
def kafka(request: pytest.FixtureRequest) -> Iterator[GuardedKafka]:
    guarded = GuardedKafka(request.getfixturevalue(request.param))
    guarded.delete_all()
    yield guarded
    guarded.delete_all()


def rule(operation: lv.AclOperation, kind: lv.ResourceType, name: str) -> lv.AclBinding:
    pattern = lv.ResourcePattern(kind, name, lv.PatternType.PREFIXED)
    return lv.AclBinding(pattern, lv.AccessControlEntry(f"User:{ALICE}", operation))


def committed_values(kafka: GuardedKafka, topic: str) -> Counter[bytes | None]:
    records = lv.scan(topic, isolation_level="read_committed", **kafka.settings_of(ROOT))
    return Counter(record.value for record in records if record.value != b"first")


def login_of(kafka: GuardedKafka) -> dict[str, str]:
    return {f"kafka.{name.replace('_', '.')}": str(value) for name, value in kafka.settings_of(ALICE).items()}


WAYS = {"inline": {}, "slots": {"inlineMaxBytes": "1"}}


@pytest.mark.parametrize("way", WAYS)
def test_each_permission_is_missed_by_name(kafka: GuardedKafka, way: str) -> None:
    topic, ledger = (f"once-{next(_numbers)}-{what}" for what in ("rows", "ledger"))
    for name in (topic, ledger):
        kafka.create_topic(name)
    kafka.find_coordinators()
    prefix = f"{topic}."
    needed = {
        "rows": rule(Op.WRITE, Type.TOPIC, topic),
        "ledger": rule(Op.READ, Type.TOPIC, ledger),
        "id": rule(Op.WRITE, Type.TRANSACTIONAL_ID, prefix),
        "group": rule(Op.READ, Type.GROUP, prefix),
    }
    query = Query(None, topic, **login_of(kafka), ledgerTopic=ledger, transactionalIdPrefix=prefix, **WAYS[way])
    kafka.create(needed.values())
    query.run(0, [b"a"], [b"b"])
    for number, (what, missed) in enumerate(needed.items(), 1):
        kafka.forbid(missed.pattern.resource_type, missed.pattern.name)
        with pytest.raises(KafkaError, match="this user needs the permission") as caught:
            query.run(number, [b"%d" % number], [b"%d-2" % number])
        assert what == "rows" or any("READ on groups, that begin with" in note for note in caught.value.__notes__), what
        kafka.create([missed])
        close_idle()
        query.restart()
        query.run(number, [b"%d" % number], [b"%d-2" % number])
    expected = Counter([b"a", b"b", *(text % number for number in range(1, 5) for text in (b"%d", b"%d-2"))])
    until_s = time.monotonic() + 20
    while (found := committed_values(kafka, topic)) != expected and time.monotonic() < until_s:
        # Brokers answer EndTxn before records can be read.
        time.sleep(0.05)
    assert found == expected


@pytest.mark.parametrize("way", WAYS)
def test_the_rules_that_the_guide_has_are_enough(kafka: GuardedKafka, way: str) -> None:
    topic = f"once-{next(_numbers)}-guide"
    kafka.create_topic(topic)
    kafka.find_coordinators()
    commands = re.findall(r"^levada (acls create .*)$", SECTIONS["Exactly once"], re.M)
    assert len(commands) == 3
    settings = {f"LEVADA_X_{name.upper()}": str(value) for name, value in kafka.settings_of(ROOT).items()}
    for command in commands:
        done(*command.replace("User:etl", f"User:{ALICE}").replace("paid", topic).split(), env=settings)
    query = Query(None, topic, **login_of(kafka), **WAYS[way])
    for number in range(3):
        query.run(number, [b"%d" % number], [b"%d-2" % number])
    with lv.KafkaAdmin(**kafka.settings_of(ROOT)) as admin:
        slots = [slot[1] for group in admin.list_groups() if query.query_id in group.group_id and (slot := parsed(group.group_id))]
    assert {slot.parity for slot in slots} <= {0}, "groups of the slots before the last batch are deleted"


def test_the_guide_has_the_same_rules_for_kafkas_own_tool() -> None:
    told = SECTIONS["Exactly once"].replace("\\\n", "")
    ours = re.findall(r"^levada acls create (.*)$", told, re.M)
    theirs = re.findall(r"^kafka-acls.sh --bootstrap-server host:9092 --add (.*)$", told, re.M)
    prefixed = [rules.replace("--resource-pattern-type prefixed", "--prefixed").split() for rules in theirs]
    assert [[word.lower() for word in rules] for rules in prefixed] == [rules.lower().split() for rules in ours]
