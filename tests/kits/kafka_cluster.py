"""Real Apache Kafka on this machine: one KRaft node or several, each in its own process, always ended.

A node is formatted, started, and asked through its own port until it knows as many brokers as the cluster has; nothing sleeps and
hopes. Its log and data live in a temporary folder; `keep_logs` saves the logs of a run that failed.

As a command: `python tests/kits/kafka_cluster.py --version 4.4.0 --port 9092` serves until it is interrupted.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kafka_jars import KafkaUnavailable, jars, java
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.testing.security import Authority
from levada.testing.tokens import TokenIssuer
from node_links import NodeLinks, host_of, hosts_of
from wire import Wire

VERSIONS = ("4.4.0", "3.9.2")
POMS = Path(__file__).parents[1] / "real_kafka"
START_TIMEOUT_S = 60
# Below the range that the system hands to outgoing connections, so that a node finds its port free again when it restarts.
PORTS = range(20_000, 32_000)
PORT_SHARES = 8
PR_SET_PDEATHSIG = 1
# Tests write records of years ago, which a broker would delete as soon as it looks: half a minute after its start, then every five.
KEEP_EVERYTHING = {"log.retention.hours": 1_000_000}
# Code that is compiled once and quickly, and a collector without threads of its own: a node is there in seconds, and slow later on.
BETWEEN_NODES = ("LINKED", "CONTROLLER")
"""The listeners over which the nodes of a linked cluster speak with one another."""
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
USER, PASSWORD = "alice", "alice-secret"
LOGINS = ("SASL_PLAINTEXT", "SASL_SSL")
TOKENS = "TOKENS"
"""A listener that believes tokens by a set of keys, and ends sessions after so many milliseconds."""
SESSION_MS = 1_300
_MODULES = "org.apache.kafka.common.security"
JAAS = {
    "plain": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
    "oauthbearer": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE = 1


class KafkaNode:
    """One broker-and-controller process. `start` returns at once; `wait_until_ready` asks until it answers."""

    def __init__(self, cluster: KafkaCluster, node_id: int, ports: Mapping[str, int]) -> None:
        self.cluster = cluster
        self.id = node_id
        self.ports = ports
        self.folder = cluster.folder / f"node-{node_id}"
        self.log_path = self.folder / "server.log"
        self.rack = ""
        self.proxy_port = 0
        self.log_folders = [self.folder / "data"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return self.address_of("PLAINTEXT")

    def address_of(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the running process, user and system."""
        fields = Path(f"/proc/{self.process_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def format(self) -> None:
        """Write the properties and an empty, formatted log folder."""
        self.folder.mkdir(parents=True)
        if self.cluster.links is not None:
            self._hosts_path.write_text(hosts_of(self.id, [node.id for node in self.cluster.nodes]))
        self._properties_path.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        command = [*self._java(*QUICK_START), "kafka.tools.StorageTool", "format", "-t", self.cluster.cluster_id]
        run = subprocess.run([*command, "-c", str(self._properties_path), "--ignore-formatted"], capture_output=True, text=True, timeout=60)
        if run.returncode != 0:
            raise RuntimeError(f"Kafka {self.cluster.version} could not format its storage:\n{run.stdout}{run.stderr}")

    def start(self) -> None:
        heap = self.cluster.heap
        command = [*self._java(f"-Xms{heap}", f"-Xmx{heap}", *self.cluster.jvm_args), "kafka.Kafka", str(self._properties_path)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=prepare_node
            )

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when this node answers Metadata and names every running node of its cluster."""
        deadline = time.monotonic() + timeout_s
        expected = sum(node.is_running for node in self.cluster.nodes)
        while (known := _brokers_known_to(self.ports["PLAINTEXT"])) < expected:
            if not self.is_running:
                raise RuntimeError(f"Kafka {self.cluster.version} node {self.id} ended while starting:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"Kafka {self.cluster.version} node {self.id} knows {known} of {expected} nodes:\n{self.log_tail()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End the process as a power cut would."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the process to shut down, and wait until it has."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Start again on the same port and log folder, and wait until it answers."""
        self.terminate()
        self.start()
        self.wait_until_ready()

    def pause(self) -> None:
        """Stop the process without closing its connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def _end(self, signal_number: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal_number)
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    @property
    def _properties_path(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _hosts_path(self) -> Path:
        return self.folder / "hosts"

    def _java(self, *arguments: str) -> list[str]:
        logging = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
        keys = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys_path.as_uri()}"]
        names = [f"-Djdk.net.hosts.file={self._hosts_path}"] if self.cluster.links is not None else []
        class_path = ":".join([f"{self.cluster.jars}/*", *self.cluster.class_path])
        return [str(self.cluster.java), *arguments, *logging, *names, *keys, "-cp", class_path]

    def _properties(self) -> dict[str, Any]:
        replicas = min(3, len(self.cluster.nodes))
        return {
            **self._listeners(),
            "process.roles": "broker,controller",
            "node.id": self.id,
            "log.dirs": ",".join(map(str, self.log_folders)),
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": 3,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": 1,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
            "share.coordinator.state.topic.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "group.consumer.min.heartbeat.interval.ms": 100,
            "group.consumer.heartbeat.interval.ms": 200,
            "group.consumer.assignment.interval.ms": 0,
            "group.consumer.min.session.timeout.ms": 1000,
            "group.share.min.heartbeat.interval.ms": 100,
            "group.share.heartbeat.interval.ms": 200,
            "group.share.assignment.interval.ms": 0,
            "group.share.min.record.lock.duration.ms": 1000,
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            "log.cleaner.backoff.ms": 200,
            **KEEP_EVERYTHING,
            **({"broker.rack": self.rack} if self.rack else {}),
            **self._tls(),
            **self.cluster.properties,
        }

    def _tls(self) -> dict[str, Any]:
        if self.cluster.authority is None:
            return {}
        tls = self.cluster.authority.listener("127.0.0.1", client_auth="requested")
        (self.folder / "keystore.pem").write_text(tls.key + tls.certificate_chain)
        (self.folder / "truststore.pem").write_text(self.cluster.authority.certificate)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.folder / "keystore.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.folder / "truststore.pem",
            "ssl.client.auth": tls.client_auth,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            **self._tokens(),
            "delegation.token.secret.key": "of the tests' nodes",
            **{f"listener.name.{name.lower()}.{mechanism}.sasl.jaas.config": login for name in LOGINS for mechanism, login in JAAS.items()},
        }

    def _tokens(self) -> dict[str, Any]:
        """A listener where only signed tokens are believed; Kafka reads the keys from a file."""
        tokens = self.cluster.tokens
        assert tokens is not None
        self._keys_path.write_text(tokens.jwks)
        here = f"listener.name.{TOKENS.lower()}.oauthbearer"
        return {
            f"listener.name.{TOKENS.lower()}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{here}.connections.max.reauth.ms": SESSION_MS,
            f"{here}.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            f"{here}.sasl.server.callback.handler.class": f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            f"listener.name.{TOKENS.lower()}.sasl.oauthbearer.jwks.endpoint.url": self._keys_path.as_uri(),
            f"listener.name.{TOKENS.lower()}.sasl.oauthbearer.expected.audience": tokens.audience,
            f"listener.name.{TOKENS.lower()}.sasl.oauthbearer.expected.issuer": tokens.issuer,
        }

    @property
    def _keys_path(self) -> Path:
        return self.folder / "keys.json"

    def _listeners(self) -> dict[str, str]:
        voters = [f"{node.id}@{node.advertised('CONTROLLER')}" for node in self.cluster.nodes]
        is_linked = self.cluster.links is not None
        return {
            "controller.quorum.voters": ",".join(voters),
            "listeners": ",".join(f"{name}://{self.address_of(name)}" for name in self.ports),
            "advertised.listeners": ",".join(
                f"{name}://{self.advertised(name)}" for name in self.ports if is_linked or name != "CONTROLLER"
            ),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "LINKED" if is_linked else "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,"
            f"{TOKENS}:SASL_PLAINTEXT,PROXIED:PLAINTEXT,LINKED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }

    def advertised(self, listener: str) -> str:
        """Where others are told to find a listener."""
        if listener == "PROXIED":
            return f"127.0.0.1:{self.proxy_port}"
        is_between_nodes = self.cluster.links is not None and listener in BETWEEN_NODES
        return f"{host_of(self.id)}:{self.ports[listener]}" if is_between_nodes else self.address_of(listener)


class KafkaCluster:
    """A context manager over `nodes` processes of one Kafka version, with server properties of your own on top.

    heap, jvm_args: by default as suits tests, small and quick to start; a node that is measured needs more.
    listeners: names out of PLAINTEXT and SSL; PLAINTEXT is always needed. port: where the first node listens, if it matters.
    class_path: folders of Java classes that the nodes are to find, such as plugins.
    racks: of the nodes, one for each; none by default. proxied: each node has a listener that it advertises on another port, its
    proxy_port, where a proxy of yours has to listen; `routes` is what it has to pass on. second_log_folder: one more folder for logs of the
    first node. within: where the nodes' folder is made; None for the system's temporary folder. linked: what nodes say to one another
    passes `links`, which can be cut. authority: signs the nodes' certificates for listeners SSL and SASL_SSL beside the others, and those
    of clients, which are optional. With it there are also listeners SASL_PLAINTEXT and SASL_SSL. There USER can log in with PASSWORD by
    PLAIN, and any user with an unsigned token; SCRAM has no users at first. The listener TOKENS accepts the tokens that `tokens` issues.
    """

    def __init__(
        self,
        version: str = VERSIONS[0],
        *,
        nodes: int = 1,
        properties: Mapping[str, Any] | None = None,
        heap: str = "320m",
        jvm_args: Sequence[str] = QUICK_START,
        listeners: Sequence[str] = ("PLAINTEXT",),
        port: int | None = None,
        racks: Sequence[str] = (),
        proxied: bool = False,
        class_path: Sequence[str] = (),
        second_log_folder: Path | None = None,
        within: Path | None = None,
        authority: Authority | None = None,
        linked: bool = False,
    ) -> None:
        self.version = version
        self.authority = authority
        self.class_path = tuple(class_path)
        self.properties = dict(properties or {})
        self.heap = heap
        self.jvm_args = tuple(jvm_args)
        self.java = java()
        self.jars = jars(POMS / f"pom-{version}.xml")
        self.cluster_id = uuid.uuid4().hex[:22]
        self.folder = Path(tempfile.mkdtemp(prefix="levada-kafka-", dir=within))
        secured = ["SSL", *LOGINS, TOKENS] if authority is not None else []
        self.tokens = TokenIssuer() if authority is not None else None
        names = (*listeners, *secured, *(["PROXIED"] if proxied else []), *(["LINKED"] if linked else []), "CONTROLLER")
        ports = iter(free_ports(nodes * (len(names) + 1)))
        self.nodes = [KafkaNode(self, number, {name: next(ports) for name in names}) for number in range(1, nodes + 1)]
        for node in self.nodes:
            node.proxy_port = next(ports)
        for node, rack in zip(self.nodes, racks or [""] * nodes, strict=True):
            node.rack = rack
        if second_log_folder is not None:
            self.nodes[0].log_folders.append(second_log_folder)
        between = {node.id: [node.ports[name] for name in BETWEEN_NODES] for node in self.nodes} if linked else {}
        self.links = NodeLinks(between) if linked else None
        if port is not None:
            self.nodes[0].ports = {**self.nodes[0].ports, "PLAINTEXT": port}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.nodes)

    def settings_for(self, listener: str) -> dict[str, Any]:
        """What a client needs to reach a secured listener, but for its login."""
        assert self.authority is not None
        trust = self.authority.trust() if listener.endswith("SSL") else {}
        servers = ",".join(node.address_of(listener) for node in self.nodes)
        protocol = "SASL_PLAINTEXT" if listener == TOKENS else listener
        return {**trust, "bootstrap_servers": servers, "security_protocol": protocol}

    @property
    def proxied_servers(self) -> str:
        """The addresses of the proxy."""
        return ",".join(f"127.0.0.1:{node.proxy_port}" for node in self.nodes)

    @property
    def routes(self) -> dict[int, int]:
        """The port of each node's listener behind the proxy, by the proxy's port."""
        return {node.proxy_port: node.ports["PROXIED"] for node in self.nodes}

    def start(self) -> KafkaCluster:
        atexit.register(self.close)
        if self.links is not None:
            self.links.start()
        try:
            for node in self.nodes:
                node.format()
                node.start()
            for node in self.nodes:
                node.wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        """Create a topic through a client that is not ours, and wait until it can be used."""
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 3})
        settings = {key: str(value) for key, value in (config or {}).items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=min(3, len(self.nodes)), config=settings)
        admin.create_topics([topic], operation_timeout=30)[name].result(timeout=40)
        # The controller has it; the brokers learn of it a moment later.
        deadline = time.monotonic() + 40
        while (found := admin.list_topics(name, timeout=40).topics[name]).error or any(part.error for part in found.partitions.values()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {name} cannot be used: {found.error}")
            time.sleep(0.01)
        for node in self.nodes:
            if led := [partition.id for partition in found.partitions.values() if partition.leader == node.id]:
                _wait_until_served(node, name, led, deadline)

    def keep_logs(self, folder: Path) -> list[Path]:
        """Copy every node's log into a folder, and return the copies."""
        folder.mkdir(parents=True, exist_ok=True)
        kept = []
        for node in self.nodes:
            if node.log_path.exists():
                kept.append(Path(shutil.copy(node.log_path, folder / f"kafka-{self.version}-{self.folder.name[-8:]}-node-{node.id}.log")))
        return kept

    def close(self) -> None:
        """Kill every node and remove its data. Nothing is shut down in order: no test looks at a closed cluster."""
        atexit.unregister(self.close)
        for node in self.nodes:
            node.kill()
        if self.links is not None:
            self.links.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> KafkaCluster:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _wait_until_served(leader: KafkaNode, topic: str, partitions: list[int], deadline: float) -> None:
    """A broker tells that it leads partitions a moment before it does."""
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=number, timestamp=-1) for number in partitions])
    with Wire(leader.address) as wire:
        while any(part.error_code for part in wire.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 1).topics[0].partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {topic} cannot be used: partitions are not led yet")
            time.sleep(0.01)


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on. Processes of pytest-xdist draw from different ones: a node takes seconds to bind its ports."""
    found: list[int] = []
    mine = PORTS[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PORT_SHARES :: PORT_SHARES]
    candidates = random.sample(mine, len(mine))
    while len(found) < count:
        port = candidates.pop()
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def die_with_parent() -> None:
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def prepare_node() -> None:
    """End with what starts it, which is a thread to Linux; obey the permissions of files, even where tests run as root."""
    die_with_parent()
    if LIBC is not None:
        LIBC.prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE)


METADATA_V4 = struct.pack(">hhihib", 3, 4, 1, -1, 0, 0)  # no client id, no topics, no auto-creation


def _brokers_known_to(port: int) -> int:
    """Ask for Metadata; 0 while nobody answers. Written out by hand: what levada does is under test here."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(METADATA_V4)) + METADATA_V4)
            header = receive(connection, 16)  # size, correlation id, throttle time, number of brokers
            return int(struct.unpack(">iiii", header)[3])
    except OSError:
        return 0


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("closed before the answer was complete")
        data += piece
    return data


def main() -> int:
    """Serve one node until interrupted."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[0])
    parser.add_argument("--port", type=int, default=9092)
    chosen = parser.parse_args()
    try:
        with KafkaCluster(chosen.version, port=chosen.port, heap="512m", jvm_args=()) as cluster:
            print(f"Kafka {chosen.version} listens on {cluster.bootstrap_servers}; Ctrl-C ends it", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except KafkaUnavailable as reason:
        print(reason, file=sys.stderr)
    return 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
