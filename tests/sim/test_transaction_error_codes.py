"""Every error code of every API that a transactional producer asks: once, three times, for ever (M-B7).

A program that does what the errors say writes a transaction and offsets under the fault, then another transaction without it. No call
hangs, nothing is lost or torn, and what may pass is tried again until it has passed. The codes that matter to an API run in every test
run; all others, which are treated alike, with `make test-faults`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos_plan import Plan, Step
from chaos_verdict import quiet
from chaos_world import World, run
from levada.error_codes import ErrorCode
from levada.testing.history import Report

FOR_EVER = 10_000
SETTINGS = {
    "transactional_id": "tx",
    "batch_size": 1000,
    "linger_ms": 0,
    "request_timeout_ms": 2000,
    "delivery_timeout_ms": 4000,
    "max_block_ms": 5000,
    "transaction_timeout_ms": 300_000,
    "buffer_memory": 1 << 20,
}
STEPS = (Step("begin"), Step("send", (0, 10)), Step("offsets", (5,)), Step("send", (1, 10)), Step("commit", (1,)))
APIS = ("Metadata", "FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
ASKED_BEFORE_4_0 = ("AddPartitionsToTxn", "AddOffsetsToTxn")
CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]

# Written down here a second time on purpose: what Java's table of KIP-1050 calls retriable for the APIs of transactions.
PASSES = {code for code in CODES if code.retriable} | {ErrorCode.CONCURRENT_TRANSACTIONS}
TELLING = {-1, 14, 16, 30, 31, 47, 48, 49, 51, 90, 120}
"""Codes that mean something about a transaction or its coordinator, one for each way to react."""


def cases() -> Iterator[object]:
    for api in APIS:
        for code in CODES:
            for times, shown in ((1, "once"), (3, "thrice"), (FOR_EVER, "for-ever")):
                marks = [] if code.value in TELLING and times != 3 else [pytest.mark.matrix]
                yield pytest.param(api, code, times, id=f"{api}-{code.name}-{shown}", marks=marks)


def under(api: str, code: ErrorCode, times: int) -> Report:
    plan = Plan(1, SETTINGS, STEPS, {"transaction_version": 0 if api in ASKED_BEFORE_4_0 else 2})

    def break_it(world: World) -> None:
        if api == "FindCoordinator":
            world.move_coordinator(1)
        for node in world.nodes.values():
            node.faults.fail_next(api, code, times)
        if api == "InitProducerId":
            world.take_over()

    with quiet():
        return run(plan, break_it)


@pytest.mark.parametrize(("api", "code", "times"), list(cases()))
def test_M_B7_every_error_code_of_a_transaction(api: str, code: ErrorCode, times: int) -> None:
    report = under(api, code, times)
    report.require_clean()
    # Metadata are asked for again whatever is wrong with them, and InitProducerId by a program that wants to write.
    passes = times != FOR_EVER and (code in PASSES or api == "Metadata")
    if passes or api == "InitProducerId":
        assert report.transactions == {"committed": 2}
    else:
        assert report.transactions["committed"] == 1, "the one that was written when nothing was broken any more"
