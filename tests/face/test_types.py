"""What type checkers know of the faces.

`make lint` has mypy read this module: an assert_type that does not hold is an error, and so is a `type: ignore` where nothing is wrong. The
functions under TYPE_CHECKING never run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import levada as lv
from levada import aio

if TYPE_CHECKING:

    def settings_have_names_and_types() -> None:
        lv.KafkaProducer(bootstrap_servers=["a:9092", ("b", 9092)], linger_ms=5, acks="all", compression_type="lz4")
        lv.KafkaProducer({"linger.ms": "5", "bootstrap.servers": "a:9092"}, client_id="dotted names and text come in a mapping")
        lv.KafkaProducer(linger_millis=5)  # type: ignore[call-arg]
        lv.KafkaProducer(linger_ms="5")  # type: ignore[arg-type]
        lv.KafkaProducer(compression_type="brotli")  # type: ignore[arg-type]
        lv.KafkaProducer(max_poll_records=5)  # type: ignore[call-arg]
        lv.KafkaConsumer(auto_offset_reset="earliest", max_poll_records=5, on_reset=print)
        lv.KafkaConsumer(auto_offset_reset="newest")  # type: ignore[arg-type]
        lv.KafkaConsumer(linger_ms=5)  # type: ignore[call-arg]
        lv.scan("orders", start="earliest", fetch_max_bytes=5)
        lv.scan("orders", fetch_max_byte=5)  # type: ignore[call-arg]
        lv.KafkaAdmin(retries=5)
        lv.KafkaClient(retries=5)  # type: ignore[call-arg]

    async def settings_have_names_and_types_on_asyncio() -> None:
        aio.KafkaProducer(linger_ms=5)
        aio.KafkaProducer(linger_millis=5)  # type: ignore[call-arg]
        aio.KafkaConsumer(max_poll_records="5")  # type: ignore[arg-type]
        aio.scan("orders", fetch_max_byte=5)  # type: ignore[call-arg]
        aio.KafkaAdmin(retries=5)
        aio.KafkaClient(retries=5)  # type: ignore[call-arg]


SETTINGS: list[tuple[Callable[..., Any], Callable[..., Any], str]] = [
    (lv.KafkaClient, aio.KafkaClient, "ClientSettings"),
    (lv.KafkaAdmin, aio.KafkaAdmin, "AdminSettings"),
    (lv.KafkaProducer, aio.KafkaProducer, "ProducerSettings"),
    (lv.KafkaConsumer, aio.KafkaConsumer, "ConsumerSettings"),
    (lv.scan, aio.scan, "ConsumerSettings"),
]


@pytest.mark.parametrize(("blocking", "asyncio", "settings"), SETTINGS)
def test_every_face_takes_the_settings_that_are_declared(blocking: Any, asyncio: Any, settings: str) -> None:
    for face in (blocking, asyncio):
        assert inspect.signature(face).parameters["settings"].annotation == f"Unpack[{settings}]", face
