"""A snapshot of a cluster, and the requests that take it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from levada import ClusterDescription, KafkaAdmin, KafkaError, OffsetAndTimestamp, OffsetSpec, PartitionInfo, TopicPartition
from levada.cli.group_views import GroupView, group_views
from levada.cli.lag import LogEnds
from levada.error_codes import ErrorCode
from levada.errors import BrokerError


class Look(NamedTuple):
    """A snapshot of a cluster. taken_s: its time by a monotonic clock, in seconds. faults: errors of requests for parts of it."""

    taken_s: float
    cluster: ClusterDescription
    partitions: tuple[PartitionInfo, ...]
    ends: Mapping[TopicPartition, LogEnds]
    groups: Mapping[str, GroupView]
    faults: tuple[str, ...] = ()


def look_at(admin: KafkaAdmin, *, internal: bool) -> Look:
    """Ask the brokers for a snapshot. internal: include Kafka's internal topics.

    A topic, group or offset that a broker does not answer for is left out, and its error is among the faults, unless it was deleted
    meanwhile. Raises KafkaError if the cluster, its topics or its groups cannot be listed.
    """
    cluster = admin.describe_cluster()
    described = admin.outcomes(admin.describe_topics, admin.list_topics(internal=internal))
    partitions = tuple(info for found in described.values() if not isinstance(found, KafkaError) for info in found.partitions)
    found = _Ends(admin)
    ends = found.of(TopicPartition(info.topic, info.partition) for info in partitions if info.leader >= 0)
    views = group_views(admin, admin.list_groups(), found.of)
    groups = {name: view for name, view in views.items() if not isinstance(view, KafkaError)}
    return Look(time.monotonic(), cluster, partitions, ends, groups, _faults([*described.values(), *views.values(), *found.errors]))


class _Ends:
    """The starts and ends of logs. Each partition is looked up once."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin
        self._known: dict[TopicPartition, LogEnds | None] = {}
        self.errors: list[KafkaError] = []

    def of(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnds]:
        """Return the start and end of each log. Partitions that could not be looked up are left out."""
        wanted = list(wanted)
        fresh = [tp for tp in wanted if tp not in self._known]
        starts, ends = self._listed(fresh, OffsetSpec.EARLIEST), self._listed(fresh, OffsetSpec.LATEST)
        self._known |= {tp: LogEnds(starts[tp], ends[tp]) if tp in starts and tp in ends else None for tp in fresh}
        return {tp: at for tp in wanted if (at := self._known[tp]) is not None}

    def _listed(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        outcomes = self._admin.outcomes(self._admin.list_offsets, dict.fromkeys(partitions, spec))
        self.errors += [found for found in outcomes.values() if isinstance(found, KafkaError)]
        return {tp: found.offset for tp, found in outcomes.items() if isinstance(found, OffsetAndTimestamp)}


def _faults(outcomes: Iterable[object]) -> tuple[str, ...]:
    # A topic or group that was deleted between two requests is not an error. It is not shown any more.
    gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)
    errors = [one for one in outcomes if isinstance(one, KafkaError)]
    return tuple(dict.fromkeys(str(error) for error in errors if not (isinstance(error, BrokerError) and error.code in gone)))
