"""The table of figures at the end of a run."""

from __future__ import annotations

import pytest

from hardening_kit import FIGURES, Figure

HEAD = Figure("row", "what", "measured", "limit")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not FIGURES:
        return
    terminalreporter.section("hardening")
    lines = [HEAD, *sorted(FIGURES, key=lambda figure: (figure.row[:3], int(figure.row[3:]), figure.what))]
    widths = [max(len(column) for column in columns) for columns in zip(*lines, strict=True)]
    for line in lines:
        terminalreporter.write_line("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
