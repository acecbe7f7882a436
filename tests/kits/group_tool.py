"""Runs Java's kafka-consumer-groups (tests/java/GroupTool.java), and parses the tables that it prints."""

from __future__ import annotations

from typing import Any

JARS = "perf-tool-4.3.0"
"""The newest release of the tool that Maven Central has."""


class GroupTool:
    """The tool for one cluster. program: GroupTool.java, as java_program() starts it."""

    def __init__(self, program: Any, bootstrap_servers: str) -> None:
        self._program = program
        self._servers = bootstrap_servers

    def run(self, *arguments: str) -> str:
        """Run the tool, and return its output. Raises JavaError if the tool fails."""
        command = ["--bootstrap-server", self._servers, "--timeout", "20000", *arguments]
        return str(self._program.ask("\n".join(command).encode()).decode())

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """Run the tool, and return the rows of the tables that it prints, each as a dict by column name. Cells are split at spaces."""
        lines = [line.split() for line in self.run(*arguments).splitlines() if line.strip()]
        head = next(at for at, line in enumerate(lines) if line[0] == "GROUP")
        return [dict(zip(lines[head], line, strict=False)) for line in lines[head + 1 :] if line[0] != "GROUP"]

    def groups(self, *filters: str) -> list[str]:
        """Return the ids of the groups that the tool lists."""
        return self.run("--list", *filters).split()
