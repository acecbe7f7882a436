"""Share consumers of levada, confluent-kafka and Java with one interface. poll() accepts its records, and commits that."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import confluent_kafka

import levada
from kafka_cluster import KafkaCluster
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest

GROUP_RESOURCE = 32
POLL_S = 0.3


class Seen(NamedTuple):
    """A record that a share consumer has returned."""

    partition: int
    offset: int
    value: bytes


class ShareMember(Protocol):
    def poll(self) -> list[Seen]: ...

    def close(self) -> None: ...


class LevadaShareMember:
    def __init__(self, servers: str, group: str, topic: str) -> None:
        self._consumer: Any = levada.KafkaShareConsumer(
            bootstrap_servers=servers, group_id=group, share_acknowledgement_mode="explicit", max_poll_records=10
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[Seen]:
        found = self._consumer.poll(POLL_S)
        self._consumer.acknowledge(found)
        self._consumer.commit()
        return [Seen(record.partition, record.offset, record.value) for record in found]

    def release_some(self) -> list[Seen]:
        """Poll, release the records so that other members can get them, and return the records."""
        found = self._consumer.poll(POLL_S)
        self._consumer.acknowledge(found, "release")
        self._consumer.commit()
        return [Seen(record.partition, record.offset, record.value) for record in found]

    def metrics(self) -> set[tuple[str, str]]:
        """Groups and names."""
        return {(metric.group, metric.name) for metric in self._consumer.metrics()}

    def close(self) -> None:
        self._consumer.close()


class ConfluentShareMember:
    def __init__(self, servers: str, group: str, topic: str) -> None:
        settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 10,
        }
        self._consumer: Any = confluent_kafka.ShareConsumer(settings)
        self._consumer.subscribe([topic])

    def poll(self) -> list[Seen]:
        found = [message for message in self._consumer.poll(POLL_S) if message.error() is None]
        for message in found:
            self._consumer.acknowledge(message)
        failed = [error for error in self._consumer.commit_sync(10.0).values() if error is not None]
        assert not failed
        return [Seen(message.partition(), message.offset(), message.value()) for message in found]

    def close(self) -> None:
        self._consumer.close()


class JavaShareMember:
    """Kafka's own share consumer. program: the running tests/java/ShareClients.java."""

    def __init__(self, program: Any, servers: str, group: str, topic: str) -> None:
        self._program, self._name = program, uuid4().hex
        self._ask("open", self._name, servers, group, topic)

    def _ask(self, *fields: str) -> list[str]:
        return list(self._program.ask("\t".join(fields).encode()).decode().splitlines())

    def poll(self) -> list[Seen]:
        lines = [line.split("\t") for line in self._ask("poll", self._name, str(int(POLL_S * 1000)))]
        return [Seen(int(partition), int(offset), bytes.fromhex(value)) for partition, offset, _, value in lines]

    def metrics(self) -> set[tuple[str, str]]:
        """Groups and names."""
        return {(group, name) for group, name in (line.split("\t") for line in self._ask("metrics", self._name))}

    def close(self) -> None:
        self._ask("close", self._name)


def new_share_group(api: Any, kafka: Any, **settings: str) -> str:
    """Configure a new share group to read from the beginning, with short intervals. Returns its name. api: levada, or the same names."""
    group = f"share-{uuid4()}"
    # Members get assignments with their next heartbeat. Tests of the embedded broker set the heartbeat interval for all groups.
    quick = {"share_heartbeat_interval_ms": "200", "share_assignment_interval_ms": "0"} if isinstance(kafka, KafkaCluster) else {}
    with api.KafkaClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        configure_group(client, group, **{"share_auto_offset_reset": "earliest", **quick, **settings})
    return group


def configure_group(client: Any, group: str, **settings: str) -> None:
    """Set configs of a group. settings: their names with underscores for dots."""
    configs = [AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value) for name, value in settings.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
    answer = client.request(IncrementalAlterConfigsRequest(resources=[resource]))
    assert not answer.responses[0].error_code, answer
