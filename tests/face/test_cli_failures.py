"""What a user sees when a cluster cannot be reached or refuses: one message, an exit code, no traceback, and no secret."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_kit import Ran, done, run
from levada.cli.exits import Exit
from levada.testing import EmbeddedKafka

PASSWORD = "planted-secret"


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


@pytest.mark.parametrize("command", ["consume t -e", "scan t --to - -f jsonl", "copy t u", "perf latency t"])
def test_nobody_at_the_address(nobody: str, command: str) -> None:
    assert nobody in refused(run("-b", nobody, "-X", "default.api.timeout.ms=300", *command.split()), Exit.UNREACHABLE)


def test_records_for_nobody(nobody: str) -> None:
    told = refused(run("-b", nobody, "-X", "max.block.ms=300", "produce", "t", stdin=b"x\n"), Exit.UNREACHABLE)
    assert "levada: line 1: " in told
    assert nobody in told
    assert "0 records acknowledged, 1 failed" in told


def test_logins_from_a_profile_and_from_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    login = 'security.protocol = "SASL_PLAINTEXT"\nsasl.mechanism = "SCRAM-SHA-256"\nsasl.username = "alice"\n'
    with EmbeddedKafka(users={"alice": PASSWORD}) as kafka:
        kafka.create_topic("t")
        secret = f'sasl.password = {{ command = "echo {PASSWORD}" }}\n'
        config.write_text(f'[profiles.alice]\nbrokers = "{kafka.bootstrap_servers}"\n{login}{secret}')
        config.chmod(0o600)
        env = {"LEVADA_CONFIG": str(config), "LEVADA_PROFILE": "alice"}
        assert done("produce", "t", stdin=b"x\n", env=env).err == "levada: 1 records acknowledged\n"
        assert done("consume", "t", "-e", env=env).lines == ["x"]
        wrong = refused(run("consume", "t", "-e", "-vv", env={**env, "LEVADA_X_SASL_PASSWORD": f"not-{PASSWORD}"}), Exit.REFUSED)
        assert "SASL_AUTHENTICATION_FAILED" in wrong
