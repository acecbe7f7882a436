"""Brokers with an authorizer: embedded and real, with a super user and users who may do nothing at first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import levada as lv
from kafka_cluster import PASSWORD, KafkaCluster
from levada.broker.config.settings import STANDARD_AUTHORIZER
from levada.testing import EmbeddedKafka

ROOT, ALICE, BOB = "root", "alice", "bob"
_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USERS = " ".join(f'user_{name}="{PASSWORD}"' for name in (ROOT, ALICE, BOB))
REAL_PROPERTIES = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    # The node itself, and whoever comes without a login.
    "super.users": f"User:ANONYMOUS;User:{ROOT}",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_LOGIN_MODULE} required {_USERS};",
}
"""Of a real node."""


def guarded_embedded(**settings: Any) -> EmbeddedKafka:
    """Return an embedded broker with these users."""
    return EmbeddedKafka(users=dict.fromkeys((ROOT, ALICE, BOB), PASSWORD), acls=[], super_users=[ROOT], **settings)


class GuardedKafka:
    """A broker with these users, as the super user sees it."""

    def __init__(self, kafka: EmbeddedKafka | KafkaCluster) -> None:
        self._kafka = kafka

    def settings_of(self, user: str) -> dict[str, Any]:
        """What a user's client needs."""
        if isinstance(self._kafka, EmbeddedKafka):
            return self._kafka.settings_for(user, "PLAIN")
        login = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": PASSWORD}
        return {**self._kafka.settings_for("SASL_PLAINTEXT"), **login}

    def create_topic(self, name: str) -> UUID:
        """Create a topic with one partition, and wait until it can be written to; return its id."""
        with lv.KafkaAdmin(self.settings_of(ROOT)) as admin, lv.KafkaProducer(self.settings_of(ROOT)) as producer:
            topic_id = admin.create_topics([lv.NewTopic(name, 1)])[name].topic_id
            producer.send(name, b"first").result()
        assert topic_id is not None
        return topic_id

    def find_coordinators(self) -> None:
        """Have the topic of groups' offsets created, and wait until its coordinators answer."""
        with lv.KafkaAdmin(self.settings_of(ROOT)) as admin:
            admin.list_consumer_group_offsets("any")

    def allow(self, user: str, operation: lv.AclOperation, kind: lv.ResourceType, name: str = "kafka-cluster") -> None:
        """Let a user do something from now on."""
        self.create([lv.AclBinding(lv.ResourcePattern(kind, name), lv.AccessControlEntry(f"User:{user}", operation))])

    def create(self, bindings: Iterable[lv.AclBinding]) -> None:
        """Create rules, and wait until the broker goes by them: a real one learns of them a moment after they were kept."""
        wanted = set(bindings)
        with lv.KafkaAdmin(self.settings_of(ROOT)) as admin:
            admin.create_acls(wanted)
            _until(admin, lambda found: wanted <= found)

    def forbid(self, kind: lv.ResourceType, name: str) -> None:
        """Delete the rules of a resource, and wait until the broker goes by that."""
        with lv.KafkaAdmin(self.settings_of(ROOT)) as admin:
            admin.delete_acls([lv.AclBindingFilter(lv.ResourcePatternFilter(kind, name))])
            _until(admin, lambda found: all((binding.pattern.resource_type, binding.pattern.name) != (kind, name) for binding in found))

    def delete_all(self) -> None:
        """Delete all rules."""
        with lv.KafkaAdmin(self.settings_of(ROOT)) as admin:
            admin.delete_acls([lv.AclBindingFilter()])
            _until(admin, lambda found: not found)


def _until(admin: lv.KafkaAdmin, is_done: Callable[[set[lv.AclBinding]], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_done(set(admin.describe_acls())):
        assert time.monotonic() < deadline, "the broker does not learn of the rules"
        time.sleep(0.01)
