"""The blocking client of a schema registry. `endpoints` makes the requests, `attempts` retries them, `transport` sends them by HTTP."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID

from levada.base.clock import SystemClock
from levada.base.forks import event_for_forks
from levada.config.registry import RegistryConfig
from levada.errors import ClosedError
from levada.registry import endpoints
from levada.registry.attempts import Addresses, Attempt, RetryPolicy, attempts
from levada.registry.cache import Cache
from levada.registry.endpoints import Registered, Request, read_answer
from levada.registry.errors import RegistryProtocolError
from levada.registry.schema import Compatibility, RegisteredSchema, Schema, SchemaReference
from levada.registry.transport import Transport
from levada.registry.wire_format import SchemaKey

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import RegistrySettings

R = TypeVar("R")

LATEST = "latest"
DEEPEST_REFERENCES = 100
MOST_REFERENCES = 1_000
USER_AGENT = "levada"


class SchemaRegistryClient:
    """A thread-safe client of a schema registry::

        registry = SchemaRegistryClient(schema_registry_url="http://localhost:8081")

    settings: option names with dots, as in Confluent's clients. Options can also be keyword arguments, with underscores instead of dots.
    docs/CONFIGURATION.md lists the options.

    Calls block until the registry has answered, with retries for up to `default.api.timeout.ms`. They raise RegistryUnavailableError if no
    address answers, RegistryAnswerError if the registry answers with an error, RegistryProtocolError if the answer is not that of a
    registry, TokenError if an OAuth endpoint refuses a token, and ClosedError after close(). Methods have the names of Confluent's client.
    """

    @RegistryConfig.in_help
    def __init__(self, settings: Mapping[str, Any] | None = None, /, **keywords: Unpack[RegistrySettings]) -> None:
        config = RegistryConfig.parse(settings, **keywords)
        self._settings = {**(settings or {}), **keywords}
        self._now_ms = SystemClock().now_ms
        self._random = Random()
        self._addresses = Addresses(config.schema_registry_url)
        self._policy = RetryPolicy(config.max_retries, config.retries_wait_ms, config.retries_max_wait_ms, config.default_api_timeout_ms)
        self._transport = Transport(config, self._now_ms, USER_AGENT)
        # Close the connections even if the program drops the client without close().
        self._finalizer = weakref.finalize(self, self._transport.close)
        self._closed = event_for_forks()
        capacity, latest_ttl_ms = config.cache_capacity, config.cache_latest_ttl_sec * 1000
        self._schemas: Cache[tuple[int | str, str | None], tuple[Schema, str | None]] = Cache(capacity, None, self._now_ms)
        self._versions: Cache[tuple[str, int, bool], RegisteredSchema] = Cache(capacity, None, self._now_ms)
        self._latest: Cache[tuple[str, frozenset[tuple[str, str]] | None], RegisteredSchema] = Cache(capacity, latest_ttl_ms, self._now_ms)
        self._ids: Cache[tuple[str, Schema, bool], Registered] = Cache(capacity, None, self._now_ms)
        self._lookups: Cache[tuple[str, Schema, bool], RegisteredSchema] = Cache(capacity, None, self._now_ms)

    def close(self) -> None:
        """Close the connections. Later calls raise ClosedError if they need the registry; they still return cached values."""
        self._closed.set()
        self._finalizer()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings, including credentials. The copy, for example in a Spark worker, has connections and caches of its own."""
        return type(self), (self._settings,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Schemas.

    def register_schema(self, subject: str, schema: Schema, normalize_schemas: bool = False) -> int:
        """Register a schema under a subject and return its id, which is cached. A schema that is registered already keeps its id.

        A request to the registry also clears the cached latest versions of all subjects. normalize_schemas: whether the registry ignores
        differences of form between schemas. Raises IncompatibleSchemaError and InvalidSchemaError.
        """
        return self._register(subject, schema, normalize_schemas).schema_id

    def _register(self, subject: str, schema: Schema, normalize_schemas: bool) -> Registered:
        """Do what register_schema() does; return the whole answer."""

        def ask() -> Registered:
            registered = self._call(endpoints.register(subject, schema, normalize_schemas))
            self._latest.clear()
            return registered

        return self._ids.get((subject, schema, normalize_schemas), ask)

    def lookup_schema(self, subject: str, schema: Schema, normalize_schemas: bool = False, deleted: bool = False) -> RegisteredSchema:
        """Return the id and version under which a schema is registered for a subject. deleted: include softly deleted versions.

        Raises RegistryNotFoundError if it is not registered. The result is cached unless deleted=True.
        """
        request = endpoints.lookup(subject, schema, normalize_schemas, deleted)
        if deleted:
            return self._call(request)
        return self._lookups.get((subject, schema, normalize_schemas), lambda: self._call(request))

    def get_schema(self, schema_id: int, fmt: str | None = None) -> Schema:
        """Return the schema with an id. It is cached, because it never changes.

        fmt: the format of the text, such as "serialized" for Protobuf; None for the registry's default.
        """
        return self._identified(schema_id, fmt)[0]

    def get_schema_by_guid(self, guid: str, fmt: str | None = None) -> Schema:
        """Return the schema with a GUID, which registries have since Confluent Platform 8. Like get_schema()."""
        return self._schemas.get((guid, fmt), lambda: self._call(endpoints.schema_by_guid(guid, fmt)))[0]

    def _identified(self, schema_id: int, fmt: str | None = None) -> tuple[Schema, str | None]:
        """Return the schema with an id, and its GUID; None if the registry has no GUIDs."""
        return self._schemas.get((schema_id, fmt), lambda: self._call(endpoints.schema_by_id(schema_id, fmt)))

    def _schema_of(self, key: SchemaKey, *fmt: str) -> Schema:
        """Return the schema with an id or a GUID. fmt: as for get_schema()."""
        return self.get_schema(key, *fmt) if isinstance(key, int) else self.get_schema_by_guid(str(UUID(bytes=key)), *fmt)

    def get_schema_versions(self, schema_id: int) -> list[tuple[str, int]]:
        """Return (subject, version) pairs: where the schema with an id is registered."""
        return self._call(endpoints.schema_versions(schema_id))

    def get_schema_types(self) -> list[str]:
        """Return the schema types that the registry supports, such as "AVRO"."""
        return self._call(endpoints.schema_types())

    # Subjects and versions.

    def get_subjects(self, subject_prefix: str | None = None, deleted: bool = False) -> list[str]:
        """Return the names of all subjects, or of the subjects with a prefix. deleted: include softly deleted subjects."""
        return self._call(endpoints.subjects(subject_prefix, deleted))

    def get_contexts(self) -> list[str]:
        """Return the names of the contexts. The default context is "."."""
        return self._call(endpoints.contexts())

    def get_versions(self, subject: str, deleted: bool = False) -> list[int]:
        """Return the version numbers of a subject. deleted: include softly deleted versions."""
        return self._call(endpoints.versions(subject, deleted))

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject, which is cached for `cache.latest.ttl.sec`."""
        return self._latest.get((subject, None), lambda: self._call(endpoints.version(subject, LATEST, False)))

    def get_latest_with_metadata(self, subject: str, metadata: Mapping[str, str], deleted: bool = False) -> RegisteredSchema:
        """Return the latest version of a subject whose metadata have these properties. Needs Confluent Platform 7.4 or later.

        deleted: include softly deleted versions. The result is cached for `cache.latest.ttl.sec`, unless deleted=True.
        """
        request = endpoints.latest_with_metadata(subject, metadata, deleted)
        if deleted:
            return self._call(request)
        return self._latest.get((subject, frozenset(metadata.items())), lambda: self._call(request))

    def get_version(self, subject: str, version: int | str, deleted: bool = False) -> RegisteredSchema:
        """Return a version of a subject. version: a number or "latest". deleted: also find a softly deleted version.

        The result is cached if `version` is a number, because such a version never changes, but not with "latest".
        """
        request = endpoints.version(subject, version, deleted)
        if not isinstance(version, int):
            return self._call(request)
        return self._versions.get((subject, version, deleted), lambda: self._call(request))

    def delete_subject(self, subject: str, permanent: bool = False) -> list[int]:
        """Delete a subject and return the numbers of its versions. Clears the caches of this client.

        By default the subject is deleted softly: its schemas can still be read by id. permanent: delete the subject permanently, after it
        was deleted softly. If the answer is lost, the request is not repeated, and RegistryUnavailableError is raised.
        """
        try:
            return self._call(endpoints.delete_subject(subject, permanent))
        finally:
            self.clear_caches()

    def delete_version(self, subject: str, version: int | str, permanent: bool = False) -> int:
        """Delete a version of a subject and return its number. Clears the caches, like delete_subject().

        version: a number or "latest". permanent: as for delete_subject().
        """
        try:
            return self._call(endpoints.delete_version(subject, version, permanent))
        finally:
            self.clear_caches()

    def get_referenced_schemas(self, schema: Schema) -> dict[SchemaReference, Schema]:
        """Return all schemas that a schema references, directly or indirectly. Each schema comes after the schemas that it references.

        Raises RegistryProtocolError for a cycle, and for too many references.
        """
        found: dict[SchemaReference, Schema] = {}
        self._find_references(schema, found, ())
        return found

    def get_referenced_by(self, subject: str, version: int | str) -> list[int]:
        """Return the ids of the schemas that reference a version of a subject. version: a number or "latest"."""
        return self._call(endpoints.referenced_by(subject, version))

    # Compatibility and modes.

    def test_compatibility(self, subject: str, schema: Schema, version: int | str | None = LATEST) -> Compatibility:
        """Test whether a schema is compatible with a version of a subject.

        version: a number or "latest"; None tests all versions that the subject's compatibility level requires. The result can be used as a
        bool; its `messages` explain why the schema is not compatible.
        """
        return self._call(endpoints.compatibility(subject, schema, version))

    def get_compatibility(self, subject: str | None = None) -> str:
        """Return the compatibility level of a subject. Return the registry's level if the subject has none, or if `subject` is None."""
        return self._call(endpoints.get_level(subject))

    def set_compatibility(self, subject: str | None, level: str) -> str:
        """Set the compatibility level of a subject; None sets the registry's level. Return the new level.

        level: NONE, BACKWARD, FORWARD, FULL, BACKWARD_TRANSITIVE, FORWARD_TRANSITIVE or FULL_TRANSITIVE.
        """
        return self._call(endpoints.set_level(subject, level))

    def delete_compatibility(self, subject: str) -> None:
        """Remove a subject's compatibility level, so that the registry's level applies again. Not repeated if the answer is lost."""
        self._call(endpoints.delete_level(subject))

    def get_mode(self, subject: str | None = None) -> str:
        """Return the mode of a subject (READWRITE, READONLY, IMPORT), or the registry's mode if it has none or `subject` is None."""
        return self._call(endpoints.get_mode(subject))

    def update_mode(self, subject: str | None, mode: str, force: bool = False) -> str:
        """Set the mode of a subject; None sets the registry's mode. Return the new mode. force: set IMPORT even if schemas exist."""
        return self._call(endpoints.set_mode(subject, mode, force))

    def delete_mode(self, subject: str) -> None:
        """Remove a subject's mode, so that the registry's mode applies again. Not repeated if the answer is lost."""
        self._call(endpoints.delete_mode(subject))

    def clear_caches(self) -> None:
        """Clear all caches, for example after another program has deleted subjects."""
        for cache in (self._schemas, self._versions, self._latest, self._ids, self._lookups):
            cache.clear()

    def _known_latest_version(self, subject: str, metadata: Mapping[str, str]) -> RegisteredSchema | None:
        return self._latest.known((subject, frozenset(metadata.items()) if metadata else None))

    def _referenced(self, reference: SchemaReference) -> RegisteredSchema:
        # What was written before the version was deleted softly can still be read, as with Confluent's clients.
        return self.get_version(reference.subject, reference.version, deleted=True)

    def _find_references(self, schema: Schema, found: dict[SchemaReference, Schema], within: tuple[SchemaReference, ...]) -> None:
        """Add the schemas that a schema references, directly or indirectly, to `found`.

        within: the references from the first schema to this schema. Raises RegistryProtocolError for a cycle, and for too many references.
        """
        for reference in schema.references:
            if reference in within:
                raise _cannot_follow(reference, "itself")
            if len(within) == DEEPEST_REFERENCES:
                raise _cannot_follow(reference, f"others, {DEEPEST_REFERENCES} deep")
            if reference in found:
                continue
            if len(found) + len(within) == MOST_REFERENCES:
                raise RegistryProtocolError(f"a schema uses more than {MOST_REFERENCES} others: its references are not followed")
            used = self._referenced(reference).schema
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
                break
        return read_answer(request, answer, f"{url}{request.path}")


def _cannot_follow(reference: SchemaReference, what: str) -> RegistryProtocolError:
    return RegistryProtocolError(f"version {reference.version} of '{reference.subject}' uses {what}: its references cannot be followed")
