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
    offset_for_leader_epoch,
    produce,
)
from levada.broker.state import Api

SERVED: Mapping[int, Api] = {
    api.request.API_KEY: api
    for api in (
        produce.API,
        fetch.API,
        list_offsets.API,
        metadata.API,
        find_coordinator.API,
        api_versions.API,
        create_topics.API,
        delete_topics.API,
        init_producer_id.API,
        offset_for_leader_epoch.API,
    )
}

NAMES: frozenset[str] = frozenset(api.request.NAME for api in SERVED.values())
