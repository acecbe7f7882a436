"""The program of docs/howto/transactions.md that may be killed is killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest

import levada as lv

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "transactions.md").read_text()
[PROGRAM] = re.findall(r"^## A member of a group that may be killed\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.S | re.M)

PATIENCE, SHORTER = "consumer.poll(5.0)", "consumer.poll(3.0)"
KILLED_AFTER = {
    "a record was sent": "producer.send(",
    "the offsets were sent": "txn.send_offsets(consumer)",
    "a transaction was committed": f"while records := {SHORTER}:",
}
"""Where a run is killed, by the line behind which, or at the second passing of which, it is."""


@pytest.mark.parametrize("broker", ["embedded", pytest.param("kafka44", marks=[pytest.mark.kafka, pytest.mark.matrix])])
def test_exactly_once_although_the_member_is_killed_again_and_again(request: pytest.FixtureRequest, tmp_path: Path, broker: str) -> None:
    kafka = request.getfixturevalue(broker)
    names = {name: f"{name}-{uuid4().hex}" for name in ("orders", "invoices", "shop")}
    program = "import os\nimport levada as lv\nservers = os.environ['SERVERS']\n"
    program += textwrap.dedent("".join(PROGRAM.partition("    reading =")[1:]))
    program = program.replace('"earliest"}', '"earliest", "max_poll_records": 3}').replace(PATIENCE, SHORTER)
    for name, unique in names.items():
        program = re.sub(rf'"{name}(-1)?"', rf'"{unique}\1"', program)
        if name != "shop":
            kafka.create_topic(unique, 2)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many(names["orders"], [(f"customer-{n}", f"{n} apples") for n in range(10)])
    environment = {**os.environ, "SERVERS": kafka.bootstrap_servers}
    for number, place in enumerate(KILLED_AFTER):
        run = _run(tmp_path / f"killed_{number}.py", _killed(program, place), environment)
        assert (run.returncode, run.stdout) == (-9, ""), (place, run.stderr)
    run = _run(tmp_path / "whole.py", program, environment)
    assert (run.returncode, run.stdout) == (0, f"10 {names['invoices']}\n"), run.stderr
    invoices = list(lv.scan(names["invoices"], bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed"))
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        committed = admin.list_consumer_group_offsets(names["shop"])
    assert sorted(record.value or b"" for record in invoices) == [f"{n} APPLES".encode() for n in range(10)]
    assert sum(at.offset for at in committed.values() if at) == 10
    assert {record.key for record in invoices} == {f"customer-{n}".encode() for n in range(10)}


def _killed(program: str, place: str) -> str:
    """Return the program with a kill -9 of itself."""
    lines, mark = program.splitlines(), KILLED_AFTER[place]
    (at,) = (number for number, line in enumerate(lines) if line.strip().startswith(mark))
    deeper = "    " if mark.endswith(":") else ""
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())] + deeper
    die = f"{indent}os.kill(os.getpid(), 9)"
    if place == "a transaction was committed":
        passed = f"{indent}passed = locals().get('passed', 0) + 1"
        return "\n".join([*lines[: at + 1], passed, f"{indent}if passed == 2:", f"    {die}", *lines[at + 1 :]])
    return "\n".join([*lines[: at + 1], die, *lines[at + 1 :]])


def _run(path: Path, program: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    path.write_text(program)
    return subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=60)
