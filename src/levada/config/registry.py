"""Keys of the Schema Registry client and of its serializers, under the names of Confluent's clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import SplitResult, unquote, urlsplit

from levada.base.proxy import Proxy
from levada.config.base import Config
from levada.config.option import (
    INT32_MAX,
    Option,
    boolean,
    choice,
    file_name,
    function,
    integer,
    milliseconds,
    names,
    pairs,
    read_int,
    size_bytes,
    text,
    tls_context,
)
from levada.config.proxy import proxy
from levada.errors import ConfigError

_PEM = "keys and certificates are read from PEM files: ssl.ca.location, ssl.certificate.location, ssl.key.location, or ssl.context"
ISSUER = "bearer.auth.issuer.endpoint.url"
_OAUTHBEARER, _STATIC_TOKEN = "OAUTHBEARER", "STATIC_TOKEN"
_PROXY = "did you mean 'proxy.url', such as http://user:password@host:3128?"

DEFAULT_PORTS: Mapping[str, int] = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class RegistryUrl:
    """One address of a registry.

    path: the part of the URL before each endpoint, without a trailing slash. user_info: "user:password" from the URL; never shown.
    """

    scheme: str
    host: str
    port: int
    path: str
    user_info: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def _prefixed(name: str) -> tuple[str, ...]:
    """Return the name of a security setting with the prefix that Java's serializers also accept."""
    return (f"schema.registry.{name}",)


def _urls(doc: str) -> Any:
    return Option("list", _read_urls, (), doc, "http(s)://host:port, ...", "str | Sequence[str]", required=True, aliases=("url",))


def _read_urls(value: Any) -> tuple[RegistryUrl, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
        raise ValueError("expected 'http://host:port' or 'https://host:port', several separated by commas, or a list of addresses")
    found = tuple(_read_url(item.strip()) for item in items if item.strip())
    if not found:
        raise ValueError("names no registry; give at least one http://host:port")
    return found


def _read_url(item: str) -> RegistryUrl:
    parts = _split(item)
    if parts.scheme not in DEFAULT_PORTS:
        advice = "; a registry is not simulated: start one, or give serializers a schema of their own" if parts.scheme == "mock" else ""
        raise ValueError(f"{_without_user_info(item)!r} does not begin with http:// or https://{advice}")
    if not parts.hostname:
        raise ValueError(f"{_without_user_info(item)!r} names no host")
    if parts.query or parts.fragment:
        raise ValueError(f"{_without_user_info(item)!r} has a query or fragment; give the registry's address alone")
    user_info = unquote(parts.netloc.rpartition("@")[0]) if "@" in parts.netloc else None
    return RegistryUrl(parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"), user_info)


def _split(item: str) -> SplitResult:
    try:
        parts = urlsplit(item)
        parts.port  # noqa: B018 - a bad port is noticed when it is read
    except ValueError:
        raise ValueError(f"{_without_user_info(item)!r} is no URL; expected http://host:port") from None
    return parts


def _without_user_info(item: str) -> str:
    head, separator, rest = item.partition("://")
    return head + separator + rest.rpartition("@")[2] if separator else item.rpartition("@")[2]


class RegistryConfig(Config):
    """Settings of SchemaRegistryClient."""

    WHO: ClassVar[str] = "a registry client"
    EXAMPLE: ClassVar[str] = "schema_registry_url='http://host:8081'"
    NOT_YET: ClassVar[Mapping[str, str]] = {
        **{f"{prefix}ssl.{store}.*": _PEM for prefix in ("", "schema.registry.") for store in ("truststore", "keystore")},
        "schema.registry.ssl.*": _PEM,
    }
    FOREIGN: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("http.proxy", "proxy", "proxy.host", "proxy.port"), _PROXY),
        "timeout": "did you mean 'http.read.timeout.ms' (one answer) or 'default.api.timeout.ms' (a whole call)? They are milliseconds",
        "max.schemas.per.subject": "did you mean 'cache.capacity'?",
        "cache.ttl": "schemas by id never change and are kept; for the latest version of a subject see 'cache.latest.ttl.sec'",
    }

    schema_registry_url: tuple[RegistryUrl, ...] = _urls(
        "Addresses of the registry, http:// or https://, separated by commas, or a list. If an address does not answer, the client tries "
        "the next."
    )
    basic_auth_credentials_source: str = choice(
        "",
        ("", "URL", "USER_INFO"),
        "Source of user and password: the URL, or basic.auth.user.info (USER_INFO). Default: whichever of the two has them.",
        advice="SASL_INHERIT is not there yet; give basic.auth.user.info",
        aliases=_prefixed("basic.auth.credentials.source"),
    )
    basic_auth_user_info: str | None = text(
        None, "User and password, as user:password.", aliases=_prefixed("basic.auth.user.info"), secret=True
    )
    bearer_auth_token: str | None = text(None, "Token for `Authorization: Bearer`.", aliases=_prefixed("bearer.auth.token"), secret=True)
    bearer_auth_token_provider: Callable[[], str] | None = function(
        "Function that returns the token for `Authorization: Bearer`. It is called for each request, so it should cache a valid token.",
        "Callable[[], str]",
    )
    bearer_auth_credentials_source: str = choice(
        "",
        ("", _STATIC_TOKEN, _OAUTHBEARER),
        "Source of the token: bearer.auth.token (STATIC_TOKEN), or a token endpoint (OAUTHBEARER). Default: whichever is given.",
        advice="give bearer.auth.token.provider, a function that returns a token, for other sources",
        aliases=_prefixed("bearer.auth.credentials.source"),
    )
    bearer_auth_issuer_endpoint_url: str | None = text(
        None,
        "URL that issues tokens for a client's id and secret. Only https://, unless the program allows the address with "
        "levada.oauth.allow_token_endpoints(). A token is requested again before it expires; one without a lifetime for each request.",
        aliases=_prefixed("bearer.auth.issuer.endpoint.url"),
    )
    bearer_auth_client_id: str | None = text(None, "Client id for the token endpoint.", aliases=_prefixed("bearer.auth.client.id"))
    bearer_auth_client_secret: str | None = text(
        None, "Client secret for the token endpoint.", aliases=_prefixed("bearer.auth.client.secret"), secret=True
    )
    bearer_auth_scope: str | None = text(None, "OAuth scope to request from the token endpoint.", aliases=_prefixed("bearer.auth.scope"))
    bearer_auth_logical_cluster: str | None = text(
        None, "Id of the registry in Confluent Cloud, sent as target-sr-cluster.", aliases=_prefixed("bearer.auth.logical.cluster")
    )
    bearer_auth_identity_pool_id: Sequence[str] = names(
        (),
        "Ids of identity pools in Confluent Cloud, sent as Confluent-Identity-Pool-Id.",
        aliases=_prefixed("bearer.auth.identity.pool.id"),
    )
    https_ca_location: str | None = file_name(
        "PEM file with the certificates of the authorities to trust for the token endpoint. Default: the system's."
    )
    ssl_ca_location: str | None = file_name(
        "PEM file with the certificates of the authorities to trust. Default: the system's.", aliases=_prefixed("ssl.ca.location")
    )
    ssl_certificate_location: str | None = file_name(
        "PEM file with this client's certificate.", aliases=_prefixed("ssl.certificate.location")
    )
    ssl_key_location: str | None = file_name(
        "PEM file with this client's key. Default: the key is in ssl.certificate.location.", aliases=_prefixed("ssl.key.location")
    )
    ssl_key_password: str | None = text(None, "Password of an encrypted key in PEM.", aliases=_prefixed("ssl.key.password"), secret=True)
    ssl_context: Any = tls_context("An ssl.SSLContext to use instead of the other ssl settings.")
    proxy_url: Proxy | None = proxy(
        "Proxy for all connections to the registry and the token endpoint: socks5://user:password@host:1080, socks5h:// or "
        "http://user:password@host:3128 (CONNECT). socks5h:// and http:// have the proxy look up the registry's name. The environment's "
        "proxies are used only for the token endpoint, and only without this setting."
    )
    http_connect_timeout_ms: int = milliseconds(10_000, "Time limit for a connection to be established, including TLS.", low=1)
    http_read_timeout_ms: int = milliseconds(
        30_000, "Longest time without data from the registry while the client waits for an answer.", low=1
    )
    default_api_timeout_ms: int = milliseconds(60_000, "Time limit of a call, including all its retries.", low=1)
    max_retries: int = integer(
        3, "Number of retries, each over all addresses, if none answered or all answered 408, 429, 500, 502, 503 or 504."
    )
    retries_wait_ms: int = milliseconds(1_000, "Pause before the first retry; doubles with each.")
    retries_max_wait_ms: int = milliseconds(
        20_000, "Longest pause before a retry, even if the registry asks for a longer one (Retry-After)."
    )
    cache_capacity: int = integer(
        1_000, "Maximum number of entries in each of the client's caches: schemas by id, versions, latest versions, and ids.", low=1
    )
    cache_latest_ttl_sec: int = integer(
        300,
        "How long the latest version of a subject is cached; 0 asks the registry each time.",
        unit="s",
        aliases=("latest.cache.ttl.sec",),
    )
    max_response_bytes: int = size_bytes(64 << 20, "Largest answer that the client accepts.", low=1024)

    def _check(self) -> None:
        self._check_credentials()
        self._check_tls()
        if self.retries_wait_ms > self.retries_max_wait_ms:
            self._settle("retries_max_wait_ms", self.retries_wait_ms)

    def _check_credentials(self) -> None:
        in_url = any(url.user_info for url in self.schema_registry_url)
        ways = ("basic.auth.user.info", "bearer.auth.token", "bearer.auth.token.provider", ISSUER)
        given = [name for name in ways if name in self.given]
        if len(given) > 1:
            raise ConfigError(f"'{given[0]}' and '{given[1]}' exclude each other")
        if in_url and given:
            raise ConfigError(f"'schema.registry.url' has a user and '{given[0]}' is set; give only one of them")
        source = self.basic_auth_credentials_source
        if source == "USER_INFO" and self.basic_auth_user_info is None:
            raise ConfigError("basic.auth.credentials.source=USER_INFO needs 'basic.auth.user.info'")
        if source == "URL" and self.basic_auth_user_info is not None:
            raise ConfigError("basic.auth.credentials.source=URL does not read 'basic.auth.user.info'; leave that out, or set USER_INFO")
        if self.basic_auth_user_info is not None and ":" not in self.basic_auth_user_info:
            raise ConfigError("'basic.auth.user.info': expected user:password, but there is no colon")
        self._check_tokens()
        if self.bearer_auth_token is not None and not is_header_text(self.bearer_auth_token):
            raise ConfigError(
                "'bearer.auth.token': a token must be printable ASCII without white space; does it end with a line end from a file?"
            )

    def _check_tokens(self) -> None:
        source = self.bearer_auth_credentials_source
        if source == _STATIC_TOKEN and self.bearer_auth_token is None:
            raise ConfigError("bearer.auth.credentials.source=STATIC_TOKEN needs 'bearer.auth.token'")
        needed = (ISSUER, "bearer.auth.client.id", "bearer.auth.client.secret")
        of_endpoint = [name for name in (*needed, "bearer.auth.scope", "https.ca.location") if name in self.given]
        if source == _OAUTHBEARER or of_endpoint:
            first = "bearer.auth.credentials.source=OAUTHBEARER" if source == _OAUTHBEARER else f"'{of_endpoint[0]}'"
            for name in needed:
                if not getattr(self, name.replace(".", "_")):
                    raise ConfigError(f"{first} needs '{name}'")
            if source == _STATIC_TOKEN:
                raise ConfigError(f"bearer.auth.credentials.source=STATIC_TOKEN does not read '{of_endpoint[0]}'; leave that out")
        for name in ("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id"):
            value = getattr(self, name.replace(".", "_")) or ()
            if not all(is_header_text(one) for one in ([value] if isinstance(value, str) else value)):
                raise ConfigError(f"'{name}': must be printable ASCII without white space")

    def _check_tls(self) -> None:
        files = [name for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location") if name in self.given]
        if self.ssl_context is not None and files:
            raise ConfigError(f"'ssl.context' and '{files[0]}' exclude each other")
        if self.ssl_key_location is not None and self.ssl_certificate_location is None:
            raise ConfigError("'ssl.key.location' needs 'ssl.certificate.location'")
        if (self.ssl_context is not None or files) and all(url.scheme == "http" for url in self.schema_registry_url):
            raise ConfigError(
                f"'{files[0] if files else 'ssl.context'}' is set, but 'schema.registry.url' begins with http://, which is not TLS"
            )


def is_header_text(value: str) -> bool:
    """Whether a text can be part of an HTTP header: printable ASCII without white space."""
    return bool(value) and all("!" <= character <= "~" for character in value)


PREFIX, HEADER = "Prefix", "Header"

STRATEGIES = ("TopicName", "RecordName", "TopicRecordName")


def _strategy(default: str, doc: str) -> Any:
    by_folded = {spelling.lower(): word for word in STRATEGIES for spelling in (word, f"{word}Strategy", _java_class(word))}

    def read(value: Any) -> Any:
        if callable(value):
            return value
        word = by_folded.get(str(value).strip().lower())
        if word is None:
            raise ValueError(f"must be one of {', '.join(STRATEGIES)}, or a callable; got {value!r}")
        return word

    shown = ", ".join(f'"{word}"' for word in STRATEGIES)
    annotation = f"Literal[{shown}] | Callable[[str | None, str, str | None], str]"
    return Option("choice", read, default, doc, ", ".join([*STRATEGIES, "a callable"]), annotation)


def _java_class(word: str) -> str:
    return f"io.confluent.kafka.serializers.subject.{word}Strategy"


def _id_place(doc: str) -> Any:
    package = "io.confluent.kafka.serializers.schema.id."
    spellings = {word: (word, f"{word}SchemaIdSerializer", f"{package}{word}SchemaIdSerializer") for word in (PREFIX, HEADER)}
    by_folded = {spelling.lower(): word for word, known in spellings.items() for spelling in known}

    def read(value: Any) -> str:
        word = by_folded.get(str(value).strip().lower())
        if word is None:
            raise ValueError(f"must be {PREFIX} or {HEADER}, got {value!r}")
        return word

    return Option("choice", read, PREFIX, doc, f"{PREFIX}, {HEADER}", f'Literal["{PREFIX}", "{HEADER}"]')


def _schema_id(doc: str) -> Any:
    def read(value: Any) -> int | None:
        if value is None:
            return None
        number = read_int(value)
        if not 1 <= number <= INT32_MAX:
            raise ValueError(f"must be between 1 and {INT32_MAX}, got {number}")
        return number

    return Option("int", read, None, doc, "1 .. 2^31-1", "int | None")


class SerializerConfig(Config):
    """Settings of AvroSerializer and ProtobufSerializer."""

    WHO: ClassVar[str] = "a serializer"
    EXAMPLE: ClassVar[str] = "auto_register_schemas=False"
    FOREIGN: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("key.schema.id.serializer", "value.schema.id.serializer"),
        "did you mean 'schema.id.serializer'? A serializer is for keys or for values, as its argument `field` says",
    )

    auto_register_schemas: bool = boolean(
        True, "Register the schema when the first value is serialized. If false, the schema must be registered already."
    )
    use_latest_version: bool = boolean(False, "Serialize with the latest schema of the subject. Switches auto.register.schemas off.")
    use_latest_with_metadata: Mapping[str, str] = pairs(
        "Serialize with the latest schema of the subject whose metadata have these properties: name=value separated by commas, or a "
        "mapping. Switches auto.register.schemas off."
    )
    use_schema_id: int | None = _schema_id("Serialize with the schema of this id. Switches auto.register.schemas off.")
    normalize_schemas: bool = boolean(False, "The registry normalizes the schema before it looks it up or registers it.")
    subject_name_strategy: Any = _strategy(
        "TopicName",
        "Subject of a schema. TopicName: <topic>-key or <topic>-value. RecordName: the record's full name. TopicRecordName: <topic>-<full "
        "name>. Or a function: strategy(topic, field, record_name) -> subject.",
    )

    schema_id_serializer: str = _id_place(
        "Where the id of the schema is written. Prefix: before the data. Header: as a GUID in the record's header __key_schema_id or "
        "__value_schema_id; needs a registry with GUIDs (Confluent Platform 8). Deserializers read both."
    )

    def _check(self) -> None:
        ways = [
            name for name in ("use.schema.id", "use.latest.version", "use.latest.with.metadata") if getattr(self, name.replace(".", "_"))
        ]
        if len(ways) > 1:
            raise ConfigError(f"'{ways[0]}' and '{ways[1]}' exclude each other")
        if ways and self.auto_register_schemas:
            if "auto.register.schemas" in self.given:
                raise ConfigError(f"'auto.register.schemas' and '{ways[0]}' exclude each other")
            self._settle("auto_register_schemas", False)


class JSONSerializerConfig(SerializerConfig):
    """Settings of JSONSerializer."""

    json_fail_invalid_schema: bool = boolean(
        False, "Refuse values that are invalid by their JSON Schema. Needs levada[jsonschema].", aliases=("validate",)
    )
