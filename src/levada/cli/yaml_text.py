"""YAML, by libyaml where PyYAML has it: that takes less than half the time of PyYAML's own emitter, and the text is the same."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

UNBOUNDED_WIDTH = 100_000
"""No text is broken into lines."""

_DIFFERS = re.compile(r"\\[NLPU]|^[ -]*(?:'':|\? )", re.MULTILINE)
"""What libyaml may have written in another way: characters beyond 16 bits, the line feeds of Unicode, and keys with line feeds or empty."""


def yaml_text(data: Any) -> str:
    """Return YAML of plain() data, with letters as they are."""
    import yaml

    fast = getattr(yaml, "CSafeDumper", None)
    # A single value has an end of its own in the text of one and not of the other.
    if fast is not None and isinstance(data, list | dict):
        # libyaml takes no halves of characters, such as "\ud800".
        with suppress(UnicodeEncodeError):
            text = _dumped(data, fast)
            if not _DIFFERS.search(text):
                return text
    return _dumped(data, yaml.SafeDumper)


def _dumped(data: Any, dumper: Any) -> str:
    import yaml

    return str(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=UNBOUNDED_WIDTH))
