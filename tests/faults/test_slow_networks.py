"""Rows M-A12 and M-A13 of the fault matrix: a slow network that loses packets, and a node that answers late. A group reads meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat

import pytest

from fault_load import Load, Watched, Work
from fault_members import gathered
from fault_proxy import FaultProxy, Verbs
from kafka_cluster import KafkaCluster
from levada.testing.history import Event

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(300)]
LONG_S = 20
LOST_SHARE = 0.05
BYTES_PER_S = 1_000_000
PAYLOAD = b"x" * 2000
DELAY_S = (0.0, 0.1)
"""Of each frame, so 100 ms more or less for a request and its answer."""
MOST_MS = 3 * 200


def acknowledged(watched: Watched, load: Load, since: int = 0) -> list[Event]:
    """The acknowledgements of one load, from so many events on."""
    return [
        event for event in watched.events[since:] if event.process == load.recorder.process and (event.op, event.type) == ("send", "ok")
    ]


def slowest_ms(watched: Watched, load: Load, since: int) -> int:
    """Within which time 99 of 100 records were acknowledged."""
    begun = {event.value: event.at_ms for event in watched.events if (event.op, event.type) == ("send", "invoke")}
    took_ms = sorted(event.at_ms - begun[event.value] for event in acknowledged(watched, load, since))
    return took_ms[len(took_ms) * 99 // 100]


def test_M_A12_packets_are_lost_on_a_slow_network(
    kafka_cluster: KafkaCluster, proxy: FaultProxy, proxied: Watched, kind: str, note: Callable[[str], None]
) -> None:
    load = proxied.start(work=Work(pause_s=0, payloads=repeat(PAYLOAD)), buffer_memory=4_000_000)
    proxied.start(transactional=True)
    proxied.await_progress()
    members = gathered(proxied, kind)
    proxied.faults.fault("slow and lossy")
    proxy.lose(LOST_SHARE)
    proxy.verbs = Verbs(bytes_per_s=BYTES_PER_S)
    time.sleep(LONG_S / 4)  # what was buffered at full speed passes first
    began, since = time.monotonic(), len(proxied.events)
    time.sleep(LONG_S)
    rate = len(acknowledged(proxied, load, since)) * len(PAYLOAD) / (time.monotonic() - began)
    proxy.lose(0)
    proxy.verbs = Verbs()
    proxied.faults.fault("slow and lossy", mended=True)
    proxied.await_all_partitions()
    members.judged(note, f"M-A12: {rate / 1000:.0f} of {BYTES_PER_S / 1000:.0f} KB a second", kafka_cluster.bootstrap_servers)
    assert rate >= BYTES_PER_S / 2


def test_M_A13_a_node_answers_late(
    kafka_cluster: KafkaCluster, proxy: FaultProxy, proxied: Watched, kind: str, note: Callable[[str], None]
) -> None:
    """Requests that overtake one another would be the client's: it has five in flight, and their answers come in order."""
    load = proxied.start(linger_ms=0)
    proxied.start(transactional=True)
    proxied.await_progress()
    members = gathered(proxied, kind)
    node = next(node for node in kafka_cluster.nodes if node.id == proxied.leader())
    since = len(proxied.events)
    proxied.faults.fault("late")
    proxy.verbs = Verbs(delay_s=DELAY_S, delayed_port=node.proxy_port)
    time.sleep(LONG_S)
    proxy.verbs = Verbs()
    proxied.faults.fault("late", mended=True)
    proxied.await_all_partitions()
    took_ms = slowest_ms(proxied, load, since)
    members.judged(note, f"M-A13: 99 of 100 records were acknowledged within {took_ms} ms", kafka_cluster.bootstrap_servers)
    assert took_ms <= MOST_MS
