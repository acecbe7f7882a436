"""What is explored, and which mutant shows what each rule is there for."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from .coordinator import INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, PRODUCER_FENCED, Brokers
from .sink import Policy
from .spark import Query
from .world import WRONG, Variant, Verdict

INLINE = Query()
TURNS = Query(sizes=(1, 1, 1, 1), processes=2)
SLOTS = Query(slots=(True, True))
LATE = Query(sizes=(0, 2, 0, 1))
GAP = Query(sizes=(2, 0, 2), slots=(True, True))
MIXED = Query(slots=(False, True))
BOTH = (Brokers.TV1, Brokers.TV2)
RIGHT = frozenset({Verdict.OK, Verdict.HELD})
NAMED = RIGHT | {Verdict.REFUSED}
UNDECIDED = RIGHT | {Verdict.UNDECIDABLE}
ANY_ERROR = Policy(lost_by=frozenset({INVALID_TXN_STATE, PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING}))
STRICT = Policy()
SKIPPING = Policy(other_rows="skip")
BY_ANSWERS = frozenset({"outcome"})


class Expected(NamedTuple):
    """A variant, and the verdicts that it may come to."""

    variant: Variant
    verdicts: frozenset[Verdict]
    brokers: tuple[Brokers, ...] = BOTH


VARIANTS = (
    Expected(Variant("inline"), RIGHT),
    Expected(Variant("inline, two processes in turn", TURNS), RIGHT),
    Expected(Variant("inline, brokers that do not verify"), RIGHT | {Verdict.BLOCKED}, (Brokers.UNVERIFIED,)),
    Expected(Variant("inline, other values each time", Query(varies="values")), NAMED),
    Expected(Variant("inline, other values, onOtherRows=skip", Query(varies="values"), policy=SKIPPING), RIGHT),
    Expected(Variant("inline, an empty batch", Query(sizes=(2, 0, 1))), RIGHT),
    Expected(Variant("inline, empty first batches", LATE), RIGHT),
    Expected(Variant("inline, empty first batches, checkpoint copied or restored", LATE, faults=frozenset({"copy", "restore"})), NAMED),
    Expected(Variant("inline, empty first batches, ledger lost", LATE, faults=frozenset({"ledger lost"})), NAMED | {Verdict.DUPLICATE}),
    Expected(Variant("inline, checkpoint copied or restored", faults=frozenset({"copy", "restore"})), NAMED),
    Expected(Variant("inline, new checkpoint", faults=frozenset({"new checkpoint"})), NAMED),
    Expected(Variant("inline, ledger lost", faults=frozenset({"ledger lost"})), NAMED | {Verdict.DUPLICATE}),
    Expected(
        Variant("inline, ledger lost, onMissingLedger=warn", faults=frozenset({"ledger lost"}), policy=Policy(missing="warn")),
        NAMED | {Verdict.DUPLICATE},
    ),
    Expected(Variant("inline, two writes", Query(sizes=(2, 2), writes=2)), NAMED),
    Expected(Variant("inline, two equal writes", Query(sizes=(2, 2), writes=2, equal_writes=True)), NAMED),
    Expected(Variant("slots", SLOTS), RIGHT),
    Expected(Variant("slots, an empty batch", GAP), RIGHT),
    Expected(Variant("slots, an empty batch, checkpoint copied", GAP, faults=frozenset({"copy"})), UNDECIDED | {Verdict.REFUSED}),
    Expected(Variant("slots, empty first batches", Query(sizes=(0, 2, 0, 2), slots=(True, True))), RIGHT),
    Expected(Variant("slots, other division each time", Query(slots=(True, True), varies="division")), UNDECIDED | {Verdict.REFUSED}),
    Expected(Variant("slots, the same, finished promptly", Query(slots=(True, True), varies="division"), prompt=True), RIGHT),
    Expected(Variant("slots, lost by INVALID_TXN_STATE only", SLOTS, without=BY_ANSWERS), UNDECIDED | {Verdict.REFUSED}),
    Expected(Variant("slots, ids expire", SLOTS, faults=frozenset({"expiry"})), RIGHT),
    Expected(Variant("mixed", MIXED), RIGHT),
    Expected(Variant("mixed, two processes in turn", Query(sizes=(2, 2, 2, 1), slots=(False, True), processes=2)), RIGHT),
    Expected(Variant("mixed, other tasks each time", Query(slots=(False, True), swaps=True)), RIGHT),
    Expected(
        Variant("mixed, other values, the operator skips", Query(slots=(False, True), varies="values"), operator_skips=True),
        UNDECIDED | {Verdict.REFUSED},
    ),
)


class Mutant(NamedTuple):
    """The protocol without a rule.

    finds: verdicts that never come with the rule, one of which must come. first: the number of the first walk, where it takes thousands.
    """

    rule: str
    variant: Variant
    finds: frozenset[Verdict] = WRONG
    brokers: tuple[Brokers, ...] = BOTH
    first: int = 0

    @property
    def whole(self) -> Variant:
        """The same with the rule."""
        return replace(self.variant, without=self.variant.without - {self.rule})


def _mutant(
    rule: str,
    query: Query = INLINE,
    only: str = "",
    *,
    faults: str = "",
    finds: frozenset[Verdict] = WRONG,
    policy: Policy = STRICT,
    also: tuple[str, ...] = (),
    prompt: bool = False,
    brokers: tuple[Brokers, ...] = BOTH,
    first: int = 0,
) -> Mutant:
    variant = Variant(
        f"without: {rule}",
        query,
        frozenset({rule, *also}),
        policy,
        frozenset({faults} if faults else ()),
        only=frozenset(only.split()),
        prompt=prompt,
    )
    return Mutant(rule, variant, finds, brokers, first)


UNFINISHED = frozenset({Verdict.UNDECIDABLE, Verdict.BLOCKED})
FIRST_EMPTY = Query(sizes=(0, 2))
REUSED = Query(sizes=(1, 0, 1), slots=(True,))
BEHIND = Query(sizes=(1, 0, 2), slots=(True,))
ONE_TASK = Query(sizes=(1, 1), slots=(True,), varies="values")
DIVIDED = Query(slots=(True, True), varies="division")

MUTANTS = (
    _mutant("ledger"),
    _mutant("one transaction"),
    _mutant("initialize first"),
    _mutant("fenced raises"),
    _mutant("unknown is asked again", INLINE, "delayed crash"),
    _mutant("initialize after a lost request", INLINE, "delayed late", brokers=(Brokers.TV1,)),
    _mutant("initialize as the present producer", SLOTS, "unanswered pause switch", brokers=(Brokers.TV1,)),
    _mutant("own batch", Query(sizes=(2,), writes=2), policy=SKIPPING),
    _mutant("own run", Query(sizes=(2,), writes=2, processes=2), policy=SKIPPING),
    _mutant("claim", Query(sizes=(2,), writes=2, equal_writes=True)),
    _mutant("digests", INLINE, faults="copy"),
    _mutant("ahead", INLINE, faults="restore"),
    _mutant("query", INLINE, faults="new checkpoint", policy=SKIPPING),
    _mutant("missing", FIRST_EMPTY, "crash crash-after forget", faults="ledger lost"),
    _mutant("first entry", FIRST_EMPTY, finds=frozenset({Verdict.REFUSED})),
    _mutant("describe", DIVIDED, finds=UNFINISHED, prompt=True),
    _mutant("end after the decision", SLOTS),
    _mutant("slots of the ledger", SLOTS),
    _mutant("ids of the run", DIVIDED, finds=UNFINISHED, prompt=True),
    _mutant("parity", SLOTS, "pause switch timeout crash", policy=ANY_ERROR, also=("outcome", "finished")),
    _mutant("abort looks", DIVIDED, "delayed unanswered", finds=UNFINISHED, prompt=True),
    _mutant("stable", DIVIDED, "delayed unanswered", finds=UNFINISHED, prompt=True),
    _mutant("outcome", SLOTS, policy=ANY_ERROR),
    _mutant("one slot", BEHIND, "pause switch", brokers=(Brokers.TV1,)),
    _mutant("outcome first", BEHIND, "pause switch delayed late", brokers=(Brokers.TV1,), also=("one slot",)),
    _mutant("finished", REUSED, "pause switch delayed late", also=("outcome first",)),
    _mutant("end as written", SLOTS, "crash crash-after", policy=ANY_ERROR, also=("outcome",), brokers=(Brokers.TV2,)),
    _mutant("same division", DIVIDED),
    _mutant("inline once", MIXED),
    _mutant("clean afterwards", ONE_TASK, "pause switch", finds=UNFINISHED, policy=SKIPPING, prompt=True),
    _mutant("listed before", ONE_TASK, "pause switch", finds=UNFINISHED, policy=SKIPPING, prompt=True),
    _mutant(
        "repeated only",
        ONE_TASK,
        "pause switch crash",
        finds=UNFINISHED,
        policy=SKIPPING,
        prompt=True,
        brokers=(Brokers.TV2,),
        first=5_000,
    ),
)
