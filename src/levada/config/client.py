"""Keys that every client has: addresses of the cluster, timeouts and back-off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from levada.base.proxy import Proxy
from levada.config import other_clients as foreign
from levada.config.address import BROKER_PORT
from levada.config.option import INT64_MAX, addresses, boolean, choice, integer, milliseconds, size_bytes, text
from levada.config.proxy import proxy
from levada.config.security import SecurityConfig
from levada.errors import ConfigError

COMMON_NOT_YET = {
    "sasl.*": foreign.SASL,
    "interceptor.classes": "this client has no interceptors",
    "metric.reporters": foreign.METRICS,
    "metrics.*": foreign.METRICS,
}


class ClientConfig(SecurityConfig):
    """Settings of KafkaClient, which producer, consumer, share consumer and admin client have, too."""

    WHO: ClassVar[str] = "a client"
    EXAMPLE: ClassVar[str] = "bootstrap_servers='host:9092'"
    NOT_YET: ClassVar[Mapping[str, str]] = COMMON_NOT_YET
    FOREIGN: ClassVar[Mapping[str, str]] = foreign.CLIENT

    bootstrap_servers: tuple[tuple[str, int], ...] = addresses(
        "Brokers for the first connection: host:port separated by commas, or a list. Two or three are enough; they name all others. "
        "The client then connects to the addresses in the brokers' advertised.listeners, so these must be reachable for it. A host "
        "without a port has port 9092; Kafka's own client refuses it.",
        default_port=BROKER_PORT,
    )
    client_id: str = text(
        "",
        "Name of this client in the broker's logs, metrics and quotas. Default: made from the kind of client, such as levada-producer-1; "
        "for a producer with a transactional.id, made from that.",
    )
    client_dns_lookup: str = choice(
        "use_all_dns_ips",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "Both values: try all addresses of a host name, one after another, before the connection counts as failed. "
        "resolve_canonical_bootstrap_servers_only also replaces each name in bootstrap.servers by the canonical names of all its "
        "addresses (reverse DNS look-up, KIP-235); the client's constructor waits for these look-ups.",
    )
    request_timeout_ms: int = milliseconds(
        30_000, "Time limit for the answer to one request. After it the client closes the connection.", low=1
    )
    default_api_timeout_ms: int = milliseconds(
        60_000, "Time limit of a call that is given no timeout, unless its signature has a default.", low=1
    )
    connections_max_idle_ms: int = milliseconds(540_000, "Close a connection that was not used for this long.", high=INT64_MAX)
    reconnect_backoff_ms: int = milliseconds(50, "Pause before the client connects to a node again; doubles with each failure.")
    reconnect_backoff_max_ms: int = milliseconds(1_000, "Longest pause between attempts to connect to a node.")
    retry_backoff_ms: int = milliseconds(100, "Pause before a failed request is sent again; doubles with each failure.")
    retry_backoff_max_ms: int = milliseconds(1_000, "Longest pause before a failed request is sent again.")
    socket_connection_setup_timeout_ms: int = milliseconds(
        10_000, "Time limit for establishing a TCP connection; doubles with each failure.", low=1
    )
    socket_connection_setup_timeout_max_ms: int = milliseconds(
        30_000, "Upper limit of socket.connection.setup.timeout.ms as it doubles.", low=1
    )
    socket_keepalive_idle_ms: int = milliseconds(
        60_000,
        "Idle time after which the system sends TCP keepalive probes (SO_KEEPALIVE). After three unanswered probes, 10 s apart, the "
        "connection is lost. 0 keeps the system's times, often two hours. For Linux; may have no effect elsewhere. Not a Kafka setting.",
    )
    socket_user_timeout_ms: int = milliseconds(
        0,
        "The system closes a connection if the broker acknowledges no TCP data, or accepts none, for this long (TCP_USER_TIMEOUT). 0: "
        "only request.timeout.ms applies. A broker that enforces a quota accepts no data while it throttles. Linux only. Not a Kafka "
        "setting.",
    )
    send_buffer_bytes: int = size_bytes(
        -1,
        "Size of a socket's send buffer. -1: the system adapts the size to the connection; a fixed size switches that off.",
        low=-1,
    )
    receive_buffer_bytes: int = size_bytes(
        -1,
        "Size of a socket's receive buffer. -1: the system adapts the size to the connection; a fixed size switches that off.",
        low=-1,
    )
    broker_version_fallback: str = choice(
        "",
        ("", "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0"),
        "Release of brokers before 0.10.0, which do not know ApiVersions. Leave it out for newer brokers: the client asks each broker for "
        "its versions.",
        advice="name the release without its last number; leave it out for later releases, which are asked for their versions",
    )
    metadata_max_age_ms: int = milliseconds(
        300_000,
        "Refresh metadata at least once in this time, to see new brokers and partitions.",
        low=1,
        aliases=("topic.metadata.refresh.interval.ms",),
    )
    bootstrap_wait: bool = boolean(
        True,
        "Effect on calls while none of bootstrap.servers can be reached. true: they wait until their timeout. false: they raise "
        "BootstrapError or AuthenticationError once every address has failed. Has no effect after the first broker has answered. Not a "
        "Kafka setting.",
    )
    metadata_recovery_strategy: str = choice(
        "rebootstrap",
        ("rebootstrap", "none"),
        "If no known broker answers: connect to bootstrap.servers again (rebootstrap), or wait for the known brokers (none). KIP-899.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = milliseconds(
        300_000,
        "With metadata.recovery.strategy=rebootstrap: also connect to bootstrap.servers again if the known brokers have returned no "
        "metadata for this long (KIP-1102).",
    )
    proxy_url: Proxy | None = proxy(
        "Proxy for all connections to brokers: socks5://user:password@host:1080, socks5h:// or http://user:password@host:3128 (CONNECT). "
        "socks5h:// and http:// have the proxy look up the brokers' names; with socks5:// this client does. TLS and SASL are between this "
        "client and the broker. The environment's proxies are not used. Not a Kafka setting.",
        aliases=("socks5.proxy",),
    )
    max_response_bytes: int = size_bytes(
        1 << 30,
        "Refuse a response whose size field is larger than this. Not a Kafka setting: Kafka's own client accepts any size.",
        low=1024,
        aliases=("receive.message.max.bytes",),
    )

    enable_metrics_push: bool = boolean(
        False,
        "Send metrics to the brokers if these subscribe to them (KIP-714): the metrics that metrics() returns, under the names that the "
        "KIP derives from theirs. Kafka's own client does so by default.",
    )

    def _check(self) -> None:
        super()._check()
        if self.proxy_url is not None and self.proxy_url.resolves_names and self.client_dns_lookup != "use_all_dns_ips":
            raise ConfigError(f"'client.dns.lookup={self.client_dns_lookup}' looks names up here, and 'proxy.url' has the proxy do that")
        # If the base is above the maximum, the delay is fixed. A maximum that is set limits the base, as in Java's client.
        for name in ("reconnect_backoff", "retry_backoff", "socket_connection_setup_timeout"):
            base, most = getattr(self, f"{name}_ms"), getattr(self, f"{name}_max_ms")
            if base > most and f"{name}_max_ms".replace("_", ".") in self.given:
                self._settle(f"{name}_ms", most)
            elif base > most:
                self._settle(f"{name}_max_ms", base)


class AdminConfig(ClientConfig):
    """Settings of KafkaAdmin."""

    WHO: ClassVar[str] = "an admin client"
    INSTEAD: ClassVar[Mapping[str, str]] = {"bootstrap.servers": "bootstrap.controllers"}

    bootstrap_controllers: tuple[tuple[str, int], ...] = addresses(
        "Controllers of a KRaft cluster (Kafka 3.7 or newer), instead of bootstrap.servers (KIP-919): to manage the quorum, features and "
        "settings while brokers are down. Controllers do not answer requests about topics and groups.",
        required=False,
    )

    connections_max_idle_ms: int = milliseconds(300_000, "Close a connection that was not used for this long.", high=INT64_MAX)
    retries: int = integer(2**31 - 1, "Number of retries of a request that failed with a retriable error, within the call's timeout.")

    def _check(self) -> None:
        self._check_one_of("bootstrap.servers", "bootstrap.controllers")
        super()._check()
