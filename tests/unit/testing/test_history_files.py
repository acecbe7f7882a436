"""A history as a file: appended by many processes, and read whatever became of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from levada.testing.history import Event, Found, History, HistoryFile, Op, Type, name_of, process_of, value_of

SENT = Event(5, 3, Op.SEND, Type.INVOKE, value=value_of(3, 1), topic="t", partition=0, transaction=value_of(3, 9), within_ms=100)
READ = Event(7, 4, Op.POLL, Type.OK, read=(Found("t", 0, 12, value_of(3, 1)),))
FIGURES = Event(6, 3, Op.PROCESS, Type.OK, figures={"fds": 4}, text="closed")


def test_an_event_is_a_line_of_json() -> None:
    assert SENT.to_json() == (
        '{"t":5,"proc":3,"op":"send","type":"invoke","value":3298534883329,"partition":0,'
        '"transaction":3298534883337,"within_ms":100,"topic":"t"}'
    )
    assert [Event.from_json(event.to_json()) for event in (SENT, READ, FIGURES)] == [SENT, READ, FIGURES]


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"t":1}', '{"t":1,"proc":1,"op":"dance","type":"ok"}'])
def test_what_is_no_event(text: str) -> None:
    with pytest.raises(ValueError, match=r"no event of a history|Expecting|is not a valid Op"):
        Event.from_json(text)


def test_values_ascend_with_each_process_and_say_who_sent_them() -> None:
    assert value_of(1, 1) < value_of(1, 2) < value_of(2, 1)
    assert (process_of(value_of(7, 9)), name_of(value_of(7, 9))) == (7, "7:9")


def test_a_history_is_in_the_order_of_time(tmp_path: Path) -> None:
    for name, event in (("a", READ), ("b", SENT), ("b", FIGURES)):
        with HistoryFile(tmp_path / name) as file:
            file.write(event)
    assert History.read(tmp_path / "a", tmp_path / "b") == History((SENT, FIGURES, READ))


def test_a_line_cut_short_by_a_crash_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with HistoryFile(path) as file:
        file.write(SENT)
    with path.open("r+") as torn:
        torn.truncate(path.stat().st_size - 10)
    with HistoryFile(path) as file:
        file.write(READ)
    assert History.read(path) == History((READ,), torn=1)


WRITE_MANY = """
import sys
from levada.testing.history import Event, HistoryFile, Op, Type, value_of

path, process, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with HistoryFile(path) as file:
    for number in range(count):
        file.write(Event(number, process, Op.SEND, Type.INVOKE, value=value_of(process, number), topic="t" * 500))
"""


def test_many_processes_append_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "history"
    writers = [subprocess.Popen([sys.executable, "-c", WRITE_MANY, path, str(process), "300"]) for process in (1, 2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    history = History.read(path)
    assert (len(history.events), history.torn) == (600, 0)
    assert {event.value for event in history.events} == {value_of(process, number) for process in (1, 2) for number in range(300)}
