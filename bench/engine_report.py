"""Tables of the engine benchmark for people, rows for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from engine_bench import Case
from engine_process import Figures


def table(case: Case) -> str:
    """Return a case as a Markdown table with a line per system, which ends with its targets."""
    names = list(dict.fromkeys(name for system in case.systems for name in case.medians(system)))
    lines = [f"| {case.name} | {' | '.join([*names, 'target'])} |", "|---" * (len(names) + 2) + "|"]
    for system in case.systems:
        figures = case.medians(system)
        cells = [_cell(figures, name) for name in names]
        lines.append(f"| {' | '.join([system, *cells, _told(case, system)])} |")
    return "\n".join(lines)


def _cell(figures: Figures, name: str) -> str:
    if name not in figures:
        return ""
    value = figures[name]
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _told(case: Case, system: str) -> str:
    told = [str(target) for target in case.targets if target.system == system]
    return "; ".join([*told, case.notes[system]] if system in case.notes else told)


@dataclass
class Row:
    """A system on a case: medians, all turns, targets, and a note if there is one."""

    section: str
    case: str
    system: str
    figures: Figures
    turns: list[Figures]
    targets: list[dict[str, Any]]
    note: str


def rows(cases: Iterable[Case]) -> list[Row]:
    """Return a row for each system and case."""
    return [_row(case, system) for case in cases for system in case.systems]


def _row(case: Case, system: str) -> Row:
    targets = [asdict(target) | {"missed": target.missed} for target in case.targets if target.system == system]
    figures, turns = case.medians(system), case.turns.get(system, [])
    return Row(case.section, case.name, system, figures, turns, targets, case.notes.get(system, ""))


def missed(cases: Iterable[Case]) -> list[str]:
    """Return a line for each missed target."""
    return [f"{case.name}: {target.system}: {target}" for case in cases for target in case.targets if target.missed]
