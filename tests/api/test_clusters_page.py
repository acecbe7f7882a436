"""docs/CLUSTERS.md: each block of settings makes a client, as far as that is possible without the service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from levada.config import AdminConfig, ConsumerConfig, ProducerConfig, RegistryConfig

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "CLUSTERS.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M))
BLOCKS = {name: "".join(re.findall(r"```python\n(.*?)```", text, re.S)) for name, text in SECTIONS.items()}
OF_PRODUCERS = {"linger_ms", "batch_size", "max_request_size", "compression_type", "enable_idempotence"}
OF_CONSUMERS = {"fetch_max_bytes"}


def settings_in(section: str) -> dict[str, dict[str, Any]]:
    """The mappings that the section's program makes, by the names of their variables."""
    names: dict[str, Any] = {}
    exec(BLOCKS[section], names)
    return {name: value for name, value in names.items() if isinstance(value, dict) and name != "__builtins__"}


@pytest.mark.parametrize("section", BLOCKS)
def test_the_settings_of_a_section_are_those_of_clients(section: str) -> None:
    found = settings_in(section)
    assert found, "each section has settings"
    for name, settings in found.items():
        if name == "registry":
            assert RegistryConfig.parse(settings).given
            continue
        common = {key: value for key, value in settings.items() if key not in OF_PRODUCERS | OF_CONSUMERS}
        assert AdminConfig.parse(common).given
        assert ProducerConfig.parse({key: value for key, value in settings.items() if key not in OF_CONSUMERS}).given
        assert ConsumerConfig.parse({key: value for key, value in settings.items() if key not in OF_PRODUCERS}, group_id="g").given


@pytest.mark.parametrize("section", [section for section in SECTIONS if section != "Apache Kafka, old and new"])
def test_each_section_says_what_differs_and_what_was_not_tested(section: str) -> None:
    for part in ("**Different", "**Tested", "**Untested"):
        assert part in SECTIONS[section], part


def test_the_page_is_linked_from_where_a_reader_looks() -> None:
    assert "docs/CLUSTERS.md" in (ROOT / "README.md").read_text()
    assert "CLUSTERS.md" in (ROOT / "docs" / "howto" / "security.md").read_text()
