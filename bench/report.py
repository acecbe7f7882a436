"""Saves rows of results as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write(name: str, rows: Sequence[Any]) -> Path:
    """Save rows, which are dataclasses, as bench/results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps([asdict(one) for one in rows], indent=1) + "\n")
    return path
