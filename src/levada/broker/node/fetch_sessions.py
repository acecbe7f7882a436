"""Fetch sessions, by which requests and responses contain only what has changed (KIP-227).

A full request (epoch 0) opens a session; incremental ones, whose epochs count up, continue it. A session belongs to no connection: its id
is enough to use it. An incremental response leaves out unchanged partitions: no records, no error, and the same high watermark and log
start offset as the client was last sent. The number of sessions is limited. When the limit is reached, a new session replaces one that was
not used for EVICTION_MS, or else a smaller one that was opened more than EVICTION_MS ago. Otherwise the client gets no session, and its
next request is a full one again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple, TypeAlias
from uuid import UUID

from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_ID = MAX_EPOCH = 2**31 - 1
EVICTION_MS = 120_000
USES_TOPIC_IDS = 13
_NOTHING_TOLD = -1


class RequestedPartition(NamedTuple):
    """A partition in a Fetch request. topic: the topic's name, "" if the request names topics by id."""

    topic: str
    topic_id: UUID
    request: FetchPartition


Answered: TypeAlias = tuple[RequestedPartition, PartitionData]
"""A partition and its part of the response."""

_Key: TypeAlias = tuple[str, UUID, int]


class _Cached:
    """A partition of a fetch session. high_watermark, log_start_offset: the last values that were sent to the client, -1 before the first
    ones. After an error the high watermark is -1.
    """

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: RequestedPartition) -> None:
        self.wanted = wanted
        self.high_watermark = _NOTHING_TOLD
        self.log_start_offset = _NOTHING_TOLD

    def is_news(self, data: PartitionData) -> bool:
        """Return whether the data has something to send: records, an error, a preferred read replica, or another high watermark or log
        start offset than was sent before.
        """
        known = (self.high_watermark, self.log_start_offset)
        has_content = bool(data.records) or data.error_code != ErrorCode.NONE or data.preferred_read_replica >= 0
        return has_content or known != (data.high_watermark, data.log_start_offset)

    def tell(self, data: PartitionData) -> None:
        """Remember the values that are sent to the client. After an error, the next answer for the partition is sent even if nothing has
        changed.
        """
        self.high_watermark = data.high_watermark if data.error_code == ErrorCode.NONE else _NOTHING_TOLD
        self.log_start_offset = data.log_start_offset


class FetchSession:
    """A fetch session (KIP-227). epoch: the epoch that its next request must have. by_id: whether its requests name topics by id."""

    def __init__(self, session_id: int, by_id: bool, now_ms: int) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = INITIAL_EPOCH + 1
        self.created_ms = self.used_ms = now_ms
        self._partitions: dict[_Key, _Cached] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def update(self, wanted: Iterable[RequestedPartition], forgotten: Iterable[_Key]) -> None:
        """Add or change the partitions that a request names, and remove the forgotten ones."""
        for key in forgotten:
            self._partitions.pop(key, None)
        for one in wanted:
            cached = self._partitions.setdefault(_key(one), _Cached(one))
            cached.wanted = one

    def wanted(self) -> list[RequestedPartition]:
        """Return the partitions to fetch, in order."""
        return [cached.wanted for cached in self._partitions.values()]

    def tell(self, answers: Iterable[Answered]) -> list[Answered]:
        """Return the answers that have something new for the client, and remember that it is sent. Partitions with records move behind all
        others, so that the others come first next time.
        """
        news = []
        for one, data in answers:
            cached = self._partitions.get(_key(one))
            if cached is not None and cached.is_news(data):
                cached.tell(data)
                news.append((one, data))
                if data.records:
                    self._partitions[_key(one)] = self._partitions.pop(_key(one))
        return news


class Context(NamedTuple):
    """The partitions that one Fetch request is about, and a function that selects the answers to send."""

    wanted: Sequence[RequestedPartition]
    respond: Callable[[Sequence[Answered], int], tuple[int, Sequence[Answered]]]
    """Called with all answers and the time; returns the session's id and the answers to send. Raises BrokerError for the whole response."""
    is_incremental: bool = False
    """Whether the request continues a session."""


class FetchSessions:
    """The fetch sessions of one node. slots: the maximum number of sessions. random: the source of session ids."""

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        """Remove all sessions."""
        self._sessions.clear()

    def context(self, request: FetchRequest, version: int, now_ms: int) -> Context:
        """Apply a request to its session. Epoch 0 closes the session that it names and prepares a new one, epoch -1 closes it; any other
        epoch continues it. A session that has no partitions left is closed.

        Raises BrokerError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        by_id = version >= USES_TOPIC_IDS
        wanted = [RequestedPartition(topic.topic, topic.topic_id, partition) for topic in request.topics for partition in topic.partitions]
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            if request.session_epoch == FINAL_EPOCH:
                return Context(wanted, _without_session)
            return Context(wanted, lambda answers, at_ms: (self._open(answers, by_id, at_ms), answers))
        session = self._find(request, by_id=by_id)
        session.update(wanted, _forgotten(request))
        if not session:
            del self._sessions[session.id]
            return Context((), _without_session)
        session.used_ms = now_ms
        session.epoch = expected = next_epoch(request.session_epoch)
        return Context(
            session.wanted(), lambda answers, at_ms: (session.id, _continue_session(session, expected, answers)), is_incremental=True
        )

    def _find(self, request: FetchRequest, *, by_id: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise BrokerError(f"no fetch session {request.session_id}", code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise _wrong_epoch(session, request.session_epoch)
        if session.by_id != by_id:
            raise BrokerError(
                f"fetch session {session.id} names topics {'by id' if session.by_id else 'by name'}",
                code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            )
        return session

    def _open(self, answers: Sequence[Answered], by_id: bool, now_ms: int) -> int:
        """Open a session with the partitions of a full response; return its id. Returns 0 if all slots are taken and no session may be
        evicted.
        """
        if not self._make_room(len(answers), now_ms):
            return NO_SESSION
        session_id = self._random.randint(1, MAX_ID)
        while session_id in self._sessions:
            session_id = self._random.randint(1, MAX_ID)
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now_ms)
        session.update((wanted for wanted, _ in answers), ())
        session.tell(answers)
        return session_id

    def _make_room(self, size: int, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        evictable = _stalest(self._sessions.values(), now_ms) or _smallest(self._sessions.values(), size, now_ms)
        if evictable is None:
            return False
        del self._sessions[evictable.id]
        return True


def _stalest(sessions: Iterable[FetchSession], now_ms: int) -> FetchSession | None:
    stale = [session for session in sessions if now_ms - session.used_ms > EVICTION_MS]
    return min(stale, key=lambda session: session.used_ms, default=None)


def _smallest(sessions: Iterable[FetchSession], size: int, now_ms: int) -> FetchSession | None:
    smaller = [session for session in sessions if now_ms - session.created_ms > EVICTION_MS and len(session) < size]
    return min(smaller, key=lambda session: (len(session), session.id), default=None)


def _without_session(answers: Sequence[Answered], now_ms: int) -> tuple[int, Sequence[Answered]]:
    return NO_SESSION, answers


def _continue_session(session: FetchSession, expected: int, answers: Sequence[Answered]) -> Sequence[Answered]:
    if session.epoch != expected:
        # Another request has continued the session while this one waited for records.
        raise _wrong_epoch(session, expected)
    return session.tell(answers)


def _wrong_epoch(session: FetchSession, epoch: int) -> BrokerError:
    return BrokerError(f"fetch session {session.id} is at epoch {session.epoch}, not {epoch}", code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)


def _forgotten(request: FetchRequest) -> Iterable[_Key]:
    return ((topic.topic, topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions)


def _key(wanted: RequestedPartition) -> _Key:
    return wanted.topic, wanted.topic_id, wanted.request.partition


def next_epoch(epoch: int) -> int:
    """Return the session epoch after this one. It is never 0, because epoch 0 requests a new session."""
    return 1 if epoch == MAX_EPOCH else epoch + 1
