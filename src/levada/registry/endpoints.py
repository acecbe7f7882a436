"""Makes the requests to a registry, and reads their answers. Pure functions, without I/O and state.

`what` is the name of a request in errors. Paths are relative to the registry's address.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

from levada.registry.errors import RegistryProtocolError, answer_error
from levada.registry.schema import AVRO, RULE_LISTS, Compatibility, RegisteredSchema, Schema, SchemaReference

R = TypeVar("R")
Query = Mapping[str, str | int | bool | list[str] | None]

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
LONGEST_QUOTE = 200
LARGEST_NUMBER = 2**31 - 1
"""The largest valid id or version. Four bytes before each value hold the id."""


@dataclass(frozen=True)
class Request(Generic[R]):
    """One request. read: converts the JSON of the answer to the result. query: parameters; those that are None or False are not sent.

    repeatable: whether the request may be sent again although the registry may have executed it.
    """

    what: str
    method: str
    path: str
    read: Callable[[Any], R]
    body: Mapping[str, Any] | None = None
    query: Query = field(default_factory=dict)
    repeatable: bool = True

    @property
    def target(self) -> str:
        """The path and the query, encoded for a URL."""
        given = {key: value if isinstance(value, list) else _text(value) for key, value in self.query.items() if value not in (None, False)}
        return f"{self.path}?{urlencode(given, doseq=True)}" if given else self.path

    @property
    def payload(self) -> bytes | None:
        """The body as JSON; None without a body."""
        return None if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Answer:
    """An HTTP response. location: the Location header, "" without one. retry_after_ms: from the Retry-After header; None without one."""

    status: int
    body: bytes
    location: str = ""
    retry_after_ms: int | None = None


def _text(value: str | int | bool | None) -> str:
    return "true" if value is True else str(value)


def _path(*parts: str | int) -> str:
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def read_answer(request: Request[R], answer: Answer, url: str) -> R:
    """Return the result of a request from its answer. Raises RegistryAnswerError for an error of the registry.

    Raises RegistryProtocolError for a redirect, or if the answer is not in the format of a registry. url: for errors.
    """
    if answer.location and 300 <= answer.status < 400:
        raise RegistryProtocolError(f"{request.what}: {url} redirects to {answer.location}; give the address where the registry is")
    document = _parse(answer.body)
    if not 200 <= answer.status < 300:
        known = document if isinstance(document, dict) else {}
        code = known.get("error_code")
        # Apicurio Registry answers with the code 0 if it has none.
        code = code if isinstance(code, int) and code else answer.status
        raise answer_error(request.what, answer.status, code, str(known.get("message") or _quoted(answer.body)), url)
    try:
        return request.read(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as fault:
        seen = _quoted(answer.body)
        raise RegistryProtocolError(f"{request.what}: {url} did not answer as a schema registry does: {seen}") from fault


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _quoted(body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())
    return (text[:LONGEST_QUOTE] + "..." if len(text) > LONGEST_QUOTE else text) or "an empty answer"


def _said(schema: Schema) -> dict[str, Any]:
    """Return a schema as the body of a request. The schema type AVRO is omitted, because registries before 5.5 do not have this field."""
    said: dict[str, Any] = {"schema": schema.schema_str}
    if schema.schema_type != AVRO:
        said["schemaType"] = schema.schema_type
    if schema.references:
        said["references"] = [reference._asdict() for reference in schema.references]
    if schema.metadata is not None:
        said["metadata"] = schema.metadata
    if schema.rule_set is not None:
        said["ruleSet"] = schema.rule_set
    return said


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {value!r}")
    return value


def _number(value: Any) -> int:
    """Return an id or a version of an answer. Raises TypeError for any other value, and for a bool, although it is an int in Python."""
    if type(value) is not int or not 0 <= value <= LARGEST_NUMBER:
        raise TypeError(f"expected a number from 0 to {LARGEST_NUMBER}, got {value!r}")
    return value


def _object(value: Any) -> dict[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"expected an object, got {value!r}")
    return value


def _rule_set(document: Any) -> dict[str, Any] | None:
    """Return the rules of an answer. Raises TypeError if rules that may have to run are not lists of objects."""
    rule_set = _object(document.get("ruleSet"))
    for rules in [(rule_set or {}).get(name) or [] for name in RULE_LISTS]:
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise TypeError(f"expected a list of objects, got {rules!r}")
    return rule_set


def _schema(document: Any) -> Schema:
    used = document.get("references") or ()
    references = [SchemaReference(_string(one["name"]), _string(one["subject"]), _number(one["version"])) for one in used]
    metadata, rule_set = _object(document.get("metadata")), _rule_set(document)
    return Schema(_string(document["schema"]), _string(document.get("schemaType") or AVRO), references, metadata, rule_set)


def _guid(document: Any) -> str | None:
    """Return the GUID in an answer; None without one, as from registries before Confluent Platform 8."""
    guid = document.get("guid")
    return None if guid is None else str(UUID(guid))


def _identified(document: Any) -> tuple[Schema, str | None]:
    return _schema(document), _guid(document)


def _registered(document: Any) -> RegisteredSchema:
    schema_id, version = _number(document["id"]), _number(document["version"])
    return RegisteredSchema(schema_id, _schema(document), _string(document["subject"]), version, _guid(document))


def _compatibility(document: Any) -> Compatibility:
    compatible = document["is_compatible"]
    if not isinstance(compatible, bool):
        raise TypeError(f"expected true or false, got {compatible!r}")
    return Compatibility(compatible, tuple(_list_of(_string)(document.get("messages") or [])))


def _list_of(kind: Callable[[Any], R]) -> Callable[[Any], list[R]]:
    def read(document: Any) -> list[R]:
        if not isinstance(document, list):
            raise TypeError(f"expected a list, got {document!r}")
        return [kind(item) for item in document]

    return read


def _field(*names: str) -> Callable[[Any], str]:
    """Return a function that reads a text field of an answer: the first field in `names` that the answer has."""
    return lambda document: _string(document[next((name for name in names if name in document), names[0])])


def subjects(prefix: str | None, deleted: bool) -> Request[list[str]]:
    """GET /subjects.

    Returns the names of subjects. prefix: None for all subjects. deleted: whether to include subjects that were deleted softly.
    """
    return Request("list subjects", "GET", _path("subjects"), _list_of(_string), query={"subjectPrefix": prefix, "deleted": deleted})


def versions(subject: str, deleted: bool) -> Request[list[int]]:
    """GET /subjects/{subject}/versions."""
    return Request(f"versions of '{subject}'", "GET", _path("subjects", subject, "versions"), _list_of(_number), query={"deleted": deleted})


def version(subject: str, number: int | str, deleted: bool) -> Request[RegisteredSchema]:
    """GET /subjects/{subject}/versions/{version}. number: the version, or "latest"."""
    return Request(
        f"version {number} of '{subject}'", "GET", _path("subjects", subject, "versions", number), _registered, query={"deleted": deleted}
    )


def latest_with_metadata(subject: str, metadata: Mapping[str, str], deleted: bool) -> Request[RegisteredSchema]:
    """GET /subjects/{subject}/metadata. Returns the latest version whose metadata have all these properties."""
    query: Query = {"key": list(metadata), "value": list(metadata.values()), "deleted": deleted}
    return Request(
        f"latest version of '{subject}' with metadata {dict(metadata)}",
        "GET",
        _path("subjects", subject, "metadata"),
        _registered,
        query=query,
    )


def contexts() -> Request[list[str]]:
    """GET /contexts."""
    return Request("list contexts", "GET", _path("contexts"), _list_of(_string))


def schema_by_id(schema_id: int, format: str | None = None) -> Request[tuple[Schema, str | None]]:
    """GET /schemas/ids/{id}. Returns the schema and its GUID."""
    return Request(f"schema of id {schema_id}", "GET", _path("schemas", "ids", schema_id), _identified, query={"format": format})


def schema_by_guid(guid: str, format: str | None = None) -> Request[tuple[Schema, str | None]]:
    """GET /schemas/guids/{guid}."""
    return Request(f"schema of GUID {guid}", "GET", _path("schemas", "guids", guid), _identified, query={"format": format})


def schema_versions(schema_id: int) -> Request[list[tuple[str, int]]]:
    """GET /schemas/ids/{id}/versions. Returns a pair (subject, version) for each place where a schema is registered."""
    read = _list_of(lambda item: (_string(item["subject"]), _number(item["version"])))
    return Request(f"subjects of schema id {schema_id}", "GET", _path("schemas", "ids", schema_id, "versions"), read)


def schema_types() -> Request[list[str]]:
    """GET /schemas/types."""
    return Request("list schema types", "GET", _path("schemas", "types"), _list_of(_string))


def referenced_by(subject: str, number: int | str) -> Request[list[int]]:
    """GET /subjects/{subject}/versions/{version}/referencedby. Returns the ids of the schemas that reference a version."""
    path = _path("subjects", subject, "versions", number, "referencedby")
    return Request(f"list schemas that reference version {number} of '{subject}'", "GET", path, _list_of(_number))


class Registered(NamedTuple):
    """The answer to a registration. guid, rule_set: None if the answer has none; a registry may add rules to those that were sent."""

    schema_id: int
    guid: str | None
    rule_set: Mapping[str, Any] | None


def register(subject: str, schema: Schema, normalize: bool) -> Request[Registered]:
    """POST /subjects/{subject}/versions. A schema that is registered again keeps its id and its GUID."""
    path = _path("subjects", subject, "versions")
    read = lambda document: Registered(_number(document["id"]), _guid(document), _rule_set(document))  # noqa: E731
    return Request(f"register a schema under '{subject}'", "POST", path, read, _said(schema), {"normalize": normalize})


def lookup(subject: str, schema: Schema, normalize: bool, deleted: bool) -> Request[RegisteredSchema]:
    """POST /subjects/{subject}. Returns the id and version under which a schema is registered.

    normalize: whether the registry normalizes the schema. deleted: whether to look at versions that were deleted softly.
    """
    query = {"normalize": normalize, "deleted": deleted}
    return Request(f"look a schema up under '{subject}'", "POST", _path("subjects", subject), _registered, _said(schema), query)


def compatibility(subject: str, schema: Schema, number: int | str | None) -> Request[Compatibility]:
    """POST /compatibility/subjects/{subject}/versions/{version}. number: None for all versions that the compatibility level requires."""
    path = _path("compatibility", "subjects", subject, "versions", *([] if number is None else [number]))
    return Request(f"test a schema against '{subject}'", "POST", path, _compatibility, _said(schema), {"verbose": True})


def delete_subject(subject: str, permanent: bool) -> Request[list[int]]:
    """DELETE /subjects/{subject}."""
    path = _path("subjects", subject)
    return Request(f"delete '{subject}'", "DELETE", path, _list_of(_number), query={"permanent": permanent}, repeatable=False)


def delete_version(subject: str, number: int | str, permanent: bool) -> Request[int]:
    """DELETE /subjects/{subject}/versions/{version}. permanent: whether to delete the version for good. Returns its number."""
    path = _path("subjects", subject, "versions", number)
    return Request(f"delete version {number} of '{subject}'", "DELETE", path, _number, query={"permanent": permanent}, repeatable=False)


def _whose(subject: str | None) -> str:
    return f"of '{subject}'" if subject else "of all subjects"


def get_level(subject: str | None) -> Request[str]:
    """GET /config or /config/{subject}. Returns the compatibility level of a subject, or the registry's level if the subject has none."""
    path = _path("config", *([subject] if subject else []))
    query = {"defaultToGlobal": subject is not None}
    return Request(f"compatibility level {_whose(subject)}", "GET", path, _field("compatibilityLevel"), query=query)


def set_level(subject: str | None, level: str) -> Request[str]:
    """PUT /config or /config/{subject}. The answer of Apicurio Registry has the field name of GET, so both names are accepted."""
    path = _path("config", *([subject] if subject else []))
    read = _field("compatibility", "compatibilityLevel")
    return Request(f"set the compatibility level {_whose(subject)}", "PUT", path, read, {"compatibility": level})


def delete_level(subject: str) -> Request[None]:
    """DELETE /config/{subject}. The answer is ignored, because it differs between releases."""
    what = f"delete the compatibility level of '{subject}'"
    return Request(what, "DELETE", _path("config", subject), lambda _: None, repeatable=False)


def get_mode(subject: str | None) -> Request[str]:
    """GET /mode or /mode/{subject}."""
    path = _path("mode", *([subject] if subject else []))
    return Request(f"mode {_whose(subject)}", "GET", path, _field("mode"), query={"defaultToGlobal": subject is not None})


def set_mode(subject: str | None, mode: str, force: bool) -> Request[str]:
    """PUT /mode or /mode/{subject}."""
    path = _path("mode", *([subject] if subject else []))
    return Request(f"set the mode {_whose(subject)}", "PUT", path, _field("mode"), {"mode": mode}, {"force": force})


def delete_mode(subject: str) -> Request[None]:
    """DELETE /mode/{subject}. The answer is ignored, because it differs between releases."""
    return Request(f"delete the mode of '{subject}'", "DELETE", _path("mode", subject), lambda _: None, repeatable=False)
