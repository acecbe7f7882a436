"""A pytest plugin that runs failed tests once more, alone, after all other tests: `pytest --run-failed-again`.

A test that passes alone depends on the speed of the machine, or on tests that ran at the same time. If all failed tests pass alone, the run
does not fail. Its last lines name these tests as shaky, with the reason of the first failure.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import NamedTuple

import pytest

OPTION = "--run-failed-again"
MOST = 10
"""The most failed tests that are run again. If more fail, the cause is not chance."""
SHAKY = "shaky"
PASSED = re.compile(r"^=.* (\d+) passed\b.* =+$", re.MULTILINE)
"""Matches the last line of a pytest report. Group 1 is the number of passed tests."""

GROUP = re.compile(r"@[^]@]*$")
"""Matches the group that xdist appends to the id of a test. Reports of pytest 9.2 and later lack it."""


def add_option(parser: pytest.Parser) -> None:
    """Add the option --run-failed-again."""
    parser.addoption(OPTION, action="store_true", help="run tests that failed once more, alone; one that passes then is told of as shaky")


def register(config: pytest.Config) -> None:
    """Register the plugin if the option is set, but not in the workers of pytest-xdist."""
    if config.getoption(OPTION) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunAgain(config))


class Again(NamedTuple):
    """The result of the second run. passed: the number of passed tests; skipped tests do not count."""

    returncode: int
    passed: int
    output: str


class RunAgain:
    """The plugin that register() adds."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shaky: list[pytest.TestReport] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Run the failed tests again. At this point the workers have ended, and the report is not written yet."""
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
        """Write the first failure of each shaky test."""
        for report in self._shaky:
            self._reporter().section(f"{SHAKY}: {report.nodeid} failed first, and passed alone")
            self._reporter().write_line(f"{report.longreprtext}\n{report.capstdout}{report.capstderr}{report.caplog}")

    def pytest_unconfigure(self) -> None:
        """Name the shaky tests in the last lines of the output."""
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
        grouped = self._config.getoption("dist", "no") == "loadgroup"
        return GROUP.sub("", report.nodeid) if grouped else report.nodeid

    def _reporter(self) -> pytest.TerminalReporter:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        return reporter
