"""Tools for tests of programs that use Kafka: an embedded broker, schema registry and OAuth token endpoint on real sockets, and a simulated
network and clock.

levada.testing.pytest_plugin provides brokers as fixtures (docs/PYTEST.md). levada.testing.history records the operations of clients on any
cluster and checks them. The names of this module are imported at first use, so that `import levada.testing` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levada._importing import import_undisturbed

if TYPE_CHECKING:
    from levada.testing.embedded import EmbeddedKafka
    from levada.testing.registry import EmbeddedRegistry
    from levada.testing.security import Authority, Tls
    from levada.testing.simulated import SimulatedKafka
    from levada.testing.simulation import Simulation
    from levada.testing.tokens import EmbeddedTokenEndpoint, TokenIssuer, jwks_validator

_HOMES = {
    "Authority": "levada.testing.security",
    "EmbeddedKafka": "levada.testing.embedded",
    "EmbeddedRegistry": "levada.testing.registry",
    "EmbeddedTokenEndpoint": "levada.testing.tokens",
    "SimulatedKafka": "levada.testing.simulated",
    "Simulation": "levada.testing.simulation",
    "Tls": "levada.testing.security",
    "TokenIssuer": "levada.testing.tokens",
    "jwks_validator": "levada.testing.tokens",
}

__all__ = [
    "Authority",
    "EmbeddedKafka",
    "EmbeddedRegistry",
    "EmbeddedTokenEndpoint",
    "SimulatedKafka",
    "Simulation",
    "Tls",
    "TokenIssuer",
    "jwks_validator",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_undisturbed(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
