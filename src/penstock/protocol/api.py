"""Which APIs there are. A message module is imported when its API is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from penstock.errors import ProtocolError
from penstock.protocol.schema import Request

_MODULES: Final[Mapping[int, str]] = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    22: "init_producer_id",
}


class _Apis(Mapping[int, type[Request]]):
    """Request types by API key; the module's name gives the class's."""

    def __init__(self) -> None:
        self._loaded: dict[int, type[Request]] = {}

    def __getitem__(self, key: int) -> type[Request]:
        return self._loaded.get(key) or self._load(key)

    def __iter__(self) -> Iterator[int]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)

    def __contains__(self, key: object) -> bool:
        return key in _MODULES

    def _load(self, key: int) -> type[Request]:
        name = _MODULES[key]
        module = import_module(f"penstock.protocol.messages.{name}")
        found: type[Request] = getattr(module, name.title().replace("_", "") + "Request")
        self._loaded[key] = found
        return found


APIS: Final[Mapping[int, type[Request]]] = _Apis()


def request_type(api_key: int) -> type[Request]:
    """Return the request type of an API key. Raises ProtocolError for a key penstock does not know."""
    if api_key not in APIS:
        raise ProtocolError(f"unknown API key {api_key}")
    return APIS[api_key]
