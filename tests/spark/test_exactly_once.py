"""delivery=exactly-once in a real Spark: whatever dies, readers of committed records see each row once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import levada as lv
import spark_strikes
import spark_verdict
from committed_kit import settled
from levada.spark.pyspark_versions import HAS_ADMISSION_CONTROL
from spark_copies import ROWS, Copy
from spark_drivers import Program
from spark_verdict import HEADS, NOTHING

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FEW = ("after-write", "before-initialize", "after-decide", "after-commit")
FEW_WITH_SLOTS = ("after-hand-over", "before-decide", "before-end-slots", "after-commit")
SLOTS_ONLY = 1
"""inlineMaxBytes with which all tasks write slots."""
ROUNDS = int(os.environ.get("LEVADA_STRIKE_ROUNDS", "1"))


def test_a_process_may_die_at_each_step(embedded: Any, copy_of: Callable[..., Copy], strikes: Path) -> None:
    copy = copy_of(embedded, delivery="exactly-once", strikes=str(strikes))
    for step in FEW:
        copy.run_into(strikes, f"{step}.exit")
        assert copy.verdict().is_right, step
    assert len(copy.failures) >= len(FEW)


def test_a_process_may_die_at_each_step_of_a_batch_with_slots(embedded: Any, copy_of: Callable[..., Copy], strikes: Path) -> None:
    copy = copy_of(embedded, delivery="exactly-once", strikes=str(strikes), inlineMaxBytes=SLOTS_ONLY)
    for step in FEW_WITH_SLOTS:
        copy.run_into(strikes, f"{step}.exit")
        assert copy.verdict().is_right, step
    assert len(copy.failures) >= len(FEW_WITH_SLOTS)


@pytest.mark.slow
def test_a_program_that_sets_up_no_logging_sees_what_is_promised(embedded: Any, program_of: Callable[..., Program]) -> None:
    program = program_of(embedded)
    program.produce(0)
    with program.running() as driver:
        assert driver.wait() == 0
        said = driver.said()
    line = f"the rows of this query are written to topic '{program.target}' exactly once, for readers with isolation.level=read_committed; "
    assert said.count(f"{line}the ledger is group 'levada-{spark_verdict.query_id(program.checkpoint)}' ({program.target}-0)") == 1


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark before 4.2 runs one micro-batch under availableNow")
def test_micro_batches_before_the_watermark_have_no_rows_and_are_no_lost_ledger(
    spark: Any, embedded: Any, new_topic: Any, tmp_path: Path
) -> None:
    source, target = new_topic(embedded), new_topic(embedded)
    servers = {"kafka.bootstrap.servers": embedded.bootstrap_servers}

    def run(*minutes: int) -> None:
        with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
            for minute in minutes:
                producer.send(source, b"event", timestamp=minute * 60_000)
        events = spark.readStream.format("levada").options(
            **servers, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="1"
        )
        counts = events.load().withWatermark("timestamp", "2 minutes").groupBy(F.window("timestamp", "1 minute")).count()
        rows = counts.select(F.format_string("%s: %d", F.date_format("window.start", "mm"), "count").alias("value"))
        writer = (
            rows.writeStream.format("levada")
            .outputMode("append")
            .options(**servers, topic=target, delivery="exactly-once", onMissingLedger="fail", checkpointLocation=str(tmp_path))
        )
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(120)
        assert query.exception() is None
        assert not query.isActive

    run(1, 1, 2, 5)
    first = Counter([b"01: 2", b"02: 1"])
    assert settled(embedded, target) == first
    run(9)
    assert settled(embedded, target) == first + Counter([b"05: 1"])


@pytest.mark.matrix
@pytest.mark.timeout(0)
@pytest.mark.parametrize("options", [{}, {"inlineMaxBytes": SLOTS_ONLY}], ids=["inline", "slots"])
def test_processes_die_at_every_step_again_and_again(
    any_kafka: Any, copy_of: Any, strikes: Path, table: Any, note: Callable[[str], None], broker: str, options: dict[str, int]
) -> None:
    """LEVADA_STRIKE_ROUNDS: how often a process ends at each step (1)."""
    copy = copy_of(any_kafka, delivery="exactly-once", strikes=str(strikes), **options)
    heads = ["broker", "step", "killed", "raised", "runs ended", *HEADS]
    by_step, before = {}, NOTHING
    for step in spark_strikes.ALL_WITH_SLOTS if options else spark_strikes.ALL:
        ended = len(copy.failures)
        for how in (*["exit"] * ROUNDS, "raise"):
            if step.endswith("forget-slots"):
                # Those of a batch that was repeated are forgotten by then.
                copy.produce()
                copy.run()
            copy.run_into(strikes, f"{step}.{how}")
        now = copy.verdict()
        by_step[step], before = now.since(before), now
        kills = [str(ROUNDS), "1", str(len(copy.failures) - ended)]
        table(f"exactly once, struck at each step{', slots' if options else ''}", heads, [broker, step, *kills, *by_step[step].cells])
    for failure in copy.failures:
        if not spark_strikes.is_of_a_strike(failure):
            note(f"{broker}: a run was ended by something else: {failure[:400]}")
    assert {step: found for step, found in by_step.items() if not found.is_right} == {}


def test_at_least_once_the_same_strikes_double_rows(embedded: Any, copy_of: Callable[..., Copy], strikes: Path) -> None:
    copy = copy_of(embedded, delivery="at-least-once", strikes=str(strikes))
    copy.run_into(strikes, "after-commit.exit")
    found = copy.verdict()
    assert (found.wrong, found.lost) == (0, 0), "nothing is lost"
    assert found.doubled == ROWS, "and the strikes meet what they are meant to meet"
