"""Group members on a real cluster, in threads, with a recorded history. They close, or end without leaving the group."""

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
"""The session timeout of members of classic groups. BROKERS sets the same value for consumer groups."""
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
"""Errors of commits that are expected. Records that were not committed are read again."""


class Member(threading.Thread):
    """Polls, and commits after each poll that returned records, until end() is called."""

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
        """End the member, and wait for its thread.

        vanishes: end without LeaveGroup or a last commit, like kill -9; its listener is not called any more. Otherwise close the consumer.
        """
        self._vanishes = vanishes
        self._ends.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.crashed is not None:
            raise self.crashed


class Members:
    """The members of one group that reads the topic of a Watched, and the group's progress. kind: a key of KINDS."""

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
        """End the oldest member; see Member.end()."""
        self.running.pop(0).end(vanishes=vanishes)

    def await_owners(self, partitions: int, timeout_s: float = 60) -> float:
        """Wait until each partition has one owner, and each running member owns a partition. Returns the time taken in seconds."""
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
        """Wait until all these values were returned to members."""
        deadline = time.monotonic() + timeout_s
        while missing := values - set(self._given()):
            assert time.monotonic() < deadline, f"group {self.topic} was never given {len(missing)} of {len(values)} records"
            time.sleep(0.2)

    def given_twice(self) -> int:
        """Return how often a record was returned again after its first time."""
        given = self._given()
        return len(given) - len(set(given))

    def _given(self) -> list[int]:
        return [found.value for event in list(self._events) for found in event.read]

    def stop(self) -> None:
        while self.running:
            self.leave()

    def judged(self, note: Callable[[str], None], text: str, servers: str = "") -> Report:
        """Wait until the group has read all committed records, stop it, and require a history without findings.

        note: called with a line of figures that begins with `text`. servers: brokers to read the logs from; default: those of the loads.
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
    """Return `count` members of a new group, once each owns partitions and all partitions are owned."""
    members = Members(watched, kind)
    for _ in range(count):
        members.join()
    members.await_owners(PARTITIONS)
    return members
