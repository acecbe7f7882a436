"""Carrying out the end of a transaction once it is decided: markers into its partitions, the offsets of its groups (T16).

A coordinator sends WriteTxnMarkers to the partitions' leaders for this. Here it is one step, behind the answer to EndTxn, unless a test has
asked for a fault of WriteTxnMarkers: a delayed or held one comes later, a failed one is repeated after RETRY_MS.
"""

from __future__ import annotations

import logging

from levada.broker.cluster import GROUP_METADATA_TOPIC, Cluster
from levada.broker.coordinators.transaction import Ending
from levada.broker.marker import Marker
from levada.broker.state import BrokerState
from levada.errors import BrokerError
from levada.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from levada.types import TopicPartition

_log = logging.getLogger("levada.broker")

RETRY_MS = 100


def carry_out(state: BrokerState, ending: Ending, now_ms: int) -> None:
    """Write what ends a transaction, and tell its coordinator."""
    fault = state.faults.next_fault(WriteTxnMarkersRequest.NAME, state.node_id)
    if not fault.applied or fault.error_code or fault.drop or fault.disconnect:
        state.do_later(now_ms + RETRY_MS, lambda at_ms: carry_out(state, ending, at_ms))
    elif fault.hold is not None and not fault.hold.is_released:
        fault.hold.keep(state.node_id, lambda at_ms: _write(state, ending, at_ms))
    elif fault.delay_ms:
        state.do_later(now_ms + fault.delay_ms, lambda at_ms: _write(state, ending, at_ms))
    else:
        _write(state, ending, now_ms)


def _write(state: BrokerState, ending: Ending, now_ms: int) -> None:
    wall_ms = state.wall_ms(now_ms)
    marker = Marker(*ending.producer, ending.committed, ending.coordinator_epoch, ending.strict)
    try:
        for name in ending.partitions:
            if name.topic == GROUP_METADATA_TOPIC:
                end_offsets(state.cluster, name, marker)
            else:
                _write_marker(state, name, marker, wall_ms)
    except BrokerError as error:
        # Somebody else has taken over: as in Kafka the transaction stays where it is.
        _log.warning("the end of transaction %r was not written: %s", ending.transactional_id, error)
        return
    state.cluster.transactions.complete(ending, wall_ms)


def end_offsets(cluster: Cluster, place: TopicPartition, marker: Marker) -> None:
    """Decide what a producer has committed for the groups of one partition of the offsets' topic."""
    offsets, place_of = cluster.group_offsets, cluster.group_coordinators.place_of
    groups = [group for group in offsets.open_groups(marker.producer_id) if place_of(group) == place]
    offsets.end_transaction(marker.producer_id, committed=marker.committed, groups=groups)


def _write_marker(state: BrokerState, name: TopicPartition, marker: Marker, wall_ms: int) -> None:
    topic = state.cluster.topic(name.topic)
    if topic is None:
        return  # Deleted in mid-transaction: nothing is left to end.
    partition = state.cluster.partition(topic, name.partition)
    partition.append_marker(marker, wall_ms)
    state.cluster.tell_watchers(partition)
