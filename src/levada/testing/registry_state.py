"""The state of a schema registry, and its answers, in memory: no I/O, no threads. EmbeddedRegistry adds HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from levada.testing.avro_compatibility import PRIMITIVES, AvroSchema, differences, parse_avro

LEVELS = ("NONE", *(f"{level}{reach}" for level in ("BACKWARD", "FORWARD", "FULL") for reach in ("", "_TRANSITIVE")))
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
TYPES = ("AVRO", "JSON", "PROTOBUF")


class Refusal(Exception):
    """The request is refused: HTTP status, the registry's error code and a message for the answer."""

    def __init__(self, status: int, error_code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.error_code, self.message = status, error_code, message


@dataclass(frozen=True)
class Stored:
    """A schema in the form in which the registry stores it. Schemas that are equal in all parts have the same id.

    kind: AVRO, JSON or PROTOBUF. references: name, subject and version of each schema that it refers to.
    """

    text: str
    kind: str
    references: tuple[tuple[str, str, int], ...]
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None

    @property
    def guid(self) -> str:
        """The GUID: a hash of the schema, so that it is the same in all registries."""
        parts = [self.text, self.kind, self.references, *self._more.values()]
        return str(UUID(bytes=blake2b(json.dumps(parts).encode(), digest_size=16).digest()))

    @property
    def _more(self) -> dict[str, Any]:
        return {name: part for name, part in (("metadata", self.metadata), ("ruleSet", self.rule_set)) if part is not None}

    def said(self) -> dict[str, Any]:
        """Return the schema as a JSON object for an answer. The type AVRO and an empty list of references are left out."""
        said: dict[str, Any] = {"schema": self.text, "guid": self.guid, **self._more}
        if self.kind != "AVRO":
            said["schemaType"] = self.kind
        if self.references:
            said["references"] = [dict(zip(("name", "subject", "version"), reference, strict=True)) for reference in self.references]
        return said


@dataclass
class Version:
    """A version of a subject, with the id of its schema. deleted: whether it was deleted softly."""

    number: int
    schema_id: int
    deleted: bool = False


@dataclass
class Call:
    """A request to the registry: the variable parts of its path, its query parameters and its body."""

    parts: tuple[str, ...]
    query: Mapping[str, str]
    body: Mapping[str, Any]

    def asks(self, name: str) -> bool:
        """Return whether a query parameter is given as true."""
        return self.query.get(name, "").lower() == "true"


@dataclass
class RegistryState:
    """The subjects, versions and schema ids of a registry, with the rules and error codes of Confluent's registry.

    levels, modes: compatibility levels and modes by subject; None stands for the registry. The methods with a Call raise Refusal. Versions
    that were deleted softly are left out, unless a method has the query parameter `deleted` and it is true. A schema without any version,
    even a softly deleted one, is forgotten, and its id is not used again.
    """

    ids: dict[int, Stored] = field(default_factory=dict)
    last_id: int = 0
    subjects: dict[str, list[Version]] = field(default_factory=dict)
    levels: dict[str | None, str] = field(default_factory=lambda: {None: "BACKWARD"})
    modes: dict[str | None, str] = field(default_factory=lambda: {None: "READWRITE"})

    def answer(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        """Execute a request, or refuse it; return the HTTP status and the JSON document of the answer."""
        try:
            path, context = _qualified(path)
            for known, pattern, handle in ROUTES:
                if known == method and (match := pattern.fullmatch(path)):
                    parts = tuple(unquote(part) for part in match.groups() if part is not None)
                    if context and handle is RegistryState.list_subjects:
                        query = {**query, "subjectPrefix": f":{context}:{query.get('subjectPrefix', '')}"}
                    return 200, handle(self, Call(parts, query, _document(body)))
            raise Refusal(404, 404, f"HTTP 404 Not Found: {method} {path}")
        except Refusal as refusal:
            return refusal.status, {"error_code": refusal.error_code, "message": refusal.message}

    def list_subjects(self, call: Call) -> list[str]:
        """Return the names of the subjects (query parameters subjectPrefix, deleted)."""
        prefix = call.query.get("subjectPrefix", "")
        return [name for name in sorted(self.subjects) if name.startswith(prefix) and self._versions(name, call.asks("deleted"))]

    def list_versions(self, call: Call) -> list[int]:
        """Return the numbers of a subject's versions (query parameter deleted)."""
        return [version.number for version in self._known(call.parts[0], call.asks("deleted"))]

    def get_version(self, call: Call) -> dict[str, Any]:
        """Return one version of a subject (query parameter deleted)."""
        return self._said(call.parts[0], self._version(call.parts[0], call.parts[1], call.asks("deleted")))

    def get_latest_with_metadata(self, call: Call) -> dict[str, Any]:
        """Return a subject's latest version with a property in its metadata (query parameters key, value, deleted)."""
        subject, wanted = call.parts[0], (call.query.get("key"), call.query.get("value"))
        for version in reversed(self._known(subject, call.asks("deleted"))):
            metadata = self.ids[version.schema_id].metadata or {}
            if wanted in dict(metadata.get("properties") or {}).items():
                return self._said(subject, version)
        raise Refusal(404, 40402, f"Version with metadata {wanted[0]}={wanted[1]} not found.")

    def list_contexts(self, call: Call) -> list[str]:
        """Return the names of the contexts."""
        return sorted({".", *(name.split(":")[1] for name in self.subjects if name.startswith(":."))})

    def referenced_by(self, call: Call) -> list[int]:
        """Return the ids of the schemas that refer to a version of a subject, which may be deleted softly."""
        subject, number = call.parts
        return sorted({user.schema_id for user in self._users(subject, self._version(subject, number, True))})

    def get_schema(self, call: Call) -> dict[str, Any]:
        """Return the schema with an id."""
        return self._by_id(call.parts[0]).said()

    def get_schema_by_guid(self, call: Call) -> dict[str, Any]:
        """Return the schema with a GUID."""
        found = next((stored for stored in self.ids.values() if stored.guid == call.parts[0]), None)
        if found is None:
            raise Refusal(404, 40403, f"Schema {call.parts[0]} not found")
        return found.said()

    def get_schema_versions(self, call: Call) -> list[dict[str, Any]]:
        """Return the subjects and versions that have the schema with an id."""
        self._by_id(call.parts[0])
        number = int(call.parts[0])
        return [{"subject": name, "version": version.number} for name, version in self._alive() if version.schema_id == number]

    def list_types(self, call: Call) -> list[str]:
        """Return the supported types of schemas."""
        return list(TYPES)

    def register(self, call: Call) -> dict[str, Any]:
        """Register a schema in a subject, if the subject's mode and compatibility level allow it. Returns the schema's id and GUID. If the
        subject has the schema already, no version is added.
        """
        subject = call.parts[0]
        if self.modes.get(subject, self.modes[None]).startswith("READONLY"):
            raise Refusal(422, 42205, f"Subject {subject} is in read-only mode")
        stored = self._read(call.body)
        if found := self._find(subject, stored, deleted=False):
            return {"id": found.schema_id, "guid": stored.guid}
        level = self.levels.get(subject, self.levels[None])
        versions = self._versions(subject, False)
        if reasons := self._objections(stored, versions if level.endswith("_TRANSITIVE") else versions[-1:], level):
            message = f'Schema being registered is incompatible with an earlier schema for subject "{subject}": {"; ".join(reasons)}'
            raise Refusal(409, 409, message)
        schema_id = next((known for known, other in self.ids.items() if other == stored), self.last_id + 1)
        self.last_id = max(self.last_id, schema_id)
        self.ids[schema_id] = stored
        numbers = [version.number for version in self.subjects.get(subject, [])]
        self.subjects.setdefault(subject, []).append(Version(max(numbers, default=0) + 1, schema_id))
        return {"id": schema_id, "guid": stored.guid}

    def lookup(self, call: Call) -> dict[str, Any]:
        """Return the version of a subject that has the schema in the request (query parameter deleted)."""
        subject = call.parts[0]
        self._known(subject, call.asks("deleted"))
        found = self._find(subject, self._read(call.body), deleted=call.asks("deleted"))
        if found is None:
            raise Refusal(404, 40403, "Schema not found")
        return self._said(subject, found)

    def test_compatibility(self, call: Call) -> dict[str, Any]:
        """Check whether a schema is compatible with one version of a subject or, without a version in the path, with all versions that the
        subject's level requires (query parameter verbose: return the reasons).
        """
        subject, *number = call.parts
        level = self.levels.get(subject, self.levels[None])
        stored = self._read(call.body)
        if number:
            versions = [self._version(subject, number[0], False)]
        else:
            versions = self._versions(subject, False)[0 if level.endswith("_TRANSITIVE") else -1 :]
        reasons = self._objections(stored, versions, level)
        return {"is_compatible": not reasons, **({"messages": reasons} if call.asks("verbose") else {})}

    def delete_subject(self, call: Call) -> list[int]:
        """Delete a subject; return the numbers of the versions that were deleted now. A permanent deletion (query parameter permanent)
        requires that the subject was deleted softly before.
        """
        subject = call.parts[0]
        if not self.subjects.get(subject):
            raise Refusal(404, 40401, f"Subject '{subject}' not found.")
        alive = self._versions(subject, False)
        if call.asks("permanent"):
            if alive:
                raise Refusal(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")
            gone = self.subjects.pop(subject)
            self._forget_unused()
            return [version.number for version in gone]
        if not alive:
            raise Refusal(404, 40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")
        for version in alive:
            self._delete_softly(subject, version)
        return [version.number for version in alive]

    def delete_version(self, call: Call) -> int:
        """Delete a version of a subject; return its number. A permanent deletion (query parameter permanent) requires that the version was
        deleted softly before.
        """
        subject, number = call.parts
        version = self._version(subject, number, True)
        if call.asks("permanent"):
            if not version.deleted:
                raise Refusal(404, 40407, f"Subject '{subject}' Version {number} was not deleted first before being permanently deleted")
            self.subjects[subject].remove(version)
            self._forget_unused()
        elif version.deleted:
            raise Refusal(404, 40406, f"Subject '{subject}' Version {number} was soft deleted. Set permanent=true to delete permanently")
        else:
            self._delete_softly(subject, version)
        return version.number

    def get_level(self, call: Call) -> dict[str, str]:
        """Return the compatibility level of the registry, or that of the subject in the path. A subject without a level of its own is
        refused unless the query parameter defaultToGlobal is true.
        """
        return {"compatibilityLevel": _setting(self.levels, call, 40408, "subject-level compatibility")}

    def set_level(self, call: Call) -> dict[str, str]:
        """Set the compatibility level of the registry, or that of the subject in the path."""
        level = str(call.body.get("compatibility")).upper()
        if level not in LEVELS:
            raise Refusal(422, 42203, f"Invalid compatibility level. Valid values are {', '.join(LEVELS)}")
        self.levels[call.parts[0] if call.parts else None] = level
        return {"compatibility": level}

    def delete_level(self, call: Call) -> dict[str, str]:
        """Remove and return the compatibility level of a subject, so that the registry's level applies."""
        return {"compatibilityLevel": _forget(self.levels, call, 40408, "subject-level compatibility")}

    def get_mode(self, call: Call) -> dict[str, str]:
        """Return the mode of the registry, or that of the subject in the path. A subject without a mode of its own is refused unless the
        query parameter defaultToGlobal is true.
        """
        return {"mode": _setting(self.modes, call, 40409, "subject-level mode")}

    def set_mode(self, call: Call) -> dict[str, str]:
        """Set the mode of the registry, or that of the subject in the path."""
        mode = str(call.body.get("mode")).upper()
        if mode not in MODES:
            raise Refusal(422, 42204, f"Invalid mode. Valid values are {', '.join(MODES)}")
        self.modes[call.parts[0] if call.parts else None] = mode
        return {"mode": mode}

    def delete_mode(self, call: Call) -> dict[str, str]:
        """Remove and return the mode of a subject, so that the registry's mode applies."""
        return {"mode": _forget(self.modes, call, 40409, "subject-level mode")}

    def _alive(self) -> Iterator[tuple[str, Version]]:
        for name in sorted(self.subjects):
            yield from ((name, version) for version in self._versions(name, False))

    def _versions(self, subject: str, deleted: bool) -> list[Version]:
        return [version for version in self.subjects.get(subject, []) if deleted or not version.deleted]

    def _known(self, subject: str, deleted: bool) -> list[Version]:
        versions = self._versions(subject, deleted)
        if not versions:
            raise Refusal(404, 40401, f"Subject '{subject}' not found.")
        return versions

    def _version(self, subject: str, number: str, deleted: bool) -> Version:
        versions = self._known(subject, deleted)
        if number in ("latest", "-1"):
            return versions[-1]
        if not number.isdecimal() or not int(number):
            raise Refusal(422, 42202, f"The specified version '{number}' is not a valid version id.")
        found = next((version for version in versions if version.number == int(number)), None)
        if found is None:
            raise Refusal(404, 40402, f"Version {number} not found.")
        return found

    def _by_id(self, schema_id: str) -> Stored:
        found = self.ids.get(int(schema_id)) if schema_id.isdecimal() else None
        if found is None:
            raise Refusal(404, 40403, f"Schema {schema_id} not found")
        return found

    def _said(self, subject: str, version: Version) -> dict[str, Any]:
        return {"subject": subject, "version": version.number, "id": version.schema_id, **self.ids[version.schema_id].said()}

    def _find(self, subject: str, stored: Stored, *, deleted: bool) -> Version | None:
        return next((version for version in self._versions(subject, deleted) if self.ids[version.schema_id] == stored), None)

    def _users(self, subject: str, version: Version) -> list[Version]:
        target = (subject, version.number)
        return [other for _, other in self._alive() if target in {used[1:] for used in self.ids[other.schema_id].references}]

    def _forget_unused(self) -> None:
        used = {version.schema_id for versions in self.subjects.values() for version in versions}
        self.ids = {schema_id: stored for schema_id, stored in self.ids.items() if schema_id in used}

    def _delete_softly(self, subject: str, version: Version) -> None:
        if self._users(subject, version):
            raise Refusal(422, 42206, f"One or more references exist to the schema: version {version.number} of {subject}")
        version.deleted = True

    def _read(self, body: Mapping[str, Any]) -> Stored:
        text, kind = body.get("schema"), body.get("schemaType") or "AVRO"
        if not isinstance(text, str) or not text:
            raise Refusal(422, 42201, "Empty schema")
        if kind not in TYPES:
            raise Refusal(422, 42201, f"Invalid schema type {kind}")
        try:
            references = tuple((str(r["name"]), str(r["subject"]), int(r["version"])) for r in body.get("references") or ())
            for _, subject, number in references:
                self._version(subject, str(number), True)
            stored = Stored(_canonical(text, kind), kind, references, body.get("metadata"), body.get("ruleSet"))
            if kind == "AVRO":
                self._avro(stored)
        except (Refusal, ValueError, KeyError, TypeError) as fault:
            raise Refusal(422, 42201, f"Invalid schema {text}, details: {fault}") from fault
        return stored

    def _objections(self, new: Stored, versions: list[Version], level: str) -> list[str]:
        """Return the reasons why a new schema is not compatible with earlier versions at this level; an empty list if it is compatible.

        Only Avro schemas are compared. Schemas of other types are compatible if their types are equal.
        """
        if level == "NONE":
            return []
        olds = [self.ids[version.schema_id] for version in versions]
        if any(old.kind != new.kind for old in olds):
            return ["the schemas are of different types"]
        if new.kind != "AVRO":
            return []
        reasons = []
        for old in olds:
            if level.startswith(("BACKWARD", "FULL")):
                reasons += differences(self._avro(new), self._avro(old))
            if level.startswith(("FORWARD", "FULL")):
                reasons += differences(self._avro(old), self._avro(new))
        return reasons

    def _avro(self, stored: Stored) -> AvroSchema:
        return AvroSchema(stored.text, tuple(self._used(stored)))

    def _used(self, stored: Stored) -> Iterator[str]:
        for _, subject, number in stored.references:
            used = self.ids[self._version(subject, str(number), True).schema_id]
            yield from self._used(used)
            yield used.text


def _canonical(text: str, kind: str) -> str:
    """Return the text of a schema in the form in which a registry stores, compares and returns it: without meaningless white space, and a
    primitive Avro type as its name only. Protobuf is unchanged. kind: the type of the schema. Raises ValueError for text that is not JSON.
    """
    if kind == "PROTOBUF":
        return text
    document = parse_avro(text) if kind == "AVRO" else json.loads(text)
    if kind == "AVRO" and isinstance(document, dict) and set(document) == {"type"} and document["type"] in PRIMITIVES:
        document = document["type"]
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _qualified(path: str) -> tuple[str, str]:
    """Translate a path with a context, such as /contexts/.test/subjects/a, to a path with a qualified subject, /subjects/:.test:a. Other
    paths are unchanged. Returns the context as well, "" for none.
    """
    if (found := re.fullmatch(r"/contexts/([^/]+)(/.+)", path)) is None:
        return path, ""
    context, rest = found.groups()
    return re.sub("/(subjects|config|mode)/([^/]+)", rf"/\1/:{context}:\2", rest, count=1), unquote(context)


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body) if body else {}
    except ValueError as fault:
        raise Refusal(400, 400, f"not JSON: {fault}") from fault
    if not isinstance(document, dict):
        raise Refusal(400, 400, "expected an object")
    return document


def _setting(settings: Mapping[str | None, str], call: Call, error_code: int, what: str) -> str:
    subject = call.parts[0] if call.parts else None
    if subject not in settings and not call.asks("defaultToGlobal"):
        raise Refusal(404, error_code, f"Subject '{subject}' does not have {what} configured")
    return settings.get(subject, settings[None])


def _forget(settings: dict[str | None, str], call: Call, error_code: int, what: str) -> str:
    value = _setting(settings, Call(call.parts, {}, {}), error_code, what)
    del settings[call.parts[0]]
    return value


Handle = Callable[[RegistryState, Call], Any]
_PART = "([^/]+)"

ROUTES: tuple[tuple[str, re.Pattern[str], Handle], ...] = tuple(
    (method, re.compile(path.replace("{}", _PART)), handle)
    for method, path, handle in (
        ("GET", "/subjects", RegistryState.list_subjects),
        ("POST", "/subjects/{}", RegistryState.lookup),
        ("DELETE", "/subjects/{}", RegistryState.delete_subject),
        ("GET", "/contexts", RegistryState.list_contexts),
        ("GET", "/subjects/{}/metadata", RegistryState.get_latest_with_metadata),
        ("GET", "/subjects/{}/versions", RegistryState.list_versions),
        ("POST", "/subjects/{}/versions", RegistryState.register),
        ("GET", "/subjects/{}/versions/{}", RegistryState.get_version),
        ("DELETE", "/subjects/{}/versions/{}", RegistryState.delete_version),
        ("GET", "/subjects/{}/versions/{}/referencedby", RegistryState.referenced_by),
        ("GET", "/schemas/ids/{}", RegistryState.get_schema),
        ("GET", "/schemas/ids/{}/versions", RegistryState.get_schema_versions),
        ("GET", "/schemas/guids/{}", RegistryState.get_schema_by_guid),
        ("GET", "/schemas/types", RegistryState.list_types),
        ("POST", "/compatibility/subjects/{}/versions(?:/{})?", RegistryState.test_compatibility),
        ("GET", "/config(?:/{})?", RegistryState.get_level),
        ("PUT", "/config(?:/{})?", RegistryState.set_level),
        ("DELETE", "/config/{}", RegistryState.delete_level),
        ("GET", "/mode(?:/{})?", RegistryState.get_mode),
        ("PUT", "/mode(?:/{})?", RegistryState.set_mode),
        ("DELETE", "/mode/{}", RegistryState.delete_mode),
    )
)
