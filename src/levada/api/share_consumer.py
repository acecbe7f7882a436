"""What KafkaShareConsumer does in both APIs: arguments become flows and changes of its core, which any driver runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, TypeAlias, TypeVar

from levada.api.arguments import column_names, deadline_ms, positive, text_columns, topic_names, topic_partition, whole
from levada.api.columns import ARROW_BYTES, DEFAULT_COLUMNS, importing_columns
from levada.api.consumer.iterations import POLL_MS, Iteration
from levada.api.lifecycle import HandedOver
from levada.api.reporting import Reporting
from levada.base.clock import NEVER_MS
from levada.base.flow import CallerFlow
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.config import ShareConsumerConfig
from levada.consumer.share.acknowledging import failure
from levada.consumer.share.core import ShareConsumerCore, ShareConsumerSettings
from levada.consumer.share.offset_marks import Mark, Run, runs_of
from levada.consumer.share.share_flows import ShareFlows
from levada.errors import AcknowledgeError, ClosedError, IllegalStateError, KafkaError
from levada.types import AcknowledgeType, AnyRecord, ConsumerRecord, ShareRecords, TopicPartition

T = TypeVar("T")

SHARE_COLUMNS = (*DEFAULT_COLUMNS, "delivery_count")

Kind: TypeAlias = AcknowledgeType | str
OnAcknowledge: TypeAlias = Callable[[dict[TopicPartition, list[int]], KafkaError | None], None]
"""Called with offsets by partition, and with the error; None if the brokers have taken the acknowledgements."""


class Sharing:
    """The calls of a share consumer, for both the synchronous and the asyncio API. host: the driver that runs them."""

    def __init__(self, config: ShareConsumerConfig, engine: Engine, host: Host, *, random: Random) -> None:
        self.config = config
        self._log = engine.log(__name__)
        self.core = ShareConsumerCore(engine, host=host, random=random, settings=partial(ShareConsumerSettings.of, config))
        self.reading = ShareFlows(self.core, engine, host)
        self.wakeup = self.reading.wakeup
        self.handed_over = HandedOver([config.key_deserializer, config.value_deserializer], self._log)
        self.reporting = Reporting(config, engine, host, "share-consumer", self.core)
        self.on_acknowledge: OnAcknowledge | None = None
        self._host = host
        self._iteration: Iteration | None = None
        self._last: AnyRecord | None = None
        """The last record that an ended loop was given. A call for more records shows that the program is done with it."""
        self._decoders: dict[tuple[tuple[str, ...] | None, tuple[str, ...]], Any] = {}
        self._is_telling = False

    # What is read

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics. The next poll joins the group."""
        names = frozenset(topic_names(topics))
        if not names or any(not name.strip() for name in names):
            raise ValueError("subscribe() takes one topic at least, by name; unsubscribe() ends a subscription")
        # What a loop was not given of topics that are given up is released with the rest.
        self.end_iteration()
        self.reading.change(lambda core, now_ms: core.subscribe(names, now_ms))

    def subscription(self) -> set[str]:
        """Return the topics that are subscribed to."""
        return set(self.reading.look(lambda core: core.member.topics))

    def unsubscribe(self) -> None:
        """Leave the group, without waiting for the coordinator's answer."""
        self.end_iteration()
        self._host.change(self.core.unsubscribe)

    # Reading

    @property
    def next_call(self) -> int:
        """The number that the next poll() or poll_arrow() gets, for take_back()."""
        return self.reading.next_call

    def take_back(self, call: int) -> None:
        """Undo the poll with this number, because its result did not reach the caller. call: next_call, read before the poll."""
        self.reading.take_back(call)

    def poll(self, timeout: float | None, max_records: int | None) -> CallerFlow[ShareRecords[Any, Any]]:
        """Return the next records; none when the timeout, in seconds, is over. max_records: None for max.poll.records."""
        limit = self.config.max_poll_records if max_records is None else positive("max_records", max_records)
        self._begin_call()
        return ShareRecords((yield from self.reading.records(deadline_ms(self._host.now_ms(), timeout), limit)))

    def poll_arrow(
        self, timeout: float | None, max_records: int | None, max_bytes: int | None, columns: Sequence[str] | None, text: Sequence[str]
    ) -> CallerFlow[Any]:
        """Return the next records as an Arrow batch; one without rows when the timeout, in seconds, is over.

        The arguments are those of KafkaShareConsumer.poll_arrow().
        """
        limit = None if max_records is None else positive("max_records", max_records)
        most = ARROW_BYTES if max_bytes is None else positive("max_bytes", max_bytes)
        sink = self._decoder(columns, text)
        self._begin_call()
        return (yield from self.reading.batch(deadline_ms(self._host.now_ms(), timeout), sink, limit, most))

    def iterate(self, since_ms: int) -> CallerFlow[Iteration]:
        """Return the next records for a loop, possibly none. `is_over` of the result is true if no record has come for consumer.timeout.ms.

        since_ms: when that time began.
        """
        self._begin_call()
        patience_ms = self.config.consumer_timeout_ms
        over_ms = NEVER_MS if patience_ms < 0 else since_ms + patience_ms
        found = yield from self.reading.records(min(over_ms, self._host.now_ms() + POLL_MS), self.config.max_poll_records)
        self._iteration = Iteration(found, generation=0)
        if not found and self._host.now_ms() >= over_ms:
            self._iteration.end()
        return self._iteration

    def end_iteration(self) -> None:
        """Put back the records that were not given to a loop yet; the next call returns them."""
        iteration, self._iteration = self._iteration, None
        if iteration is not None:
            iteration.end()
            with suppress(ClosedError):
                if iteration.left:
                    self.reading.change(lambda core, _: core.put_back(_runs_by_partition(iteration.left)))
            if iteration.given:
                self._last = iteration.records[iteration.given - 1]

    def _put_back_last(self) -> None:
        """Put back the last record that was given to a loop, unless it is acknowledged: no later call will show that the program has
        processed it.
        """
        last, self._last = self._last, None
        if last is not None:
            self.reading.change(lambda core, _: core.put_back(_runs_by_partition([last])))

    def _begin_call(self) -> None:
        self._host.check_usable()
        self._check_not_telling()
        if not self.core.member.is_subscribed:
            raise IllegalStateError("there is nothing to read; subscribe() to topics before poll()")
        self.end_iteration()
        self._last = None
        self.tell()

    def _check_not_telling(self) -> None:
        if self._is_telling:
            raise IllegalStateError("an acknowledgement callback may not ask for records, commit or close; do so after it has returned")

    # Acknowledging

    def acknowledge(self, records: AnyRecord | Iterable[AnyRecord], kind: Kind) -> None:
        """Acknowledge one record or several records."""
        made = acknowledge_type(kind)
        if isinstance(records, ConsumerRecord):
            place = TopicPartition(records.topic, records.partition), ((records.offset, records.offset),)
            self._decide([place], made)
            return
        if isinstance(records, str | bytes) or not isinstance(records, Iterable):
            raise TypeError(f"acknowledge() takes records as poll() returns them, one or several; got {records!r}")
        self._decide([(tp, _pairs(runs)) for tp, runs in _runs_by_partition(records).items()], made)

    def acknowledge_offsets(self, tp: TopicPartition, offsets: int | Iterable[int], kind: Kind) -> None:
        """Acknowledge the records at these offsets."""
        given = _plain(offsets)
        wanted = sorted({whole("offset", offset) for offset in given})
        self._decide([(topic_partition(tp), _pairs(runs_of(wanted, Mark.UNDECIDED)))], acknowledge_type(kind))

    def acknowledge_arrow(self, batch: Any, kind: Kind, mask: Any) -> None:
        """Acknowledge the rows of an Arrow batch. mask: booleans that select the rows; None for all rows."""
        made = acknowledge_type(kind)
        with importing_columns():
            from levada.record.columnar import places
        found = [(tp, _pairs(runs_of(sorted(set(offsets)), Mark.UNDECIDED))) for tp, offsets in places(batch, mask)]
        self._decide(found, made)

    def _decide(self, found: Sequence[tuple[TopicPartition, Sequence[tuple[int, int]]]], kind: AcknowledgeType) -> None:
        self._host.check_usable()
        with self._host.lock:
            self.core.acknowledge(found, kind)

    def commit(self, timeout: float | None) -> CallerFlow[None]:
        """Send acknowledgements, and wait until the brokers have answered. With implicit acknowledgement, accept all returned records.

        Raises AcknowledgeError.
        """
        self._check_not_telling()
        self.end_iteration()
        self.tell()
        what = f"acknowledging records of share group '{self.config.group_id}'"
        limit_ms = None if timeout is None else deadline_ms(0, timeout)
        try:
            yield from self.reading.run(lambda core, now_ms: core.commit(now_ms), limit_ms, what)
        except AcknowledgeError:
            raise
        except BaseException:
            # It ends early, as by its timeout or by wakeup(): what was refused meanwhile is logged, since nothing raises it.
            with self._host.lock:
                self.core.commit_failed()
            raise
        finally:
            self.tell()

    def commit_async(self) -> Promise[None]:
        """Send acknowledgements like commit(); return a promise that settles with the result."""
        self._check_not_telling()
        self.end_iteration()
        self.tell()
        sent = self._host.change(self.core.begin_commit)
        outcome: Promise[None] = Promise()
        sent.on_done(lambda done: _settle(outcome, failure(done.result())))
        return outcome

    def tell(self) -> None:
        """Call the program's callback with results of acknowledgements. Without a callback, log failures that no commit() raises.

        If the callback raises, its exception is raised, and the remaining results wait for the next call.
        """
        if self._is_telling:
            return
        while self.core.told:
            told = self.reading.look(lambda core: core.told.popleft())
            outcome = told.outcome
            if self.on_acknowledge is not None:
                self._is_telling = True
                try:
                    with self._host.user_code():
                        self.on_acknowledge({outcome.tp: outcome.offsets}, outcome.error)
                finally:
                    self._is_telling = False
            elif outcome.error is not None and not told.batch.is_awaited:
                text = "%d records from offset %d are delivered again unless their acknowledgement was taken: %s"
                self._log.warning(text, outcome.records, outcome.offsets[0], outcome.error, tp=outcome.tp, offset=outcome.offsets[0])

    def lock_timeout(self) -> float | None:
        """Return for how many seconds brokers lock records; None if it is not known yet."""
        timeout_ms = self.reading.look(lambda core: core.fetcher.lock_timeout_ms)
        return None if timeout_ms is None else timeout_ms / 1000

    # The end

    def close(self, timeout: float, *, after_error: bool = False) -> CallerFlow[None]:
        """Acknowledge for the last time, leave the group and stop reading. The driver has to be closed next, even if this raises.

        after_error: whether the program ends with an exception, so that the records it has are not accepted.
        """
        self._check_not_telling()
        over_ms = deadline_ms(self._host.now_ms(), timeout)
        self.end_iteration()
        self._put_back_last()
        try:
            yield from self.reading.close(over_ms, accepts=not after_error)
        finally:
            self.tell()
        yield from self.reporting.close(over_ms)

    def _decoder(self, columns: Sequence[str] | None, text: Sequence[str]) -> Any:
        # Used again: it knows how large the last batch was.
        key = (None if columns is None else column_names(columns), text_columns(text))
        if key not in self._decoders:
            self._decoders[key] = self._new_decoder(*key)
        return self._decoders[key]

    def _new_decoder(self, columns: tuple[str, ...] | None, text: tuple[str, ...]) -> Any:
        wanted = SHARE_COLUMNS if columns is None else columns
        if not wanted:
            raise ValueError(f"columns=[] would read records and return nothing of them; name at least one of {', '.join(SHARE_COLUMNS)}")
        with importing_columns():
            from levada.record.columnar import AcquiredColumns
        null_bad_text = self.config.on_decode_error == "null"
        return AcquiredColumns(wanted, self.config.max_decompressed_bytes, text=text, null_bad_text=null_bad_text)


def acknowledge_type(kind: Any) -> AcknowledgeType:
    """Return an AcknowledgeType. It may be given by its name in upper or lower case. Raises ValueError."""
    if isinstance(kind, AcknowledgeType):
        return kind
    found = AcknowledgeType.__members__.get(str(kind).upper())
    if found is None:
        raise ValueError(f"records are acknowledged as accept, release, reject or renew; got {kind!r}")
    return found


def _plain(offsets: int | Iterable[int]) -> Iterable[int]:
    """Return offsets as Python ints. They may be one integer of any kind, or an iterable or array of integers."""
    plain = getattr(offsets, "to_pylist", None) or getattr(offsets, "tolist", None)
    found = offsets if plain is None else plain()
    return found if isinstance(found, Iterable) else [found]


def _runs_by_partition(records: Iterable[AnyRecord]) -> Mapping[TopicPartition, list[Run]]:
    offsets: dict[TopicPartition, list[int]] = {}
    for record in records:
        offsets.setdefault(TopicPartition(record.topic, record.partition), []).append(record.offset)
    return {tp: runs_of(sorted(set(found)), Mark.UNDECIDED) for tp, found in offsets.items()}


def _pairs(runs: Iterable[Run]) -> list[tuple[int, int]]:
    return [(run.first, run.last) for run in runs]


def _settle(outcome: Promise[None], error: KafkaError | None) -> None:
    if error is None:
        outcome.resolve(None)
    else:
        outcome.reject(error)
