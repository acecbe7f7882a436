"""One question about many subjects, of which different nodes know different ones.

The subjects are grouped by the node that knows them, and all nodes are asked at once. What a node cannot answer now is asked again after
a pause, of the node that knows it then, without waiting for the other nodes: one that does not answer delays its own subjects only. It
ends when everything is answered, has failed or is not wanted any more, or when the flow's time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from levada.base.flow import Destination, Flow, Wait
from levada.base.promise import Promise
from levada.client.network.connection_key import Peer
from levada.client.requests.retry import Retries
from levada.errors import KafkaError

Whom: TypeAlias = Peer | Destination | None
"""Who is asked: a connection, a destination that is found when the call is made, or any node."""

MOST_NOTES = 20
"""Of an error that is one of many, so that it can still be seen in a log."""

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Spawn(Protocol):
    """Runs flows beside the one that starts them (client.flow_runner.FlowsBeside)."""

    def start(self, flow: Flow[T]) -> Promise[T]:
        """Start a flow."""
        ...

    def cancel(self, promise: Promise[Any]) -> None:
        """End the flow of a promise; nothing happens when it has ended."""
        ...


@dataclass(slots=True)
class Answer(Generic[K, V]):
    """What one node said: what was found, why the others are to be asked again, and errors to raise. What it does not name is settled.

    located: subjects of which it is known now who is to be asked, so without a pause. refresh: whether to ask again takes fresh metadata.
    """

    found: dict[K, V] = field(default_factory=dict)
    again: dict[K, str] = field(default_factory=dict)
    errors: dict[K, KafkaError] = field(default_factory=dict)
    located: list[K] = field(default_factory=list)
    refresh: bool = True

    @classmethod
    def missing(cls, wanted: Iterable[K], reason: str) -> Answer[K, V]:
        """Return the answer that says nothing of any of these subjects, for one reason."""
        return cls(again=dict.fromkeys(wanted, reason))


class _Left(NamedTuple, Generic[K]):
    """What is to be asked next, and how many attempts there were before."""

    subjects: list[K]
    attempts: int


def _always(subject: object) -> bool:
    return True


class FanOut(Generic[K, V]):
    """See the module's theory.

    spawn: starts a flow for each of them, so that all are asked at once; None asks one after the other.
    route: who is to be asked about a subject, now; a reason in words when that is not known. It may raise what time cannot mend.
    ask: asks one of them. still_wanted: whether a subject that is about to be asked about still matters.
    found and errors grow as answers come; reasons says why what is left is not answered yet.
    """

    def __init__(
        self,
        retries: Retries,
        spawn: Spawn | None,
        *,
        route: Callable[[K], Whom | str],
        ask: Callable[[Whom, list[K]], Flow[Answer[K, V]]],
        still_wanted: Callable[[K], bool] = _always,
    ) -> None:
        self.found: dict[K, V] = {}
        self.errors: dict[K, KafkaError] = {}
        self.reasons: dict[K, str] = {}
        self._retries = retries
        self._spawn = spawn
        self._route = route
        self._ask = ask
        self._still_wanted = still_wanted
        self._stop_at_error = False
        self._next: list[Flow[_Left[K]]] = []

    def run(self, wanted: Collection[K], *, stop_at_error: bool = False) -> Flow[None]:
        """Ask until nothing is left. stop_at_error: or until something failed.

        When it ends, also by an error, no request of it is under way any more.
        """
        self.reasons = dict.fromkeys(wanted, "not asked yet")
        self._stop_at_error = stop_at_error
        self._next = self._turns(_Left(list(wanted), 0))
        turns: dict[Promise[_Left[K]], None] = {}
        # To look at all turns each time that one ends would take minutes for ten thousand.
        over: list[Promise[_Left[K]]] = []
        some_over: Promise[None] = Promise()

        def end(promise: Promise[_Left[K]]) -> None:
            over.append(promise)
            some_over.resolve(None)

        try:
            while not self._stops:
                while self._next:
                    turn = yield from self._begin(self._next.pop(0))
                    turns[turn] = None
                    turn.on_done(end)
                if not turns:
                    return
                if not over:
                    yield Wait(some_over)
                ended, over, some_over = over, [], Promise()
                self._next += self._turns(_joined([promise.result() for promise in ended]))
                for promise in ended:
                    del turns[promise]
        finally:
            self._cancel(turns)

    def _cancel(self, turns: Iterable[Promise[Any]]) -> None:
        if self._spawn is not None:
            for promise in turns:
                self._spawn.cancel(promise)

    @property
    def _stops(self) -> bool:
        return self._stop_at_error and bool(self.errors)

    def _begin(self, turn: Flow[_Left[K]]) -> Flow[Promise[_Left[K]]]:
        return Promise.resolved((yield from turn)) if self._spawn is None else self._spawn.start(turn)

    def _turns(self, left: _Left[K]) -> list[Flow[_Left[K]]]:
        """Return a flow for each node to be asked, and one that waits for those of which it is not known who that is."""
        groups: dict[Whom, list[K]] = {}
        unknown: dict[K, str] = {}
        for subject in left.subjects:
            if not self._still_wanted(subject):
                del self.reasons[subject]
            elif isinstance(peer := self._route(subject), str):
                unknown[subject] = peer
            else:
                groups.setdefault(peer, []).append(subject)
        self.reasons.update(unknown)
        turns = [self._turn(peer, subjects, left.attempts) for peer, subjects in groups.items()]
        return [*turns, self._when_known(list(unknown), left.attempts)] if unknown else turns

    def _when_known(self, subjects: list[K], attempts: int) -> Flow[_Left[K]]:
        """Wait for news of who knows these subjects; a pause on top would hold up a client that has just begun."""
        yield Wait(self._retries.metadata.refreshed())
        return _Left(subjects, attempts + 1)

    def _turn(self, peer: Whom, subjects: list[K], attempts: int) -> Flow[_Left[K]]:
        """Ask one node; return what is to be asked at once. What is to be asked again has its pause beside that."""
        answer = yield from self._ask(peer, subjects)
        # A broken broker may name what it was not asked about: it is not asked about that.
        asked = set(subjects)
        again = {subject: reason for subject, reason in answer.again.items() if subject in asked}
        for subject in asked.difference(again, answer.located):
            self.reasons.pop(subject, None)
        self.found.update(answer.found)
        self.errors.update(answer.errors)
        self.reasons.update(again)
        if again:
            self._next.append(self._pause(list(again), attempts, refresh=answer.refresh))
        return _Left([subject for subject in answer.located if subject in asked], attempts)

    def _pause(self, subjects: list[K], attempts: int, *, refresh: bool) -> Flow[_Left[K]]:
        """Return what is left when it is time to ask again."""
        yield from self._retries.pause(attempts, refresh=refresh)
        return _Left(subjects, attempts + 1)


def _joined(parts: Collection[_Left[K]]) -> _Left[K]:
    """Ask together what is to be asked at the same time."""
    return _Left([subject for part in parts for subject in part.subjects], max(part.attempts for part in parts))


def raise_first(doing: Callable[[K], str], subjects: Iterable[K], errors: Mapping[K, KafkaError], found: Mapping[K, Any]) -> None:
    """Raise the first error in the order of the subjects, if there is one, with the outcomes and results of all.

    doing: names what was done to one. found: what is known of those without an error. Notes of the error tell of the first others.
    """
    outcomes = {subject: errors.get(subject) for subject in subjects}
    failed = [subject for subject, error in outcomes.items() if error is not None]
    if not failed:
        return
    first, error = failed[0], errors[failed[0]]
    error.outcomes = outcomes
    error.results = {subject: found.get(subject) for subject, refused in outcomes.items() if refused is None}
    others = [(subject, other) for subject, other in outcomes.items() if subject != first]
    for subject, other in others[:MOST_NOTES]:
        error.add_note(str(other) if other is not None else f"{doing(subject)}: ok")
    if len(others) > MOST_NOTES:
        error.add_note(f"{len(others) - MOST_NOTES} more are in the error's outcomes; {len(failed)} of {len(outcomes)} have failed")
    raise error
