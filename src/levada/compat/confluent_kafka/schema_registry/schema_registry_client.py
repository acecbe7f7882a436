"""SchemaRegistryClient with confluent-kafka's calls and errors, over levada's."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from levada import errors, registry
from levada.compat.confluent_kafka.schema_registry.error import raising_registry_errors
from levada.registry import RegisteredSchema, Schema


class SchemaVersion(NamedTuple):
    """Where a schema is registered."""

    subject: str
    version: int


class SchemaRegistryClient:
    """A client of a Schema Registry. Its calls raise SchemaRegistryError.

    conf: url, basic.auth.user.info, bearer.auth.token, ssl.ca.location, timeout (in seconds) and other settings of levada.registry. Raises
    ValueError for a setting that is not valid. deleted: whether versions or subjects that were deleted softly are also found.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        settings = {name: value for name, value in conf.items() if value is not None}
        if "timeout" in settings:
            settings["http.read.timeout.ms"] = round(float(settings.pop("timeout")) * 1000)
        try:
            self.levada = registry.SchemaRegistryClient(settings)
        except errors.ConfigError as error:
            raise ValueError(str(error)) from error

    def register_schema(self, subject_name: str, schema: Schema, normalize_schemas: bool = False) -> int:
        """Register a schema; return its id."""
        with raising_registry_errors():
            return self.levada.register_schema(subject_name, schema, normalize_schemas)

    def lookup_schema(
        self, subject_name: str, schema: Schema, normalize_schemas: bool = False, *, deleted: bool = False
    ) -> RegisteredSchema:
        """Return the id and version of a registered schema."""
        with raising_registry_errors():
            return self.levada.lookup_schema(subject_name, schema, normalize_schemas, deleted)

    def get_schema(self, schema_id: int, subject_name: str | None = None, fmt: str | None = None) -> Schema:
        """Return the schema with an id. subject_name: has no effect, as ids are unique."""
        with raising_registry_errors():
            return self.levada.get_schema(schema_id, fmt)

    def get_schema_by_guid(self, guid: str, fmt: str | None = None) -> Schema:
        """Return the schema with a GUID."""
        with raising_registry_errors():
            return self.levada.get_schema_by_guid(guid, fmt)

    def get_schema_types(self) -> list[str]:
        """Return the types of schemas that the registry supports."""
        with raising_registry_errors():
            return self.levada.get_schema_types()

    def get_schema_versions(self, schema_id: int) -> list[SchemaVersion]:
        """Return the subjects and versions with which the schema with an id is registered."""
        with raising_registry_errors():
            return [SchemaVersion(*found) for found in self.levada.get_schema_versions(schema_id)]

    def get_subjects(self, subject_prefix: str | None = None, deleted: bool = False) -> list[str]:
        """Return the names of the subjects that begin with subject_prefix, None for all."""
        with raising_registry_errors():
            return self.levada.get_subjects(subject_prefix, deleted)

    def get_versions(self, subject_name: str, deleted: bool = False) -> list[int]:
        """Return the version numbers of a subject."""
        with raising_registry_errors():
            return self.levada.get_versions(subject_name, deleted)

    def get_latest_version(self, subject_name: str) -> RegisteredSchema:
        """Return the latest version of a subject."""
        with raising_registry_errors():
            return self.levada.get_latest_version(subject_name)

    def get_latest_with_metadata(self, subject_name: str, metadata: Mapping[str, str], deleted: bool = False) -> RegisteredSchema:
        """Return the latest version of a subject that has these properties in its metadata."""
        with raising_registry_errors():
            return self.levada.get_latest_with_metadata(subject_name, metadata, deleted)

    def get_contexts(self) -> list[str]:
        """Return the names of the contexts."""
        with raising_registry_errors():
            return self.levada.get_contexts()

    def get_version(self, subject_name: str, version: int | str = "latest", deleted: bool = False) -> RegisteredSchema:
        """Return a version of a subject."""
        with raising_registry_errors():
            return self.levada.get_version(subject_name, version, deleted)

    def get_referenced_by(self, subject_name: str, version: int | str = "latest") -> list[int]:
        """Return the ids of the schemas that reference a version."""
        with raising_registry_errors():
            return self.levada.get_referenced_by(subject_name, version)

    def delete_subject(self, subject_name: str, permanent: bool = False) -> list[int]:
        """Delete a subject; return the numbers of the deleted versions. permanent: requires that it was deleted softly before."""
        with raising_registry_errors():
            return self.levada.delete_subject(subject_name, permanent)

    def delete_version(self, subject_name: str, version: int, permanent: bool = False) -> int:
        """Delete a version; return its number. permanent: requires that it was deleted softly before."""
        with raising_registry_errors():
            return self.levada.delete_version(subject_name, version, permanent)

    def set_compatibility(self, subject_name: str | None = None, level: str | None = None) -> Any:
        """Set the compatibility level of a subject or, for None, of the registry; return a dict with the new level as "compatibility"."""
        if level is None:
            raise ValueError("level must be set")
        with raising_registry_errors():
            return {"compatibility": self.levada.set_compatibility(subject_name, str(level))}

    def get_compatibility(self, subject_name: str | None = None) -> str:
        """Return the compatibility level of a subject, or that of the registry if the subject has none or is None."""
        with raising_registry_errors():
            return self.levada.get_compatibility(subject_name)

    def test_compatibility(self, subject_name: str, schema: Schema, version: int | str = "latest") -> bool:
        """Return whether a schema is compatible with a version."""
        with raising_registry_errors():
            return bool(self.levada.test_compatibility(subject_name, schema, version))

    def get_mode(self, subject_name: str) -> str:
        """Return the mode of a subject, or that of the registry if the subject has none."""
        with raising_registry_errors():
            return self.levada.get_mode(subject_name)

    def update_mode(self, subject_name: str, mode: str, force: bool = False) -> str:
        """Set the mode of a subject; return it."""
        with raising_registry_errors():
            return self.levada.update_mode(subject_name, mode, force)

    def clear_caches(self) -> None:
        """Forget every schema and subject."""
        self.levada.clear_caches()

    def close(self) -> None:
        """Close the connections."""
        self.levada.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
