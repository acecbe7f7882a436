"""One run of a command: the settings its clients get, where its output goes, and how results are printed."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any

import typer

from levada.base.text import visible
from levada.cli.exits import CommandError, Exit, say
from levada.cli.output import OutputFormat, write
from levada.cli.text import in_one_line
from levada.errors import ConfigError

if TYPE_CHECKING:
    from levada import KafkaAdmin, KafkaConsumer, KafkaProducer, Scan
    from levada.cli.progress import Progress
    from levada.cli.settings import Settings
    from levada.config import Config
    from levada.registry import SchemaRegistryClient


LOG_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""Of -v: none, one, two or more."""

ASKED_ONCE: Mapping[str, Any] = {"default.api.timeout.ms": 15_000}
"""Somebody waits for the answer, which a broker that is down never gives."""
REGISTRY_ASKED_TWICE: Mapping[str, Any] = {"max.retries": 1, "retries.wait.ms": 500}
"""So that one lost answer ends no command, and a registry that is down is told of soon."""
NOT_CREATING: Mapping[str, Any] = {"allow.auto.create.topics": False}


class Invocation:
    """What a command is run with: the options of every command, and what follows from them.

    A command makes its clients here, so that they have the brokers, the login and the settings that the user gave. Clients are imported
    when they are made: a command that is only asked for its help loads none.
    """

    def __init__(
        self,
        brokers: str | None = None,
        option: Sequence[str] = (),
        profile: str | None = None,
        output: OutputFormat | None = None,
        verbose: int = 0,
        no_color: bool = False,
        wait: bool = False,
    ) -> None:
        self._brokers, self._options, self._profile = brokers, tuple(option), profile
        self.waits = wait
        """Whether brokers that cannot be reached yet are waited for."""
        self._output = output
        self.color: bool | None = False if no_color else None
        _log_to_stderr(verbose)

    # Settings and clients

    @cached_property
    def settings(self) -> Settings:
        """The settings of the command line, the environment and the profile. Raises ConfigError for what is wrong with them."""
        from levada.cli.settings import settings_of

        return settings_of(os.environ, brokers=self._brokers, options=self._options, profile=self._profile)

    def client_settings(self, kind: type[Config]) -> dict[str, Any]:
        """Return the settings of a client that talks to brokers. It gives up where none can be reached, unless the user says otherwise."""
        return {"bootstrap.wait": False, **self.settings.of(kind), **({"bootstrap.wait": True} if self.waits else {})}

    def of_cluster(self, profile: str | None, brokers: str | None) -> Invocation:
        """Return an invocation for another cluster, that of a profile or of brokers.

        It has none of the settings of this one, neither -X nor those of the environment: their login is that of the first cluster.
        """
        from levada.cli.settings import settings_of_another

        other = copy(self)
        other.settings = settings_of_another(os.environ, brokers=brokers, profile=profile)
        return other

    def consumer(self, *, defaults: Mapping[str, Any] | None = None, **settings: Any) -> KafkaConsumer[Any, Any]:
        """Make a consumer.

        settings: of this command, as keywords; they count before what the user has set, and defaults, with Kafka's names, after it. Unless
        these say otherwise it creates no topic by reading it.
        """
        from levada import KafkaConsumer
        from levada.config import ConsumerConfig

        return KafkaConsumer({**NOT_CREATING, **(defaults or {}), **self.client_settings(ConsumerConfig), **_dotted(settings)})

    def producer(self, **settings: Any) -> KafkaProducer[Any, Any]:
        """Make a producer."""
        from levada import KafkaProducer
        from levada.config import ProducerConfig

        return KafkaProducer({**self.client_settings(ProducerConfig), **_dotted(settings)})

    def admin(self) -> KafkaAdmin:
        """Make an admin client."""
        from levada import KafkaAdmin
        from levada.config import AdminConfig

        return KafkaAdmin({**ASKED_ONCE, **self.client_settings(AdminConfig)})

    def scan(self, topics: Any = None, **arguments: Any) -> Scan[Any, Any]:
        """Make a scan. arguments: those of levada.scan()."""
        from levada import scan
        from levada.config import ConsumerConfig

        return scan(topics, self.client_settings(ConsumerConfig), **arguments)

    def registry(self, *, asks_twice: bool = True) -> SchemaRegistryClient:
        """Make a client of the Schema Registry, which schema.registry.url names. Raises ConfigError where nothing does.

        asks_twice: unless the user says otherwise; without it as often as a client of the library does.
        """
        from levada.config import RegistryConfig
        from levada.registry import SchemaRegistryClient

        found = self.settings.of(RegistryConfig, needs_brokers=False)
        if "schema.registry.url" not in found:
            raise ConfigError("no Schema Registry is named: give -X schema.registry.url=http://host:8081, or put it into the profile")
        return SchemaRegistryClient({**(REGISTRY_ASKED_TWICE if asks_twice and not self.waits else {}), **found})

    # Output

    @property
    def asked_format(self) -> OutputFormat | None:
        """The format that was asked for: on the command line, or in the environment or the profile if it is for programs; None for none.

        A table is what most commands print anyway, so a profile that says so does not change those that print something else.
        """
        usual = None if self.settings.output is OutputFormat.TABLE else self.settings.output
        return self._output or usual

    @property
    def format_of_command_line(self) -> OutputFormat | None:
        """The format that --output names."""
        return self._output

    @property
    def format(self) -> OutputFormat:
        """How results are printed."""
        return self.asked_format or OutputFormat.TABLE

    @property
    def out(self) -> IO[bytes]:
        """Where data go: stdout, as bytes."""
        return sys.stdout.buffer

    @property
    def to_terminal(self) -> bool:
        """Whether data go to a terminal, which acts on control characters."""
        return sys.stdout.isatty()

    def show(self, result: Any, columns: Sequence[str] = ()) -> None:
        """Print what a call of the library returned, in the format that was asked for; output.write() says how."""
        write(result, sys.stdout, self.format, columns=columns, color=self.color)

    def say(self, text: str) -> None:
        """Write a line about the run to stderr, where it does not mix with data."""
        say(text)

    def progress(self, what: str, *, total: int | None = None, unit: str = "record") -> AbstractContextManager[Progress]:
        """Show how far something is, on stderr, where that is a terminal and once it takes over a second: `with ... as bar`."""
        from levada.cli.progress import progress

        return progress(what, total=total, unit=unit, color=self.color)


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


class _Visible(logging.Formatter):
    """Log lines in one style with the other messages, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def _log_to_stderr(verbose: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(
        _Visible("levada: %(levelname)s %(message)s" if not verbose else "%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    log = logging.getLogger("levada")
    log.handlers[:] = [handler]
    log.setLevel(LOG_LEVELS[min(verbose, len(LOG_LEVELS) - 1)])


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless the user has said --yes. Raises CommandError where the answer is no, and where there is no terminal to ask on."""
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise CommandError(f"{question} There is no terminal to ask on: add --yes", Exit.WRONG_USE)
    # Names in it may come from the cluster, such as the principals of access rules.
    if not typer.confirm(in_one_line(question), err=True):
        raise CommandError("nothing was done")


def is_terminal(stream: IO[str]) -> bool:
    """Whether somebody can answer."""
    return stream.isatty()
