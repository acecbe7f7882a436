"""Acknowledgements of records that a member has acquired: batches of offsets with one type for all of them or one for each (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from levada.broker.share.record_states import Event
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

EVENTS: Mapping[int, Event] = {0: Event.GAP, 1: Event.ACCEPT, 2: Event.RELEASE, 3: Event.REJECT, 4: Event.RENEW}
"""The events by the types in requests. A gap is an offset without a record, or one whose record is not for programs, such as a marker."""

RENEW = 4


class AcknowledgementBatch(Protocol):
    """A batch of acknowledgements in a ShareFetch or ShareAcknowledge request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class Acknowledgement(NamedTuple):
    """The acknowledgement type for the records from one offset to another, both included."""

    first: int
    last: int
    event: Event


def acknowledgements(batches: Sequence[AcknowledgementBatch], *, may_renew: bool) -> list[Acknowledgement]:
    """Convert the acknowledgement batches of one partition to acknowledgements, in order. may_renew: whether the request says that it
    renews locks.

    Raises INVALID_REQUEST for batches that are not in order or begin with a negative offset, for unknown types, for a wrong number of
    types, and for RENEW without may_renew; INVALID_RECORD_STATE if a batch begins with the last offset of the batch before.
    """
    found: list[Acknowledgement] = []
    behind = -1
    for batch in batches:
        if batch.first_offset > batch.last_offset or batch.first_offset < max(behind, 0):
            raise _invalid(f"batch {batch.first_offset} to {batch.last_offset} is out of order")
        if batch.first_offset == behind:
            raise BrokerError(f"offset {behind} is acknowledged twice", code=ErrorCode.INVALID_RECORD_STATE)
        found.extend(_runs(batch, may_renew=may_renew))
        behind = batch.last_offset
    return found


def _runs(batch: AcknowledgementBatch, *, may_renew: bool) -> Iterator[Acknowledgement]:
    types = batch.acknowledge_types
    if len(types) not in (1, batch.last_offset - batch.first_offset + 1):
        raise _invalid(f"{len(types)} types for the offsets {batch.first_offset} to {batch.last_offset}")
    if not set(types) <= EVENTS.keys() or (RENEW in types and not may_renew):
        raise _invalid(f"this request may not have all of the acknowledgement types {sorted(set(types))}")
    if len(types) == 1:
        yield Acknowledgement(batch.first_offset, batch.last_offset, EVENTS[types[0]])
        return
    first = batch.first_offset
    for one, alike in groupby(types):
        count = len(list(alike))
        yield Acknowledgement(first, first + count - 1, EVENTS[one])
        first += count


def _invalid(fault: str) -> BrokerError:
    return BrokerError(f"invalid acknowledgements: {fault}", code=ErrorCode.INVALID_REQUEST)
