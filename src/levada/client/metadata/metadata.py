"""What a client knows of its cluster, which topics it wants to know of, and when to ask again. As Java's Metadata.

An update is due when somebody requested one (a full update), when a topic was added (a partial update for the new topics is enough), or
when the last one is older than metadata.max.age.ms. It is held back by the back-off after a failed update, or after updates that brought
nothing new; a new topic overrides the back-off, so that a first send() does not wait. `version` counts the updates. A caller that needs a
newer one remembers the version and awaits a higher one; failed updates do not end that wait.

MetadataUpdater sends the requests; this class only decides and remembers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import NamedTuple

from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.promise import Promise
from levada.client.driver_interface import Ended
from levada.client.metadata.metadata_update import apply_response, with_leader
from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.client.metadata.topic_queries import (
    FIRST_VERSION_WITH_NULL_FOR_ALL,
    FIRST_VERSION_WITHOUT_CREATION,
    request_for,
    request_for_all,
)
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse
from levada.types import NO_LEADER_EPOCH, Node, TopicPartition


class MetadataQuery(NamedTuple):
    """A metadata request to send.

    topics: the requested topics; None for all. partial: whether the other topics of the snapshot stay. min_version: the oldest version that
    supports the request.
    """

    request: MetadataRequest
    topics: frozenset[str] | None
    partial: bool
    min_version: int


class Metadata:
    """The metadata of the cluster. It is used under the engine's lock, except `snapshot`, which any thread may read."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        random: Random,
        *,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        max_age_ms: int,
        max_idle_ms: int,
        allow_auto_create_topics: bool,
    ) -> None:
        self.snapshot = ClusterSnapshot.bootstrap(bootstrap)
        self.version = 0
        self._bootstrap = bootstrap
        self._backoff = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms, random)
        self._max_age_ms = max_age_ms
        self._max_idle_ms = max_idle_ms
        self._allow_auto_create_topics = allow_auto_create_topics
        self._expires: dict[str, int] = {}
        self._transient: set[str] = set()
        self._new: set[str] = set()
        self._all_topics = False
        self._epochs: dict[TopicPartition, int] = {}
        self._need_full = True
        self._age_ends_ms = 0
        self._allowed_ms = 0
        self._failed_attempts = 0
        self._equivalent = 0
        self._waiters: dict[int, Promise[None]] = {}
        self._fatal: BaseException | None = None
        self._ended: Ended | None = None

    # What is wanted

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose metadata is requested, including transient ones."""
        return frozenset(self._expires) | self._transient

    @property
    def asks_for_all(self) -> bool:
        """Whether metadata of all topics is requested, so that a topic which the snapshot does not have does not exist."""
        return self._all_topics

    def add_topic(self, topic: str, now_ms: int) -> bool:
        """Request the metadata of a topic that a producer uses. Return whether the topic is new.

        The topic is dropped if it is not added again within metadata.max.idle.ms.
        """
        is_new = topic not in self._expires
        if is_new:
            self._ask_for({topic}, now_ms)
        self._expires[topic] = now_ms + self._max_idle_ms
        return is_new

    def set_topics(self, topics: Collection[str] | None, now_ms: int) -> None:
        """Request metadata of exactly these topics of a consumer; None for all topics of the cluster. These topics do not expire."""
        self._all_topics = topics is None
        wanted = frozenset(topics or ())
        if topics is None:
            self._need_full = True
        self._ask_for(wanted - self._expires.keys(), now_ms)
        self._expires = dict.fromkeys(wanted, NEVER_MS)
        self._new &= self.topics

    def add_transient_topics(self, topics: Iterable[str], now_ms: int) -> None:
        """Request metadata of additional topics until clear_transient_topics(), for calls such as partitions_for()."""
        added = set(topics)
        self._ask_for(added - self.topics, now_ms)
        self._transient |= added

    def clear_transient_topics(self) -> None:
        """Forget the transient topics. The next update drops them from the snapshot, unless they are requested for another reason."""
        self._transient.clear()
        self._new &= self.topics

    def _ask_for(self, topics: Collection[str], now_ms: int) -> None:
        if topics:
            self._new.update(topics)
            self._allowed_ms = min(self._allowed_ms, now_ms)

    # When to ask

    def request_update(self, now_ms: int | None = None) -> int:
        """Request a full update; return the present version, to pass to await_update().

        now_ms: given by a caller that has evidence of a change in the cluster. It ends the back-off after updates that brought nothing new.
        """
        self._need_full = True
        if now_ms is not None and not self._failed_attempts:
            self._equivalent = 0
            self._allowed_ms = min(self._allowed_ms, now_ms + self._backoff.delay_ms(0))
        return self.version

    def refreshed(self) -> Promise[None]:
        """Request a full update; return a promise that resolves with the next update. The usual pauses between updates apply."""
        return self.await_update(self.request_update())

    def await_update(self, version: int) -> Promise[None]:
        """Return a promise that resolves when the metadata version is higher than this one.

        It is rejected with the error of fail(), perhaps from an earlier call for which no caller waited, or when the client has ended. All
        callers that wait for the same version share a promise, so that callers that stop waiting leave nothing behind.
        """
        promise: Promise[None] = Promise()
        if self._fatal is not None:
            fatal, self._fatal = self._fatal, None
            promise.reject(fatal)
        elif self._ended is not None:
            promise.reject(self._ended("a wait for metadata"))
        elif self.version > version:
            promise.resolve(None)
        else:
            promise = self._waiters.setdefault(version, promise)
        return promise

    def may_ask(self, now_ms: int) -> bool:
        """Whether a request may be sent now, that is, no back-off is running."""
        return now_ms >= self._allowed_ms

    def due_at_ms(self, now_ms: int) -> int:
        """Return the time, in ms, at which to send the next request. If a request is due, it is not later than now."""
        wanted_ms = now_ms if self._need_full or self._new else self._age_ends_ms
        return max(wanted_ms, self._allowed_ms)

    def query(self, now_ms: int) -> MetadataQuery:
        """Return the request to send now. It names only the new topics, unless a full update is due."""
        partial = bool(self._new) and not self._need_full and now_ms < self._age_ends_ms and not self._all_topics
        topics = None if self._all_topics else frozenset(self._new) if partial else self.topics
        may_create = self._allow_auto_create_topics or not topics
        request = request_for_all(FIRST_VERSION_WITH_NULL_FOR_ALL) if topics is None else request_for(sorted(topics), may_create=may_create)
        return MetadataQuery(request, topics, partial, 0 if may_create else FIRST_VERSION_WITHOUT_CREATION)

    # What came of it

    def update(self, query: MetadataQuery, response: MetadataResponse, version: int, now_ms: int, *, described_by: str = "") -> None:
        """Apply a response. version: the version of the response. A response without brokers counts as failed, because the broker is still
        starting.

        described_by: the address of the broker that has sent the response.
        """
        if not response.brokers:
            self.update_failed(now_ms)
            return
        self._new -= self._new if query.topics is None else query.topics
        self._expire_topics(now_ms)
        keep = self.topics if query.partial else ()
        update = apply_response(self.snapshot, self._epochs, response, version, keep=keep, described_by=described_by)
        self._equivalent = self._equivalent + 1 if update.snapshot == self.snapshot else 0
        self._epochs = dict(update.epochs)
        # All topics may have come to be wanted while this was on its way.
        misses_topics = self._all_topics and query.topics is not None
        self._need_full = update.incomplete or misses_topics or (self._need_full and query.partial)
        self._failed_attempts = 0
        self._fatal = None
        # Topics that were added while this was on its way need not wait.
        self._allowed_ms = now_ms + (0 if self._new else self._backoff.delay_ms(max(self._equivalent - 1, 0)))
        if not query.partial:
            self._age_ends_ms = now_ms + self._max_age_ms
        self._publish(update.snapshot)

    def update_failed(self, now_ms: int) -> None:
        """Begin the back-off after a failed request, and request a full update. The snapshot and the waiting callers stay."""
        self._allowed_ms = now_ms + self._backoff.delay_ms(self._failed_attempts)
        self._failed_attempts += 1
        self._need_full = True

    def fail(self, error: BaseException) -> None:
        """Reject all waiting callers, because waiting longer does not help: for example, authentication failed.

        If no caller waits, reject the next one, unless an update succeeds before.
        """
        waiters, self._waiters = self._waiters, {}
        self._fatal = None if waiters else error
        for promise in waiters.values():
            promise.reject(error)

    def rebootstrap(self) -> None:
        """Go back to the bootstrap addresses (KIP-899). Topics stay known, but without leaders, and leader epochs are forgotten."""
        self._epochs = {}
        self._need_full = True
        self.snapshot = ClusterSnapshot.bootstrap(self._bootstrap, self.snapshot.topics)

    def close(self, ended: Ended) -> None:
        """Reject all waiting callers, and every later wait for metadata, because the client has ended. ended: makes the error."""
        self._ended = ended
        self.fail(ended("a wait for metadata"))

    def _publish(self, snapshot: ClusterSnapshot) -> None:
        self.snapshot = snapshot
        self.version += 1
        for version in [version for version in self._waiters if version < self.version]:
            self._waiters.pop(version).resolve(None)

    def age_ms(self, now_ms: int) -> int | None:
        """Return the time since the last full update in ms; None before the first one."""
        return now_ms - (self._age_ends_ms - self._max_age_ms) if self.version else None

    def _expire_topics(self, now_ms: int) -> None:
        self._expires = {topic: at_ms for topic, at_ms in self._expires.items() if at_ms > now_ms or topic in self._new}

    # What is learnt between updates

    def topic(self, name: str) -> TopicMetadata | None:
        """Return the metadata of a topic, including its error; None if it is not known."""
        return self.snapshot.topics.get(name)

    def node(self, node_id: int) -> Node | None:
        """Return the node with this id; None if the metadata does not have it."""
        return self.snapshot.nodes.get(node_id)

    def saw_leader_epoch(self, tp: TopicPartition, leader_epoch: int) -> bool:
        """Note a leader epoch from another response. If it is newer than the known one, request an update and return True."""
        if self.snapshot.partition(tp) is None or leader_epoch <= self._epochs.get(tp, NO_LEADER_EPOCH):
            return False
        self._epochs[tp] = leader_epoch
        self._need_full = True
        return True

    def apply_leader_hint(self, tp: TopicPartition, leader_id: int, leader_epoch: int, endpoints: Iterable[Node] = ()) -> bool:
        """Take over the leader that an error response names, if its epoch is newer and its address is known (KIP-951), and request an
        update.

        Return whether the snapshot was changed, so that a retry need not wait for the update.

        endpoints: the nodes in the response. leader_epoch: the epoch of the leader in the response.
        """
        self._need_full = True
        node = next((node for node in endpoints if node.id == leader_id), None) or self.node(leader_id)
        if node is None or self.snapshot.partition(tp) is None or leader_epoch <= self._epochs.get(tp, NO_LEADER_EPOCH):
            return False
        self._epochs[tp] = leader_epoch
        self.snapshot = with_leader(self.snapshot, tp, node, leader_epoch)
        return True
