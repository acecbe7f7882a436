"""Writes docs/CONFIGURATION.md from the declarations: `python -m levada.config.document > docs/CONFIGURATION.md`."""

from __future__ import annotations

import inspect

from levada.config.base import Config
from levada.config.client import AdminConfig
from levada.config.consumer import ConsumerConfig
from levada.config.option import Option
from levada.config.producer import ProducerConfig
from levada.config.registry import JSONSerializerConfig, RegistryConfig, SerializerConfig
from levada.config.share_consumer import ShareConsumerConfig

CONFIGS: tuple[type[Config], ...] = (
    ProducerConfig,
    ConsumerConfig,
    ShareConsumerConfig,
    AdminConfig,
    RegistryConfig,
    SerializerConfig,
    JSONSerializerConfig,
)

INTRODUCTION = """\
# Configuration

<!-- Generated from `src/levada/config` by `make docs`; a test keeps it current. -->

Keys are Kafka's own. Give them as keywords (`linger_ms=5`), or as a mapping with dots (`{"linger.ms": 5}`). Values may be text, like in a
properties file. A client with an unknown key or an invalid value fails at construction, and the error says what was probably meant.
Durations are in milliseconds, sizes in bytes.

librdkafka's names for the same setting are read as well. If a setting of librdkafka has another unit or meaning, or a setting of
kafka-python or aiokafka has no counterpart, the error says what to use. The keywords of every
client are typed (`levada.config.typed`): an editor completes them, and a type checker finds misspelt ones. A mapping is not checked by
them."""


def document() -> str:
    """Return the page as Markdown."""
    return "\n\n".join([INTRODUCTION, *(_section(config) for config in CONFIGS)]) + "\n"


def _section(config: type[Config]) -> str:
    title = (inspect.getdoc(config) or "").removeprefix("Settings of ").removesuffix(".")
    rows = [_row(option) for _, option in sorted(config.OPTIONS.items())]
    head = ["| key | type | default | values | meaning |", "|---|---|---|---|---|"]
    refused = [f"- `{key}`: {reason}." for key, reason in sorted(config.NOT_YET.items())]
    return "\n".join([f"## {title}", "", *head, *rows, *(["", "Not supported yet:", "", *refused] if refused else [])])


def _row(option: Option) -> str:
    also = f" Also read as {', '.join(f'`{alias}`' for alias in option.aliases)}." if option.aliases else ""
    return f"| `{option.name}` | {option.kind} | {option.shown_default} | {option.bounds} | {option.doc}{also} |"


if __name__ == "__main__":
    print(document(), end="")
