"""Log lines of a task say which query, micro-batch and task they are of.

Python's logging has no handlers in Spark's Python workers, unless spark.sql.pyspark.worker.logging.enabled is true or the program sets some
up. So levada's logger gets one there. It adds the ids to each record of levada, for whichever handlers come after it, and writes the line
to standard error, which is the executor's, where no other handler does.

A worker runs one task at a time, so the task under way is right for the lines of a client's own thread, too.
"""

from __future__ import annotations

import logging
import sys

from pyspark import TaskContext

LOGGER = "levada"
FORMAT = "%(asctime)s %(levelname)s %(name)s [%(task)s] %(message)s"


def log_with_task() -> None:
    """Make the log lines of this process name the task that is under way. Called by tasks, as often as they like."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, TaskHandler) for handler in logger.handlers):
        logger.addHandler(TaskHandler())


def task_context() -> dict[str, str]:
    """Return the ids of the task under way: nothing outside of a task, and of a batch query only `task`: stage, partition and attempt."""
    task = TaskContext.get()
    if task is None:
        return {}
    where = {"task": f"{task.stageId()}.{task.partitionId()}.{task.attemptNumber()}"}
    query_id = task.getLocalProperty("sql.streaming.queryId")
    if query_id is None:
        return where
    # The group of a streaming query's jobs is the id of its run.
    ids = {"query_id": query_id, "run_id": task.getLocalProperty("spark.jobGroup.id")}
    ids["batch_id"] = task.getLocalProperty("streaming.sql.batchId")
    return {name: value for name, value in ids.items() if value is not None} | where


class TaskHandler(logging.Handler):
    """Adds the ids to records, `context` as a dict, which Spark's structured log takes over, and `task` as text.

    Writes the records that nobody else does: from WARNING on, as Python's last resort, which a handler at our logger takes the place of.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        """Add the ids to a record, and write it if nobody else will."""
        ids = task_context()
        record.context = {**ids, **getattr(record, "context", {})}
        record.task = " ".join(f"{name}={value}" for name, value in ids.items())
        is_last = not logging.root.handlers and logging.getLogger(LOGGER).handlers == [self]
        if is_last and record.levelno >= logging.WARNING:
            sys.stderr.write(self.format(record) + "\n")
