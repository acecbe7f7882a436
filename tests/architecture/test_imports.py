"""Who may import whom: the table of docs/ARCHITECTURE.md, held."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection

from source_tree import ROOT, Import, Module, modules

BASE = {
    "base",
    "ack_buffer",
    "acls",
    "errors",
    "error_codes",
    "types",
    "metrics",
    "groups",
    "interceptors",
    "dead_letter",
    "credentials",
    "logs",
    "_importing",
    "_pure",
}
BELOW_API = {"wire", "protocol", "record", "net", "client", "producer", "consumer", "admin"}

MAY_IMPORT = {
    "wire": set(),
    "protocol": {"wire"},
    "record": {"wire"},
    "net": {"protocol", "wire"},
    "client": {"net", "protocol"},
    "producer": {"client", "protocol", "record", "wire"},
    "consumer": {"client", "protocol", "record", "wire"},
    "admin": {"client", "protocol", "record", "wire"},
    "config": {"serialization"},
    "oauth": {"net"},
    "api": BELOW_API | {"config", "oauth", "serialization", "formats"},
    "sync": BELOW_API | {"config", "serialization", "formats", "api"},
    "aio": BELOW_API | {"config", "serialization", "formats", "api"},
    "broker": {"net", "protocol", "record", "wire", "config"},
    "registry": {"config", "net", "oauth", "serialization"},
    "formats": {"record", "registry"},
    "otel": {"api"},
    "exactly_once": {"sync"},
    "spark": {"sync", "config", "record", "formats", "serialization", "exactly_once"},
    "compat": {"registry", "serialization", "wire"},
    "cli": {"sync", "config", "consumer", "registry", "serialization", "protocol", "record", "broker", "exactly_once"},
}
OF_THE_REGISTRY_FOR_FORMATS = {
    "levada.registry",
    *(f"levada.registry.{module}" for module in ("avro_codec", "avro_defaults", "protobuf_codec", "schema", "wire_format")),
}
"""Its public names, and what knows no registry: values of Avro and Protobuf, defaults, schemas and rules, and what stands before values."""
OF_THE_LIBRARY_FOR_THE_COMMAND_LINE = {
    "levada",
    "levada.registry",
    "levada.registry.avro_json",
    "levada.registry.protobuf_json",
    "levada.consumer.scan.bounds",
    "levada.broker.foreground",
    *(f"levada.exactly_once.{module}" for module in ("batch", "ledger", "slots")),
}
"""Public names, Avro and Protobuf as JSON, how a time is written, the broker as a program, what Spark's exactly-once sinks have open."""
READING_LOGS = ("levada.cli.log_dump", "levada.cli.doctor.probe")
"""Modules of the command line that show bytes as they are: in logs, and what listeners answer. They know protocol and record."""
PUBLIC = {"levada", *(f"levada.sync.{room}" for room in ("producer", "consumer", "admin", "scan"))}

BLOCKING = {"socket", "selectors", "asyncio", "threading", "time", "queue", "concurrent", "select", "ssl"}
PURE = ("wire", "record", "protocol")
SANS_IO = ("net", "client", "producer", "consumer", "admin", "broker")
MAY_BLOCK = {
    "levada.net.selector",
    "levada.net.opening",
    "levada.net.resolver",
    "levada.net.proxy.blocking",
    "levada.broker.network.server",
}

EXTRAS = {
    "pyarrow",
    "pyspark",
    "pandas",
    "numpy",
    "polars",
    "duckdb",
    "typer",
    "rich",
    "yaml",
    "Cython",
    "fastavro",
    "google",
    "jsonschema",
    "referencing",
    "msgspec",
    "pydantic",
    "prometheus_client",
    "opentelemetry",
} | {"botocore", "cryptography", "gssapi", "jwt", "trustme"}
EXTRAS_OF = {
    "levada.base.model": {"msgspec", "pydantic"},
    "levada.registry.avro_codec": {"fastavro"},
    "levada.registry.protobuf": {"google"},
    "levada.registry.protobuf_codec": {"google"},
    "levada.registry.protobuf_json": {"google"},
    "levada.formats.protobuf_schema": {"google"},
    "levada.registry.json_bounds": {"jsonschema"},
    "levada.registry.json_schema": {"jsonschema", "referencing"},
    "levada.net.sasl.kerberos": {"gssapi"},
    "levada.net.tls.pkcs12": {"cryptography"},
    "levada.testing.security": {"cryptography", "trustme"},
    "levada.cli.records.columns": {"pyarrow"},
    "levada.cli.records.sinks": {"pyarrow", "duckdb"},
    "levada.oauth.assertion": {"cryptography", "jwt"},
    "levada.oauth.aws": {"botocore"},
    "levada.registry.glue.client": {"botocore"},
    "levada.testing.tokens": {"cryptography", "jwt"},
    "levada.metrics.prometheus": {"prometheus_client"},
    **{module: {"opentelemetry"} for module in ("levada.otel", "levada.otel.metrics", "levada.otel.tracing")},
}

MODULES = modules()

Forbidden = Callable[[Module, Import], bool]


def offences(areas: Collection[str] | None, forbidden: Forbidden) -> list[str]:
    """Every import that a rule forbids, in the modules of these areas or in all. A test per rule: thousands of small ones cost a minute."""
    return [
        f"{module.path.relative_to(ROOT)}:{found.line} imports {found.module}"
        for module in MODULES
        if areas is None or module.area in areas
        for found in module.imports
        if forbidden(module, found)
    ]


def area_of(name: str) -> str:
    return [*name.split("."), ""][1]


def package_of(found: Import) -> str:
    return found.module.split(".")[0]


def is_ours(found: Import) -> bool:
    return package_of(found) == "levada"


def test_a_package_imports_only_those_below_it() -> None:
    assert not offences(
        MAY_IMPORT,
        lambda module, found: is_ours(found) and area_of(found.module) not in MAY_IMPORT[module.area] | BASE | {module.area, ""},
    )


def test_the_base_imports_only_itself() -> None:
    assert not offences(BASE, lambda _, found: is_ours(found) and area_of(found.module) not in BASE | {""})


def test_nobody_imports_testing() -> None:
    assert not offences(None, lambda module, found: module.area != "testing" and is_ours(found) and area_of(found.module) == "testing")


def test_spark_is_a_user_of_the_api() -> None:
    inner = {f"levada.{area}" for area in BELOW_API | {"sync", "registry"}}
    allowed = PUBLIC | {"levada.record.columnar"}
    assert not offences({"spark"}, lambda _, found: ".".join(found.module.split(".")[:2]) in inner and found.module not in allowed)


def test_formats_know_columns_and_a_registry_but_no_client() -> None:
    allowed = OF_THE_REGISTRY_FOR_FORMATS | {"levada.record.columnar"}
    assert not offences({"formats"}, lambda _, found: area_of(found.module) in {"record", "registry"} and found.module not in allowed)


def test_the_command_line_is_a_user_of_the_api() -> None:
    inner = {f"levada.{area}" for area in BELOW_API | {"api", "sync", "aio", "registry", "spark", "broker"}}
    allowed = OF_THE_LIBRARY_FOR_THE_COMMAND_LINE

    def is_inner(module: Module, found: Import) -> bool:
        of_bytes = module.name in READING_LOGS and area_of(found.module) in ("protocol", "record")
        return ".".join(found.module.split(".")[:2]) in inner and found.module not in allowed and not of_bytes

    assert not offences({"cli"}, is_inner)


def test_the_layers_for_other_clients_are_users_of_the_api() -> None:
    allowed = {"levada.registry", "levada.wire.murmur2"}
    assert not offences({"compat"}, lambda _, found: area_of(found.module) in {"registry", "wire"} and found.module not in allowed)
    assert not offences(None, lambda module, found: module.area != "compat" and is_ours(found) and area_of(found.module) == "compat")


def test_nobody_imports_the_command_line() -> None:
    assert not offences(None, lambda module, found: module.area != "cli" and is_ours(found) and area_of(found.module) == "cli")


def test_wire_record_and_protocol_know_neither_time_nor_io() -> None:
    assert not offences(PURE, lambda _, found: package_of(found) in BLOCKING | {"logging"})


def test_everything_above_the_selector_is_sans_io_and_clockless() -> None:
    assert not offences(SANS_IO, lambda module, found: module.name not in MAY_BLOCK and package_of(found) in BLOCKING - {"ssl"})


def test_tls_stands_in_one_package() -> None:
    assert not offences(SANS_IO, lambda module, found: not module.name.startswith("levada.net.tls.") and package_of(found) == "ssl")


def test_of_the_broker_only_its_disk_package_opens_files() -> None:
    files = {"os", "io", "pathlib", "shutil", "tempfile", "fcntl", "mmap"}
    assert not offences({"broker"}, lambda module, found: not module.name.startswith("levada.broker.disk") and package_of(found) in files)
    assert not offences(
        {"broker"},
        lambda module, found: (
            found.module.startswith("levada.broker.disk") and not module.name.startswith(("levada.broker.disk", "levada.broker.foreground"))
        ),
    )


def extras_of(module: Module) -> set[str]:
    """The optional packages that a module may import when it is loaded."""
    if module.name.startswith(("levada.spark", "pyspark_levada")):
        return {"pyarrow", "pyspark"} | EXTRAS_OF.get(module.name, set())
    if module.area == "cli":
        return {"typer", "rich", "yaml"} | EXTRAS_OF.get(module.name, set())
    if module.name.startswith(("levada.record.columnar", "levada.formats.")):
        return {"pyarrow"} | EXTRAS_OF.get(module.name, set())
    return EXTRAS_OF.get(module.name, set())


def test_extras_stay_where_they_belong() -> None:
    assert not offences(None, lambda module, found: not found.typing and package_of(found) in EXTRAS - extras_of(module))


def test_columnar_is_loaded_only_by_those_who_use_columns() -> None:
    columnar = "levada.record.columnar"

    def is_early(module: Module, found: Import) -> bool:
        may = module.area in ("spark", "formats", "testing") or module.name.startswith(columnar)
        return not may and found.module.startswith(columnar) and not (found.lazy or found.typing)

    assert not offences(None, is_early)


def loaded_after(program: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_import_levada_is_light() -> None:
    loaded = loaded_after("import levada")
    assert not loaded & (EXTRAS | {"socket", "asyncio", "threading", "logging", "selectors"})
    ours = {name for name in loaded if name.startswith("levada.") and not name.startswith("levada.base.")}
    assert ours <= {f"levada.{name}" for name in BASE}


def test_a_plain_client_needs_no_extras_and_neither_asyncio_nor_tls() -> None:
    made = "levada.KafkaProducer(bootstrap_servers='127.0.0.1:1').close(timeout=0)"
    loaded = loaded_after(f"import levada; levada.KafkaConsumer, levada.KafkaAdmin, levada.scan; {made}")
    assert not loaded & EXTRAS
    assert not loaded & {"asyncio", "ssl", "http"}, "each takes long to load, and is for others"
    assert not {name for name in loaded if name.startswith(("levada.broker", "levada.testing", "levada.spark"))}


def test_a_registry_client_needs_no_extras_and_no_engine() -> None:
    loaded = loaded_after("import levada.registry; levada.registry.SchemaRegistryClient, levada.registry.JSONSerializer")
    assert not loaded & EXTRAS
    assert {area_of(name) for name in loaded if name.startswith("levada.")} <= BASE | {"registry", "config", "serialization"}


def test_only_the_transport_of_a_registry_client_does_io() -> None:
    transport = "levada.registry.transport"
    assert not offences({"registry"}, lambda module, found: module.name != transport and package_of(found) in {"http", "socket", "ssl"})


def test_only_the_endpoint_of_tokens_does_io() -> None:
    assert not offences(
        {"oauth"},
        lambda module, found: module.name != "levada.oauth.endpoint" and package_of(found) in {"http", "socket", "ssl", "urllib3"},
    )
