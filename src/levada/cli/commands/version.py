"""levada version: prints what a bug report needs to know about an installation."""

from __future__ import annotations

import platform
import sys
import zlib
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import NamedTuple

import typer

import levada
from levada import _pure
from levada.base.gil import has_gil
from levada.cli.command import command
from levada.cli.invocation import Invocation

app = typer.Typer(add_completion=False)

CODECS = {"snappy": "cramjam", "lz4": "cramjam", "zstd": "zstandard", "checksums": "crc32c"}
"""The library of each codec."""
OPTIONAL = (
    "pyarrow",
    "pyspark",
    "fastavro",
    "protobuf",
    "jsonschema",
    "msgspec",
    "cryptography",
    "PyJWT",
    "botocore",
    "gssapi",
    "opentelemetry-api",
)
"""Packages that levada uses where they are installed."""


class Part(NamedTuple):
    """A part of the installation."""

    part: str
    version: str


@command(app)
def version(run: Invocation) -> None:
    """Print the versions of levada, Python and the libraries, and whether levada is compiled."""
    run.show(list(_parts()), Part._fields)


def _parts() -> Iterator[Part]:
    yield Part("levada", levada.__version__)
    yield Part("compiled", _compiled())
    yield Part("Python", f"{platform.python_version()} ({platform.python_implementation()}{_lock()})")
    yield Part("system", platform.platform())
    yield Part("gzip", f"zlib {zlib.ZLIB_RUNTIME_VERSION}")
    for codec, library in CODECS.items():
        version = _installed(library)
        # Python's own compression.zstd, as levada.record.compression chooses it.
        own = codec == "zstd" and version is None and sys.version_info >= (3, 14)
        yield Part(codec, "compression.zstd of Python" if own else f"{library} {version or 'is missing'}")
    for name in OPTIONAL:
        yield Part(name, _installed(name) or "not installed")


def _compiled() -> str:
    if _pure.is_wanted():
        return "no: LEVADA_PURE is set"
    home = Path(levada.__file__).parent
    count = len({path for suffix in EXTENSION_SUFFIXES for path in home.rglob(f"*{suffix}")})  # One suffix may be the end of another.
    return f"yes, {count} modules" if count else "no: levada runs interpreted, several times slower"


def _lock() -> str:
    return "" if has_gil() else ", without the global interpreter lock"


def _installed(name: str) -> str | None:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return None
