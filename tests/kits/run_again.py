"""Failed tests are run once more, alone, when all others are done: `pytest --run-failed-again`.

A test that passes then depends on the pace of the machine, or on what ran beside it. It does not fail the run, whose last lines name it
as shaky, and say why it failed first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import NamedTuple

import pytest

OPTION = "--run-failed-again"
MOST = 10
"""How many may fail: if there are more, something is broken."""
SHAKY = "shaky"
PASSED = re.compile(r"^=.* (\d+) passed\b.* =+$", re.MULTILINE)
"""The last line of a report."""


def add_option(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(OPTION, action="store_true", help="run tests that failed once more, alone; one that passes then is told of as shaky")


def register(config: pytest.Config) -> None:
    """Do so, if the option is set, in the process that writes the report."""
    if config.getoption(OPTION) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunAgain(config))


class Again(NamedTuple):
    """How the second run ended. passed: tests that passed; one that is skipped does not show that it passes."""

    returncode: int
    passed: int
    output: str


class RunAgain:
    """The plugin."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shaky: list[pytest.TestReport] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Run again what failed; workers have ended by now, and the report is not written yet."""
        reporter = self._reporter()
        failed = [report for kind in ("failed", "error") for report in reporter.stats.get(kind, [])]
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= MOST:
            return
        node_ids = {self._node_id(report) for report in failed}
        again = self._run(node_ids)
        reporter.write_line(f"\nFailed tests once more, alone:\n{again.output}")
        if again.returncode == pytest.ExitCode.OK and again.passed == len(node_ids):
            self._shaky = failed
            reporter.stats[SHAKY] = failed
            for kind in ("failed", "error"):
                reporter.stats.pop(kind, None)
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self) -> None:
        """Show how shaky tests failed."""
        for report in self._shaky:
            self._reporter().section(f"{SHAKY}: {report.nodeid} failed first, and passed alone")
            self._reporter().write_line(f"{report.longreprtext}\n{report.capstdout}{report.capstderr}{report.caplog}")

    def pytest_unconfigure(self) -> None:
        """Name them in the last lines."""
        for report in self._shaky:
            reason = report.longreprtext.strip().rpartition("\n")[2]
            print(f"SHAKY {report.nodeid}: failed first ({reason}), and passed alone. It has to be mended.")

    def _run(self, node_ids: set[str]) -> Again:
        alone = ("-n", "0") if self._config.pluginmanager.hasplugin("xdist") else ()
        command = [sys.executable, "-m", "pytest", *alone, "-m", self._config.getoption("markexpr"), *sorted(node_ids)]
        done = subprocess.run(command, cwd=self._config.rootpath, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        passed = PASSED.findall(done.stdout)
        return Again(done.returncode, int(passed[-1]) if passed else 0, done.stdout)

    def _node_id(self, report: pytest.TestReport) -> str:
        # xdist appends the group.
        grouped = self._config.getoption("dist", "no") == "loadgroup"
        return report.nodeid.rpartition("@")[0] if grouped else report.nodeid

    def _reporter(self) -> pytest.TerminalReporter:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        return reporter
