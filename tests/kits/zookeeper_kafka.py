"""Real Apache Kafka from the years of ZooKeeper (0.8 to 2.8): one broker and one ZooKeeper, each in its own process, always ended.

The same surface as a KafkaCluster of one node. Topics are created as these brokers like it best: by being asked about, or through the
broker's own TopicCommand where a topic has settings of its own.
"""

from __future__ import annotations

import atexit
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from kafka_cluster import KEEP_EVERYTHING, POMS, START_TIMEOUT_S, die_with_parent, free_ports, receive
from kafka_jars import jars, java

VERSIONS = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.8.2")
METADATA_V0 = struct.pack(">hhih", 3, 0, 1, -1)
NO_ERROR = 0
LOGGING = """
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d %p %c %m%n
"""


class ZookeeperKafka:
    """A context manager over one broker of an old version, with server properties of your own on top."""

    def __init__(self, version: str, *, properties: Mapping[str, Any] | None = None, heap: str = "256m") -> None:
        self.version = version
        self.properties = dict(properties or {})
        self.heap = heap
        self.java = java()
        self.jars = jars(POMS / f"pom-{version}.xml")
        self.folder = Path(tempfile.mkdtemp(prefix="levada-kafka-"))
        self.log_path = self.folder / "server.log"
        self.port, self.zookeeper_port = free_ports(2)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> ZookeeperKafka:
        atexit.register(self.close)
        try:
            (self.folder / "log4j.properties").write_text(LOGGING)
            self._start("org.apache.zookeeper.server.quorum.QuorumPeerMain", self._write("zoo.cfg", self._zookeeper_settings()))
            self._wait("ZooKeeper", self._zookeeper_listens)
            self._start("kafka.Kafka", self._write("server.properties", self._settings()))
            self._wait(f"Kafka {self.version}", self._answers)
        except BaseException:
            self.close()
            raise
        return self

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        """Create a topic and wait until it can be used."""
        if config or partitions != 1:
            self._topic_command(name, partitions, config or {})
        self._wait(f"topic {name}", lambda: self._is_led(name))

    def keep_logs(self, folder: Path) -> list[Path]:
        """Copy the log into a folder, and return the copies."""
        if not self.log_path.exists():
            return []
        folder.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(self.log_path, folder / f"kafka-{self.version}-{self.folder.name[-8:]}.log"))]

    def close(self) -> None:
        """Kill both processes and remove their data."""
        atexit.unregister(self.close)
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> ZookeeperKafka:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _zookeeper_settings(self) -> dict[str, Any]:
        data = self.folder / "zookeeper"
        return {"dataDir": data, "clientPort": self.zookeeper_port, "clientPortAddress": "127.0.0.1", "admin.enableServer": "false"}

    def _settings(self) -> dict[str, Any]:
        # host.name and port are 0.8's; later versions have listeners.
        return {
            "broker.id": 1,
            "host.name": "127.0.0.1",
            "port": self.port,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "zookeeper.connect": f"127.0.0.1:{self.zookeeper_port}",
            "log.dirs": self.folder / "data",
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 3,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **KEEP_EVERYTHING,
            **self.properties,
        }

    def _write(self, name: str, settings: Mapping[str, Any]) -> Path:
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _command(self, *arguments: str) -> list[str]:
        logging = [f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return [str(self.java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *logging, *arguments]

    def _start(self, main: str, settings: Path) -> None:
        command = self._command(f"-Xmx{self.heap}", "-cp", f"{self.jars}/*", main, str(settings))
        with self.log_path.open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=die_with_parent
                )
            )

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready():
            if any(process.poll() is not None for process in self._processes):
                raise RuntimeError(f"a process of Kafka {self.version} ended:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} was not there within {START_TIMEOUT_S} s:\n{self._log_tail()}")
            time.sleep(0.05)

    def _log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def _zookeeper_listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.zookeeper_port), timeout=2):
                return True
        except OSError:
            return False

    def _answers(self) -> bool:
        """Whether the broker answers Metadata; 0.8 names no broker, not even itself, before there is a topic."""
        return len(self._metadata()) >= 8

    def _is_led(self, topic: str) -> bool:
        """Whether a topic and its first partition are there without error; asking creates it."""
        answer = self._metadata(topic)
        name = topic.encode()
        at = answer.find(struct.pack(">h", len(name)) + name)
        if at < 2 or len(answer) < at + 2 + len(name) + 4 + 2:
            return False
        topic_error = struct.unpack_from(">h", answer, at - 2)[0]
        partitions, first_error = struct.unpack_from(">ih", answer, at + 2 + len(name))
        return bool(topic_error == NO_ERROR and partitions > 0 and first_error == NO_ERROR)

    def _metadata(self, *topics: str) -> bytes:
        """Return the body of a Metadata answer, b"" while nobody answers. By hand, in the version that all these brokers speak."""
        request = METADATA_V0 + struct.pack(">i", len(topics))
        request += b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                size = struct.unpack(">i", receive(connection, 4))[0]
                return receive(connection, size)[4:]
        except OSError:
            return b""

    def _topic_command(self, name: str, partitions: int, config: Mapping[str, Any]) -> None:
        settings = [argument for key, value in config.items() for argument in ("--config", f"{key}={value}")]
        zookeeper = ["--zookeeper", f"127.0.0.1:{self.zookeeper_port}", "--replication-factor", "1", "--partitions", str(partitions)]
        command = self._command("-cp", f"{self.jars}/*", "kafka.admin.TopicCommand", "--create", "--topic", name, *zookeeper, *settings)
        run = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, stdin=subprocess.DEVNULL)
        if run.returncode != 0 or "Created topic" not in run.stdout:
            raise RuntimeError(f"Kafka {self.version} did not create {name}:\n{run.stdout}{run.stderr}")
