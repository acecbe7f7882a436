"""The settings of each client as keywords, for type checkers and editors: `def __init__(self, ..., **settings: Unpack[ProducerSettings])`.

Written by `make docs` (levada.config.typed_source) from the declarations beside it; do not edit. A test keeps it current. Nothing imports
it at run time. Values are named with one type each; a mapping may also hold text, as from a properties file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from ssl import SSLContext
from typing import Generic, Literal, TypedDict

from levada.credentials import OAuthToken, SaslMechanism, TokenProvider
from levada.dead_letter import DeadLetter
from levada.groups import PartitionAssignor
from levada.interceptors import ConsumerInterceptor, ProducerInterceptor
from levada.serialization import K_in, Sendable, V_in
from levada.types import K, V


class OAuthSettings(TypedDict, total=False):
    """Settings of tokens to log in with."""

    sasl_oauth_token_provider: Callable[[], str | OAuthToken | Awaitable[str | OAuthToken]] | TokenProvider | None
    """For OAUTHBEARER: a function that returns a token as text, or a levada.OAuthToken, or an object with token() and extensions() as other
    Python clients have it. It runs in a thread of its own; on asyncio a coroutine function works too, and runs in the client's loop. One
    token serves all connections of a client, until most of its lifetime is over. Not a setting of Java's client."""

    sasl_oauthbearer_token_endpoint_url: str | None
    """Where tokens are given out (KIP-768). https:// only, unless the program allows the address with levada.oauth.allow_token_endpoints().
    A proxy is taken from the environment."""

    sasl_oauthbearer_client_credentials_client_id: str | None
    """This client's name at the token endpoint. Java's sasl.jaas.config with clientId and clientSecret works too."""

    sasl_oauthbearer_client_credentials_client_secret: str | None
    """Its secret there."""

    sasl_oauthbearer_scope: str | None
    """The scope to ask for."""

    sasl_oauthbearer_header_urlencode: bool
    """Encode client id and secret in the request's header as RFC 6749 wants it; many endpoints want them as they are. Default: False."""

    sasl_oauthbearer_extensions: str | Mapping[str, str]
    """Extensions for the broker (KIP-342), name=value separated by commas, or a mapping. Java has them in sasl.jaas.config. Default: {}."""

    sasl_oauthbearer_jwt_retriever_class: str
    """Which grant the token endpoint is asked for, by the name of Java's class: that of client credentials, or that of assertions. Default:
    of assertions where a sasl.oauthbearer.assertion setting is given. No class is loaded."""

    sasl_oauthbearer_assertion_file: str | None
    """File with a finished assertion to show instead of a secret."""

    sasl_oauthbearer_assertion_private_key_file: str | None
    """File with the private key, in PEM, that assertions are signed with. Needs levada[oauth]."""

    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    """Passphrase of that key."""

    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    """How assertions are signed. Default: RS256."""

    sasl_oauthbearer_assertion_template_file: str | None
    """File with {"header": {...}, "payload": {...}} in JSON, to which the other assertion settings are added."""

    sasl_oauthbearer_assertion_claim_aud: str | None
    """Claim aud of assertions: for whom they are."""

    sasl_oauthbearer_assertion_claim_iss: str | None
    """Claim iss of assertions: who signs them."""

    sasl_oauthbearer_assertion_claim_sub: str | None
    """Claim sub of assertions: whom they are about."""

    sasl_oauthbearer_assertion_claim_exp_seconds: int
    """For how long an assertion is good. Default: 300 s."""

    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    """Since when an assertion is good already, before now: for clocks that differ. Default: 60 s."""

    sasl_oauthbearer_assertion_claim_jti_include: bool
    """Give each assertion an id of its own (claim jti). Default: False."""

    https_ca_location: str | None
    """File with the certificates of the authorities to trust for the token endpoint. Default: those that the system trusts. Not a setting
    of Java's client, which has ssl settings within sasl.jaas.config."""

    sasl_login_callback_handler_class: str
    """Taken so that Java's settings work as they are. No class is loaded: the other settings say where a token comes from."""

    sasl_login_refresh_window_factor: float
    """Fetch the next token after this part of the lifetime. Default: 0.8."""

    sasl_login_refresh_window_jitter: float
    """Up to this part of the lifetime later, at random. Default: 0.05."""

    sasl_login_refresh_min_period_seconds: int
    """Fetch the next token no sooner than after this time. Default: 60 s."""

    sasl_login_refresh_buffer_seconds: int
    """Fetch the next token no later than this before the end. Where this and the least period together are longer than the lifetime,
    neither counts. Default: 300 s."""

    sasl_login_retry_backoff_ms: int
    """Pause before a token is asked for again after a failure; doubles with each. Default: 100 ms."""

    sasl_login_retry_backoff_max_ms: int
    """Longest such pause. Default: 10000 ms."""


class SecuritySettings(OAuthSettings, total=False):
    """Settings of secured connections."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """How to talk to the brokers: with SSL, which is TLS, or without, and with SASL, which is a login, or without. Default: PLAINTEXT."""

    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"] | SaslMechanism
    """How to log in. Needed with SASL_PLAINTEXT and SASL_SSL; unlike in Java's client, where it is GSSAPI, there is no default. An object
    is a mechanism of your own (levada.SaslMechanism)."""

    sasl_username: str | None
    """User of PLAIN and SCRAM. Not a setting of Java's client, which has sasl.jaas.config."""

    sasl_password: str | None
    """Password of sasl.username."""

    sasl_tokenauth: bool
    """sasl.username is the id of a delegation token, and sasl.password its hmac in base64; for SCRAM (KIP-48). Not a setting of Java's
    client, which has tokenauth in sasl.jaas.config. Default: False."""

    sasl_jaas_config: str | None
    """What to log in with as Java's client takes it: PlainLoginModule or ScramLoginModule with username, password and tokenauth,
    OAuthBearerLoginModule with clientId, clientSecret and scope, Krb5LoginModule with keyTab, principal and serviceName, or IAMLoginModule.
    It is read as data, and no class is loaded."""

    sasl_client_callback_handler_class: str
    """Taken so that Java's settings for AWS_MSK_IAM work as they are. No class is loaded."""

    sasl_kerberos_service_name: str | None
    """For GSSAPI: the first part of the brokers' principals; their host is the second. Default: serviceName of sasl.jaas.config, else
    kafka, where Java's client has no default."""

    sasl_kerberos_principal: str | None
    """For GSSAPI: as whom to log in. Default: the first one in sasl.kerberos.keytab, else the one whose tickets kinit has fetched. Java's
    client has it in sasl.jaas.config."""

    sasl_kerberos_keytab: str | None
    """For GSSAPI: file with the key of sasl.kerberos.principal. Tickets are fetched with it into memory, and again before they end. Java's
    client has it in sasl.jaas.config. Default: the tickets of kinit."""

    sasl_aws_region: str | None
    """For AWS_MSK_IAM: the region to sign for. Default: as in the broker's name, or as botocore finds it. Not a Kafka setting."""

    sasl_aws_profile: str | None
    """For AWS_MSK_IAM: the profile whose credentials to use. Default: as botocore finds them. Not a Kafka setting."""

    ssl_truststore_location: str | None
    """File with the certificates of the authorities to trust. Default: those that the system trusts."""

    ssl_truststore_type: Literal["PEM", "PKCS12"]
    """What ssl.truststore.location is. PKCS12 needs the package cryptography: levada[pkcs12]. Default: PEM."""

    ssl_truststore_password: str | None
    """Password of ssl.truststore.location; for PKCS12."""

    ssl_truststore_certificates: str | None
    """The certificates of the authorities to trust, as text, instead of a file."""

    ssl_keystore_location: str | None
    """File with this client's certificate, the chain that it was signed with, and its key; brokers with ssl.client.auth want it."""

    ssl_keystore_type: Literal["PEM", "PKCS12"]
    """What ssl.keystore.location is. PKCS12 needs the package cryptography: levada[pkcs12]. Default: PEM."""

    ssl_keystore_password: str | None
    """Password of ssl.keystore.location; for PKCS12."""

    ssl_keystore_certificate_chain: str | None
    """This client's certificate and the chain that it was signed with, as text, instead of a file."""

    ssl_keystore_key: str | None
    """This client's key, as text, with ssl.keystore.certificate.chain."""

    ssl_certificate_location: str | None
    """File with this client's certificate and its chain in PEM, where the key is in a file of its own. Not a setting of Java's client."""

    ssl_key_location: str | None
    """File with the key of ssl.certificate.location. Not a setting of Java's client."""

    ssl_key_password: str | None
    """Password of an encrypted key."""

    ssl_enabled_protocols: str | Sequence[str]
    """Versions of TLS to speak. Default: TLSv1.2, TLSv1.3."""

    ssl_cipher_suites: str | Sequence[str]
    """Cipher suites for TLS 1.2, by OpenSSL's names. Default: OpenSSL's own choice."""

    ssl_endpoint_identification_algorithm: Literal["https"]
    """The name or address that a client connects to has to be in the broker's certificate. Default: https."""

    ssl_dangerously_accept_any_host_name: bool
    """Accept a trusted certificate of any name. Whoever has one of the same authority can then read and change everything. Not a Kafka
    setting. Default: False."""

    ssl_context: SSLContext | None
    """An ssl.SSLContext to use instead of the other ssl settings. Not a Kafka setting."""


class ClientSettings(SecuritySettings, total=False):
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

    bootstrap_wait: bool
    """What calls do while none of bootstrap.servers can be reached: true waits until their time is over; false raises BootstrapError, or
    AuthenticationError, once every address has failed. It has no effect once a broker has answered. Not a Kafka setting. Default: True."""

    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """What to do when no known broker answers: begin again from bootstrap.servers, or wait (KIP-899). Default: rebootstrap."""

    metadata_recovery_rebootstrap_trigger_ms: int
    """Begin again from bootstrap.servers, too, when known brokers have given no metadata for this long (KIP-1102). Default: 300000 ms."""

    max_response_bytes: int
    """Refuse a response that announces more than this. Not a Kafka setting: Kafka's own client trusts the announcement. Default: 1073741824
    bytes."""

    enable_metrics_push: bool
    """Send those metrics to the brokers that they ask for (KIP-714): what metrics() returns, under the names that the KIP derives from it.
    Kafka's own client does so by default. Default: False."""


class AdminSettings(ClientSettings, total=False):
    """Settings of KafkaAdmin."""

    bootstrap_controllers: str | Sequence[str | tuple[str, int]]
    """Controllers of a cluster in KRaft mode (Kafka 3.7 or newer), instead of bootstrap.servers: for the quorum, features and settings
    while brokers are down (KIP-919). They know no topics and no groups."""

    retries: int
    """How often a retriable failure is tried again, within the time of the call. Default: 2147483647."""


class ConsumerSettings(ClientSettings, Generic[K, V], total=False):
    """Settings of KafkaConsumer."""

    key_deserializer: Callable[[bytes], K] | None
    """Turns a key's bytes into an object; without one, keys are bytes or None."""

    value_deserializer: Callable[[bytes], V] | None
    """Turns a value's bytes into an object; without one, values are bytes or None."""

    on_decode_error: Literal["raise", "skip", "null"] | DeadLetter
    """What is done about a record whose key or value does not deserialize: raise an error with its bytes, again until seek() moves past it;
    skip it with a warning; hand it out with null in place of what failed; or write it to a dead-letter topic, and go on once that is
    acknowledged. In poll_arrow() it is about the columns given as text. Not a Kafka setting. Default: raise."""

    interceptors: Sequence[ConsumerInterceptor]
    """Objects that see the records of each poll() before the program does, and what was committed, in this order. poll_arrow() is refused
    with one that has no on_consume_arrow(), since it would not see the rows."""

    group_id: str | None
    """Group that subscribe() makes the consumer a member of, and for which offsets are committed. Assigned partitions without a position
    begin at what it has committed."""

    group_instance_id: str | None
    """Makes a member of the group static (KIP-345): it does not leave with close(), and a consumer with the same id that comes back within
    session.timeout.ms gets its partitions again without a rebalance. Each member needs one of its own."""

    group_protocol: Literal["classic", "consumer"]
    """How a group comes to its assignment. consumer (KIP-848, Kafka since 4.0): the brokers share out partitions, and only those that move
    are given up; session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy are the brokers' settings then. A group goes
    from one to the other member by member. Default: classic."""

    group_remote_assignor: str | None
    """The brokers' assignor, with group.protocol=consumer: uniform or range; without it they choose, which is uniform by default."""

    partition_assignment_strategy: str | PartitionAssignor | Sequence[str | PartitionAssignor]
    """How a group shares out partitions, in order of preference; the members agree on one that all of them have. The group is cooperative
    (KIP-429) where every one supports that, so leave out range to be so. Objects: see levada.PartitionAssignor. Default: range,
    cooperative-sticky."""

    session_timeout_ms: int
    """A member of which the group's coordinator hears nothing for so long is taken for dead; brokers bound it. Default: 45000 ms."""

    heartbeat_interval_ms: int
    """Time between heartbeats to the coordinator; below session.timeout.ms. Default: 3000 ms."""

    max_poll_interval_ms: int
    """A member that does not ask for records for so long leaves its group, and joins again with its next call. It also bounds how long the
    others wait for it in a rebalance. Default: 300000 ms."""

    exclude_internal_topics: bool
    """Whether a subscription by pattern leaves out topics such as __consumer_offsets. Default: True."""

    enable_auto_commit: bool
    """Whether positions are committed by calls for records, every auto.commit.interval.ms, and at close(). Never more than was handed out
    by earlier calls. Without a group.id it is off. Default: True."""

    auto_commit_interval_ms: int
    """Time between automatic commits. Default: 5000 ms."""

    auto_offset_reset: str
    """Where to begin without a position and without a committed offset, or when the position is out of range or of a deleted topic.
    by_duration: and an ISO 8601 duration, as by_duration:PT6H: at the first record of the last six hours, at the end without one
    (KIP-1106). none raises. Default: latest."""

    stop_at_end: bool
    """Whether a loop over the consumer ends once all partitions are read to where they ended when it began. Not a Kafka setting. Default:
    False."""

    consumer_timeout_ms: int
    """A loop over the consumer ends when no record came for this long; -1: never. Java's consumer does not have it; the one before it had,
    and kafka-python has. Default: -1 ms."""

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


class ShareConsumerSettings(ClientSettings, Generic[K, V], total=False):
    """Settings of KafkaShareConsumer."""

    key_deserializer: Callable[[bytes], K] | None
    """Turns a key's bytes into an object; without one, keys are bytes or None."""

    value_deserializer: Callable[[bytes], V] | None
    """Turns a value's bytes into an object; without one, values are bytes or None."""

    on_decode_error: Literal["raise", "skip", "null"]
    """What is done about a record whose key or value does not deserialize: raise an error with its bytes, and release the record unless it
    is acknowledged otherwise; skip it with a warning, and reject it; or hand it out with null in place of what failed. In poll_arrow() it
    is about the columns given as text. Not a Kafka setting. Default: raise."""

    group_id: str | None
    """Share group that subscribe() makes the consumer a member of."""

    share_acknowledgement_mode: Literal["implicit", "explicit"]
    """implicit: the next call for records, commit() and close() accept everything that was handed out. explicit: acknowledge() says of
    every record what became of it, before more are asked for. Default: implicit."""

    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    """What max.poll.records bounds. batch_optimized: brokers acquire whole record batches, so it may be more. record_limit: never more is
    locked for this consumer, and one broker is asked after the other (KIP-1206, Kafka 4.2). Default: batch_optimized."""

    max_poll_interval_ms: int
    """A member that does not ask for records for so long leaves its group, and joins again with its next call. Default: 300000 ms."""

    max_poll_records: int
    """Records one poll() returns at most, and about how many brokers acquire for one fetch. Default: 500."""

    consumer_timeout_ms: int
    """A loop over the consumer ends when no record came for this long; -1: never. Java's consumer does not have it; the one before it had,
    and kafka-python has. Default: -1 ms."""

    fetch_min_bytes: int
    """The broker answers a fetch once it has this much, or fetch.max.wait.ms has passed. Default: 1 bytes."""

    fetch_max_bytes: int
    """Soft limit of one fetch response; the first batch always passes. Default: 52428800 bytes."""

    fetch_max_wait_ms: int
    """How long the broker may wait for fetch.min.bytes. Default: 500 ms."""

    check_crcs: bool
    """Verify each batch's checksum before it is read. Default: True."""

    max_decompressed_bytes: int
    """Largest size one batch may decompress to. Not a Kafka setting: it bounds the harm of a hostile batch. Default: 67108864 bytes."""

    client_rack: str
    """Rack of this client, which the brokers' assignor is told."""

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
    send_arrow() is refused with one that has no on_send_arrow(), since it would not see the rows."""

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
    """Memory for records that wait to be sent. While it is used up send() waits, up to max.block.ms; then the record fails. Default:
    33554432 bytes."""

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

    transaction_timeout_clamp: bool
    """Where the brokers allow less than transaction.timeout.ms, ask for half as much until they agree, instead of failing. Not in Java.
    Default: False."""

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
