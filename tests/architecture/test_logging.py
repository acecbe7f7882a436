"""Every log line goes through levada.logs; what runs under the engine's lock leaves its lines to the engine."""

from __future__ import annotations

import re

from source_tree import ROOT, SOURCE

MAKE_LOGGERS = {"src/levada/logs.py"}
OUTER = ("cli", "compat", "exactly_once", "spark", "testing")
"""Users of the clients: they log on their own behalf."""
UNDER_THE_LOCK = ("net", "client")
MAKE_LOGS = {"src/levada/client/driver_interface.py", "src/levada/client/engine.py"}


def modules_with(pattern: str, *areas: str) -> set[str]:
    folders = [SOURCE / "levada" / area for area in areas] or [SOURCE / "levada"]
    return {str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*.py") if re.search(pattern, path.read_text())}


def test_M_D18_every_line_goes_through_the_one_place_that_escapes() -> None:
    outer = {name for name in modules_with("getLogger") if name.split("/")[2] in OUTER}
    assert modules_with(r"\bgetLogger\b") - outer == MAKE_LOGGERS


def test_net_and_client_leave_log_lines_to_the_engine() -> None:
    assert modules_with(r"\bLog\(", *UNDER_THE_LOCK) <= MAKE_LOGS
