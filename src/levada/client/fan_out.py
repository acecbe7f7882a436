"""One question about many subjects, of which different nodes know different ones.

The subjects are grouped by who is to be asked, all are asked at once, and what could not be answered now is asked again after a pause, of
whoever is to be asked by then: until everything is answered or failed, or the flow's time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from levada.client.connection_key import Peer
from levada.client.retry import Retries
from levada.errors import KafkaError
from levada.flow import Flow, Wait
from levada.promise import Promise

K = TypeVar("K")
V = TypeVar("V")

Spawn: TypeAlias = Callable[[Flow[Any]], Promise[Any]]
"""Starts a flow beside the running one."""


@dataclass(slots=True)
class Answer(Generic[K, V]):
    """What one node said: what was found, why the others are to be asked again, and errors to raise.

    refresh: whether asking again needs fresh metadata first.
    """

    found: dict[K, V] = field(default_factory=dict)
    again: dict[K, str] = field(default_factory=dict)
    errors: dict[K, KafkaError] = field(default_factory=dict)
    refresh: bool = True

    @classmethod
    def missing(cls, wanted: Iterable[K], reason: str) -> Answer[K, V]:
        """Return the answer that says nothing of any of these subjects, for one reason."""
        return cls(again=dict.fromkeys(wanted, reason))


class FanOut(Generic[K, V]):
    """See the module's theory.

    spawn: starts a flow for each of them, so that all are asked at once; None asks one after the other.
    route: who is to be asked about a subject, now; a reason in words when that is not known. It may raise what time cannot mend.
    ask: asks one of them. found and errors grow as answers come; reasons says why what is left is not answered yet.
    """

    def __init__(
        self,
        retries: Retries,
        spawn: Spawn | None,
        *,
        route: Callable[[K], Peer | str | None],
        ask: Callable[[Peer | None, list[K]], Flow[Answer[K, V]]],
    ) -> None:
        self.found: dict[K, V] = {}
        self.errors: dict[K, KafkaError] = {}
        self.reasons: dict[K, str] = {}
        self._retries = retries
        self._spawn = spawn
        self._route = route
        self._ask = ask

    def run(self, wanted: Collection[K], *, stop_at_error: bool = False) -> Flow[None]:
        """Ask until nothing is left. stop_at_error: or until something failed."""
        self.reasons = dict.fromkeys(wanted, "not asked yet")
        while True:
            refresh = yield from self._ask_all(list(self.reasons))
            if not self.reasons or (stop_at_error and self.errors):
                return
            yield from self._retries.pause(refresh=refresh)

    def _ask_all(self, wanted: list[K]) -> Flow[bool]:
        """Ask everybody once; return whether to refresh metadata before asking again."""
        groups, reasons = self._grouped(wanted)
        refresh = bool(reasons)
        answers: list[Answer[K, V]] = []
        if self._spawn is None:
            for peer, subjects in groups.items():
                answers.append((yield from self._ask(peer, subjects)))
        else:
            for promise in [self._spawn(self._ask(peer, subjects)) for peer, subjects in groups.items()]:
                answers.append((yield Wait(promise)))
        for answer in answers:
            self.found.update(answer.found)
            self.errors.update(answer.errors)
            reasons.update(answer.again)
            refresh = refresh or (answer.refresh and bool(answer.again))
        self.reasons = reasons  # Only now: a flow whose time is over meanwhile can still tell why it had to ask again.
        return refresh

    def _grouped(self, wanted: list[K]) -> tuple[dict[Peer | None, list[K]], dict[K, str]]:
        groups: dict[Peer | None, list[K]] = {}
        unknown: dict[K, str] = {}
        for subject in wanted:
            peer = self._route(subject)
            if isinstance(peer, str):
                unknown[subject] = peer
            else:
                groups.setdefault(peer, []).append(subject)
        return groups, unknown
