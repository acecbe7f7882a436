"""Every error code of every API that a member of a group asks, in both protocols: once, three times, for ever (M-B7, M-B17).

A member reads and commits under the fault, and goes on without it. No call takes longer than its time, what may pass is not told,
everything else is told with its code, and in the end every record was handed out and committed: nothing is skipped, doubled or committed
too far. The codes that mean something to an API run in every test run; all others, which are treated alike, with `make test-faults`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import pytest

from chaos_verdict import quiet
from group_chaos_member import EXPECTED, GROUP, SETTINGS, Program
from group_chaos_plan import TOPICS, draw_group
from group_chaos_world import GroupWorld
from levada.error_codes import ErrorCode
from levada.errors import KafkaError
from levada.testing import Simulation
from levada.testing.history import Report

FOR_EVER = 10_000
ROUNDS = 6
POLL_S = 1.0
WORK_MS = 3_000
"""How long the program takes for what it has read. Six times are more than three heartbeats, and less than max.poll.interval.ms."""
LATE_MS = 1000
"""How much later than its time a call may end (M-P5)."""
CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]
SETTINGS_OF_PLAN = {"enable_auto_commit": False, "max_poll_records": 2, "commits_revoked": False}

# Written down here a second time on purpose: the codes after which a member goes on by itself. Where a membership ends, a commit may be
# refused for that.
_COORDINATOR = {14, 15, 16}
_RETRIABLE = {code.value for code in CODES if code.retriable}
PASSES: Mapping[str, Mapping[str, set[int]]] = {
    "classic": {
        "FindCoordinator": _RETRIABLE,
        "JoinGroup": _COORDINATOR | {25, 27, 79},
        "SyncGroup": _COORDINATOR | {22, 25, 27},
        "Heartbeat": _COORDINATOR | {22, 25, 27},
        "OffsetCommit": _COORDINATOR | {3, 7, 100} | {22, 25, 27},
        "OffsetFetch": _RETRIABLE - {3},
    },
    "consumer": {
        "FindCoordinator": _RETRIABLE,
        "ConsumerGroupHeartbeat": _COORDINATOR | {25, 110},
        "OffsetCommit": _COORDINATOR | {3, 7, 100} | {22, 25, 27, 69, 110, 113},
        "OffsetFetch": _RETRIABLE - {3} | {25, 113},
    },
}
PASSES_ONCE = ("ConsumerGroupHeartbeat", 69)
"""A group that has ended is joined again, and is of another kind if it is not found then."""
BEFORE_JOINING = ("FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch")
TELLING = {22, 25, 27, 79, 110, 113, 14, 16, 30}
"""Codes that mean something to a member, one for each way to react, and one that is told."""


ASKED = [pytest.param(protocol, api, id=f"{protocol}-{api}") for protocol, apis in PASSES.items() for api in apis]


class Run:
    """A member under a fault. late: the calls that took longer than they may.

    told: what its program was told, without what a commit may be refused with when the membership has ended.
    """

    def __init__(self, sim: Simulation, protocol: str) -> None:
        self.sim = sim
        self.world = GroupWorld(sim, draw_group(2, 0, group_protocol=protocol, **SETTINGS_OF_PLAN))
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                self.world.write(topic, partition, 3)
        self.told: list[KafkaError] = []
        self.late: list[str] = []
        self.world.join(False)
        self.program: Program = self.world.members[0]

    def go(self) -> None:
        """Poll, work and commit."""
        for _ in range(ROUNDS):
            self._call("poll", lambda: self.program.member.poll(POLL_S), int(POLL_S * 1000))
            self.sim.advance(WORK_MS)
            self._call("commit", self._commit, SETTINGS["default_api_timeout_ms"])

    def _commit(self) -> None:
        with suppress(*EXPECTED):
            self.program.member.commit()

    def break_it(self, api: str, code: ErrorCode, times: int) -> None:
        if api == "FindCoordinator":
            self.world.move(self.world.cluster.group_coordinators.leader_of(GROUP) % 3 + 1)
        for node in self.world.nodes.values():
            node.faults.fail_next(api, code, times)

    def ends(self) -> Report:
        """End the fault, and do what a program does about an error for good."""
        self.world.heal()
        if self.told:
            self.program.consumer.unsubscribe()
        return self.world.verdict()

    def _call(self, name: str, call: Callable[[], object], within_ms: int) -> None:
        begun_ms = self.sim.now_ms
        try:
            call()
        except KafkaError as error:
            self.told.append(error)
        if self.sim.now_ms - begun_ms > within_ms + LATE_MS:
            self.late.append(f"{name} took {self.sim.now_ms - begun_ms} ms")


def wrong_with(protocol: str, api: str, code: ErrorCode, times: int) -> str:
    """Return what a member does wrong about a code, "" for nothing."""
    with quiet(), Simulation(seed=1, latency_ms=(1, 20)) as sim:
        run = Run(sim, protocol)
        if api not in BEFORE_JOINING:
            run.go()
        run.break_it(api, code, times)
        run.go()
        told = {getattr(error, "code", None) for error in run.told}
        report = run.ends()
    passes = code.value in PASSES[protocol][api] or ((api, code.value) == PASSES_ONCE and times == 1)
    is_told = told == (set() if passes else {code})
    return "; ".join([*(map(str, report.findings)), *run.late, *([] if is_told else [f"the program was told {told}"])])


def wrong(protocol: str, api: str, codes: Iterable[ErrorCode], times: int) -> dict[str, str]:
    return {code.name: what for code in codes if (what := wrong_with(protocol, api, code, times))}


@pytest.mark.parametrize(("protocol", "api"), ASKED)
def test_M_B7_M_B17_error_codes_that_do_not_end(protocol: str, api: str) -> None:
    codes = [code for code in CODES if code.value in TELLING & (PASSES[protocol][api] | {30})]
    assert wrong(protocol, api, codes, FOR_EVER) == {}


@pytest.mark.matrix
@pytest.mark.timeout(900)
@pytest.mark.parametrize("times", [1, 3, FOR_EVER])
@pytest.mark.parametrize(("protocol", "api"), ASKED)
def test_M_B7_M_B17_every_error_code_of_a_group(protocol: str, api: str, times: int) -> None:
    assert wrong(protocol, api, CODES, times) == {}


@pytest.mark.parametrize(("protocol", "api"), [("classic", "LeaveGroup"), ("consumer", "ConsumerGroupHeartbeat")])
def test_M_B7_M_B17_a_leaving_that_is_refused_holds_nobody_up(protocol: str, api: str) -> None:
    for code in (ErrorCode(value) for value in sorted(TELLING)):
        with quiet(), Simulation(seed=1, latency_ms=(1, 20)) as sim:
            run = Run(sim, protocol)
            run.program.member.poll(POLL_S)
            run.break_it(api, code, FOR_EVER)
            begun_ms = sim.now_ms
            run.program.consumer.close()
        assert run.told == []
        assert sim.now_ms - begun_ms <= SETTINGS["request_timeout_ms"] + LATE_MS, code
