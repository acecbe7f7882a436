"""No value of an option is looked up, imported, evaluated or expanded."""

from __future__ import annotations

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
