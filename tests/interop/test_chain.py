"""A chain of three groups that read, transform and write in transactions, whose processes are killed: exactly once, in order per key.

Here in short on the embedded broker; tests/faults/test_chain.py has the long form, on real nodes that are killed, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from chain import MARK, PARTITIONS, STAGES, End, Processes, topic, verdict, write

RECORDS, KEYS = 3_000, 20
DEADLINE_S = 60


def test_M_A30_a_chain_of_groups_whose_members_are_killed_is_exactly_once(embedded: Any, new_topic: Callable[..., str]) -> None:
    prefix = new_topic(embedded)
    for stage, partitions in enumerate((*PARTITIONS, PARTITIONS[0])):
        embedded.create_topic(topic(prefix, stage), partitions=partitions)
    servers = embedded.bootstrap_servers
    per_key = write(servers, prefix, RECORDS, KEYS)
    end, deadline = End(servers, prefix), time.monotonic() + DEADLINE_S
    with Processes(servers, prefix, count=2) as processes:
        while end.count < RECORDS and time.monotonic() < deadline:
            if end.read(0.1) and processes.killed < 2:
                processes.kill_one()
            processes.look()
    while end.read(0.3):
        pass
    outcome = verdict(end.close(), per_key)
    assert outcome.wrong == []
    assert outcome.records == RECORDS
    assert processes.killed == 2


RIGHT = [(b"a", b"0" + MARK * STAGES), (b"a", b"1" + MARK * STAGES)]


@pytest.mark.parametrize(
    ("records", "told"),
    [
        (RIGHT, []),
        (RIGHT[:1], ["b'a': 1 of 2 missing, the first 1; 0 there twice"]),
        ([*RIGHT, RIGHT[1]], ["b'a': 0 of 2 missing, the first None; 1 there twice"]),
        (RIGHT[::-1], ["b'a': all there, in another order"]),
        ([RIGHT[0], (b"a", b"1+")], ["b'1+' of b'a' did not go through every stage once"]),
        ([], ["b'a': 2 of 2 missing, the first 0; 0 there twice"]),
    ],
)
def test_the_verdict_on_a_chain(records: list[tuple[bytes, bytes]], told: list[str]) -> None:
    assert verdict(records, {b"a": 2}).wrong == told
