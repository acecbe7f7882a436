"""What each task and each commit does first, in the Python process that Spark runs it in: it prepares log lines and garbage collection.

The ids of query, micro-batch and task are attributes of each of levada's log records from the start. So every handler sees them, also a
handler of a logger below levada's, which runs before the handlers of levada's own logger.

Python's logging has no handlers in Spark's Python workers, unless spark.sql.pyspark.worker.logging.enabled is true or the program adds
some. So levada's logger gets a handler there. It writes to the executor's standard error if no other handler does. The processes in which
the driver commits get this handler as well; they have no task, and their standard error is the driver's.

A worker runs one task at a time, so the ids of the current task are right for the lines of a client's own thread as well.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable
from typing import Any

from pyspark import TaskContext

from levada.spark.clients import are_in_use

DAEMON = "pyspark.daemon"
FREEZES = 5
"""The most freezes in a process. Enough for all modules that it loads; no more, because frozen objects in cycles, such as a closed client,
are never freed.
"""
_modules: list[int] = []
"""How many modules were loaded at each freeze."""
LOGGER = "levada"
CONNECTIONS = "levada.client.network.network_client"
ABOUT_SETTINGS = ("levada.api.logins", "levada.api.engine_setup", "levada.config.producer")
"""Loggers of warnings about settings. Each client of a process logs the same warnings."""
MakeRecord = Callable[..., logging.LogRecord]
PLAIN = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(name)s [%(task)s] %(message)s")


def begin_task() -> None:
    """Prepare logging and garbage collection. Tasks and commits call this before anything else."""
    log_with_task()
    if _is_worker() and len(_modules) < FREEZES and len(sys.modules) not in _modules:
        _modules.append(len(sys.modules))
        # Spark's daemon collects garbage after each task, which takes 20 ms with pyspark, pyarrow and levada loaded: longer than a small
        # task. A collection does not visit frozen objects.
        gc.freeze()


def _is_worker() -> bool:
    """Whether Spark's daemon has forked this process, so that it is Spark's and not the program's."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == DAEMON


def log_with_task() -> None:
    """Add the ids of the current task to the log lines of this process. Idempotent."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, TaskHandler) for handler in logger.handlers):
        logger.addHandler(TaskHandler())
        logging.setLogRecordFactory(with_task(logging.getLogRecordFactory()))


def tell(logger: logging.Logger, message: str, *args: object) -> None:
    """Log at INFO. If logging is not set up, write to standard error instead, because Python would drop the line.

    For messages that the user of a sink should see once. A program cannot set up logging in the processes in which the driver commits.
    Their standard error is the driver's: the console, for a program that makes its own session.
    """
    levadas = logging.getLogger(LOGGER)
    others = [handler for handler in levadas.handlers if not isinstance(handler, TaskHandler)]
    if logging.root.handlers or others or levadas.level != logging.NOTSET:
        logger.info(message, *args)
        return
    record = logger.makeRecord(logger.name, logging.INFO, "", 0, message, args, None)
    sys.stderr.write(PLAIN.format(record) + "\n")


def with_task(factory: MakeRecord) -> MakeRecord:
    """Return a factory that calls `factory` to make log records, and adds the ids to levada's records.

    In a task the attribute `context` is a dict of the ids, which Spark's structured log includes. The attribute `task` has the ids as text;
    it is empty outside of a task.
    """

    def make(name: str | None, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = factory(name, *args, **kwargs)
        # logging.makeLogRecord gives no name.
        if f"{name}.".startswith(f"{LOGGER}."):
            ids = task_context()
            record.task = " ".join(f"{key}={value}" for key, value in ids.items())
            if ids:
                # Only in a task: logging refuses to overwrite an attribute, and LagListener passes its own context outside of tasks.
                record.context = ids
        return record

    return make


def task_context() -> dict[str, str]:
    """Return the ids of the current task. Empty outside of a task. For a batch query only `task`, which is stage.partition.attempt."""
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
    """Writes log records from WARNING on, if there is no other handler. It replaces Python's handler of last resort, which it disables."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record from WARNING on, if no other handler does.

        Faults of connections are skipped while no client is in use, and a repeated warning about settings is skipped.
        """
        is_last = not logging.root.handlers and logging.getLogger(LOGGER).handlers == [self]
        if record.name == CONNECTIONS and not are_in_use():
            return
        if is_last and record.levelno >= logging.WARNING and not self._is_repeated(record):
            # The program may have replaced the factory that adds `task`.
            form = FORMAT if getattr(record, "task", "") else PLAIN
            sys.stderr.write(form.format(record) + "\n")

    def _is_repeated(self, record: logging.LogRecord) -> bool:
        """Return whether this warning about settings was written before; if not, remember it.

        A commit may make a client for each micro-batch, and each client warns.
        """
        if record.name not in ABOUT_SETTINGS:
            return False
        text = record.getMessage()
        is_repeated = text in self._said
        self._said.add(text)
        return is_repeated
