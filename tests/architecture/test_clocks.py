"""Who reads which clock."""

from __future__ import annotations

import ast

from source_tree import modules

WALL_CLOCKS = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}


def test_TR29_the_wall_clock_is_read_in_one_place() -> None:
    """Timeouts that used it would end early or late when somebody sets the clock; timestamps of records get it from Clock.wall_ms."""
    readers = {
        module.name
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in WALL_CLOCKS
    }
    assert readers == {"levada.base.clock"}
