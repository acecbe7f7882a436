"""Keeps the metadata fresh: one request at a time, to the least loaded node.

With metadata.recovery.strategy=rebootstrap (KIP-899) the client goes back to the bootstrap addresses when a broker asks for it (KIP-1102);
when no node can be used and no connection lives, because the whole cluster may have moved; and when no update succeeded for
metadata.recovery.rebootstrap.trigger.ms although some were due.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from levada.base.clock import NEVER_MS
from levada.base.promise import Promise
from levada.client.metadata.metadata import Metadata, MetadataQuery
from levada.client.metadata.metadata_source import MetadataSource
from levada.client.network.network_client import NetworkClient
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, UnsupportedVersionError, UnwritableError


class MetadataUpdater:
    """The poller that sends metadata requests.

    rebootstrap: whether metadata.recovery.strategy is rebootstrap. trigger_ms: metadata.recovery.rebootstrap.trigger.ms.
    """

    def __init__(self, metadata: Metadata, source: MetadataSource, network: NetworkClient, *, rebootstrap: bool, trigger_ms: int) -> None:
        self._metadata = metadata
        self._source = source
        self._network = network
        self._rebootstrap = rebootstrap
        self._trigger_ms = trigger_ms
        self._asked: tuple[MetadataQuery, int, str, Promise[Any]] | None = None
        self._failing_since_ms: int | None = None
        network.update_due = self.update_due

    def update_due(self, now_ms: int) -> bool:
        """Whether a metadata request has to be sent now, before any other request."""
        return self._asked is None and self._metadata.due_at_ms(now_ms) <= now_ms

    def due_at_ms(self, now_ms: int) -> int:
        """Return the time, in ms, at which a metadata request has to be sent; NEVER_MS while one is in flight."""
        return NEVER_MS if self._asked is not None else self._metadata.due_at_ms(now_ms)

    def poll(self, now_ms: int) -> int:
        """Handle a response, or send a request if it is time; return the time, in ms, of the next poll."""
        self._take_answer(now_ms)
        if self._asked is not None:
            return NEVER_MS
        due_ms = self._metadata.due_at_ms(now_ms)
        return self._ask(now_ms) if due_ms <= now_ms else due_ms

    def _ask(self, now_ms: int) -> int:
        self._consider_rebootstrap(now_ms)
        node = self._network.least_loaded_node(now_ms)
        if node is None:
            return now_ms + self._network.shortest_delay_ms(now_ms)
        if self._network.ready_for_metadata(node.id, now_ms):
            self._send(node.id, now_ms)
            return NEVER_MS if self._asked is not None else self._metadata.due_at_ms(now_ms)
        return NEVER_MS

    def _send(self, node_id: int, now_ms: int) -> None:
        query = self._metadata.query(now_ms)
        try:
            request, version = self._source.request(query, partial(self._network.version_for, node_id))
        except UnsupportedVersionError as error:
            self._metadata.update_failed(now_ms)
            self._metadata.fail(error)
            return
        promise = self._network.send(node_id, request, now_ms, min_version=version, max_version=version)
        self._asked = (query, version, self._network.address(node_id), promise)

    def _take_answer(self, now_ms: int) -> None:
        if self._asked is None or not self._asked[-1].done:
            return
        (query, version, address, promise), self._asked = self._asked, None
        if promise.error is not None:
            self._metadata.update_failed(now_ms)
            if isinstance(promise.error, UnwritableError):
                # The request cannot be encoded, so no broker will get it, and the waiters would never be woken.
                self._metadata.fail(promise.error)
            else:
                self._note_failing(now_ms)
            return
        try:
            response = self._source.metadata(query, promise.result(), version)
        except BrokerError as error:
            self._metadata.update_failed(now_ms)
            self._metadata.fail(error)
            return
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._metadata.update_failed(now_ms)
            if self._rebootstrap:
                self._metadata.rebootstrap()
            return
        before = self._metadata.version
        cluster_id = self._metadata.snapshot.cluster_id
        self._metadata.update(query, response, version, now_ms, described_by=address)
        self._compare_clusters(cluster_id, self._metadata.snapshot.cluster_id, address)
        if self._metadata.version > before:
            self._failing_since_ms = None

    def _compare_clusters(self, known: str | None, told: str | None, address: str) -> None:
        """Log a warning if a broker reports another cluster id than before. known: the old id. told: the new one. address: the broker's."""
        if known not in (None, told):
            text = "%s belongs to cluster %s, the brokers known so far to cluster %s; going on with it, but check bootstrap.servers"
            self._network.log.warning(text, address, told, known, address=address)

    def _note_failing(self, now_ms: int) -> None:
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms

    def _consider_rebootstrap(self, now_ms: int) -> None:
        if not self._rebootstrap:
            return
        self._note_failing(now_ms)
        assert self._failing_since_ms is not None
        too_long = now_ms - self._failing_since_ms > self._trigger_ms
        if too_long or not self._network.has_usable_node():
            self._metadata.rebootstrap()
        if too_long:
            self._failing_since_ms = now_ms
