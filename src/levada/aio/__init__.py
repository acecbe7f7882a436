"""The asyncio faces: the clients of `levada` with the same names, options and errors, to be awaited.

They run on the event loop of the task that makes them and start no thread, except where the loop cannot watch a file descriptor.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levada.aio.admin import KafkaAdmin
    from levada.aio.client import KafkaClient
    from levada.aio.consumer import KafkaConsumer
    from levada.aio.delivery import ArrowDelivery, Delivery
    from levada.aio.producer import KafkaProducer
    from levada.aio.scans import Scan, scan
    from levada.aio.transaction import Transaction

_HOME = {
    "ArrowDelivery": "levada.aio.delivery",
    "Delivery": "levada.aio.delivery",
    "KafkaAdmin": "levada.aio.admin",
    "KafkaClient": "levada.aio.client",
    "KafkaConsumer": "levada.aio.consumer",
    "KafkaProducer": "levada.aio.producer",
    "Scan": "levada.aio.scans",
    "Transaction": "levada.aio.transaction",
    "scan": "levada.aio.scans",
}

__all__ = ["ArrowDelivery", "Delivery", "KafkaAdmin", "KafkaClient", "KafkaConsumer", "KafkaProducer", "Scan", "Transaction", "scan"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
