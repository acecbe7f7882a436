"""No value of an option is looked up, imported, evaluated or expanded."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from levada.config import AdminConfig, ConsumerConfig, ProducerConfig
from levada.errors import ConfigError

SERVERS = {"bootstrap.servers": "localhost:9092"}
CONFIGS = (ProducerConfig, ConsumerConfig, AdminConfig)
CALLABLES = [
    (ProducerConfig, "partitioner"),
    (ProducerConfig, "key.serializer"),
    (ProducerConfig, "value.serializer"),
    (ConsumerConfig, "key.deserializer"),
    (ConsumerConfig, "value.deserializer"),
]


@pytest.mark.parametrize(("config", "option"), CALLABLES)
@pytest.mark.parametrize("name", ["os.system", "levada.serialization", "__import__('os').getcwd"])
def test_M_D10_a_callable_is_not_looked_up_by_its_name(config: Any, option: str, name: str) -> None:
    with pytest.raises(ConfigError, match=option):
        config.parse({**SERVERS, option: name})


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("text", ["${env:HOME}", "${file:/etc/passwd:root}", "$HOME", "%(asctime)s", "{0.__class__}"])
def test_M_D10_text_is_taken_as_it_stands(config: Any, text: str) -> None:
    assert config.parse({**SERVERS, "client.id": text}).client_id == text


OF_OBJECTS = [
    (config, name)
    for config in CONFIGS
    for name, option in config.OPTIONS.items()
    if option.kind in ("callable", "list", "ssl.SSLContext") and not isinstance(option.default, str) and "str" not in option.annotation
]


@pytest.mark.parametrize(("config", "option"), OF_OBJECTS)
def test_M_D10_what_is_no_text_cannot_be_given_as_text(config: Any, option: str) -> None:
    with pytest.raises(ConfigError):
        config.parse({**SERVERS, option: "os.system"})


@pytest.mark.parametrize("config", CONFIGS)
def test_M_D10_no_value_of_any_option_is_imported_read_or_expanded(config: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hostile.py").write_text("raise SystemExit('imported')")
    (tmp_path / "read.txt").write_text("content")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PLANTED", "expanded")
    before = set(sys.modules)
    for name in config.OPTIONS:
        for value in ("hostile", "hostile:run", "hostile.run", "${env:PLANTED}", "$PLANTED", f"${{file:{tmp_path}/read.txt}}"):
            try:
                found = repr(config.parse({**SERVERS, name: value}))
            except ConfigError as error:
                found = str(error)
            assert "expanded" not in found
            assert "content'" not in found
    assert "hostile" not in set(sys.modules) - before


@pytest.mark.parametrize(
    "option", ["sasl.login.callback.handler.class", "sasl.client.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class"]
)
def test_M_D10_a_class_of_java_is_a_word_and_nothing_else(option: str) -> None:
    with pytest.raises(ConfigError, match="no class is loaded; known by name are"):
        AdminConfig.parse({**SERVERS, option: "com.sun.security.auth.module.JndiLoginModule"})
