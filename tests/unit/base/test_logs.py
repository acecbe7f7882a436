"""Log lines: the fields they carry, the client they name, and what comes from outside escaped."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from levada.base.text import escaped
from levada.errors import BootstrapError, KafkaError, broker_error
from levada.logs import FIELDS, Log, of_a_client
from levada.types import TopicPartition
from odd_error import OddError

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "monitoring.md"
CLIENT = of_a_client("shop", group_id="orders", transactional_id=None)
FORGED = "gone\n2026-11-22 ERROR all records were deleted\x1b[2J"
HARMLESS = r"gone\n2026-11-22 ERROR all records were deleted\x1b[2J"


def fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name.startswith("kafka_")}


def test_a_line_names_its_client_and_carries_what_it_is_about(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("levada.test", CLIENT)
    log.warning("%s: %s", "b:9092", "gone", node_id=3, address="b:9092", tp=TopicPartition("t", 0), offset=7)
    (record,) = caplog.records
    assert record.getMessage() == "shop: b:9092: gone"
    assert fields(record) == {
        "kafka_client_id": "shop",
        "kafka_group_id": "orders",
        "kafka_node_id": 3,
        "kafka_address": "b:9092",
        "kafka_topic": "t",
        "kafka_partition": 0,
        "kafka_offset": 7,
    }
    assert (record.name, record.levelname, record.funcName) == (
        "levada.test",
        "WARNING",
        "test_a_line_names_its_client_and_carries_what_it_is_about",
    )


def test_what_is_not_known_is_no_field(caplog: pytest.LogCaptureFixture) -> None:
    Log("levada.test", CLIENT).warning("x", node_id=-1, tp=TopicPartition("t", -1))
    Log("levada.test").warning("100 % of nothing")
    assert [fields(record) for record in caplog.records] == [
        {"kafka_client_id": "shop", "kafka_group_id": "orders", "kafka_topic": "t"},
        {},
    ]
    assert caplog.messages == ["shop: x", "100 % of nothing"]


def test_the_page_describes_every_field() -> None:
    table = dict(re.findall(r"^\| `(kafka_\w+)` \| (.*?) \|$", PAGE.read_text(), re.M))
    assert table == dict(FIELDS)


def test_no_text_is_made_of_a_line_that_nobody_wants(caplog: pytest.LogCaptureFixture) -> None:
    class Unused:
        def __str__(self) -> str:
            raise AssertionError

    caplog.set_level(logging.WARNING, "levada")
    Log("levada.test", CLIENT).debug("%s", Unused())
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, with ümlauts and 漢字", "plain, with ümlauts and 漢字"),
        ("a\r\nb\tc\x00\x7f\x9b", r"a\r\nb\tc\x00\x7f\x9b"),
        ("a\u2028b\u2029c\u202ed\u2066", r"a\u2028b\u2029c\u202ed\u2066"),
        ("lone \ud800", r"lone \ud800"),
        ("what we know:\n  b:9092  refused", "what we know:\n  b:9092  refused"),
        ("\n", r"\n"),
    ],
)
def test_M_D18_control_characters_are_escaped(text: str, expected: str) -> None:
    assert escaped(text) == expected
    assert escaped(expected) == expected


def test_M_D18_names_from_outside_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("levada.test", of_a_client(FORGED, group_id=None, transactional_id=None))
    log.warning("%s %r %d", TopicPartition(FORGED, 0), ValueError(FORGED), 5)
    (line,) = caplog.messages
    assert line == f"{HARMLESS}: {HARMLESS}-0 ValueError({FORGED!r}) 5"
    assert "\n" not in line and "\x1b" not in line


def test_M_D18_an_error_with_a_brokers_message_cannot_either(caplog: pytest.LogCaptureFixture) -> None:
    error = broker_error(41, FORGED)
    assert HARMLESS in str(error)
    try:
        raise error
    except KafkaError as raised:
        Log("levada.test", CLIENT).error("a callback raised", error=raised)
        logging.getLogger("a.program").exception("it says: %s", raised)
    assert "\x1b" not in caplog.text
    assert not [line for line in caplog.text.splitlines() if line.startswith("2026-11-22")]


def test_a_line_about_what_has_no_text_is_written(caplog: pytest.LogCaptureFixture) -> None:
    """As an interceptor whose repr() fails: logging would write a traceback to stderr in place of the line."""
    Log("levada.test").warning("%s and %r failed", OddError("x"), Unreadable())
    assert caplog.messages == ["OddError('x') and <Unreadable whose repr() raises AttributeError> failed"]


class Unreadable:
    def __repr__(self) -> str:
        raise AttributeError("no name")


def test_our_own_lines_go_on_below_one_another() -> None:
    error = BootstrapError("no broker could be reached", {"b:9092": "refused"})
    assert str(error) == "no broker could be reached\n  b:9092  refused"
