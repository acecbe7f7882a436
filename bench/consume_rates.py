"""Records per second and processor time per record: every client's ways of reading, by codec, size of values and size of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import NamedTuple

from consume_bench import BATCHES, RECORDS, ConsumeBench
from consume_meter import CPU, RATE, Job
from consume_programs import kcat, perf_tool
from engine_bench import Case, System, worker

SECTION = "rates"

COLUMNS, POLL, POLL_MANY, ITERATION = "levada poll_arrow", "levada poll", "levada poll, max_records=10000", "levada iteration"
SCAN, SCAN_RECORDS = "levada scan, columns", "levada scan, iteration"
AIO_COLUMNS, AIO_POLL, AIO_ITERATION = "levada.aio poll_arrow", "levada.aio poll", "levada.aio iteration"
COUNT, VALUES = "confluent-kafka consume, counting", "confluent-kafka consume, values read"
TABLE, CONFLUENT_POLL = "confluent-kafka consume to table", "confluent-kafka poll"
GETMANY, AIOKAFKA_ITERATION = "aiokafka getmany", "aiokafka iteration"
KAFKA_PYTHON, JAVA, KCAT = "kafka-python poll", "Java's performance tool", "kcat"
BARE = "bare recv loop"


class Way(NamedTuple):
    """How a system reads. client: the client whose settings it has. runner: its worker, or a function that makes the system of a program.

    share: the part of the records that it reads.
    """

    client: str
    runner: str | Callable[[Job], System | str]
    form: str = ""
    share: float = 1


ASSIGNED, ASYNC, SCANNED, CONFLUENT = (
    "consume_levada:assigned",
    "consume_levada:asynchronous",
    "consume_levada:scanned",
    "consume_peers:confluent",
)
WAYS: Mapping[str, Way] = {
    COLUMNS: Way("levada", ASSIGNED, "arrow"),
    # It reads ahead by up to a million records, so all records that it fetches have to be read.
    TABLE: Way("confluent", CONFLUENT, "table"),
    COUNT: Way("confluent", CONFLUENT, "count"),
    POLL: Way("levada", ASSIGNED, "poll"),
    POLL_MANY: Way("levada", ASSIGNED, "poll many"),
    ITERATION: Way("levada", ASSIGNED, "iteration"),
    VALUES: Way("confluent", CONFLUENT, "values"),
    CONFLUENT_POLL: Way("confluent", CONFLUENT, "poll"),
    AIO_COLUMNS: Way("levada", ASYNC, "arrow"),
    AIO_POLL: Way("levada", ASYNC, "poll"),
    AIO_ITERATION: Way("levada", ASYNC, "iteration"),
    GETMANY: Way("aiokafka", "consume_peers:aiokafka", "getmany", share=0.1),
    AIOKAFKA_ITERATION: Way("aiokafka", "consume_peers:aiokafka", "iteration", share=0.1),
    KAFKA_PYTHON: Way("kafka-python", "consume_peers:kafka_python", share=0.05),
    SCAN: Way("levada", SCANNED, "arrow"),
    SCAN_RECORDS: Way("levada", SCANNED, "iteration"),
    # The tool's processor time includes the start of Java, and its compiler.
    JAVA: Way("java", perf_tool),
    KCAT: Way("kcat", kcat),
    BARE: Way("bare", "consume_bare:receive"),
}
CLIENTS = (COUNT, VALUES, TABLE, CONFLUENT_POLL, GETMANY, AIOKAFKA_ITERATION, KAFKA_PYTHON, JAVA)
# kcat passes its records to no program, so only its rate is compared.
PEERS = (*CLIENTS, KCAT)


class Rates:
    """The section of one codec."""

    def __init__(self, codec: str) -> None:
        self._codec = codec

    def run(self, bench: ConsumeBench) -> Iterator[Case]:
        """Measure every size of values and of batches."""
        for size in RECORDS:
            for batch_bytes in BATCHES:
                with bench.filled(size, self._codec, batch_bytes) as topic:
                    case = Case(SECTION, f"{size} B, {self._codec}, {BATCHES[batch_bytes]}")
                    bench.run(case, {system: _system(bench, topic, size, way) for system, way in WAYS.items()})
                _hold(case, size, self._codec)
                yield case


def _system(bench: ConsumeBench, topic: str, size: int, way: Way) -> System | str:
    job = bench.reading(topic, size, way.client, way.form, share=way.share)
    return worker(way.runner, asdict(job)) if isinstance(way.runner, str) else way.runner(job)


def _hold(case: Case, size: int, codec: str) -> None:
    if (size, codec) == (100, "none"):
        for peer, times in ((TABLE, 8.5), (COUNT, 4), (JAVA, 2)):
            case.hold(COLUMNS, RATE, peer, times, at_least=True)
        case.hold(COLUMNS, CPU, _best(case, CPU, min, CLIENTS), 0.25)
        _hold_poll(case, 2)
        for ours, peer in ((AIO_POLL, GETMANY), (AIO_ITERATION, AIOKAFKA_ITERATION)):
            case.hold(ours, RATE, peer, 2.5, at_least=True)
        return
    case.hold(COLUMNS, RATE, _best(case, RATE, max, PEERS), 1, at_least=True)
    if (size, codec) == (1024, "none"):
        case.hold(COLUMNS, RATE, TABLE, 2.5, at_least=True)
    if size == 1024 and codec in ("none", "lz4"):
        _hold_poll(case, 1.1)


def _hold_poll(case: Case, times: float) -> None:
    for ours in (POLL, ITERATION):
        case.hold(ours, RATE, VALUES, times, at_least=True)


def _best(case: Case, figure: str, choose: Callable[..., str], peers: Iterable[str]) -> str:
    """Return the measured peer with the best figure."""
    told = {peer: found for peer in peers if (found := case.figure(peer, figure)) is not None}
    return choose(told, key=lambda peer: told[peer], default=TABLE)
