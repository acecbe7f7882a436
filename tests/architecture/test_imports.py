"""Who may import whom: the table of docs/ARCHITECTURE.md, held."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from source_tree import ROOT, Import, Module, modules

BASE = {
    "ack_buffer",
    "errors",
    "error_codes",
    "types",
    "clock",
    "promise",
    "flow",
    "measure",
    "metrics",
    "interceptors",
    "not_yet",
    "suggestion",
    "_pure",
    "_python",
}
BELOW_FACES = {"wire", "protocol", "record", "net", "client", "producer", "consumer", "admin"}

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
    "face": BELOW_FACES | {"config", "serialization"},
    "sync": BELOW_FACES | {"config", "serialization", "face"},
    "aio": BELOW_FACES | {"config", "serialization", "face"},
    "broker": {"net", "protocol", "record", "wire", "config"},
    "registry": {"config", "serialization"},
    "spark": {"sync", "config", "record", "registry", "serialization"},
}
OF_THE_REGISTRY_FOR_SPARK = {"levada.registry", "levada.registry.avro_codec", "levada.registry.wire_format"}
"""Its public names, and what knows neither a registry nor Spark: Avro's values, and what stands before them."""
FACES = {"levada", *(f"levada.sync.{face}" for face in ("producer", "consumer", "admin", "scan"))}

BLOCKING = {"socket", "selectors", "asyncio", "threading", "time", "queue", "concurrent", "select", "ssl"}
PURE = ("wire", "record", "protocol")
SANS_IO = ("net", "client", "producer", "consumer", "admin", "broker")
MAY_BLOCK = {"levada.net.selector", "levada.net.opening", "levada.net.resolver", "levada.broker.server", "levada.broker.__main__"}

EXTRAS = {"pyarrow", "pyspark", "pandas", "numpy", "polars", "typer", "rich", "Cython", "fastavro", "google", "jsonschema", "referencing"}
EXTRAS_OF = {
    "levada.registry.avro_codec": {"fastavro"},
    "levada.registry.protobuf": {"google"},
    "levada.spark.formats.protobuf_schema": {"google"},
    "levada.registry.json_schema": {"jsonschema", "referencing"},
}

MODULES = modules()
NAMES = [module.name for module in MODULES]


def offences(module: Module, forbidden: list[Import]) -> list[str]:
    return [f"{module.path.relative_to(ROOT)}:{found.line} imports {found.module}" for found in forbidden]


def area_of(name: str) -> str:
    return [*name.split("."), ""][1]


def is_ours(found: Import) -> bool:
    return found.module == "levada" or found.module.startswith("levada.")


@pytest.mark.parametrize("module", [module for module in MODULES if module.area in MAY_IMPORT], ids=lambda module: module.name)
def test_a_package_imports_only_those_below_it(module: Module) -> None:
    allowed = MAY_IMPORT[module.area] | BASE | {module.area}
    ours = [found for found in module.imports if is_ours(found)]
    assert not offences(module, [found for found in ours if area_of(found.module) not in allowed | {""}])


@pytest.mark.parametrize("module", [module for module in MODULES if module.area in BASE], ids=lambda module: module.name)
def test_the_base_imports_only_itself(module: Module) -> None:
    assert not offences(module, [found for found in module.imports if is_ours(found) and area_of(found.module) not in BASE | {""}])


@pytest.mark.parametrize("module", MODULES, ids=NAMES)
def test_nobody_imports_testing(module: Module) -> None:
    if module.area != "testing":
        assert not offences(module, [found for found in module.imports if area_of(found.module) == "testing" and is_ours(found)])


@pytest.mark.parametrize("module", [module for module in MODULES if module.area == "spark"], ids=lambda module: module.name)
def test_spark_is_a_user_of_the_faces(module: Module) -> None:
    inner = [found for found in module.imports if is_ours(found) and area_of(found.module) in BELOW_FACES | {"sync"}]
    assert not offences(module, [found for found in inner if found.module not in FACES | {"levada.record.columnar"}])
    registry = [found for found in module.imports if is_ours(found) and area_of(found.module) == "registry"]
    assert not offences(module, [found for found in registry if found.module not in OF_THE_REGISTRY_FOR_SPARK])


@pytest.mark.parametrize("module", [module for module in MODULES if module.area in PURE], ids=lambda module: module.name)
def test_wire_record_and_protocol_know_neither_time_nor_io(module: Module) -> None:
    assert not offences(module, [found for found in module.imports if found.module.split(".")[0] in BLOCKING | {"logging"}])


@pytest.mark.parametrize("module", [module for module in MODULES if module.area in SANS_IO], ids=lambda module: module.name)
def test_everything_above_the_selector_is_sans_io_and_clockless(module: Module) -> None:
    if module.name not in MAY_BLOCK:
        assert not offences(module, [found for found in module.imports if found.module.split(".")[0] in BLOCKING])


@pytest.mark.parametrize("module", MODULES, ids=NAMES)
def test_extras_stay_where_they_belong(module: Module) -> None:
    allowed = set()
    if module.name.startswith(("levada.spark", "pyspark_levada")):
        allowed = {"pyarrow", "pyspark"}
    elif module.name.startswith("levada.record.columnar"):
        allowed = {"pyarrow"}
    extras = EXTRAS - allowed - EXTRAS_OF.get(module.name, set())
    assert not offences(module, [found for found in module.imports if found.module.split(".")[0] in extras and not found.typing])


@pytest.mark.parametrize("module", MODULES, ids=NAMES)
def test_columnar_is_loaded_only_by_those_who_use_columns(module: Module) -> None:
    if module.area in ("spark", "testing") or module.name.startswith("levada.record.columnar"):
        return
    early = [found for found in module.imports if found.module.startswith("levada.record.columnar") and not (found.lazy or found.typing)]
    assert not offences(module, early)


def loaded_after(program: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_import_levada_is_light() -> None:
    loaded = loaded_after("import levada")
    assert not loaded & (EXTRAS | {"socket", "asyncio", "threading", "logging", "selectors"})
    assert {name for name in loaded if name.startswith("levada.")} <= {f"levada.{name}" for name in BASE}


def test_a_plain_client_needs_no_extras() -> None:
    loaded = loaded_after("import levada; levada.KafkaProducer, levada.KafkaConsumer, levada.KafkaAdmin, levada.scan")
    assert not loaded & EXTRAS
    assert not {name for name in loaded if name.startswith(("levada.broker", "levada.testing", "levada.spark"))}


def test_a_registry_client_needs_no_extras_and_no_engine() -> None:
    loaded = loaded_after("import levada.registry; levada.registry.SchemaRegistryClient, levada.registry.JSONSerializer")
    assert not loaded & EXTRAS
    assert {area_of(name) for name in loaded if name.startswith("levada.")} <= BASE | {"registry", "config", "serialization"}


OF_THE_REGISTRY = [module for module in MODULES if module.area == "registry"]


@pytest.mark.parametrize("module", OF_THE_REGISTRY, ids=lambda module: module.name)
def test_only_the_transport_of_a_registry_client_does_io(module: Module) -> None:
    if module.name != "levada.registry.transport":
        assert not offences(module, [found for found in module.imports if found.module.split(".")[0] in {"http", "socket", "ssl"}])
