"""What a consumer asks of the producer of a DeadLetter(producer, topic); each face sends with it in its own way."""

from __future__ import annotations

import inspect

from levada.config import ConsumerConfig
from levada.dead_letter import DeadLetter
from levada.errors import ConfigError


def dead_letter(to: DeadLetter, option: str, *, awaited: bool) -> DeadLetter:
    """Return where records go that nobody can use. option: for which it was given, in an error's words.

    awaited: whether the consumer is one of asyncio. Raises ConfigError for a producer of the other kind, for one that would serialize what
    are bytes already, and for a transactional one.
    """
    if inspect.iscoroutinefunction(to.producer.send) is not awaited:
        raise ConfigError(f"{option}: this consumer needs a DeadLetter with a {'levada.aio' if awaited else 'levada'}.KafkaProducer")
    # The producer's modules are loaded, as there is a producer.
    from levada.face.producing import Producing

    producing = getattr(to.producer, "_producing", None)
    if isinstance(producing, Producing):
        given = [name for name in ("key.serializer", "value.serializer") if name in producing.config.given]
        if given:
            raise ConfigError(
                f"{option}: the producer of the DeadLetter has a {given[0]}, and dead letters are bytes as they came; "
                "give it a producer without"
            )
        if producing.config.transactional_id is not None:
            raise ConfigError(
                f"{option}: the producer of the DeadLetter has a transactional.id, and an aborted transaction would lose dead "
                "letters that the consumer has passed; give it a producer without"
            )
    return to


def of_decode_errors(config: ConsumerConfig, *, awaited: bool) -> DeadLetter | None:
    """Return where records that do not deserialize go, None for nowhere. Raises as dead_letter() does."""
    to = config.on_decode_error
    return dead_letter(to, "'on.decode.error'", awaited=awaited) if isinstance(to, DeadLetter) else None
