"""A sink that dies where a test wants it to: format("levada_struck") is format("levada") with the option `strikes`, a folder.

A file in that folder is a strike. Its name is `before-` or `after-`, a step of the sink, a dot, and what happens: `exit` (the process
ends at once, as with kill -9), `raise`, or `hold` (it waits there, so that a test can do something to it). The process that reaches the
step removes the file, and then ends, raises or waits. So a strike happens once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from levada import KafkaAdmin, KafkaProducer
from levada.spark.datasource import LevadaDataSource
from levada.spark.pyspark_versions import DataSourceStreamArrowWriter

NAME = "levada_struck"
STEPS: Mapping[str, tuple[type, str]] = {
    "seal": (KafkaProducer, "seal_arrow"),
    "initialize": (KafkaProducer, "init_transactions"),
    "read-ledger": (KafkaAdmin, "list_consumer_group_offsets"),
    "begin": (KafkaProducer, "begin_transaction"),
    "send": (KafkaProducer, "send_sealed"),
    "send-offsets": (KafkaProducer, "send_offsets_to_transaction"),
    "decide": (KafkaProducer, "commit_transaction"),
}
"""The calls of the client that are the steps of the sink."""
SLOT_STEPS: Mapping[str, tuple[type, str]] = {
    **STEPS,
    "hand-over": (KafkaProducer, "detach_transaction"),
    "list-slots": (KafkaAdmin, "list_transactions"),
    "describe-slots": (KafkaAdmin, "describe_transactions"),
    "end-slots": (KafkaAdmin, "end_transactions"),
    "forget-slots": (KafkaAdmin, "delete_consumer_groups"),
}
"""Those of a batch with slots."""
WRITE, COMMIT = "write", "commit"
"""The calls of Spark."""
MESSAGES = "messages"
"""The file in the folder that says of each commit how many tasks the batch had."""
IN_FIRST_COMMIT = tuple(f"{when}-{step}" for step in ("initialize", "read-ledger") for when in ("before", "after"))
"""Strikes at steps that a run without slots has in its first commit only."""
ALL = [f"{when}-{step}" for step in (WRITE, *STEPS, COMMIT) for when in ("before", "after")]
ALL_WITH_SLOTS = [f"{when}-{step}" for step in (WRITE, *SLOT_STEPS, COMMIT) for when in ("before", "after")]


class StrikeError(RuntimeError):
    """What a strike raises."""


class StruckDataSource(LevadaDataSource):
    """format("levada_struck")."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `.format()`."""
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the sink of a streaming query, with strikes."""
        folder = Path(self.options.pop("strikes"))
        return StruckWriter(super().streamWriter(schema, overwrite), folder)


class StruckWriter(DataSourceStreamArrowWriter):
    """A writer with strikes in its way."""

    def __init__(self, writer: Any, folder: Path) -> None:
        self._writer = writer
        self._folder = folder

    def write(self, iterator: Iterator[Any]) -> Any:
        """Write one task's rows."""
        return self._call(WRITE, lambda: self._writer.write(iterator))

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Commit a micro-batch."""
        with (self._folder / MESSAGES).open("a") as file:
            file.write(f"batch {batchId} in {len(messages)}\n")
        self._call(COMMIT, lambda: self._writer.commit(messages, batchId))

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Abort a micro-batch, without strikes."""
        self._writer.abort(messages, batchId)

    def _call(self, name: str, call: Callable[[], Any]) -> Any:
        with _strikes_at(self._folder):
            strike(self._folder, f"before-{name}")
            result = call()
            strike(self._folder, f"after-{name}")
        return result


def strike(folder: Path, step: str) -> None:
    """Do what a strike at a step says, if there is one."""
    for how in ("exit", "raise", "hold"):
        try:
            (folder / f"{step}.{how}").unlink()
        except FileNotFoundError:
            continue
        if how == "exit":
            os._exit(9)
        if how == "raise":
            raise StrikeError(f"struck {step}")
        _hold(folder / f"{step}.held")


def is_of_a_strike(failure: str) -> bool:
    """Whether Spark's words about the end of a query say that a process ended at once, or what a strike raises."""
    return "Python worker exited unexpectedly" in failure or StrikeError.__name__ in failure


def _hold(held: Path) -> None:
    """Wait until the file is removed that says which process waits. It appears complete."""
    being_written = held.with_suffix(".writing")
    being_written.write_text(str(os.getpid()))
    being_written.rename(held)
    while held.exists():
        time.sleep(0.02)


def at_the_end_of_a_task(folder: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what mapInArrow() takes: rows pass, and strikes `in-task` meet the second task behind its last row."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1:
            strike(folder, f"in-task-{context.attemptNumber()}")

    return pass_on


@contextmanager
def _strikes_at(folder: Path) -> Iterator[None]:
    plain = {step: getattr(owner, name) for step, (owner, name) in SLOT_STEPS.items()}

    def struck(step: str) -> Callable[..., Any]:
        @wraps(plain[step])
        def call(*args: Any, **kwargs: Any) -> Any:
            strike(folder, f"before-{step}")
            result = plain[step](*args, **kwargs)
            strike(folder, f"after-{step}")
            return result

        return call

    for step, (owner, name) in SLOT_STEPS.items():
        setattr(owner, name, struck(step))
    try:
        yield
    finally:
        for step, (owner, name) in SLOT_STEPS.items():
            setattr(owner, name, plain[step])
