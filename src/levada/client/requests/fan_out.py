"""One operation on many keys (topics, partitions, groups, ...) that different nodes have to be asked about.

The keys are grouped by node, and all nodes are asked at once. Keys with a retriable error are asked about again after a pause, at the node
that has them then, without waiting for the other nodes: a node that does not answer delays only its own keys. The operation ends when every
key has a result or an error or is not wanted any more, when a key has failed (only with stop_at_error), or when the flow's time is over.
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
"""Where a group of keys is sent: a connection, a destination that is resolved when the request is sent, or any node."""

MOST_NOTES = 20
"""How many notes an error gets that is one of many, so that it can still be read in a log."""

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Spawn(Protocol):
    """Runs flows in parallel to the one that starts them (FlowsBeside)."""

    def start(self, flow: Flow[T]) -> Promise[T]:
        """Start a flow with the next poll."""
        ...

    def cancel(self, promise: Promise[Any]) -> None:
        """End the flow of a promise; no effect when it has ended."""
        ...


@dataclass(slots=True)
class Answer(Generic[K, V]):
    """The result of one request about several keys: values that were found, reasons to ask again about a key, and errors to raise.

    Keys in none of these are settled without a value. located: keys whose node is known now, so that they are asked about again without a
    pause. refresh: whether the next attempt needs fresh metadata.
    """

    found: dict[K, V] = field(default_factory=dict)
    again: dict[K, str] = field(default_factory=dict)
    errors: dict[K, KafkaError] = field(default_factory=dict)
    located: list[K] = field(default_factory=list)
    refresh: bool = True

    @classmethod
    def missing(cls, wanted: Iterable[K], reason: str) -> Answer[K, V]:
        """Return an answer that has, for each of these keys, the same reason to ask again."""
        return cls(again=dict.fromkeys(wanted, reason))


class _Left(NamedTuple, Generic[K]):
    """Keys to ask about next. attempts: the number of attempts before."""

    subjects: list[K]
    attempts: int


def _always(subject: object) -> bool:
    return True


class FanOut(Generic[K, V]):
    """An operation on many keys, whose requests go to several nodes.

    spawn: starts a flow for each node, so that all nodes are asked at once; None asks one after the other. route: returns the present
    destination for a key, or a text why it is not known; it may raise an error that is not retriable. ask: asks one destination.
    still_wanted: returns whether the operation still needs a key that is about to be asked about. found, errors: the results so far.
    reasons: why each remaining key has no result yet.
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
        """Send requests until every key is settled. stop_at_error: whether to stop when one key has failed.

        When this flow ends, also with an error, none of its requests is in flight any more.
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
        """Return one flow for each destination, and one that waits for the keys whose destination is not known."""
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
        """Wait for a metadata update that may name the node for these keys; return the keys. An extra pause would delay a client that has
        just started.
        """
        yield Wait(self._retries.metadata.refreshed())
        return _Left(subjects, attempts + 1)

    def _turn(self, peer: Whom, subjects: list[K], attempts: int) -> Flow[_Left[K]]:
        """Send the request about these keys to one destination.

        Return the keys whose node the response names: they are asked about again without a pause. For keys with a retriable error, a flow
        that asks again after a pause is added to `_next`.
        """
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
        """Wait until it is time to ask about these keys again, and return them. refresh: whether to wait for fresh metadata, too."""
        yield from self._retries.pause(attempts, refresh=refresh)
        return _Left(subjects, attempts + 1)


def _joined(parts: Collection[_Left[K]]) -> _Left[K]:
    """Combine groups of keys that are to be asked about at the same time into one group."""
    return _Left([subject for part in parts for subject in part.subjects], max(part.attempts for part in parts))


def raise_first(doing: Callable[[K], str], subjects: Iterable[K], errors: Mapping[K, KafkaError], found: Mapping[K, Any]) -> None:
    """If keys have failed, raise the error of the first one, with the outcomes and results of all keys.

    doing: describes for a key what was done. found: the values of keys without an error. Notes of the error name other errors.
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
