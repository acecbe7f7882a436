"""The blocking client. What it asks is in endpoints, how it tries again in attempts, HTTP in transport."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from random import Random
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from levada.base.clock import SystemClock
from levada.config.registry import RegistryConfig
from levada.errors import ClosedError
from levada.registry import endpoints
from levada.registry.attempts import Addresses, Attempt, RetryPolicy, attempts
from levada.registry.cache import Cache
from levada.registry.endpoints import Request, read_answer
from levada.registry.errors import RegistryProtocolError
from levada.registry.schema import Compatibility, RegisteredSchema, Schema, SchemaReference
from levada.registry.transport import Transport

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import RegistrySettings

R = TypeVar("R")

LATEST = "latest"
DEEPEST_REFERENCES = 100
MOST_REFERENCES = 1_000
USER_AGENT = "levada"


class SchemaRegistryClient:
    """A client of a schema registry; any number of threads may use one::

        registry = SchemaRegistryClient(schema_registry_url="http://localhost:8081")

    settings: keys with dots, as Confluent's clients have them; or keywords with underscores. docs/CONFIGURATION.md lists them.

    Calls block until the registry has answered, with retries for up to `default.api.timeout.ms`. They raise RegistryUnavailableError when
    no address answers, and a RegistryAnswerError for what the registry holds against a call. Methods are named as in Confluent's client.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **keywords: Unpack[RegistrySettings]) -> None:
        config = RegistryConfig.parse(settings, **keywords)
        self._settings = {**(settings or {}), **keywords}
        self._now_ms = SystemClock().now_ms
        self._random = Random()
        self._addresses = Addresses(config.schema_registry_url)
        self._policy = RetryPolicy(config.max_retries, config.retries_wait_ms, config.retries_max_wait_ms, config.default_api_timeout_ms)
        self._transport = Transport(config, self._now_ms, USER_AGENT)
        # When a client is dropped without close(), its connections are closed.
        self._finalizer = weakref.finalize(self, self._transport.close)
        self._closed = Event()
        capacity, latest_ttl_ms = config.cache_capacity, config.cache_latest_ttl_sec * 1000
        self._schemas: Cache[tuple[int, str | None], Schema] = Cache(capacity, None, self._now_ms)
        self._versions: Cache[tuple[str, int], RegisteredSchema] = Cache(capacity, None, self._now_ms)
        self._latest: Cache[str, RegisteredSchema] = Cache(capacity, latest_ttl_ms, self._now_ms)
        self._ids: Cache[tuple[str, Schema, bool], int] = Cache(capacity, None, self._now_ms)
        self._lookups: Cache[tuple[str, Schema, bool], RegisteredSchema] = Cache(capacity, None, self._now_ms)

    def close(self) -> None:
        """Close the connections. Calls that need the registry raise ClosedError afterwards; what is remembered is still returned."""
        self._closed.set()
        self._finalizer()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings, credentials included: a copy, as in a Spark worker, has connections and a memory of its own."""
        return type(self), (self._settings,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Schemas.

    def register_schema(self, subject: str, schema: Schema, normalize_schemas: bool = False) -> int:
        """Register a schema under a subject and return its id. A schema that is there already keeps its id; that is remembered.

        Raises IncompatibleSchemaError and InvalidSchemaError.
        """

        def ask() -> int:
            schema_id = self._call(endpoints.register(subject, schema, normalize_schemas))
            self._latest.forget(subject)
            return schema_id

        return self._ids.get((subject, schema, normalize_schemas), ask)

    def lookup_schema(self, subject: str, schema: Schema, normalize_schemas: bool = False, deleted: bool = False) -> RegisteredSchema:
        """Find a schema under a subject, its id and version. Raises RegistryNotFoundError where it is not registered."""
        request = endpoints.lookup(subject, schema, normalize_schemas, deleted)
        if deleted:
            return self._call(request)
        return self._lookups.get((subject, schema, normalize_schemas), lambda: self._call(request))

    def get_schema(self, schema_id: int, fmt: str | None = None) -> Schema:
        """Return the schema of an id; cached, as it never changes. fmt: the form to get it in, such as "serialized" (Protobuf)."""
        return self._schemas.get((schema_id, fmt), lambda: self._call(endpoints.schema_by_id(schema_id, fmt)))

    def get_schema_versions(self, schema_id: int) -> list[tuple[str, int]]:
        """Return the subjects and versions under which the schema of an id is registered."""
        return self._call(endpoints.schema_versions(schema_id))

    def get_schema_types(self) -> list[str]:
        """Return the types of schemas that the registry knows."""
        return self._call(endpoints.schema_types())

    # Subjects and versions.

    def get_subjects(self, subject_prefix: str | None = None, deleted: bool = False) -> list[str]:
        """Return the names of all subjects, or of those that begin so. deleted: also those that were deleted softly."""
        return self._call(endpoints.subjects(subject_prefix, deleted))

    def get_versions(self, subject: str, deleted: bool = False) -> list[int]:
        """Return the versions of a subject."""
        return self._call(endpoints.versions(subject, deleted))

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject; remembered for `cache.latest.ttl.sec`."""
        return self._latest.get(subject, lambda: self._call(endpoints.version(subject, LATEST, False)))

    def get_version(self, subject: str, version: int | str, deleted: bool = False) -> RegisteredSchema:
        """Return a version of a subject, a number or "latest". A numbered version is cached, as it never changes."""
        request = endpoints.version(subject, version, deleted)
        if deleted or not isinstance(version, int):
            return self._call(request)
        return self._versions.get((subject, version), lambda: self._call(request))

    def delete_subject(self, subject: str, permanent: bool = False) -> list[int]:
        """Delete a subject and return the numbers of its versions.

        By default it is deleted softly: its schemas can still be read by id. permanent: delete it for good, after it was deleted softly.
        """
        try:
            return self._call(endpoints.delete_subject(subject, permanent))
        finally:
            self.clear_caches()

    def delete_version(self, subject: str, version: int | str, permanent: bool = False) -> int:
        """Delete a version of a subject and return its number. permanent: see delete_subject()."""
        try:
            return self._call(endpoints.delete_version(subject, version, permanent))
        finally:
            self.clear_caches()

    def get_referenced_schemas(self, schema: Schema) -> dict[SchemaReference, Schema]:
        """Return all schemas that a schema references, directly or through others. Each one comes after those that it references itself."""
        found: dict[SchemaReference, Schema] = {}
        self._find_references(schema, found, ())
        return found

    def get_referenced_by(self, subject: str, version: int | str) -> list[int]:
        """Return the ids of the schemas that use a version of a subject."""
        return self._call(endpoints.referenced_by(subject, version))

    # Compatibility and modes.

    def test_compatibility(self, subject: str, schema: Schema, version: int | str | None = LATEST) -> Compatibility:
        """Test whether a schema is compatible with a version of a subject. None: with those that the subject's compatibility level names.

        version: a number or "latest"; None tests all versions that the level covers. The result can be used as a bool, and has the
        registry's reasons in `messages`.
        """
        return self._call(endpoints.compatibility(subject, schema, version))

    def get_compatibility(self, subject: str | None = None) -> str:
        """Return the compatibility level that holds for a subject, its own or the registry's; without a subject the registry's."""
        return self._call(endpoints.get_level(subject))

    def set_compatibility(self, subject: str | None, level: str) -> str:
        """Set the level of a subject, or with None the registry's: BACKWARD, FORWARD, FULL, each also _TRANSITIVE, or NONE."""
        return self._call(endpoints.set_level(subject, level))

    def delete_compatibility(self, subject: str) -> None:
        """Let the registry's compatibility level hold for a subject again."""
        self._call(endpoints.delete_level(subject))

    def get_mode(self, subject: str | None = None) -> str:
        """Return the mode that holds for a subject, or the registry's: READWRITE, READONLY, IMPORT."""
        return self._call(endpoints.get_mode(subject))

    def update_mode(self, subject: str | None, mode: str, force: bool = False) -> str:
        """Set the mode of a subject, or with None of the registry."""
        return self._call(endpoints.set_mode(subject, mode, force))

    def delete_mode(self, subject: str) -> None:
        """Let the registry's mode hold for a subject again."""
        self._call(endpoints.delete_mode(subject))

    def clear_caches(self) -> None:
        """Forget all that was remembered, as after another program deleted subjects."""
        for cache in (self._schemas, self._versions, self._latest, self._ids, self._lookups):
            cache.clear()

    def _find_references(self, schema: Schema, found: dict[SchemaReference, Schema], within: tuple[SchemaReference, ...]) -> None:
        """Add what a schema uses to `found`. within: the references that led to it. Raises RegistryProtocolError for a circle."""
        for reference in schema.references:
            if reference in within:
                raise _cannot_follow(reference, "itself")
            if len(within) == DEEPEST_REFERENCES:
                raise _cannot_follow(reference, f"others, {DEEPEST_REFERENCES} deep")
            if reference in found:
                continue
            if len(found) + len(within) == MOST_REFERENCES:
                raise RegistryProtocolError(f"a schema uses more than {MOST_REFERENCES} others: its references are not followed")
            used = self.get_version(reference.subject, reference.version).schema
            self._find_references(used, found, (*within, reference))
            found[reference] = used

    def _call(self, request: Request[R]) -> R:
        steps = attempts(
            request.what,
            repeatable=request.repeatable,
            addresses=self._addresses,
            policy=self._policy,
            now_ms=self._now_ms,
            random=self._random,
        )
        step = next(steps)
        while True:
            if self._closed.is_set():
                raise ClosedError(f"{request.what}: the registry client is closed")
            if isinstance(step, Attempt):
                outcome = self._transport.send(step, request)
            else:
                outcome = None
                self._closed.wait(step.delay_ms / 1000)
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                url, answer = done.value
                return read_answer(request, answer, f"{url}{request.path}")


def _cannot_follow(reference: SchemaReference, what: str) -> RegistryProtocolError:
    return RegistryProtocolError(f"version {reference.version} of '{reference.subject}' uses {what}: its references cannot be followed")
