"""What a registry is asked, and what is made of its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from levada.errors import AuthenticationError
from levada.registry import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegisteredSchema,
    RegistryAnswerError,
    RegistryAuthenticationError,
    RegistryAuthorizationError,
    RegistryNotFoundError,
    Schema,
    SchemaReference,
)
from levada.registry import endpoints as ask
from levada.registry.endpoints import Answer, Request, read_answer
from levada.registry.errors import RegistryProtocolError

URL = "http://registry:8081"
AVRO = Schema('"string"')
JSON = Schema("{}", "JSON", [SchemaReference("a.json", "a", 1)])


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ask.subjects(None, False), "GET /subjects"),
        (ask.subjects(":.ctx:a b", True), "GET /subjects?subjectPrefix=%3A.ctx%3Aa+b&deleted=true"),
        (ask.versions("orders-value", False), "GET /subjects/orders-value/versions"),
        (ask.version("orders-value", "latest", False), "GET /subjects/orders-value/versions/latest"),
        (ask.version("google/type/money.proto", 2, True), "GET /subjects/google%2Ftype%2Fmoney.proto/versions/2?deleted=true"),
        (ask.schema_by_id(7), "GET /schemas/ids/7"),
        (ask.schema_by_id(7, "serialized"), "GET /schemas/ids/7?format=serialized"),
        (ask.schema_versions(7), "GET /schemas/ids/7/versions"),
        (ask.referenced_by("a", 3), "GET /subjects/a/versions/3/referencedby"),
        (ask.schema_types(), "GET /schemas/types"),
        (ask.register("é", AVRO, True), "POST /subjects/%C3%A9/versions?normalize=true"),
        (ask.lookup("a", AVRO, False, False), "POST /subjects/a"),
        (ask.compatibility("a", AVRO, 3), "POST /compatibility/subjects/a/versions/3?verbose=true"),
        (ask.compatibility("a", AVRO, None), "POST /compatibility/subjects/a/versions?verbose=true"),
        (ask.delete_subject("a", False), "DELETE /subjects/a"),
        (ask.delete_subject("a", True), "DELETE /subjects/a?permanent=true"),
        (ask.delete_version("a", 3, True), "DELETE /subjects/a/versions/3?permanent=true"),
        (ask.get_level(None), "GET /config"),
        (ask.get_level("a"), "GET /config/a?defaultToGlobal=true"),
        (ask.set_level("a", "FULL"), "PUT /config/a"),
        (ask.delete_level("a"), "DELETE /config/a"),
        (ask.get_mode("a"), "GET /mode/a?defaultToGlobal=true"),
        (ask.set_mode(None, "READONLY", True), "PUT /mode?force=true"),
        (ask.delete_mode("a"), "DELETE /mode/a"),
    ],
)
def test_each_request_has_confluents_path(request_: Request[Any], expected: str) -> None:
    assert f"{request_.method} {request_.target}" == expected


def test_what_is_not_avro_names_its_type_and_references() -> None:
    assert json.loads(ask.register("a", AVRO, False).payload or b"") == {"schema": '"string"'}
    assert json.loads(ask.register("a", JSON, False).payload or b"") == {
        "schema": "{}",
        "schemaType": "JSON",
        "references": [{"name": "a.json", "subject": "a", "version": 1}],
    }


def test_only_deletions_may_not_be_sent_twice() -> None:
    assert ask.register("a", AVRO, False).repeatable
    assert not ask.delete_subject("a", False).repeatable
    assert not ask.delete_version("a", 1, False).repeatable


def test_a_version_is_read_with_its_schema() -> None:
    said = {
        "subject": "a",
        "version": 2,
        "id": 9,
        "schemaType": "JSON",
        "schema": "{}",
        "references": [{"name": "a.json", "subject": "a", "version": 1}],
    }
    found = read_answer(ask.version("a", 2, False), Answer(200, json.dumps(said).encode()), URL)
    assert found == RegisteredSchema(9, JSON, "a", 2)


@pytest.mark.parametrize("field", ["compatibility", "compatibilityLevel"])
def test_a_level_that_was_set_is_read_from_confluents_field_and_from_apicurios(field: str) -> None:
    assert read_answer(ask.set_level("a", "FULL"), Answer(200, json.dumps({field: "FULL"}).encode()), URL) == "FULL"


@pytest.mark.parametrize(
    ("status", "error_code", "kind", "says"),
    [
        (404, 40401, RegistryNotFoundError, "40401"),
        (404, 40403, RegistryNotFoundError, "40403"),
        (404, 40404, RegistryNotFoundError, "permanent=True"),
        (409, 409, IncompatibleSchemaError, r"test_compatibility\(\)"),
        (409, 40406, RegistryNotFoundError, "permanent=True"),
        (422, 42201, InvalidSchemaError, "42201"),
        (422, 42206, RegistryAnswerError, "refer to it first"),
        (401, 401, RegistryAuthenticationError, "check basic.auth.user.info"),
        (401, 40101, RegistryAuthenticationError, "check basic.auth.user.info"),
        (403, 40301, RegistryAuthorizationError, "permission"),
        (500, 50001, RegistryAnswerError, "50001"),
    ],
)
def test_an_error_answer_becomes_an_error_that_says_what_to_do(
    status: int, error_code: int, kind: type[RegistryAnswerError], says: str
) -> None:
    body = json.dumps({"error_code": error_code, "message": "no such luck"}).encode()
    with pytest.raises(kind, match=says) as caught:
        read_answer(ask.versions("a", False), Answer(status, body), URL)
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.error_code, error.reason, error.url) == (status, error_code, "no such luck", URL)
    assert str(error).startswith("versions of 'a': no such luck")
    assert error.retriable == (status == 500)


def test_refused_credentials_are_an_authentication_error() -> None:
    assert issubclass(RegistryAuthenticationError, AuthenticationError)


def test_an_error_of_a_proxy_is_quoted() -> None:
    with pytest.raises(RegistryAnswerError, match="<html> Bad Gateway </html> \\(502 from http://registry:8081\\)"):
        read_answer(ask.versions("a", False), Answer(502, b"<html>\n  Bad Gateway\n</html>"), URL)


def test_the_code_0_of_apicurio_is_no_code() -> None:
    with pytest.raises(RegistryAnswerError, match="no such luck \\(500 from http://registry:8081\\)"):
        read_answer(ask.versions("a", False), Answer(500, b'{"error_code": 0, "message": "no such luck"}'), URL)


@pytest.mark.parametrize("body", [b"", b"<html>hello</html>", b'{"some": "thing"}', b"7", b'"text"'])
def test_an_answer_of_something_else_is_told(body: bytes) -> None:
    with pytest.raises(RegistryProtocolError, match="did not answer as a schema registry does"):
        read_answer(ask.versions("a", False), Answer(200, body), URL)


@pytest.mark.parametrize("rules", [7, "text", {"name": "hide"}, ["text"], [None]])
def test_rules_that_are_none_are_told(rules: Any) -> None:
    body = json.dumps({"id": 1, "ruleSet": {"domainRules": rules}}).encode()
    with pytest.raises(RegistryProtocolError, match="did not answer as a schema registry does"):
        read_answer(ask.register("a", Schema('"int"'), False), Answer(200, body), URL)


def test_a_redirect_is_told_with_where_it_leads() -> None:
    with pytest.raises(RegistryProtocolError, match="redirects to https://elsewhere/"):
        read_answer(ask.versions("a", False), Answer(301, b"", "https://elsewhere/"), URL)


def test_schemas_are_equal_by_their_parts_and_can_be_keys() -> None:
    assert Schema("{}", "JSON", (("a.json", "a", 1),)) == JSON  # type: ignore[arg-type]
    assert len({JSON, Schema("{}", "JSON"), AVRO}) == 3


NO_REGISTRY = [
    (ask.schema_by_id(1), b"[" * 100_000 + b"]" * 100_000),
    (ask.schema_by_id(1), b'{"schema": "{}", "schemaType": 5}'),
    (ask.schema_by_id(1), b'{"schema": "{}", "schemaType": ["JSON"]}'),
    (ask.schema_by_id(1), b'{"schema": ["{}"]}'),
    (ask.schema_by_id(1), b'{"schema": "{}", "references": [{"name": 1, "subject": "a", "version": 1}]}'),
    (ask.schema_by_id(1), b'{"schema": "{}", "references": [{"name": "a", "subject": "a", "version": 1e400}]}'),
    (ask.schema_by_id(1), b'{"schema": "{}", "references": {"name": "a"}}'),
    (ask.register("a", AVRO, False), b'{"id": 1e400}'),
    (ask.register("a", AVRO, False), b'{"id": -1}'),
    (ask.register("a", AVRO, False), b'{"id": 4294967296}'),
    (ask.register("a", AVRO, False), b'{"id": true}'),
    (ask.register("a", AVRO, False), b'{"id": ' + b"9" * 5000 + b"}"),
    (ask.versions("a", False), b"[1, null]"),
    (ask.versions("a", False), b'"12"'),
    (ask.subjects(None, False), b"[1]"),
    (ask.compatibility("a", AVRO, 1), b'{"is_compatible": "false"}'),
    (ask.compatibility("a", AVRO, 1), b'{"is_compatible": false, "messages": "no"}'),
    (ask.get_level("a"), b'{"compatibilityLevel": null}'),
]


@pytest.mark.parametrize(("request_", "body"), NO_REGISTRY, ids=[body[:40].decode() for _, body in NO_REGISTRY])
def test_an_answer_that_no_registry_gives_is_an_error_and_no_value(request_: Request[Any], body: bytes) -> None:
    with pytest.raises(RegistryProtocolError, match="did not answer as a schema registry does"):
        read_answer(request_, Answer(200, body), URL)


def test_an_error_that_is_nested_without_end_is_told_by_its_status() -> None:
    with pytest.raises(RegistryNotFoundError, match="404"):
        read_answer(ask.schema_by_id(1), Answer(404, b"[" * 100_000), URL)
