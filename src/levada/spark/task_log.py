"""Log lines of a task say which query, micro-batch and task they are of.

The ids are attributes of each record of levada from the moment it is made, so that every handler has them, also one at a logger below
levada's, which comes before those of levada's own logger.

Python's logging has no handlers in Spark's Python workers, unless spark.sql.pyspark.worker.logging.enabled is true or the program sets some
up. So levada's logger gets one there, which writes the line to standard error, which is the executor's, where no other handler does. The
processes in which the driver commits get it, too: there is no task, and standard error is the driver's.

A worker runs one task at a time, so the task under way is right for the lines of a client's own thread, too.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from pyspark import TaskContext

from levada.spark.clients import are_in_use

LOGGER = "levada"
CONNECTIONS = "levada.client.network.network_client"
ABOUT_SETTINGS = ("levada.api.logins", "levada.api.engine_setup", "levada.config.producer")
"""Loggers of warnings about settings, which are the same for each client of a process."""
MakeRecord = Callable[..., logging.LogRecord]
PLAIN = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(name)s [%(task)s] %(message)s")


def log_with_task() -> None:
    """Make the log lines of this process name the task that is under way. Called by tasks and commits, as often as they like."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, TaskHandler) for handler in logger.handlers):
        logger.addHandler(TaskHandler())
        logging.setLogRecordFactory(with_task(logging.getLogRecordFactory()))


def tell(logger: logging.Logger, message: str, *args: object) -> None:
    """Log at INFO, and write to standard error where logging is not set up: Python drops a line below WARNING there.

    For what the user of a sink should see once. A program cannot set up logging in the processes in which the driver commits; what they
    write to standard error is in the driver's, which is the console of a program that makes its own session.
    """
    levadas = logging.getLogger(LOGGER)
    others = [handler for handler in levadas.handlers if not isinstance(handler, TaskHandler)]
    if logging.root.handlers or others or levadas.level != logging.NOTSET:
        logger.info(message, *args)
        return
    record = logger.makeRecord(logger.name, logging.INFO, "", 0, message, args, None)
    sys.stderr.write(PLAIN.format(record) + "\n")


def with_task(factory: MakeRecord) -> MakeRecord:
    """Return what makes records as a factory does, and adds the ids to those of levada.

    Within a task `context` is a dict, which Spark's structured log takes over; `task` is the same as text, empty outside of a task.
    """

    def make(name: str | None, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = factory(name, *args, **kwargs)
        # logging.makeLogRecord gives no name.
        if f"{name}.".startswith(f"{LOGGER}."):
            ids = task_context()
            record.task = " ".join(f"{key}={value}" for key, value in ids.items())
            if ids:
                # Outside of a task there is none: logging refuses to overwrite an attribute, and LagListener gives a context of its own.
                record.context = ids
        return record

    return make


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
    """Writes records from WARNING on where no other handler does. Python's handler of last resort is not used once our logger has this."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record if no other handler does."""
        is_last = not logging.root.handlers and logging.getLogger(LOGGER).handlers == [self]
        if record.name == CONNECTIONS and not are_in_use():
            return
        if is_last and record.levelno >= logging.WARNING and not self._is_repeated(record):
            # A program may have put a factory of its own in the place of ours.
            form = FORMAT if getattr(record, "task", "") else PLAIN
            sys.stderr.write(form.format(record) + "\n")

    def _is_repeated(self, record: logging.LogRecord) -> bool:
        """Whether a warning about settings was written before: a commit makes a client for each micro-batch, which says it again."""
        if record.name not in ABOUT_SETTINGS:
            return False
        text = record.getMessage()
        is_repeated = text in self._said
        self._said.add(text)
        return is_repeated
