"""Build the source archive and a wheel, and try the wheel in an environment without other packages: `make dist`.

The wheel is built from the archive, so that a file missing in the archive is noticed. The wheel must contain every compiled module:
setup.py leaves out modules that do not compile, which is right for an installation from source but not for a wheel. Then the wheel is
installed into a fresh environment without a compiler, and used. A wheel is for one version of Python:
`make dist PYTHONS="python3.11 python3.13"` builds a wheel for each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
CONSTRAINTS: Final = ROOT / "constraints.txt"
BUILD_TOOLS: Final = ("setuptools", "wheel", "Cython")


def main() -> int:
    """Build the archive and the wheels, and try the wheels. Return the exit code."""
    parser = argparse.ArgumentParser(description="Build the source archive and wheels, and try the wheels.")
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="interpreters to build wheels for")
    pythons = parser.parse_args().pythons
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        for number, python in enumerate(pythons):
            build = environment(python, Path(scratch) / f"build{number}", *BUILD_TOOLS)
            archive = next(DIST.glob("*.tar.gz"), None) or source_archive(build)
            wheel = build_wheel(build, archive, Path(scratch) / f"wheel{number}")
            missing = not_compiled(wheel)
            if missing:
                print(f"{wheel.name} lacks compiled modules: {', '.join(missing)}", file=sys.stderr)
                return 1
            try_wheel(python, wheel, Path(scratch) / f"bare{number}")
            shutil.copy(wheel, DIST)
    print("\n".join(["", *(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB" for path in sorted(DIST.iterdir()))]))
    return 0


def environment(python: str, folder: Path, *packages: str) -> Path:
    """Make a virtual environment with packages in the versions of constraints.txt. Return the path of its Python."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip(inside, "pip", *packages)
    return inside


def pip(python: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run pip install with these arguments, and with the versions of constraints.txt."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", CONSTRAINTS, *arguments]
    subprocess.run(command, check=True, env=env)


def source_archive(python: Path) -> Path:
    """Build the source archive of this checkout, and return its path."""
    program = f"from setuptools import build_meta; build_meta.build_sdist({str(DIST)!r})"
    subprocess.run([python, "-c", program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"LEVADA_PURE": "1"})
    return next(DIST.glob("*.tar.gz"))


def build_wheel(python: Path, archive: Path, folder: Path) -> Path:
    """Build a wheel from the archive with the build tools of this Python, and return its path."""
    command = [python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", folder, archive], check=True)
    return next(folder.glob("*.whl"))


def not_compiled(wheel: Path) -> list[str]:
    """Return the modules with a .pxd file of which the wheel has only the source."""
    with zipfile.ZipFile(wheel) as inside:
        names = [name for name in inside.namelist() if name.endswith((".so", ".pyd"))]
    wanted = [path.relative_to(ROOT / "src").with_suffix("").as_posix() for path in sorted((ROOT / "src").rglob("*.pxd"))]
    return [module for module in wanted if not any(name.startswith(f"{module}.") for name in names)]


def try_wheel(python: str, wheel: Path, folder: Path) -> None:
    """Install a wheel in an environment without a compiler, and use it."""
    inside = environment(python, folder)
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LEVADA_PURE")}
    bare |= {"PATH": str(inside.parent), "CC": "no-compiler"}
    pip(inside, "--only-binary", ":all:", str(wheel), env=bare)
    subprocess.run([inside, "-I", ROOT / "tools" / "try_wheel.py"], cwd=folder, check=True, env=bare)


if __name__ == "__main__":
    sys.exit(main())
