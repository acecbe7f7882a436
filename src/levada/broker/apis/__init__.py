"""The APIs this broker serves, one module each: how a request is carried out, and how it is refused."""

from __future__ import annotations

from collections.abc import Mapping

from levada.broker.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    create_topics,
    delete_topics,
    describe_producers,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from levada.broker.state import Api

SERVED: Mapping[int, Api] = {
    api.request.API_KEY: api
    for api in (
        produce.API,
        fetch.API,
        list_offsets.API,
        metadata.API,
        offset_commit.API,
        offset_fetch.API,
        find_coordinator.API,
        api_versions.API,
        create_topics.API,
        delete_topics.API,
        init_producer_id.API,
        offset_for_leader_epoch.API,
        add_partitions_to_txn.API,
        add_offsets_to_txn.API,
        end_txn.API,
        write_txn_markers.API,
        describe_producers.API,
        describe_transactions.API,
        list_transactions.API,
        txn_offset_commit.API,
        offset_delete.API,
    )
}

NAMES: frozenset[str] = frozenset(api.request.NAME for api in SERVED.values())

FAIL_BY_PARTITION = frozenset(
    api.request.NAME
    for api in (
        produce.API,
        fetch.API,
        list_offsets.API,
        offset_commit.API,
        offset_fetch.API,
        offset_for_leader_epoch.API,
        add_partitions_to_txn.API,
        write_txn_markers.API,
        txn_offset_commit.API,
        describe_producers.API,
    )
)
"""The APIs of which a test can let one partition fail."""

NEWEST_BEFORE_KIP_890: Mapping[str, int] = {"Produce": 11, "EndTxn": 4, "WriteTxnMarkers": 1, "TxnOffsetCommit": 4, "ListTransactions": 1}
"""The newest versions that a broker serves whose transaction.version is below 2, if it serves newer ones otherwise."""
