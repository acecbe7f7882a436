"""A broker in whose share groups members without a client take part, and what it answers them in a form that can be compared (KIP-932)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from broker_kit import make_batch, produce_request
from levada.error_codes import ErrorCode
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.schema import Struct
from levada.record.memory_records import read_batches
from share_kit import Got, Part, ShareMember, Told, got
from wire import Wire

PATIENCE_S = 20
POLL_S = 0.02
LEFT_OUT = {"throttle_time_ms", "topic_id", "heartbeat_interval_ms", "error_message", "acknowledge_error_message", "records"}
GROUP_CONFIG = 32


class Side:
    """A broker, with a group and a topic of its own there."""

    def __init__(self, kafka: Any, group: str, partitions: int = 2) -> None:
        self.kafka = kafka
        self.group = group
        self.topic = f"{group}-t"
        self.wires: list[Wire] = []
        self.wire = self.connect()
        wait_until(lambda: not self.wire.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators[0].error_code)
        kafka.create_topic(self.topic, partitions)
        wait_until(lambda: not self.metadata().error_code)
        self.topic_id: UUID = self.metadata().topic_id
        self.configure(share_auto_offset_reset="earliest", share_assignment_interval_ms="0")

    def connect(self) -> Wire:
        self.wires.append(Wire(self.kafka.bootstrap_servers))
        return self.wires[-1]

    def metadata(self) -> Any:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False)
        return self.wire.ask(wanted, 12).topics[0]

    def configure(self, **settings: str) -> Any:
        changes = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in settings.items()]
        resource = AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=self.group, configs=changes)
        (answer,) = self.wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        return ErrorCode(answer.error_code).name

    def produce(self, *sizes: int, partition: int = 0) -> None:
        """Append a batch of each size."""
        for size in sizes:
            (topic,) = self.wire.ask(produce_request(self.topic, make_batch(*[b"v"] * size), partition=partition), 9).responses
            assert not topic.partition_responses[0].error_code

    def part(self, index: int = 0) -> Part:
        return self.topic_id, index

    def member(self, name: str, **options: Any) -> SideMember:
        return SideMember(self, f"{self.group}-{name}", **options)

    def plain(self, part: Any, name: str = "") -> Any:
        if name == "acquired_records":
            return part
        if isinstance(part, list) and name == "topic_partitions":
            return sorted(len(topic.partitions) for topic in part if topic.partitions)
        if isinstance(part, list):
            return sorted((self.plain(element, name) for element in part), key=repr)
        if isinstance(part, Struct):
            return {field.name: self.plain(getattr(part, field.name), field.name) for field in part.FIELDS if field.name not in LEFT_OUT}
        return ErrorCode(part).name if name.endswith("error_code") else part

    def close(self) -> None:
        for wire in self.wires:
            wire.close()


class SideMember(ShareMember):
    """A member with a connection of its own, as its share session belongs to it."""

    def __init__(self, side: Side, name: str, **options: Any) -> None:
        super().__init__(side.group, name, **{"topics": [side.topic], **options})
        self.side = side
        self.wire = side.connect()

    def asks(self, request: Any, version: int) -> Any:
        return self.side.plain(self.wire.ask(request, version))

    def joins(self, **fields: Any) -> Any:
        return self.side.plain(self.take(self.wire.ask(self.join(**fields), 1)))

    def beats(self, **fields: Any) -> Any:
        return self.side.plain(self.take(self.wire.ask(self.beat(**fields), 1)))

    def settles(self, count: int = 2) -> None:
        """Join, and wait until there are so many partitions to read."""
        if not self.epoch:
            self.joins()

        def has_all() -> bool:
            self.beats()
            return len(self.has) == count

        wait_until(has_all)

    def fetches(self, version: int = 2, **fields: Any) -> Any:
        """What a fetch tells: an error, or what became of each partition."""
        answer = self.wire.ask(self.fetch(**fields), version)
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        self.follow()
        return sorted(
            (
                partition.partition_index,
                ErrorCode(partition.error_code).name,
                ErrorCode(partition.acknowledge_error_code).name,
                got(partition),
                [(batch.base_offset, batch.last_offset) for batch in read_batches(partition.records)],
            )
            for topic in answer.responses
            for partition in topic.partitions
        )

    def gets(self, **fields: Any) -> list[Got]:
        """What a fetch gives of partition 0. It waits for a while, since leaders read what is kept of a group when it comes first."""
        found: list[Got] = []

        def has_some() -> bool:
            told = self.fetches(**{"max_wait_ms": 200, **fields})
            assert isinstance(told, list), told
            found.extend(one for _, _, _, given, _ in told for one in given)
            return bool(found)

        wait_until(has_some)
        return found

    def acknowledges(self, *told: Told, version: int = 2, part: int = 0, **fields: Any) -> Any:
        answer = self.wire.ask(self.acknowledge({self.side.part(part): told}, **fields), version)
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        self.follow()
        return [ErrorCode(partition.error_code).name for topic in answer.responses for partition in topic.partitions]


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)
