"""The dead-letter topic of a consumer: checks its DeadLetter(producer, topic), and fits the records to the producer's limits."""

from __future__ import annotations

import inspect
from typing import cast

from levada.config import ConsumerConfig, ProducerConfig
from levada.dead_letter import HEADER_PREFIX, DeadLetter
from levada.errors import ConfigError
from levada.interceptors import ProducerRecord
from levada.record.batch import record_size_upper_bound
from levada.types import Headers


def dead_letter(to: DeadLetter, option: str, *, awaited: bool) -> DeadLetter:
    """Check a DeadLetter and return it. option: the name of the option or argument, for error messages.

    awaited: whether the consumer belongs to levada.aio. Raises ConfigError if the producer belongs to the other API, is transactional, or
    has serializers (dead letters are bytes already).
    """
    if inspect.iscoroutinefunction(to.producer.send) is not awaited:
        raise ConfigError(f"{option}: this consumer needs a DeadLetter with a {'levada.aio' if awaited else 'levada'}.KafkaProducer")
    config = _config(to)
    if config is not None:
        given = [name for name in ("key.serializer", "value.serializer") if name in config.given]
        if given:
            raise ConfigError(
                f"{option}: the producer of the DeadLetter has a {given[0]}, and dead letters are bytes as they came; "
                "give it a producer without"
            )
        if config.transactional_id is not None:
            raise ConfigError(
                f"{option}: the producer of the DeadLetter has a transactional.id, and an aborted transaction would lose dead "
                "letters that the consumer has passed; give it a producer without"
            )
    return to


def of_decode_errors(config: ConsumerConfig, *, awaited: bool) -> DeadLetter | None:
    """Return the DeadLetter of on.decode.error; None if that option has another value. Raises as dead_letter() does.

    awaited: whether the consumer belongs to levada.aio.
    """
    to = config.on_decode_error
    return dead_letter(to, "'on.decode.error'", awaited=awaited) if isinstance(to, DeadLetter) else None


def most_bytes(to: DeadLetter) -> int | None:
    """Return the max.request.size of the producer; None if its configuration is not known."""
    config = _config(to)
    return None if config is None else config.max_request_size


def fitted(letter: ProducerRecord, limit: int | None) -> ProducerRecord:
    """Return a letter with as many of levada's headers as fit into max.request.size.

    A record that just fits could otherwise never be written to the dead-letter topic, because its letter is larger by these headers. limit:
    in bytes; None leaves the letter as it is.
    """
    if limit is None:
        return letter
    headers = list(cast("Headers", letter.headers))
    while headers and headers[-1][0].startswith(HEADER_PREFIX) and _size(letter, headers) > limit:
        headers.pop()
    return letter._replace(headers=headers)


def _size(letter: ProducerRecord, headers: Headers) -> int:
    return record_size_upper_bound(len(letter.key or b""), len(letter.value or b""), headers)


def _config(to: DeadLetter) -> ProducerConfig | None:
    # The producer's modules are loaded, as there is a producer.
    from levada.api.producing import Producing

    producing = getattr(to.producer, "_producing", None)
    return producing.config if isinstance(producing, Producing) else None
