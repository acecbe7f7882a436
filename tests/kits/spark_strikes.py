"""A sink that dies where a test wants it to: format("levada_struck") is format("levada") with the option `strikes`, a folder.

A file in that folder is a strike. Its name is `before-` or `after-`, a step of the sink, a dot, and what happens: `exit` (the process
ends at once, as with kill -9) or `raise`. The process that reaches the step removes the file, and then ends or raises. So a strike
happens once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

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
    for how in ("exit", "raise"):
        try:
            (folder / f"{step}.{how}").unlink()
        except FileNotFoundError:
            continue
        if how == "exit":
            os._exit(9)
        raise StrikeError(f"struck {step}")


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
