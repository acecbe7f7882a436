"""What runs under the engine's lock writes no log lines itself: handlers are user code."""

from __future__ import annotations

import re

from source_tree import ROOT, SOURCE

UNDER_THE_LOCK = ("net", "client")
MAKES_THE_DEFERRED_LOG = {"src/levada/client/engine.py"}


def test_net_and_client_leave_log_lines_to_the_engine() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in UNDER_THE_LOCK
        for path in (SOURCE / "levada" / folder).rglob("*.py")
        if re.search(r"\bgetLogger\b", path.read_text())
    }
    assert found == MAKES_THE_DEFERRED_LOG
