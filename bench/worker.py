"""One system, one case, one process: reads a job as JSON, prints what was measured as JSON on its last line."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict

from measure import Job


def main() -> None:
    """Run `module:function` on the job."""
    runner, job = sys.argv[1:3]
    module, _, function = runner.partition(":")
    sample = getattr(importlib.import_module(module), function)(Job(**json.loads(job)))
    print(json.dumps(asdict(sample)))


if __name__ == "__main__":
    main()
