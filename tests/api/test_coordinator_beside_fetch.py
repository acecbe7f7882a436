"""What goes to a coordinator does not wait behind a Fetch on the same node, over real sockets."""

from __future__ import annotations

import threading
import time
from typing import Any

import levada as lv
from levada.base.flow import Call, Flow
from levada.client.requests.destination import Coordinator, CoordinatorKind
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.metadata import MetadataRequest
from levada.testing import EmbeddedKafka

FETCH_MS = 4000


def asking_coordinator() -> Flow[Any]:
    return (yield Call(MetadataRequest(topics=[]), Coordinator(CoordinatorKind.GROUP, "g")))


def test_a_commit_like_call_is_answered_while_a_fetch_waits() -> None:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    fetch = FetchRequest(max_wait_ms=FETCH_MS, min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic="t", partitions=[partition])])
    with EmbeddedKafka() as kafka, lv.KafkaClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        kafka.create_topic("t", 1)
        answered = []
        thread = threading.Thread(target=lambda: answered.append(client.request(fetch, node=1, version=12)))
        thread.start()
        deadline = time.monotonic() + 5
        while not client._engine.network.in_flight_count(1):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        started = time.monotonic()
        client._driver.run(asking_coordinator(), 10, "asking the coordinator")
        took_s = time.monotonic() - started
        assert not answered
        assert took_s < FETCH_MS / 1000 / 2
        thread.join()
        assert answered
