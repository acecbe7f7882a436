"""What each task and each commit does first, in the Python process that Spark runs it in."""

from __future__ import annotations

import gc
import sys

from levada.spark.task_log import log_with_task

DAEMON = "pyspark.daemon"
FREEZES = 5
"""The most freezes in a process. Enough for all modules that it loads; no more, because frozen objects in cycles, such as a closed client,
are never freed.
"""
_modules: list[int] = []
"""How many modules were loaded at each freeze."""


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
