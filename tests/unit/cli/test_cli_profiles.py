"""Settings of the command line: profiles, secrets, the environment, and which of them counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from levada.cli.profiles import config_path, read_profile
from levada.cli.settings import settings_of
from levada.config import AdminConfig, ConsumerConfig, ProducerConfig, RegistryConfig
from levada.errors import ConfigError

Write = Callable[[str], Path]


@pytest.fixture
def config(tmp_path: Path) -> Write:
    """Write the configuration file, for its owner only."""

    def write(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write


def test_a_profile_has_settings_under_kafkas_names(config: Write) -> None:
    path = config(
        '[profiles.dev]\nbrokers = "b:1"\nsecurity.protocol = "SSL"\n"linger.ms" = 5\nenable.auto.commit = false\noutput = "json"\n'
    )
    profile = read_profile(path, "dev")
    assert profile.settings == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "linger.ms": 5,
        "enable.auto.commit": "false",
    }
    assert profile.output == "json"


def test_brokers_without_a_port_have_the_usual_one() -> None:
    settings = settings_of({}, brokers="localhost,[::1]:9093", options=(), profile=None).of(AdminConfig)
    assert AdminConfig.parse(settings).bootstrap_servers == (("localhost", 9092), ("::1", 9093))


def test_default_names_the_profile_that_is_used_without_a_name(config: Write) -> None:
    path = config('default = "b"\n[profiles.a]\nbrokers = "a:1"\n[profiles.b]\nbrokers = "b:1"\n')
    assert read_profile(path, None).settings["bootstrap.servers"] == "b:1"
    assert read_profile(path, "a").settings["bootstrap.servers"] == "a:1"


def test_without_a_file_there_is_no_profile(tmp_path: Path) -> None:
    missing = tmp_path / "no.toml"
    assert read_profile(missing, None).settings == {}
    with pytest.raises(ConfigError, match=r"no profile 'dev': .*no\.toml does not exist"):
        read_profile(missing, "dev")


def test_mistakes_in_the_file_are_named(config: Write) -> None:
    with pytest.raises(ConfigError, match="did you mean 'production'"):
        read_profile(config('[profiles.production]\nbrokers = "a:1"\n'), "prodution")
    with pytest.raises(ConfigError, match=r"no profile 'devv', which `default = \"devv\"` in this file names; did you mean 'dev'"):
        read_profile(config('default = "devv"\n[profiles.dev]\n'), None)
    with pytest.raises(ConfigError, match=r"profile 'dev' of .*: sasl.password: .* got 'comand'; did you mean 'command'"):
        read_profile(config('[profiles.dev]\nsasl.password = { comand = "x" }\n'), "dev")
    with pytest.raises(ConfigError, match="this is not TOML"):
        read_profile(config("[profiles"), "dev")
    with pytest.raises(ConfigError, match="unknown key 'profile'; did you mean 'profiles'"):
        read_profile(config("[profile.dev]\n"), "dev")
    with pytest.raises(ConfigError, match="a profile is a table"):
        read_profile(config("[profiles]\ndev = 1\n"), "dev")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("profiles = 5\n", "a profile is a table"),
        ('default = ["a"]\n[profiles.a]\n', "default is the name of a profile"),
        (f"a = {'[' * 100_000}", "nested too deeply"),
        (f'default = "a"\n[profiles.a]\n{".".join("a" * 5000)} = 1\n', "nested too deeply"),
        ('default = "a"\n[profiles.a]\noutput = 5\n', "output is one of table, json, yaml; got 5"),
        ('default = "a"\n[profiles.a]\noutput = ["json"]\n', r"output is one of .* got \['json'\]"),
    ],
    ids=["profiles", "default", "lists", "tables", "output a number", "output a list"],
)
def test_values_of_other_types_are_mistakes_too(config: Write, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        settings_of({"LEVADA_CONFIG": str(config(text))}, brokers=None, options=(), profile=None)


def test_secrets_come_from_files_commands_and_the_environment(config: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from file\n")
    secret.chmod(0o600)
    monkeypatch.setenv("A_SECRET", "from environment\n")
    path = config(
        f'[profiles.dev]\nsasl.password = {{ file = "{secret}" }}\nssl.key.password = {{ command = "echo from command" }}\n'
        'sasl.username = { env = "A_SECRET" }\nssl.key.location = { command = ["printf", "%s", "a b"] }\n'
    )
    assert read_profile(path, "dev").settings == {
        "sasl.password": "from file",
        "ssl.key.password": "from command",
        "sasl.username": "from environment",
        "ssl.key.location": "a b",
    }


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ('{ file = "no-such-file" }', "no-such-file does not exist"),
        ('{ command = "false" }', "ended with exit code 1"),
        ('{ command = "no-such-command" }', "could not be run"),
        ('{ command = "" }', "could not be run"),
        ('{ env = "NO_SUCH_VARIABLE" }', "NO_SUCH_VARIABLE is not set"),
        ("{ command = 5 }", "a command is text or a list of words, not int"),
        ("""{ command = "pass 'it" }""", "cannot be split into words: No closing quotation"),
        (r'{ command = ["a\u0000b"] }', "could not be run: embedded null byte"),
        (r'{ file = "a\u0000b" }', "is not a file name"),
        ('{ file = "~no-such-user/x" }', "home directory in ~no-such-user/x is not known"),
    ],
)
def test_a_secret_that_cannot_be_had_is_named_with_its_setting(config: Write, value: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=f"profile 'dev' of .*: sasl.password: .*{fault}"):
        read_profile(config(f"[profiles.dev]\nsasl.password = {value}\n"), "dev")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of another kind")
class TestOthers:
    def test_M_D12_a_secret_that_others_can_read_or_write_is_refused(self, config: Write, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("hunter2")
        path = config(f'[profiles.dev]\nsasl.password = {{ file = "{secret}" }}\n')
        for mode, fault in ((0o640, "can be read by others"), (0o604, "can be read"), (0o620, "can be written"), (0o602, "can be written")):
            secret.chmod(mode)
            with pytest.raises(ConfigError, match=fault) as refused:
                read_profile(path, "dev")
            assert "chmod" in str(refused.value)
            assert "hunter2" not in str(refused.value)
        secret.chmod(0o400)
        assert read_profile(path, "dev").settings["sasl.password"] == "hunter2"

    def test_M_D12_a_configuration_file_that_others_can_write_is_refused(self, config: Write) -> None:
        path = config('[profiles.dev]\nbrokers = "a:1"\n')
        path.chmod(0o664)
        with pytest.raises(ConfigError, match=r"can be written by others .mode 664.; run: chmod go-w"):
            read_profile(path, "dev")

    def test_M_D12_a_configuration_file_with_a_secret_in_it_is_for_its_owner_only(self, config: Write) -> None:
        path = config('[profiles.dev]\nbrokers = "a:1"\n[profiles.secret]\nsasl.password = "hunter2"\n')
        path.chmod(0o644)
        assert read_profile(path, "dev").settings == {"bootstrap.servers": "a:1"}
        with pytest.raises(ConfigError, match=r"which contains sasl\.password, can be read by others .*chmod 600"):
            read_profile(path, "secret")
        path = config('[profiles.secret]\nsasl_password = "hunter2"\n')
        path.chmod(0o644)
        with pytest.raises(ConfigError, match=r"which contains sasl_password, can be read by others"):
            read_profile(path, "secret")

    def test_M_D12_no_fifo_and_no_folder_that_all_can_write(self, config: Write, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo, 0o600)
        with pytest.raises(ConfigError, match="not a regular file"):
            read_profile(config(f'[profiles.dev]\nsasl.password = {{ file = "{fifo}" }}\n'), "dev")
        folder = tmp_path / "open"
        folder.mkdir()
        (folder / "secret").write_text("hunter2")
        (folder / "secret").chmod(0o600)
        folder.chmod(0o777)
        with pytest.raises(ConfigError, match="a folder that everybody can write to"):
            read_profile(config(f'[profiles.dev]\nsasl.password = {{ file = "{folder / "secret"}" }}\n'), "dev")
        folder.chmod(0o1777)
        assert read_profile(tmp_path / "config.toml", "dev").settings == {"sasl.password": "hunter2"}

    def test_M_D12_a_file_of_another_user_is_refused(self, config: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        path = config('[profiles.dev]\nbrokers = "a:1"\n')
        os.chown(path, 12345, -1) if os.getuid() == 0 else monkeypatch.setattr(os, "getuid", lambda: 54321)
        with pytest.raises(ConfigError, match="belongs to another user"):
            read_profile(path, "dev")


def test_the_command_line_counts_before_the_environment_and_that_before_the_profile(config: Write) -> None:
    path = config('[profiles.dev]\nbrokers = "profile:1"\nlinger.ms = 1\nbatch.size = 1\nacks = "1"\n')
    environment = {"LEVADA_CONFIG": str(path), "LEVADA_X_LINGER_MS": "2", "LEVADA_X_BATCH_SIZE": "2", "LEVADA_BROKERS": "environment:2"}
    settings = settings_of(environment, brokers=None, options=["linger.ms=3"], profile="dev")
    assert settings.of(ProducerConfig) == {
        "client.id": "levada-cli",
        "bootstrap.servers": "environment:2",
        "linger.ms": "3",
        "batch.size": "2",
        "acks": "1",
    }
    assert settings_of(environment, brokers="given:3", options=[], profile="dev").of(AdminConfig)["bootstrap.servers"] == "given:3"


def test_a_setting_of_other_clients_is_left_out_and_one_of_none_is_an_error() -> None:
    given = ["bootstrap.servers=b:1", "fetch.min.bytes=1", "schema.registry.url=http://r:1"]
    settings = settings_of({}, brokers=None, options=given, profile=None)
    assert "fetch.min.bytes" in settings.of(ConsumerConfig)
    assert "fetch.min.bytes" not in settings.of(ProducerConfig)
    assert settings.of(RegistryConfig, needs_brokers=False)["schema.registry.url"] == "http://r:1"
    with pytest.raises(ConfigError, match=r"-X: unknown option 'linger\.mss'; did you mean 'linger\.ms'"):
        settings_of({}, brokers="b:1", options=["linger.mss=1"], profile=None).of(AdminConfig)
    with pytest.raises(ConfigError, match=r"LEVADA_X_LINGER_MSS: unknown option"):
        settings_of({"LEVADA_X_LINGER_MSS": "1"}, brokers="b:1", options=[], profile=None).of(AdminConfig)


def test_names_of_other_clients_are_understood() -> None:
    settings = settings_of({}, brokers=None, options=["metadata.broker.list=b:1"], profile=None)
    assert settings.of(ConsumerConfig)["bootstrap.servers"] == "b:1"


def test_what_is_wrong_with_the_command_line_says_what_to_write() -> None:
    with pytest.raises(ConfigError, match="expected KEY=VALUE"):
        settings_of({}, brokers=None, options=["linger.ms"], profile=None)
    with pytest.raises(ConfigError, match="give -b host:9092"):
        settings_of({}, brokers=None, options=[], profile=None).of(ConsumerConfig)
    with pytest.raises(ConfigError, match="LEVADA_OUTPUT: output is one of table, json, yaml; got 'jsn'; did you mean 'json'"):
        settings_of({"LEVADA_OUTPUT": "jsn"}, brokers=None, options=[], profile=None)


def test_the_file_is_where_the_system_keeps_such(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert config_path({}) == tmp_path / ".config" / "levada" / "config.toml"
    assert config_path({"XDG_CONFIG_HOME": "xdg"}) == Path("xdg/levada/config.toml")
    assert config_path({"XDG_CONFIG_HOME": "xdg", "LEVADA_CONFIG": "own.toml"}) == Path("own.toml")
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home directory")))
    with pytest.raises(ConfigError, match="set HOME"):
        config_path({})
