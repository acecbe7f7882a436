"""The values of auto.offset.reset: an end of the log, or a duration (AutoOffsetResetStrategy in Java, KIP-1106).

A duration is turned into a time, by the client's wall clock, each time a leader is asked.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from levada.base.clock import duration_ms
from levada.types import OffsetSpec

BY_DURATION = "by_duration:"


class ByDuration(NamedTuple):
    """Begin with the first record that is not older than this duration; at the end of the log if there is no such record."""

    ms: int


ResetTo: TypeAlias = OffsetSpec | ByDuration


def reset_policy(auto_offset_reset: str) -> ResetTo | None:
    """Return the policy for a value of auto.offset.reset; None for "none"."""
    if auto_offset_reset.startswith(BY_DURATION):
        return ByDuration(duration_ms(auto_offset_reset.removeprefix(BY_DURATION)))
    return {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST, "none": None}[auto_offset_reset]


def asked_time(to: ResetTo, wall_ms: int) -> int:
    """Return the timestamp for ListOffsets: ms since the epoch, -1 for the end of the log, or -2 for its beginning. wall_ms: now."""
    return max(wall_ms - to.ms, 0) if isinstance(to, ByDuration) else int(to)
