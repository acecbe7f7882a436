"""Compile the [c] modules, those with a .pxd file of C types beside their source, where there is a C compiler; everything else is data.

Without a compiler, and with LEVADA_PURE=1, the same sources run interpreted.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

SOURCE = "src"
# The loops over records are functions of a few lines each, and half as fast again where one of them is called instead of inlined; GCC
# would stop inlining when a module has grown by 40 %. Clang ignores the parameter.
FLAGS = ["/O2"] if sys.platform == "win32" else ["-O3", "-g0", "--param=inline-unit-growth=300"]


def extensions() -> list[Extension]:
    """Return the [c] modules, cythonized; none when the interpreted form is asked for."""
    if os.environ.get("LEVADA_PURE", "") not in ("", "0"):
        return []
    from Cython.Build import cythonize

    modules = [extension(types) for types in sorted(Path(SOURCE).rglob("*.pxd"))]
    # Importing a module that does not declare it turns the interpreter lock of a free-threaded Python on.
    directives = {"freethreading_compatible": True}
    compiled = cythonize(modules, language_level=3, include_path=[SOURCE], build_dir="build/cython", compiler_directives=directives)
    for module in compiled:
        # Set here, as cythonize drops it: the installation goes on without a module that does not compile.
        module.optional = True
    return compiled


def extension(types: Path) -> Extension:
    """Return the [c] module whose C types are in `types`."""
    name = ".".join(types.relative_to(SOURCE).with_suffix("").parts)
    return Extension(name, [types.with_suffix(".py").as_posix()], depends=[types.as_posix()], extra_compile_args=FLAGS)


# No module needs another one to compile: the compiler runs on every core.
setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count()}})
