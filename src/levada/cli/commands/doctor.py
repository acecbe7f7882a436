"""levada doctor finds faults of a cluster, and of the connection to it, and advises what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from levada.base.clock import SystemClock
from levada.base.text import escaped
from levada.cli.command import command
from levada.cli.doctor.examination import examine
from levada.cli.doctor.findings import Finding, Status, worst
from levada.cli.doctor.questions import Scope
from levada.cli.exits import Exit
from levada.cli.invocation import Invocation
from levada.cli.output import OutputFormat
from levada.config import AdminConfig

app = typer.Typer(add_completion=False)

_SIGNS = {Status.OK: "ok", Status.WARNING: "WARN", Status.FAILED: "FAIL"}


@command(app)
def doctor(
    invocation: Invocation,
    topics: Annotated[list[str] | None, typer.Option("--topic", "-t", help="Examine only this topic; repeat it for more.")] = None,
    groups: Annotated[list[str] | None, typer.Option("--group", "-g", help="Examine only this group; repeat it for more.")] = None,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Time limit of each request.", min=0.1)] = 5.0,
) -> Exit:
    """Check the connection and the cluster step by step. Print each fault and what to do about it. The exit code is 1 if a step failed.

    Steps: dns, tcp, tls, versions, login, metadata, listeners, clock, leaders, replicas, groups, transactions.
    """
    settings = invocation.client_settings(AdminConfig)
    findings = examine(settings, Scope(topics or (), groups or (), timeout), SystemClock().wall_ms)
    is_table = invocation.format is OutputFormat.TABLE
    seen: list[Finding] = []
    try:
        for finding in findings:
            seen.append(finding)
            if is_table:
                _tell(finding)
    finally:
        # JSON and YAML are one document, so it is printed at the end, also if that is an error.
        if seen and not is_table:
            invocation.show(seen)
    return Exit.FAILED if worst(seen) is Status.FAILED else Exit.DONE


def _tell(finding: Finding) -> None:
    """Print a finding as it comes, because later steps may take long."""
    typer.echo(escaped(f"{_SIGNS[finding.status]:4}  {finding.step:12}  {finding.about}: {finding.found}"))
    if finding.advice:
        typer.echo(escaped(f"{'':20}-> {finding.advice}"))
