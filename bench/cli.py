"""What the command line costs beside kcat and the library, each a process with its start, on a real Kafka 4.4 node: `make bench-cli`."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

import fill
from engine_bench import Bench, Case, System, Target
from engine_process import Figures, WorkerFailed
from kafka_jars import KafkaUnavailable
from machine import kafka
from payloads import DISTINCT, values
from sections import Run

PARTITIONS, SIZE, CODEC = 4, 100, "lz4"
SCANNED, LINES = 20_000_000, 1_000_000
QUICK_PART = 10
STARTS = 5
TIMEOUT_S = 60
PROGRAM = (sys.executable, "-m", "levada.cli")
RATE, SECONDS, CPU = "k records/s", "s", "CPU us per record"
MS, CPU_MS = "ms", "CPU ms"
LIBRARY = """
import sys, levada
columns = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
read = levada.scan(sys.argv[2], bootstrap_servers=sys.argv[1], columns=columns, batch_rows=131_072)
assert sum(batch.num_rows for batch in read.arrow()) == int(sys.argv[3])
"""
LIBRARY_WAY, KCAT, KCAT_JSON = "library scan", "kcat", "kcat -J"
TO_PARQUET, TO_JSON, CONSUME = "levada scan --to x.parquet", "levada scan --to x.jsonl", "levada consume -J"
PRODUCE, PRODUCE_JSON = "levada produce", "levada produce x.jsonl"
HELP, TOPICS = "levada --help", "levada topics list"
RATE_OF_LIBRARY, RATE_OF_KCAT = 0.5, 1
JSON_SECONDS = 1.5
TIME_OF_KCAT, JSON_TIME_OF_KCAT = 1, 2
START_MS = 150

Command = Sequence[str]


@dataclass(frozen=True)
class Part:
    """A section of this benchmark."""

    run: Callable[[CliBench], Iterable[Case]]


class CliBench(Bench):
    """A broker, a folder for files, and how often all programs run."""

    def __init__(self, bootstrap_servers: str, turns: int, folder: Path, *, quick: bool) -> None:
        super().__init__(bootstrap_servers, turns, quick=quick)
        self.folder = folder
        self._kcat = shutil.which("kcat") or shutil.which("kafkacat")

    def scaled(self, count: int) -> int:
        """Return a number of records, a tenth of `count` in a quick run."""
        return count // QUICK_PART if self.quick else count

    def levada(self, *arguments: str) -> Command:
        """Return a command of levada on the broker."""
        return [*PROGRAM, *arguments, "-b", self.bootstrap_servers]

    def kcat(self, *arguments: str) -> Command | None:
        """Return a command of kcat on the broker; None if kcat is not installed."""
        return self._kcat and [self._kcat, "-q", "-b", self.bootstrap_servers, *arguments]

    @contextmanager
    def filled(self, records: int) -> Iterator[str]:
        """Yield a topic with records."""
        with self.topic(PARTITIONS) as name:
            fill.topic(self.bootstrap_servers, name, SIZE, records, PARTITIONS, CODEC)
            yield name

    def records_of(self, topic: str) -> int:
        """Return how many records a topic has."""
        ends = self._admin.list_offsets({TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)})
        return sum(end.result(TIMEOUT_S).offset for end in ends.values())

    def compare(self, case: Case, commands: Mapping[str, Command | None], time_it: Callable[[Command], Figures]) -> None:
        """Run commands in turns, in both orders."""
        systems: dict[str, System | str] = {
            name: "skipped: kcat is not installed" if command is None else partial(time_it, command) for name, command in commands.items()
        }
        self.run(case, systems, both_orders=True)

    def ended(self, command: Command, times: int = 1) -> tuple[float, float]:
        """Run a command to its end with its stdout in a file; return seconds and seconds of processor time, medians if `times` is more."""
        runs = [self._ended(command) for _ in range(times)]
        return median(seconds for seconds, _ in runs), median(cpu for _, cpu in runs)

    def _ended(self, command: Command) -> tuple[float, float]:
        before, start = _cpu_of_children(), time.perf_counter()
        with (self.folder / "stdout").open("wb") as out:
            ended = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True)
        seconds, cpu = time.perf_counter() - start, _cpu_of_children() - before
        if ended.returncode:
            raise WorkerFailed(f"{' '.join(command)} failed\n{ended.stderr}")
        return seconds, cpu


def _cpu_of_children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def scan(bench: CliBench) -> Iterator[Case]:
    """Read a large topic into a file. The library's scan returns the same columns, and writes nothing."""
    records = bench.scaled(SCANNED)
    case = Case("scan", f"{records:,} records of {SIZE} B, {CODEC}, into a file")
    with bench.filled(records) as topic:
        commands = {
            LIBRARY_WAY: [sys.executable, "-c", LIBRARY, bench.bootstrap_servers, topic, str(records)],
            TO_PARQUET: bench.levada("scan", topic, "--to", str(bench.folder / "x.parquet")),
            KCAT: bench.kcat("-C", "-e", "-t", topic, "-o", "beginning"),
        }
        bench.compare(case, commands, partial(_reading, bench, records))
    case.hold(TO_PARQUET, RATE, LIBRARY_WAY, RATE_OF_LIBRARY, at_least=True)
    case.hold(TO_PARQUET, RATE, KCAT, RATE_OF_KCAT, at_least=True)
    yield case


def json(bench: CliBench) -> Iterator[Case]:
    """Read a topic as JSON, a line for each record."""
    records = bench.scaled(LINES)
    case = Case("json", f"{records:,} records of {SIZE} B, {CODEC}, as lines of JSON")
    with bench.filled(records) as topic:
        commands = {
            TO_JSON: bench.levada("scan", topic, "--to", str(bench.folder / "x.jsonl")),
            CONSUME: bench.levada("consume", topic, "-e", "-J"),
            KCAT_JSON: bench.kcat("-C", "-e", "-t", topic, "-o", "beginning", "-J"),
        }
        bench.compare(case, commands, partial(_reading, bench, records))
    case.targets.append(Target(TO_JSON, SECONDS, JSON_SECONDS, case.figure(TO_JSON, SECONDS)))
    case.hold(TO_JSON, RATE, KCAT_JSON, RATE_OF_KCAT, at_least=True)
    yield case


def _reading(bench: CliBench, records: int, command: Command) -> Figures:
    seconds, cpu = bench.ended(command)
    return {SECONDS: seconds, RATE: records / seconds / 1e3, CPU: cpu / records * 1e6}


def produce(bench: CliBench) -> Iterator[Case]:
    """Write a file of lines, and the same values as lines of JSON, which kcat does not read."""
    lines = bench.scaled(LINES)
    case = Case("produce", f"a file of {lines:,} lines of {SIZE} B")
    plain, objects = bench.folder / "lines.txt", bench.folder / "lines.jsonl"
    payload = [value.decode() for value in values(SIZE)]
    with plain.open("w") as of_text, objects.open("w") as of_json:
        for number in range(lines):
            value = payload[number % DISTINCT]
            print(value, file=of_text)
            print('{"value":"' + value.replace('"', '\\"') + '"}', file=of_json)
    with bench.topic(PARTITIONS) as topic:
        commands = {
            PRODUCE: bench.levada("produce", topic, str(plain)),
            PRODUCE_JSON: bench.levada("produce", topic, str(objects)),
            KCAT: bench.kcat("-P", "-t", topic, "-l", str(plain)),
        }
        bench.compare(case, commands, partial(_writing, bench, topic, lines))
    case.hold(PRODUCE, SECONDS, KCAT, TIME_OF_KCAT)
    case.hold(PRODUCE_JSON, SECONDS, KCAT, JSON_TIME_OF_KCAT)
    yield case


def _writing(bench: CliBench, topic: str, lines: int, command: Command) -> Figures:
    before = bench.records_of(topic)
    seconds, cpu = bench.ended(command)
    if (found := bench.records_of(topic) - before) != lines:
        raise WorkerFailed(f"{' '.join(command)} wrote {found} records instead of {lines}")
    return {SECONDS: seconds, RATE: lines / seconds / 1e3, CPU: cpu / lines * 1e6}


def start(bench: CliBench) -> Iterator[Case]:
    """Start a program that does little, the median of several starts a turn."""
    case = Case("start", "start and end")
    commands = {HELP: [*PROGRAM, "--help"], TOPICS: bench.levada("topics", "list"), "kcat -L": bench.kcat("-L")}
    bench.compare(case, commands, partial(_starting, bench))
    for system in (HELP, TOPICS):
        case.targets.append(Target(system, MS, START_MS, case.figure(system, MS)))
    yield case


def _starting(bench: CliBench, command: Command) -> Figures:
    seconds, cpu = bench.ended(command, STARTS)
    return {MS: seconds * 1e3, CPU_MS: cpu * 1e3}


SECTIONS = {part.__name__: Part(part) for part in (scan, json, produce, start)}
PACKAGES = ("confluent-kafka", "pyarrow")


def main() -> int:
    """Measure, print a table per case and the missed targets, and save the rows."""
    run = Run("cli", __doc__ or "", SECTIONS, turns=3, quick="a tenth of the records: does it work at all?")
    chosen = run.arguments(PACKAGES)
    try:
        with kafka() as broker, tempfile.TemporaryDirectory(prefix="levada-bench-") as folder:
            bench = CliBench(broker.bootstrap_servers, 1 if chosen.quick else chosen.turns, Path(folder), quick=chosen.quick)
            run.tell(chosen.sections, run.cases(bench, chosen.sections))
    except KafkaUnavailable as reason:
        print(f"bench-cli needs a real Kafka: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
