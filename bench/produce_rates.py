"""Records per second and processor time per record: every client's ways of sending, by size and codec, with defaults and at its best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from engine_bench import Case, System, worker
from produce_bench import ACCEPTED, BEST, CLIENT, DEFAULT, PARTITIONS, RATE, RECORDS, Job, ProduceBench, Settings
from produce_java import perf_tool

SECTION = "rates"

SEND, CALLBACK, KEY = "levada send", "levada send, callback", "levada send, key"
ARROW, AIO = "levada send_arrow", "levada.aio send"
PRODUCE, PRODUCE_CALLBACK, PRODUCE_KEY = "confluent-kafka produce", "confluent-kafka produce, callback", "confluent-kafka produce, key"
PRODUCE_BATCH = "confluent-kafka produce_batch"
AIOKAFKA, AIOKAFKA_BATCHES = "aiokafka send", "aiokafka, caller-built batches"
KAFKA_PYTHON = "kafka-python send"
JAVA = "Java's performance tool"


class Way(NamedTuple):
    """How a system sends: the client whose settings it has, its worker ("" for a separate program), and its share of the records."""

    client: str
    runner: str
    form: str = "plain"
    share: float = 1


LEVADA_SEND, CONFLUENT_SEND = "produce_levada:send", "produce_peers:confluent"
WAYS: Mapping[str, Way] = {
    SEND: Way("levada", LEVADA_SEND),
    PRODUCE: Way("confluent", CONFLUENT_SEND),
    CALLBACK: Way("levada", LEVADA_SEND, "callback"),
    PRODUCE_CALLBACK: Way("confluent", CONFLUENT_SEND, "callback"),
    KEY: Way("levada", LEVADA_SEND, "key"),
    PRODUCE_KEY: Way("confluent", CONFLUENT_SEND, "key"),
    ARROW: Way("levada", "produce_levada:send_arrow"),
    PRODUCE_BATCH: Way("confluent", CONFLUENT_SEND, "batch"),
    AIO: Way("levada", "produce_levada:aio_send"),
    AIOKAFKA: Way("aiokafka", "produce_peers:aiokafka_send", share=0.2),
    AIOKAFKA_BATCHES: Way("aiokafka", "produce_peers:aiokafka_batches", share=0.2),
    KAFKA_PYTHON: Way("kafka-python", "produce_peers:kafka_python", share=0.05),
    # The tool's processor time includes the start of Java, and its compiler.
    JAVA: Way("java", "", share=3),
}


class Rates:
    """The section of one codec."""

    def __init__(self, codec: str) -> None:
        self._codec = codec

    def run(self, bench: ProduceBench) -> Iterator[Case]:
        """Measure every size, with default settings, then with the best settings of each client."""
        for size in RECORDS:
            for name, settings in (("default settings", DEFAULT), ("each one's best settings", BEST)):
                yield self._case(bench, size, name, settings)

    def _case(self, bench: ProduceBench, size: int, name: str, settings: Settings) -> Case:
        with bench.topic(PARTITIONS) as topic:
            jobs = {system: self._job(bench, topic, size, way, settings) for system, way in WAYS.items()}
            systems = {system: _system(way, jobs[system]) for system, way in WAYS.items()}
            case = bench.run(Case(SECTION, f"{size} B, {self._codec}, {name}"), systems)
        _hold(case, is_default=settings is DEFAULT)
        return case

    def _job(self, bench: ProduceBench, topic: str, size: int, way: Way, settings: Settings) -> Job:
        return Job(
            bootstrap_servers=bench.bootstrap_servers,
            topic=topic,
            records=int(bench.scaled(RECORDS[size]) * way.share),
            value_bytes=size,
            settings=settings[way.client] | self._codec_setting(way.client),
            broker_process=bench.broker.process_id,
            form=way.form,
        )

    def _codec_setting(self, client: str) -> dict[str, Any]:
        name = "compression.type" if client in ("confluent", "java") else "compression_type"
        # aiokafka and kafka-python accept None, but not "none".
        is_none = self._codec == "none" and client in ("aiokafka", "kafka-python")
        return {name: None if is_none else self._codec}


def _system(way: Way, job: Job) -> System:
    return worker(way.runner, asdict(job)) if way.runner else perf_tool(job)


def _hold(case: Case, *, is_default: bool) -> None:
    if is_default:
        case.hold(SEND, ACCEPTED, PRODUCE, 2, at_least=True)
        case.hold(SEND, RATE, PRODUCE, 1.5, at_least=True)
        case.hold(AIO, RATE, AIOKAFKA, 4, at_least=True)
    else:
        case.hold(ARROW, RATE, JAVA, 2, at_least=True)
        case.hold(ARROW, CLIENT, JAVA, 0.2)
