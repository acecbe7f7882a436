"""Records as objects of a program's classes: of every library, with every type of field, in Avro and JSON, with and without a registry."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from typing_extensions import TypedDict

import levada as lv
from levada.errors import ConfigError, SerializationError
from levada.registry import AvroDeserializer, AvroSerializer, JSONDeserializer, JSONSerializer, SchemaRegistryClient
from levada.serialization import json_of
from levada.testing import EmbeddedKafka, EmbeddedRegistry

attrs = pytest.importorskip("attrs", reason="attrs is not installed")
cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
msgspec = pytest.importorskip("msgspec", reason="the extra typed is not installed")
pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")


class Color(Enum):
    RED = "red"
    GREEN = "green"


def _attrs(name: str, fields: dict[str, Any]) -> Any:
    return attrs.make_class(name, {field: attrs.field(type=kind) for field, kind in fields.items()})


LIST: Any = list
MAP: Any = dict
BASE64 = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}
"""Without this, pydantic writes bytes to JSON as UTF-8."""
LIBRARIES: dict[str, Callable[[str, dict[str, Any]], Any]] = {
    "dataclass": lambda name, fields: dataclasses.make_dataclass(name, fields.items()),
    "msgspec": lambda name, fields: msgspec.defstruct(name, fields.items()),
    "attrs": _attrs,
    "TypedDict": lambda name, fields: TypedDict(name, fields),  # type: ignore[operator]
    "pydantic": lambda name, fields: pydantic.create_model(
        name, __config__=BASE64, **{field: (kind, ...) for field, kind in fields.items()}
    ),
    "pydantic dataclass": lambda name, fields: pydantic.dataclasses.dataclass(
        dataclasses.make_dataclass(name, fields.items()), config=BASE64
    ),
}
"""By library, a function that makes a model class of a name and the types of its fields."""


@pytest.fixture(params=LIBRARIES)
def make(request: pytest.FixtureRequest) -> Any:
    return LIBRARIES[request.param]


LINE = {"item": str, "count": int}
VALUES = {
    "id": UUID(int=5),
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "hour": time(3, 4, 5),
    "price": Decimal("12.34"),
    "raw": b"\xff\x00",
    "color": Color.GREEN,
    "note": None,
    "counts": {"apple": 1},
    "days": {date(2026, 1, 2): 5},
    "amount": "many",
    "pair": (1, 2),
}
TYPES = {field: type(value) for field, value in VALUES.items()} | {
    "note": str | None,
    "counts": dict[str, int],
    "days": dict[date, int],
    "amount": int | str,
    "pair": tuple[int, int] | None,
}
LINE_SCHEMA = {"type": "record", "name": "Line", "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": "int"}]}
AVRO_TYPES: dict[str, Any] = {
    "id": {"type": "string", "logicalType": "uuid"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "hour": {"type": "long", "logicalType": "time-micros"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "raw": "bytes",
    "color": {"type": "enum", "name": "Color", "symbols": ["red", "green"]},
    "note": ["null", "string"],
    "counts": {"type": "map", "values": "int"},
    "days": {"type": "map", "values": "int"},
    "amount": ["int", "string"],
    "pair": ["null", {"type": "array", "items": "int"}],
    "first": ["null", LINE_SCHEMA],
    "lines": {"type": "array", "items": "Line"},
}


def avro(name: str, **fields: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]})


ORDER_SCHEMA = avro("Order", **AVRO_TYPES)


@pytest.fixture
def orders(make: Any) -> tuple[Any, list[Any]]:
    """A class of orders, and two of its objects."""
    line = make("Line", LINE)
    order = make("Order", TYPES | {"first": line | None, "lines": LIST[line]})
    apple, pear = line(item="apple", count=1), line(item="pear", count=2)
    return order, [
        order(**VALUES, first=apple, lines=[apple, pear]),
        order(**VALUES | {"note": "ripe", "amount": 3, "pair": None}, first=None, lines=[]),
    ]


def there_and_back(write: Any, read: Any, *objects: Any) -> list[Any]:
    return [read(write(value)) for value in objects]


@pytest.fixture
def registry() -> Iterator[SchemaRegistryClient]:
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as client:
        yield client


@pytest.fixture
def fastavro() -> Any:
    return pytest.importorskip("fastavro", reason="the extra avro is not installed")


def test_objects_are_the_same_after_avro(registry: SchemaRegistryClient, orders: Any, fastavro: Any) -> None:
    model, objects = orders
    write, read = AvroSerializer(registry, ORDER_SCHEMA, topic="t", model=model), AvroDeserializer(registry, model=model)
    assert there_and_back(write, read, *objects) == objects
    (plain,) = there_and_back(write, AvroDeserializer(registry), objects[0])
    assert plain["price"] == Decimal("12.34")


def test_objects_are_the_same_after_json_with_a_registry(registry: SchemaRegistryClient, orders: Any) -> None:
    """The schema is the model's. A value that fits the model fits the schema."""
    pytest.importorskip("jsonschema", reason="the extra jsonschema is not installed")
    model, objects = orders
    write = JSONSerializer(registry, topic="t", model=model, json_fail_invalid_schema=True)
    for read in (JSONDeserializer(model=model), JSONDeserializer(registry, model=model, validate=True)):
        assert there_and_back(write, read, *objects) == objects
    schema = json.loads(registry.get_latest_version("t-value").schema.schema_str)
    assert (schema["title"], schema["type"], schema["properties"]["counts"]["type"]) == ("Order", "object", "object")


def test_objects_are_the_same_after_json(orders: Any) -> None:
    model, objects = orders
    write, read = json_of(model)
    assert there_and_back(write, read, *objects) == objects
    assert write(None) is None


def test_a_list_of_objects(make: Any) -> None:
    line = make("Line", LINE)
    lines = [line(item="apple", count=1), line(item="pear", count=2)]
    assert there_and_back(*json_of(LIST[line]), lines) == [lines]


def test_what_does_not_fit_when_it_is_read_names_the_field(registry: SchemaRegistryClient, make: Any, fastavro: Any) -> None:
    order = make("Order", {"lines": LIST[make("Line", LINE)]})
    other = AVRO_TYPES["lines"] | {"items": LINE_SCHEMA | {"fields": [{"name": field, "type": "string"} for field in LINE]}}
    found = {"lines": [{"item": "pear", "count": "two"}]}
    for write, read in (
        (AvroSerializer(registry, avro("Order", lines=other), topic="t"), AvroDeserializer(registry, model=order)),
        (JSONSerializer(registry, "{}", topic="j"), JSONDeserializer(model=order)),
        (lambda value: json.dumps(value).encode(), json_of(order)[1]),
    ):
        with pytest.raises(SerializationError, match=r"it does not fit Order: .*lines.*count"):
            there_and_back(write, read, found)


def test_what_does_not_fit_when_it_is_written_names_the_field(registry: SchemaRegistryClient, make: Any, fastavro: Any) -> None:
    line = make("Line", LINE)
    value = line(item="apple", count=1)
    if isinstance(value, dict):
        value["count"] = "two"
    else:
        value.count = "two"
    for write in (
        AvroSerializer(registry, json.dumps(LINE_SCHEMA), topic="t", model=line),
        JSONSerializer(registry, topic="j", model=line),
        json_of(line)[0],
    ):
        with pytest.raises(SerializationError, match=r"it does not fit .*count"):
            write(value)


@pytest.mark.parametrize("library", [library for library in LIBRARIES if library != "TypedDict"])
def test_an_object_of_another_class_is_refused(library: str) -> None:
    """Even if it has the same fields."""
    line, other = (LIBRARIES[library](name, {"item": str}) for name in ("Line", "Other"))
    with pytest.raises(SerializationError, match="expected Line, got Other"):
        json_of(line)[0](other(item="apple"))


def test_an_error_of_pydantic_is_one_line() -> None:
    many = LIBRARIES["pydantic"]("Many", dict.fromkeys("abcde", int))
    with pytest.raises(SerializationError) as caught:
        json_of(many)[1](b'{"a": "x", "b": 1}')
    assert str(caught.value) == (
        "it does not fit Many: a: Input should be a valid integer, unable to parse string as an integer; "
        "c: Field required; d: Field required; and 1 more"
    )


class TestUnions:
    """Two classes with the same fields: only a tag tells them apart."""

    @pytest.fixture(params=["msgspec", "pydantic", "pydantic with discriminator"])
    def events(self, request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
        """Two classes with the same fields, and their union."""
        if request.param == "msgspec":
            created, deleted = (msgspec.defstruct(name, [("id", int)], tag=True) for name in ("Created", "Deleted"))
            return created, deleted, created | deleted
        created, deleted = (pydantic.create_model(name, type=(Literal[name], name), id=(int, ...)) for name in ("Created", "Deleted"))
        if request.param == "pydantic":
            return created, deleted, created | deleted
        return created, deleted, Annotated[created | deleted, pydantic.Field(discriminator="type")]

    def test_in_json(self, registry: SchemaRegistryClient, events: Any) -> None:
        created, deleted, union = events
        for write, read in (json_of(union), (JSONSerializer(registry, topic="t", model=union), JSONDeserializer(model=union))):
            assert there_and_back(write, read, created(id=1), deleted(id=1)) == [created(id=1), deleted(id=1)]

    @pytest.mark.parametrize("has_field", [False, True], ids=["only in the model", "in the schema"])
    def test_in_avro_the_tag_chooses_the_record(self, registry: SchemaRegistryClient, events: Any, fastavro: Any, has_field: bool) -> None:
        """The tag need not be a field of the records. Without a tag, fastavro would write both events as the first record."""
        created, deleted, union = events
        log = LIBRARIES["pydantic" if hasattr(created, "model_fields") else "msgspec"](
            "Log", {"last": union, "events": LIST[union], "none": created | None}
        )
        fields: dict[str, Any] = {"id": "int", **({"type": "string"} if has_field else {})}
        records = [json.loads(avro(name, **fields)) | {"namespace": "shop"} for name in ("Created", "Deleted")]
        schema = avro(
            "Log", last=records, events={"type": "array", "items": ["shop.Created", "shop.Deleted"]}, none=["null", "shop.Created"]
        )
        value = log(last=deleted(id=1), events=[created(id=2), deleted(id=3)], none=created(id=4))
        data = AvroSerializer(registry, schema, topic="t", model=log)(value)
        assert data is not None
        assert data[5] == 2, "the second record of the union"
        assert AvroDeserializer(registry, model=log)(data) == value
        assert AvroDeserializer(registry, schema, model=log)(data) == value
        assert AvroDeserializer(registry)(data)["last"]["id"] == 1

    def test_in_avro_a_map_is_no_record_of_a_union(self, registry: SchemaRegistryClient, events: Any, fastavro: Any) -> None:
        """An entry of a map may have the name and the value of a tag."""
        created, deleted, union = events
        log = LIBRARIES["pydantic" if hasattr(created, "model_fields") else "msgspec"](
            "Log", {"last": union, "texts": dict[str, str], "by_text": MAP[str, union]}
        )
        records = [json.loads(avro(name, id="int")) for name in ("Created", "Deleted")]
        schema = avro(
            "Log",
            last=records,
            texts={"type": "map", "values": "string"},
            by_text={"type": "map", "values": ["null", {"type": "map", "values": "string"}, "Created", "Deleted"]},
        )
        value = log(last=created(id=1), texts={"type": "Deleted"}, by_text={"type": deleted(id=2)})
        write, read = AvroSerializer(registry, schema, topic="t", model=log), AvroDeserializer(registry, model=log)
        assert there_and_back(write, read, value) == [value]

    def test_in_avro_at_the_top(self, registry: SchemaRegistryClient, events: Any, fastavro: Any) -> None:
        created, deleted, union = events
        schema = f"[{avro('Created', id='int')}, {avro('Deleted', id='int')}]"
        write, read = AvroSerializer(registry, schema, topic="t", model=union), AvroDeserializer(registry, model=union)
        assert there_and_back(write, read, created(id=1), deleted(id=1)) == [created(id=1), deleted(id=1)]

    def test_of_pydantic_models_that_differ_in_their_fields(self, registry: SchemaRegistryClient, fastavro: Any) -> None:
        card, cash = LIBRARIES["pydantic"]("Card", {"number": str}), LIBRARIES["pydantic"]("Cash", {"cents": int})
        schema = f"[{avro('Card', number='string')}, {avro('Cash', cents='int')}]"
        write, read = AvroSerializer(registry, schema, topic="t", model=card | cash), AvroDeserializer(registry, model=card | cash)
        assert there_and_back(write, read, card(number="1"), cash(cents=1)) == [card(number="1"), cash(cents=1)]

    def test_of_dataclasses_are_refused(self) -> None:
        one, other = (LIBRARIES["dataclass"](name, {"id": int}) for name in ("One", "Other"))
        with pytest.raises(ConfigError, match="cannot be used as a model: Type unions may not contain more than one dataclass"):
            json_of(one | other)


def test_model_and_a_function_exclude_one_another(registry: SchemaRegistryClient, fastavro: Any) -> None:
    line = LIBRARIES["dataclass"]("Line", LINE)
    for serializer in (AvroSerializer, JSONSerializer):
        with pytest.raises(ConfigError, match="give model or to_dict, not both"):
            serializer(registry, "{}" if serializer is JSONSerializer else '"int"', topic="t", model=line, to_dict=dict)
    for deserializer in (AvroDeserializer, JSONDeserializer):
        with pytest.raises(ConfigError, match="give model or from_dict, not both"):
            deserializer(registry, model=line, from_dict=dict)


def test_a_schema_of_the_program_is_written_instead_of_the_models(registry: SchemaRegistryClient, make: Any) -> None:
    line = make("Line", LINE)
    JSONSerializer(registry, '{"title": "Own"}', topic="t", model=line)(line(item="apple", count=1))
    assert json.loads(registry.get_latest_version("t-value").schema.schema_str) == {"title": "Own"}


def test_a_field_with_a_default_is_optional_in_the_models_schema(registry: SchemaRegistryClient) -> None:
    plain = dataclasses.make_dataclass("Line", [("item", str), ("count", int, 1)])
    for model in (plain, pydantic.create_model("Line", item=(str, ...), count=(int, 1))):
        JSONSerializer(registry, subject_name_strategy="RecordName", model=model)(model(item="apple"))
        schema = json.loads(registry.get_latest_version("Line").schema.schema_str)
        assert (schema["required"], schema["properties"]["count"]["default"]) == (["item"], 1)


def test_a_model_that_contains_itself(registry: SchemaRegistryClient) -> None:
    @dataclasses.dataclass
    class Node:
        next: Node | None = None

    Node.__annotations__["next"] = Node | None
    JSONSerializer(registry, topic="t", model=Node)(Node(Node()))
    schema = json.loads(registry.get_latest_version("t-value").schema.schema_str)
    assert schema["title"] == "Node"
    assert schema["$defs"]["Node"]["title"] == "Node"


@dataclasses.dataclass
class Pear:
    count: int


def test_serializers_with_a_model_can_be_pickled(registry: SchemaRegistryClient, fastavro: Any) -> None:
    schema = avro("Pear", count="int")
    for pair in (
        json_of(Pear),
        (JSONSerializer(registry, topic="t", model=Pear), JSONDeserializer(model=Pear)),
        (AvroSerializer(registry, schema, topic="a", model=Pear), AvroDeserializer(registry, model=Pear)),
    ):
        assert there_and_back(*pair, Pear(1)) == [Pear(1)]
        copies = cloudpickle.loads(cloudpickle.dumps(pair))
        assert there_and_back(*copies, Pear(1)) == [Pear(1)]
        if isinstance(copies[1], AvroDeserializer):
            copies[1]._registry.close()


def test_a_consumer_returns_objects_and_writes_the_others_to_a_dead_letter_topic() -> None:
    line = LIBRARIES["dataclass"]("Line", LINE)
    to_json, from_json = json_of(line)
    with EmbeddedKafka(num_partitions=1) as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as plain:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=to_json) as producer:
            producer.send("lines", line(item="apple", count=1))
            producer.flush()
            with pytest.raises(SerializationError, match=r"value: the serializer failed on Line: it does not fit Line: .*count"):
                producer.send("lines", line(item="apple", count="one"))
        plain.send("lines", '{"item": "pear", "count": "two"}').result(timeout=10)
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest", "value.deserializer": from_json}
        with lv.KafkaConsumer(settings, on_decode_error=lv.DeadLetter(plain, "dead"), stop_at_end=True) as consumer:
            consumer.assign(consumer.partitions_for("lines"))
            assert [record.value for record in consumer] == [line(item="apple", count=1)]
        (letter,) = lv.scan("dead", bootstrap_servers=kafka.bootstrap_servers)
        message = dict(letter.headers)["__levada.errors.message"] or b""
        assert b"it does not fit Line: Expected `int`, got `str` - at `$.count`" in message


@pytest.mark.parametrize("model", ["dataclass", "pydantic"])
def test_only_the_library_of_a_model_is_imported(model: str) -> None:
    """And without msgspec, the error says how to install it."""
    own = "class Line(pydantic.BaseModel):" if model == "pydantic" else "@dataclasses.dataclass\nclass Line:"
    program = f"import dataclasses, sys\n{'import pydantic' if model == 'pydantic' else ''}\n{own}\n    item: str\n" + (
        "sys.modules['msgspec'] = None\n"
        "from levada.serialization import json_of\n"
        "try:\n"
        '    print(json_of(Line)[1](b\'{"item": "apple"}\'))\n'
        "except ImportError as missing:\n"
        "    print(missing, 'pydantic' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    says = "item='apple'" if model == "pydantic" else "a model that is not pydantic's needs msgspec: pip install 'levada[typed]' False"
    assert run.stdout.strip() == says
