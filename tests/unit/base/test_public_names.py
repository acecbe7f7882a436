"""What the public classes return can be imported from levada; what they do not have yet is answered with advice."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import sys
import typing
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

import pytest

import levada as lv
from levada import aio
from levada.base import unsupported_names as not_yet
from levada.error_codes import ErrorCode
from levada.testing import EmbeddedKafka

CLIENTS = [lv.KafkaProducer, lv.KafkaConsumer, lv.KafkaAdmin, lv.KafkaClient]
CLASSES = [value for name in lv.__all__ if isinstance(value := getattr(lv, name), type)]

# Internal, and not called from outside.
INNER = {"Scan.settle", "Scan.config", "Scan.skips", "ArrowDelivery.promises"}


def names_in(annotation: Any) -> set[str]:
    """The plain names of an annotation, which is text in all our modules."""
    tree = ast.parse(annotation if isinstance(annotation, str) else "None", mode="eval")
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}.union(*map(names_in, texts))


def levada_classes(name: str, module: Any) -> set[type]:
    """The classes of ours that a name of a module stands for, aliases followed."""
    return set(_classes(getattr(module, name, None)))


def _classes(thing: Any) -> Iterator[type]:
    if isinstance(thing, type) and thing.__module__.startswith("levada."):
        yield thing
    for part in (typing.get_origin(thing), *typing.get_args(thing)):
        if part is not None:
            yield from _classes(part)


def told_by(cls: type) -> Iterator[tuple[str, set[str], Any]]:
    """The names in what public methods return, properties and fields hold, and callbacks of the constructor get; and their module."""
    for base in cls.__mro__:
        module = sys.modules[base.__module__]
        if not base.__module__.startswith("levada."):
            continue
        for name, annotation in vars(base).get("__annotations__", {}).items():
            if not (name.startswith("_") or name.isupper()):
                yield f"{cls.__name__}.{name}", names_in(annotation), module
        for name, member in vars(base).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if not inspect.isfunction(function) or (name.startswith("_") and name not in ("__iter__", "__enter__", "__init__")):
                continue
            made_of = inspect.unwrap(function)
            for parameter, annotation in made_of.__annotations__.items():
                if parameter == "return" or parameter.startswith("on_"):
                    # What an API makes of an operation returns what the operation ends with.
                    yield f"{cls.__name__}.{name}", names_in(annotation) - {"Operation"}, sys.modules[made_of.__module__]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_what_a_public_class_hands_out_is_public(cls: type) -> None:
    for where, names, module in told_by(cls):
        if where in INNER:
            continue
        for name in names:
            for found in levada_classes(name, module):
                public = getattr(lv, found.__name__, None) or getattr(lv.errors, found.__name__, None)
                assert public is found, f"{where} hands out {found.__qualname__}, which levada does not export"


def test_every_name_is_there() -> None:
    assert sorted(lv.__all__, key=lambda name: (name[0].islower(), name)) == lv.__all__
    for name in lv.__all__:
        assert getattr(lv, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'KafkaStreams'"):
        lv.KafkaStreams  # noqa: B018 - reading it is the test


@pytest.mark.parametrize(
    ("cls", "name", "advice"),
    [
        (lv.KafkaConsumer, "commit_sync", r"use commit\(\)"),
        (lv.KafkaProducer, "produce", r"use send\(\)"),
        (lv.KafkaAdmin, "describe_groups", r"use describe_consumer_groups\(\)"),
        (aio.KafkaProducer, "start", "a client connects when it is used"),
        (aio.KafkaConsumer, "stop", r"use close\(\)"),
        (aio.KafkaProducer, "create_batch", r"use send_many\("),
        (lv.KafkaConsumer, "last_stable_offset", "isolation.level=read_committed"),
        (aio.KafkaConsumer, "unassign", r"use unsubscribe\(\)"),
        (lv.ConsumerRecords, "items", r"poll\(\) returns a list of records"),
        (lv.ConsumerRecords, "error", r"poll\(\) raises errors"),
        (lv.errors.TransactionAbortableError, "txn_requires_abort", "except TransactionAbortableError"),
        (lv.errors.TimeoutError, "code", "only an error that a broker answered has a code"),
    ],
)
def test_what_is_not_there_yet_is_answered_with_advice(cls: Any, name: str, advice: str) -> None:
    assert not hasattr(cls, name)
    for thing in (cls, cls.__new__(cls)):
        with pytest.raises(AttributeError, match=rf"{cls.__name__} has no {name}\(\): .*{advice}"):
            getattr(thing, name)


OF_ASYNCIO = [value for name in aio.__all__ if isinstance(value := getattr(aio, name), type) and hasattr(value, "__aenter__")]


@pytest.mark.parametrize("cls", OF_ASYNCIO, ids=lambda cls: cls.__name__)
def test_with_on_asyncio_is_answered_with_async_with(cls: Any) -> None:
    client = cls.__new__(cls)
    # From 3.14 on Python says so itself.
    with pytest.raises((AttributeError, TypeError), match=r"async with"), client:
        pass
    assert not hasattr(client, "__enter__")
    assert not isinstance(client, AbstractContextManager)
    assert isinstance(client, AbstractAsyncContextManager)


@pytest.mark.parametrize("cls", [aio.KafkaConsumer, aio.KafkaShareConsumer, aio.Scan], ids=lambda cls: cls.__name__)
def test_for_on_asyncio_is_answered_with_async_for(cls: Any) -> None:
    thing = cls.__new__(cls)
    for use in (list, tuple, enumerate):
        with pytest.raises(TypeError, match=f"^a {cls.__name__} of asyncio is iterated with `async for`$"):
            use(thing)
    assert bool(thing)


@pytest.mark.parametrize(
    ("module", "name", "ours"),
    [
        (lv, "Producer", "levada.KafkaProducer"),
        (lv, "KafkaAdminClient", "levada.KafkaAdmin"),
        (lv, "AIOKafkaConsumer", "levada.aio.KafkaConsumer"),
        (lv, "SchemaRegistryClient", "levada.registry.SchemaRegistryClient"),
        (lv.errors, "NoBrokersAvailable", "BootstrapError"),
        (aio, "AIOKafkaProducer", "levada.aio.KafkaProducer"),
        (aio, "AdminClient", "levada.aio.KafkaAdmin"),
        (aio, "ConsumerRebalanceListener", "levada.RebalanceListener"),
    ],
)
def test_a_class_of_another_client_is_answered_with_ours(module: Any, name: str, ours: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; use {ours}$"):
        getattr(module, name)


def test_names_that_stand_for_ours_exist() -> None:
    assert all(hasattr(module, ours) for module in (lv, aio) for ours in not_yet._CLASSES.values())
    assert all(hasattr(lv, ours) for ours in not_yet._OF_BOTH_APIS.values())
    assert all(hasattr(lv.errors, ours) for ours in not_yet._ERRORS.values())
    assert not any(hasattr(lv.errors, theirs) for theirs in not_yet._ERRORS)


def test_the_handle_of_a_sent_record_is_not_a_future() -> None:
    with EmbeddedKafka() as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        delivery: Any = producer.send("orders", b"v")
        with pytest.raises(AttributeError, match=r"Delivery has no get\(\): use result\(timeout\)"):
            delivery.get(timeout=10)
        with pytest.raises(AttributeError, match=r"Delivery has no add_callback\(\): give send\(\) an on_delivery"):
            delivery.add_callback(print)
        with pytest.raises(AttributeError, match="'Delivery' object has no attribute 'reslut'"):
            delivery.reslut()
        delivery.result(30)


@pytest.mark.parametrize(
    ("construct", "answer"),
    [
        (
            lambda make: make.TopicPartition("t", 0, 5),
            r"takes topic, partition; got \('t', 0, 5\): an offset goes with seek\(",
        ),
        (lambda make: make.TopicPartition("t", 0, offset=5), r"TopicPartition\(\) has no argument 'offset': an offset goes with seek\("),
        (lambda make: make.NewTopic("t", num_partitions=3), r"NewTopic\(\) has no argument 'num_partitions': it is called partitions"),
        (lambda make: make.NewPartitions("t", new_total_count=3), r"create_partitions\(\{topic: NewPartitions\(total_count\)\}\)"),
        (lambda make: make.NewTopic("t", 1, zebra=3), "unexpected keyword argument 'zebra'"),
    ],
)
def test_arguments_of_other_clients_are_answered_with_ours(construct: Any, answer: str) -> None:
    with pytest.raises(TypeError, match=answer):
        construct(lv)


def test_named_tuples_are_as_they_were() -> None:
    tp = lv.TopicPartition("t", partition=1)
    assert tp == ("t", 1) == pickle.loads(pickle.dumps(tp)) == copy.deepcopy(tp) == lv.TopicPartition._make(("t", 1))
    assert tp._replace(partition=2) == lv.TopicPartition(topic="t", partition=2)
    assert str(inspect.signature(lv.NewTopic)).startswith("(name: ")


def test_the_code_of_a_brokers_answer_is_an_attribute() -> None:
    assert lv.errors.BrokerError(code=ErrorCode.NOT_COORDINATOR).code is ErrorCode.NOT_COORDINATOR


def test_a_misspelt_name_is_a_plain_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'sned'"):
        lv.KafkaProducer.__new__(lv.KafkaProducer).sned  # type: ignore[attr-defined]  # noqa: B018 - reading it is the test


def test_a_method_that_is_built_has_to_leave_the_list() -> None:
    with pytest.raises(TypeError, match=r"has subscribe\(\)"):

        @not_yet.lacks({"subscribe": "use something else"})
        class Built:
            def subscribe(self) -> None: ...


def test_dir_names_what_is_public() -> None:
    assert {name for name in dir(lv) if not name.startswith("_")} == set(lv.__all__)
