"""Use an installed levada: `python -I tools/try_wheel.py`. Fails unless levada is compiled and belongs to this environment.

Records are written and read, then the program of README.md is run, and those of docs/howto whose packages are installed here.
In a free-threaded Python, nothing of it may turn the global interpreter lock on.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import redirect_stdout
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import levada as lv
from levada.base.gil import has_gil
from levada.testing import EmbeddedKafka

RECORDS = 10_000
ROOT = Path(__file__).parents[1]
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
NEEDED = {"transactions": "levada", "asyncio": "levada", "groups": "levada", "columns": "pyarrow", "security": "trustme"}
"""Pages of docs/howto whose programs are run, and the package that each needs."""


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
        first = "".join(PROGRAM.findall((ROOT / "README.md").read_text("utf-8")))
        exec(first.replace("localhost:9092", kafka.bootstrap_servers), {"__name__": "__main__"})
    assert sorted(int(record.key) for record in records) == list(range(RECORDS))

    # Writing and reading records does not load every module, for example not those that read JSON into columns. So import all of them here.
    from_source = interpreted(compiled)
    assert not from_source, f"loaded from source: {from_source}"
    python = platform.python_version()
    print(f"levada {lv.__version__} on Python {python}: {RECORDS} records there and back, {len(compiled)} compiled modules")
    # As in an activated environment: PySpark starts its processes with the first python3 on the PATH.
    os.environ["PATH"] = sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]
    for page, program in programs().items():
        with redirect_stdout(StringIO()) as output:
            exec(program, {"__name__": "__main__"})
        print(f"{page}: {output.getvalue().splitlines()[-1]}")
    assert not (gil_is_off_by_default() and has_gil()), "an imported module has turned the global interpreter lock on"


def gil_is_off_by_default() -> bool:
    """Return whether Python is free-threaded, and no option says whether it has the lock: with an option, no module changes that."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED")) and getattr(sys.flags, "gil", None) is None


def programs() -> dict[str, str]:
    """Return the programs of the pages whose packages are installed, by their pages."""
    pages = {page: ROOT / "docs" / "howto" / f"{page}.md" for page, needed in NEEDED.items() if find_spec(needed)}
    return {page: "".join(PROGRAM.findall(path.read_text("utf-8"))) for page, path in pages.items()}


def compiled_modules(home: Path) -> list[str]:
    """Return the names of the modules that have a compiled file below the package's folder."""
    files = {path for suffix in EXTENSION_SUFFIXES for path in home.rglob(f"*{suffix}")}
    return sorted({".".join([*path.relative_to(home.parent).parent.parts, path.name.partition(".")[0]]) for path in files})


def interpreted(names: Iterable[str]) -> list[str]:
    """Import the modules, and return those that were loaded from source instead of a compiled file."""
    return [name for name in names if not str(import_module(name).__file__).endswith(tuple(EXTENSION_SUFFIXES))]


if __name__ == "__main__":
    main()
