"""Rows M-A17 and M-A18: one of two log folders of a node of Kafka 4.4, of three, is full, or can only be read.

A group reads meanwhile. The folder is a small file system where one can be mounted.
"""

from __future__ import annotations

import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from errno import ENOSPC
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fault_load import PARTITIONS, Watched
from fault_members import BROKERS, gathered
from kafka_cluster import KafkaCluster, KafkaNode

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(180)]
SIZE = "64m"
LAG_MS = REQUEST_TIMEOUT_MS = 5000
"""replica.lag.time.max.ms and request.timeout.ms, both 30 s by default. A leader waits so long for a replica that was in sync and whose
broker lives, although its log is gone and the controller has taken it out of the in-sync replicas; and it looks again only when the next
batch comes, which a producer sends when the requests before it have timed out.
"""
NOTICED_S = 30
BUSY_MS = 2000
"""What a machine may take longer that runs three brokers, two producers and perhaps other tests."""
BLOCK = bytes(1 << 16)
WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class Disk(NamedTuple):
    """Where the second log folder is. refusal: why it is no file system of its own, "" if it is one."""

    folder: Path
    refusal: str

    @property
    def logs(self) -> Path:
        return self.folder / "logs"


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    folder = tmp_path_factory.mktemp("small-disk")
    mounting = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(folder)], capture_output=True, text=True)
    yield Disk(folder, mounting.stderr.strip() if mounting.returncode else "")
    if not mounting.returncode:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def cluster(start_real_kafka: Callable[..., AbstractContextManager[Any]], disk: Disk) -> Iterator[KafkaCluster]:
    properties = {"replica.lag.time.max.ms": LAG_MS, **BROKERS}
    with start_real_kafka("4.4.0", nodes=3, heap="256m", second_log_folder=disk.logs, properties=properties) as cluster:
        yield cluster


@pytest.fixture
def watched(cluster: KafkaCluster, topic: str) -> Watched:
    """Loads that have begun to write a topic with some replicas on the disk."""
    cluster.create_topic(topic, PARTITIONS, {"min.insync.replicas": 2})
    watched = Watched(cluster.bootstrap_servers, topic)
    for transactional in (False, True):
        watched.start(transactional=transactional, request_timeout_ms=REQUEST_TIMEOUT_MS)
    watched.await_progress()
    return watched


def fill(disk: Path) -> Path:
    """Leave no byte free; return the file that takes them."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(BLOCK)
        except OSError as error:
            assert error.errno == ENOSPC
    return path


def forbid(disk: Path) -> Path:
    """Let nobody make files there; return what permit() needs."""
    for folder in folders_of(disk):
        folder.chmod(folder.stat().st_mode & ~WRITE)
    return disk


def permit(disk: Path) -> None:
    """Let its owner do so again."""
    for folder in folders_of(disk):
        folder.chmod(folder.stat().st_mode | stat.S_IWUSR)


def folders_of(disk: Path) -> list[Path]:
    return [disk, *(path for path in disk.rglob("*") if path.is_dir())]


def replicas_on(disk: Disk, topic: str) -> int:
    here = len(list(disk.logs.glob(f"{topic}-*")))
    assert here, "some of the replicas are on the disk"
    return here


def given_up(node: KafkaNode, disk: Disk) -> int:
    """How often the node has stopped using the folder."""
    return node.log_path.read_text(errors="replace").count(f"Stopping serving logs in dir {disk.folder}")


def test_M_A17_the_disk_of_a_node_is_full(cluster: KafkaCluster, disk: Disk, watched: Watched, note: Callable[[str], None]) -> None:
    if disk.refusal:
        pytest.skip(f"a file system of its own cannot be mounted here: {disk.refusal}")
    survives(cluster.nodes[0], disk, watched, note, "M-A17", fill, Path.unlink)


def test_M_A18_a_log_folder_can_only_be_read(cluster: KafkaCluster, disk: Disk, watched: Watched, note: Callable[[str], None]) -> None:
    """As in Kafka's own log_dir_failure: what is open stays so, and the next file that is made there fails."""
    survives(cluster.nodes[0], disk, watched, note, "M-A18", forbid, permit)


def survives(
    node: KafkaNode,
    disk: Disk,
    watched: Watched,
    note: Callable[[str], None],
    row: str,
    break_it: Callable[[Path], Path],
    mend: Callable[[Path], object],
) -> None:
    """Whatever happens to the folder, every record is acknowledged and read. break_it: returns what mend() is called with."""
    here, members, before = replicas_on(disk, watched.topic), gathered(watched, "consumer"), given_up(node, disk)
    watched.faults.fault("disk")
    broken, began = break_it(disk.folder), time.monotonic()
    while given_up(node, disk) == before:
        assert time.monotonic() < began + NOTICED_S, node.log_tail()
        time.sleep(0.1)
    noticed_s = time.monotonic() - began
    watched.await_all_partitions()
    time.sleep(3)
    mend(broken)
    node.restart()
    watched.faults.fault("disk", mended=True)
    watched.await_all_partitions()
    report = members.judged(note, f"{row}: {here} of {PARTITIONS} partitions lost their log on the node, noticed after {noticed_s:.1f} s")
    assert max(report.longest_gaps_ms.values()) <= LAG_MS + REQUEST_TIMEOUT_MS + BUSY_MS
