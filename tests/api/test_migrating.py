"""docs/MIGRATING.md: its programs run as they stand, its options are taken or refused as it says, and its partitioner is librdkafka's."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from zlib import crc32

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio
import kafka
import kafka.admin
import pytest
from confluent_kafka import Producer

import levada as lv
from levada import aio
from levada.config import ConsumerConfig, ProducerConfig
from levada.errors import ConfigError
from levada.testing import EmbeddedKafka

PAGE = (Path(__file__).parents[2] / "docs" / "MIGRATING.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
PRINTS = [
    ["delivered: orders 0 0", "read: b'0 pears'", "end: True"],
    ["delivered orders 0 0"],
    ["partitions: ["],
    ["written: orders 0", "written: [1, 2, 3]"],
    ["offset: 0", "failed: None"],
    ["assigned: [", "read: 6 committed: 6"],
    ["0 2 b'customer-2' b'2 pears'", "committed: 5", "watermarks: 0 6"],
    ["pears: b'0 pears'", "pears: b'1 pears'"],
    ["first: 0 b'0 pears'", "position: 3 lag: 1", "committed: 3"],
    ["pears: 0 b'0 pears'", "pears: 2 b'2 pears'"],
    ["pears: [0, 1, 2]", "from then on: [0]"],
    ["positions: 10", "bills: 10"],
    ["committed: 3"],
]
OPTIONS = re.findall(r"^\| `([a-z._]+)` \| `([a-z._]+)` \| (read as it is|refused).*\|$", PAGE, re.M)
OF_CONSUMERS = PAGE.index("## Consumers")
NO_OPTIONS = {"metric_group_prefix", "loop", "selector", "on_delivery"}
"""What is named in the place of an option and is none, or none that the error names."""
OF_OTHER_CALLS = {"default_offset_commit_callback"}


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
    kind = ConsumerConfig if PAGE.index(f"| `{theirs}` |") > OF_CONSUMERS else ProducerConfig
    attribute = ours.replace(".", "_")
    default = "h:1" if ours == "bootstrap.servers" else getattr(kind.parse({"bootstrap.servers": "h:1"}), attribute, 1)
    given = {"bootstrap.servers": "h:1", theirs.replace("_", "."): str(default)}
    if how == "refused":
        with pytest.raises(ConfigError) as refused:
            kind.parse(given)
        assert ours in NO_OPTIONS or theirs in OF_OTHER_CALLS or ours in str(refused.value)
    else:
        if ours == "bootstrap.servers":
            del given["bootstrap.servers"]
        assert kind.parse(given)


def test_what_only_kafka_python_has_is_refused_with_what_to_use() -> None:
    (text,) = re.findall(r"What only kafka-python has is refused with what to use, such as(.*?)\.", PAGE, re.S)
    names = re.findall(r"`(\w+)`", text)
    assert len(names) == 4
    for name in names:
        assert name in kafka.KafkaProducer.DEFAULT_CONFIG
        with pytest.raises(ConfigError, match=rf"'{name}'.*(: |; )."):
            ProducerConfig.parse({"bootstrap.servers": "h:1", name: kafka.KafkaProducer.DEFAULT_CONFIG[name]})


def test_the_partitioner_on_the_page_is_the_default_of_librdkafka() -> None:
    names: dict[str, object] = {}
    exec(re.findall(r"(def consistent_random.*?)\n\n", PAGE, re.S)[0], {"crc32": crc32}, names)
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


NO_METHODS_FOR_PROGRAMS = {"max_usable_produce_magic"}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (confluent_kafka.Producer, lv.KafkaProducer),
        (confluent_kafka.Consumer, lv.KafkaConsumer),
        (confluent_kafka.ShareConsumer, lv.KafkaShareConsumer),
        (confluent_kafka.Message, lv.ConsumerRecord),
        (confluent_kafka.admin.AdminClient, lv.KafkaAdmin),
        (confluent_kafka.aio.AIOProducer, aio.KafkaProducer),
        (confluent_kafka.aio.AIOConsumer, aio.KafkaConsumer),
        (aiokafka.AIOKafkaProducer, aio.KafkaProducer),
        (aiokafka.AIOKafkaConsumer, aio.KafkaConsumer),
        (aiokafka.admin.AIOKafkaAdminClient, aio.KafkaAdmin),
        (kafka.KafkaProducer, lv.KafkaProducer),
        (kafka.KafkaConsumer, lv.KafkaConsumer),
        (kafka.admin.KafkaAdminClient, lv.KafkaAdmin),
    ],
    ids=lambda kind: f"{kind.__module__.partition('.')[0]}.{kind.__name__}",
)
def test_a_method_of_another_client_is_there_or_answered_with_what_to_use(theirs: type, ours: type) -> None:
    for name in dir(theirs):
        if not (name.startswith("_") or name.isupper() or name in NO_METHODS_FOR_PROGRAMS or hasattr(ours, name)):
            with pytest.raises(AttributeError, match=rf"{ours.__name__} has no {name}\(\): ."):
                getattr(ours, name)
