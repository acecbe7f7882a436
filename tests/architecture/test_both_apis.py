"""levada and levada.aio have the same names and arguments (ADR 62)."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import levada
import levada.aio

SHARED = [name for name in levada.aio.__all__ if getattr(levada, name) is not getattr(levada.aio, name)]
CLASSES = [name for name in SHARED if inspect.isclass(getattr(levada, name))]
ONLY_BLOCKING = {
    # A reader pulls batches, which cannot wait in a loop.
    ("Scan", "to_reader"),
    # A Delivery of asyncio wraps one, and has what belongs to the program.
    *(("Delivery", name) for name in ("index", "key_size", "metadata", "promise", "timestamp", "tp", "value_size")),
}
OTHER_ARGUMENTS = {
    ("KafkaAdmin", "outcomes"): {"call"},
    # In asyncio the future that it returns has the outcome.
    ("KafkaConsumer", "commit_async"): {"callback"},
    # In asyncio None is the default: handlers are coroutines.
    ("KafkaConsumer", "process"): {"executor"},
}


def members(owner: Any) -> dict[str, Any]:
    """Public members; not the names that only tell what to use instead."""
    return {name: getattr(owner, name) for name in dir(owner) if not name.startswith("_") and hasattr(owner, name)}


def test_the_loop_has_every_client_and_no_name_of_its_own() -> None:
    assert set(CLASSES) >= {"AckBuffer", "KafkaAdmin", "KafkaClient", "KafkaConsumer", "KafkaProducer", "KafkaShareConsumer", "Transaction"}
    assert set(levada.aio.__all__) <= set(levada.__all__)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_same_members(name: str) -> None:
    blocking, loops = members(getattr(levada, name)), members(getattr(levada.aio, name))
    only_blocking = {member for owner, member in ONLY_BLOCKING if owner == name}
    assert blocking.keys() - only_blocking == loops.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_a_method_has_the_same_arguments(name: str) -> None:
    loops = members(getattr(levada.aio, name))
    for member, method in members(getattr(levada, name)).items():
        if (name, member) not in ONLY_BLOCKING and callable(method):
            assert arguments(method, name) == arguments(loops[member], name), member


def test_every_exception_is_still_one() -> None:
    assert not [name for name in ONLY_BLOCKING if hasattr(getattr(levada.aio, name[0]), name[1])]
    for (owner, member), names in OTHER_ARGUMENTS.items():
        blocking, loops = (getattr(getattr(module, owner), member) for module in (levada, levada.aio))
        assert names == {name for name, _ in set(all_arguments(blocking)) ^ set(all_arguments(loops))}


def all_arguments(method: Any) -> list[tuple[str, str]]:
    return [(name, f"{one} {one.kind}") for name, one in inspect.signature(method).parameters.items()]


def arguments(method: Any, owner: str) -> list[tuple[str, str]]:
    left_out = OTHER_ARGUMENTS.get((owner, method.__name__), set())
    return [one for one in all_arguments(method) if one[0] not in left_out]
