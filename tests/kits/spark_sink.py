"""Calls the sink as Spark does, without a Spark session: tasks, commit, abort, new runs, and drivers that crash."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from levada.spark import clients
from levada.spark.datasource import LevadaDataSource

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
ROWS = pa.schema([("key", pa.binary()), ("value", pa.binary())])


class Task:
    """Takes the place of PySpark's TaskContext in a task."""

    def __init__(self, partition: int, attempt: int, properties: Mapping[str, str]) -> None:
        self._partition, self._attempt, self._properties = partition, attempt, properties

    def partitionId(self) -> int:
        return self._partition

    def stageId(self) -> int:
        return 0

    def attemptNumber(self) -> int:
        return self._attempt

    def getLocalProperty(self, name: str) -> str | None:
        return self._properties.get(name)


class Query:
    """A streaming query as a sink sees it: all its runs have one query id, and each run has its own run id."""

    def __init__(self, kafka: Any, topic: str, **options: str) -> None:
        self.options = {
            **({} if kafka is None else {"kafka.bootstrap.servers": kafka.bootstrap_servers}),
            "topic": topic,
            "delivery": "exactly-once",
            "kafka.max.block.ms": "20000",
            **options,
        }
        self.query_id, self.run_id = str(uuid.uuid4()), str(uuid.uuid4())
        self.is_stream = True

    def restart(self) -> None:
        """Give the query a new run id, as a restart from its checkpoint does."""
        self.run_id = str(uuid.uuid4())

    def writer(self) -> Any:
        source = LevadaDataSource(dict(self.options))
        return source.streamWriter(SCHEMA, False) if self.is_stream else source.writer(SCHEMA, False)

    def run_tasks(self, number: int, tasks: Sequence[Sequence[bytes]], writer: Any = None, *, attempt: int = 0) -> list[Any]:
        writer = pickle.loads(pickle.dumps(writer or self.writer()))
        messages = []
        for partition, values in enumerate(tasks):
            rows = pa.RecordBatch.from_pydict({"key": [None] * len(values), "value": list(values)}, schema=ROWS)
            messages.append(self.run_task(number, partition, iter([rows]), writer, attempt))
        return messages

    def run_task(self, number: int, partition: int, rows: Iterator[pa.RecordBatch], writer: Any, attempt: int = 0) -> Any:
        properties = {"sql.streaming.queryId": self.query_id, "spark.jobGroup.id": self.run_id, "streaming.sql.batchId": str(number)}
        TaskContext._taskContext = Task(partition, attempt, properties if self.query_id else {})  # type: ignore[assignment]
        try:
            return pickle.loads(pickle.dumps(writer.write(rows)))
        finally:
            TaskContext._taskContext = None

    def commit(self, number: int, messages: list[Any]) -> None:
        writer = self.writer()
        writer.commit(messages, number) if self.is_stream else writer.commit(messages)

    def abort(self, number: int, messages: list[Any]) -> None:
        writer = self.writer()
        writer.abort(messages, number) if self.is_stream else writer.abort(messages)

    def run(self, number: int, *tasks: Sequence[bytes]) -> None:
        self.commit(number, self.run_tasks(number, tasks))


def close_idle() -> None:
    """Close the clients that tasks and commits have kept for reuse."""
    while clients._idle:
        clients._idle.popitem()[1].close(timeout=0)


class Died(BaseException):
    """Raised in place of a crash of the process. `except Exception` does not catch it."""


def dying(call: Any, when: str) -> Any:
    def struck(*args: Any, **kwargs: Any) -> Any:
        if when == "after":
            call(*args, **kwargs)
        raise Died

    return struck
