"""Compile the [c] modules, those with a .pxd file of C types beside their source, where there is a C compiler; everything else is data.

Without a compiler, and with PENSTOCK_PURE=1, the same sources run interpreted.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

SOURCE = "src"
FLAGS = ["/O2"] if sys.platform == "win32" else ["-O3"]


def extensions() -> list[Extension]:
    """Return the [c] modules, cythonized; none when the interpreted form is asked for."""
    if os.environ.get("PENSTOCK_PURE", "") not in ("", "0"):
        return []
    from Cython.Build import cythonize

    types = sorted(Path(SOURCE).rglob("*.pxd"))
    return cythonize([extension(path) for path in types], language_level=3, include_path=[SOURCE], build_dir="build/cython")


def extension(types: Path) -> Extension:
    """Return the [c] module whose C types are in `types`; if it does not compile, the installation goes on."""
    name = ".".join(types.relative_to(SOURCE).with_suffix("").parts)
    source = types.with_suffix(".py").as_posix()
    return Extension(name, [source], depends=[types.as_posix()], extra_compile_args=FLAGS, optional=True)


setup(ext_modules=extensions())
