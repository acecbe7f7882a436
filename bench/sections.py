"""The common part of benchmarks with several sections: the command line, a table as each case ends, and the saved rows."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from engine_bench import Case
from engine_process import WorkerFailed
from engine_report import missed, rows, table
from machine import header, load
from report import write

B = TypeVar("B", contravariant=True)


class Section(Protocol[B]):
    """A module of a benchmark's cases."""

    def run(self, bench: B) -> Iterable[Case]:
        """Measure each case."""
        ...


class Run(Generic[B]):
    """A run from its command line to its end. sections: all sections by name. turns: the default number of turns."""

    def __init__(self, name: str, meaning: str, sections: Mapping[str, Section[B]], *, turns: int, quick: str) -> None:
        self._name = name
        self._sections = sections
        self._all = list(sections)
        self._started = time.monotonic()
        self.parser = argparse.ArgumentParser(prog=f"bench/{name}.py", description=meaning.partition("\n")[0])
        self.parser.add_argument("sections", nargs="*", default=self._all, help=f"{', '.join(self._all)} (default: all)")
        self.parser.add_argument("--turns", type=int, default=turns, help=f"turns of every system; medians count (default: {turns})")
        self.parser.add_argument("--quick", action="store_true", help=quick)

    def arguments(self, packages: Iterable[str]) -> argparse.Namespace:
        """Parse the command line, and print the versions and the machine."""
        chosen = self.parser.parse_args()
        if unknown := set(chosen.sections) - set(self._all):
            self.parser.error(f"unknown: {', '.join(sorted(unknown))}")
        print(f"{header(packages)}, {load()} before", flush=True)
        return chosen

    def cases(self, bench: B, chosen: Iterable[str]) -> Iterator[Case]:
        """Run the sections. If a worker fails, print the error and continue with the other sections."""
        for section in chosen:
            try:
                yield from self._sections[section].run(bench)
            except WorkerFailed as error:
                print(f"{section}: {error}", file=sys.stderr, flush=True)

    def tell(self, sections: list[str], cases: Iterable[Case]) -> None:
        """Print a table as each case ends, then the missed targets, and save the rows."""
        ended = []
        for case in cases:
            ended.append(case)
            print(f"\n{table(case)}", flush=True)
        print("\n" + "\n".join(["Missed:", *missed(ended)] if missed(ended) else ["No target missed."]))
        name = self._name if sections == self._all else f"{self._name}-{'-'.join(sections)}"
        print(f"\nrows saved in {write(name, rows(ended))}; {time.monotonic() - self._started:.0f} s, {load()} after")
