"""docs/MIGRATING.md: its programs run as they stand, its options are taken or refused as it says, and its partitioner is librdkafka's."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from zlib import crc32

import pytest
from confluent_kafka import Producer

import levada as lv
from levada.config import ProducerConfig
from levada.errors import ConfigError
from levada.testing import EmbeddedKafka

PAGE = (Path(__file__).parents[2] / "docs" / "MIGRATING.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
PRINTS = [
    ["delivered orders 0 0"],
    ["partitions: ["],
    ["written: orders 0", "written: [1, 2, 3]"],
    ["offset: 0", "failed: None"],
    ["positions: 10", "bills: 10"],
    ["committed: 3"],
]
OPTIONS = re.findall(r"^\| `([a-z._]+)` \| `([a-z._]+)` \| (read as it is|refused).*\|$", PAGE, re.M)
NO_OPTIONS = {"metric_group_prefix", "loop", "selector", "on_delivery"}


@pytest.mark.parametrize("number", range(len(PRINTS)))
def test_a_program_runs_as_it_stands(number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[number])
    run_path(str(program), run_name="__main__")
    printed = capsys.readouterr().out
    assert [text for text in PRINTS[number] if text not in printed] == []


def test_every_program_is_run() -> None:
    assert len(PROGRAMS) == len(PRINTS)
    assert len(OPTIONS) == PAGE.count("| read as it is") + PAGE.count("| refused:")


@pytest.mark.parametrize(("theirs", "ours", "how"), OPTIONS, ids=lambda text: str(text))
def test_an_option_is_taken_or_refused_as_the_page_says(theirs: str, ours: str, how: str) -> None:
    attribute = ours.replace(".", "_")
    default = "h:1" if ours == "bootstrap.servers" else getattr(ProducerConfig.parse({"bootstrap.servers": "h:1"}), attribute, 1)
    given = {"bootstrap.servers": "h:1", theirs.replace("_", "."): str(default)}
    if how == "refused":
        with pytest.raises(ConfigError) as refused:
            ProducerConfig.parse(given)
        assert ours in NO_OPTIONS or ours in str(refused.value)
    else:
        if ours == "bootstrap.servers":
            del given["bootstrap.servers"]
        assert ProducerConfig.parse(given)


def test_the_partitioner_on_the_page_is_the_default_of_librdkafka() -> None:
    names: dict[str, object] = {}
    exec(re.findall(r"(def consistent_random.*?)\n\n", PROGRAMS[1], re.S)[0], {"crc32": crc32}, names)
    keys = [b"customer-%d" % number for number in range(50)]
    with EmbeddedKafka(num_partitions=6) as kafka:
        theirs = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for key in keys:
            theirs.produce("placed", b"v", key)
        assert theirs.flush(20) == 0
        placed = {record.key: record.partition for record in lv.scan("placed", bootstrap_servers=kafka.bootstrap_servers)}
    partitioner = names["consistent_random"]
    assert callable(partitioner)
    assert placed == {key: partitioner("placed", key, 6) for key in keys}
