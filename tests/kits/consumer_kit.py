"""Record batches and fetched data for the consumer's tests."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from levada.base.flow import CallerFlow, Compute
from levada.consumer.fetch.decode import RecordConverter
from levada.consumer.fetch.fetch_buffer import CompletedFetch, FetchBuffer
from levada.consumer.fetch.fetch_collector import FetchCollector
from levada.consumer.fetch.fetch_cursor import ReadOptions
from levada.consumer.positions.subscription_state import SubscriptionState
from levada.record.batch import assign_offsets, seal, set_producer_state
from levada.record.builder import RecordBatchBuilder
from levada.record.compression import Codec
from levada.record.memory_records import offset_after_last_batch
from levada.types import AnyRecord, OffsetSpec, TopicPartition
from settings_kit import read_options

T = TypeVar("T")

TP = TopicPartition("orders", 3)
_ATTRIBUTES_AT, _LAST_OFFSET_DELTA_AT, _COUNT_AT = 21, 23, 57
_CONTROL = 0x20


def batch(
    base_offset: int,
    values: Sequence[bytes | None] = (b"v",),
    *,
    key: bytes | None = None,
    codec: Codec = Codec.NONE,
    epoch: int = 4,
    producer: tuple[int, int] | None = None,
    control: int | None = None,
    last_offset: int | None = None,
    timestamp: int = 1_000,
) -> bytes:
    """Return a sealed batch at base_offset.

    epoch: the leader epoch. producer: (producer id, epoch) of a transactional batch. control: the type of a control record, which replaces
    the values. last_offset: the last offset in the header, which after compaction may be above that of the last record.
    """
    builder = RecordBatchBuilder(codec=codec)
    if control is not None:
        builder.append(timestamp, struct.pack(">hh", 0, control), b"\0" * 6, ())
    else:
        for value in values:
            builder.append(timestamp, key, value, ())
    data = builder.build()
    if producer is not None:
        set_producer_state(data, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, is_transactional=True)
    assign_offsets(data, base_offset=base_offset, leader_epoch=epoch)
    if control is not None:
        (attributes,) = struct.unpack_from(">h", data, _ATTRIBUTES_AT)
        struct.pack_into(">h", data, _ATTRIBUTES_AT, attributes | _CONTROL)
    if last_offset is not None:
        struct.pack_into(">i", data, _LAST_OFFSET_DELTA_AT, last_offset - base_offset)
    seal(data)
    return bytes(data)


def emptied(data: bytes) -> bytes:
    """Return the batch's header alone, as compaction leaves a batch whose records were all removed."""
    header = bytearray(data[:61])
    struct.pack_into(">i", header, 8, 49)
    struct.pack_into(">i", header, _COUNT_AT, 0)
    seal(header)
    return bytes(header)


def run_flow(flow: CallerFlow[T]) -> T:
    """Run a flow whose steps are all Compute steps, in this thread, and return its result."""
    try:
        step = next(flow)
        while True:
            assert isinstance(step, Compute)
            try:
                result = step.run()
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(result)
    except StopIteration as done:
        value: T = done.value
        return value


class Bench:
    """A subscription, a fetch buffer and a collector, to which a test passes fetched data with fetched()."""

    def __init__(
        self, *, options: ReadOptions | None = None, converter: RecordConverter | None = None, reset_to: OffsetSpec | None = None
    ) -> None:
        self.subscription = SubscriptionState()
        self.buffer = FetchBuffer(self.subscription, 64 << 20)
        self.collector = FetchCollector(
            self.buffer,
            lock=nullcontext(),
            options=options or read_options(),
            converter=converter or RecordConverter(),
            reset_to=reset_to,
        )

    def assign(self, *positions: int, stop: int | None = None) -> None:
        """Assign orders-0, orders-1, ... with these positions. stop: the stop offset of each; None for no stop offset."""
        tps = [TopicPartition("orders", index) for index in range(len(positions))]
        self.subscription.assign(tps, 0)
        for tp, position in zip(tps, positions, strict=True):
            self.subscription.seek(tp, position)
            self.subscription.state(tp).stop_offset = stop

    def fetched(
        self, data: bytes | memoryview, *, partition: int = 0, aborted: tuple[tuple[int, int], ...] = (), error: Any = None
    ) -> None:
        """Add a completed fetch of one partition to the buffer, from the partition's fetch offset on."""
        state = self.subscription.state(TopicPartition("orders", partition))
        after, is_valid = offset_after_last_batch(data)
        after = -1 if error or not is_valid else after
        self.buffer.add(CompletedFetch(state, state.generation, state.fetch_offset, data, after, aborted, error))

    def records(self, limit: int = 500) -> list[AnyRecord]:
        """Collect at most `limit` records."""
        self.collector.begin()
        return run_flow(self.collector.collect_records(limit)) or []

    def position(self, partition: int = 0) -> int:
        """Return the offset of the next record that the consumer returns."""
        return self.subscription.state(TopicPartition("orders", partition)).position

    def offsets(self, limit: int = 500) -> list[int]:
        """Collect at most `limit` records, and return their offsets."""
        return [record.offset for record in self.records(limit)]
