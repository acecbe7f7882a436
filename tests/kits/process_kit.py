"""consumer.process() in tests: topics to work on, consumers that end where the topic does, and what their groups have committed."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import levada as lv
from levada import aio

KEYS = 6
"""How many keys write() gives out in turn."""


def write(kafka: Any, topic: str, count: int, **where: Any) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many(topic, [(b"k%d" % (number % KEYS), b"%d" % number) for number in range(count)], **where)


def settings(kafka: Any, **more: Any) -> dict[str, Any]:
    ours = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, "stop_at_end": True, "group_id": f"g-{uuid4().hex}"}
    return {"bootstrap_servers": kafka.bootstrap_servers, **ours, **more}


def reader(kafka: Any, topic: str, **more: Any) -> lv.KafkaConsumer:
    made: lv.KafkaConsumer = lv.KafkaConsumer(**settings(kafka, **more))
    made.assign(made.partitions_for(topic))
    return made


def committed(kafka: Any, topic: str, group: str, partition: int = 0) -> int | None:
    tp = lv.TopicPartition(topic, partition)
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group) as consumer:
        at = consumer.committed([tp])[tp]
    return None if at is None else at.offset


async def run_tasks(kafka: Any, topic: str, handle: Any, *, group_id: str | None = None, **how: Any) -> None:
    ours = {} if group_id is None else {"group_id": group_id}
    async with aio.KafkaConsumer(**settings(kafka, **ours)) as consumer:
        consumer.assign(await consumer.partitions_for(topic))
        await consumer.process(handle, **how)
