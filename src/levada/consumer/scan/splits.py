"""A scan cut into parts of about the same size, for as many workers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from levada.consumer.scan.ranges import Range
from levada.types import TopicPartition

LEAST_WEIGHT = 1e-9


def split_ranges(
    ranges: Mapping[TopicPartition, Range], weights: Mapping[TopicPartition, float], limit: float
) -> list[dict[TopicPartition, Range]]:
    """Cut ranges into parts that weigh at most `limit`, in order; a part is of one partition, or of several small ones.

    weights: of each offset of a partition. One offset is never cut, whatever it weighs.
    """
    parts: list[dict[TopicPartition, Range]] = []
    room = 0.0
    for tp, (start, end) in ranges.items():
        weight = max(weights[tp], LEAST_WEIGHT)
        while start < end:
            fits = int(room / weight)
            if not parts or fits < min(end - start, max(int(limit / weight), 1)):
                parts.append({})
                room = limit
                fits = max(int(limit / weight), 1)
            stop = min(start + fits, end)
            parts[-1][tp] = Range(start, stop)
            room -= (stop - start) * weight
            start = stop
    return parts
