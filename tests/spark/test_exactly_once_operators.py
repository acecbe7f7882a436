"""What operators do to a query that writes exactly once: another number of partitions, an old checkpoint, a deleted ledger."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import levada as lv
import spark_strikes
from spark_copies import ROWS, Copy
from spark_verdict import HEADS, Verdict

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(0)]

TITLE, ROUND_HEADS = "exactly once, other rounds", ["broker", "round", *HEADS, "what else"]


@pytest.fixture
def shuffle_partitions(spark: Any) -> Iterator[Callable[[int], None]]:
    """Set how many there are: shuffle_partitions(5)."""
    names = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.coalescePartitions.enabled")
    were = [spark.conf.get(name) for name in names]
    # So that a few rows are not put into one task.
    spark.conf.set(names[1], "false")
    yield lambda number: spark.conf.set(names[0], str(number))
    for name, value in zip(names, were, strict=True):
        spark.conf.set(name, value)


def test_shuffle_partitions_change_between_two_runs(
    any_kafka: Any, copy_of: Callable[..., Copy], shuffle_partitions: Callable[[int], None], strikes: Path, table: Any, broker: str
) -> None:
    """A batch is repeated with its rows divided among other tasks."""
    copy = copy_of(any_kafka, delivery="exactly-once", strikes=str(strikes))
    copy.change = lambda rows: rows.repartition("value")
    for strike in ("before-decide.raise", "after-commit.raise"):
        copy.produce()
        (strikes / strike).touch()
        copy.stop()
        shuffle_partitions(2)
        assert not copy.run_once()
        shuffle_partitions(5)
        copy.run()
    found = copy.verdict()
    divided = (strikes / spark_strikes.MESSAGES).read_text().splitlines()
    table(TITLE, ROUND_HEADS, [broker, "shuffle partitions changed, 2 to 5", *found.cells, f"tasks: {', '.join(divided)}"])
    assert divided == ["batch 0 in 2", "batch 0 in 5", "batch 1 in 2", "batch 1 in 5"]
    assert found.is_right


def test_an_older_checkpoint_is_restored(any_kafka: Any, copy_of: Callable[..., Copy], tmp_path: Path, table: Any, broker: str) -> None:
    copy = copy_of(any_kafka, delivery="exactly-once")
    copy.limit = 4
    copy.produce()
    copy.run()
    copy.stop()
    shutil.copytree(copy.checkpoint, tmp_path / "older")
    copy.produce()
    copy.run()
    copy.stop()
    shutil.rmtree(copy.checkpoint)
    shutil.copytree(tmp_path / "older", copy.checkpoint)

    assert not copy.run_once()
    assert "the ledger is ahead" in copy.failures[-1]
    refused = copy.verdict()
    copy.options["onLedgerAhead"] = "skip"
    copy.run()
    # Later, so that the batches that are skipped have the rows that they had.
    copy.produce()
    copy.run()
    found = copy.verdict()
    what = "refused by default; onLedgerAhead=skip goes on"
    table(TITLE, ROUND_HEADS, [broker, "older checkpoint restored", *found.cells, what])
    assert refused.is_right
    assert found.is_right


def test_a_copied_checkpoint_is_behind(any_kafka: Any, copy_of: Callable[..., Copy], tmp_path: Path, table: Any, broker: str) -> None:
    """Its next micro-batch has the number of one that was written, and more rows."""
    copy = copy_of(any_kafka, delivery="exactly-once")
    copy.produce()
    copy.run()
    copy.stop()
    shutil.copytree(copy.checkpoint, tmp_path / "copied")
    copy.produce()
    copy.run()
    copy.stop()
    copy.produce()
    original, copy.checkpoint = copy.checkpoint, tmp_path / "copied"
    assert not copy.run_once()
    assert "this batch was written with other rows" in copy.failures[-1]
    copy.checkpoint = original
    copy.run()
    found = copy.verdict()
    table(TITLE, ROUND_HEADS, [broker, "checkpoint copied, the copy is behind", *found.cells, "the copy is refused, the other goes on"])
    assert found.is_right


def test_the_ledger_is_deleted(any_kafka: Any, copy_of: Callable[..., Copy], table: Any, broker: str) -> None:
    copy = copy_of(any_kafka, delivery="exactly-once", onMissingLedger="fail")
    copy.produce()
    copy.run()
    copy.stop()
    delete_ledger(any_kafka, copy)
    before = copy.produced
    copy.produce()
    assert not copy.run_once()
    assert "the ledger has no entry" in copy.failures[-1]
    refused = copy.verdict()
    copy.options["onMissingLedger"] = "warn"
    copy.run()
    found = copy.verdict()
    what = "onMissingLedger=fail refused the batch; warn went on"
    table(TITLE, ROUND_HEADS, [broker, "ledger's group deleted", *found.cells, what])
    assert refused == Verdict(0, copy.produced - before, 0, 0, True), "it has written although it was to fail"
    assert found.is_right


def test_the_ledger_is_deleted_between_the_decision_and_sparks_note_of_it(
    any_kafka: Any, copy_of: Callable[..., Copy], strikes: Path, table: Any, broker: str
) -> None:
    copy = copy_of(any_kafka, delivery="exactly-once", strikes=str(strikes), onMissingLedger="fail")
    copy.produce()
    copy.run()
    copy.produce()
    (strikes / "after-commit.raise").touch()
    assert not copy.run_once()
    delete_ledger(any_kafka, copy)

    assert not copy.run_once()
    refused = copy.verdict()
    table(TITLE, ROUND_HEADS, [broker, "the same before Spark's note, fail", *refused.cells, "refused"])
    copy.options["onMissingLedger"] = "warn"
    copy.run()
    found = copy.verdict()
    table(TITLE, ROUND_HEADS, [broker, "the same before Spark's note, warn", *found.cells, "what docs/SPARK.md warns of"])
    assert refused.is_right
    assert found == Verdict(0, 0, ROWS, 0, True)


def delete_ledger(kafka: Any, copy: Copy) -> None:
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_consumer_groups([copy.ledger])
