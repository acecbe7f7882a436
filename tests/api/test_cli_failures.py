"""What a user sees when a cluster cannot be reached or refuses: one message, an exit code, no traceback, and no secret."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from cli_kit import Ran, done, run, started
from invalid_peers import closed_port
from levada.cli.commands import perf
from levada.cli.exits import Exit
from levada.cli.outcomes import failures_told_once
from levada.testing import Authority, EmbeddedKafka

PASSWORD = "planted-secret"


@pytest.fixture(scope="module")
def tls() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(security="SSL") as kafka:
        yield kafka


@pytest.fixture(scope="module")
def logins() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users={"alice": PASSWORD}) as kafka:
        yield kafka


def options(settings: Mapping[str, Any]) -> list[str]:
    """The settings of a client as -X."""
    return [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody listens, and which nobody else gets."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def refused(ran: Ran, code: Exit) -> str:
    assert (ran.code, ran.out) == (code, b""), ran.err
    assert "Traceback" not in ran.err
    assert PASSWORD not in ran.err
    return ran.err


COMMANDS = (
    "produce t",
    "consume t",
    "consume t -G g",
    "scan t --to - -f jsonl",
    "copy t u",
    "perf produce t -n 1",
    "perf consume t",
    "perf latency t",
    "topics list",
    "groups describe",
    "top --once",
)
LONG = ("-X", "default.api.timeout.ms=600000", "-X", "max.block.ms=600000")
"""The test's own limit is over before a command that waits ends."""


@pytest.mark.parametrize("command", COMMANDS)
def test_nobody_at_the_address(nobody: str, command: str) -> None:
    told = refused(run("-b", nobody, *LONG, *command.split(), stdin=b"x\n"), Exit.UNREACHABLE)
    assert told.splitlines() == [
        "levada: no broker could be reached",
        f"  {nobody}  connection refused: nothing listens there; is the broker up, and is the port right?",
        "levada: --wait waits for brokers that are still starting",
    ]


@pytest.mark.parametrize("command", ["consume t -e", "topics list"])
def test_nobody_at_the_address_is_waited_for_where_that_is_asked_for(nobody: str, command: str) -> None:
    told = refused(run("-b", nobody, "--wait", "-X", "default.api.timeout.ms=300", *command.split()), Exit.UNREACHABLE)
    assert "no broker could be reached within 0.3 s; " in told
    assert f"\n  {nobody}  connection refused" in told
    assert "--wait" not in told


def test_a_broker_that_is_starting_is_waited_for() -> None:
    address = closed_port()
    with started("-b", address, "--wait", "topics", "list", "-o", "json") as waiting:
        assert waiting.stderr is not None
        assert b"connection refused" in waiting.stderr.readline()
        with EmbeddedKafka(port=int(address.rpartition(":")[2])):
            out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (Exit.DONE, b"[]\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_certificate_that_is_not_trusted_ends_it_and_is_told_once(tls: EmbeddedKafka, command: str) -> None:
    settings = {**tls.client_settings, **Authority().trust()}
    told = refused(run(*options(settings), *LONG, *command.split(), stdin=b"x\n"), Exit.REFUSED)
    (line,) = told.splitlines()
    assert line.startswith(f"levada: {tls.bootstrap_servers}: its certificate is not accepted")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_password_ends_it_and_is_told_once(logins: EmbeddedKafka, command: str) -> None:
    settings = {**logins.client_settings, "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice", "sasl_password": f"not-{PASSWORD}"}
    told = refused(run(*options(settings), *LONG, *command.split(), stdin=b"x\n"), Exit.REFUSED)
    (line,) = told.splitlines()
    assert "SASL_AUTHENTICATION_FAILED" in line


@pytest.mark.parametrize("command", ["produce t", "consume t", "consume t -G g", "topics list"])
@pytest.mark.parametrize(
    ("protocol", "cause"), [("SSL", "it closed the connection during the TLS handshake"), ("PLAINTEXT", "does this listener want a login")]
)
def test_a_listener_of_another_kind_ends_it(logins: EmbeddedKafka, protocol: str, cause: str, command: str) -> None:
    settings = {"bootstrap_servers": logins.bootstrap_servers, "security_protocol": protocol}
    told = refused(run(*options(settings), *LONG, *command.split(), stdin=b"x\n"), Exit.UNREACHABLE)
    assert told.count(cause) == 1


def test_logins_from_a_profile_and_from_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    login = 'security.protocol = "SASL_PLAINTEXT"\nsasl.mechanism = "SCRAM-SHA-256"\nsasl.username = "alice"\n'
    with EmbeddedKafka(users={"alice": PASSWORD}) as kafka:
        kafka.create_topic("t")
        secret = f'sasl.password = {{ command = "echo {PASSWORD}" }}\n'
        config.write_text(f'[profiles.alice]\nbrokers = "{kafka.bootstrap_servers}"\n{login}{secret}')
        config.chmod(0o600)
        env = {"LEVADA_CONFIG": str(config), "LEVADA_PROFILE": "alice"}
        assert done("produce", "t", stdin=b"x\n", env=env).err == "levada: 1 record acknowledged\n"
        assert done("consume", "t", "-e", env=env).lines == ["x"]
        wrong = refused(run("consume", "t", "-e", "-vv", env={**env, "LEVADA_X_SASL_PASSWORD": f"not-{PASSWORD}"}), Exit.REFUSED)
        assert "SASL_AUTHENTICATION_FAILED" in wrong


def test_a_registry_that_is_down_is_reported_soon(nobody: str) -> None:
    url = f"schema.registry.url=http://{nobody}"
    told = refused(run("registry", "subjects", "-X", url), Exit.UNREACHABLE)
    assert told == f"levada: list subjects: no address of the registry answered (2 attempts each)\n  http://{nobody}  connection refused\n"
    assert "(3 attempts each)" in run("registry", "subjects", "-X", url, "-X", "max.retries=2", "-X", "retries.wait.ms=1").err
    assert "(4 attempts each)" in run("registry", "subjects", "-X", url, "--wait", "-X", "retries.wait.ms=1").err


@pytest.fixture(scope="module")
def small() -> Iterator[EmbeddedKafka]:
    """A broker with a topic that takes only small records, and one with large ones."""
    with EmbeddedKafka(num_partitions=1) as kafka:
        kafka.create_topic("small", config={"max.message.bytes": "500"})
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send_many("large", [bytes(1000)] * 3)
        yield kafka


@pytest.mark.parametrize(
    "command",
    [
        "perf produce small -s 1000 -n 20",
        "perf produce small -s 1000 -n 3 --columns",
        "perf latency small -s 1000 -n 1",
        "copy large small",
    ],
)
def test_records_that_a_broker_refuses_are_told_of_once(small: EmbeddedKafka, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "MOST_SAMPLES", 1)
    told = refused(run("-b", small.bootstrap_servers, *command.split()), Exit.FAILED)
    assert told.count("MESSAGE_TOO_LARGE") == 1
    assert told.splitlines()[0].startswith("levada: small-0: ")


def test_failures_that_no_error_tells_of_are_told_of(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("levada"), "handlers", [caplog.handler])
    monkeypatch.setattr(logging.getLogger("levada"), "propagate", False)
    log = logging.getLogger("levada.producer")
    with failures_told_once():
        log.warning("%s", "2 records failed and were not asked about")
        log.warning("another line")
    assert [line.getMessage() for line in caplog.records] == ["another line", "2 records failed and were not asked about"]


@pytest.mark.parametrize("command", ["copy large made --create", "perf produce made --columns"])
def test_nothing_is_created_for_a_command_that_lacks_pyarrow(small: EmbeddedKafka, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ran = run("-b", small.bootstrap_servers, *command.split())
    assert (ran.code, ran.out) == (Exit.WRONG_USE, b"")
    assert "need pyarrow: pip install 'levada[arrow]'" in ran.err
    monkeypatch.undo()
    assert "made" not in done("-b", small.bootstrap_servers, "topics", "list").text
