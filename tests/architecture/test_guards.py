"""The guards of the test suite itself catch what they are there for."""

from __future__ import annotations

import socket
import threading
from contextlib import AbstractContextManager
from typing import Any

import pytest

from source_tree import Module

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def impatient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = request.getfixturevalue("watched")
    monkeypatch.setitem(guard.__wrapped__.__globals__, "PATIENCE_S", 0.05)


def test_a_thread_that_outlives_its_test_is_reported(watched: Any) -> None:
    finish = threading.Event()
    thread = threading.Thread(target=finish.wait, name="left-behind")
    guard: AbstractContextManager[None] = watched()
    with pytest.raises(pytest.fail.Exception, match="thread 'left-behind'"), guard:
        thread.start()
    finish.set()
    thread.join()


def test_a_socket_that_outlives_its_test_is_reported(watched: Any) -> None:
    with socket.socket() as kept_by_a_test_before:
        with pytest.raises(pytest.fail.Exception, match="socket:"), watched():
            left = socket.socket()
        left.close()
        with watched():
            assert kept_by_a_test_before.fileno() >= 0


def test_imports_are_seen_where_they_hide(tmp_path: Any) -> None:
    path = tmp_path / "example.py"
    path.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    import c.d\n")
    seen = {found.module: (found.lazy, found.typing) for found in Module(path).imports}
    assert seen == {"typing": (False, False), "a": (False, True), "b": (False, False), "c.d": (True, False)}
