"""One source, two forms: which one runs, and that interpreted needs neither a compiler nor Cython."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from levada import _pure
from source_tree import SOURCE

WHICH = "import levada.record.reader as r, sys; print(r.COMPILED, r.__file__.endswith('.py'), 'Cython' in sys.modules)"


def run(program: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "LEVADA_PURE"}
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", program], env={**kept, "PYTHONPATH": paths, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_LEVADA_PURE_takes_the_source_even_where_a_compiled_module_is() -> None:
    assert run(WHICH, LEVADA_PURE="1") == "False True False"


@pytest.mark.parametrize("value", ["", "0"])
def test_else_the_compiled_module_is_taken_where_it_is(value: str) -> None:
    there = bool(list((SOURCE / "levada" / "record").glob("reader.*.so")))

    assert run(WHICH, LEVADA_PURE=value) == f"{there} {not there} False"


def test_every_file_of_c_types_has_its_source() -> None:
    types = list(SOURCE.rglob("*.pxd"))

    assert types
    assert all(path.with_suffix(".py").is_file() for path in types)


def test_interpreted_code_has_no_pointers() -> None:
    with pytest.raises(TypeError, match="compiled"):
        _pure.address(b"")
