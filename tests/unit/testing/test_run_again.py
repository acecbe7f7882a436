"""A failed test is run once more, alone (tests/kits/run_again.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import sys
sys.path.insert(0, {kits!r})
import run_again
pytest_addoption, pytest_configure = run_again.add_option, run_again.register
"""
SHAKY = """
from pathlib import Path
import pytest

@pytest.mark.xdist_group("tests/some_group.py")
@pytest.mark.parametrize("name", ["a@b"])
def test_shaky(name):
    been_here = Path(__file__).with_name("been here")
    if not been_here.exists():
        been_here.touch()
        raise AssertionError("too slow")

def test_steady(): ...
"""
SKIPPED = SHAKY.replace('too slow")', "too slow\")\n    pytest.skip('not now')")
BROKEN = "def test_broken(): raise AssertionError('broken')\n"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.format(kits=str(Path(__file__).parents[2] / "kits")))
    (folder / "pytest.ini").write_text("[pytest]")
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("workers", [("-n", "0"), ("-n", "2", "--dist", "loadgroup")], ids=["alone", "in workers"])
def test_a_test_that_passes_the_second_time_is_shaky(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_shaky.py").write_text(SHAKY)
    done = run(tmp_path, "--run-failed-again", *workers)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 shaky" in done.stdout
    (last,) = done.stdout.splitlines()[-1:]
    assert last.startswith("SHAKY test_shaky.py::test_shaky[a@b]")
    assert "too slow" in done.stdout


def test_a_test_that_fails_again_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text(BROKEN)
    (tmp_path / "test_shaky.py").write_text(SHAKY)
    done = run(tmp_path, "--run-failed-again", "-n", "0")
    assert done.returncode == 1
    assert "SHAKY" not in done.stdout
    assert done.stdout.rstrip().splitlines()[-1].startswith("=") and "2 failed, 1 passed" in done.stdout.splitlines()[-1]


def test_a_test_that_is_skipped_the_second_time_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_skipped.py").write_text(SKIPPED)
    done = run(tmp_path, "--run-failed-again", "-n", "0")
    assert "1 skipped" in done.stdout
    assert done.returncode == 1
    assert "SHAKY" not in done.stdout


def test_nothing_is_run_again_unless_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_shaky.py").write_text(SHAKY)
    assert run(tmp_path, "-n", "0").returncode == 1


def test_many_failures_are_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("".join(f"def test_{number}(): raise AssertionError\n" for number in range(11)))
    done = run(tmp_path, "--run-failed-again", "-n", "0")
    assert done.returncode == 1
    assert "once more" not in done.stdout
