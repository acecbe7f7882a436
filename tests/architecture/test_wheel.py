"""What `make dist` asks of an installed wheel, asked of this checkout: every compiled module can be imported, and is the compiled one."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from source_tree import ROOT
from tool_modules import load_tool

TOOL = load_tool("try_wheel")
SOURCE = ROOT / "src" / "levada"
MODULES_IN_C = sorted(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in SOURCE.rglob("*.pxd"))
INTERPRETED = os.environ.get("LEVADA_PURE", "") not in ("", "0")


def test_compiled_modules_are_found_by_the_suffixes_of_this_interpreter(tmp_path: Path) -> None:
    home = tmp_path / "levada"
    (home / "record").mkdir(parents=True)
    (home / "record" / f"reader{EXTENSION_SUFFIXES[0]}").touch()
    (home / "record" / "reader.py").touch()
    (home / f"ack_buffer{EXTENSION_SUFFIXES[-1]}").touch()
    assert TOOL.compiled_modules(home) == ["levada.ack_buffer", "levada.record.reader"]


@pytest.mark.skipif(INTERPRETED or not TOOL.compiled_modules(SOURCE), reason="nothing is compiled")
def test_every_module_in_c_is_loaded_compiled() -> None:
    """Those that writing and reading records does not import, too."""
    assert TOOL.compiled_modules(SOURCE) == MODULES_IN_C
    assert TOOL.interpreted(MODULES_IN_C) == []
