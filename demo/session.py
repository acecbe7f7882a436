"""A Spark session for the demo, and what Ctrl-C does to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from pyspark import java_gateway
from pyspark.sql import SparkSession


class CtrlC:
    """Holds Ctrl-C back while Spark is called, and raises it between two calls: py4j prints a traceback of a call that it breaks off."""

    def __init__(self) -> None:
        self._pressed = False

    def hold(self) -> None:
        """Only note Ctrl-C from now on."""
        signal.signal(signal.SIGINT, self._note)

    def release(self) -> None:
        """Let Ctrl-C raise KeyboardInterrupt at once again, as in any Python program."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.raise_if_pressed()

    def raise_if_pressed(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was noted."""
        if self._pressed:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        self._pressed = True


def spark_session(log: Path, ctrl_c: CtrlC, jars: Sequence[Path] = ()) -> SparkSession:
    """Start Spark, whose own messages go to a file; Ctrl-C is held back when it runs.

    levada needs no package and no jar: its format registers itself. jars: those of the connector that it is compared with.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # PySpark says this of every pandas 3, which it does not even use here.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    builder = SparkSession.builder.master("local[2]").appName("levada demo")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.jars": ",".join(map(str, jars)),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    # Not on the main thread, where PySpark would install a handler of its own for Ctrl-C.
    with _stderr_to(log), ThreadPoolExecutor(1) as starting, _no_jvm_left_behind():
        spark = starting.submit(builder.getOrCreate).result()
        ctrl_c.hold()
        return spark


@contextmanager
def _no_jvm_left_behind() -> Iterator[None]:
    """End a JVM that is still starting when Ctrl-C comes. PySpark would leave it running."""
    started: list[subprocess.Popen] = []
    is_over = False

    def popen(*args: object, **options: object) -> subprocess.Popen:
        started.append(subprocess.Popen(*args, **options))
        if is_over:
            started[-1].kill()
        return started[-1]

    patch = mock.patch.object(java_gateway, "Popen", popen)
    patch.start()
    try:
        yield
        patch.stop()
    except BaseException:
        # It stays patched: the thread that starts the JVM may be about to.
        is_over = True
        for jvm in started:
            jvm.kill()
            jvm.wait()
        raise


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Let child processes started here, such as the JVM, write their standard error to a file for good."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
