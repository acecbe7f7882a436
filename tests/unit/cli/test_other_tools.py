"""Words of kcat, Kafka's scripts and rpk, answered with the command line of levada that does the same."""

from __future__ import annotations

import shlex
from random import Random

import pytest

from cli_kit import run
from levada.cli import other_tools
from levada.cli.application import COMMANDS, application, load
from levada.cli.exits import Exit
from levada.cli.other_tools import ALIASES, MODES, OF_EVERY_COMMAND, OPTIONS, PROGRAMS, VERBS


def answer(words: list[str]) -> str | None:
    return other_tools.answer(application(), words)


OF_KCAT = {
    "-L -b host:9092": "topics list -b host:9092",
    "-L -b host -t x": "topics describe x -b host",
    "-C -t x -o beginning -e": "consume -t x -o beginning -e",
    "-b h -t x -C -c5 -eq": "consume -b h -t x -c 5 -e",
    "-b h -t x": "consume -b h -t x",
    r"-Ct x -f '%k %s\n'": r"consume -t x -f '%k %s\n'",
    "-P -b h -t x -K:": "produce x -b h -K :",
    "-P -t x -l file.txt": "produce x file.txt",
    "-b h -G g x y": "consume -b h -G g x y",
    "kcat -C -t x": "consume -t x",
}
OF_KAFKA = {
    "consume --topic x --from-beginning --max-messages 5 --group g --bootstrap-server h:1": "consume --topic x -c 5 --group g -b h:1",
    "kafka-console-consumer.sh --topic x --property print.key=true": r"consume --topic x -K '\t'",
    "console-consumer --topic x --property print.key=true --property key.separator=:": "consume --topic x -K :",
    "console-consumer --include 'orders-.*' --bootstrap-server h:1": "consume '/orders-.*/' -b h:1",
    "console-producer --broker-list h:1 --topic x --property parse.key=true": r"produce x -b h:1 -K '\t'",
    "topics --list": "topics list",
    "--list --bootstrap-server h:1": "topics list -b h:1",
    "kafka-topics --create --topic x --partitions 3 --replication-factor 1": "topics create x --partitions 3 -r 1",
    "topics create x --partitions 3 --replication-factor 1": "topics create x --partitions 3 -r 1",
    "topics --alter --topic x --partitions 6": "topics add-partitions x --total 6",
    "topics --describe --topic x": "topics describe x",
    "--describe --group g": "groups describe g",
    "consumer-groups --bootstrap-server h:1 --describe --group g --members": "groups describe g -b h:1 --members",
    "groups --describe --all-groups": "groups describe",
    "groups --reset-offsets --group g --topic x --to-earliest --execute": "groups reset g --topic x --to start --execute",
    "groups reset g --to-earliest": "groups reset g --to start",
    "groups --reset-offsets --group g --all-topics --shift-by -10": "groups reset g --by -10",
    "configs --describe --entity-type topics --entity-name x": "configs describe topic x",
    "configs --alter --entity-type topics --entity-name x --add-config retention.ms=5": "configs set topic x retention.ms=5",
    "get-offsets --topic x --time -2": "topics offsets x --at start",
    "producer-perf-test --topic x --num-records 10 --record-size 100 --throughput 5": "perf produce x -n 10 -s 100 --rate 5",
}
OF_RPK = {
    "rpk topic list": "topics list",
    "topic consume orders -n 5 -o start": "consume orders -c 5 -o start",
    "consume orders -n 5": "consume orders -c 5",
    "topic consume -r 'orders-.*'": "consume '/orders-.*/'",
    "topic produce orders -k a": "produce orders -k a",
    "topic alter-config x --set a=b": "configs set topic x a=b",
    "group seek g --to start": "groups reset g --to start",
    "cluster metadata": "cluster info",
    "topics list --format json": "topics list -o json",
    "list": "topics list",
    "tail orders": "consume orders",
}


@pytest.mark.parametrize(("words", "ours"), {**OF_KCAT, **OF_KAFKA, **OF_RPK}.items())
def test_another_tools_words_are_answered_with_ours(words: str, ours: str) -> None:
    assert answer(shlex.split(words)) == f"levada {ours}"


@pytest.mark.parametrize("words", ["-C -t x", "consume x -n 5", "topics --list", "tail x"])
def test_the_answer_is_one_line_and_nothing_is_done(words: str) -> None:
    ran = run(*shlex.split(words), "-b", "localhost:1")
    assert (ran.code, ran.out) == (Exit.WRONG_USE, b"")
    [line] = ran.err.splitlines()
    assert line.endswith(f"Write: {answer([*shlex.split(words), '-b', 'localhost:1'])}")


@pytest.mark.parametrize("words", ["nosuch", "topics nosuch", "consume --nosuch", "consume x --partition y", "topics list", "-C --nosuch"])
def test_words_of_no_tool_are_not_answered(words: str) -> None:
    assert answer(shlex.split(words)) is None


def test_names_that_rpk_has_are_accepted() -> None:
    for words in (["topic", "ls"], ["group", "ls"], ["topic", "rm", "x", "-y"], ["topics", "ls"]):
        assert run(*words, "-b", "localhost:1").code == Exit.UNREACHABLE


def test_an_alias_is_no_name_of_ours() -> None:
    ours = {*COMMANDS, *(name for command in COMMANDS for name in getattr(load(command), "commands", ()))}
    assert not ours & ALIASES.keys()
    assert set(ALIASES.values()) <= ours


def test_whatever_is_typed_has_an_answer_or_none() -> None:
    random = Random(7)
    words = [*MODES, *VERBS, *PROGRAMS, *ALIASES, *COMMANDS, *(key.split()[0] for table in OPTIONS.values() for key in table), "x", "", "-"]
    words += [key.split()[0] for key in OF_EVERY_COMMAND]
    for _ in range(2000):
        line = random.choices(words, k=random.randint(0, 6))
        written = answer(line)
        assert written is None or written.startswith("levada "), line
