"""What pyproject.toml, the documents and tools/dist.py say of releases agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from source_tree import ROOT
from tool_modules import load_tool

DIST = load_tool("dist")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOW_FILE = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
WORKFLOW = yaml.safe_load(WORKFLOW_FILE)
VERSIONS = DIST.supported_versions()
TOOLS = Path("tools", "bin", "python")


def test_the_oldest_version_of_the_classifiers_is_the_one_that_pip_asks_for() -> None:
    assert PROJECT["project"]["requires-python"] == f">={VERSIONS[0]}"


def test_ci_builds_wheels_for_the_versions_of_the_classifiers() -> None:
    *built, free_threaded = PROJECT["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp{version.replace('.', '')}-*" for version in VERSIONS]
    assert free_threaded == f"cp{VERSIONS[-1].replace('.', '')}t-*"
    assert not re.search(r"CIBW_|python-version", WORKFLOW_FILE), "cibuildwheel reads pyproject.toml, and nothing else"


def test_only_the_job_that_publishes_may_and_only_on_a_release() -> None:
    jobs = WORKFLOW["jobs"]
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert {name: job["permissions"] for name, job in jobs.items() if "permissions" in job} == {"publish": {"id-token": "write"}}
    assert jobs["publish"]["if"] == "github.event_name == 'release'"
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}


def test_every_extra_is_explained_to_users() -> None:
    """What only levada's developers install is a dependency group, and not in the metadata of a wheel."""
    pages = "".join(page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    named = {extra for names in re.findall(r"(?:levada|\.)\[([a-z0-9,]+)\]", pages) for extra in names.split(",")}
    assert named == set(PROJECT["project"]["optional-dependencies"])


def test_this_machine_compiles_its_own_wheels_with_its_own_compiler() -> None:
    assert DIST.compiler_settings(TOOLS, "3.14", DIST.PLATFORMS["manylinux_2_17_x86_64"]) == {}


@pytest.mark.parametrize(
    ("platform", "target", "suffix"),
    [
        ("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17", ".cpython-314-aarch64-linux-gnu.so"),
        ("musllinux_1_2_aarch64", "aarch64-linux-musl", ".cpython-314-aarch64-linux-musl.so"),
        ("musllinux_1_2_x86_64", "x86_64-linux-musl", ".cpython-314-x86_64-linux-musl.so"),
    ],
)
def test_wheels_for_other_platforms_are_compiled_by_ziglang(platform: str, target: str, suffix: str) -> None:
    settings = DIST.compiler_settings(TOOLS, "3.14", DIST.PLATFORMS[platform])
    assert settings["CC"] == f"{TOOLS} -m ziglang cc -target {target}"
    assert settings["SETUPTOOLS_EXT_SUFFIX"] == suffix
    assert ("-nolibc" in settings["LDSHARED"]) == ("musl" in target)


def test_a_wheel_that_was_not_tried_is_named_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DIST, "DIST", tmp_path)
    (tmp_path / "levada-1.tar.gz").touch()
    (tmp_path / "levada-1-musl.whl").touch()
    outcome = DIST.try_wheel(TOOLS, tmp_path, "3.14", DIST.PLATFORMS["musllinux_1_2_x86_64"], tmp_path)
    trial = DIST.Trial(tmp_path / "levada-1-musl.whl", outcome)
    assert DIST.report([trial]).splitlines() == [
        "levada-1-musl.whl  0.0 MB  UNTRIED: no Python 3.14 for x86_64 and musl here",
        "levada-1.tar.gz    0.0 MB",
    ]
