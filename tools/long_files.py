"""Print long source files, because they may have more than one subject. `make lint` runs this. It never fails."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LONG: Final = 500
WRITTEN_BY_A_TOOL: Final = {"src/levada/config/typed.py"}


def main() -> None:
    """Print a line for each long file, the longest first."""
    files = [path for folder in ("src", "demo", "bench", "examples") for path in (ROOT / folder).rglob("*.py")]
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in files}
    long = {name: count for name, count in lines.items() if count > LONG and name not in WRITTEN_BY_A_TOOL}
    for name, count in sorted(long.items(), key=lambda item: -item[1]):
        print(f"hint: {name} has {count} lines; does it have one subject?")


if __name__ == "__main__":
    main()
