"""Reads damaged responses with levada and with kafka-python, which interprets Kafka's schemas, for comparison.

If both can read a response, the bytes are compared that each of them encodes from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

from kafka.protocol.api_message import ApiMessage

from differential_kit import Reading
from levada.errors import ProtocolError
from levada.protocol.api import APIS
from levada.protocol.codegen import decode, encode
from levada.protocol.schema import Response
from mutation_kit import damaged
from protocol_strategies import filled

MODULES = ("admin", "consumer", "metadata", "producer", "sasl")

Input = tuple[int, int, bytes]


@cache
def theirs(name: str) -> Any:
    """Return kafka-python's class of this name. None if kafka-python has no such class."""
    found = (getattr(import_module(f"kafka.protocol.{module}"), name, None) for module in MODULES)
    return next((each for each in found if each is not None), None)


@cache
def valid() -> list[Input]:
    """Return API key, version and bytes of each response that kafka-python decodes and encodes to the same bytes."""
    every = [(key, version) for key in APIS for version in range(APIS[key].MIN_VERSION, APIS[key].MAX_VERSION + 1)]
    whole = [(key, version, encode(filled(response_of(key), version, 1), version)) for key, version in every]
    return [each for each in whole if theirs(response_of(each[0]).__name__) and read_by_kafka_python(each).rows == [each[2]]]


def response_of(key: int) -> type[Response]:
    return APIS[key].RESPONSE


def many_responses(count: int, seed: int) -> Iterator[Input]:
    """Yield `count` damaged responses. Equal seeds give equal responses."""
    random = Random(seed)
    for _ in range(count):
        key, version, data = random.choice(valid())
        yield key, version, damaged(data, random)


def read_by_us(given: Input) -> Reading:
    """Decode a response, and encode it again. A ProtocolError is a refusal."""
    key, version, data = given
    try:
        return Reading([encode(decode(response_of(key), data, version)[0], version)])
    except ProtocolError as error:
        return Reading(None, str(error))


def read_by_kafka_python(given: Input) -> Reading:
    """Decode a response with kafka-python, and encode it again. Any exception is a refusal."""
    key, version, data = given
    try:
        found = ApiMessage.decode.__func__(theirs(response_of(key).__name__), data, version=version)
        found._header = None  # Decoding does not set it, but encoding reads it.
        return Reading([bytes(found.encode(version=version))])
    except Exception as error:
        return Reading(None, f"{type(error).__name__}: {error}")
