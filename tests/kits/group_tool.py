"""Java's kafka-consumer-groups (tests/java/GroupTool.java): what it prints about groups, as tables, and what it does to them."""

from __future__ import annotations

from typing import Any

JARS = "perf-tool-4.3.0"
"""The newest release of the tool that Maven Central has."""


class GroupTool:
    """The tool at one cluster. program: GroupTool as java_program() starts it."""

    def __init__(self, program: Any, bootstrap_servers: str) -> None:
        self._program = program
        self._servers = bootstrap_servers

    def run(self, *arguments: str) -> str:
        """Return what the tool prints. Raises JavaError where it ends with an error."""
        command = ["--bootstrap-server", self._servers, "--timeout", "20000", *arguments]
        return str(self._program.ask("\n".join(command).encode()).decode())

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """Return the rows of the table that the tool prints, by column; columns are divided by two spaces or more in their heads only."""
        lines = [line.split() for line in self.run(*arguments).splitlines() if line.strip()]
        head = next(at for at, line in enumerate(lines) if line[0] == "GROUP")
        return [dict(zip(lines[head], line, strict=False)) for line in lines[head + 1 :] if line[0] != "GROUP"]

    def groups(self, *filters: str) -> list[str]:
        """Return the ids of the groups that the tool lists."""
        return self.run("--list", *filters).split()
