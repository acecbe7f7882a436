"""The values of auto.offset.reset: an end of the log, or a duration (AutoOffsetResetStrategy in Java, KIP-1106).

A duration is turned into a time, by the client's wall clock, each time a leader is asked.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from levada.base.clock import duration_ms
from levada.types import OffsetSpec

BY_DURATION = "by_duration:"


class ByDuration(NamedTuple):
    """The first record that is no older than this duration; the end of the log if there is none."""

    ms: int


ResetTo: TypeAlias = OffsetSpec | ByDuration


def reset_policy(auto_offset_reset: str) -> ResetTo | None:
    """Parse a value of auto.offset.reset. None for "none"."""
    if auto_offset_reset.startswith(BY_DURATION):
        return ByDuration(duration_ms(auto_offset_reset.removeprefix(BY_DURATION)))
    return {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST, "none": None}[auto_offset_reset]


def asked_time(to: ResetTo, wall_ms: int) -> int:
    """Return the timestamp for ListOffsets: a time in ms since the epoch, or -1 or -2 for an end of the log."""
    return max(wall_ms - to.ms, 0) if isinstance(to, ByDuration) else int(to)
