"""What each task and each commit does first, in the Python process that Spark runs it in."""

from __future__ import annotations

import gc
import sys
from itertools import count

from levada.spark.task_log import log_with_task

DAEMON = "pyspark.daemon"
FREEZES = 10
"""Enough for what a process loads in its first tasks. Not more, because a frozen object that becomes part of a cycle is never collected."""
_begun = count()


def begin_task() -> None:
    """Prepare logging and garbage collection. Tasks and commits call this before anything else."""
    log_with_task()
    if _is_worker() and next(_begun) < FREEZES:
        # Spark's daemon collects garbage after each task, which takes 20 ms with pyspark, pyarrow and levada loaded: longer than a small
        # task. A collection does not visit frozen objects.
        gc.freeze()


def _is_worker() -> bool:
    """Whether Spark's daemon has forked this process, so that it is Spark's and not the program's."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == DAEMON
