"""The asyncio API: the clients of `levada` with the same names, options and errors, to be awaited.

They run on the event loop of the task that makes them. A thread watches the sockets only where the loop cannot watch a file descriptor.
Long decoding and questions to schema registries run in the loop's executor, and some logins in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levada._importing import import_undisturbed
from levada.base.unsupported_names import no_such_name

if TYPE_CHECKING:
    from levada.aio.ack_buffer import AckBuffer
    from levada.aio.acks import Acks
    from levada.aio.admin import KafkaAdmin
    from levada.aio.client import KafkaClient
    from levada.aio.consumer import KafkaConsumer
    from levada.aio.delivery import ArrowDelivery, Delivery
    from levada.aio.producer import KafkaProducer, Transaction
    from levada.aio.scans import Scan, scan
    from levada.aio.share_consumer import KafkaShareConsumer

_HOME = {
    "AckBuffer": "levada.aio.ack_buffer",
    "Acks": "levada.aio.acks",
    "ArrowDelivery": "levada.aio.delivery",
    "Delivery": "levada.aio.delivery",
    "KafkaAdmin": "levada.aio.admin",
    "KafkaClient": "levada.aio.client",
    "KafkaConsumer": "levada.aio.consumer",
    "KafkaProducer": "levada.aio.producer",
    "KafkaShareConsumer": "levada.aio.share_consumer",
    "Scan": "levada.aio.scans",
    "Transaction": "levada.aio.producer",
    "scan": "levada.aio.scans",
}

__all__ = [
    "AckBuffer",
    "Acks",
    "ArrowDelivery",
    "Delivery",
    "KafkaAdmin",
    "KafkaClient",
    "KafkaConsumer",
    "KafkaProducer",
    "KafkaShareConsumer",
    "Scan",
    "Transaction",
    "scan",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise no_such_name(__name__, name)
    return getattr(import_undisturbed(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
