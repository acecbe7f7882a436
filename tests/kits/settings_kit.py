"""Components with the default settings, and what a test changes of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from levada.api.engine_setup import settings_for_engine, settings_for_selector
from levada.api.producing import settings_for_core, settings_for_sender
from levada.client.engine import Engine
from levada.client.metadata.metadata import Metadata
from levada.config import ConsumerConfig, ProducerConfig
from levada.consumer.fetch.fetch_cursor import ReadOptions
from levada.consumer.fetch.fetch_request import FetchSettings
from levada.consumer.settings import ConsumerSettings
from levada.net.selector import Selector
from levada.producer.append.partitioning import Partitioning
from levada.producer.send.sender import SenderSettings

SERVERS = {"bootstrap.servers": "kafka:9092"}
PRODUCER = ProducerConfig.parse(SERVERS)
CONSUMER = ConsumerSettings.of(ConsumerConfig.parse(SERVERS))
PLAIN_PARTITIONING = Partitioning(None, ignore_keys=False)


def new_engine(**given: Any) -> Engine:
    """An engine, by the names of Engine's parameters."""
    return Engine(**{"client_id": "tested", "log_fields": {}, **settings_for_engine(PRODUCER), **given})


def new_selector(**changed: Any) -> Selector:
    """Real sockets, by the names of Selector's parameters."""
    return Selector(**{**settings_for_selector(PRODUCER), **changed})


def new_metadata(*bootstrap: tuple[str, int], random: Random | None = None, **changed: Any) -> Metadata:
    """Metadata that knows only where to ask."""
    settings = settings_for_engine(PRODUCER)
    defaults = {
        "retry_backoff_ms": settings["retry_backoff_ms"],
        "retry_backoff_max_ms": settings["retry_backoff_max_ms"],
        "max_age_ms": settings["metadata_max_age_ms"],
        "max_idle_ms": settings["metadata_max_idle_ms"],
        "allow_auto_create_topics": settings["allow_auto_create_topics"],
    }
    return Metadata(bootstrap or [("b", 9092)], random or Random(0), **{**defaults, **changed})


def read_options(**changed: Any) -> ReadOptions:
    """How fetched data is read."""
    return replace(CONSUMER.read, **changed)


def fetch_settings(**changed: Any) -> FetchSettings:
    """How much is fetched."""
    return replace(CONSUMER.fetch, **changed)


def sender_settings(**changed: Any) -> SenderSettings:
    """What the Sender is told."""
    return settings_for_sender(PRODUCER)._replace(**changed)


def producer_settings(**changed: Any) -> dict[str, Any]:
    """What a ProducerCore is made with, by the names of its parameters."""
    return {**settings_for_core(PRODUCER), **changed}
