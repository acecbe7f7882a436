"""Keys that every client has: how to reach a cluster, timeouts and back-off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from levada.config import other_clients as foreign
from levada.config.option import INT64_MAX, addresses, boolean, choice, integer, milliseconds, size_bytes, text
from levada.config.security import SecurityConfig

COMMON_NOT_YET = {
    "sasl.*": foreign.SASL,
    "interceptor.classes": "interceptors are not there yet",
    "metric.reporters": foreign.METRICS,
    "metrics.*": foreign.METRICS,
}


class ClientConfig(SecurityConfig):
    """Settings shared by producer, consumer and admin client."""

    WHO: ClassVar[str] = "a client"
    EXAMPLE: ClassVar[str] = "bootstrap_servers='host:9092'"
    NOT_YET: ClassVar[Mapping[str, str]] = COMMON_NOT_YET
    FOREIGN: ClassVar[Mapping[str, str]] = foreign.CLIENT

    bootstrap_servers: tuple[tuple[str, int], ...] = addresses(
        "Brokers to begin with, host:port separated by commas, or a list. Two or three are enough; the rest is learned from them: "
        "the client connects to the addresses in the brokers' advertised.listeners, which must be reachable from where it runs."
    )
    client_id: str = text(
        "",
        "Name under which the broker logs, measures and throttles this client. Default: its kind, as levada-producer-1.",
    )
    client_dns_lookup: str = choice(
        "use_all_dns_ips",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "Try every address a host name resolves to, in turn, before giving up on it. resolve_canonical_bootstrap_servers_only does so "
        "too, and replaces each name in bootstrap.servers by the full names of all its addresses (reverse look-up, KIP-235); making the "
        "client waits for that.",
    )
    request_timeout_ms: int = milliseconds(30_000, "Time a broker has to answer one request before the connection is given up.", low=1)
    default_api_timeout_ms: int = milliseconds(60_000, "Time a blocking call may take when it is given no timeout of its own.", low=1)
    connections_max_idle_ms: int = milliseconds(540_000, "Close a connection that nothing has used for this long.", high=INT64_MAX)
    reconnect_backoff_ms: int = milliseconds(50, "Pause before the first new attempt to connect to a node; doubles with each failure.")
    reconnect_backoff_max_ms: int = milliseconds(1_000, "Longest pause between attempts to connect to a node.")
    retry_backoff_ms: int = milliseconds(100, "Pause before a failed request is sent again; doubles with each failure.")
    retry_backoff_max_ms: int = milliseconds(1_000, "Longest pause before a failed request is sent again.")
    socket_connection_setup_timeout_ms: int = milliseconds(
        10_000, "Time a TCP connection may take to be made; doubles with each failure.", low=1
    )
    socket_connection_setup_timeout_max_ms: int = milliseconds(30_000, "Longest time a TCP connection may take to be made.", low=1)
    socket_keepalive_idle_ms: int = milliseconds(
        60_000,
        "Idle time after which the system asks whether the peer is still there (SO_KEEPALIVE); after three questions without an answer, "
        "10 s apart, the connection is lost. 0 leaves the times to the system, often two hours. Linux; elsewhere it may have no effect. "
        "Not a Kafka setting.",
    )
    socket_user_timeout_ms: int = milliseconds(
        0,
        "Time after which the system gives a connection up whose peer confirms no bytes, or takes none (TCP_USER_TIMEOUT); 0 leaves that "
        "to request.timeout.ms. A broker that enforces a quota takes none for as long as it throttles. Linux only. Not a Kafka setting.",
    )
    send_buffer_bytes: int = size_bytes(
        -1,
        "Kernel send buffer of a socket; -1 leaves it to the system, which fits it to the connection (a fixed size switches that off).",
        low=-1,
    )
    receive_buffer_bytes: int = size_bytes(
        -1,
        "Kernel receive buffer of a socket; -1 leaves it to the system, which fits it to the connection (a fixed size switches that off).",
        low=-1,
    )
    broker_version_fallback: str = choice(
        "",
        ("", "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0"),
        "Release of brokers that do not say what they speak: name it for brokers before 0.10.0, and for no others. "
        "Without it every broker is asked (ApiVersions).",
        advice="name the release without its last number; brokers of later releases are asked, so leave it out for them",
    )
    metadata_max_age_ms: int = milliseconds(
        300_000,
        "Refresh metadata at least this often, to see new brokers and partitions.",
        low=1,
        aliases=("topic.metadata.refresh.interval.ms",),
    )
    bootstrap_wait: bool = boolean(
        True,
        "What calls do while none of bootstrap.servers can be reached: true waits until their time is over; false raises BootstrapError, "
        "or AuthenticationError, once every address has failed. It has no effect once a broker has answered. Not a Kafka setting.",
    )
    metadata_recovery_strategy: str = choice(
        "rebootstrap",
        ("rebootstrap", "none"),
        "What to do when no known broker answers: begin again from bootstrap.servers, or wait (KIP-899).",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = milliseconds(
        300_000, "Begin again from bootstrap.servers, too, when known brokers have given no metadata for this long (KIP-1102)."
    )
    max_response_bytes: int = size_bytes(
        1 << 30,
        "Refuse a response that announces more than this. Not a Kafka setting: Kafka's own client trusts the announcement.",
        low=1024,
        aliases=("receive.message.max.bytes",),
    )

    enable_metrics_push: bool = boolean(
        False,
        "Send those metrics to the brokers that they ask for (KIP-714): what metrics() returns, under the names that the KIP derives from "
        "it. Kafka's own client does so by default.",
    )

    def _check(self) -> None:
        super()._check()
        # Kafka keeps a fixed delay when only the base is raised above the maximum's default.
        for name in ("reconnect_backoff", "retry_backoff", "socket_connection_setup_timeout"):
            base, most = getattr(self, f"{name}_ms"), getattr(self, f"{name}_max_ms")
            if base > most:
                self._settle(f"{name}_max_ms", base)


class AdminConfig(ClientConfig):
    """Settings of KafkaAdmin."""

    WHO: ClassVar[str] = "an admin client"
    INSTEAD: ClassVar[Mapping[str, str]] = {"bootstrap.servers": "bootstrap.controllers"}

    bootstrap_controllers: tuple[tuple[str, int], ...] = addresses(
        "Controllers of a cluster in KRaft mode (Kafka 3.7 or newer), instead of bootstrap.servers: for the quorum, features and settings "
        "while brokers are down (KIP-919). They know no topics and no groups.",
        required=False,
    )

    connections_max_idle_ms: int = milliseconds(300_000, "Close a connection that nothing has used for this long.", high=INT64_MAX)
    retries: int = integer(2**31 - 1, "How often a retriable failure is tried again, within the time of the call.")

    def _check(self) -> None:
        self._check_one_of("bootstrap.servers", "bootstrap.controllers")
        super()._check()
