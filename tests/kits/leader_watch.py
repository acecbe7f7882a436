"""Records when the partitions of a topic could be written, to divide a gap in acknowledgements between brokers and client.

A thread asks every node for the topic's metadata again and again, over its own connections. A partition can be written while its leader
and all its in-sync replicas answer: with acks=all a leader waits for an in-sync replica until the controller has removed it from the ISR.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka_cluster import KafkaCluster, KafkaNode, receive
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.testing.history import Event, Op, Type
from levada.testing.history.recorder import monotonic_ms

VERSION = 12
PAUSE_S = 0.025
ANSWER_S = 0.5
SIZE = struct.Struct(">i")


class Span(NamedTuple):
    """A time span, in milliseconds of the history recorders' monotonic clock."""

    begin_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        return self.end_ms - self.begin_ms

    def shared_ms(self, other: Span) -> int:
        return max(min(self.end_ms, other.end_ms) - max(self.begin_ms, other.begin_ms), 0)


class Gap(NamedTuple):
    """The longest time between two acknowledgements of a partition. brokers_ms: how long in this time the partition was not writable."""

    partition: int
    span: Span
    brokers_ms: int

    @property
    def clients_ms(self) -> int:
        return self.span.length_ms - self.brokers_ms

    def __str__(self) -> str:
        return f"{self.span.length_ms} ms in partition {self.partition}, of which it could not be written for {self.brokers_ms} ms"


class Sample(NamedTuple):
    """The partitions that could not be written at one moment."""

    at_ms: int
    unwritable: frozenset[int]


class LeaderWatch:
    """Watches a topic while the context manager is open. gaps() may be called at any time."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._asked = [_Asked(node, topic) for node in cluster.nodes]
        self._samples: list[Sample] = []
        self._stop_it = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="leader watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop_it.set()
        self._thread.join()
        for asked in self._asked:
            asked.close()

    def gaps(self, events: Iterable[Event]) -> list[Gap]:
        """Return gaps_in() for the samples that were taken so far."""
        return gaps_in(events, self._samples)

    def _watch(self) -> None:
        while not self._stop_it.wait(PAUSE_S):
            began_ms = monotonic_ms()
            told = {asked.node.id: answer for asked in self._asked if (answer := asked.ask()) is not None}
            self._samples.append(Sample(began_ms, frozenset(_unready(told))))


def gaps_in(events: Iterable[Event], samples: Sequence[Sample]) -> list[Gap]:
    """Return each partition's longest gap, sorted by the time that the client has to explain (clients_ms), longest first."""
    times: dict[int, list[int]] = {}
    for event in events:
        if (event.op, event.type) == (Op.SEND, Type.OK):
            times.setdefault(event.partition, []).append(event.at_ms)
    spans = {partition: max(map(Span._make, pairwise(at_ms)), key=lambda span: span.length_ms) for partition, at_ms in times.items()}
    gaps = [Gap(partition, span, sum(map(span.shared_ms, _unwritable(partition, samples)))) for partition, span in spans.items()]
    return sorted(gaps, key=lambda gap: -gap.clients_ms)


def _unwritable(partition: int, samples: Sequence[Sample]) -> Iterator[Span]:
    """Yield the spans in which a partition was not writable. Each sample counts until the next sample."""
    for sample, following in pairwise(samples):
        if partition in sample.unwritable:
            yield Span(sample.at_ms, following.at_ms)


def _unready(told: dict[int, list[Any]]) -> Iterable[int]:
    """Yield the partitions whose leader, or one of whose in-sync replicas, does not answer.

    told: the metadata of the partitions, by the id of each node that answers.
    """
    for partitions in told.values():
        for partition in partitions:
            if not {partition.leader_id, *partition.isr_nodes} <= told.keys():
                yield partition.partition_index


class _Asked:
    """One node of the cluster, and the connection on which metadata is requested."""

    def __init__(self, node: KafkaNode, topic: str) -> None:
        self.node = node
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        self._frame = encode_request(request, VERSION, 1, "watch")
        self._connection: socket.socket | None = None

    def ask(self) -> list[Any] | None:
        """Return the metadata of the topic's partitions. None if the node does not answer within ANSWER_S seconds."""
        try:
            if self._connection is None:
                self._connection = socket.create_connection(("127.0.0.1", self.node.ports["PLAINTEXT"]), timeout=ANSWER_S)
            self._connection.sendall(self._frame)
            (size,) = SIZE.unpack(receive(self._connection, SIZE.size))
            response: Any = decode_response(MetadataRequest, VERSION, receive(self._connection, size))
        except OSError:
            self.close()
            return None
        partitions: list[Any] = response.topics[0].partitions
        return partitions

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
