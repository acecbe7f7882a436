"""A workload on a real cluster whose history is recorded and judged: a thread that sends, plainly or in transactions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from itertools import count, cycle, repeat
from typing import Any, NamedTuple

import levada as lv
from levada.errors import KafkaError, TransactionOutcomeUnknownError
from levada.testing.history import Event, History, Recorder, RecordingProducer, Report, check, found_in, read_log

PAYLOAD = b"x" * 100
PAUSE_S = 0.01
PARTITIONS = 6
RECORDS_PER_PAUSE = 10
RECORDS_PER_TRANSACTION = 100
FAULTS = 1000
"""The process that tells of faults."""


class Work(NamedTuple):
    """What a load sends: so many records, with the next payloads, and a pause. partitions: as many take turns."""

    records: int = RECORDS_PER_PAUSE
    pause_s: float = PAUSE_S
    partitions: int = PARTITIONS
    payloads: Iterable[bytes] = repeat(PAYLOAD)


class Load(threading.Thread):
    """Sends about a thousand records a second until told to stop. An error of a send is part of the history and ends nothing."""

    def __init__(
        self, servers: str, topic: str, recorder: Recorder, *, transactional: bool = False, work: Work | None = None, **settings: Any
    ) -> None:
        super().__init__(daemon=True, name=f"load {recorder.process}")
        self.crashed: BaseException | None = None
        self.recorder = recorder
        if transactional:
            settings = {"transactional_id": f"{topic}-{recorder.process}", "transaction_timeout_ms": 120_000, **settings}
        self._transactional = transactional
        self._topic = topic
        self._work = work or Work()
        self._stop_it = threading.Event()
        self.producer = lv.KafkaProducer(bootstrap_servers=servers, **settings)
        self._partitions = cycle(range(self._work.partitions))
        self._payloads = iter(self._work.payloads)
        self._recording = RecordingProducer(self.producer, self.recorder)

    def run(self) -> None:
        try:
            with self.producer:
                (self._transactions if self._transactional else self._records)()
        except BaseException as error:
            self.crashed = error

    def stop(self) -> None:
        """Wait until all records are done."""
        self._stop_it.set()
        self.join(180)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.crashed is not None:
            raise self.crashed

    def _records(self) -> None:
        while not self._stop_it.wait(self._work.pause_s):
            for _ in range(self._work.records):
                self._send()

    def _send(self) -> None:
        """One record, to each partition in turn, so that the gap between two acknowledgements means something for each."""
        self._recording.send(self._topic, payload=next(self._payloads), partition=next(self._partitions))

    def _transactions(self) -> None:
        self.producer.init_transactions()
        while not self._stop_it.is_set():
            try:
                self._recording.begin_transaction()
                for _ in range(RECORDS_PER_TRANSACTION):
                    self._send()
                self._stop_it.wait(10 * self._work.pause_s)
                self._recording.commit_transaction()
            except TransactionOutcomeUnknownError:
                continue
            except KafkaError as error:
                if error.fatal:
                    raise
                self._recording.abort_transaction()


class Watched:
    """Loads on one topic, what happened to the cluster meanwhile, and the verdict. A context manager that stops the loads."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers = servers
        self.topic = topic
        self.events: list[Event] = []
        self.faults = Recorder(self.events.append, FAULTS)
        self.loads: list[Load] = []
        self._processes = count(1)

    def recorder(self) -> Recorder:
        """Return what tells of one more process."""
        return Recorder(self.events.append, next(self._processes))

    def start(self, *, transactional: bool = False, work: Work | None = None, **settings: Any) -> Load:
        load = Load(self.servers, self.topic, self.recorder(), transactional=transactional, work=work, **settings)
        self.loads.append(load)
        load.start()
        return load

    def acknowledged(self) -> int:
        return sum(event.op == "send" and event.type == "ok" for event in list(self.events))

    def await_progress(self, timeout_s: float = 60) -> float:
        """Wait until records are acknowledged again; return how long that took."""
        began, before = time.monotonic(), self.acknowledged()
        while self.acknowledged() < before + 10 * RECORDS_PER_PAUSE:
            assert time.monotonic() - began < timeout_s, f"no acknowledgement for {timeout_s} s"
            time.sleep(0.02)
        return time.monotonic() - began

    def await_all_partitions(self, timeout_s: float = 60) -> int:
        """Wait until a record of each partition was acknowledged from now on; return after how many milliseconds."""
        began, since = time.monotonic(), len(self.events)
        while len({event.partition for event in self.events[since:] if event.op == "send" and event.type == "ok"}) < PARTITIONS:
            assert time.monotonic() - began < timeout_s, f"partitions without an acknowledgement for {timeout_s} s"
            time.sleep(0.02)
        return int((time.monotonic() - began) * 1000)

    def leader(self, partition: int = 0) -> int:
        """The node that leads a partition, -1 for none."""
        with lv.KafkaConsumer(bootstrap_servers=self.servers) as consumer:
            return consumer.partitions_for(self.topic)[partition].leader

    def verdict(self, servers: str = "") -> Report:
        """Stop the loads, read the logs, and check. servers: where to read, default where the loads wrote."""
        for load in self.loads:
            load.stop()
        cluster = {"bootstrap.servers": servers or self.servers}
        with lv.KafkaClient(cluster) as client:
            log = read_log(client, [self.topic])
        committed = found_in(lv.scan(self.topic, cluster, isolation_level="read_committed"))
        return check(History.of(self.events), log=log, committed=committed)
