"""delivery=exactly-once for an hour on three nodes: processes die at steps that chance chooses, brokers are killed, coordinators move."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import pytest

import levada as lv
import spark_strikes
from kafka_cluster import KafkaCluster
from spark_copies import Copy
from spark_verdict import HEADS

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.kafka, pytest.mark.timeout(0)]

MINUTES = float(os.environ.get("LEVADA_STRIKE_MINUTES", "2"))
ROWS_PER_MINUTE = 10_000_000 / 60
ROUNDS_WITH_ALL_NODES = 4
WITHIN_S = 4
INLINE_MAX_BYTES = (1, 200_000, 16 << 20)
"""All rows in slots, some, none."""
# What two nodes have is there when one of them has died.
SAFE = {"min.insync.replicas": 2, "transaction.state.log.min.isr": 2}


@pytest.fixture
def three_nodes(start_real_kafka: Callable[..., AbstractContextManager[KafkaCluster]]) -> Iterator[KafkaCluster]:
    with start_real_kafka("4.4.0", nodes=3, heap="384m", properties=SAFE) as cluster:
        yield cluster


def test_an_hour_of_strikes(three_nodes: KafkaCluster, copy_of: Callable[..., Copy], strikes: Path, table: Any, note: Any) -> None:
    """LEVADA_STRIKE_MINUTES: how long (2), with a sixtieth of 10,000,000 rows for each minute."""
    random = Random(25)
    copy = copy_of(three_nodes, delivery="exactly-once", strikes=str(strikes), inlineMaxBytes=1)
    cluster = Cluster(three_nodes, random)
    strikes_met = rounds = moves = 0
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < MINUTES * 60:
        copy.produce(max(1, round(ROWS_PER_MINUTE * elapsed / 60) - copy.produced))
        if rounds % ROUNDS_WITH_ALL_NODES == ROUNDS_WITH_ALL_NODES - 1:
            cluster.kill_one_soon()
        strike = strikes / f"{random.choice(spark_strikes.ALL_WITH_SLOTS)}.exit"
        strike.touch()
        copy.options["inlineMaxBytes"] = random.choice(INLINE_MAX_BYTES)
        copy.run()
        # A batch without slots does not come to all of them.
        strikes_met += not strike.exists()
        strike.unlink(missing_ok=True)
        cluster.start_all()
        moves += cluster.has_moved(copy.ledger)
        rounds += 1
    copy.produce()
    copy.run()

    found = copy.verdict()
    others = [failure for failure in copy.failures if not spark_strikes.is_of_a_strike(failure)]
    done = [str(round(MINUTES)), f"{copy.produced:,}", str(strikes_met), str(cluster.kills), str(moves), str(len(others))]
    heads = ["minutes", "rows", "processes killed", "brokers killed", "coordinator moved", "other failures", *HEADS]
    table("exactly once on three nodes of 4.4.0, struck all the time", heads, [*done, *found.cells])
    for failure in others:
        note(f"a run was ended by something else: {failure[:600]}")
    assert found.is_right
    assert strikes_met, "no strike has met anything"


class Cluster:
    """Nodes that are killed and started again, one at a time."""

    def __init__(self, kafka: KafkaCluster, random: Random) -> None:
        self._kafka = kafka
        self._random = random
        self._coordinator: int | None = None
        self._killing: threading.Timer | None = None
        self.kills = 0

    def kill_one_soon(self) -> None:
        """Kill a node at some moment of the next seconds."""
        self._killing = threading.Timer(self._random.uniform(0, WITHIN_S), self._random.choice(self._kafka.nodes).kill)
        self._killing.start()
        self.kills += 1

    def start_all(self) -> None:
        """Start the node that was killed, if one was."""
        if self._killing is None:
            return
        self._killing.join()
        self._killing = None
        for node in self._kafka.nodes:
            if not node.is_running:
                node.restart()

    def has_moved(self, transactional_id: str) -> bool:
        """Whether a transactional id has another coordinator than at the last look."""
        with lv.KafkaAdmin(bootstrap_servers=self._kafka.bootstrap_servers) as admin:
            now = admin.describe_transactions([transactional_id])[transactional_id].coordinator_id
        has_moved, self._coordinator = self._coordinator not in (None, now), now
        return has_moved
