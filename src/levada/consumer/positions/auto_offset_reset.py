"""Where auto.offset.reset leads: an end of the log, or the first record of the last so many milliseconds (KIP-1106).

A duration becomes a time when a leader is asked, by the client's wall clock, and each time anew.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from levada.base.clock import duration_ms
from levada.types import OffsetSpec

BY_DURATION = "by_duration:"


class ByDuration(NamedTuple):
    """The first record that is no older than this; the end of the log, where there is none."""

    ms: int


ResetTo: TypeAlias = OffsetSpec | ByDuration


def reset_policy(auto_offset_reset: str) -> ResetTo | None:
    """Return where a value of auto.offset.reset leads, None for "none", which raises."""
    if auto_offset_reset.startswith(BY_DURATION):
        return ByDuration(duration_ms(auto_offset_reset.removeprefix(BY_DURATION)))
    return {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST, "none": None}[auto_offset_reset]


def asked_time(to: ResetTo, wall_ms: int) -> int:
    """Return what a leader is asked for (ListOffsets): a time in ms since the epoch, or the number of an end of the log."""
    return max(wall_ms - to.ms, 0) if isinstance(to, ByDuration) else int(to)
