"""Results as tables, JSON and YAML."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import yaml

from levada.base.text import visible
from levada.cli.exits import say
from levada.cli.invocation import confirm
from levada.cli.output import OutputFormat, json_text, plain, write
from levada.cli.text import UNBOUNDED_WIDTH, in_one_line, yaml_text
from levada.errors import KafkaError
from levada.types import PartitionInfo, TopicPartition


class Color(StrEnum):
    RED = "Red"


class Number(IntEnum):
    ONE = 1


class Other(Enum):
    TWO = 2


class Result(NamedTuple):
    name: str
    partitions: tuple[PartitionInfo, ...]
    at: datetime
    id: UUID
    color: Color
    offsets: dict[TopicPartition, int]
    labels: frozenset[str]
    error: KafkaError | None = None


RESULT = Result(
    "orders",
    (PartitionInfo("orders", 0, 1, 2, (1, 2), (1,)),),
    datetime(2026, 11, 1, tzinfo=UTC),
    UUID(int=5),
    Color.RED,
    {TopicPartition("orders", 0): 7},
    frozenset({"b", "a"}),
    KafkaError("no"),
)


def printed(result: Any, format: OutputFormat, **more: Any) -> str:
    out = io.StringIO()
    write(result, out, format, **more)
    return out.getvalue()


def test_results_become_plain_data() -> None:
    data = plain(RESULT)
    assert data["partitions"][0]["isr"] == [1]
    assert data["at"] == "2026-11-01T00:00:00+00:00"
    assert data["offsets"] == {"orders-0": 7}
    assert data["labels"] == ["a", "b"]
    assert (data["color"], data["error"]) == ("Red", "no")
    assert plain([Decimal("1.50"), date(2026, 11, 1)]) == ["1.50", "2026-11-01"]
    assert plain([Number.ONE, Other.TWO, b"\xff", True, None, 1.5]) == ["ONE", "TWO", {"base64": "/w=="}, True, None, 1.5]


def test_json_and_yaml_have_all_of_it() -> None:
    assert json.loads(printed(RESULT, OutputFormat.JSON, columns=["name"])) == plain(RESULT)
    assert yaml.safe_load(printed(RESULT, OutputFormat.YAML)) == plain(RESULT)


OF_ONE_LINE = ["", " a ", "- 1", "1", "null", "\t\x07", "ä中", "\ufeff", "x" * 300, "😀", "\\N", "''", "? "]
TEXTS = [*OF_ONE_LINE, "a\nb: ", "a\n", "a\rb", "\x85", "\u2028"]


@pytest.mark.parametrize(
    "data", [*TEXTS, 7, None, [], {}, *([text, None, 1.5, True] for text in TEXTS), *([{text: [{text: text}]}] for text in TEXTS)]
)
def test_yaml_is_the_same_with_and_without_libyaml(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = yaml_text(data)
    assert text == yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=UNBOUNDED_WIDTH)
    monkeypatch.delattr(yaml, "CSafeDumper", raising=False)
    assert yaml_text(data) == text


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="this PyYAML has no libyaml")
def test_rows_as_people_have_them_are_left_to_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "SafeDumper")
    assert yaml_text([plain(RESULT)]).startswith("- name: orders\n  partitions:\n  - topic: orders\n")


def test_a_list_is_a_table_whose_columns_may_be_chosen() -> None:
    table = printed(
        [PartitionInfo("orders", n, 1, 2, (1, 2), (1,)) for n in range(2)], OutputFormat.TABLE, columns=["partition", "replicas"]
    )
    assert [line.split() for line in table.splitlines()] == [["PARTITION", "REPLICAS"], ["0", "1,2"], ["1", "1,2"]]


def test_one_result_is_a_table_of_its_fields() -> None:
    table = printed(PartitionInfo("orders", 0, 1, 2, (1, 2), ()), OutputFormat.TABLE)
    assert ["leader", "epoch", "2"] in [line.split() for line in table.splitlines()]


def test_a_result_within_a_result_has_rows_of_its_own() -> None:
    assert printed({"rate": 1, "latency": {"p50_ms": 2}}, OutputFormat.TABLE).splitlines() == ["rate            1", "latency p50 ms  2"]


def test_a_field_without_a_value_has_no_row() -> None:
    assert printed({"rate": 1, "latency": None}, OutputFormat.TABLE).splitlines() == ["rate  1"]
    assert json.loads(printed({"rate": 1, "latency": None}, OutputFormat.JSON)) == {"rate": 1, "latency": None}


def test_halves_of_characters_are_written_out_in_yaml() -> None:
    assert yaml.safe_load(yaml_text([{"half": "\ud800"}])) == [{"half": "\ud800"}]


def test_nothing_is_cut_off_where_there_is_no_terminal() -> None:
    wide = "x" * 5_000
    assert wide in printed([{"name": wide, "more": wide}], OutputFormat.TABLE)


@pytest.mark.parametrize("format", OutputFormat)
def test_control_characters_of_a_cluster_do_not_reach_the_terminal(format: OutputFormat) -> None:
    text = printed([{"group": "a\x1b[2Jb\x9bc"}], format)
    assert "\x1b" not in text
    assert "\x9b" not in text


def test_json_writes_out_what_a_terminal_acts_on() -> None:
    assert json_text("a\x7f\x1b\x9bä") == '"a\\u007f\\u001b\\u009bä"'


def test_json_of_what_has_no_utf_8_can_be_written() -> None:
    assert json.loads(json_text("\ud800").encode()) == "\ud800"


def test_line_feeds_stay_visible() -> None:
    assert visible("a\nb\tc\x07") == "a\nb\tc\\x07"


def test_M_D18_what_turns_text_around_reaches_no_terminal() -> None:
    assert visible("a\u202eb\u2028c") == "a\\u202eb\\u2028c"
    assert json_text("a\u202eb\u2028c") == '"a\\u202eb\\u2028c"'


UNSEEN = "a\nfake  row\tb\u200bc\u00add\u202ee\U000e0041f"
WRITTEN_OUT = r"a\nfake  row\tb\u200bc\xadd\u202ee\U000e0041f"


def test_names_that_nobody_would_see_make_no_row_of_their_own() -> None:
    rows = printed([{"group": UNSEEN, UNSEEN: 1}, {"group": "b"}], OutputFormat.TABLE).splitlines()
    assert len(rows) == 3
    assert WRITTEN_OUT in rows[1]
    assert printed({UNSEEN: UNSEEN}, OutputFormat.TABLE).splitlines() == [f"{WRITTEN_OUT}  {WRITTEN_OUT}"]


def test_programs_get_names_as_they_are() -> None:
    for format, read in ((OutputFormat.JSON, json.loads), (OutputFormat.YAML, yaml.safe_load)):
        assert read(printed([{"group": UNSEEN}], format)) == [{"group": UNSEEN}]
    assert "\u200b" in printed([{"group": UNSEEN}], OutputFormat.JSON)


def test_a_question_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def say_yes(question: str, err: bool) -> bool:
        asked.append(question)
        return True

    monkeypatch.setattr("typer.confirm", say_yes)
    monkeypatch.setattr("levada.cli.invocation.is_terminal", lambda stream: True)
    confirm(f"Delete {UNSEEN}\x1b[2J?", yes=False)
    assert asked == [rf"Delete {WRITTEN_OUT}\x1b[2J?"]


def test_letters_of_any_language_are_shown() -> None:
    for text in ("日本\u3000語", "é", "e\u0301", "😀", "עברית"):
        assert in_one_line(text) == text


def test_a_line_on_stderr_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("group a\nlevada: all is well\n  since yesterday")
    assert capsys.readouterr().err == "levada: group a\\nlevada: all is well\n  since yesterday\n"
