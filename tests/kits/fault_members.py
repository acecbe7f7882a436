"""Members of a group on a real cluster, recorded: threads that are closed, or vanish without a word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import levada as lv
from fault_load import PARTITIONS, Watched
from levada.errors import CommitFailedError, RebalanceInProgressError, RetriableCommitError, TimeoutError
from levada.testing.history import Event, Op, Recorder, RecordingMember, Report, Type, found_in
from levada.types import TopicPartition

FIRST_MEMBER = 2000
SESSION_TIMEOUT_S = 6
"""Of members of classic groups; consumer groups have that of BROKERS."""
BROKERS: Mapping[str, int] = {
    "group.consumer.min.session.timeout.ms": SESSION_TIMEOUT_S * 1000,
    "group.consumer.session.timeout.ms": SESSION_TIMEOUT_S * 1000,
}
_CLASSIC: Mapping[str, Any] = {"session_timeout_ms": SESSION_TIMEOUT_S * 1000, "heartbeat_interval_ms": 500}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "range": {"partition_assignment_strategy": "range", **_CLASSIC},
    "cooperative-sticky": {"partition_assignment_strategy": "cooperative-sticky", **_CLASSIC},
    "consumer": {"group_protocol": "consumer"},
}
"""Settings of the members of a classic group with this assignor, or of a consumer group."""
EXPECTED = (CommitFailedError, RebalanceInProgressError, RetriableCommitError, TimeoutError)
"""What a commit may be refused with: what was not committed is read again."""


class Member(threading.Thread):
    """Polls, and commits after each poll, until it is told to close or to vanish."""

    def __init__(self, servers: str, topic: str, write: Callable[[Event], object], process: int, **settings: Any) -> None:
        super().__init__(daemon=True, name=f"member {process}")
        self.crashed: BaseException | None = None
        self.process = process
        self._recorder = Recorder(write, process)
        self._ends = threading.Event()
        self._vanishes = False
        self._consumer = lv.KafkaConsumer(
            bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest", isolation_level="read_committed",
            enable_auto_commit=False, metadata_max_age_ms=2_000, **settings,
        )  # fmt: skip
        self.member = RecordingMember(self._consumer, self._recorder, commits_revoked=True)
        self.member.subscribe([topic])

    def run(self) -> None:
        try:
            while not self._ends.is_set():
                self._round()
            if self._vanishes:
                self._recorder.crashed(self.process)
                self._consumer._driver.close()
            else:
                self._consumer.close()
                self._recorder.tell(Op.PROCESS, Type.OK)
        except BaseException as error:
            self.crashed = error

    def _round(self) -> None:
        try:
            if self.member.poll(0.2):
                self.member.commit()
        except EXPECTED:
            pass

    def end(self, *, vanishes: bool) -> None:
        """Close it, or let it vanish as under kill -9: its last heartbeat was sent, and it is not told of any more."""
        self._vanishes = vanishes
        self._ends.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.crashed is not None:
            raise self.crashed


class Members:
    """The members of one group that reads a load, and how far it is. kind: one of KINDS."""

    def __init__(self, watched: Watched, kind: str) -> None:
        self.topic = watched.topic
        self._watched, self._servers, self._events, self._settings = watched, watched.servers, watched.events, KINDS[kind]
        self._count = 0
        self.running: list[Member] = []

    def join(self) -> None:
        self._count += 1
        member = Member(self._servers, self.topic, self._events.append, FIRST_MEMBER + self._count, **self._settings)
        self.running.append(member)
        member.start()

    def leave(self, *, vanishes: bool = False) -> None:
        """The oldest member ends."""
        self.running.pop(0).end(vanishes=vanishes)

    def await_owners(self, partitions: int, timeout_s: float = 60) -> float:
        """Wait until every partition has one of the members that run, and each of these has some; return how long that took."""
        began = time.monotonic()
        while not self._is_whole(partitions):
            assert time.monotonic() - began < timeout_s, f"group {self.topic} is not whole after {timeout_s} s"
            time.sleep(0.05)
        return time.monotonic() - began

    def _is_whole(self, partitions: int) -> bool:
        held: dict[int, set[TopicPartition]] = {}
        for event in list(self._events):
            if event.op is Op.ASSIGN:
                held[event.process] = {place.tp for place in event.places}
            elif event.op is Op.REVOKE:
                held.get(event.process, set()).difference_update(place.tp for place in event.places)
            elif event.op is Op.CRASH or (event.op is Op.PROCESS and event.process >= FIRST_MEMBER):
                held.pop(event.process, None)
        owned = [tp for tps in held.values() for tp in tps]
        everybody_has_some = {process for process, tps in held.items() if tps} == {member.process for member in self.running}
        return everybody_has_some and len(owned) == len(set(owned)) == partitions

    def await_read(self, values: set[int], timeout_s: float = 60) -> None:
        """Wait until all these values were given to some member."""
        deadline = time.monotonic() + timeout_s
        while missing := values - set(self._given()):
            assert time.monotonic() < deadline, f"group {self.topic} was never given {len(missing)} of {len(values)} records"
            time.sleep(0.2)

    def given_twice(self) -> int:
        """How many records were given out again, by whoever had the partition next."""
        given = self._given()
        return len(given) - len(set(given))

    def _given(self) -> list[int]:
        return [found.value for event in list(self._events) for found in event.read]

    def stop(self) -> None:
        while self.running:
            self.leave()

    def judged(self, note: Callable[[str], None], text: str, servers: str = "") -> Report:
        """Let the group read everything. Nothing is lost, skipped or read again after it was committed, and no offset went back.

        note: takes a line of figures that begins with a text. servers: where the logs are read, default where the loads write.
        """
        for load in self._watched.loads:
            load.stop()
        written = found_in(lv.scan(self.topic, bootstrap_servers=servers or self._servers, isolation_level="read_committed"))
        self.await_read({found.value for found in written})
        self.stop()
        report = self._watched.verdict(servers)
        gaps = f"longest gap {report.longest_gap_ms} ms, of a partition {max(report.longest_gaps_ms.values())} ms"
        note(f"{text}; {report.records} records, {self.given_twice()} of them given out twice; {gaps}")
        report.require_clean()
        assert set(report.sends) == {"ok"}, "no error for the user"
        return report


def gathered(watched: Watched, kind: str, count: int = 3) -> Members:
    """Return so many members of a new group, which have all partitions."""
    members = Members(watched, kind)
    for _ in range(count):
        members.join()
    members.await_owners(PARTITIONS)
    return members
