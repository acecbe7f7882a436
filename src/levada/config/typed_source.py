"""Writes src/levada/config/typed.py from the declarations: `python -m levada.config.typed_source > src/levada/config/typed.py`."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping

from levada.config.base import Config
from levada.config.client import AdminConfig, ClientConfig
from levada.config.consumer import ConsumerConfig
from levada.config.oauth import OAuthConfig
from levada.config.option import Option
from levada.config.producer import ProducerConfig
from levada.config.registry import JSONSerializerConfig, RegistryConfig, SerializerConfig
from levada.config.security import SecurityConfig
from levada.config.share_consumer import ShareConsumerConfig

CONFIGS: tuple[type[Config], ...] = (
    OAuthConfig,
    SecurityConfig,
    ClientConfig,
    AdminConfig,
    ConsumerConfig,
    ShareConsumerConfig,
    ProducerConfig,
    RegistryConfig,
    SerializerConfig,
    JSONSerializerConfig,
)

PARAMETERS: Mapping[type[Config], str] = {ConsumerConfig: "K, V", ShareConsumerConfig: "K, V", ProducerConfig: "K_in, V_in"}
"""The type variables of keys and values in the annotations of a client's options."""

KAFKA_CLIENT: Mapping[type[Config], str] = {ClientConfig: "Settings of KafkaClient."}
"""The docstring of a class of settings, if it is not that of the Config class."""

WIDTH = 140

HEAD = '''\
"""The settings of each client as keywords, for type checkers and editors: `def __init__(self, ..., **settings: Unpack[ProducerSettings])`.

`make docs` (levada.config.typed_source) writes this file from the declarations beside it; do not edit. A test keeps it current. Nothing
imports it at run time. Keywords have one type each; a mapping may also hold text, like a properties file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from ssl import SSLContext
from typing import Generic, Literal, TypedDict

from levada.credentials import OAuthToken, SaslMechanism, TokenProvider
from levada.dead_letter import DeadLetter
from levada.groups import PartitionAssignor
from levada.interceptors import ConsumerInterceptor, ProducerInterceptor
from levada.serialization import K_in, Sendable, V_in
from levada.types import K, V
'''


def source() -> str:
    """Return the module's source."""
    return "\n\n\n".join([HEAD.rstrip(), *map(_class, CONFIGS)]) + "\n"


def _class(config: type[Config]) -> str:
    base = config.__bases__[0]
    inherited = {name: option.annotation for name, option in getattr(base, "OPTIONS", {}).items()} if base is not Config else {}
    generic = f"Generic[{PARAMETERS[config]}], " if config in PARAMETERS else ""
    bases = f"{_settings(base) if base is not Config else 'TypedDict'}, {generic}total=False"
    own = [option for option_name, option in config.OPTIONS.items() if inherited.get(option_name) != option.annotation]
    about = KAFKA_CLIENT.get(config) or inspect.getdoc(config)
    return "\n\n".join([f'class {_settings(config)}({bases}):\n    """{about}"""', *map(_field, own)])


def _settings(config: type[Config]) -> str:
    return config.__name__.removesuffix("Config") + "Settings"


def _field(option: Option) -> str:
    unit = option.kind.partition("(")[2].removesuffix(")")
    shown = ", ".join(option.default) if isinstance(option.default, tuple) else option.default
    default = "" if option.required or option.default in (None, "", ()) else f" Default: {shown}{unit and f' {unit}'}."
    text = f'"""{option.doc}{default}"""'
    lines = textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"    {option.name.replace('.', '_')}: {option.annotation}", *lines])


if __name__ == "__main__":
    print(source(), end="")
