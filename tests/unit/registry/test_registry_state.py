"""The embedded registry's rules: Confluent's error codes, soft deletion, compatibility."""

from __future__ import annotations

import json
from typing import Any

import pytest

from levada.testing.avro_compatibility import AvroSchema, differences
from levada.testing.registry_state import RegistryState

INT = '"int"'
LONG = '"long"'


class Registry:
    """Calls a state as HTTP would."""

    def __init__(self) -> None:
        self.state = RegistryState()

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        status, document = self.state.answer(method, path, query, b"" if body is None else json.dumps(body).encode())
        if status != 200:
            return status, document["error_code"]
        return {name: part for name, part in document.items() if name != "guid"} if isinstance(document, dict) else document

    def register(self, subject: str, schema: str, **more: Any) -> Any:
        return self.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_the_same_schema_has_one_id_under_all_subjects(registry: Registry) -> None:
    assert registry.register("a", INT) == registry.register("a", INT) == registry.register("b", INT) == {"id": 1}
    assert registry.register("c", LONG) == {"id": 2}
    assert registry.ask("GET", "/schemas/ids/1/versions") == [{"subject": "a", "version": 1}, {"subject": "b", "version": 1}]


def test_a_context_lists_its_own_subjects(registry: Registry) -> None:
    for path in ("/subjects/a", "/contexts/.test/subjects/b", "/contexts/.test/subjects/c", "/contexts/.other/subjects/b"):
        registry.ask("POST", f"{path}/versions", {"schema": INT})
    assert registry.ask("GET", "/contexts/.test/subjects") == [":.test:b", ":.test:c"]
    assert registry.ask("GET", "/contexts/.test/subjects", subjectPrefix="c") == [":.test:c"]
    assert registry.ask("GET", "/subjects") == [":.other:b", ":.test:b", ":.test:c", "a"]


@pytest.mark.parametrize(
    "references",
    [[{"name": "x"}], [{"name": "x", "subject": "a", "version": "one"}], [{"name": "x", "subject": "a", "version": 1}], [3], 3],
)
def test_a_reference_that_is_not_valid_makes_the_schema_not_valid(registry: Registry, references: Any) -> None:
    assert registry.register("b", INT, references=references) == (422, 42201)


def test_a_guid_is_that_of_the_schema_in_all_registries() -> None:
    first, second = RegistryState(), RegistryState()
    body = json.dumps({"schema": LONG}).encode()
    first.answer("POST", "/subjects/a/versions", {}, json.dumps({"schema": INT}).encode())
    guid = first.answer("POST", "/subjects/b/versions", {}, body)[1]["guid"]
    assert second.answer("POST", "/subjects/c/versions", {}, body) == (200, {"id": 1, "guid": guid})
    assert second.answer("POST", "/subjects/c", {}, body)[1]["guid"] == guid
    assert second.answer("GET", f"/schemas/guids/{guid}", {}, b"") == second.answer("GET", "/schemas/ids/1", {}, b"")
    assert first.answer("GET", f"/schemas/guids/{guid[::-1]}", {}, b"")[1]["error_code"] == 40403


def test_white_space_does_not_make_another_schema(registry: Registry) -> None:
    assert registry.register("a", ' { "type" : "int" } ') == registry.register("a", INT) == registry.register("b", "int") == {"id": 1}
    assert registry.ask("GET", "/schemas/ids/1") == {"schema": INT}
    assert registry.register("c", '{"title": "é"}', schemaType="JSON") == registry.register("c", '{"title":"é"}', schemaType="JSON")


def test_soft_deletion_comes_before_permanent_deletion(registry: Registry) -> None:
    registry.register("a", INT)
    registry.register("a", LONG)
    assert registry.ask("DELETE", "/subjects/a", permanent="true") == (404, 40405)
    assert registry.ask("DELETE", "/subjects/a/versions/1", permanent="true") == (404, 40407)
    assert registry.ask("DELETE", "/subjects/a/versions/1") == 1
    assert registry.ask("DELETE", "/subjects/a/versions/1") == (404, 40406)
    assert registry.ask("GET", "/subjects/a/versions") == [2]
    assert registry.ask("GET", "/subjects/a/versions", deleted="true") == [1, 2]
    assert registry.ask("DELETE", "/subjects/a") == [2]
    assert registry.ask("DELETE", "/subjects/a") == (404, 40404)
    assert registry.ask("GET", "/subjects") == []
    assert registry.ask("GET", "/schemas/ids/1") == {"schema": INT}
    assert registry.ask("DELETE", "/subjects/a", permanent="true") == [1, 2]
    assert registry.ask("DELETE", "/subjects/a") == (404, 40401)


def test_a_schema_is_forgotten_with_its_last_version(registry: Registry) -> None:
    registry.register("a", INT)
    registry.register("a", LONG)
    registry.register("b", INT)
    for number in (1, 2):
        registry.ask("DELETE", f"/subjects/a/versions/{number}")
        registry.ask("DELETE", f"/subjects/a/versions/{number}", permanent="true")
    assert registry.ask("GET", "/schemas/ids/1") == {"schema": INT}
    assert registry.ask("GET", "/schemas/ids/2") == (404, 40403)
    assert registry.register("c", LONG) == {"id": 3}


def test_a_schema_that_another_one_uses_is_not_deleted(registry: Registry) -> None:
    registry.register("used", '{"type": "record", "name": "U", "fields": []}')
    references = [{"name": "U", "subject": "used", "version": 1}]
    registry.register("user", '{"type": "record", "name": "R", "fields": [{"name": "u", "type": "U"}]}', references=references)
    assert registry.ask("DELETE", "/subjects/used") == (422, 42206)
    assert registry.register("other", INT, references=[{"name": "X", "subject": "none", "version": 1}]) == (422, 42201)


@pytest.mark.parametrize(
    ("method", "path", "body", "refusal"),
    [
        ("GET", "/subjects/none/versions", None, (404, 40401)),
        ("GET", "/subjects/a/versions/7", None, (404, 40402)),
        ("GET", "/subjects/a/versions/zero", None, (422, 42202)),
        ("GET", "/schemas/ids/77", None, (404, 40403)),
        ("POST", "/subjects/a", {"schema": LONG}, (404, 40403)),
        ("POST", "/subjects/a/versions", {"schema": ""}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": "{"}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '{"type": "record"}'}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '{"type": "array", "items": "strng"}'}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": "{}", "schemaType": "XML"}, (422, 42201)),
        ("PUT", "/config", {"compatibility": "SIDEWAYS"}, (422, 42203)),
        ("PUT", "/mode", {"mode": "SIDEWAYS"}, (422, 42204)),
        ("GET", "/config/a", None, (404, 40408)),
        ("GET", "/mode/a", None, (404, 40409)),
        ("DELETE", "/config/a", None, (404, 40408)),
        ("GET", "/nothing", None, (404, 404)),
        ("POST", "/subjects/a", [], (400, 400)),
    ],
)
def test_refusals_have_confluents_codes(registry: Registry, method: str, path: str, body: Any, refusal: tuple[int, int]) -> None:
    registry.register("a", INT)
    assert registry.ask(method, path, body) == refusal


def test_a_level_decides_which_versions_count(registry: Registry) -> None:
    registry.ask("PUT", "/config/a", {"compatibility": "NONE"})
    for schema in ('"string"', INT):
        registry.register("a", schema)
    registry.ask("PUT", "/config/a", {"compatibility": "BACKWARD"})
    test = {"schema": LONG}
    assert registry.ask("POST", "/compatibility/subjects/a/versions", test) == {"is_compatible": True}
    registry.ask("PUT", "/config/a", {"compatibility": "BACKWARD_TRANSITIVE"})
    assert registry.ask("POST", "/compatibility/subjects/a/versions", test) == {"is_compatible": False}
    assert registry.register("a", LONG) == (409, 409)
    registry.ask("PUT", "/config/a", {"compatibility": "FORWARD"})
    assert registry.ask("POST", "/compatibility/subjects/a/versions/latest", test) == {"is_compatible": False}
    assert registry.ask("POST", "/compatibility/subjects/a/versions/1", test, verbose="true")["messages"]


def test_a_subject_in_read_only_mode_takes_no_schema(registry: Registry) -> None:
    registry.ask("PUT", "/mode/a", {"mode": "READONLY"})
    assert registry.register("a", INT) == (422, 42205)
    assert registry.ask("DELETE", "/mode/a") == {"mode": "READONLY"}
    assert registry.register("a", INT) == {"id": 1}


def record(*fields: Any, name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "n", "fields": list(fields)})


def enum(*symbols: str, **more: str) -> str:
    return json.dumps({"type": "enum", "name": "E", "symbols": symbols, **more})


A = {"name": "a", "type": "int"}
LIST = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
CASES = [
    ("int is read as long", LONG, INT, True),
    ("long is not read as int", INT, LONG, False),
    ("string and bytes", '"bytes"', '"string"', True),
    ("a new field with a default", record(A, {"name": "b", "type": "string", "default": ""}), record(A), True),
    ("a new field without one", record(A, {"name": "b", "type": "string"}), record(A), False),
    ("a field that is gone", record(), record(A), True),
    ("a field by its alias", record({"name": "z", "aliases": ["a"], "type": "int"}), record(A), True),
    ("a promoted field", record({"name": "a", "type": "double"}), record(A), True),
    ("another name", record(A, name="S"), record(A), False),
    ("a union for its branch", '["null", "int"]', INT, True),
    ("a branch for its union", INT, '["null", "int"]', False),
    ("a wider union", '["null", "int", "string"]', '["int", "null"]', True),
    ("an enum with more symbols", '{"type":"enum","name":"E","symbols":["A","B"]}', '{"type":"enum","name":"E","symbols":["A"]}', True),
    ("an enum with fewer", '{"type":"enum","name":"E","symbols":["A"]}', '{"type":"enum","name":"E","symbols":["A","B"]}', False),
    (
        "an enum with a default",
        '{"type":"enum","name":"E","symbols":["A"],"default":"A"}',
        '{"type":"enum","name":"E","symbols":["B"]}',
        True,
    ),
    ("fixed of another size", '{"type":"fixed","name":"F","size":1}', '{"type":"fixed","name":"F","size":2}', False),
    ("arrays by their items", '{"type":"array","items":"long"}', '{"type":"array","items":"int"}', True),
    ("maps by their values", '{"type":"map","values":"int"}', '{"type":"map","values":"string"}', False),
    ("a recursive record", json.dumps(LIST), json.dumps(LIST), True),
    ("logical types by what they are written as", '{"type":"long","logicalType":"timestamp-millis"}', LONG, True),
]


@pytest.mark.parametrize(("reader", "writer", "readable"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_avros_rules_of_schema_resolution(reader: str, writer: str, readable: bool) -> None:
    assert bool(differences(AvroSchema(reader), AvroSchema(writer))) is not readable


EXAMPLES: list[Any] = [0, 1, "x", b"x", None, [1], {"k": "v"}, {"a": 1}, {"next": {"next": None}}, "A", "B", b"xx"]


@pytest.mark.parametrize(("reader", "writer", "readable"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_fastavro_agrees(reader: str, writer: str, readable: bool) -> None:
    fastavro = pytest.importorskip("fastavro", reason="the extra avro is not installed")
    from io import BytesIO

    written = 0
    for example in EXAMPLES:
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(writer)), example, strict=True)
        except Exception:
            continue
        written += 1
        out.seek(0)
        try:
            fastavro.schemaless_reader(out, fastavro.parse_schema(json.loads(writer)), fastavro.parse_schema(json.loads(reader)))
        except Exception:
            if not readable:
                return
            raise
    assert written
    assert readable
