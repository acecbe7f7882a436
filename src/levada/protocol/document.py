"""Generates docs/PROTOCOL.md from the declarations: `python -m levada.protocol.document > docs/PROTOCOL.md`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from levada.protocol.api import APIS
from levada.protocol.schema import Request

INTRODUCTION: Final = """\
# Protocol

<!-- Generated from `src/levada/protocol` by `make docs`; a test keeps it current. -->

Every API of Kafka 3.9 to 4.4 is declared in `src/levada/protocol/messages`, request and response together, in all versions from the
oldest one of 3.9 to the newest one of 4.4. Drafts are versions that Kafka has not released, or withdrew before it did: they encode and
decode, and are never negotiated. Flexible is the first version with compact lengths and tagged fields (KIP-482). Used by says who speaks
the API today: the client, the embedded broker, or nobody yet. `KafkaClient.request` sends any of them."""

USERS: Final = {"client": ("client", "producer", "consumer", "admin", "sync"), "broker": ("broker",)}
# This file has a table of old brokers' versions for all APIs, so that its imports do not mean that an API is used.
_NO_USER: Final = "broker_fallback.py"


def document() -> str:
    """Return the text of docs/PROTOCOL.md."""
    head = ["| key | API | versions | drafts | flexible | used by |", "|---|---|---|---|---|---|"]
    used = {user: _imported_by(packages) for user, packages in USERS.items()}
    return "\n".join([INTRODUCTION, "", *head, *(_row(request, used) for request in APIS.values())]) + "\n"


def _row(request: type[Request], used: dict[str, set[str]]) -> str:
    module = request.__module__.rpartition(".")[2]
    users = ", ".join(user for user, modules in used.items() if module in modules) or "nobody yet"
    flexible = "none" if request.FIRST_FLEXIBLE is None else f"{request.FIRST_FLEXIBLE}+"
    versions = _span(request.MIN_VERSION, request.MAX_VERSION)
    return f"| {request.API_KEY} | [{request.NAME}](../{_path(module)}) | {versions} | {_drafts(request)} | {flexible} | {users} |"


def _path(module: str) -> str:
    return f"src/levada/protocol/messages/{module}.py"


def _span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def _drafts(request: type[Request]) -> str:
    older = range(request.OLDEST_VERSION, request.MIN_VERSION)
    newer = range(request.MAX_VERSION + 1, request.NEWEST_VERSION + 1)
    return ", ".join(_span(span[0], span[-1]) for span in (older, newer) if span)


def _imported_by(packages: tuple[str, ...]) -> set[str]:
    """Return the message modules that these packages import.

    They are found in the source, because the packages may not be imported here.
    """
    root = Path(__file__).parents[1]
    sources = [path.read_text() for package in packages for path in sorted((root / package).rglob("*.py")) if path.name != _NO_USER]
    return {found for source in sources for found in re.findall(r"levada\.protocol\.messages\.(\w+) import", source)}


if __name__ == "__main__":
    print(document(), end="")
