"""Where a record of consumer.acks() stands. The table below is the behaviour; nothing else changes a state.

    WAITING -> AT_WORK -> DONE

A record is WAITING from the poll that brought it until it is handed out: for its turn, or for a record of the same lane before it. The
program has it while it is AT_WORK. It says one of four things of it: done (ACK), to be done again after a while (NACK, which leads through
DELAYED back to WAITING), not to be done at all (REJECT), or that the loop over the records is to end with an error (FAIL, after which the
record is handed out again). A rejected record is done once it is written to the dead-letter topic; where that fails, the program is
told, and the record is handed out again.

LOSE comes when the partition is not this consumer's any more, when its position was moved back by force, or when the records are closed.
What the program says of such a record has no effect.

What can never happen: that two records of a lane are AT_WORK, DELAYED or REJECTED at the same time; that a record is passed by a commit
before it is DONE; that what a program says of an earlier attempt has an effect on a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class RecordState(Enum):
    """See the module's theory."""

    # Each record looks several up, and an Enum's own hash is a call of Python.
    __hash__ = object.__hash__

    WAITING = "waiting to be handed out"
    AT_WORK = "handed out"
    DELAYED = "waiting for its delay to pass"
    REJECTED = "on its way to the dead-letter topic"
    DONE = "done"
    GIVEN_UP = "given up"


class RecordEvent(Enum):
    """What moves a record."""

    __hash__ = object.__hash__

    HAND_OUT = "it was handed out"
    PUT_BACK = "it did not reach the program"
    ACK = "ack()"
    NACK = "nack()"
    REJECT = "reject()"
    FAIL = "fail()"
    DUE = "its delay has passed"
    WRITTEN = "its dead letter is acknowledged"
    UNWRITTEN = "its dead letter could not be written"
    LOSE = "its partition was given up"


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
