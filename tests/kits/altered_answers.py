"""Answers of an embedded broker that are changed on their way out, as no broker should give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from levada.broker.node import node

Change = Callable[[Any], None]
"""Changes an answer in place."""


def _api(exchange: Any) -> str:
    name: str = exchange._api.request.NAME
    return name


@contextmanager
def altered(api: str, change: Change, *, times: int | None = None) -> Iterator[list[str]]:
    """Change the next answers of an API within the block, all of them without `times`; gives a list with an entry for each that was."""
    encoded = node._Exchange._encoded
    changed: list[str] = []

    def _encoded(exchange: Any, response: Any) -> Any:
        if _api(exchange) == api and (times is None or len(changed) < times):
            changed.append(api)
            change(response)
        return encoded(exchange, response)

    node._Exchange._encoded = _encoded  # type: ignore[method-assign, assignment]
    try:
        yield changed
    finally:
        node._Exchange._encoded = encoded  # type: ignore[method-assign]


@contextmanager
def truncated(api: str, *, times: int) -> Iterator[list[str]]:
    """Cut the last bytes off the next answers of an API within the block, under a size that fits."""
    encoded = node._Exchange._encoded
    cut: list[str] = []

    def _encoded(exchange: Any, response: Any) -> Any:
        pieces = encoded(exchange, response)
        if _api(exchange) != api or len(cut) >= times:
            return pieces
        cut.append(api)
        frame = b"".join(bytes(piece) for piece in pieces)[4:-3]
        return [len(frame).to_bytes(4, "big") + frame]

    node._Exchange._encoded = _encoded  # type: ignore[method-assign, assignment]
    try:
        yield cut
    finally:
        node._Exchange._encoded = encoded  # type: ignore[method-assign]
