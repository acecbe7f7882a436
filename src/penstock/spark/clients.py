"""Kafka clients that stay open in a worker process from one task to the next.

Spark reuses its Python workers, and kills those that were idle for a minute. So an open client is found or not found; nothing depends on
it, and nothing is under way in it between tasks. A client that saw an error is closed, not kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from penstock import KafkaConsumer, KafkaProducer

C = TypeVar("C", KafkaConsumer, KafkaProducer)
Key: TypeAlias = tuple[int, type[KafkaConsumer] | type[KafkaProducer], frozenset[tuple[str, str]]]

MOST = 4
_idle: dict[Key, KafkaConsumer | KafkaProducer] = {}


@contextmanager
def borrowed(kind: type[C], settings: Mapping[str, str]) -> Iterator[C]:
    """Lend a client with these settings, and nobody else's while it is lent."""
    # A client does not survive a fork; the process id keeps a child from finding its parent's.
    key = (os.getpid(), kind, frozenset(settings.items()))
    client = _take(key, kind) or kind(dict(settings))
    try:
        yield client
    except Exception:
        client.close(timeout=0)
        raise
    except GeneratorExit:  # Spark needs no more rows, as after limit()
        _put_back(key, client)
        raise
    _put_back(key, client)


def _take(key: Key, kind: type[C]) -> C | None:
    client = _idle.pop(key, None)
    return client if isinstance(client, kind) else None


def _put_back(key: Key, client: KafkaConsumer | KafkaProducer) -> None:
    surplus = [_idle.pop(key, None)]
    _idle[key] = client
    if len(_idle) > MOST:
        surplus.append(_idle.pop(next(iter(_idle))))
    for unwanted in surplus:
        if unwanted is not None:
            unwanted.close(timeout=0)


def close_idle() -> None:
    """Close every client that is not lent."""
    while _idle:
        _idle.popitem()[1].close(timeout=0)
