"""The programs in docs/SPARK.md, by section."""

from __future__ import annotations

import re

from source_tree import ROOT

GUIDE = (ROOT / "docs" / "SPARK.md").read_text()
SECTIONS = dict(re.findall(r"(?:^## (.*?)\n|\A)(.*?)(?=^## |\Z)", GUIDE, re.S | re.M))
"""Text by heading; the one above the first heading is ""."""


def blocks(section: str, language: str, servers: str) -> list[str]:
    """Return the programs of a section, with the address of the brokers in place of host:9092."""
    found = re.findall(rf"```{language}\n(.*?)```", SECTIONS[section], re.S)
    return [block.replace("host:9092", servers) for block in found]
