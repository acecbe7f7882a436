"""What a share consumer does in its caller's context: poll, commit, close.

A driver runs these flows in the caller's thread or task, as those of levada.consumer.consumer_flows. A signal handler or a cancelled task
may end a flow at any point. Acquired records become the program's in one step under the lock. If the flow ends after that step, but before
the caller has the result, take_back() undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from levada.base.asking import MustAskError
from levada.base.flow import CallerFlow, Compute, Until
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.consumer.fetch.decode import RecordConverter, on_decode_error, skip
from levada.consumer.share.acquired import Chunk
from levada.consumer.share.core import LOOK_AROUND_MS, ShareConsumerCore
from levada.consumer.share.decoding import Columns, ColumnSteps, RecordSteps, Step
from levada.consumer.waking import Waking
from levada.errors import RecordDeserializationError
from levada.types import AnyRecord, ShareRecord

T = TypeVar("T")

CLOSE_GRACE_MS = 100


class ColumnSink(Columns, Protocol):
    """Collects columns, and returns them as an Arrow batch."""

    def finish_with_offsets(self) -> tuple[Any, Sequence[int]]:
        """Return the collected rows as an Arrow batch, and the offset of each row."""
        ...

    def discard(self) -> None:
        """Drop the collected rows."""
        ...


class ShareFlows(Waking[ShareConsumerCore]):
    """The calls of one share consumer that wait. Adds itself to the engine's pollers."""

    def __init__(self, core: ShareConsumerCore, engine: Engine, host: Host) -> None:
        super().__init__(core, engine, host, default_api_timeout_ms=core.settings.default_api_timeout_ms)
        self._log = engine.log(on_decode_error.__module__)
        self.calls = 0
        """How many poll() calls have begun."""
        self._may_ask = False
        """Whether deserializers may ask a schema registry now, and so block."""

    # Records

    def records(self, deadline_ms: int, limit: int) -> CallerFlow[list[ShareRecord[Any, Any]]]:
        """Return up to `limit` records; [] when the time is over."""
        settings = self.core.settings

        def decode(chunks: Sequence[Chunk]) -> tuple[list[ShareRecord[Any, Any]], list[Step]]:
            return RecordSteps(self._converter, settings.max_decompressed_bytes).take(chunks, limit)

        return (yield from self._until_some(deadline_ms, decode, len)) or []

    def batch(self, deadline_ms: int, sink: ColumnSink, limit: int | None, max_bytes: int) -> CallerFlow[Any]:
        """Return an Arrow batch of up to `limit` records (None: no limit); it has no rows when the time is over."""

        def decode(chunks: Sequence[Chunk]) -> tuple[Any, list[Step]]:
            sink.discard()
            columns = ColumnSteps(sink, self._passes_over)
            steps = columns.take(chunks, limit, max_bytes)
            batch, offsets = sink.finish_with_offsets()
            columns.settle(offsets)
            return batch, steps

        found = yield from self._until_some(deadline_ms, decode, lambda batch: batch.num_rows)
        return decode([])[0] if found is None else found

    def _converter(self, passed: Callable[[AnyRecord], None]) -> RecordConverter:
        settings = self.core.settings
        on_error = on_decode_error(settings.on_decode_error, self._log)

        def noted(given: AnyRecord, error: RecordDeserializationError) -> AnyRecord | None:
            instead = on_error(given, error)
            if instead is None:
                passed(error.record)
            return instead

        converter = RecordConverter(settings.key_deserializer, settings.value_deserializer, self._host.run_handlers, noted, seeks=False)
        converter.may_ask = self._may_ask
        return converter

    def _passes_over(self, error: RecordDeserializationError) -> bool:
        if self.core.settings.on_decode_error != "skip":
            return False
        skip(self._log, error.record, error)
        return True

    def take_back(self, call: int) -> None:
        """Undo a poll(), because its result did not reach the caller. call: next_call, read before the poll.

        No effect if the poll did not begin, or has raised an error itself.
        """
        with self._host.lock:
            if call == self.calls:
                self.core.take_back()

    @property
    def next_call(self) -> int:
        """The number that the next poll() gets, for take_back()."""
        return self.calls + 1

    def _until_some(
        self, deadline_ms: int, decode: Callable[[Sequence[Chunk]], tuple[T, list[Step]]], count: Callable[[T], int]
    ) -> CallerFlow[T | None]:
        """Return the decoded buffered records. If there are none, wait until records or an error arrive; None when the time is over.

        decode, count: see _decoded().
        """
        self._host.check_usable()
        with self._host.lock:
            self._raise_if_woken()
            now_ms = self._host.now_ms()
            self.core.begin_call(now_ms, deadline_ms)
            self.calls += 1
            self.core.counters.polls.begin(now_ms)
        try:
            while True:
                found = yield from self._decoded(decode, count)
                if found is not None:
                    return found
                now_ms = self._host.now_ms()
                changed = self._look_around(now_ms, is_over=now_ms >= deadline_ms)
                if now_ms >= deadline_ms:
                    return None
                # An event loop steps the engine only at an event, and it has to know that a call has begun to wait.
                self._host.due_now()
                yield Until(changed, min(deadline_ms, now_ms + LOOK_AROUND_MS))
        finally:
            with self._host.lock:
                now_ms = self._host.now_ms()
                self.core.counters.polls.end(now_ms)
                self.core.end_call(now_ms)
            self._host.look()

    def _decoded(self, decode: Callable[[Sequence[Chunk]], tuple[T, list[Step]]], count: Callable[[T], int]) -> CallerFlow[T | None]:
        """Decode the buffered chunks and return their records; None if there are none. Raises the error of a chunk that failed, if any.

        decode: returns the decoded records, and one step for each chunk. count: returns the number of the decoded records.
        """
        with self._host.lock:
            chunks = self.core.chunks(self._host.now_ms())
        if not chunks:
            return None
        try:
            found, steps = yield Compute(lambda: decode(chunks), sum(chunk.batches.size_bytes for chunk in chunks))
        except MustAskError:
            found, steps = yield Compute(lambda: self._asking(decode, chunks), may_block=True)
        with self._host.lock:
            self.core.hand_out(steps, count(found), self._host.now_ms())
        error = next((step.error for step in steps if step.error is not None), None)
        if error is not None:
            raise error
        return found if count(found) else None

    def _asking(self, decode: Callable[[Sequence[Chunk]], tuple[T, list[Step]]], chunks: Sequence[Chunk]) -> tuple[T, list[Step]]:
        """Decode chunks while deserializers may ask a schema registry."""
        self._may_ask = True
        try:
            return decode(chunks)
        finally:
            self._may_ask = False

    def _look_around(self, now_ms: int, *, is_over: bool) -> Promise[None]:
        """Raise the error that prevents fetching, if the program has to know it; also WakeupError, unless `is_over`.

        Return a promise that settles when there may be records, or an error. is_over: whether the time of the call is over.
        """
        with self._host.lock:
            error = self.core.explain(now_ms, last_word=is_over)
            if error is None and not is_over:
                self._raise_if_woken()
            changed = Promise.resolved(None) if self.core.chunks(now_ms) else self.core.changed()
        if error is not None:
            raise error
        return changed

    # Closing

    def close(self, deadline_ms: int, *, accepts: bool) -> CallerFlow[None]:
        """Send the last acknowledgements, close the sessions and leave the group. The driver is to be closed next, even if this raises.

        accepts: in implicit mode, whether to accept the records that the program has; otherwise the brokers release them.
        """
        closed: Promise[None] = self._host.change(lambda now_ms: self.core.begin_close(now_ms, accepts=accepts))
        try:
            yield Until(closed, deadline_ms)
        finally:
            self._host.change(lambda now_ms: self.core.fetcher.give_up())
        if self.look(lambda core: core.member.is_subscribed):
            left = self._host.change(self.core.unsubscribe)
            yield Until(left, max(deadline_ms, self._host.now_ms() + CLOSE_GRACE_MS))
