"""Apicurio Registry as a process: a real registry that offers Confluent's API. It keeps everything in memory."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType

from kafka_jars import java, unpacked

PROGRAM = "apicurio-registry-app"
VERSION = "2.6.13.Final"
API = "/apis/ccompat/v7"
START_TIMEOUT_S = 60
END_TIMEOUT_S = 10
POLL_S = 0.1


def program() -> Path:
    """Return the folder of the registry's program, fetching it the first time."""
    return unpacked("io.apicurio", PROGRAM, VERSION, "all", "tar.gz")


class RealRegistry:
    """Starts with the constructor, ends with close(). Raises KafkaUnavailable where Java or Maven is missing."""

    def __init__(self) -> None:
        folder = program()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [
                str(java()),
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-jar",
                str(folder / f"{PROGRAM}-{VERSION}-runner.jar"),
            ],
            cwd=folder,
            env={**os.environ, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(self._port)},
            stdout=self._printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{API}"

    def __enter__(self) -> RealRegistry:
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._printed.close()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._printed.seek(0)
                raise RuntimeError(f"the registry did not start:\n{self._printed.read().decode(errors='replace')[-2000:]}")
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", f"{API}/subjects")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
