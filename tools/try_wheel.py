"""Use an installed levada: `python -I tools/try_wheel.py`. Fails unless levada is compiled and belongs to this environment."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import levada as lv
from levada.testing import EmbeddedKafka

RECORDS = 10_000


def main() -> None:
    """Write and read records with the embedded broker, and check that all compiled modules are used."""
    home = Path(lv.__file__).parent
    assert home.is_relative_to(sys.prefix), f"levada comes from {home}"
    compiled = compiled_modules(home)
    assert compiled, "nothing is compiled"

    with EmbeddedKafka() as kafka:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, compression_type="lz4") as producer:
            deliveries = [producer.send("wheel", key=str(number), value=b"value") for number in range(RECORDS)]
        assert all(delivery.exception() is None for delivery in deliveries)
        records = list(lv.scan("wheel", bootstrap_servers=kafka.bootstrap_servers))
    assert sorted(int(record.key) for record in records) == list(range(RECORDS))

    # Writing and reading records does not load every module, for example not those that read JSON into columns. So import all of them here.
    from_source = interpreted(compiled)
    assert not from_source, f"loaded from source: {from_source}"
    python = platform.python_version()
    print(f"levada {lv.__version__} on Python {python}: {RECORDS} records there and back, {len(compiled)} compiled modules")


def compiled_modules(home: Path) -> list[str]:
    """Return the names of the modules that have a compiled file below the package's folder."""
    files = {path for suffix in EXTENSION_SUFFIXES for path in home.rglob(f"*{suffix}")}
    return sorted({".".join([*path.relative_to(home.parent).parent.parts, path.name.partition(".")[0]]) for path in files})


def interpreted(names: Iterable[str]) -> list[str]:
    """Import the modules, and return those that were loaded from source instead of a compiled file."""
    return [name for name in names if not str(import_module(name).__file__).endswith(tuple(EXTENSION_SUFFIXES))]


if __name__ == "__main__":
    main()
