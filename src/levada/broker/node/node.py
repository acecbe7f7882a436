"""One broker of a cluster, without sockets, threads or a clock.

A driver reports connections, and passes whole frames with the time. The node keeps responses until the driver fetches them. The requests of
one connection are processed one after another and answered in that order. While one of them waits, such as a Fetch in the purgatory, the
connection is muted, and later requests wait. A request that cannot be decoded, or whose version is not served, closes its connection. Only
ApiVersions is answered in every version, so that client and broker can find a common one (KIP-511).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from levada.base.promise import Promise
from levada.broker.access.logins import Login
from levada.broker.apis import FAIL_BY_PARTITION, NAMES, NEWEST_BEFORE_KIP_890, SERVED, TELEMETRY
from levada.broker.apis.cluster import api_versions
from levada.broker.cluster.cluster import DEFAULT, Cluster
from levada.broker.cluster.features import TRANSACTIONS
from levada.broker.cluster.storage import IN_MEMORY, ClusterStorage
from levada.broker.cluster.topic import Topic
from levada.broker.config.settings import BrokerSettings
from levada.broker.config.topics import TopicConfig
from levada.broker.coordinators.groups.groups import GroupCoordinator
from levada.broker.coordinators.transactions.end_markers import write_end_markers
from levada.broker.coordinators.transactions.transactions import BUMPING_VERSION
from levada.broker.log.compaction import clean
from levada.broker.log.log import PartitionLog
from levada.broker.network.connection import Connection, Frame, Listener, Session
from levada.broker.node.faults import Fault, Faults
from levada.broker.node.fetch_sessions import FetchSessions
from levada.broker.node.purgatory import Delayed, PeriodicTask, Purgatory, Timers
from levada.broker.node.request_pipeline import HANDLE
from levada.broker.node.state import Answer, Api, BrokerState, Call, Unanswered, VersionRange
from levada.broker.quotas.throttles import IDLE_MS, Throttles
from levada.broker.replication.partition import Partition
from levada.broker.share.share_partitions import SharePartitions
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, CorruptRecordError, ProtocolError
from levada.logs import Log
from levada.protocol.frame import RequestFrame, UnsupportedRequestError, decode_request, encode_response_parts
from levada.protocol.header import decode_request_start
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.schema import ZERO_UUID, Response
from levada.types import Node, setting_text
from levada.wire.varint import Bytes

_log = Log("levada.broker")

NOT_SERVED = -1


class BrokerNode:
    """A broker without sockets. Keyword arguments are Kafka's broker settings in snake_case (BrokerSettings).

    listeners: all nodes of a cluster need the same ones. rack: the node's rack, for consumers with client.rack. cluster, faults: the
    objects that this node shares with the other nodes of a cluster; without them the node is a cluster of its own. wall_offset_ms:
    milliseconds since the epoch, minus now_ms. random: the source of ids for a cluster of its own; the same seed gives the same ids.
    storage: the storage of a cluster of its own; if given, call cluster.restore() before the node serves.
    """

    def __init__(
        self,
        *,
        node_id: int = 1,
        host: str = "127.0.0.1",
        port: int = 9092,
        rack: str | None = None,
        wall_offset_ms: int = 0,
        cluster: Cluster | None = None,
        faults: Faults | None = None,
        random: Random | None = None,
        storage: ClusterStorage = IN_MEMORY,
        listeners: Sequence[Listener] = (Listener(),),
        **settings: Any,
    ) -> None:
        self._started = BrokerSettings.of(**settings)
        self.cluster = cluster or Cluster(self._started, random or Random(node_id), storage)
        broker_settings = self.cluster.settings_at(node_id, self._started)
        self.faults = faults or Faults(NAMES, FAIL_BY_PARTITION)
        self._purgatory = Purgatory()
        groups = self._group_coordinator(node_id, broker_settings)
        self._state = BrokerState(
            settings=broker_settings,
            cluster=self.cluster,
            node_id=node_id,
            faults=self.faults,
            purgatory=self._purgatory,
            fetch_sessions=FetchSessions(broker_settings.max_incremental_fetch_session_cache_slots, Random(node_id)),
            groups=groups,
            shares=self._share_partitions(node_id, broker_settings.group_share_max_share_sessions),
            throttles=Throttles(
                self.cluster.access.client_quotas, broker_settings.quota_window_num, broker_settings.quota_window_size_seconds * 1000
            ),
            wall_offset_ms=wall_offset_ms,
            version_ranges=self._version_ranges,
            started=self._settings_of_start,
        )
        self._rack = rack
        self._listeners = {listener.name: listener for listener in listeners}
        self._connections: dict[int, Connection] = {}
        self._runnable: deque[Connection] = deque()
        self._outgoing: list[tuple[int, list[Bytes] | None]] = []
        self._now_ms = 0
        self._has_begun = False
        self._cleaning = PeriodicTask(broker_settings.log_cleaner_backoff_ms, self._compact)
        self._chores = [
            PeriodicTask(broker_settings.log_retention_check_interval_ms, self._apply_retention),
            self._cleaning,
            PeriodicTask(max(broker_settings.replica_lag_time_max_ms // 2, 1), lambda now_ms: self.cluster.drop_lagging(self.id)),
            PeriodicTask(broker_settings.transaction_abort_timed_out_transaction_cleanup_interval_ms, self._abort_late_transactions),
            PeriodicTask(broker_settings.transaction_remove_expired_transaction_cleanup_interval_ms, self._expire_transactional_ids),
            PeriodicTask(broker_settings.offsets_retention_check_interval_ms, groups.expire),
            PeriodicTask(IDLE_MS, self._forget_idle_clients),
            PeriodicTask(broker_settings.delegation_token_expiry_check_interval_ms, self._forget_ended_tokens),
        ]
        self.cluster.watch(lambda partition: self._purgatory.wake(partition.name, self._now_ms))
        self.cluster.watch_settings(self._take_settings)
        self.cluster.group_coordinators.watch(lambda: groups.follow_placement(self.cluster.now_ms))
        for listener in listeners:
            self.advertise(host, port, listener.name)

    @property
    def settings(self) -> BrokerSettings:
        """The node's broker settings as they are now, after dynamic changes."""
        return self._state.settings

    @property
    def id(self) -> int:
        """The node's id."""
        return self._state.node_id

    def measure_work(self, work_ns: Callable[[], int]) -> None:
        """Set the clock for the quota request_percentage. work_ns: returns the processor time used so far, in nanoseconds."""
        self._state.work_ns = work_ns

    @property
    def wall_offset_ms(self) -> int:
        """Milliseconds since the epoch, minus the node's time now_ms."""
        return self._state.wall_offset_ms

    @wall_offset_ms.setter
    def wall_offset_ms(self, offset: int) -> None:
        self._state.wall_offset_ms = offset

    # For tests and tools

    def advertise(self, host: str, port: int, listener: str = "") -> None:
        """Set the address of a listener in responses, such as Metadata's. listener: its name, by default the first listener."""
        self.cluster.join(Node(self.id, host, port, self._rack), self._listener(listener).name)

    def create_topic(self, name: str, partitions: int = DEFAULT, config: Mapping[str, str | float | None] | None = None) -> Topic:
        """Create a topic like CreateTopics. Raises BrokerError or ConfigError with the reason."""
        return self.cluster.add(self.cluster.plan(name, partitions, config=_texts(config or {})))

    def delete_topic(self, name: str) -> None:
        """Delete a topic like DeleteTopics. Raises UnknownTopicOrPartitionError."""
        self.cluster.remove(self._state.find_topic(name, ZERO_UUID, by_id=False))

    def configure_group(self, group: str, config: Mapping[str, str | float | None]) -> None:
        """Change settings of a group like IncrementalAlterConfigs; None restores the default. Raises ConfigError with the reason."""
        known = self.cluster.group_config(group)
        overrides = {name: text for name, text in {**known.overrides, **_texts(config)}.items() if text is not None}
        self.cluster.configure_group(group, known.with_overrides(overrides))

    def time_out_transaction(self, transactional_id: str) -> None:
        """Abort an open transaction as if its timeout had passed. Raises IllegalStateError if none is open."""
        write_end_markers(self._state, self.cluster.transactions.abort(transactional_id, self._state.wall_ms(self._now_ms)), self._now_ms)

    def expire_transactional_id(self, transactional_id: str) -> None:
        """Remove a transactional id as if it had expired. Raises IllegalStateError if it is unknown, or if its transaction is open or not
        yet completed.
        """
        self.cluster.transactions.forget(transactional_id, self._state.wall_ms(self._now_ms))

    def sessions(self) -> list[Session]:
        """Return copies of the sessions of all connections, in the order in which the clients connected."""
        return [replace(connection.session) for connection in self._connections.values()]

    def forget_fetch_sessions(self) -> None:
        """Remove all fetch sessions. Clients then get FETCH_SESSION_ID_NOT_FOUND and open new sessions."""
        self._state.fetch_sessions.clear()

    def log(self, topic: str, partition: int = 0) -> PartitionLog:
        """Return the log of a partition's leader, wherever it is. Raises UnknownTopicOrPartitionError."""
        return self._state.hosted_partition(self.cluster.topic(topic), partition).log

    # For drivers

    def connect(self, conn_id: int, address: str = "", listener: str = "") -> None:
        """Add the connection of a client. address: the client's host:port, "" if unknown. listener: the name of the listener to which it
        has connected, "" for the first one.
        """
        found = self._listener(listener)
        login = None if found.logins is None else Login(found.logins)
        self._connections[conn_id] = Connection(Session(connection_id=conn_id, address=address, listener=found, login=login))

    def identify(self, conn_id: int, name: str) -> None:
        """Set the principal of a client that has sent a TLS certificate. name: the subject of the certificate, "" if there is none. On a
        listener with logins, the login sets the principal.
        """
        connection = self._connections.get(conn_id)
        if connection is not None and name and connection.session.login is None:
            connection.session.principal = f"User:{name}"

    def disconnect(self, conn_id: int) -> None:
        """Remove the connection of a client: its waiting requests are dropped, and its share sessions are closed in the next advance()."""
        self._connections.pop(conn_id, None)
        self._purgatory.cancel(conn_id)
        if self._state.shares.sessions.of_connection(conn_id):
            # Other members may get the records. Their responses are sent in a step of the node, not in this call.
            self._state.call_at(self._now_ms, lambda now_ms: self._state.shares.end_sessions_of(conn_id, now_ms))

    def has_to_log_in(self, conn_id: int) -> bool:
        """Return whether the client of a connection must log in and is not authenticated: before, or while it logs in again."""
        connection = self._connections.get(conn_id)
        return connection is not None and connection.session.login is not None and not connection.session.login.user

    def is_busy(self, conn_id: int) -> bool:
        """Return whether the next request of the connection is not processed yet, because a request waits for its response or the client is
        throttled.
        """
        connection = self._connections.get(conn_id)
        return connection is not None and connection.muted

    def receive(self, conn_id: int, frame: Frame, now_ms: int) -> None:
        """Process a request that was received, after those of the connection that still wait. frame: the whole request without its size
        prefix.
        """
        connection = self._connections.get(conn_id)
        if connection is not None:
            self._begin(now_ms)
            sent = len(self._outgoing)
            connection.waiting.append(frame)
            self._runnable.append(connection)
            self._run(now_ms)
            self._keep_groups(sent, now_ms)

    def outgoing(self) -> list[tuple[int, bytes | None]]:
        """Remove and return the responses to send, in order, as pairs of a connection id and a frame with its size prefix. None instead of
        a frame means that the connection has to be closed.
        """
        return [(conn_id, None if pieces is None else b"".join(pieces)) for conn_id, pieces in self.outgoing_pieces()]

    def outgoing_pieces(self) -> list[tuple[int, list[Bytes] | None]]:
        """Do the same as outgoing(), but return each frame as a list of pieces. Records are slices of the log, which are not copied."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def advance(self, now_ms: int) -> int:
        """Do all work that is due at now_ms; return when to be called again, in ms."""
        self._begin(now_ms)
        self._now_ms = self.cluster.now_ms = now_ms
        for act in self.faults.released(self.id):
            act(now_ms)
        self._purgatory.expire(now_ms)
        # What is sent so far is about no change of a group that has to be stored.
        sent = len(self._outgoing)
        self._run(now_ms)
        next_chore_ms = min([chore.run(now_ms) for chore in self._chores])
        self._keep_groups(sent, now_ms)
        return min(self._purgatory.next_deadline_ms(), next_chore_ms)

    # Inside

    def _begin(self, now_ms: int) -> None:
        """Start the sessions of stored group members in the first call. When the groups were loaded, the current time was not known."""
        if not self._has_begun:
            self._has_begun = True
            self._state.groups.begin(now_ms)

    def _keep_groups(self, sent: int, now_ms: int) -> None:
        """Store the changes of groups; if that fails, the next step tries again. sent: the number of outgoing responses that are about none
        of these changes.

        No client must get a response about a change that is not stored. So each client that would get one of the other responses loses its
        connection instead, and has to ask again.
        """
        try:
            self._state.groups.keep(now_ms)
        except BrokerError as fault:
            _log.error("changes of groups cannot be stored yet: %s", fault)
            unsent = dict.fromkeys(conn_id for conn_id, _ in self._outgoing[sent:])
            del self._outgoing[sent:]
            for conn_id in unsent:
                self.disconnect(conn_id)
                self._outgoing.append((conn_id, None))

    def _listener(self, name: str) -> Listener:
        return self._listeners[name or next(iter(self._listeners))]

    def _take_settings(self) -> None:
        self._state.settings = self.cluster.settings_at(self.id, self._started)
        self._cleaning.interval_ms = self.settings.log_cleaner_backoff_ms

    def _settings_of_start(self) -> dict[str, str]:
        """Return the settings that are not given but follow from the node's arguments, such as its listeners, by Kafka's names."""
        at = {name: self.cluster.nodes_at(name)[self.id] for name in self._listeners}
        addresses = ",".join(f"{name}://{_host_and_port(node)}" for name, node in at.items())
        mechanisms = [one for listener in self._listeners.values() if listener.logins is not None for one in listener.logins.mechanisms]
        return {
            "node.id": str(self.id),
            "broker.id": str(self.id),
            "process.roles": "broker,controller",
            "log.dirs": self.cluster.log_dir(self.id).path,
            "listeners": addresses,
            "advertised.listeners": addresses,
            "listener.security.protocol.map": ",".join(f"{name}:{listener.protocol}" for name, listener in self._listeners.items()),
            **({} if self._rack is None else {"broker.rack": self._rack}),
            **({"sasl.enabled.mechanisms": ",".join(dict.fromkeys(mechanisms))} if mechanisms else {}),
        }

    def _group_coordinator(self, node_id: int, settings: BrokerSettings) -> GroupCoordinator:
        return GroupCoordinator(
            settings=settings,
            node_id=node_id,
            placement=self.cluster.group_coordinators,
            stored=self.cluster.stored_groups,
            timers=Timers(self._purgatory),
            topics=self.cluster.topics_for_groups,
            config_of=self.cluster.group_config,
            wall_ms=lambda now_ms: self._state.wall_ms(now_ms),
            new_id=lambda: str(self.cluster.new_uuid()),
        )

    def _share_partitions(self, node_id: int, slots: int) -> SharePartitions:
        return SharePartitions(
            node_id=node_id,
            cluster=self.cluster,
            slots=slots,
            timers=Timers(self._purgatory),
            purgatory=self._purgatory,
            wall_ms=lambda now_ms: self._state.wall_ms(now_ms),
        )

    def _apply_retention(self, now_ms: int) -> None:
        wall_ms = self._state.wall_ms(now_ms)
        for topic in self.cluster.topics.values():
            for partition in topic.partitions:
                if partition.leader == self.id:
                    with _logging_errors_of(partition, "has old records that cannot be deleted"):
                        partition.retain(wall_ms)
                    partition.expire_producers(wall_ms - self.settings.producer_id_expiration_ms)

    def _compact(self, now_ms: int) -> None:
        for topic in self.cluster.topics.values():
            config = topic.config_at(self.id)
            for partition in topic.partitions if config.is_compacted else ():
                if self.id in partition.replicas:
                    self._clean(partition, config, now_ms)

    def _clean(self, partition: Partition, config: TopicConfig, now_ms: int) -> None:
        with _logging_errors_of(partition, "cannot be compacted, and stays as it is"):
            clean(partition.replicas[self.id], config, self._state.wall_ms(now_ms))

    def _abort_late_transactions(self, now_ms: int) -> None:
        for markers in self.cluster.transactions.time_out(self.id, self._state.wall_ms(now_ms)):
            write_end_markers(self._state, markers, now_ms)

    def _expire_transactional_ids(self, now_ms: int) -> None:
        self.cluster.transactions.expire(self.id, self._state.wall_ms(now_ms))

    def _forget_idle_clients(self, now_ms: int) -> None:
        self._state.throttles.forget_idle(now_ms)
        self.cluster.access.mutations.forget_idle(now_ms)

    def _forget_ended_tokens(self, now_ms: int) -> None:
        self.cluster.access.delegation_tokens.forget_ended(self._state.wall_ms(now_ms))

    def _version_ranges(self) -> list[VersionRange]:
        ranges = [VersionRange(key, api.advertised_oldest, self._newest(api)) for key, api in SERVED.items()]
        return [served for served in ranges if served.max_version >= 0]

    def _newest(self, api: Api) -> int:
        name = api.request.NAME
        if name in TELEMETRY and not self.settings.client_telemetry:
            return NOT_SERVED
        bumps = self.cluster.features.level(TRANSACTIONS) >= BUMPING_VERSION
        newest = api.newest if bumps else NEWEST_BEFORE_KIP_890.get(name, api.newest)
        return self.faults.max_version(name, newest)

    def _run(self, now_ms: int) -> None:
        # A queue, not recursion: a response may start the next request, which may complete a request of another connection, and so on.
        self._now_ms = self.cluster.now_ms = now_ms
        while self._runnable:
            connection = self._runnable.popleft()
            if connection.waiting and not connection.muted and self._is_open(connection):
                connection.muted = True
                self._process(connection, connection.waiting.popleft())

    def _process(self, connection: Connection, frame: Frame) -> None:
        try:
            login = connection.session.login
            if login is not None and not login.permits(decode_request_start(frame).api_key, self._now_ms):
                # It is not decoded: before the login, any client could cause that work.
                self._close(connection, "it has to log in first")
                return
            request = decode_request(frame)
        except UnsupportedRequestError as fault:
            self._refuse_version(connection, fault.api_key, fault.correlation_id, str(fault))
            return
        except ProtocolError as fault:
            self._close(connection, str(fault))
            return
        api = SERVED.get(request.api_key)
        if api is None or not api.oldest <= request.version <= self._newest(api):
            reason = f"API {request.api_key} version {request.version} is not served"
            self._refuse_version(connection, request.api_key, request.correlation_id, reason)
            return
        _Exchange(self, connection, request, api, len(frame)).run()

    def _refuse_version(self, connection: Connection, api_key: int, correlation_id: int, reason: str) -> None:
        own = next((served for served in self._version_ranges() if served.api_key == api_key == ApiVersionsRequest.API_KEY), None)
        if own is None or self.faults.closes_at_newer(ApiVersionsRequest.NAME):
            self._close(connection, reason)
            return
        self._send(connection, encode_response_parts(api_versions.unsupported(own), 0, correlation_id))

    def _send(self, connection: Connection, frame: list[Bytes]) -> None:
        if self._is_open(connection):
            self._outgoing.append((connection.id, frame))
            self._unmute(connection)

    def _send_throttled(self, connection: Connection, frame: list[Bytes], pause_ms: int) -> None:
        if self._is_open(connection):
            self._outgoing.append((connection.id, frame))
            self._unmute_after(connection, pause_ms)

    def _unmute_after(self, connection: Connection, pause_ms: int) -> None:
        if not pause_ms:
            self._unmute(connection)
            return
        over = Delayed(lambda: False, lambda now_ms: self._unmute(connection), (), connection.id)
        self._purgatory.add(over, self._now_ms + pause_ms)

    def _send_cut(self, connection: Connection, frame: list[Bytes], size: int) -> None:
        if self._is_open(connection):
            self._outgoing.append((connection.id, [b"".join(frame)[:size]]))
            self._close(connection, "planned by a test")

    def _unmute(self, connection: Connection) -> None:
        connection.muted = False
        if connection.waiting:
            self._runnable.append(connection)

    def _is_open(self, connection: Connection) -> bool:
        return self._connections.get(connection.id) is connection

    def _close(self, connection: Connection, reason: str) -> None:
        if self._is_open(connection):
            _log.info("closing %s: %s", connection.session, reason)
            self.disconnect(connection.id)
            self._outgoing.append((connection.id, None))


class _Exchange:
    """Processes one request, from the decoded request to its response, including the fault that a test has requested."""

    def __init__(self, node: BrokerNode, connection: Connection, frame: RequestFrame, api: Api, size_bytes: int) -> None:
        self._node = node
        self._connection = connection
        self._frame = frame
        self._api = api
        self._fault: Fault = node.faults.next_fault(api.request.NAME, node.id)
        self._call = Call(
            state=node._state,
            session=connection.session,
            api=api,
            request=frame.request,
            version=frame.version,
            client_id=frame.client_id,
            now_ms=node._now_ms,
            size_bytes=size_bytes,
        )

    def run(self) -> None:
        """Handle the request unless its fault prevents this, and send the response, at once or when its promise is resolved."""
        answer = self._handle() if self._fault.applied else None
        if self._fault.error_code is not ErrorCode.NONE:
            answer = self._refusal(self._fault.error_code)
        if isinstance(answer, Promise):
            answer.on_done(lambda promise: self._answer(promise.result()))
        elif isinstance(answer, Unanswered):
            self._finish_unanswered(answer)
        else:
            self._answer(answer)

    def _handle(self) -> Answer:
        try:
            return HANDLE(self._call)
        except Exception as bug:
            api, session = self._api.request.NAME, self._connection.session
            _log.error("%s version %d failed, %s", api, self._frame.version, session, error=bug)
            return self._refusal(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _refusal(self, code: ErrorCode) -> Response | Unanswered:
        if self._api.is_silent(self._frame.request):
            return Unanswered(close=True)
        return self._api.refuse(self._frame.request, self._frame.version, code)

    def _finish_unanswered(self, answer: Unanswered) -> None:
        if answer.close or self._fault.disconnect:
            self._node._close(self._connection, "a request without a response failed")
        elif not self._fault.drop:
            self._node._unmute_after(self._connection, self._call.throttle_ms)

    def _answer(self, response: Response | None) -> None:
        if self._fault.disconnect:
            self._node._close(self._connection, "planned by a test")
        elif self._fault.hold is not None and not self._fault.hold.is_released and response is not None:
            self._fault.hold.keep(self._node.id, lambda now_ms: self._send(response))
        elif self._fault.delay_ms and response is not None:
            self._delay(response)
        elif response is not None and not self._fault.drop:
            self._send(response)

    def _send(self, response: Response) -> None:
        pause_ms, cut_at = max(self._fault.throttle_ms, self._call.throttle_ms), self._fault.cut_at
        if cut_at is not None:
            self._node._send_cut(self._connection, self._encoded(response), cut_at)
        elif pause_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = pause_ms
            self._node._send_throttled(self._connection, self._encoded(response), pause_ms)
        else:
            self._node._send(self._connection, self._encoded(response))
        if self._connection.session.is_refused:
            self._node._close(self._connection, "its login failed")

    def _delay(self, response: Response) -> None:
        fault, self._fault = self._fault, Fault(applied=True)
        delayed = Delayed(lambda: False, lambda now_ms: self._answer(response), (), self._connection.id)
        self._node._purgatory.add(delayed, self._node._now_ms + fault.delay_ms)

    def _encoded(self, response: Response) -> list[Bytes]:
        return encode_response_parts(response, self._frame.version, self._frame.correlation_id)


def _host_and_port(node: Node) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


def _texts(config: Mapping[str, str | float | None]) -> dict[str, str | None]:
    return {name: None if value is None else setting_text(value) for name, value in config.items()}


@contextmanager
def _logging_errors_of(partition: Partition, what: str) -> Iterator[None]:
    """Log an error of one partition, such as a damaged log or a failing disk, that is raised in the `with` block. The other partitions are
    still served.
    """
    try:
        yield
    except (BrokerError, CorruptRecordError) as fault:
        _log.warning("%s %s: %s", partition.name, what, fault)
