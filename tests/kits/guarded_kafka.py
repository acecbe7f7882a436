"""Embedded and real brokers with an authorizer: the super user root, and users without permissions."""

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
    # ANONYMOUS: the node itself, and clients without a login.
    "super.users": f"User:ANONYMOUS;User:{ROOT}",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_LOGIN_MODULE} required {_USERS};",
}
"""Broker properties of a real node."""


def guarded_embedded(**settings: Any) -> EmbeddedKafka:
    """Return an embedded broker with an authorizer, the users root, alice and bob, and no ACLs."""
    return EmbeddedKafka(users=dict.fromkeys((ROOT, ALICE, BOB), PASSWORD), acls=[], super_users=[ROOT], **settings)


class GuardedKafka:
    """A broker with these users. The methods act as the super user."""

    def __init__(self, kafka: EmbeddedKafka | KafkaCluster) -> None:
        self._kafka = kafka

    def settings_of(self, user: str) -> dict[str, Any]:
        """Return the client settings for a user."""
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
        """Request a group's offsets, so that the broker creates __consumer_offsets and the coordinators are ready."""
        with lv.KafkaAdmin(self.settings_of(ROOT)) as admin:
            admin.list_consumer_group_offsets("any")

    def allow(self, user: str, operation: lv.AclOperation, kind: lv.ResourceType, name: str = "kafka-cluster") -> None:
        """Allow a user an operation on a resource, and wait until the broker applies the ACL."""
        self.create([lv.AclBinding(lv.ResourcePattern(kind, name), lv.AccessControlEntry(f"User:{user}", operation))])

    def create(self, bindings: Iterable[lv.AclBinding]) -> None:
        """Create ACLs, and wait until the broker lists them. A real broker applies ACLs a moment after they were stored."""
        wanted = set(bindings)
        with lv.KafkaAdmin(self.settings_of(ROOT)) as admin:
            admin.create_acls(wanted)
            _until(admin, lambda found: wanted <= found)

    def forbid(self, kind: lv.ResourceType, name: str) -> None:
        """Delete the ACLs of a resource, and wait until the broker does not list them any more."""
        with lv.KafkaAdmin(self.settings_of(ROOT)) as admin:
            admin.delete_acls([lv.AclBindingFilter(lv.ResourcePatternFilter(kind, name))])
            _until(admin, lambda found: all((binding.pattern.resource_type, binding.pattern.name) != (kind, name) for binding in found))

    def delete_all(self) -> None:
        """Delete all ACLs, and wait until the broker lists none."""
        with lv.KafkaAdmin(self.settings_of(ROOT)) as admin:
            admin.delete_acls([lv.AclBindingFilter()])
            _until(admin, lambda found: not found)


def _until(admin: lv.KafkaAdmin, is_done: Callable[[set[lv.AclBinding]], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_done(set(admin.describe_acls())):
        assert time.monotonic() < deadline, "the broker does not learn of the rules"
        time.sleep(0.01)
