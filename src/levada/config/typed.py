"""The settings of each client as keywords, for type checkers and editors: `def __init__(self, ..., **settings: Unpack[ProducerSettings])`.

`make docs` (levada.config.typed_source) writes this file from the declarations beside it; do not edit. A test keeps it current. Nothing
imports it at run time. Keywords have one type each; a mapping may also hold text, like a properties file.
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
    """Settings of OAUTHBEARER tokens."""

    sasl_oauth_token_provider: Callable[[], str | OAuthToken | Awaitable[str | OAuthToken]] | TokenProvider | None
    """For OAUTHBEARER: a function that returns a token as text or as levada.OAuthToken, or an object with token() and extensions(), like in
    other Python clients. It runs in a thread of its own. With asyncio it may be a coroutine function, which runs in the client's loop. All
    connections of a client share one token until most of its lifetime is over. Not a setting of Java's client."""

    sasl_oauthbearer_token_endpoint_url: str | None
    """URL that issues tokens (KIP-768). Only https://, unless the program allows the address with levada.oauth.allow_token_endpoints(). For
    a proxy see sasl.oauthbearer.token.endpoint.proxy.url."""

    sasl_oauthbearer_token_endpoint_proxy_url: str | None
    """Proxy for the token endpoint, like proxy.url. Default: the proxy of the environment (https_proxy, no_proxy). Not a Kafka setting."""

    sasl_oauthbearer_client_credentials_client_id: str | None
    """Client id for the token endpoint. Java's sasl.jaas.config with clientId and clientSecret works too."""

    sasl_oauthbearer_client_credentials_client_secret: str | None
    """Client secret for the token endpoint."""

    sasl_oauthbearer_scope: str | None
    """OAuth scope to request from the token endpoint."""

    sasl_oauthbearer_header_urlencode: bool
    """URL-encode the client id and secret in the Authorization header, as RFC 6749 requires. Many endpoints expect them unencoded. Default:
    False."""

    sasl_oauthbearer_extensions: str | Mapping[str, str]
    """SASL extensions that are sent to the broker (KIP-342): name=value separated by commas, or a mapping. Java has them in
    sasl.jaas.config. Default: {}."""

    sasl_oauthbearer_jwt_retriever_class: str
    """Grant type to request from the token endpoint, by the name of Java's class: client credentials (ClientCredentialsJwtRetriever) or
    assertions (JwtBearerJwtRetriever). Default: assertions if a sasl.oauthbearer.assertion setting is given, else client credentials. No
    class is loaded."""

    sasl_oauthbearer_assertion_file: str | None
    """File with a signed assertion (JWT) to send instead of a client secret."""

    sasl_oauthbearer_assertion_private_key_file: str | None
    """PEM file with the private key that signs assertions. Needs levada[oauth]."""

    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    """Passphrase of sasl.oauthbearer.assertion.private.key.file."""

    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    """Algorithm that signs assertions. Default: RS256."""

    sasl_oauthbearer_assertion_template_file: str | None
    """File with {"header": {...}, "payload": {...}} in JSON. The other assertion settings are added to it."""

    sasl_oauthbearer_assertion_claim_aud: str | None
    """Claim aud of assertions: their audience."""

    sasl_oauthbearer_assertion_claim_iss: str | None
    """Claim iss of assertions: their issuer."""

    sasl_oauthbearer_assertion_claim_sub: str | None
    """Claim sub of assertions: their subject."""

    sasl_oauthbearer_assertion_claim_exp_seconds: int
    """Lifetime of an assertion. Default: 300 s."""

    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    """An assertion is valid from this long before now, in case clocks differ. Default: 60 s."""

    sasl_oauthbearer_assertion_claim_jti_include: bool
    """Add a unique id to each assertion (claim jti). Default: False."""

    https_ca_location: str | None
    """File with the certificates of the authorities to trust for the token endpoint. Default: the system's. Not a setting of Java's client,
    which has ssl settings in sasl.jaas.config."""

    sasl_login_callback_handler_class: str
    """Accepted so that Java's settings work unchanged. No class is loaded: the other settings select the source of tokens."""

    sasl_login_refresh_window_factor: float
    """Fetch the next token after this fraction of the token's lifetime. Default: 0.8."""

    sasl_login_refresh_window_jitter: float
    """Fetch the next token later than that by a random time, up to this fraction of the lifetime. Default: 0.05."""

    sasl_login_refresh_min_period_seconds: int
    """Fetch the next token no sooner than this long after the last. Default: 60 s."""

    sasl_login_refresh_buffer_seconds: int
    """Fetch the next token at least this long before the token expires. This and sasl.login.refresh.min.period.seconds are both ignored if
    their sum is longer than the lifetime. Default: 300 s."""

    sasl_login_retry_backoff_ms: int
    """Pause before the client requests a token again after a failure; doubles with each. Default: 100 ms."""

    sasl_login_retry_backoff_max_ms: int
    """Longest pause before the client requests a token again. Default: 10000 ms."""


class SecuritySettings(OAuthSettings, total=False):
    """Settings of TLS and SASL."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Whether connections use TLS (SSL and SASL_SSL) and log in (SASL_PLAINTEXT and SASL_SSL). Default: PLAINTEXT."""

    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"] | SaslMechanism
    """SASL mechanism to log in with. Required with SASL_PLAINTEXT and SASL_SSL: there is no default, unlike in Java's client, where it is
    GSSAPI. Give an object for a mechanism of your own (levada.SaslMechanism)."""

    sasl_username: str | None
    """User for PLAIN and SCRAM. Not a setting of Java's client, which has sasl.jaas.config."""

    sasl_password: str | None
    """Password of sasl.username."""

    sasl_tokenauth: bool
    """For SCRAM: true if sasl.username is the id of a delegation token, and sasl.password the token's HMAC in base64 (KIP-48). Not a
    setting of Java's client, which has tokenauth in sasl.jaas.config. Default: False."""

    sasl_jaas_config: str | None
    """Login module and its options, in the format of Java's client: PlainLoginModule or ScramLoginModule with username, password and
    tokenauth; OAuthBearerLoginModule with clientId, clientSecret and scope; Krb5LoginModule with keyTab, principal and serviceName; or
    IAMLoginModule. It is read as data, and no class is loaded."""

    sasl_client_callback_handler_class: str
    """Accepted so that Java's settings for AWS_MSK_IAM work unchanged. No class is loaded."""

    sasl_kerberos_service_name: str | None
    """For GSSAPI: the first part of the brokers' principals; the second part is the broker's host. Default: serviceName in
    sasl.jaas.config, else kafka. Java's client has no default."""

    sasl_kerberos_principal: str | None
    """For GSSAPI: the principal to log in as. Default: the first principal in sasl.kerberos.keytab, else the principal of the tickets that
    kinit fetched. Java's client has it in sasl.jaas.config."""

    sasl_kerberos_keytab: str | None
    """For GSSAPI: file with the key of sasl.kerberos.principal. The client fetches tickets with it into memory, and renews them before they
    expire. Java's client has it in sasl.jaas.config. Default: use the tickets of kinit."""

    sasl_aws_region: str | None
    """For AWS_MSK_IAM: the AWS region to sign requests for. Default: the region in the broker's host name, else the one that botocore
    finds. Not a Kafka setting."""

    sasl_aws_profile: str | None
    """For AWS_MSK_IAM: the profile whose credentials to use. Default: the credentials that botocore finds. Not a Kafka setting."""

    ssl_truststore_location: str | None
    """File with the certificates of the authorities to trust. Default: those that the system trusts."""

    ssl_truststore_type: Literal["PEM", "PKCS12"]
    """Format of ssl.truststore.location. PKCS12 needs the package cryptography: levada[pkcs12]. Default: PEM."""

    ssl_truststore_password: str | None
    """Password of ssl.truststore.location; only for PKCS12."""

    ssl_truststore_certificates: str | None
    """The certificates of the authorities to trust, as text, instead of a file."""

    ssl_keystore_location: str | None
    """File with this client's certificate, the chain that it was signed with, and its key, for brokers with ssl.client.auth."""

    ssl_keystore_type: Literal["PEM", "PKCS12"]
    """Format of ssl.keystore.location. PKCS12 needs the package cryptography: levada[pkcs12]. Default: PEM."""

    ssl_keystore_password: str | None
    """Password of ssl.keystore.location; only for PKCS12."""

    ssl_keystore_certificate_chain: str | None
    """This client's certificate and the chain that it was signed with, as text, instead of a file."""

    ssl_keystore_key: str | None
    """This client's key, as text, with ssl.keystore.certificate.chain."""

    ssl_certificate_location: str | None
    """PEM file with this client's certificate and its chain; it may also have the key. Not a setting of Java's client."""

    ssl_key_location: str | None
    """PEM file with the key of ssl.certificate.location. Default: the key is in that file. Not a setting of Java's client."""

    ssl_key_password: str | None
    """Password of an encrypted key in PEM."""

    ssl_enabled_protocols: str | Sequence[str]
    """Versions of TLS to accept. Default: TLSv1.2, TLSv1.3."""

    ssl_cipher_suites: str | Sequence[str]
    """Cipher suites for TLS 1.2, under OpenSSL's names. Default: OpenSSL's choice."""

    ssl_endpoint_identification_algorithm: Literal["https"]
    """Always https: the host name or address that the client connects to must be in the broker's certificate, unless
    ssl.dangerously.accept.any.host.name is set. Default: https."""

    ssl_dangerously_accept_any_host_name: bool
    """Accept a trusted certificate with any host name. Anyone with a certificate of the same authority can then read and change all
    traffic. Not a Kafka setting. Default: False."""

    ssl_context: SSLContext | None
    """An ssl.SSLContext to use instead of the other ssl settings. Not a Kafka setting."""


class ClientSettings(SecuritySettings, total=False):
    """Settings of KafkaClient."""

    bootstrap_servers: str | Sequence[str | tuple[str, int]]
    """Brokers for the first connection: host:port separated by commas, or a list. Two or three are enough; they name all others. The client
    then connects to the addresses in the brokers' advertised.listeners, so these must be reachable for it. A host without a port has port
    9092; Kafka's own client refuses it."""

    client_id: str
    """Name of this client in the broker's logs, metrics and quotas. Default: made from the kind of client, such as levada-producer-1; for a
    producer with a transactional.id, made from that."""

    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """Both values: try all addresses of a host name, one after another, before the connection counts as failed.
    resolve_canonical_bootstrap_servers_only also replaces each name in bootstrap.servers by the canonical names of all its addresses
    (reverse DNS look-up, KIP-235); the client's constructor waits for these look-ups. Default: use_all_dns_ips."""

    request_timeout_ms: int
    """Time limit for the answer to one request. After it the client closes the connection. Default: 30000 ms."""

    default_api_timeout_ms: int
    """Time limit of a call that is given no timeout, unless its signature has a default. Default: 60000 ms."""

    connections_max_idle_ms: int
    """Close a connection that was not used for this long. Default: 540000 ms."""

    reconnect_backoff_ms: int
    """Pause before the client connects to a node again; doubles with each failure. Default: 50 ms."""

    reconnect_backoff_max_ms: int
    """Longest pause between attempts to connect to a node. Default: 1000 ms."""

    retry_backoff_ms: int
    """Pause before a failed request is sent again; doubles with each failure. Default: 100 ms."""

    retry_backoff_max_ms: int
    """Longest pause before a failed request is sent again. Default: 1000 ms."""

    socket_connection_setup_timeout_ms: int
    """Time limit for establishing a TCP connection; doubles with each failure. Default: 10000 ms."""

    socket_connection_setup_timeout_max_ms: int
    """Upper limit of socket.connection.setup.timeout.ms as it doubles. Default: 30000 ms."""

    socket_keepalive_idle_ms: int
    """Idle time after which the system sends TCP keepalive probes (SO_KEEPALIVE). After three unanswered probes, 10 s apart, the connection
    is lost. 0 keeps the system's times, often two hours. For Linux; may have no effect elsewhere. Not a Kafka setting. Default: 60000
    ms."""

    socket_user_timeout_ms: int
    """The system closes a connection if the broker acknowledges no TCP data, or accepts none, for this long (TCP_USER_TIMEOUT). 0: only
    request.timeout.ms applies. A broker that enforces a quota accepts no data while it throttles. Linux only. Not a Kafka setting. Default:
    0 ms."""

    send_buffer_bytes: int
    """Size of a socket's send buffer. -1: the system adapts the size to the connection; a fixed size switches that off. Default: -1
    bytes."""

    receive_buffer_bytes: int
    """Size of a socket's receive buffer. -1: the system adapts the size to the connection; a fixed size switches that off. Default: -1
    bytes."""

    broker_version_fallback: Literal["", "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0"]
    """Release of brokers before 0.10.0, which do not know ApiVersions. Leave it out for newer brokers: the client asks each broker for its
    versions."""

    metadata_max_age_ms: int
    """Refresh metadata at least once in this time, to see new brokers and partitions. Default: 300000 ms."""

    bootstrap_wait: bool
    """Effect on calls while none of bootstrap.servers can be reached. true: they wait until their timeout. false: they raise BootstrapError
    or AuthenticationError once every address has failed. Has no effect after the first broker has answered. Not a Kafka setting. Default:
    True."""

    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """If no known broker answers: connect to bootstrap.servers again (rebootstrap), or wait for the known brokers (none). KIP-899. Default:
    rebootstrap."""

    metadata_recovery_rebootstrap_trigger_ms: int
    """With metadata.recovery.strategy=rebootstrap: also connect to bootstrap.servers again if the known brokers have returned no metadata
    for this long (KIP-1102). Default: 300000 ms."""

    proxy_url: str | None
    """Proxy for all connections to brokers: socks5://user:password@host:1080, socks5h:// or http://user:password@host:3128 (CONNECT).
    socks5h:// and http:// have the proxy look up the brokers' names; with socks5:// this client does. TLS and SASL are between this client
    and the broker. The environment's proxies are not used. Not a Kafka setting."""

    max_response_bytes: int
    """Refuse a response whose size field is larger than this. Not a Kafka setting: Kafka's own client accepts any size. Default: 1073741824
    bytes."""

    enable_metrics_push: bool
    """Send metrics to the brokers if these subscribe to them (KIP-714): the metrics that metrics() returns, under the names that the KIP
    derives from theirs. Kafka's own client does so by default. Default: False."""


class AdminSettings(ClientSettings, total=False):
    """Settings of KafkaAdmin."""

    bootstrap_controllers: str | Sequence[str | tuple[str, int]]
    """Controllers of a KRaft cluster (Kafka 3.7 or newer), instead of bootstrap.servers (KIP-919): to manage the quorum, features and
    settings while brokers are down. Controllers do not answer requests about topics and groups."""

    retries: int
    """Number of retries of a request that failed with a retriable error, within the call's timeout. Default: 2147483647."""


class ConsumerSettings(ClientSettings, Generic[K, V], total=False):
    """Settings of KafkaConsumer."""

    key_deserializer: Callable[[bytes], K] | None
    """Function that turns a key's bytes into an object. Without it, keys are bytes or None."""

    value_deserializer: Callable[[bytes], V] | None
    """Function that turns a value's bytes into an object. Without it, values are bytes or None."""

    on_decode_error: Literal["raise", "skip", "null"] | DeadLetter
    """Reaction to a record whose key or value cannot be deserialized. raise: raise an error with its bytes, on every poll until seek()
    moves past the record. skip: skip it with a warning. null: return it with None in place of the key or value. DeadLetter: write it to a
    dead-letter topic, and continue once that is acknowledged. For poll_arrow() it applies to text columns. Not a Kafka setting. Default:
    raise."""

    interceptors: Sequence[ConsumerInterceptor]
    """Objects that see the records of each poll() before the program, and the committed offsets; called in this order (KIP-42).
    poll_arrow() raises an error if an interceptor has no on_consume_arrow(), because that interceptor would not see the records."""

    group_id: str | None
    """Group that the consumer joins with subscribe(), and that it commits offsets for. A partition without a position begins at the group's
    committed offset."""

    group_instance_id: str | None
    """Makes the consumer a static member of the group (KIP-345): it does not leave with close(), and a consumer with the same id that joins
    within session.timeout.ms gets the same partitions without a rebalance. Each member needs a different id."""

    group_protocol: Literal["classic", "consumer"]
    """Rebalance protocol of the group. consumer (KIP-848, since Kafka 4.0): the brokers assign partitions, and members give up only the
    partitions that move; session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy are then settings of the brokers. A
    group can change its protocol member by member. Default: classic."""

    group_remote_assignor: str | None
    """For group.protocol=consumer: the brokers' assignor, uniform or range. Default: the brokers choose, by default uniform."""

    partition_assignment_strategy: str | PartitionAssignor | Sequence[str | PartitionAssignor]
    """Assignors in order of preference. The group uses one that all members have. Rebalances are cooperative (KIP-429) only if all
    assignors in the list support that, so leave out range for cooperative rebalances. For assignors of your own see
    levada.PartitionAssignor. Default: range, cooperative-sticky."""

    session_timeout_ms: int
    """The coordinator removes a member from which it received no heartbeat for this long. Brokers set its minimum and maximum. Default:
    45000 ms."""

    heartbeat_interval_ms: int
    """Time between heartbeats to the coordinator. Must be below session.timeout.ms. Default: 3000 ms."""

    max_poll_interval_ms: int
    """A member that does not poll for this long leaves its group, and joins again with its next poll. It also limits how long the other
    members wait for this one in a rebalance. Default: 300000 ms."""

    exclude_internal_topics: bool
    """Whether a subscription by pattern leaves out internal topics such as __consumer_offsets. Default: True."""

    enable_auto_commit: bool
    """Whether positions are committed: by poll(), every auto.commit.interval.ms, before partitions are given up, and by close(). Only
    records that earlier polls returned count as read. Off without a group.id. Default: True."""

    auto_commit_interval_ms: int
    """Time between automatic commits. Default: 5000 ms."""

    auto_offset_reset: str
    """Where to begin if there is no committed offset, or if the position is out of range or belongs to a deleted topic. by_duration:PT6H,
    or another ISO 8601 duration, begins at the first record of the last six hours, or at the end if there is none (KIP-1106). none raises
    an error. Default: latest."""

    stop_at_end: bool
    """Whether a loop over the consumer ends once it has read all partitions to their end offsets at the start of the loop. Not a Kafka
    setting. Default: False."""

    consumer_timeout_ms: int
    """A loop over the consumer ends if no record came for this long; -1: never. kafka-python has this setting, Java's consumer has not.
    Default: -1 ms."""

    max_poll_records: int
    """Maximum number of records that one poll() returns. Default: 500."""

    fetch_min_bytes: int
    """The broker answers a fetch once it has this much data, or after fetch.max.wait.ms. Default: 1 bytes."""

    fetch_max_bytes: int
    """Soft limit of one fetch response. The first batch is returned even if it is larger. Default: 52428800 bytes."""

    fetch_max_wait_ms: int
    """How long the broker waits for fetch.min.bytes. Default: 500 ms."""

    max_partition_fetch_bytes: int
    """Soft limit of one partition's data in a fetch response. If it is not set, up to 4 MiB are requested of a partition while its
    responses exceed half of the default, responses are quick, and fetch.buffer.bytes has room for two of each partition. Default: 1048576
    bytes."""

    fetch_buffer_bytes: int
    """Limit of fetched data that the program has not read yet, including that of paused partitions. Above it the consumer fetches only what
    the next poll() needs. Fetches in flight may exceed the limit. Not a Kafka setting; librdkafka has queued.max.messages.kbytes. Default:
    67108864 bytes."""

    isolation_level: Literal["read_uncommitted", "read_committed"]
    """read_committed hides the records of open and aborted transactions. Default: read_uncommitted."""

    check_crcs: bool
    """Verify the checksum of each record batch. Default: True."""

    max_decompressed_bytes: int
    """Largest decompressed size of a record batch. Not a Kafka setting; it protects against malicious batches. Default: 67108864 bytes."""

    client_rack: str
    """Rack of this client. Brokers may let it fetch from a replica in the same rack (KIP-392)."""

    allow_auto_create_topics: bool
    """Whether a metadata request may create an unknown topic, if the broker allows that. Default: True."""


class ShareConsumerSettings(ClientSettings, Generic[K, V], total=False):
    """Settings of KafkaShareConsumer."""

    key_deserializer: Callable[[bytes], K] | None
    """Function that turns a key's bytes into an object. Without it, keys are bytes or None."""

    value_deserializer: Callable[[bytes], V] | None
    """Function that turns a value's bytes into an object. Without it, values are bytes or None."""

    on_decode_error: Literal["raise", "skip", "null"]
    """Reaction to a record whose key or value cannot be deserialized. raise: raise an error with its bytes, and release the record unless
    the program acknowledges it otherwise. skip: skip it with a warning, and reject it. null: return it with None in place of the key or
    value. For poll_arrow() it applies to text columns. Not a Kafka setting. Default: raise."""

    group_id: str | None
    """Share group that the consumer joins with subscribe()."""

    share_acknowledgement_mode: Literal["implicit", "explicit"]
    """implicit: the next poll, commit() and close() accept all records that were returned. explicit: the program calls acknowledge() for
    every record before the next poll. Default: implicit."""

    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    """Meaning of max.poll.records. batch_optimized: brokers acquire whole record batches, so a fetch may acquire more records.
    record_limit: brokers never acquire more for this consumer, and it fetches from one broker after the other (KIP-1206, Kafka 4.2).
    Default: batch_optimized."""

    max_poll_interval_ms: int
    """A member that does not poll for this long leaves its group, and joins again with its next poll. Default: 300000 ms."""

    max_poll_records: int
    """Maximum number of records that one poll() returns, and roughly the number that brokers acquire per fetch. Default: 500."""

    consumer_timeout_ms: int
    """A loop over the consumer ends if no record came for this long; -1: never. kafka-python has this setting, Java's consumer has not.
    Default: -1 ms."""

    fetch_min_bytes: int
    """The broker answers a fetch once it has this much data, or after fetch.max.wait.ms. Default: 1 bytes."""

    fetch_max_bytes: int
    """Soft limit of one fetch response. The first batch is returned even if it is larger. Default: 52428800 bytes."""

    fetch_max_wait_ms: int
    """How long the broker waits for fetch.min.bytes. Default: 500 ms."""

    check_crcs: bool
    """Verify the checksum of each record batch. Default: True."""

    max_decompressed_bytes: int
    """Largest decompressed size of a record batch. Not a Kafka setting; it protects against malicious batches. Default: 67108864 bytes."""

    client_rack: str
    """Rack of this client, for the brokers' assignor."""

    allow_auto_create_topics: bool
    """Whether a metadata request may create an unknown topic, if the broker allows that. Default: True."""


class ProducerSettings(ClientSettings, Generic[K_in, V_in], total=False):
    """Settings of KafkaProducer."""

    key_serializer: Callable[[K_in], Sendable | None] | None
    """Function that turns a key into bytes. Without it, keys are bytes, str (sent as UTF-8) or None."""

    value_serializer: Callable[[V_in], Sendable | None] | None
    """Function that turns a value into bytes. Without it, values are bytes, str (sent as UTF-8) or None."""

    interceptors: Sequence[ProducerInterceptor]
    """Objects that see each record before serialization, and its outcome (KIP-42): see levada.ProducerInterceptor. send_arrow() raises an
    error if an interceptor has no on_send_arrow(), because that interceptor would not see the records."""

    partitioner: Callable[[str, bytes | None, int], int] | None
    """Function that chooses a partition: partitioner(topic, key, partition_count) -> int. For Arrow columns its method
    partition_rows(topic, keys, partition_count) -> integers is called, if it has one. An example is levada.RoundRobin(). Default: Java's
    partitioner: murmur2 of the key, or sticky for records without a key."""

    partitioner_adaptive_partitioning_enable: bool
    """Send fewer keyless records to partitions with a longer queue of unsent batches (KIP-794). Default: True."""

    partitioner_availability_timeout_ms: int
    """Send no keyless records to partitions whose broker could take no request for this long, if there are others. 0 switches that off.
    Default: 0 ms."""

    partitioner_ignore_keys: bool
    """Spread records over partitions without looking at their keys. Has no effect if partitioner is set. Default: False."""

    acks: Literal["all", "-1", "1", "0", -1, 1, 0]
    """Replicas that must have a record before it is acknowledged: all in-sync replicas (all), the leader (1), or none (0). Default: -1."""

    enable_idempotence: bool
    """Retries write no record twice, and keep the order in each partition (KIP-679). Needs acks=all, retries above 0, and at most 5
    requests in flight. If one of these settings is another, idempotence is off, with a warning, unless it was switched on explicitly: then
    that is an error. Default: True."""

    retries: int
    """Maximum retries of a batch. Prefer delivery.timeout.ms as limit. Default: 2147483647."""

    max_in_flight_requests_per_connection: int
    """Maximum number of requests in flight to one broker. Idempotence allows at most 5. Default: 5."""

    delivery_timeout_ms: int
    """Maximum time from send() until a record is acknowledged or fails, including retries (KIP-91). Must be at least linger.ms +
    request.timeout.ms; if it is not set, it is raised to that. Default: 120000 ms."""

    max_block_ms: int
    """Maximum time that send() waits for metadata and for free buffer memory. Also the default timeout of calls about transactions.
    Default: 60000 ms."""

    buffer_memory: int
    """Memory for records that are not yet acknowledged. While it is full, send() waits up to max.block.ms; then the record fails. Default:
    33554432 bytes."""

    batch_size: int
    """Size at which a record batch of one partition is full. With compression it is the expected compressed size. A larger record has a
    batch of its own. A batch takes only as much memory as its records need. Default: 262144 bytes."""

    linger_ms: int
    """Time that a batch waits for more records before it is sent. Default: 5 ms."""

    max_request_size: int
    """Largest record, before compression, and largest request. Default: 1048576 bytes."""

    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """Codec for record batches. Default: none."""

    compression_gzip_level: int
    """gzip level; -1 is zlib's default. Default: -1."""

    compression_lz4_level: int
    """lz4 level. Default: 9."""

    compression_zstd_level: int
    """zstd level. Default: 3."""

    transactional_id: str | None
    """Id of this producer's transactions. Use the same id after a restart, and only one producer per id at a time: a new producer aborts
    the open transaction of the one before and fences it. Needs idempotence. Default: no transactions."""

    transaction_timeout_ms: int
    """The coordinator aborts a transaction that is open for longer than this. At most the brokers' transaction.max.timeout.ms. Default:
    60000 ms."""

    transaction_timeout_clamp: bool
    """If transaction.timeout.ms is above the brokers' maximum, halve it until the brokers accept it, instead of failing. Not in Java's
    client. Default: False."""

    metadata_max_idle_ms: int
    """Drop a topic's metadata if no record was sent to it for this long. Default: 300000 ms."""


class RegistrySettings(TypedDict, total=False):
    """Settings of SchemaRegistryClient."""

    schema_registry_url: str | Sequence[str]
    """Addresses of the registry, http:// or https://, separated by commas, or a list. If an address does not answer, the client tries the
    next."""

    basic_auth_credentials_source: Literal["", "URL", "USER_INFO"]
    """Source of user and password: the URL, or basic.auth.user.info (USER_INFO). Default: whichever of the two has them."""

    basic_auth_user_info: str | None
    """User and password, as user:password."""

    bearer_auth_token: str | None
    """Token for `Authorization: Bearer`."""

    bearer_auth_token_provider: Callable[[], str] | None
    """Function that returns the token for `Authorization: Bearer`. It is called for each request, so it should cache a valid token."""

    bearer_auth_credentials_source: Literal["", "STATIC_TOKEN", "OAUTHBEARER"]
    """Source of the token: bearer.auth.token (STATIC_TOKEN), or a token endpoint (OAUTHBEARER). Default: whichever is given."""

    bearer_auth_issuer_endpoint_url: str | None
    """URL that issues tokens for a client's id and secret. Only https://, unless the program allows the address with
    levada.oauth.allow_token_endpoints(). A token is requested again before it expires; one without a lifetime for each request."""

    bearer_auth_client_id: str | None
    """Client id for the token endpoint."""

    bearer_auth_client_secret: str | None
    """Client secret for the token endpoint."""

    bearer_auth_scope: str | None
    """OAuth scope to request from the token endpoint."""

    bearer_auth_logical_cluster: str | None
    """Id of the registry in Confluent Cloud, sent as target-sr-cluster."""

    bearer_auth_identity_pool_id: str | Sequence[str]
    """Ids of identity pools in Confluent Cloud, sent as Confluent-Identity-Pool-Id."""

    https_ca_location: str | None
    """PEM file with the certificates of the authorities to trust for the token endpoint. Default: the system's."""

    ssl_ca_location: str | None
    """PEM file with the certificates of the authorities to trust. Default: the system's."""

    ssl_certificate_location: str | None
    """PEM file with this client's certificate."""

    ssl_key_location: str | None
    """PEM file with this client's key. Default: the key is in ssl.certificate.location."""

    ssl_key_password: str | None
    """Password of an encrypted key in PEM."""

    ssl_context: SSLContext | None
    """An ssl.SSLContext to use instead of the other ssl settings."""

    proxy_url: str | None
    """Proxy for all connections to the registry and the token endpoint: socks5://user:password@host:1080, socks5h:// or
    http://user:password@host:3128 (CONNECT). socks5h:// and http:// have the proxy look up the registry's name. The environment's proxies
    are used only for the token endpoint, and only without this setting."""

    http_connect_timeout_ms: int
    """Time limit for a connection to be established, including TLS. Default: 10000 ms."""

    http_read_timeout_ms: int
    """Longest time without data from the registry while the client waits for an answer. Default: 30000 ms."""

    default_api_timeout_ms: int
    """Time limit of a call, including all its retries. Default: 60000 ms."""

    max_retries: int
    """Number of retries, each over all addresses, if none answered or all answered 408, 429, 500, 502, 503 or 504. Default: 3."""

    retries_wait_ms: int
    """Pause before the first retry; doubles with each. Default: 1000 ms."""

    retries_max_wait_ms: int
    """Longest pause before a retry, even if the registry asks for a longer one (Retry-After). Default: 20000 ms."""

    cache_capacity: int
    """Maximum number of entries in each of the client's caches: schemas by id, versions, latest versions, and ids. Default: 1000."""

    cache_latest_ttl_sec: int
    """How long the latest version of a subject is cached; 0 asks the registry each time. Default: 300 s."""

    max_response_bytes: int
    """Largest answer that the client accepts. Default: 67108864 bytes."""


class SerializerSettings(TypedDict, total=False):
    """Settings of AvroSerializer and ProtobufSerializer."""

    auto_register_schemas: bool
    """Register the schema when the first value is serialized. If false, the schema must be registered already. Default: True."""

    use_latest_version: bool
    """Serialize with the latest schema of the subject. Switches auto.register.schemas off. Default: False."""

    use_latest_with_metadata: str | Mapping[str, str]
    """Serialize with the latest schema of the subject whose metadata have these properties: name=value separated by commas, or a mapping.
    Switches auto.register.schemas off. Default: {}."""

    use_schema_id: int | None
    """Serialize with the schema of this id. Switches auto.register.schemas off."""

    normalize_schemas: bool
    """The registry normalizes the schema before it looks it up or registers it. Default: False."""

    subject_name_strategy: Literal["TopicName", "RecordName", "TopicRecordName"] | Callable[[str | None, str, str | None], str]
    """Subject of a schema. TopicName: <topic>-key or <topic>-value. RecordName: the record's full name. TopicRecordName: <topic>-<full
    name>. Or a function: strategy(topic, field, record_name) -> subject. Default: TopicName."""

    schema_id_serializer: Literal["Prefix", "Header"]
    """Where the id of the schema is written. Prefix: before the data. Header: as a GUID in the record's header __key_schema_id or
    __value_schema_id; needs a registry with GUIDs (Confluent Platform 8). Deserializers read both. Default: Prefix."""


class JSONSerializerSettings(SerializerSettings, total=False):
    """Settings of JSONSerializer."""

    json_fail_invalid_schema: bool
    """Refuse values that are invalid by their JSON Schema. Needs levada[jsonschema]. Default: False."""
