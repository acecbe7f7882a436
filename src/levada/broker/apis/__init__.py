"""The APIs this broker serves, one module each: how a request is carried out, and how it is refused."""

from __future__ import annotations

from collections.abc import Mapping

from levada.broker.apis import (
    api_versions,
    create_topics,
    delete_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
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
        txn_offset_commit.API,
        offset_delete.API,
    )
}

NAMES: frozenset[str] = frozenset(api.request.NAME for api in SERVED.values())
