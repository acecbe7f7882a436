"""Arguments: bootstrap servers, and a name. Creates topics, describes and changes them and a group, and deletes them."""

# mypy: disable-error-code="attr-defined,no-untyped-call"

import sys
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

servers, name = sys.argv[1:3]
admin = AdminClient({"bootstrap.servers": servers})


def show(what: str, futures: Mapping[Any, Future[Any]]) -> None:
    for future in futures.values():
        try:
            result = future.result(timeout=20)
        except KafkaException as error:
            print(what, "failed:", error.args[0].name())
        else:
            print(what, "done:", result)


def main() -> None:
    show("create", admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1, config={"retention.ms": "60000"})]))
    show("create again", admin.create_topics([NewTopic(name, 2, 1)]))
    show("enlarge", admin.create_partitions([NewPartitions(name, 3)]))
    show("shrink", admin.create_partitions([NewPartitions(name, 1)]))

    resource = ConfigResource(ResourceType.TOPIC, name)
    change = ConfigEntry("retention.ms", "50000", incremental_operation=AlterConfigOpType.SET)
    show("alter", admin.incremental_alter_configs([ConfigResource("topic", name, incremental_configs=[change])]))
    settings = admin.describe_configs([resource])[resource].result(20)
    for key in ("retention.ms", "cleanup.policy"):
        entry = settings[key]
        print(entry, entry.is_default, entry.is_read_only, ConfigSource(entry.source).name)

    producer = Producer({"bootstrap.servers": servers})
    for number in range(10):
        producer.produce(name, b"v", partition=number % 2, timestamp=1000 + number)
    producer.flush()
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    for specs in (
        {first: OffsetSpec.latest(), second: OffsetSpec.earliest()},
        {first: OffsetSpec.for_timestamp(1005), second: OffsetSpec.max_timestamp()},
    ):
        for partition, future in admin.list_offsets(specs).items():
            print("offset:", partition.partition, future.result(20).offset, future.result(20).timestamp)
    for partition, deleted in admin.delete_records([TopicPartition(name, 0, 2)]).items():
        print("deleted before:", partition.partition, deleted.result(20).low_watermark)

    consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "auto.offset.reset": "earliest", "client.id": "reader"})
    consumer.subscribe([name])
    while consumer.poll(1.0) is None:
        pass
    group = admin.describe_consumer_groups([name])[name].result(20)
    print(
        "group:",
        group.state.name,
        group.type.name,
        [(member.client_id, len(member.assignment.topic_partitions)) for member in group.members],
    )
    show("delete a group with members", admin.delete_consumer_groups([name]))
    consumer.close()
    moved = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 4), TopicPartition(name, 1, 3)])
    print("moved:", [at.error for at in admin.alter_consumer_group_offsets([moved])[name].result(20).topic_partitions])
    for partitions in ([TopicPartition(name, 0, 4), TopicPartition(name, 1)], []):
        try:
            admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, partitions)])
        except ValueError as error:
            print("not moved:", error)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result(20)
    print("offsets:", sorted((at.partition, at.offset) for at in offsets.topic_partitions))
    listed = admin.list_consumer_groups().result(20)
    print("listed:", [group.state.name for group in listed.valid if group.group_id == name])
    show("delete the group", admin.delete_consumer_groups([name]))

    topic = admin.describe_topics(TopicCollection([name]))[name].result(20)
    print("topic:", topic.is_internal, [(one.id, one.leader.id, len(one.replicas)) for one in topic.partitions])
    print("nodes:", [node.id for node in admin.describe_cluster().result(20).nodes], name in admin.list_topics(timeout=10).topics)
    show("delete", admin.delete_topics([name]))
    show("delete again", admin.delete_topics([name]))


main()
