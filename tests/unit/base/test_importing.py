"""A Python that levada does not work on is refused by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from levada._importing import refuse_free_threading

WITHOUT_LOCK = "import sys; sys._is_gil_enabled = lambda: False; import levada"


def test_a_python_without_the_lock_is_refused_with_advice() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_LOCK], capture_output=True, text=True, check=False)
    assert "ImportError: levada has not been proven without the global interpreter lock" in run.stderr
    assert "PYTHON_GIL=1" in run.stderr


@pytest.mark.parametrize("enabled", [True, None])
def test_any_other_is_fine(monkeypatch: pytest.MonkeyPatch, enabled: bool | None) -> None:
    if enabled is None:
        monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    else:
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: enabled, raising=False)
    refuse_free_threading()
