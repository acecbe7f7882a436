"""Runs the command line by `python -m levada.cli`, like the script `levada` does."""

from __future__ import annotations

from levada.cli.entry import console

if __name__ == "__main__":
    console()
