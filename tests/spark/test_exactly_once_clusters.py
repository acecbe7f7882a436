"""delivery=exactly-once where executors are processes of their own, and over Spark Connect."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest

import levada as lv
from process_sessions import command_line, kill_session, parent
from spark_drivers import EXACTLY_ONCE, ROWS, WITH_SLOTS, Program
from spark_verdict import HEADS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.matrix,
    pytest.mark.kafka,
    pytest.mark.timeout(0),
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a session through /proc"),
]

TITLE, ROUND_HEADS = "exactly once, other rounds", ["broker", "round", *HEADS, "what else"]
BROKER = "4.4.0"
FOREACH_JOB, FOREACH_ROWS = Path(__file__).parent / "connect_foreach_job.py", 100
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture
def cluster_of(program_of: Callable[..., Program], spark_home: Path) -> Callable[..., Program]:
    """Make a query on two executors: cluster_of(kafka, **Spark's settings)."""

    def make(kafka: Any, **settings: str) -> Program:
        path = os.pathsep.join([str(Path(lv.__file__).parents[1]), str(Path(__file__).parents[1] / "kits")])
        known = {"spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": path}
        program = program_of(kafka, master="local-cluster[2,1,1024]", settings={**known, **settings})
        return replace(program, environment={"SPARK_HOME": str(spark_home)})

    return make


@pytest.mark.parametrize("sink", [EXACTLY_ONCE, WITH_SLOTS])
@pytest.mark.parametrize("step", ["in-task-0", "after-write"])
def test_an_executor_dies(kafka44: Any, cluster_of: Callable[..., Program], table: Any, step: str, sink: str) -> None:
    program = replace(cluster_of(kafka44), sink=sink)
    program.produce(0)
    program.strike(f"{step}.hold")
    with program.running() as driver:
        executor = executor_of(driver.held_at(step))
        os.kill(executor, signal.SIGKILL)
        assert driver.wait() == 0, driver.said()
    found = program.verdict(ROWS)
    table(TITLE, ROUND_HEADS, [BROKER, f"{sink}: executor killed with -9, {step}", *found.cells, "its tasks ran again elsewhere"])
    assert found.is_right


def executor_of(worker: int) -> int:
    """Return the executor that has started a Python worker."""
    found = worker
    while "CoarseGrainedExecutorBackend" not in command_line(found):
        found = parent(found)
        assert found > 1, "no executor has started it"
    return found


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[str]:
    """A standalone cluster with a worker on each of two addresses, and its master: Spark runs no copy of a task on its own host."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{free.getsockname()[1]}"
    run = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), "org.apache.spark.deploy"]
    port = master.rpartition(":")[2]
    commands = [[run[0], f"{run[1]}.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0"]]
    for host in ("127.0.0.2", "127.0.0.3"):
        place = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(tmp_path / host)]
        commands.append([run[0], f"{run[1]}.worker.Worker", *place, master])
    environment = {**os.environ, "SPARK_DAEMON_MEMORY": "256m"}
    with (tmp_path / "cluster.log").open("wb") as log:
        started = [subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True) for command in commands]
    yield master
    for process in started:
        kill_session(process.pid)
        process.wait()


@pytest.mark.parametrize("sink", [EXACTLY_ONCE, WITH_SLOTS])
@pytest.mark.parametrize("step", ["in-task-0", "after-write"])
def test_speculation_runs_a_task_twice(
    kafka44: Any, cluster_of: Callable[..., Program], two_hosts: str, table: Any, step: str, sink: str
) -> None:
    program = replace(cluster_of(kafka44, **SPECULATION), master=two_hosts, sink=sink)
    program.produce(0)
    program.strike(f"{step}.hold")
    with program.running() as driver:
        driver.held_at(step)
        # The task that is held never ends, so it is its copy that lets the query end.
        assert driver.wait() == 0, driver.said()
    found = program.verdict(ROWS)
    table(TITLE, ROUND_HEADS, [BROKER, f"{sink}: speculation, {step}", *found.cells, "the copy of the task that was held counted"])
    assert found.is_right


def test_a_driver_dies_over_spark_connect(kafka44: Any, program_of: Callable[..., Program], table: Any) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pip install pyspark[connect]")
    program = program_of(kafka44, is_remote=True)
    program.produce(0)
    for step in ("before-decide", "after-commit"):
        program.strike(f"{step}.hold")
        with program.running() as driver:
            driver.held_at(step)
            driver.kill()
    program.run()
    found = program.verdict(ROWS)
    table(TITLE, ROUND_HEADS, [BROKER, "Spark Connect, driver killed twice", *found.cells, ""])
    assert found.is_right


@pytest.mark.parametrize(("sink_id", "is_repeated"), [("numbered", False), ("-", True)])
def test_foreach_batch_over_spark_connect_needs_the_number_of_the_batch(
    kafka44: Any, tmp_path: Path, sink_id: str, is_repeated: bool
) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pip install pyspark[connect]")
    servers, target = kafka44.bootstrap_servers, "unnumbered" if is_repeated else sink_id
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
        admin.create_topics([lv.NewTopic(name, partitions=2) for name in (f"for-{target}", target)])
    with lv.KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(FOREACH_ROWS):
            producer.send(f"for-{target}", b"%d" % number)
    command = [sys.executable, str(FOREACH_JOB), servers, str(tmp_path), sink_id]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr

    values = [record.value for record in lv.scan(target, bootstrap_servers=servers, isolation_level="read_committed")]
    assert set(values) == {b"%d" % number for number in range(FOREACH_ROWS)}
    assert (len(values) > FOREACH_ROWS) is is_repeated
    assert ("is repeated, its rows are written again" in done.stderr) is is_repeated
