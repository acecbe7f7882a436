"""docs/ADMIN.md is current, and says of everything that is not there why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from levada import KafkaAdmin, aio
from levada.protocol.api import APIS
from tool_modules import load_tool

PAGE = load_tool("admin")
TEXT = PAGE.document()
ROWS = [line for line in TEXT.splitlines() if line.startswith("|")]


def test_the_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "ADMIN.md"
    assert page.read_text() == TEXT, "run `make docs`"


@pytest.mark.parametrize("row", ROWS)
def test_no_cell_is_empty(row: str) -> None:
    assert "" not in [cell.strip() for cell in row.strip("|").split("|")]


def test_every_api_stands_on_it_once() -> None:
    assert {key for row in ROWS for key in re.findall(r"^\| (\d+) ", row)} == {str(key) for key in APIS}
    assert PAGE.BROKERS_ONLY.keys() <= {api.NAME for api in APIS.values()}


def test_every_method_of_an_administrator_stands_on_it() -> None:
    mentioned = set(re.findall(r"\w+", TEXT))
    own = {name for name in vars(KafkaAdmin) if not name.startswith("_") and hasattr(KafkaAdmin, name)}
    assert own - mentioned == set()
    assert {name for name in vars(aio.KafkaAdmin) if not name.startswith("_") and hasattr(aio.KafkaAdmin, name)} == own
