"""The client of AWS Glue Schema Registry. Its requests are sent by botocore, which signs and retries them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args
from uuid import UUID

from levada.base.clock import SystemClock
from levada.errors import ConfigError
from levada.registry.cache import Cache
from levada.registry.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAnswerError,
    RegistryAuthenticationError,
    RegistryAuthorizationError,
    RegistryError,
    RegistryNotFoundError,
    RegistryProtocolError,
    RegistryUnavailableError,
)
from levada.registry.schema import Schema

R = TypeVar("R")

Level: TypeAlias = Literal["NONE", "DISABLED", "BACKWARD", "BACKWARD_ALL", "FORWARD", "FORWARD_ALL", "FULL", "FULL_ALL"]
"""A compatibility level of Glue. DISABLED allows no new versions; those with _ALL compare with all earlier versions."""

MOST_KEPT = 1_000
PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6, *[2.0] * 14)
"""The pauses between questions about a schema version that Glue is checking: 31 seconds in total."""
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S, _ATTEMPTS = 10, 30, 4

_BY_CODE: Final = {
    "EntityNotFoundException": RegistryNotFoundError,
    "InvalidInputException": InvalidSchemaError,
    "AccessDeniedException": RegistryAuthorizationError,
    **dict.fromkeys(
        ("UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException", "MissingAuthenticationTokenException"),
        RegistryAuthenticationError,
    ),
}
_MAY_PASS: Final = ("ThrottlingException", "ConcurrentModificationException", "InternalServiceException", "OperationTimeoutException")
_OF_CONNECTIONS: Final = {"ConnectionError", "HTTPClientError"}
"""The base classes of botocore's errors without an answer. They are known by name, because a program may bring its own client."""


class GlueSchemaRegistry:
    """A thread-safe client of AWS Glue Schema Registry, for GlueSerializer and GlueDeserializer::

        registry = GlueSchemaRegistry(region="eu-west-1")

    client: a client for "glue" that botocore or boto3 made. None makes one, which needs levada[aws]: its credentials come from wherever
    botocore finds them, and region and profile are botocore's defaults unless they are given. registry_name: the registry in which schemas
    are looked up and registered. compatibility: the level of the schemas that register_schema() creates.

    Calls block. They raise RegistryError, of the classes that SchemaRegistryClient raises. References between schemas raise ConfigError.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        region: str | None = None,
        profile: str | None = None,
        registry_name: str = "default-registry",
        compatibility: Level = "BACKWARD",
    ) -> None:
        if compatibility not in get_args(Level):
            raise ConfigError(f"compatibility must be one of {', '.join(get_args(Level))}; got {compatibility!r}")
        if client is not None and (region or profile):
            raise ConfigError("region and profile are for a client that is made: give either them or a client")
        made: dict[str, Any] = {"region": region, "profile": profile, "registry_name": registry_name, "compatibility": compatibility}
        self._made = made if client is None else None
        self._client = _glue(region, profile) if client is None else client
        self._registry_name = registry_name
        self._compatibility = compatibility
        now_ms = SystemClock().now_ms
        self._schemas: Cache[UUID, Schema] = Cache(MOST_KEPT, None, now_ms)
        self._ids: Cache[tuple[str, Schema], UUID] = Cache(MOST_KEPT, None, now_ms)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments. The copy, for example in a Spark worker, makes a client and gets credentials of its own."""
        if self._made is None:
            raise TypeError("a GlueSchemaRegistry with a client of the program's own cannot be pickled: give it region and profile instead")
        return partial(type(self), **self._made), ()

    def get_schema(self, version_id: UUID) -> Schema:
        """Return the schema of a schema version. It is cached, because it never changes."""

        def ask() -> Schema:
            return self._call(f"schema version {version_id}", "get_schema_version", _schema, SchemaVersionId=str(version_id))

        return self._schemas.get(version_id, ask)

    def lookup_schema(self, schema_name: str, schema: Schema) -> UUID:
        """Return the id of the version of `schema_name` that has this definition; it is cached.

        While Glue is still checking the version, the call waits, for about 31 s at most; then it raises RegistryUnavailableError. Raises
        RegistryNotFoundError if there is no such schema or version, and IncompatibleSchemaError if Glue has refused the version.
        """
        return self._ids.get((schema_name, schema), lambda: self._look_up(schema_name, schema))

    def register_schema(self, schema_name: str, schema: Schema) -> UUID:
        """Return the id of the version of `schema_name` that has this definition; it is cached.

        Without such a version, it is registered; without the schema, the schema is created. Waits for Glue's check as lookup_schema() does.
        Raises IncompatibleSchemaError and InvalidSchemaError.
        """
        return self._ids.get((schema_name, schema), lambda: self._register(schema_name, schema))

    def _look_up(self, schema_name: str, schema: Schema) -> UUID:
        what = f"schema '{schema_name}' in '{self._registry_name}'"
        definition = _definition(schema)
        found = self._call(what, "get_schema_by_definition", _version, SchemaId=self._schema_id(schema_name), SchemaDefinition=definition)
        return self._available(what, *found)

    def _register(self, schema_name: str, schema: Schema) -> UUID:
        try:
            return self._look_up(schema_name, schema)
        except RegistryNotFoundError:
            pass
        try:
            return self._register_version(schema_name, schema)
        except RegistryNotFoundError:
            pass
        what = f"create schema '{schema_name}' in '{self._registry_name}'"
        try:
            made = self._call(
                what,
                "create_schema",
                lambda answer: (UUID(answer["SchemaVersionId"]), answer["SchemaVersionStatus"]),
                RegistryId={"RegistryName": self._registry_name},
                SchemaName=schema_name,
                DataFormat=schema.schema_type,
                Compatibility=self._compatibility,
                SchemaDefinition=_definition(schema),
            )
        except RegistryAnswerError as error:
            if _code_of(error.__cause__) != "AlreadyExistsException":
                raise
            # Another program has created the schema since it was looked up.
            return self._register_version(schema_name, schema)
        return self._available(what, *made)

    def _register_version(self, schema_name: str, schema: Schema) -> UUID:
        what = f"register a version of schema '{schema_name}' in '{self._registry_name}'"
        definition = _definition(schema)
        made = self._call(what, "register_schema_version", _version, SchemaId=self._schema_id(schema_name), SchemaDefinition=definition)
        return self._available(what, *made)

    def _schema_id(self, schema_name: str) -> dict[str, str]:
        return {"RegistryName": self._registry_name, "SchemaName": schema_name}

    def _available(self, what: str, version_id: UUID, status: str) -> UUID:
        """Wait until Glue has accepted a schema version, and return its id. Glue answers a registration before it checks the version.

        Raises IncompatibleSchemaError if Glue refuses the version, RegistryUnavailableError if it has not decided after PAUSES_S.
        """
        pauses = iter(PAUSES_S)
        while status == "PENDING":
            if (pause := next(pauses, None)) is None:
                raise RegistryUnavailableError(f"{what}: Glue is still checking it", {self._url: f"version {version_id} is PENDING"})
            sleep(pause)
            status = self._call(what, "get_schema_version", lambda answer: answer["Status"], SchemaVersionId=str(version_id))
        if status != "AVAILABLE":
            # FAILURE says that it is not compatible with earlier versions, as the compatibility level of the schema requires.
            kind = IncompatibleSchemaError if status == "FAILURE" else RegistryAnswerError
            raise kind(what, status=200, error_code=200, reason=f"version {version_id} is in status {status}", url=self._url)
        return version_id

    @property
    def _url(self) -> str:
        return str(self._client.meta.endpoint_url)

    def _call(self, what: str, operation: str, read: Callable[[Any], R], **arguments: Any) -> R:
        try:
            answer = getattr(self._client, operation)(**arguments)
        except Exception as error:
            raise self._error(what, error) from error
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError) as fault:
            raise RegistryProtocolError(f"{what}: {self._url} did not answer as Glue does") from fault

    def _error(self, what: str, error: Exception) -> RegistryError:
        code = _code_of(error)
        if code is None:
            cause = f"{type(error).__name__}: {error}"
            if _OF_CONNECTIONS & {kind.__name__ for kind in type(error).__mro__}:
                return RegistryUnavailableError(f"{what}: Glue did not answer", {self._url: cause})
            return RegistryError(f"{what}: {cause}")
        response: Any = error.response  # type: ignore[attr-defined]
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        reason = f"{code}: {response['Error'].get('Message')}"
        if code in _MAY_PASS or status >= 500:
            return RegistryUnavailableError(f"{what}: Glue refused it for now", {self._url: reason})
        kind = _BY_CODE.get(code, RegistryAnswerError)
        return kind(what, status=status, error_code=status, reason=reason, url=self._url)


def _glue(region: str | None, profile: str | None) -> Any:
    try:
        from botocore.config import Config
        from botocore.session import Session
    except ImportError as missing:
        raise ImportError("GlueSchemaRegistry needs botocore: pip install 'levada[aws]', or give it a client") from missing
    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra="levada",
    )
    try:
        return Session(profile=profile).create_client("glue", region_name=region, config=config)
    except Exception as error:
        raise ConfigError(f"botocore cannot make a client for Glue: {error}") from error


def _code_of(error: BaseException | None) -> str | None:
    """Return the code of an error of AWS; None for other errors."""
    response = getattr(error, "response", None)
    return response["Error"].get("Code", "") if isinstance(response, dict) and "Error" in response else None


def _version(answer: Any) -> tuple[UUID, str]:
    """Return the id and the status of a schema version."""
    return UUID(answer["SchemaVersionId"]), answer["Status"]


def _schema(answer: Any) -> Schema:
    return Schema(answer["SchemaDefinition"], answer["DataFormat"])


def _definition(schema: Schema) -> str:
    if schema.references:
        raise ConfigError("Glue's schemas have no references to others: write the definitions of all types into the schema")
    return schema.schema_str
