"""Drivers of Spark that die in mid-batch, that go on although others took over, and that use the checkpoint of another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_jars import spark_connector
from spark_drivers import AT_LEAST_ONCE, CONNECTOR, EXACTLY_ONCE, ROWS, WITH_SLOTS, Program
from spark_verdict import HEADS, is_settled, records_in_log

pytestmark = [
    pytest.mark.spark,
    pytest.mark.matrix,
    pytest.mark.timeout(0),
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a session through /proc"),
]

ROUNDS = int(os.environ.get("LEVADA_STRIKE_ROUNDS", "1"))
TITLE, ROUNDS_TITLE = "drivers killed with -9 in mid-batch", "exactly once, other rounds"
PLACES = {
    EXACTLY_ONCE: ("before-decide", "after-commit"),
    WITH_SLOTS: ("before-decide", "before-end-slots", "after-commit"),
    AT_LEAST_ONCE: ("in-task-0", "after-commit"),
    CONNECTOR: ("in-task-0", "after-batch"),
}
"""Where rows are in Kafka and the batch is not finished: in the driver's transaction, or by the first of two tasks. Where slots are decided
and still open. And where the sink is done with the batch and Spark has not noted that; the connector is in a foreachBatch, where a driver
can be stopped at that moment.
"""


@pytest.mark.parametrize("sink", PLACES)
def test_a_driver_dies_in_mid_batch(
    any_kafka: Any, program_of: Callable[..., Program], skipped_if_unavailable: Any, table: Any, broker: str, sink: str
) -> None:
    """LEVADA_STRIKE_ROUNDS: how often at either place (1)."""
    with skipped_if_unavailable():
        jars = spark_connector() if sink == CONNECTOR else ()
    program = program_of(any_kafka, sink=sink, jars=jars, for_each_batch=sink == CONNECTOR)
    program.produce(0)
    kills = 0
    for place in PLACES[sink] * ROUNDS:
        program.strike(f"{place}.hold")
        with program.running() as driver:
            driver.held_at(place)
            driver.wait_until(lambda: records_in_log(program.servers, program.target) >= ROWS // 2, "nothing was written")
            assert program.is_within_a_batch()
            driver.kill()
        kills += 1
    program.run()

    found = program.verdict(ROWS)
    table(TITLE, ["broker", "sink", "kills", "rows", *HEADS], [broker, sink, str(kills), str(ROWS), *found.cells])
    if sink in (EXACTLY_ONCE, WITH_SLOTS):
        assert found.is_right
    else:
        assert (found.wrong, found.lost) == (0, 0)
        assert found.doubled >= kills * ROWS // 2, "the kills met no batch that had written something"


ROUND_HEADS = ["broker", "round", *HEADS, "what else"]


def test_a_paused_driver_wakes_beside_its_successor(any_kafka: Any, program_of: Callable[..., Program], table: Any, broker: str) -> None:
    """Its transaction has timed out meanwhile, and the successor has one open for the same micro-batch."""
    successor = program_of(any_kafka)
    paused = replace(successor, options={"kafka.transaction.timeout.ms": "3000"})
    servers, target = paused.servers, paused.target
    paused.produce(0)
    paused.strike("before-decide.hold")
    with paused.running() as first:
        first.held_at("before-decide")
        first.wait_until(lambda: records_in_log(servers, target) > 0, "nothing was written")
        first.pause()
        first.wait_until(lambda: is_settled(servers, target), "the transaction did not time out")
        successor.strike("after-send-offsets.hold")
        with successor.running() as second:
            second.held_at("after-send-offsets")
            first.release("before-decide")
            first.wake()
            assert first.wait() != 0, "it has committed a transaction that had timed out"
            second.release("after-send-offsets")
            assert second.wait() == 0, second.said()
    found = successor.verdict(ROWS)
    table(ROUNDS_TITLE, ROUND_HEADS, [broker, "driver paused, woken beside its successor", *found.cells, "the paused one has failed"])
    assert found.is_right


def test_a_copied_checkpoint_is_used_by_two_drivers(any_kafka: Any, program_of: Callable[..., Program], table: Any, broker: str) -> None:
    one = program_of(any_kafka)
    given = one.produce(0)
    one.run()
    other = one.copied_to(one.folder.parent / "copied")
    given = one.produce(given)
    for program in (one, other):
        program.strike("before-initialize.hold")
    with one.running() as first, other.running() as second:
        for driver in (first, second):
            driver.held_at("before-initialize")
        for driver in (first, second):
            driver.release("before-initialize")
        codes = [first.wait(), second.wait()]
    found = one.verdict(given)
    what = f"{codes.count(0)} of 2 came to the end"
    table(ROUNDS_TITLE, ROUND_HEADS, [broker, "checkpoint copied, both started at a time", *found.cells, what])
    assert 0 in codes, "both have failed"
    assert found.is_right
