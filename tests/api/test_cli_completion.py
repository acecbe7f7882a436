"""What a shell completes: the protocols of bash, zsh and fish, with the words of a cluster."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import levada as lv
from cli_kit import Ran, run
from levada.cli import completing
from levada.testing import EmbeddedKafka


@pytest.fixture(autouse=True)
def without_hurry(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let a slow machine take its time."""
    if request.function not in (test_a_user_waits_for_less_than_a_second,):
        monkeypatch.setattr(completing, "TIME_LIMIT_S", 60)
        monkeypatch.setattr(completing, "QUICK", {})


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    with EmbeddedKafka() as kafka:
        with lv.KafkaAdmin(**kafka.client_settings) as admin:
            admin.create_topics([lv.NewTopic(name, 1) for name in ("orders", "orders-late", "payments")])
            admin.alter_consumer_group_offsets("settlement", {lv.TopicPartition("orders", 0): 0})
        yield kafka.bootstrap_servers


def asked(shell: str, line: str, **env: str) -> Ran:
    """Ask for completions of the last word of a line, as the script of this shell does."""
    words = line.split(" ")
    of_bash = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    of_others = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return run(env={"_LEVADA_COMPLETE": f"complete_{shell}", **(of_bash if shell == "bash" else of_others), **env})


def words(shell: str, line: str, **env: str) -> list[str]:
    ran = asked(shell, line, **env)
    assert (ran.code, ran.err) == (0, "")
    if shell == "zsh":
        found = "" if ran.text == "_files\n" else ran.text.removeprefix("_arguments '*: :((").removesuffix("))'\n").replace('"', "")
        return [word.partition(":")[0] for word in found.splitlines()]
    return [word.partition("\t")[0] for word in ran.lines if word]


SHELLS = ("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("levada consume ord", ["orders", "orders-late"]),
        ("levada consume -t pay", ["payments"]),
        ("levada consume orders -e pay", ["payments"]),
        ("levada produce ord", ["orders", "orders-late"]),
        ("levada scan p", ["payments"]),
        ("levada copy orders pay", ["payments"]),
        ("levada topics describe orders-", ["orders-late"]),
        ("levada topic rm orders-", ["orders-late"]),
        ("levada groups describe ", ["settlement"]),
        ("levada groups reset settlement -t pay", ["payments"]),
        ("levada consume orders -G s", ["settlement"]),
        ("levada consume orders -f j", ["json"]),
        ("levada produce orders -f ", ["arrow", "csv", "file", "json", "lines", "parquet"]),
        ("levada scan orders -f p", ["parquet"]),
        ("levada topics list -o j", ["json"]),
        ("levada topics del", ["delete", "delete-records"]),
        ("levada conf", ["configs"]),
    ],
)
def test_topics_groups_and_formats_are_completed(brokers: str, shell: str, line: str, completed: list[str]) -> None:
    assert words(shell, line, LEVADA_BROKERS=brokers) == completed


def test_options_on_the_line_count(brokers: str) -> None:
    assert words("bash", f"levada -b {brokers} consume orders-", LEVADA_BROKERS="localhost:1") == ["orders-late"]
    assert words("bash", f"levada consume -b {brokers} orders-") == ["orders-late"]
    assert words("bash", f"levada consume -X bootstrap.servers={brokers} orders-") == ["orders-late"]


def test_profiles_are_completed(tmp_path: Path, brokers: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f'[profiles.dev]\nbrokers = "{brokers}"\n[profiles.production]\nbrokers = "p:1"\n')
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert words("bash", "levada topics list --profile ", LEVADA_CONFIG=str(path)) == ["dev", "production"]
    assert words("bash", "levada copy a --to-profile p", LEVADA_CONFIG=str(path)) == ["production"]
    assert words("bash", "levada --profile dev consume orders-", LEVADA_CONFIG=str(path)) == ["orders-late"]


def test_internal_topics_are_completed_once_they_are_begun(brokers: str) -> None:
    assert not [word for word in words("bash", "levada consume ", LEVADA_BROKERS=brokers) if word.startswith("__")]
    assert "__consumer_offsets" in words("bash", "levada consume __", LEVADA_BROKERS=brokers)


@pytest.mark.parametrize("settings", [{}, {"LEVADA_BROKERS": "localhost:1"}, {"LEVADA_CONFIG": "/no/such/file", "LEVADA_PROFILE": "x"}])
def test_what_fails_completes_nothing_and_says_nothing(settings: dict[str, str]) -> None:
    for shell in SHELLS:
        assert words(shell, "levada consume ord", **settings) == []


def test_brokers_that_do_not_answer_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "TIME_LIMIT_S", 0.01)
    monkeypatch.setattr(completing, "QUICK", {"request.timeout.ms": 50, "default.api.timeout.ms": 50})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert words("bash", "levada consume ord", LEVADA_BROKERS=f"127.0.0.1:{silent.getsockname()[1]}") == []


def test_a_user_waits_for_less_than_a_second() -> None:
    assert completing.TIME_LIMIT_S < 1
    assert max(completing.QUICK.values()) < 1000
