"""The client's side of a fetch session with one broker (FetchSessionHandler in Java, KIP-227).

With a session a request names only the partitions that have changed: the broker remembers every partition and its offset. Both sides count
epochs, so each notices when the other has lost the session:

    (0, 0)        name everything, and open a session
    (id, 0)       name everything, and open a session in place of that one
    (id, n > 0)   name what is new or changed, and what to forget
    (id, -1)      close

The client trusts nothing: a response that does not fit the request ends the session, and the next request names everything again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from levada.error_codes import ErrorCode
from levada.types import TopicPartition

NO_SESSION = 0
FIRST_EPOCH = 0
CLOSING_EPOCH = -1
MAX_EPOCH = 2**31 - 1
NO_TOPIC_ID = UUID(int=0)


class FetchTarget(NamedTuple):
    """The fields of a Fetch request for one partition."""

    topic_id: UUID
    fetch_offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """The session fields of one Fetch request. to_forget: the partitions to remove from the session. by_id: whether topics are named by
    their ids.
    """

    session_id: int
    epoch: int
    to_send: Mapping[TopicPartition, FetchTarget]
    to_forget: Iterable[tuple[TopicPartition, UUID]]
    by_id: bool

    @property
    def is_full(self) -> bool:
        """Whether every partition is named, so that the response must name every one too."""
        return self.epoch == FIRST_EPOCH


class FetchSession:
    """The fetch session with one broker. Only one request at a time: call begin(), then answered() or failed()."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, FetchTarget] = {}
        self._names: dict[int, str] = {}
        """Topic names by the integers of their ids: hashing a UUID is a Python call."""
        self._by_id = False

    def needs_all(self, *, by_id: bool) -> bool:
        """Whether the next request must name every partition, so that begin() has to be called with all of them.

        by_id: whether it names topics by id.
        """
        return self.epoch == FIRST_EPOCH or by_id != self._by_id

    def begin(self, wanted: Mapping[TopicPartition, FetchTarget], *, by_id: bool) -> SessionRequest:
        """Return the contents of the next request for exactly these partitions. by_id: whether the request names topics by id."""
        if not self.needs_all(by_id=by_id):
            return self.go_on({**dict.fromkeys(self._known.keys() - wanted.keys()), **wanted})
        self.epoch = FIRST_EPOCH
        self._by_id = by_id
        self._known = dict(wanted)
        self._names = {target.topic_id.int: tp.topic for tp, target in wanted.items()}
        return SessionRequest(self.session_id, FIRST_EPOCH, self._known, (), by_id)

    def go_on(self, changes: Mapping[TopicPartition, FetchTarget | None]) -> SessionRequest:
        """Return the contents of the next request, as begin() does, but only from the partitions that may have changed. None removes a
        partition.
        """
        to_send: dict[TopicPartition, FetchTarget] = {}
        to_forget: list[tuple[TopicPartition, UUID]] = []
        for tp, target in changes.items():
            was = self._known.pop(tp, None)
            if was is not None and _is_gone(was, target):
                to_forget.append((tp, was.topic_id))
            if target is not None:
                self._known[tp] = target
                self._names[target.topic_id.int] = tp.topic
                if target != was:
                    to_send[tp] = target
        return SessionRequest(self.session_id, self.epoch, to_send, to_forget, self._by_id)

    def topic_name(self, topic_id: UUID) -> str:
        """Return the name of a topic that was requested by its id; "" if it was not requested."""
        return self._names.get(topic_id.int, "")

    @property
    def known(self) -> Mapping[TopicPartition, FetchTarget]:
        """The target that was last sent for each partition of the session, which the broker remembers."""
        return self._known

    def answered(self, answered: Iterable[TopicPartition | None], session_id: int, *, was_full: bool, throttled: bool) -> str:
        """Handle a response without an error; return the reason why it is invalid, or "" if it is valid.

        answered: the partitions in the response; None stands for one that was not requested. was_full: whether the request named every
        partition. throttled: whether the broker has delayed the response because of a quota.
        """
        partitions = set(answered)
        if was_full:
            return self._full_answer(partitions, session_id, throttled=throttled)
        if not partitions <= self._known.keys():
            self._start_over(self.session_id)
            return "the answer names partitions that are not in the session"
        if session_id == NO_SESSION:
            self._start_over(NO_SESSION)
        else:
            self.epoch = next_epoch(self.epoch)
        return ""

    def failed(self, code: ErrorCode | None) -> None:
        """Handle a request that has failed as a whole. code: the error of the response; None without a response."""
        self._start_over(NO_SESSION if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self.session_id)

    def _full_answer(self, partitions: set[TopicPartition | None], session_id: int, *, throttled: bool) -> str:
        if partitions != self._known.keys():
            self._start_over(NO_SESSION)
            # A broker that throttles may send an empty response without a session.
            return "" if throttled and not partitions else "the answer to a full request does not name the partitions asked for"
        self.session_id = session_id
        self.epoch = next_epoch(FIRST_EPOCH) if session_id != NO_SESSION else FIRST_EPOCH
        return ""

    def _start_over(self, session_id: int) -> None:
        self.session_id = session_id
        self.epoch = FIRST_EPOCH


def next_epoch(epoch: int) -> int:
    """Return the session epoch after this one. After 2^31-1 comes 1, because 0 opens a session."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


def _is_gone(was: FetchTarget, now: FetchTarget | None) -> bool:
    # A topic that was deleted and created again is another topic: forget the old id, send the new one.
    return now is None or (now.topic_id is not was.topic_id and now.topic_id != was.topic_id and was.topic_id != NO_TOPIC_ID)
