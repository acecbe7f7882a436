"""The command lines of docs/howto/command-line.md run as they stand."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli_kit import Ran, done
from levada.cli.exits import Exit
from levada.cli.profiles import read_profile
from levada.cli.records.template import unescaped

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "command-line.md").read_text()


def test_the_command_lines_run_as_they_stand(embedded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    [lines] = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    embedded.create_topic("orders-of-one")
    monkeypatch.chdir(tmp_path)
    export, *commands = lines.strip().replace("localhost:9092", embedded.bootstrap_servers).splitlines()
    env = dict([export.removeprefix("export ").split("=")])
    ends = [piped_through(line, env) for line in commands]
    assert [end.text for end in ends[1:3]] == ["k1:first\nk2:second\n", "orders/0@1 k2=second \n"]
    assert [end.err for end in (ends[0], ends[3])] == ["levada: 2 records acknowledged\n", "levada: 1 record acknowledged\n"]
    assert all("records  2" in end.text for end in ends[4:6])
    assert (tmp_path / "orders.parquet").exists()


def piped_through(line: str, env: dict[str, str]) -> Ran:
    """Run what stands between the pipes of a line, one after the other, in this process; printf is all it knows of a shell."""
    ran = Ran(0, b"", "")
    for command in line.split(" | "):
        program, *words = shlex.split(command)
        if program == "printf":
            ran = Ran(0, unescaped(words[0]), "")
        else:
            ran = done(*words, stdin=ran.out, env=env)
    return ran


def test_the_profiles_can_be_read(tmp_path: Path) -> None:
    [indented] = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    path = tmp_path / "config.toml"
    path.write_text(
        "".join(line.removeprefix("  ") for line in indented.splitlines(keepends=True)).replace("pass show kafka/alice", "echo secret")
    )
    path.chmod(0o600)
    assert set(tomllib.loads(path.read_text())["profiles"]) == {"dev", "production"}
    assert read_profile(path, None).settings == {"bootstrap.servers": "localhost:9092"}
    assert read_profile(path, "production").settings["sasl.password"] == "secret"


def test_the_exit_codes_are_those_of_the_table() -> None:
    [told] = re.findall(r"\*\*Exit codes\*\*: (.*?)\. `produce`", PAGE, re.S)
    assert [int(code) for code in re.findall(r"(?:^|,\s)(\d+) ", told)] == [int(code) for code in Exit]
