"""Components with the default settings, and what a test changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from levada.api.engine_setup import settings_for_engine, settings_for_selector
from levada.client.engine import Engine
from levada.client.metadata.metadata import Metadata
from levada.config import ConsumerConfig, ProducerConfig
from levada.consumer.fetch.fetch_cursor import ReadOptions
from levada.consumer.fetch.fetch_request import FetchSettings
from levada.consumer.settings import ConsumerSettings
from levada.net.selectable import Selectable
from levada.net.selector import Selector
from levada.producer.append.partitioning import Partitioning
from levada.producer.append.record_accumulator import AccumulatorSettings
from levada.producer.send.sender import SenderSettings
from levada.producer.settings import ProducerSettings

SERVERS = {"bootstrap.servers": "kafka:9092"}
PRODUCER = ProducerConfig.parse(SERVERS)
ENGINE = settings_for_engine(PRODUCER, "tested")
CONSUMER = ConsumerSettings.of(ConsumerConfig.parse(SERVERS))
PLAIN_PARTITIONING = Partitioning(None, ignore_keys=False)


def new_engine(*, selectable: Selectable, random: Random, log_fields: Mapping[str, Any] | None = None, **settings: Any) -> Engine:
    """An engine. settings: what is not as in EngineSettings of a producer."""
    return Engine(replace(ENGINE, **settings), selectable=selectable, random=random, log_fields=log_fields or {})


def new_selector(**changed: Any) -> Selector:
    """Real sockets, by the names of Selector's parameters."""
    return Selector(**{**settings_for_selector(PRODUCER), **changed})


def new_metadata(*bootstrap: tuple[str, int], random: Random | None = None, **changed: Any) -> Metadata:
    """Metadata that knows only where to ask."""
    defaults = {
        "retry_backoff_ms": ENGINE.retry_backoff_ms,
        "retry_backoff_max_ms": ENGINE.retry_backoff_max_ms,
        "max_age_ms": ENGINE.metadata_max_age_ms,
        "max_idle_ms": ENGINE.metadata_max_idle_ms,
        "allow_auto_create_topics": ENGINE.allow_auto_create_topics,
    }
    return Metadata(bootstrap or [("b", 9092)], random or Random(0), **{**defaults, **changed})


def read_options(**changed: Any) -> ReadOptions:
    """How fetched data is read."""
    return replace(CONSUMER.read, **changed)


def fetch_settings(**changed: Any) -> FetchSettings:
    """How much is fetched."""
    return replace(CONSUMER.fetch, **changed)


def producer_settings(**changed: Any) -> ProducerSettings:
    """The settings of a ProducerCore. changed: fields of ProducerSettings, AccumulatorSettings and SenderSettings by name."""
    default = ProducerSettings.of(PRODUCER)
    accumulator = {name: changed[name] for name in AccumulatorSettings._fields if name in changed}
    sender = {name: changed[name] for name in SenderSettings._fields if name in changed}
    own = {name: value for name, value in changed.items() if name not in accumulator.keys() | sender.keys()}
    return replace(default, accumulator=default.accumulator._replace(**accumulator), sender=default.sender._replace(**sender), **own)
