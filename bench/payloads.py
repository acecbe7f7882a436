"""Values like a service's events: structure that compresses well, and content that hardly does. They are the same in every process."""

from __future__ import annotations

import json
import random

DISTINCT = 10_000


def values(size: int) -> list[bytes]:
    """Return DISTINCT values of exactly `size` bytes."""
    source = random.Random(20_26)
    return [_value(source, number, size) for number in range(DISTINCT)]


def _value(source: random.Random, number: int, size: int) -> bytes:
    event = {"id": number, "user": source.randrange(100_000), "kind": source.choice(("click", "view", "order")), "note": ""}
    head = json.dumps(event)[:-2].encode()
    missing = size - len(head) - 2
    words = []
    while sum(map(len, words)) + len(words) < missing:
        words.append(source.choice(("the", "quick", "brown", f"{source.getrandbits(40):010x}")))
    return (head + " ".join(words).encode()[:missing] + b'"}').ljust(size)[:size]
