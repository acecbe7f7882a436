"""Kafka clients that stay open in a worker process from one task to the next.

Spark reuses its Python workers, and kills those that were idle for a minute. So an open client may or may not be there; no task depends on
it, and it has no requests in flight between tasks. A client that saw an error is closed, not kept.

Spark starts half a dozen Python processes for a query, and most of them only plan. So a client's code is imported by the first task that
needs it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from levada.errors import KafkaError

if TYPE_CHECKING:
    import pyarrow as pa

    from levada import ArrowDelivery, KafkaAdmin, KafkaConsumer, KafkaProducer

Client: TypeAlias = "KafkaConsumer | KafkaProducer | KafkaAdmin"
Key: TypeAlias = tuple[int, str, frozenset[tuple[str, str]]]

DEFAULT_PARTITIONER = "default"
ROUND_ROBIN = "round_robin"
MOST = 4
_idle: dict[Key, Client] = {}
_in_use: list[Client] = []


def admin_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that KafkaAdmin knows, out of another client's settings."""
    from levada.config import AdminConfig

    return {name: value for name, value in client.items() if name in AdminConfig.OPTIONS}


@contextmanager
def reused_admin(settings: Mapping[str, str]) -> Iterator[KafkaAdmin]:
    """Yield an idle admin client with these settings, or a new one.

    It becomes idle again when the `with` block ends; after an error it is closed.
    settings: of any client; those that KafkaAdmin does not have are left out.
    """
    from levada import KafkaAdmin

    with _reused("admin", KafkaAdmin, admin_settings(settings)) as client:
        yield cast(KafkaAdmin, client)


@contextmanager
def fresh_admin(settings: Mapping[str, str]) -> Iterator[KafkaAdmin]:
    """Yield a new admin client, and close it when the `with` block ends. For a process that needs it only once."""
    from levada import KafkaAdmin

    with KafkaAdmin(admin_settings(settings)) as client:
        _in_use.append(client)
        try:
            yield client
        finally:
            _in_use.remove(client)


@contextmanager
def reused_consumer(settings: Mapping[str, str]) -> Iterator[KafkaConsumer]:
    """Yield an idle consumer with these settings, or a new one.

    It becomes idle again when the `with` block ends; after an error it is closed.
    """
    from levada import KafkaConsumer

    with _reused("consumer", KafkaConsumer, settings) as client:
        yield cast(KafkaConsumer, client)


@contextmanager
def reused_producer(settings: Mapping[str, str], partitioner: str = DEFAULT_PARTITIONER) -> Iterator[KafkaProducer]:
    """Yield an idle producer with these settings and this partitioner, or a new one.

    It becomes idle again when the `with` block ends; after an error it is closed.
    """
    from levada import KafkaProducer

    with _reused(f"producer, {partitioner}", lambda settings: new_producer(settings, partitioner), settings) as client:
        yield cast(KafkaProducer, client)


@contextmanager
def reused_transactional_producer(
    settings: Mapping[str, str], keeps_identity: Callable[[KafkaProducer], bool] = lambda producer: False
) -> Iterator[KafkaProducer]:
    """Yield an idle producer with this transactional.id, or a new one.

    The producer becomes idle again when the `with` block ends. It is closed instead after an error, or if its transaction has not ended.
    keeps_identity: called when the block ends without an error, and returns whether the producer keeps its producer id and epoch for the
    next task. By default it forgets them, and init_transactions() has to be called on it as on a new producer.
    """
    from levada import KafkaProducer

    def reset(client: Client) -> None:
        producer = cast(KafkaProducer, client)
        if not keeps_identity(producer):
            producer._forget_identity()

    with _reused("transactional producer", KafkaProducer, settings, reset) as client:
        yield cast(KafkaProducer, client)


def new_producer(settings: Mapping[str, Any], partitioner: str) -> KafkaProducer:
    """Make a producer with one of the partitioners that the sink's option names."""
    from levada import KafkaProducer, RoundRobin

    return KafkaProducer(settings) if partitioner == DEFAULT_PARTITIONER else KafkaProducer(settings, partitioner=RoundRobin())


def roles(schema: pa.Schema) -> dict[str, Any]:
    """Return the column arguments of send_arrow() and seal_arrow(): each column of the schema for the argument of the same name."""
    return {name: name for name in schema.names}


class Outstanding:
    """Arrow batches that were sent and are not yet known to be acknowledged: at most MOST, because more would only use memory."""

    MOST = 16

    def __init__(self) -> None:
        self._deliveries: deque[ArrowDelivery] = deque()

    def add(self, delivery: ArrowDelivery) -> None:
        """Add one. If these are more than MOST, wait for the oldest. Raises its error if it has failed."""
        self._deliveries.append(delivery)
        while len(self._deliveries) > self.MOST:
            self._deliveries.popleft().result()

    def wait(self) -> None:
        """Wait until all are acknowledged. Raises the error of the first that has failed."""
        while self._deliveries:
            self._deliveries.popleft().result()


@contextmanager
def _reused(
    kind: str, make: Callable[[Mapping[str, Any]], Client], settings: Mapping[str, str], reset: Callable[[Client], None] | None = None
) -> Iterator[Client]:
    """Yield an idle client or a new one. reset: prepares it for the next task; a client for which it raises KafkaError is closed.

    A client is reused for the same kind and settings. If the `with` block raises, the client is closed. make: creates a client.
    """
    # A client does not survive a fork. Because the process id is in the key, a child does not find the clients of its parent.
    key = (os.getpid(), kind, frozenset(settings.items()))
    client = _idle.pop(key, None) or make(dict(settings))
    _in_use.append(client)
    try:
        yield client
    except GeneratorExit:  # Spark needs no more rows, as after limit(); a client that needs a reset may be in the middle of a transaction
        if reset is None:
            _put_back(key, client)
        raise
    except BaseException:
        client.close(timeout=0)
        raise
    else:
        try:
            if reset is not None:
                reset(client)
        except KafkaError:
            client.close(timeout=0)
        else:
            _put_back(key, client)
    finally:
        _in_use.remove(client)


def are_in_use() -> bool:
    """Whether this process uses a client now. If not, a failed connection is no problem for the query."""
    return bool(_in_use)


def _put_back(key: Key, client: Client) -> None:
    surplus = [_idle.pop(key, None)]
    _idle[key] = client
    if len(_idle) > MOST:
        surplus.append(_idle.pop(next(iter(_idle))))
    for unwanted in surplus:
        if unwanted is not None:
            unwanted.close(timeout=0)
