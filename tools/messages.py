"""Write the declarations of Kafka's messages, or check them: `make messages`, or `python tools/messages.py [--check] DATA`.

DATA holds Kafka's message schemas, which `make schemas` fetches: `3.9/` has all old versions, `4.4/` the newest versions, and
`4.4-log-records/` the coordinators' records. Our declarations cover both releases: versions that 4.4 has follow 4.4, older versions follow
3.9. messages.toml beside this file has the docstrings of each message and struct, and the names of secret fields.

The files are written to protocol/messages (one file per API), protocol/embedded (messages inside of bytes fields) and protocol/records
(records in Kafka's log). --check uses separate code to compare every declaration, version by version, with the schema for this version. It
also compares every file with the text that would be written.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from levada.protocol.api import APIS
from levada.protocol.schema import NEW, UNSET, ZERO_UUID, Field, Message, RecordKey, Request, Struct, Versions

Schema = dict[str, Any]

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "levada" / "protocol"
WIDTH: Final = 140

WRITTEN: Final = (
    "Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml."
)

WORDS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
EMBEDDED: Final = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "DefaultPrincipalData")
NOT_ALWAYS_ANSWERED: Final = ("ProduceRequest",)
HEADERS: Final = ("RequestHeader", "ResponseHeader")

ANNOTATIONS: Final = {"string": "str", "bytes": "bytes", "bool": "bool", "float64": "float", "uuid": "UUID", "records": "RecordBytes"}
FUNCTIONS: Final = {"bool": "boolean", "bytes": "bytestring"}
NUMBERS: Final = {0x7FFFFFFF: "0x7FFFFFFF", (1 << 63) - 1: "(1 << 63) - 1", -(1 << 31): "OPERATIONS_NOT_ASKED"}
CONSTANTS: Final = {"OPERATIONS_NOT_ASKED": "-(1 << 31)"}


def snake(name: str) -> str:
    """Return a name of Kafka's schemas in snake_case: KRaftVersion is kraft_version, Enable2Pc is enable_2pc."""
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# Reading the schemas


class Schemas(NamedTuple):
    """The schemas by name. old: of 3.9. new: of 4.4. records: of the coordinators' topics."""

    old: dict[str, Schema]
    new: dict[str, Schema]
    records: dict[str, Schema]

    @classmethod
    def load(cls, data: Path) -> Schemas:
        """Read the schemas of all three folders."""
        return cls(*(_load(data / folder) for folder in ("3.9", "4.4", "4.4-log-records")))

    def ruling(self, name: str, version: int) -> Schema:
        """Return the schema for a version of a message: the newest schema that has the version."""
        for schemas in (self.records, self.new):
            if name in schemas and Versions.parse(schemas[name]["validVersions"]).has(version):
                return schemas[name]
        return self.old[name]

    def merged(self, name: str) -> Schema:
        """Return one schema for all versions of a message, merged from both releases."""
        old, new = self.old.get(name), self.records.get(name) or self.new.get(name)
        if old is None or new is None or new["validVersions"] == "none":
            found = old if new is None or new["validVersions"] == "none" else new
            assert found is not None
            return found
        first, last = Versions.parse(old["validVersions"]).first, Versions.parse(new["validVersions"])
        fields = _merge(old["fields"], new["fields"], last.first)
        return {**new, "validVersions": _text(Versions(min(first, last.first), last.last)), "fields": fields}

    def drafts(self, name: str) -> str:
        """Return the version that Kafka never released as stable, or "none"."""
        old, new = self.old.get(name), self.new[name]
        if new["validVersions"] == "none":
            return "none"
        newest, oldest = Versions.parse(new["validVersions"]), Versions.parse(old["validVersions"]) if old else None
        if new.get("latestVersionUnstable"):
            return str(newest.last)
        if old and oldest and old.get("latestVersionUnstable") and oldest.last < newest.first:
            return str(oldest.last)
        return "none"


def _load(folder: Path) -> dict[str, Schema]:
    schemas = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {schema["name"]: {**schema, "fields": list(_resolved(schema.get("fields", []), schema))} for schema in schemas}


def _resolved(fields: list[Schema], schema: Schema) -> Iterator[Schema]:
    """Yield the fields, with the common structs inserted where they are used."""
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    for field in fields:
        inner = field.get("fields") or common.get(element(field))
        # A tagged field may have only taggedVersions, and no versions.
        known = {**field, "versions": field.get("versions", field.get("taggedVersions"))}
        yield {**known, "fields": list(_resolved(inner, schema))} if inner else known


def element(field: Schema) -> str:
    """Return the type of a field, or of its elements if it is an array."""
    return str(field["type"].removeprefix("[]"))


def _text(span: Versions) -> str:
    return str(span.first) if span.first == span.last else f"{span.first}-{span.last}"


def _merge(old: list[Schema], new: list[Schema], first_new: int) -> list[Schema]:
    """Return the new fields, with the fields inserted that only versions before first_new have."""
    merged = [dict(field) for field in new]
    names = [field["name"] for field in new]
    for place, field in enumerate(old):
        if field["name"] in names:
            here = merged[names.index(field["name"])]
            if "fields" in here:
                here["fields"] = _merge(field["fields"], here["fields"], first_new)
            continue
        span = Versions.parse(field["versions"])
        span = Versions(span.first, min(span.last, first_new - 1))
        if span.first <= span.last:
            before = [names.index(other["name"]) for other in old[:place] if other["name"] in names]
            position = max(before, default=-1) + 1
            names.insert(position, field["name"])
            merged.insert(position, {**field, "versions": _text(span)})
    return merged


# Writing declarations


class Unit(NamedTuple):
    """A file to write: its messages, and its section in messages.toml."""

    folder: str
    section: str
    title: str
    messages: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The path of the file below the package."""
        return Path(self.folder) / f"{snake(self.section)}.py"


def units(schemas: Schemas) -> list[Unit]:
    """Return all files to write."""
    found = []
    for name, schema in sorted({**schemas.old, **schemas.new}.items(), key=lambda item: item[1].get("apiKey", -1)):
        api = name.removesuffix("Request")
        if schema["type"] == "request" and f"{api}Request" in schemas.new:
            found.append(Unit("messages", api, f"{api} (key {schema['apiKey']})", (name, f"{api}Response")))
        elif schema["type"] == "data":
            found.append(Unit("embedded" if name in EMBEDDED else "records", name, name, (name,)))
    for name, schema in sorted(schemas.records.items()):
        if name.endswith("Key"):
            kind = name.removesuffix("Key")
            found.append(Unit("records", kind, f"{kind} (record type {schema['apiKey']})", (name, f"{kind}Value")))
    return found


class Writer:
    """Makes the text of one file."""

    def __init__(self, unit: Unit, schemas: Schemas) -> None:
        self.unit = unit
        self.schemas = schemas
        self.words: dict[str, Any] = (WORDS["Record"] if len(unit.messages) > 1 and unit.folder == "records" else WORDS)[unit.section]
        self.declared: dict[str, list[Schema]] = {}
        self.renamed: dict[str, str] = {}
        self.used: set[str] = set()

    def text(self) -> str:
        """Return the text of the file, before formatting."""
        classes = [text for name in self.unit.messages for text in self.message(name)]
        about = f": {self.words['about']}" if "about" in self.words else "."
        head = [docstring(f"{self.unit.title}{about}\n\n{WRITTEN}", ""), "from __future__ import annotations"]
        head += ["from uuid import UUID"] if "UUID" in self.used else []
        names = ", ".join(sorted(self.used - {"UUID", *CONSTANTS}))
        constants = [f"{name} = {value}" for name, value in CONSTANTS.items() if name in self.used]
        return "\n\n".join([*head, f"from levada.protocol.schema import {names}", *constants, *classes]) + "\n"

    def message(self, name: str) -> Iterator[str]:
        """Yield the classes of one message. A struct comes before the classes that use it."""
        schema = self.schemas.merged(name)
        base, keywords = self.bases(name, schema)
        self.used.add(base.partition("[")[0])
        yield from self.structs(schema["fields"], name)
        key = name.removeprefix(self.unit.section) or "Data"
        yield self.declaration(f"{name}({base}{keywords})", self.words[key], schema["fields"], name)

    def bases(self, name: str, schema: Schema) -> tuple[str, str]:
        """Return the base class, and the class keywords as text."""
        span, flexible = schema["validVersions"], schema["flexibleVersions"]
        bend = "" if flexible == "none" else f', flexible="{flexible}"'
        if schema["type"] == "response":
            return "Response", f", request={name.removesuffix('Response')}Request"
        if schema["type"] == "coordinator-key":
            return "RecordKey", f", record_type={schema['apiKey']}" + ("" if span == "0" else f', versions="{span}"')
        if schema["type"] == "coordinator-value":
            return "RecordValue", f', key={name.removesuffix("Value")}Key, versions="{span}"{bend}'
        if schema["type"] == "data":
            return "Data", f', versions="{span}"{bend}'
        drafts = self.schemas.drafts(name)
        stable = Versions.parse(span)
        if drafts != "none":
            draft = int(drafts)
            stable = Versions(stable.first + (draft == stable.first), stable.last - (draft == stable.last))
        shown = f', key={schema["apiKey"]}, versions="{_text(stable)}"'
        response = f"{name.removesuffix('Request')}Response" + (" | None" if name in NOT_ALWAYS_ANSWERED else "")
        return f'Request["{response}"]', shown + (f', unstable="{drafts}"' if drafts != "none" else "") + bend

    def structs(self, fields: list[Schema], message: str) -> Iterator[str]:
        """Yield the classes of the structs in these fields that are not declared yet."""
        for field in fields:
            if "fields" not in field:
                continue
            yield from self.structs(field["fields"], message)
            name = self.struct_name(element(field), field["fields"], message)
            if name not in self.declared:
                self.declared[name] = field["fields"]
                self.used.add("Struct")
                about = self.words.get(name) or WORDS["Common"][name]
                yield self.declaration(f"{name}(Struct)", about, field["fields"], message)

    def struct_name(self, name: str, fields: list[Schema], message: str) -> str:
        """Return the class name of a struct. It gets another name if request and response have different structs of the same name."""
        if self.declared.get(name, fields) == fields:
            return name
        assert message.endswith("Response"), (message, name)
        return name.removesuffix("Data") + "Response"

    def declaration(self, head: str, about: str, fields: list[Schema], message: str) -> str:
        """Return the text of one class."""
        owner = head.partition("(")[0]
        lines = [f"    {self.field(field, owner, message)}" for field in fields]
        return "\n".join([f"\nclass {head}:", docstring(about, "    "), *(["", *lines] if lines else [])])

    def field(self, field: Schema, owner: str, message: str) -> str:
        """Return the line that declares a field."""
        kind = element(field)
        inner, annotation = kind, ANNOTATIONS.get(kind, "int")
        if "fields" in field:
            inner = annotation = self.struct_name(kind, field["fields"], message)
        arguments = self.arguments(field, owner)
        if field["type"].startswith("[]"):
            self.used.update({FUNCTIONS.get(kind, kind)} if "fields" not in field else ())
            arguments, annotation, function = [FUNCTIONS.get(inner, inner), *arguments], f"list[{annotation}]", "array"
        else:
            function = "struct" if "fields" in field else FUNCTIONS.get(kind, kind)
            arguments = [inner, *arguments] if "fields" in field else arguments
        self.used.update({function}, {"UUID", "RecordBytes"} & {ANNOTATIONS.get(kind, "")})
        null = " | None" if "nullableVersions" in field or kind == "records" else ""
        return f"{snake(field['name'])}: {annotation}{null} = {function}({', '.join(arguments)})"

    def arguments(self, field: Schema, owner: str) -> list[str]:
        """Return the arguments of a field's declaration."""
        given = [f'"{field["versions"]}"'] if field["versions"] != "0+" else []
        if "nullableVersions" in field:
            given.append(f'nullable="{field["nullableVersions"]}"')
        default = default_text(field)
        if default:
            given.append(f"default={default}")
            self.used.update({default} & {"NEW", *CONSTANTS})
        if "taggedVersions" in field:
            given += [f'tagged="{field["taggedVersions"]}"', f"tag={field['tag']}"]
        if field.get("ignorable"):
            given.append("ignorable=True")
        if f"{owner}.{snake(field['name'])}" in self.words.get("secret", ()):
            given.append("secret=True")
        return given


def default_text(field: Schema) -> str:
    """Return the source of a field's default, "" if it is the default of its type."""
    default, kind = field.get("default"), field["type"]
    always_nullable = Versions.parse(field.get("nullableVersions", "none")).covers(Versions.parse(field["versions"]))
    if default == "null":
        return "" if always_nullable else "None"
    if always_nullable and "taggedVersions" in field:
        return "NEW"  # A tagged field is written only if its value differs from the default.
    if kind == "bool":
        return "True" if str(default).lower() == "true" else ""
    if kind == "string":
        return f'"{default}"' if default else ""
    if default in (None, "") or int(str(default), 0) == 0:
        return ""
    number = int(str(default), 0)
    return NUMBERS.get(number, f"{number:_}")


def docstring(text: str, indent: str) -> str:
    """Return the source of a docstring: the first paragraph in one line, then the other paragraphs of the text, wrapped."""
    first, *more = text.split("\n\n")
    head = f'{indent}"""{first}'
    assert len(head) <= WIDTH - 3, f"too long for one line: {head}"
    if not more:
        return f'{head}"""'
    wrapped = [textwrap.fill(part, WIDTH, initial_indent=indent, subsequent_indent=indent) for part in more]
    return "\n\n".join([head, *wrapped]) + f'\n{indent}"""'


def write(folder: Path, schemas: Schemas) -> None:
    """Write and format all files below a folder."""
    for unit in units(schemas):
        path = folder / unit.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Writer(unit, schemas).text())
    tool = [sys.executable, "-m", "ruff"]
    config = ["--quiet", "--config", str(ROOT / "pyproject.toml")]
    subprocess.run([*tool, "check", "--select", "I", "--fix", *config, str(folder)], check=True)
    subprocess.run([*tool, "format", *config, str(folder)], check=True)


# Checking declarations


def check(schemas: Schemas) -> list[str]:
    """Return the faults of the existing files and declarations."""
    faults = [] if list(APIS) == api_keys(schemas) else [f"api.py knows {list(APIS)}, the data {api_keys(schemas)}"]
    with tempfile.TemporaryDirectory() as temporary:
        write(Path(temporary), schemas)
        expected = {unit.path: (Path(temporary) / unit.path).read_text() for unit in units(schemas)}
    faults += [f"{path} is not what would be written" for path, text in expected.items() if _read(PACKAGE / path) != text]
    return faults + [fault for unit in units(schemas) for name in unit.messages for fault in check_message(unit, name, schemas)]


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def api_keys(schemas: Schemas) -> list[int]:
    """Return the keys of all APIs, sorted."""
    return sorted({schema["apiKey"] for schemas in schemas[:2] for schema in schemas.values() if schema["type"] == "request"})


def load(unit: Unit, name: str) -> type[Message]:
    """Return the declared class of a message."""
    module = import_module(f"levada.protocol.{unit.folder}.{snake(unit.section)}")
    found: type[Message] = getattr(module, name)
    return found


def versions_of(name: str, schemas: Schemas) -> set[int]:
    """Return all versions of a message that any schema has."""
    spans = [Versions.parse(group[name]["validVersions"]) for group in schemas if name in group]
    return {version for span in spans for version in range(span.first, span.last + 1)}


def check_message(unit: Unit, name: str, schemas: Schemas) -> Iterator[str]:
    """Compare a declaration with the schemas, version by version. Yields faults."""
    message, versions = load(unit, name), versions_of(name, schemas)
    if set(range(message.OLDEST_VERSION, message.NEWEST_VERSION + 1)) != versions:
        yield f"{name}: declared {message.OLDEST_VERSION} to {message.NEWEST_VERSION}, the data have {sorted(versions)}"
    for version in sorted(versions):
        schema = schemas.ruling(name, version)
        if message.is_flexible(version) != Versions.parse(schema["flexibleVersions"]).has(version):
            yield f"{name} v{version}: flexible or not"
        if issubclass(message, Request) and schema["apiKey"] != message.API_KEY:
            yield f"{name}: key {message.API_KEY}, the data say {schema['apiKey']}"
        if issubclass(message, RecordKey) and schema["apiKey"] != message.RECORD_TYPE:
            yield f"{name}: record type {message.RECORD_TYPE}, the data say {schema['apiKey']}"
        newest = schemas.ruling(name, max(versions))
        yield from check_struct(message, schema["fields"], newest["fields"], version, f"{name} v{version}")


def check_struct(struct: type[Struct], fields: list[Schema], newest: list[Schema], version: int, where: str) -> Iterator[str]:
    """Compare the fields of one version, in the order of the wire. newest: the fields in the newest version's schema."""
    expected = [field for field in fields if Versions.parse(field["versions"]).has(version)]
    declared = [field for field in struct.FIELDS if field.is_inline(version) or field.is_tagged(version)]
    if [field.name for field in declared] != [snake(field["name"]) for field in expected]:
        yield f"{where}: declared {[field.name for field in declared]}, the data have {[field['name'] for field in expected]}"
        return
    latest = {field["name"]: field for field in newest}
    for mine, theirs in zip(declared, expected, strict=True):
        yield from check_field(mine, theirs, latest.get(theirs["name"], theirs), version, f"{where}.{mine.name}")


def check_field(mine: Field, theirs: Schema, latest: Schema, version: int, where: str) -> Iterator[str]:
    """Compare one field of one version."""
    if (mine.kind == "array") != theirs["type"].startswith("[]"):
        yield f"{where}: array or not"
        return
    inner = mine.element if mine.element is not None else mine
    if inner.kind != ("struct" if "fields" in theirs else element(theirs)):
        yield f"{where}: is {inner.kind}, the data say {element(theirs)}"
        return
    tagged = Versions.parse(theirs.get("taggedVersions", "none")).has(version)
    nullable = Versions.parse(theirs.get("nullableVersions", "none")).has(version)
    if mine.nullable.has(version) != nullable:
        yield f"{where}: nullable or not"
    if mine.is_tagged(version) != tagged or (tagged and mine.tag != theirs["tag"]):
        yield f"{where}: tagged or not, or another tag"
    # `ignorable` concerns the versions without the field, so the newest schema decides, and not the schema of this version.
    if mine.ignorable != bool(latest.get("ignorable")):
        yield f"{where}: ignorable or not"
    if not same_default(mine, theirs, tagged):
        yield f"{where}: default {mine.default}, the data say {theirs.get('default')}"
    if inner.struct is not None:
        yield from check_struct(inner.struct, theirs["fields"], latest["fields"], version, where)


def same_default(mine: Field, theirs: Schema, tagged: bool) -> bool:
    """Return whether the defaults agree. For nullable fields without a default, Kafka's is empty and ours null, unless they are tagged."""
    given = theirs.get("default")
    if given == "null":
        return mine.default is None
    if "nullableVersions" in theirs and given in (None, "") and not tagged:
        return mine.default in (None, "", b"", UNSET, NEW)
    if mine.kind in ("array", "struct", "records", "bytes", "uuid"):
        return mine.default in (UNSET, None if mine.kind == "records" else UNSET, b"", ZERO_UUID)
    if mine.kind == "string":
        return bool(mine.default == (given or ""))
    text = str(given if given not in (None, "") else 0).lower()
    number = text == "true" if text in ("true", "false") else float(text) if "." in text else int(text, 0)
    return bool(mine.default == number)


def main() -> int:
    """Write the files, or check them and print the number of messages and faults. Return the exit code."""
    parser = argparse.ArgumentParser(description="Write or check the declarations of Kafka's messages.")
    parser.add_argument("data", type=Path, help="the folder with 3.9, 4.4 and 4.4-log-records")
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    schemas = Schemas.load(arguments.data)
    if not arguments.check:
        write(PACKAGE, schemas)
        return 0
    faults = check(schemas)
    print("\n".join(faults), end="\n" if faults else "")
    names = [name for unit in units(schemas) for name in unit.messages]
    count = sum(len(versions_of(name, schemas)) for name in names)
    print(f"{len(api_keys(schemas))} APIs, {len(names)} messages and {count} versions of them compared, {len(faults)} faults")
    print(f"not compared: {', '.join(HEADERS)}, which header.py writes by hand")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
