"""The client of a schema registry for programs on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from levada.base.unsupported_names import asynchronous
from levada.config.registry import RegistryConfig
from levada.registry.client import SchemaRegistryClient

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import RegistrySettings

P = ParamSpec("P")
T = TypeVar("T")


def _call(
    method: Callable[Concatenate[SchemaRegistryClient, P], T],
) -> Callable[Concatenate[AsyncSchemaRegistryClient, P], Coroutine[Any, Any, T]]:
    """Return a coroutine method that runs a method of the blocking client. It has that method's arguments and docstring."""

    @wraps(method)
    async def call(self: AsyncSchemaRegistryClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.blocking, *args, **kwargs)

    return call


@asynchronous
class AsyncSchemaRegistryClient:
    """A SchemaRegistryClient whose calls are coroutines::

        async with AsyncSchemaRegistryClient(schema_registry_url="http://localhost:8081") as registry:
            print(await registry.get_subjects())

    It has the settings, methods and errors of SchemaRegistryClient. Calls that may ask the registry run in the event loop's default
    executor. If the task is cancelled, the registry may still get the request.

    blocking: the SchemaRegistryClient that makes the calls. Serializers, deserializers and the `registry` of `value_format` take it.
    """

    @RegistryConfig.in_help
    def __init__(self, settings: Mapping[str, Any] | None = None, /, **keywords: Unpack[RegistrySettings]) -> None:
        self.blocking = SchemaRegistryClient(settings, **keywords)

    async def close(self) -> None:
        """Close the connections, like SchemaRegistryClient.close(). Calls that wait for their next attempt end with ClosedError."""
        self.blocking.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # Schemas.

    register_schema = _call(SchemaRegistryClient.register_schema)
    lookup_schema = _call(SchemaRegistryClient.lookup_schema)
    get_schema = _call(SchemaRegistryClient.get_schema)
    get_schema_by_guid = _call(SchemaRegistryClient.get_schema_by_guid)
    get_schema_versions = _call(SchemaRegistryClient.get_schema_versions)
    get_schema_types = _call(SchemaRegistryClient.get_schema_types)

    # Subjects and versions.

    get_subjects = _call(SchemaRegistryClient.get_subjects)
    get_contexts = _call(SchemaRegistryClient.get_contexts)
    get_versions = _call(SchemaRegistryClient.get_versions)
    get_latest_version = _call(SchemaRegistryClient.get_latest_version)
    get_latest_with_metadata = _call(SchemaRegistryClient.get_latest_with_metadata)
    get_version = _call(SchemaRegistryClient.get_version)
    delete_subject = _call(SchemaRegistryClient.delete_subject)
    delete_version = _call(SchemaRegistryClient.delete_version)
    get_referenced_schemas = _call(SchemaRegistryClient.get_referenced_schemas)
    get_referenced_by = _call(SchemaRegistryClient.get_referenced_by)

    # Compatibility and modes.

    test_compatibility = _call(SchemaRegistryClient.test_compatibility)
    get_compatibility = _call(SchemaRegistryClient.get_compatibility)
    set_compatibility = _call(SchemaRegistryClient.set_compatibility)
    delete_compatibility = _call(SchemaRegistryClient.delete_compatibility)
    get_mode = _call(SchemaRegistryClient.get_mode)
    update_mode = _call(SchemaRegistryClient.update_mode)
    delete_mode = _call(SchemaRegistryClient.delete_mode)

    def clear_caches(self) -> None:
        """Clear all caches, like SchemaRegistryClient.clear_caches()."""
        self.blocking.clear_caches()
