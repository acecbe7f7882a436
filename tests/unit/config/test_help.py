"""help() of every client shows its settings."""

from __future__ import annotations

import pydoc
from typing import Any

import pytest

import levada as lv
import levada.aio
from levada.config import ConsumerConfig, ProducerConfig
from levada.config.base import Config
from levada.config.client import AdminConfig, ClientConfig
from levada.config.registry import JSONSerializerConfig, RegistryConfig, SerializerConfig
from levada.config.share_consumer import ShareConsumerConfig
from levada.registry import AvroSerializer, JSONSerializer, ProtobufSerializer, SchemaRegistryClient

CLIENTS: list[tuple[type[Any], type[Config]]] = [
    (lv.KafkaClient, ClientConfig),
    (lv.KafkaProducer, ProducerConfig),
    (lv.KafkaConsumer, ConsumerConfig),
    (lv.KafkaShareConsumer, ShareConsumerConfig),
    (lv.KafkaAdmin, AdminConfig),
    (levada.aio.KafkaClient, ClientConfig),
    (levada.aio.KafkaProducer, ProducerConfig),
    (levada.aio.KafkaConsumer, ConsumerConfig),
    (levada.aio.KafkaShareConsumer, ShareConsumerConfig),
    (levada.aio.KafkaAdmin, AdminConfig),
    (SchemaRegistryClient, RegistryConfig),
    (AvroSerializer, SerializerConfig),
    (ProtobufSerializer, SerializerConfig),
    (JSONSerializer, JSONSerializerConfig),
]


@pytest.mark.parametrize(("client", "config"), CLIENTS, ids=[f"{client.__module__}.{client.__name__}" for client, _ in CLIENTS])
def test_help_shows_every_setting(client: type[Any], config: type[Config]) -> None:
    shown = pydoc.plain(pydoc.render_doc(client))
    words = " ".join(shown.replace("|", " ").split())
    for name, option in config.OPTIONS.items():
        assert f"{name.replace('.', '_')}: {option.kind}" in words
        assert " ".join(option.doc.split()) in words


def test_help_shows_defaults_and_bounds() -> None:
    shown = lv.KafkaProducer.__init__.__doc__ or ""
    assert "\nbuffer_memory: int (bytes); default 33554432; 0 .. 2^63-1\n    " in shown
    assert "\nbootstrap_servers: list; required; host[:port], ...\n" in shown
    assert max(len(line) for line in shown.splitlines() if line.startswith(" ")) < 110
    assert shown.index("\nsasl_mechanism:") > shown.index("\nvalue_serializer:"), "what only secured clusters need comes last"
