"""Threads that send records to a real cluster, with or without transactions, and a check of their recorded history."""

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
"""The process number under which faults are recorded."""


class Work(NamedTuple):
    """A load sends `records` records, pauses, and repeats. partitions: the records go to this number of partitions in turn."""

    records: int = RECORDS_PER_PAUSE
    pause_s: float = PAUSE_S
    partitions: int = PARTITIONS
    payloads: Iterable[bytes] = repeat(PAYLOAD)


class Load(threading.Thread):
    """Sends about a thousand records per second until stop(). Errors of sends are recorded, and the load continues."""

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
        """Stop sending, wait until the delivery of all records has ended, and raise the error that ended the thread, if any."""
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
        """Send one record to the next partition, so that the gaps in acknowledgements of all partitions can be compared."""
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
    """The loads on one topic, and the history of the loads and of faults. A context manager that stops the loads."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers = servers
        self.topic = topic
        self.events: list[Event] = []
        self.faults = Recorder(self.events.append, FAULTS)
        self.loads: list[Load] = []
        self._processes = count(1)

    def recorder(self) -> Recorder:
        """Return a recorder with a new process number."""
        return Recorder(self.events.append, next(self._processes))

    def start(self, *, transactional: bool = False, work: Work | None = None, **settings: Any) -> Load:
        load = Load(self.servers, self.topic, self.recorder(), transactional=transactional, work=work, **settings)
        self.loads.append(load)
        load.start()
        return load

    def acknowledged(self) -> int:
        return sum(event.op == "send" and event.type == "ok" for event in list(self.events))

    def await_progress(self, timeout_s: float = 60) -> float:
        """Wait until 100 more records are acknowledged, and return the time taken in seconds."""
        began, before = time.monotonic(), self.acknowledged()
        while self.acknowledged() < before + 10 * RECORDS_PER_PAUSE:
            assert time.monotonic() - began < timeout_s, f"no acknowledgement for {timeout_s} s"
            time.sleep(0.02)
        return time.monotonic() - began

    def await_all_partitions(self, timeout_s: float = 60) -> int:
        """Wait until one more record of each partition is acknowledged, and return the time taken in ms."""
        began, since = time.monotonic(), len(self.events)
        while len({event.partition for event in self.events[since:] if event.op == "send" and event.type == "ok"}) < PARTITIONS:
            assert time.monotonic() - began < timeout_s, f"partitions without an acknowledgement for {timeout_s} s"
            time.sleep(0.02)
        return int((time.monotonic() - began) * 1000)

    def leader(self, partition: int = 0) -> int:
        """Return the node id of a partition's leader; -1 if it has no leader."""
        with lv.KafkaConsumer(bootstrap_servers=self.servers) as consumer:
            return consumer.partitions_for(self.topic)[partition].leader

    def verdict(self, servers: str = "") -> Report:
        """Stop the loads, read the logs, and check the history. servers: the brokers to read from; default: those of the loads."""
        for load in self.loads:
            load.stop()
        cluster = {"bootstrap.servers": servers or self.servers}
        with lv.KafkaClient(cluster) as client:
            log = read_log(client, [self.topic])
        committed = found_in(lv.scan(self.topic, cluster, isolation_level="read_committed"))
        return check(History.of(self.events), log=log, committed=committed)
