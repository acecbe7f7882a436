"""The application: its help, its options, its errors and exit codes, without a broker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
import typer

from cli_kit import NO_SETTINGS, Ran, Terminal, done, logging_kept, piped, run
from levada.cli import application, entry, exits
from levada.cli.application import COMMANDS, load
from levada.cli.command import command
from levada.cli.exits import MEANINGS, CommandError, Exit, exit_of
from levada.cli.invocation import Invocation
from levada.config import AdminConfig
from levada.errors import (
    BootstrapError,
    ConfigError,
    CrashedError,
    KafkaError,
    SaslAuthenticationError,
    TimeoutError,
    TopicAuthorizationError,
)

app = typer.Typer()


@command(app)
def settings(run: Invocation) -> None:
    """Print the settings of an admin client."""
    run.show(run.settings.of(AdminConfig))


@pytest.fixture(autouse=True)
def with_a_command_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "COMMANDS", {**COMMANDS, "settings": application.Lazy(__name__, "Print settings.")})


def test_the_help_names_every_command() -> None:
    ran = done("--help")
    assert all(name in ran.text for name in COMMANDS)


@pytest.mark.parametrize("words", [[], ["--no-color"], ["topics"], ["-v", "topics"]])
def test_without_a_command_the_help_is_printed_and_nothing_was_done(words: list[str]) -> None:
    ran = run(*words)
    assert (ran.code, ran.err) == (Exit.WRONG_USE, "")
    assert ran.text.strip() == done(*words, "--help").text.strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_the_options_of_all(name: str) -> None:
    assert load(name).help
    text = done(name, "--help").text
    assert "--brokers" in text or "COMMAND" in text


JARGON = re.compile(r"\b(str|int|bool|float|list\[|dict|None|iterable|tuple|kwargs|True|False|regex|UTF8|args|enum|Path)\b")


def helps(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from helps(below, *words, name)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_has_words_of_python(name: str) -> None:
    for words in helps(load(name), name):
        assert not JARGON.search(text := done(*words, "--help", env={"COLUMNS": "300"}).text), text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["topics", "list", "-o", "xml"], "'-o' / '--output': 'xml' is not one of 'table', 'json', 'yaml'."),
        (["consume", "x", "-c", "0"], "'-c' / '--count': expected at least 1"),
        (["consume", "x", "-c", "many"], "'-c' / '--count': expected a whole number"),
        (["consume", "x", "-c", "1.5"], "'-c' / '--count': expected a whole number"),
        (["produce", "x", "--rate", "fast"], "'--rate': expected a number"),
        (["top", "--port", "100000"], "'--port': expected at most 65535"),
    ],
)
def test_a_wrong_value_is_told_in_plain_words(words: list[str], text: str) -> None:
    assert failed(run(*words, "-b", "h:1"), Exit.WRONG_USE).splitlines()[0] == f"levada: Invalid value for {text}"


def test_the_version() -> None:
    import levada

    assert done("--version").text == f"{levada.__version__}\n"


LOADED = "import sys; from levada.cli.entry import main; main(['--help']); print(*sorted(sys.modules), file=sys.stderr)"


def test_help_loads_neither_pyarrow_nor_a_client() -> None:
    loaded = set(subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stderr.split())
    ours = {name for name in loaded if name.startswith("levada.")}
    assert not loaded & {"pyarrow", "yaml", "asyncio", "socket"}
    assert not {name for name in ours if name.split(".")[1] in ("client", "config", "consumer", "api", "net", "producer", "sync")}
    assert not {name for name in ours if name.startswith("levada.cli.commands")}


def test_without_the_extra_one_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None; from levada.cli.entry import main; sys.exit(main(['--help']))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == Exit.WRONG_USE
    assert ended.stderr == 'levada: the command line needs the package typer; run: pip install "levada[cli]"\n'


# The options of every command


def test_options_stand_before_the_command_or_after_it() -> None:
    for arguments in (["-b", "h:1", "-o", "json", "settings"], ["settings", "-b", "h:1", "-o", "json"]):
        assert done(*arguments).json() == {"client.id": "levada-cli", "bootstrap.servers": "h:1"}
    both = done("-b", "before:1", "-X", "client.id=x", "settings", "-b", "after:1", "-X", "retries=3", "-o", "json").json()
    assert both == {"client.id": "x", "bootstrap.servers": "after:1", "retries": "3"}


def test_settings_come_from_the_environment_and_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "levada" / "config.toml"
    path.parent.mkdir()
    path.write_text('[profiles.dev]\nbrokers = "dev:1"\nclient.id = "me"\noutput = "json"\n')
    path.chmod(0o600)
    found = done("settings", "--profile", "dev", env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert found.json() == {"bootstrap.servers": "dev:1", "client.id": "me"}
    env = {"XDG_CONFIG_HOME": str(tmp_path), "LEVADA_PROFILE": "dev", "LEVADA_OUTPUT": "yaml", "LEVADA_BROKERS": "env:1"}
    assert done("settings", env=env).text == "client.id: me\nbootstrap.servers: env:1\n"


def test_a_cluster_is_waited_for_15_s_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levada.KafkaAdmin", dict)
    with logging_kept():
        by_default, as_given = Invocation("h:1").admin(), Invocation("h:1", ["default_api_timeout_ms=9"]).admin()
    assert dict(by_default)["default.api.timeout.ms"] == 15_000  # type: ignore[call-overload]
    assert dict(as_given)["default.api.timeout.ms"] == "9"  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("settings", "wait", "waits"),
    [
        ([], False, False),
        ([], True, True),
        (["bootstrap.wait=true"], False, "true"),
        (["bootstrap.wait=false"], True, True),
    ],
)
def test_no_client_waits_for_brokers_unless_the_user_says_so(
    monkeypatch: pytest.MonkeyPatch, settings: list[str], wait: bool, waits: bool | str
) -> None:
    for client in ("KafkaAdmin", "KafkaProducer", "KafkaConsumer"):
        monkeypatch.setattr(f"levada.{client}", dict)
    monkeypatch.setattr("levada.scan", lambda topics, settings: settings)
    with logging_kept():
        here = Invocation("h:1", settings, wait=wait)
        made: list[Any] = [here.admin(), here.producer(), here.consumer(), here.scan("t")]
    assert [dict(settings)["bootstrap.wait"] for settings in made] == [waits] * 4


def test_clients_of_the_other_cluster_wait_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levada.KafkaAdmin", dict)
    with logging_kept():
        made: Any = Invocation("h:1", wait=True).of_cluster(None, "other:1").admin()
    assert made["bootstrap.wait"] is True


def with_an_offset(run: Invocation, offset: Annotated[str, typer.Option("-o", "--offset")] = "start") -> None:
    """Print the offset and the format."""
    print(offset, run.asked_format)


def test_a_command_keeps_its_own_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    own = typer.Typer()
    command(own)(with_an_offset)
    monkeypatch.setattr(sys.modules[__name__], "app", own)
    assert done("-b", "h:1", "settings", "-o", "end", "--output", "json").text == "end json\n"


# Mistakes


def failed(ran: Ran, code: Exit) -> str:
    assert ran.code == code
    assert ran.out == b""
    assert "Traceback" not in ran.err
    return ran.err


def test_mistakes_on_the_command_line_say_where_to_look() -> None:
    assert "Did you mean 'consume'" in failed(run("consum"), Exit.WRONG_USE)
    text = failed(run("settings", "--broker", "x"), Exit.WRONG_USE)
    assert "--broker" in text
    assert "see 'levada settings --help'" in text
    assert "expected KEY=VALUE" in failed(run("settings", "-X", "linger"), Exit.WRONG_USE)
    assert "no brokers are named: give -b" in failed(run("settings"), Exit.WRONG_USE)
    assert f"{NO_SETTINGS}/levada/config.toml does not exist" in failed(run("settings", "--profile", "x"), Exit.WRONG_USE)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), Exit.WRONG_USE),
        (BootstrapError("x", {}), Exit.UNREACHABLE),
        (SaslAuthenticationError("x"), Exit.REFUSED),
        (TopicAuthorizationError("x"), Exit.REFUSED),
        (TimeoutError("x"), Exit.TIMED_OUT),
        (KafkaError("x"), Exit.FAILED),
        (CrashedError("x", ValueError()), Exit.BUG),
        (CommandError("x", Exit.PARTLY), Exit.PARTLY),
        (FileNotFoundError(2, "No such file", "x.csv"), Exit.FAILED),
        (ImportError("columns need pyarrow"), Exit.WRONG_USE),
        (ModuleNotFoundError("x", name="levada.nowhere"), Exit.BUG),
        (KeyError("x"), Exit.BUG),
    ],
)
def test_an_error_has_its_exit_code(error: Exception, code: Exit) -> None:
    assert exit_of(error) is code


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Exit)


def test_only_a_bug_has_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.report(FileNotFoundError(2, "No such file", "x.csv")) is Exit.FAILED
    assert capsys.readouterr().err == "levada: x.csv: No such file\n"
    noted = KafkaError("one of two\x1b[2J failed")
    noted.add_note("topic a: no")
    assert exits.report(noted) is Exit.FAILED
    assert capsys.readouterr().err == "levada: one of two\\x1b[2J failed\nlevada: topic a: no\n"
    assert exits.report(KeyError("x")) is Exit.BUG
    assert "Traceback" not in capsys.readouterr().out


def test_ctrl_c_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: Invocation) -> None:
        """End as by Ctrl-C."""
        raise KeyboardInterrupt

    own = typer.Typer()
    command(own)(interrupted)
    monkeypatch.setattr(sys.modules[__name__], "app", own)
    ran = run("settings")
    assert (ran.code, ran.out, ran.err) == (Exit.INTERRUPTED, b"", "")


def test_a_reader_that_closes_the_pipe_is_no_error() -> None:
    program = "import sys\nfrom levada.cli.entry import main\nsys.stdin.read()\nsys.exit(main(['--help']))"
    started = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.close()
    _, err = started.communicate(b"", timeout=30)
    assert (started.returncode, err) == (Exit.OUTPUT_CLOSED, b"")


# Terminals


def test_colours_on_a_terminal_only_and_not_with_no_color() -> None:
    with Terminal("--help") as terminal:
        assert terminal.end() == 0
        assert b"\x1b[1" in terminal.raw
        assert "consume" in terminal.text
    with Terminal("--help", env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
        assert b"\x1b[3" not in terminal.raw
    assert b"\x1b" not in piped("--help").out


def test_output_is_json_in_a_pipe_too() -> None:
    assert json.loads(done("settings", "-b", "h:1", "-o", "json").out)["bootstrap.servers"] == "h:1"


def test_streams_that_the_caller_has_closed_fail_or_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    entry.open_missing_streams()
    opened = (sys.stdin, sys.stdout, sys.stderr)
    try:
        exits.say("dropped")
        with pytest.raises(OSError, match="Bad file descriptor"):
            sys.stdin.read()
        with pytest.raises(OSError, match="Bad file descriptor"):
            print("data", flush=True)
    finally:
        for stream in opened:
            with suppress(OSError):
                stream.close()


def test_an_exit_code_outlives_a_full_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(write=Mock(side_effect=OSError("No space left on device")))
    monkeypatch.setattr(sys, "stderr", full)
    with logging_kept():
        assert entry.main(["topics", "list", "-X", "no-equals-sign"]) == Exit.WRONG_USE
    assert full.write.called


@pytest.mark.parametrize(
    "line",
    [
        ["users", "list", ""],
        ["users", "tokens", "--owner", "alice"],
        ["users", "create-token", "--owner", "alice"],
        ["users", "create-token", "--renewer", ":alice"],
        ["transactions", "describe", ""],
        ["perf", "latency", ""],
    ],
    ids=" ".join,
)
def test_names_that_cannot_be_are_mistakes(line: list[str]) -> None:
    ran = run(*line, "-b", "localhost:1")
    assert (ran.code, ran.out) == (Exit.WRONG_USE, b"")
    assert "Traceback" not in ran.err


def test_a_password_that_is_no_text_is_a_mistake() -> None:
    ran = run("users", "set-password", "u", "-b", "localhost:1", stdin=b"\xff\n")
    assert (ran.code, ran.err) == (Exit.WRONG_USE, "levada: standard input is not text in UTF-8\n")


def test_a_mistake_and_where_to_look_are_two_lines() -> None:
    assert run("topics", "nosuch").err == "levada: No such command 'nosuch'.\nlevada: see 'levada topics --help'\n"
