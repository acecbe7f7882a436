"""Members of groups as the peers have them, each in a thread of its own, until it is closed.

assigned: the partitions that a member has now. seen: values of all records that it was handed. commit: commits what it was handed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import kafka as kafka_python
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange

import levada

POLL_S = 0.05
SESSION_MS = 6_000
HEARTBEAT_MS = 200
CLOSE_S = 30


class PeerMember(threading.Thread):
    """A member that polls until close(). Subclasses say how."""

    def __init__(self, servers: str, topic: str, group: str, **settings: Any) -> None:
        super().__init__(daemon=True, name=f"{type(self).__name__} of {group}")
        self.servers, self.topic, self.group, self.settings = servers, topic, group, settings
        self.assigned: frozenset[int] = frozenset()
        self.seen: list[bytes] = []
        self.error: BaseException | None = None
        self._commits: list[threading.Event] = []
        self._stopping = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error

    def commit(self) -> None:
        """Commit what was handed out so far."""
        done = threading.Event()
        self._commits.append(done)
        if not done.wait(CLOSE_S):
            raise TimeoutError(f"{self.name} did not commit") from self.error

    def close(self) -> None:
        """Leave the group."""
        self._stopping.set()
        self.join(CLOSE_S)
        assert not self.is_alive()
        # What peers' clients leave to the garbage collector, sockets among it, is not what is tested with them.
        gc.collect()
        if self.error is not None:
            raise self.error

    def _pending_commits(self, commit: Callable[[], Any]) -> None:
        while self._commits:
            commit()
            self._commits.pop().set()

    @abstractmethod
    def _work(self) -> None: ...


class ConfluentMember(PeerMember):
    def _work(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **self._protocol(),
            }
        )
        consumer.subscribe([self.topic])
        while not self._stopping.is_set():
            for message in consumer.consume(100, POLL_S):
                if message.error() is None:
                    self.seen.append(message.value() or b"")
            self._look_after(consumer)
            self.assigned = frozenset(tp.partition for tp in consumer.assignment())
            self._pending_commits(lambda: self._commit(consumer))
        consumer.close()

    def _look_after(self, consumer: confluent_kafka.Consumer) -> None:
        """Do what librdkafka does not do by itself."""

    def _commit(self, consumer: confluent_kafka.Consumer) -> None:
        try:
            consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            # It was handed nothing since the last rebalance.
            if error.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:
                raise

    def _protocol(self) -> dict[str, Any]:
        strategy = {"partition.assignment.strategy": "range"}
        return {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS, **strategy, **self.settings}


class ConfluentConsumerMember(ConfluentMember):
    """A member of a consumer group (KIP-848).

    librdkafka gives an answer to a heartbeat a second, or the heartbeat's interval, and repeats the heartbeat then without its topics and
    partitions. So a broker, Kafka 4.4 as well, sees no reason to say again what was in the late answer, and an assignment that was in
    there never arrives (librdkafka 2.16). On a busy machine that happens. The member joins anew then.
    """

    def _protocol(self) -> dict[str, Any]:
        lines = logging.getLogger(f"{__name__}.{id(self)}")
        lines.setLevel(logging.INFO)
        lines.addFilter(self._sees)
        self._missed_answer = False
        return {"group.protocol": "consumer", "logger": lines, **self.settings}

    def _sees(self, line: logging.LogRecord) -> bool:
        self._missed_answer |= "Timed out ConsumerGroupHeartbeatRequest" in line.getMessage()
        return True

    def _look_after(self, consumer: confluent_kafka.Consumer) -> None:
        if self._missed_answer:
            self._missed_answer = False
            consumer.unsubscribe()
            consumer.subscribe([self.topic])


class KafkaPythonMember(PeerMember):
    def _work(self) -> None:
        consumer = kafka_python.KafkaConsumer(
            self.topic,
            bootstrap_servers=self.servers,
            group_id=self.group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            **{"enable_auto_commit": False, **self.settings},
        )
        while not self._stopping.is_set():
            for records in consumer.poll(timeout_ms=int(POLL_S * 1000)).values():
                self.seen.extend(record.value for record in records)
            self.assigned = frozenset(tp.partition for tp in consumer.assignment())
            self._pending_commits(consumer.commit)
        consumer.close()


class AiokafkaMember(PeerMember):
    def _work(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.servers,
            group_id=self.group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            **{"enable_auto_commit": False, "partition_assignment_strategy": [AiokafkaRange], **self.settings},
        )
        async with consumer:
            while not self._stopping.is_set():
                for records in (await consumer.getmany(timeout_ms=int(POLL_S * 1000))).values():
                    self.seen.extend(record.value for record in records)
                self.assigned = frozenset(tp.partition for tp in consumer.assignment())
                while self._commits:
                    await consumer.commit()
                    self._commits.pop().set()


class LevadaMember(PeerMember):
    def _work(self) -> None:
        consumer = levada.KafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=self.group,
            auto_offset_reset="earliest",
            **{"enable_auto_commit": False, **self._protocol()},
        )
        with consumer:
            consumer.subscribe([self.topic])
            while not self._stopping.is_set():
                self.seen.extend(record.value or b"" for record in consumer.poll(POLL_S))
                self.assigned = frozenset(tp.partition for tp in consumer.assignment())
                self._pending_commits(consumer.commit)

    def _protocol(self) -> dict[str, Any]:
        return {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS, **self.settings}


class LevadaConsumerMember(LevadaMember):
    """A member of a consumer group (KIP-848)."""

    def _protocol(self) -> dict[str, Any]:
        return {"group_protocol": "consumer", **self.settings}


PEER_MEMBERS: tuple[type[PeerMember], ...] = (ConfluentMember, AiokafkaMember, KafkaPythonMember)
