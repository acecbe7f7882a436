"""python -m levada.cli: what the script `levada` runs."""

from __future__ import annotations

from levada.cli.entry import console

if __name__ == "__main__":
    console()
