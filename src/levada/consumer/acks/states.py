"""The states of a record of consumer.acks(). The table below defines every transition; no other code changes the state.

    WAITING -> AT_WORK -> DONE

A record is WAITING from the poll() that fetched it until it is returned to the program: for its turn, or for an earlier record of the same
lane. While it is AT_WORK, the program has it and reports one of four results: it is done (ACK); it is to be processed again later (NACK,
which leads through DELAYED back to WAITING); it cannot be processed (REJECT); or the loop over the records is to end with an error (FAIL,
after which the record is returned again). Exceeding the time limit of process() counts as FAIL. A rejected record is done once it is
written to the dead-letter topic. If that fails, the error is raised and the record is returned again.

LOSE happens when the partition is revoked, when its position is moved (by a seek, or after log truncation), or when acks() is closed.
Later reports about such a record have no effect.

What can never happen: two records of a lane are AT_WORK, DELAYED or REJECTED at the same time; a commit of positions passes a record that
is neither DONE nor GIVEN_UP; a report about an earlier attempt affects a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class RecordState(Enum):
    """The state of a record of consumer.acks()."""

    # There are several look-ups per record, and the hash of an Enum is a Python call.
    __hash__ = object.__hash__

    WAITING = "waiting to be returned"
    AT_WORK = "with the program"
    DELAYED = "waiting for its delay to pass"
    REJECTED = "on its way to the dead-letter topic"
    DONE = "done"
    GIVEN_UP = "given up"


class RecordEvent(Enum):
    """An event that changes the state of a record."""

    __hash__ = object.__hash__

    HAND_OUT = "it was returned to the program"
    PUT_BACK = "it did not reach the program"
    ACK = "ack()"
    NACK = "nack()"
    REJECT = "reject()"
    FAIL = "fail()"
    DUE = "its delay has passed"
    WRITTEN = "its dead letter is acknowledged"
    UNWRITTEN = "its dead letter could not be written"
    LOSE = "its partition was revoked, its position was moved, or acks() was closed"


_S, _E = RecordState, RecordEvent

TRANSITIONS: Mapping[RecordState, Mapping[RecordEvent, RecordState]] = {
    _S.WAITING: {_E.HAND_OUT: _S.AT_WORK, _E.LOSE: _S.GIVEN_UP},
    _S.AT_WORK: {
        _E.ACK: _S.DONE,
        _E.NACK: _S.DELAYED,
        _E.REJECT: _S.REJECTED,
        _E.FAIL: _S.WAITING,
        _E.PUT_BACK: _S.WAITING,
        _E.LOSE: _S.GIVEN_UP,
    },
    _S.DELAYED: {_E.DUE: _S.WAITING, _E.LOSE: _S.GIVEN_UP},
    _S.REJECTED: {_E.WRITTEN: _S.DONE, _E.UNWRITTEN: _S.WAITING, _E.LOSE: _S.GIVEN_UP},
    _S.DONE: {},
    _S.GIVEN_UP: {},
}
