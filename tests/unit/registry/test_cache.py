"""What was learned from a registry is kept: bounded, for a time or for ever."""

from __future__ import annotations

from typing import Any

from levada.registry.cache import Cache


class Source:
    """Counts how often each key is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, cache: Cache[str, str], key: str) -> str:
        def ask() -> str:
            self.asked.append(key)
            return f"{key}{self.asked.count(key)}"

        return cache.get(key, ask)


def cache_of(capacity: int = 10, ttl_ms: int | None = None) -> tuple[Cache[str, str], list[int]]:
    now = [0]
    return Cache(capacity, ttl_ms, lambda: now[0]), now


def test_what_is_known_is_not_asked_for_again() -> None:
    (cache, _), source = cache_of(), Source()
    assert [source.get(cache, "a") for _ in range(3)] == ["a1"] * 3
    assert source.asked == ["a"]


def test_what_was_not_used_for_longest_makes_room() -> None:
    (cache, _), source = cache_of(capacity=2), Source()
    for key in "abaca":
        source.get(cache, key)
    assert source.asked == ["a", "b", "c"]
    assert len(cache) == 2
    source.get(cache, "b")
    assert source.asked[-1] == "b"


def test_what_may_change_is_asked_for_again_after_its_time() -> None:
    (cache, now), source = cache_of(ttl_ms=100), Source()
    source.get(cache, "a")
    now[0] = 99
    assert source.get(cache, "a") == "a1"
    now[0] = 100
    assert source.get(cache, "a") == "a2"


def test_without_time_everything_is_asked_for() -> None:
    (cache, _), source = cache_of(ttl_ms=0), Source()
    assert [source.get(cache, "a") for _ in range(2)] == ["a1", "a2"]


def test_an_error_is_not_kept() -> None:
    (cache, _), source = cache_of(), Source()

    def fail() -> Any:
        raise LookupError

    try:
        cache.get("a", fail)
    except LookupError:
        assert source.get(cache, "a") == "a1"


def test_an_answer_that_was_under_way_when_all_was_forgotten_is_not_kept() -> None:
    (cache, _), source = cache_of(), Source()

    def ask() -> str:
        cache.clear()
        return "old"

    assert cache.get("a", ask) == "old"
    assert source.get(cache, "a") == "a1"
