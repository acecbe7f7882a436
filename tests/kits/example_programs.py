"""Runs programs of examples/ in processes of their own, on the embedded broker or a real Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import levada as lv
from kafka_cluster import KafkaCluster
from levada.testing import EmbeddedKafka

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_S = 60


class RealKafka:
    """A real Kafka with what these tests ask of EmbeddedKafka."""

    def __init__(self, cluster: KafkaCluster, admin: lv.KafkaAdmin) -> None:
        self.bootstrap_servers = cluster.bootstrap_servers
        self.create_topic = cluster.create_topic
        self._admin = admin

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the end of a partition."""
        place = lv.TopicPartition(topic, partition)
        found = self._admin.list_offsets({place: lv.OffsetSpec.LATEST})[place]
        assert found is not None
        return found.offset


Kafka = EmbeddedKafka | RealKafka


@contextmanager
def own_topics(cluster: KafkaCluster) -> Iterator[RealKafka]:
    """Use a real Kafka that other tests use, too: topics that are made meanwhile are deleted at the end."""
    with lv.KafkaAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        before = set(admin.list_topics())
        yield RealKafka(cluster, admin)
        admin.delete_topics(sorted(set(admin.list_topics()) - before))


@contextmanager
def broker(given: KafkaCluster | None, partitions: int) -> Iterator[Kafka]:
    """Use a real Kafka if one is given, otherwise an embedded broker. Topics that are not created have so many partitions on the latter."""
    with EmbeddedKafka(num_partitions=partitions) if given is None else own_topics(given) as kafka:
        yield kafka


def where(given_kafka: KafkaCluster | None) -> Iterator[list[str]]:
    """A fixture: the options by which a program uses a real Kafka, none if it starts the embedded broker itself."""
    with nullcontext() if given_kafka is None else own_topics(given_kafka) as kafka:
        yield [] if kafka is None else ["--kafka", kafka.bootstrap_servers]


class Program:
    """A program that runs, and the lines that it has printed to stdout and stderr so far."""

    def __init__(self, name: str, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-u", str(EXAMPLES / f"{name}.py"), *arguments]
        env = {**{name: value for name, value in os.environ.items() if name != "KAFKA"}, **environment}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True, start_new_session=True
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                with self._changed:
                    self.lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, text: str, times: int = 1) -> str:
        """Wait until so many lines have a text, and return the last of them."""

        def found() -> list[str]:
            return [line for line in self.lines if text in line]

        with self._changed:
            self._changed.wait_for(lambda: self._ended or len(found()) >= times, PATIENCE_S)
            assert len(found()) >= times, f"no {text!r} in:\n{self.output}"
            return found()[times - 1]

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def end(self, number: int | None = None) -> int:
        """Wait until the program has ended, after a signal if one is given; return its exit status."""
        if number is not None:
            self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status


@contextmanager
def running(name: str, *arguments: str, **environment: str) -> Iterator[Program]:
    """Run a program until the block ends. environment: more variables; KAFKA is not taken from the test's own."""
    program = Program(name, *arguments, **environment)
    try:
        yield program
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.process.pid, signal.SIGKILL)  # With the processes that it has started.
        program.end()
