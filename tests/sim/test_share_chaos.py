"""Share groups under seeded trouble in virtual time: crashes, slow workers, releases, rejects and renewals, new leaders, lost answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chaos_plan import Plan
from chaos_verdict import quiet
from levada.consumer.share.acquired import Chunk
from levada.consumer.share.fetcher import ShareFetcher
from levada.consumer.share.leaders import Leader
from levada.errors import KafkaError
from share_chaos import ShareWorld, draw_share, run_share
from shrinking import shortest

SEEDS = 30
AT_ONCE = 15


def explained(plan: Plan, findings: list[str]) -> str:
    """Return the findings, and the shortest plan that has some too."""
    short = plan._replace(steps=shortest(plan.steps, lambda steps: bool(run_share(plan._replace(steps=steps)))))
    return "\n".join([*findings, f"{len(short.steps)} of its {len(plan.steps)} steps are enough:", str(short), *run_share(short)])


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_every_record_is_worked_off_or_archived_and_none_is_lost(first: int) -> None:
    with quiet():
        for seed in range(first, first + AT_ONCE):
            plan = draw_share(seed)
            if findings := run_share(plan):
                pytest.fail(explained(plan, findings), pytrace=False)


def forget_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not answered is not told."""
    monkeypatch.setattr(ShareFetcher, "_failed", lambda self, sent, error: None)


def send_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent stays pending."""
    monkeypatch.setattr(Leader, "take_pending", lambda self: list(self.pending))


def hand_out_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of a chunk begins one record early."""
    behind = Chunk.behind
    monkeypatch.setattr(Chunk, "behind", lambda self, offset: behind(self, offset - 1))


@pytest.mark.parametrize("break_it", [forget_outcomes, send_twice, hand_out_too_much], ids=lambda mutant: mutant.__name__)
def test_a_broken_member_is_found(break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    with quiet():
        for seed in range(SEEDS):
            try:
                found = run_share(draw_share(seed))
            except KafkaError as error:
                found = [str(error)]
            if found:
                return
    pytest.fail(f"not found in {SEEDS} runs")


def test_a_seed_always_gives_the_same_run() -> None:
    runs: list[Any] = []
    with quiet():
        for _ in range(2):
            worlds: list[ShareWorld] = []
            run_share(draw_share(7), worlds.append)
            runs.append((worlds[0].deliveries, worlds[0].accepted, worlds[0].sim.now_ms))
    assert runs[0] == runs[1]
