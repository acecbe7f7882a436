"""The parts of a share consumer, wired to an engine (KIP-932). Public APIs wait and convert types; all decisions are made here or below.

Methods are called under the engine's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from levada.base.clock import ExponentialBackoff
from levada.base.flow import Flow, Wait
from levada.base.measure import Measure
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.client.requests.flow_runner import FlowsBeside
from levada.consumer.counters import ShareCounters
from levada.consumer.fetch.decode import Deserializer
from levada.consumer.group.consumer_requests import new_member_id
from levada.consumer.share.acknowledging import Batch, Outcome, failure
from levada.consumer.share.acquired import Chunk
from levada.consumer.share.decoding import Step
from levada.consumer.share.delivered import Decided, InHand, Offsets
from levada.consumer.share.fetcher import ShareFetcher
from levada.consumer.share.member import Assignment, ShareGroupMember, ShareMemberSettings
from levada.consumer.share.offset_marks import Mark, Run
from levada.consumer.share.requests import ShareFetchSettings
from levada.consumer.stall import SubscribedTopics, Unreachable
from levada.errors import ClosedError, IllegalStateError, KafkaError
from levada.types import AcknowledgeType, TopicPartition


@dataclass(frozen=True, slots=True)
class ShareConsumerSettings:
    """The settings of a ShareConsumerCore. Most fields have the names of options; times are in milliseconds."""

    member: ShareMemberSettings
    fetch: ShareFetchSettings
    explicit: bool
    """share.acknowledgement.mode=explicit."""
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    on_decode_error: str
    max_decompressed_bytes: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    default_api_timeout_ms: int

    @classmethod
    def of(cls, config: Any, member_id: str) -> ShareConsumerSettings:
        """Read the settings from a ShareConsumerConfig, or an object with the same attributes."""
        return cls(
            member=ShareMemberSettings(
                group_id=config.group_id,
                max_poll_interval_ms=config.max_poll_interval_ms,
                client_rack=config.client_rack,
            ),
            fetch=ShareFetchSettings(
                group_id=config.group_id,
                member_id=member_id,
                fetch_min_bytes=config.fetch_min_bytes,
                fetch_max_bytes=config.fetch_max_bytes,
                fetch_max_wait_ms=config.fetch_max_wait_ms,
                max_poll_records=config.max_poll_records,
                record_limit=config.share_acquire_mode == "record_limit",
                request_timeout_ms=config.request_timeout_ms,
                check_crcs=config.check_crcs,
            ),
            explicit=config.share_acknowledgement_mode == "explicit",
            key_deserializer=config.key_deserializer,
            value_deserializer=config.value_deserializer,
            on_decode_error=config.on_decode_error,
            max_decompressed_bytes=config.max_decompressed_bytes,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            default_api_timeout_ms=config.default_api_timeout_ms,
        )


LOOK_AROUND_MS = 250


class Told(NamedTuple):
    """A result of acknowledgements that was not reported to the program yet. batch: the batch that it belongs to."""

    outcome: Outcome
    batch: Batch


class ShareConsumerCore:
    """The core of one share consumer: membership, fetching and acknowledging. host: runs the engine."""

    def __init__(self, engine: Engine, *, host: Host, random: Random, settings: Callable[[str], ShareConsumerSettings]) -> None:
        """settings: makes the settings for a member id."""
        member_id = new_member_id(engine.random)
        self.settings = made = settings(member_id)
        self.in_hand = InHand()
        self.told: deque[Told] = deque()
        """Results that were not reported to the program yet."""
        self._engine = engine
        self._now_ms = host.now_ms
        self._changed: Promise[None] = Promise()
        self._waits_since_ms = 0
        self._awaited: Batch | None = None
        self._unreachable = Unreachable(engine.network, engine.deferred.log(__name__))
        self._topics = SubscribedTopics(engine.metadata, engine.deferred, lambda: self.member.topics)
        backoff = ExponentialBackoff(made.retry_backoff_ms, made.retry_backoff_max_ms, random)
        self.member = ShareGroupMember(
            made.member,
            member_id=member_id,
            changed=self.announce,
            finder=engine.coordinators,
            metadata=engine.metadata,
            backoff=backoff,
            spawn=FlowsBeside(engine.flows, engine.now),
            now=engine.now,
            deferred=engine.deferred,
        )
        self.fetcher = ShareFetcher(
            made.fetch,
            assignment=self._fetchable,
            arrived=self._arrived,
            changed=self.announce,
            metadata=engine.metadata,
            network=engine.network,
            backoff=backoff,
            deferred=engine.deferred,
        )
        for poller in (self.member, self.fetcher):
            engine.add_poller(poller)

    @property
    def counters(self) -> ShareCounters:
        """The counters."""
        return self.fetcher.counters

    def latency(self, api: str) -> Measure:
        """Return the response times of an API."""
        return self._engine.network.in_flight.traffic.latency(api)

    def changed(self) -> Promise[None]:
        """Return a promise that is resolved at the next change that a waiting poll() has to see."""
        return self._changed

    def announce(self) -> None:
        """Wake a waiting poll(), so that it checks again."""
        changed, self._changed = self._changed, Promise()
        changed.resolve(None)

    # Subscription

    def subscribe(self, topics: frozenset[str], now_ms: int) -> None:
        """Subscribe to these topics. Acquired records of other topics that were not returned yet are released."""
        self.member.subscribe(topics, now_ms)
        self._waits_since_ms = now_ms
        self._release_others(topics, now_ms)

    def _fetchable(self) -> Assignment:
        """Return the partitions to fetch: the assigned ones whose topic is subscribed to. After subscribe(), the assignment is outdated for
        a while.
        """
        topics = self.member.topics
        return {tp: topic_id for tp, topic_id in self.member.assignment.items() if tp.topic in topics}

    def _arrived(self, chunk: Chunk) -> None:
        """Buffer acquired records, unless the program has unsubscribed from the topic during the fetch."""
        if chunk.tp.topic in self.member.topics:
            self.fetcher.buffer.append(chunk)
        else:
            self._release([chunk], self._now_ms())

    def unsubscribe(self, now_ms: int) -> Promise[None]:
        """Leave the group; return a promise that settles when the request, if one is sent, is answered or has failed.

        Records that were returned stay with the program. Acquired records that were not returned yet are released.
        """
        self._release_others(frozenset(), now_ms)
        leaving = self.member.leave()
        what = f"leaving share group '{self.settings.member.group_id}'"
        over_ms = now_ms + self.settings.default_api_timeout_ms
        return self._engine.flows.start(leaving, now_ms, deadline_ms=over_ms, describe=what)

    def _release_others(self, topics: frozenset[str], now_ms: int) -> None:
        self._release([chunk for chunk in self.fetcher.buffer if chunk.tp.topic not in topics], now_ms)
        self.fetcher.buffer = deque(chunk for chunk in self.fetcher.buffer if chunk.tp.topic in topics)

    def _release(self, chunks: Sequence[Chunk], now_ms: int) -> None:
        parts = [
            Decided(chunk.tp, chunk.topic_id, chunk.node_id, tuple(Run(part.first, part.last, Mark.RELEASE) for part in chunk.acquired))
            for chunk in chunks
        ]
        self.fetcher.acknowledge(Batch(parts, self._deadline_ms(now_ms), lambda outcome, batch: None), now_ms)

    # poll()

    def begin_call(self, now_ms: int, deadline_ms: int) -> None:
        """Begin a poll(): send acknowledgements (in implicit mode, accept all earlier records first), and join the group if necessary.

        Raises as check_decided() does.
        """
        self.check_decided()
        self._accept_rest()
        self.in_hand.begin_call()
        self.fetcher.awaited_until_ms = deadline_ms
        self.send(now_ms)
        self.member.entered(now_ms)

    def check_decided(self) -> None:
        """Raise IllegalStateError if share.acknowledgement.mode=explicit and the program has unacknowledged records."""
        if not self.settings.explicit:
            return
        found = list(self.in_hand.undecided())
        if found:
            tp, run = found[0]
            count = sum(undecided.length for _, undecided in found)
            raise IllegalStateError(
                f"{count} records are not acknowledged, the first is {tp} at offset {run.first}: with share.acknowledgement.mode=explicit "
                "every record has to be, with acknowledge(), before more are asked for"
            )

    def _accept_rest(self) -> None:
        if not self.settings.explicit:
            self.in_hand.acknowledge_rest(AcknowledgeType.ACCEPT)

    def end_call(self, now_ms: int) -> None:
        """Note that a poll() has ended."""
        self.fetcher.is_awaited = False
        self.member.returned(now_ms)

    def chunks(self, now_ms: int) -> list[Chunk]:
        """Return the chunks whose records poll() may return now, renewed ones first; [] while a renewal is not answered.

        Otherwise the fetcher may fetch from now on. Chunks whose locks have ended are dropped, because the brokers deliver their records
        again, to any member.
        """
        if self.in_hand.has_renewals:
            if self.in_hand.is_renewing:
                return []
            self.fetcher.buffer.extendleft(reversed(self.in_hand.take_renewed()))
        self.fetcher.wants_records = self.fetcher.is_awaited = True
        if not all(self._is_locked(chunk, now_ms) for chunk in self.fetcher.buffer):
            self.fetcher.buffer = deque(chunk for chunk in self.fetcher.buffer if self._is_locked(chunk, now_ms))
        return list(self.fetcher.buffer)

    def _is_locked(self, chunk: Chunk, now_ms: int) -> bool:
        """Return whether the records of a chunk are still locked for this member, as far as the client knows.

        Locks end after their time, when the leader changes, and with the share session.
        """
        leader = self._engine.metadata.snapshot.leader(chunk.tp)
        return chunk.until_ms > now_ms and self.fetcher.holds(chunk) and (leader is None or leader.id == chunk.node_id)

    def hand_out(self, steps: Sequence[Step], records: int, now_ms: int) -> None:
        """Move the records of these steps from the buffer to the program. Gaps and unreadable records are acknowledged with the next
        request.

        If there are only gaps and unreadable records, the request is sent at once, unless a step has an error. records: how many records
        are returned. Raises ClosedError if another task has begun to close the consumer, because the brokers then deliver these records to
        other members.
        """
        if self.fetcher.is_closing:
            raise ClosedError("the consumer was closed while it decoded records; they were not returned")
        for step in steps:
            taken = self.fetcher.buffer.popleft()
            assert taken is step.chunk, "one call at a time takes from the buffer"
            if step.rest is not None:
                self.fetcher.buffer.appendleft(step.rest)
            self.in_hand.put(step.chunk, [*step.given, *step.decided, *step.doubtful])
        self.counters.records.note(records, now_ms)
        if records:
            self.fetcher.wants_records = False
        elif not any(step.error for step in steps):
            # The program may still acknowledge a record that failed differently.
            self.send(now_ms)

    def take_back(self) -> None:
        """Put the unacknowledged records of the last call back into the buffer, because they did not reach the program."""
        self._put_in_front(self.in_hand.take_back())

    def put_back(self, wanted: Mapping[TopicPartition, Sequence[Run]]) -> None:
        """Put those of these records that are not acknowledged back into the buffer, because the program has not used them."""
        self._put_in_front(self.in_hand.put_back(wanted))

    def _put_in_front(self, chunks: Sequence[Chunk]) -> None:
        self.fetcher.buffer.extendleft(reversed(chunks))

    def explain(self, now_ms: int, *, last_word: bool) -> KafkaError | None:
        """Return the error to raise because no records arrive; None to continue waiting. Log the warnings that are due.

        An error of the member or of a fetch is forgotten when it was returned, unless the member was refused permanently. last_word:
        whether poll() is about to return no records.
        """
        if (error := self.member.take_error()) is not None:
            return error
        if (error := self.fetcher.error) is not None:
            self.fetcher.error = None
            return error
        if not self._engine.network.ever_answered:
            return self._unreachable.explain(self._waits_since_ms, now_ms, last_word=last_word)
        return self._topics.explain(now_ms, last_word=last_word)

    # Acknowledgements

    def acknowledge(self, found: Sequence[Offsets], kind: AcknowledgeType) -> None:
        """Acknowledge records that the program has. Raises IllegalStateError for other records, and always in implicit mode."""
        if not self.settings.explicit:
            raise IllegalStateError(
                "the next poll(), commit() or close() acknowledges all records as accepted; to acknowledge each one, set "
                "share.acknowledgement.mode=explicit"
            )
        self.in_hand.acknowledge(found, kind)

    def send(self, now_ms: int, *, is_awaited: bool = False) -> Batch:
        """Send the acknowledgements made so far. is_awaited: whether a commit() waits for all results."""
        batch = Batch(self.in_hand.take_decided(), self._deadline_ms(now_ms), self._settled, is_awaited=is_awaited)
        self.fetcher.acknowledge(batch, now_ms)
        return batch

    def commit(self, now_ms: int) -> Flow[None]:
        """Send the acknowledgements and wait for the answers; in implicit mode, accept all records first. Raises AcknowledgeError."""
        self._accept_rest()
        self._awaited = self.send(now_ms, is_awaited=True)
        return _outcome_of(self._awaited)

    def commit_failed(self) -> None:
        """Note that the last commit() has ended with another error, so that its results are reported to the program like those of other
        calls.
        """
        if self._awaited is not None:
            self._awaited.is_awaited = False

    def begin_commit(self, now_ms: int) -> Promise[list[Outcome]]:
        """Send the acknowledgements like commit(), but without waiting; return a promise of the results."""
        self._accept_rest()
        return self.send(now_ms).done

    def _settled(self, outcome: Outcome, batch: Batch) -> None:
        renewed = [run for run in outcome.runs if run.mark is Mark.RENEW]
        if renewed:
            timeout_ms = self.fetcher.lock_timeout_ms or 0
            self.in_hand.renewed(outcome.tp, renewed, None if outcome.error is not None else self._now_ms() + timeout_ms)
        if outcome.error is not None:
            self.counters.refused.note(outcome.records, self._now_ms())
        if outcome.records:
            self.told.append(Told(outcome, batch))
        self.announce()

    def _deadline_ms(self, now_ms: int) -> int:
        return now_ms + self.settings.default_api_timeout_ms

    # Closing

    def begin_close(self, now_ms: int, *, accepts: bool) -> Promise[None]:
        """Send the last acknowledgements and close the sessions; return a promise that is resolved when that is done.

        accepts: in implicit mode, whether to accept the records that the program has. All other records are released by the brokers.
        """
        if accepts:
            self._accept_rest()
        self.in_hand.release_renewals()
        self.send(now_ms)
        self.fetcher.close()
        return self.fetcher.closed


def _outcome_of(batch: Batch) -> Flow[None]:
    outcomes: list[Outcome] = yield Wait(batch.done)
    error = failure(outcomes)
    if error is not None:
        raise error
