"""Starts a Spark session for the demo, and handles Ctrl-C for it."""

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
    """Delays Ctrl-C until no call of Spark runs. An interrupted call would make py4j print a traceback."""

    def __init__(self) -> None:
        self._pressed = False

    def hold(self) -> None:
        """From now on, only remember that Ctrl-C was pressed."""
        signal.signal(signal.SIGINT, self._note)

    def release(self) -> None:
        """From now on, let Ctrl-C raise KeyboardInterrupt at once, like in any Python program."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.raise_if_pressed()

    def raise_if_pressed(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed since hold()."""
        if self._pressed:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        self._pressed = True


def spark_session(log: Path, ctrl_c: CtrlC, jars: Sequence[Path] = ()) -> SparkSession:
    """Start Spark, with its messages in a log file. Afterwards Ctrl-C is delayed, see CtrlC.

    levada needs no package and no jar, because its format registers itself. jars: the jars of the connector to compare with.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # PySpark warns about pandas 3, which is not used here.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    builder = SparkSession.builder.master("local[2]").appName("levada demo")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.python.unix.domain.socket.enabled": "true",
        # Otherwise Spark adds up the size of the batch for each row that goes to the sink.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.jars": ",".join(map(str, jars)),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    # On the main thread, PySpark would install its own handler for Ctrl-C.
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
        # Keep the patch, because the other thread may be about to start the JVM.
        is_over = True
        for jvm in started:
            jvm.kill()
            jvm.wait()
        raise


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect the standard error of child processes that are started in the block, such as the JVM, to a file until they end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
