"""Every id that is cited has an entry in docs/requirements, and every entry has a test, or says why it has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tool_modules import load_tool

tool = load_tool("requirements")


@pytest.fixture(scope="module")
def catalogue() -> Any:
    return tool.read()


def fail_for(faults: list[str], what_to_do: str) -> None:
    if faults:
        pytest.fail("\n".join([*faults[:40], *(["..."] if len(faults) > 40 else []), what_to_do]), pytrace=False)


def test_the_pages_can_be_read(catalogue: Any) -> None:
    fail_for(catalogue.faults, "docs/requirements/README.md says how an entry is written.")
    assert len(catalogue.entries) > 500


def test_every_id_that_is_cited_has_an_entry(catalogue: Any) -> None:
    fail_for(tool.unknown(catalogue), "Write the entry, or add the word to NOT_IDS of tools/requirements.py if it is no id.")


def test_every_entry_is_tested_planned_or_a_deviation(catalogue: Any) -> None:
    fail_for(tool.not_held(catalogue), "Cite the id in the name or docstring of a test that holds it, or write that test.")


def test_every_deviation_is_explained(catalogue: Any) -> None:
    fail_for(tool.broken_links(catalogue), "Each *Differs: [...](../DEVIATIONS.md#heading).* leads to a heading.")


def test_every_module_that_a_page_names_is_there() -> None:
    fail_for(tool.missing_modules(), "Name the module where that code is now.")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("see A8, F16 and M-B5", ["A8", "F16", "M-B5"]),
        ("K16-K19; H8 to H10; M-C1 to M-C3", ["K16", "K17", "K18", "K19", "H8", "H9", "H10", "M-C1", "M-C2", "M-C3"]),
        ("both X-K13 and TR7", ["X-K13", "TR7"]),
        ("LZ4, v2, T0, Z4.5, A1b, p.A1, COVID-P19", []),
    ],
)
def test_ids_are_found_in_text(text: str, ids: list[str]) -> None:
    assert tool.cited_in(text) == ids


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_A8_linger", ["A8"]),
        ("test_H8_I15_a_peer", ["H8", "I15"]),
        ("test_M_B5_sequences_wrap", ["M-B5"]),
        ("test_M_P1_M_P2_hold", ["M-P1", "M-P2"]),
        ("test_X_K13_nothing_is_left", ["X-K13"]),
        ("test_linger_of_A8", []),
        ("test_KIP_392_a_follower", []),
    ],
)
def test_ids_are_found_in_names_of_tests(name: str, ids: list[str]) -> None:
    assert tool.ids_of_test(name) == ids


def test_an_entry_is_held_through_the_entries_that_it_names() -> None:
    page = Path("page.md")
    catalogue = tool.Catalogue()
    for name, tests in (("A1", ""), ("A2", "as A1"), ("A3", "as A1, A4"), ("A4", "as A3"), ("A5", "")):
        catalogue.entries[name] = tool.Entry(name, page, 1, {"Source": "levada", **({"Tests": tests} if tests else {})})
    catalogue.holders["A1"].append(tool.Citation("A1", page, 1, "test_A1_holds"))
    assert [name for name in catalogue.entries if tool.is_held(catalogue, name)] == ["A1", "A2"]


def test_the_list_of_tests_names_one_for_each_entry_that_is_held(catalogue: Any) -> None:
    page = tool.document(catalogue)
    assert not [name for name in catalogue.holders if name in catalogue.entries and f"| {name} | " not in page]
