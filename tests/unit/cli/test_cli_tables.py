"""Tables in a pipe, and on terminals that are too narrow for them."""

from __future__ import annotations

import io
import re
from random import Random
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from levada.cli.commands.groups import LAG_COLUMNS
from levada.cli.lag import PartitionLag
from levada.cli.output import OutputFormat, write
from levada.cli.tables import as_wide_as_needed, of_one_result, within

GROUP = "settlement-of-a-large-application-in-production"
MEMBER = "levada-cli-70fda588-3c3c-460d-a140-11bd221c0be6"
LAGS = [
    PartitionLag(GROUP, "orders-of-customers", part, 1_000_000 + part, 0, 2_000_000, 999_999, MEMBER, "me", "/1.2.3.4") for part in (0, 1)
]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(data: Any, width: int, monkeypatch: pytest.MonkeyPatch, columns: tuple[str, ...] = ()) -> list[str]:
    """Return the lines of a table on a terminal with this number of columns."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    write(data, to := Screen(), OutputFormat.TABLE, columns=columns, color=False)
    return re.sub(r"\x1b\[\d*m", "", to.getvalue()).splitlines()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(LAGS, width, monkeypatch)
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    with console.capture() as captured:
        for line in lines[:-1]:
            console.print(line)
    assert captured.get().splitlines() == lines[:-1], "rich would have broken a line"


def test_80_columns_cut_texts_and_leave_out_the_last_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(LAGS, 80, monkeypatch, LAG_COLUMNS) == [
        "GROUP                 TOPIC                PARTITION  COMMITTED  LOG END  LAG",
        "settlement-of-a-lar…  orders-of-customers  0          1000000    2000000  999999",
        "settlement-of-a-lar…  orders-of-customers  1          1000001    2000000  999999",
        "(too narrow for CLIENT ID, HOST, MEMBER ID; --output json shows all)",
    ]


def test_200_columns_show_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(LAGS, 200, monkeypatch)
    assert len(lines) == 3
    assert GROUP in lines[1]
    assert MEMBER in lines[1]
    assert lines[0].split("  ")[0] == "GROUP"


def test_a_name_is_not_cut_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"topic": "t" * 60, "partitions": 3}]
    assert shown(rows, 80, monkeypatch)[1] == "t" * 60 + "  3"


def test_columns_without_a_value_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": "n" * 30, "rack_of_the_broker": None, "address": "a" * 30}]
    assert shown(rows, 90, monkeypatch)[0].split() == ["NAME", "RACK", "OF", "THE", "BROKER", "ADDRESS"]
    assert shown(rows, 70, monkeypatch) == [f"NAME{' ' * 26}  ADDRESS", f"{'n' * 30}  {'a' * 30}"]


def test_headings_are_broken_at_spaces_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"topic": "t" * 20, "without_leader": 0, "out_of_sync": 0, "member_epoch": 12}]
    assert shown(rows, 48, monkeypatch) == [
        "                      WITHOUT  OUT OF  MEMBER",
        "TOPIC                 LEADER   SYNC    EPOCH",
        "tttttttttttttttttttt  0        0       12",
    ]


def test_a_long_cell_ends_with_an_ellipsis(monkeypatch: pytest.MonkeyPatch) -> None:
    _, line = shown([{"name": "a", "value": "v" * 300, "offset": 123456789}], 40, monkeypatch)
    assert line == f"a     {'v' * 22}…  123456789"
    _, line = shown([{"name": "a", "value": "日本" * 30}], 40, monkeypatch)
    assert line.endswith("…")
    assert cell_len(line) <= 40


def test_an_empty_list_has_its_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown([], 80, monkeypatch, ("user", "mechanism")) == ["USER  MECHANISM"]


def test_values_of_one_result_go_on_below_without_breaking_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown({"brokers": ["kafka-1:9092", "kafka-2:9092", "kafka-3:9092"], "id": "x" * 50}, 40, monkeypatch) == [
        "brokers  kafka-1:9092,kafka-2:9092,",
        "         kafka-3:9092",
        f"id       {'x' * 50}",
    ]


def test_partitions_are_written_like_on_the_command_line() -> None:
    partitions = [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 2}, {"topic": "b", "partition": 1}]
    write([{"partitions": partitions}], to := io.StringIO(), OutputFormat.TABLE)
    assert to.getvalue() == "PARTITIONS\norders:0,2 b:1\n"


def test_any_table_fits_into_any_width() -> None:
    random = Random(5)
    words = ["", "x", "12345678901", "a long one with words", "trailing  ", "日本語" * 5, "[b]no markup[/b]", "a_word_" * 12]
    for _ in range(300):
        count = random.randint(1, 9)
        headings = random.choices(["A", "TOPIC", "LOG END OFFSET", "CAUGHT UP MS AGO"], k=count)
        rows = [random.choices(words, k=count) for _ in range(random.randint(0, 4))]
        width = random.randint(30, 200)
        layout = within(width, headings, rows)
        lines = [*layout.headings, *layout.rows]
        assert all(cell_len(line) <= width for line in lines), (width, lines)
        if max(map(cell_len, as_wide_as_needed(headings, rows)), default=0) <= width:
            assert lines == list(as_wide_as_needed(headings, rows))
        list(of_one_result(width, [row[:1] + row[-1:] for row in rows]))
