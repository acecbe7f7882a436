"""The settings of each client as keywords, for type checkers and editors: `def __init__(self, ..., **settings: Unpack[ProducerSettings])`.

Written by `make docs` (levada.config.typed_source) from the declarations beside it; do not edit. A test keeps it current. Nothing imports
it at run time. Values are named with one type each; a mapping may also hold text, as from a properties file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Generic, Literal, TypedDict

from levada.interceptors import ProducerInterceptor
from levada.serialization import K_in, Sendable, V_in
from levada.types import K, V


class ClientSettings(TypedDict, total=False):
    """Settings of KafkaClient."""

    bootstrap_servers: str | Sequence[str | tuple[str, int]]
    """Brokers to begin with, host:port separated by commas, or a list. Two or three are enough; the rest is learned from them: the client
    connects to the addresses in the brokers' advertised.listeners, which must be reachable from where it runs."""

    client_id: str
    """Name under which the broker logs, measures and throttles this client. Default: its kind, as levada-producer-1."""

    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """Try every address a host name resolves to, in turn, before giving up on it. resolve_canonical_bootstrap_servers_only does so too, and
    replaces each name in bootstrap.servers by the full names of all its addresses (reverse look-up, KIP-235); making the client waits for
    that. Default: use_all_dns_ips."""

    security_protocol: Literal["PLAINTEXT"]
    """How to talk to the brokers. Only PLAINTEXT exists so far. Default: PLAINTEXT."""

    request_timeout_ms: int
    """Time a broker has to answer one request before the connection is given up. Default: 30000 ms."""

    default_api_timeout_ms: int
    """Time a blocking call may take when it is given no timeout of its own. Default: 60000 ms."""

    connections_max_idle_ms: int
    """Close a connection that nothing has used for this long. Default: 540000 ms."""

    reconnect_backoff_ms: int
    """Pause before the first new attempt to connect to a node; doubles with each failure. Default: 50 ms."""

    reconnect_backoff_max_ms: int
    """Longest pause between attempts to connect to a node. Default: 1000 ms."""

    retry_backoff_ms: int
    """Pause before a failed request is sent again; doubles with each failure. Default: 100 ms."""

    retry_backoff_max_ms: int
    """Longest pause before a failed request is sent again. Default: 1000 ms."""

    socket_connection_setup_timeout_ms: int
    """Time a TCP connection may take to be made; doubles with each failure. Default: 10000 ms."""

    socket_connection_setup_timeout_max_ms: int
    """Longest time a TCP connection may take to be made. Default: 30000 ms."""

    socket_keepalive_idle_ms: int
    """Idle time after which the system asks whether the peer is still there (SO_KEEPALIVE); after three questions without an answer, 10 s
    apart, the connection is lost. 0 leaves the times to the system, often two hours. Linux; elsewhere it may have no effect. Not a Kafka
    setting. Default: 60000 ms."""

    socket_user_timeout_ms: int
    """Time after which the system gives a connection up whose peer confirms no bytes, or takes none (TCP_USER_TIMEOUT); 0 leaves that to
    request.timeout.ms. A broker that enforces a quota takes none for as long as it throttles. Linux only. Not a Kafka setting. Default: 0
    ms."""

    send_buffer_bytes: int
    """Kernel send buffer of a socket; -1 leaves it to the system, which fits it to the connection (a fixed size switches that off).
    Default: -1 bytes."""

    receive_buffer_bytes: int
    """Kernel receive buffer of a socket; -1 leaves it to the system, which fits it to the connection (a fixed size switches that off).
    Default: -1 bytes."""

    broker_version_fallback: Literal["", "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0"]
    """Release of brokers that do not say what they speak: name it for brokers before 0.10.0, and for no others. Without it every broker is
    asked (ApiVersions)."""

    metadata_max_age_ms: int
    """Refresh metadata at least this often, to see new brokers and partitions. Default: 300000 ms."""

    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """What to do when no known broker answers: begin again from bootstrap.servers, or wait (KIP-899). Default: rebootstrap."""

    metadata_recovery_rebootstrap_trigger_ms: int
    """Begin again from bootstrap.servers, too, when known brokers have given no metadata for this long (KIP-1102). Default: 300000 ms."""

    max_response_bytes: int
    """Refuse a response that announces more than this. Not a Kafka setting: Kafka's own client trusts the announcement. Default: 1073741824
    bytes."""


class AdminSettings(ClientSettings, total=False):
    """Settings of KafkaAdmin."""

    retries: int
    """How often a retriable failure is tried again, within the time of the call. Default: 2147483647."""


class ConsumerSettings(ClientSettings, Generic[K, V], total=False):
    """Settings of KafkaConsumer."""

    key_deserializer: Callable[[bytes], K] | None
    """Turns a key's bytes into an object; without one, keys are bytes or None."""

    value_deserializer: Callable[[bytes], V] | None
    """Turns a value's bytes into an object; without one, values are bytes or None."""

    group_id: str | None
    """Group for which offsets are committed. Assigned partitions without a position begin at what it has committed. The consumer is no
    member of it: what it reads is for assign() to say."""

    enable_auto_commit: bool
    """Whether positions are committed by calls for records, every auto.commit.interval.ms, and at close(). Never more than was handed out
    by earlier calls. Without a group.id it is off. Default: True."""

    auto_commit_interval_ms: int
    """Time between automatic commits. Default: 5000 ms."""

    auto_offset_reset: Literal["latest", "earliest", "none"]
    """Where to begin without a position and without a committed offset, or when the position is out of range or of a deleted topic; none
    raises. Default: latest."""

    max_poll_records: int
    """Records one poll() returns at most. Default: 500."""

    fetch_min_bytes: int
    """The broker answers a fetch once it has this much, or fetch.max.wait.ms has passed. Default: 1 bytes."""

    fetch_max_bytes: int
    """Soft limit of one fetch response; the first batch always passes. Default: 52428800 bytes."""

    fetch_max_wait_ms: int
    """How long the broker may wait for fetch.min.bytes. Default: 500 ms."""

    max_partition_fetch_bytes: int
    """Soft limit of one partition's share of a fetch response. Default: 1048576 bytes."""

    fetch_buffer_bytes: int
    """Fetched data, of paused partitions too, that may be held before nothing more is fetched but what is needed to go on. A response that
    is on its way then still comes in. Not a Kafka setting; librdkafka's is queued.max.messages.kbytes. Default: 67108864 bytes."""

    isolation_level: Literal["read_uncommitted", "read_committed"]
    """Whether records of open and aborted transactions are seen. Default: read_uncommitted."""

    check_crcs: bool
    """Verify each batch's checksum before it is read. Default: True."""

    max_decompressed_bytes: int
    """Largest size one batch may decompress to. Not a Kafka setting: it bounds the harm of a hostile batch. Default: 67108864 bytes."""

    client_rack: str
    """Rack of this client; brokers may point to a replica in the same one (KIP-392)."""

    allow_auto_create_topics: bool
    """Whether asking for an unknown topic may create it, where the broker allows that. Default: True."""


class ProducerSettings(ClientSettings, Generic[K_in, V_in], total=False):
    """Settings of KafkaProducer."""

    key_serializer: Callable[[K_in], Sendable | None] | None
    """Turns a key into bytes; without one, keys are bytes, str (as UTF-8) or None."""

    value_serializer: Callable[[V_in], Sendable | None] | None
    """Turns a value into bytes; without one, values are bytes, str (as UTF-8) or None."""

    interceptors: Sequence[ProducerInterceptor]
    """Objects that see each record before it is serialized and its outcome afterwards (KIP-42): see levada.ProducerInterceptor.
    send_arrow() is refused with them, since they see records one by one."""

    partitioner: Callable[[str, bytes | None, int], int] | None
    """Chooses a partition: partitioner(topic, key, partition_count) -> int, and for columns, if it has it, partition_rows(topic, keys,
    partition_count) -> integers; levada.RoundRobin() is one. Default: Java's: murmur2 of the key, sticky without one."""

    partitioner_adaptive_partitioning_enable: bool
    """Send fewer keyless records to partitions whose broker is behind (KIP-794). Default: True."""

    partitioner_availability_timeout_ms: int
    """Leave out partitions whose broker has taken no data for this long, for keyless records; 0 switches that off. Default: 0 ms."""

    partitioner_ignore_keys: bool
    """Spread records over partitions without looking at their keys. Default: False."""

    acks: Literal["all", "-1", "1", "0", -1, 1, 0]
    """Which replicas must have a record before it counts as written: all in-sync ones, the leader, or none. Default: -1."""

    enable_idempotence: bool
    """Write every record exactly once and in order per partition, whatever is retried (KIP-679). Default: True."""

    retries: int
    """How often a batch is sent again; delivery.timeout.ms is the better bound. Default: 2147483647."""

    max_in_flight_requests_per_connection: int
    """Requests under way to one broker at a time; above 5 idempotence is not possible. Default: 5."""

    delivery_timeout_ms: int
    """Time from send() until a record is acknowledged or has failed, retries included (KIP-91). Default: 120000 ms."""

    max_block_ms: int
    """Time send() may wait for metadata and for free memory in the buffer. Default: 60000 ms."""

    buffer_memory: int
    """Memory for records that wait to be sent; send() blocks when it is used up. Default: 33554432 bytes."""

    batch_size: int
    """Largest record batch of one partition, before compression. Batches grow as they fill, so small ones cost no more memory. Default:
    262144 bytes."""

    linger_ms: int
    """Wait this long for a batch to fill before it is sent. Default: 5 ms."""

    max_request_size: int
    """Largest record (before compression) and largest request. Default: 1048576 bytes."""

    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """Codec for record batches. Default: none."""

    compression_gzip_level: int
    """gzip level; -1 is zlib's default. Default: -1."""

    compression_lz4_level: int
    """lz4 level. Default: 9."""

    compression_zstd_level: int
    """zstd level. Default: 3."""

    transactional_id: str | None
    """Name under which this producer's transactions are kept, the same after a restart, and of one producer at a time: a new one ends the
    open transaction of the one before and fences it. Needs idempotence. Default: no transactions."""

    transaction_timeout_ms: int
    """The coordinator aborts a transaction that is open for longer; at most the broker's transaction.max.timeout.ms. Default: 60000 ms."""

    metadata_max_idle_ms: int
    """Forget a topic's metadata when nothing was sent to it for this long. Default: 300000 ms."""


class RegistrySettings(TypedDict, total=False):
    """Settings of SchemaRegistryClient."""

    schema_registry_url: str | Sequence[str]
    """Addresses of the registry, http:// or https://, separated by commas, or a list. The next one is tried when one cannot be reached."""

    basic_auth_credentials_source: Literal["", "URL", "USER_INFO"]
    """Where user and password come from: from the URL, or from basic.auth.user.info. Default: the one of both that has some."""

    basic_auth_user_info: str | None
    """user:password."""

    bearer_auth_token: str | None
    """Token for `Authorization: Bearer`."""

    bearer_auth_token_provider: Callable[[], str] | None
    """Returns the token for `Authorization: Bearer`; called for each request, so it should keep a token while that is valid."""

    ssl_ca_location: str | None
    """PEM file of the authorities to trust. Default: those of the system."""

    ssl_certificate_location: str | None
    """PEM file of this client's certificate."""

    ssl_key_location: str | None
    """PEM file of this client's key. Default: it is in ssl.certificate.location."""

    ssl_key_password: str | None
    """Password of ssl.key.location."""

    ssl_context: SSLContext | None
    """An ssl.SSLContext to use instead of the other ssl settings."""

    http_connect_timeout_ms: int
    """Time a connection may take to be made, TLS included. Default: 10000 ms."""

    http_read_timeout_ms: int
    """Time the registry may be silent while an answer is waited for. Default: 30000 ms."""

    default_api_timeout_ms: int
    """Time a call may take, with all its retries. Default: 60000 ms."""

    max_retries: int
    """How often all addresses are tried again when none gave an answer, or only 408, 429, 500, 502, 503, 504. Default: 3."""

    retries_wait_ms: int
    """Pause before the first new attempt; doubles with each. Default: 1000 ms."""

    retries_max_wait_ms: int
    """Longest pause before a new attempt, also where the registry names one (Retry-After). Default: 20000 ms."""

    cache_capacity: int
    """Schemas and subjects that are kept in memory, of each kind. Default: 1000."""

    cache_latest_ttl_sec: int
    """How long the latest version of a subject is taken to be the latest; 0 asks each time. Default: 300 s."""

    max_response_bytes: int
    """Refuse an answer that is larger. Default: 67108864 bytes."""


class SerializerSettings(TypedDict, total=False):
    """Settings of AvroSerializer and ProtobufSerializer."""

    auto_register_schemas: bool
    """Register the schema when the first value is written. Otherwise it has to be registered already. Default: True."""

    use_latest_version: bool
    """Write with the latest version of the subject. Switches auto.register.schemas off. Default: False."""

    use_schema_id: int | None
    """Write with the schema of this id. Switches auto.register.schemas off."""

    normalize_schemas: bool
    """Let the registry bring the schema into its normal form before it compares or registers it. Default: False."""

    subject_name_strategy: Literal["TopicName", "RecordName", "TopicRecordName"] | Callable[[str | None, str, str | None], str]
    """Under which subject a schema stands: <topic>-key or <topic>-value, the record's full name, or <topic>-<full name>; or strategy(topic,
    field, record_name) -> subject. Default: TopicName."""


class JSONSerializerSettings(SerializerSettings, total=False):
    """Settings of JSONSerializer."""

    json_fail_invalid_schema: bool
    """Refuse values that do not fit their JSON Schema; needs levada[jsonschema]. Default: False."""
