"""The demo's verdict is worth something: it sees one figure that differs among forty thousand."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

DEMO = Path(__file__).parents[2] / "demo"


def load(name: str) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(f"demo_{name}", DEMO / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


data, verify = load("data"), load("verify")


def groups(**changes: Any) -> Any:
    rows: list[dict[str, Any]] = [
        {"carrier": carrier, "name": carrier, "day": f"2013-01-0{day}", **dict.fromkeys(verify.FIGURES, 10 * day)}
        for carrier in ("AA", "UA")
        for day in (1, 2)
    ]
    rows[1] |= {"dep_delay_mean": None, "dep_delay_max": None}
    rows[3] |= changes
    return pa.Table.from_pylist(rows, schema=verify.COLUMNS)


def test_the_same_is_equal_in_any_order() -> None:
    found = groups().take([3, 1, 0, 2])
    result = verify.compare(groups(), found)
    assert result.equal
    assert result.sentence == "all 4 groups equal: 32 figures compared, none differs"


@pytest.mark.parametrize("figure", verify.FIGURES)
def test_one_figure_that_differs_is_found(figure: Any) -> None:
    assert verify.compare(groups(), groups(**{figure: 21})).differences == [
        f"UA on 2013-01-02: {figure} is 21, expected 20".replace(*mean(figure))
    ]
    assert len(verify.compare(groups(), groups(**{figure: None})).differences) == 1
    assert len(verify.compare(groups(**{figure: None}), groups()).differences) == 1


def mean(figure: Any) -> Any:
    return ("21, expected 20", "21.0, expected 20.0") if figure.endswith("mean") else ("", "")


def test_a_mean_differs_by_its_last_bit() -> None:
    assert not verify.compare(groups(dep_delay_mean=0.3), groups(dep_delay_mean=0.1 + 0.2)).equal


def test_missing_and_surplus_groups_are_found() -> None:
    all_groups = groups()
    assert verify.compare(all_groups, all_groups.slice(1)).differences == ["AA on 2013-01-01 is missing"]
    assert verify.compare(all_groups.slice(1), all_groups).differences == ["AA on 2013-01-01 is not expected"]


def test_columns_become_json() -> None:
    table = pa.table({"carrier": ["AA", 'a"b\\c', "ä"], "delay": pa.array([-3, None, 12])})
    lines = data.to_json(table).to_pylist()
    assert [json.loads(line) for line in lines] == table.to_pylist()
