"""Invocation, one run of a command: makes the clients with the user's settings, and prints results."""

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
"""Log level by the number of -v: none, one, two or more."""

ASKED_ONCE: Mapping[str, Any] = {"default.api.timeout.ms": 15_000}
"""Defaults of admin clients. A short timeout, because a user waits for the answer."""
REGISTRY_ASKED_TWICE: Mapping[str, Any] = {"max.retries": 1, "retries.wait.ms": 500}
"""Defaults of registry clients without --wait. With one retry, one lost answer does not fail a command, and a registry that is down fails
it soon."""
NOT_CREATING: Mapping[str, Any] = {"allow.auto.create.topics": False}
"""Defaults of consumers. Reading from a misspelt topic must not create it."""


class Invocation:
    """One run of a command, with the options that every command has.

    Its methods make the command's clients, with the brokers, the login and the settings that the user gave. They import a client only when
    they make it, so that printing help loads no client.
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
        """Whether to wait for brokers that cannot be reached yet (--wait)."""
        self._output = output
        self.color: bool | None = False if no_color else None
        _log_to_stderr(verbose)

    # Settings and clients

    @cached_property
    def settings(self) -> Settings:
        """The settings of the command line, the environment and the profile. Raises ConfigError or OSError if they cannot be read."""
        from levada.cli.settings import settings_of

        return settings_of(os.environ, brokers=self._brokers, options=self._options, profile=self._profile)

    def client_settings(self, kind: type[Config]) -> dict[str, Any]:
        """Return the settings of a client for brokers. The client fails if no broker can be reached, unless the user chose to wait.

        Raises ConfigError as Settings.of() does.
        """
        return {"bootstrap.wait": False, **self.settings.of(kind), **({"bootstrap.wait": True} if self.waits else {})}

    def of_cluster(self, profile: str | None, brokers: str | None) -> Invocation:
        """Return an invocation for another cluster, named by a profile or by brokers.

        It takes no settings from -X or the environment, because these belong to the first cluster, for example its login.
        """
        from levada.cli.settings import settings_of_another

        other = copy(self)
        other.settings = settings_of_another(os.environ, brokers=brokers, profile=profile)
        return other

    def consumer(self, *, defaults: Mapping[str, Any] | None = None, **settings: Any) -> KafkaConsumer[Any, Any]:
        """Make a consumer. By default it does not create the topics that it reads.

        settings: keywords that override the user's settings. defaults: settings under Kafka's names that the user's settings override.
        """
        from levada import KafkaConsumer
        from levada.config import ConsumerConfig

        return KafkaConsumer({**NOT_CREATING, **(defaults or {}), **self.client_settings(ConsumerConfig), **_dotted(settings)})

    def producer(self, **settings: Any) -> KafkaProducer[Any, Any]:
        """Make a producer. settings: keywords that override the user's settings."""
        from levada import KafkaProducer
        from levada.config import ProducerConfig

        return KafkaProducer({**self.client_settings(ProducerConfig), **_dotted(settings)})

    def admin(self) -> KafkaAdmin:
        """Make an admin client."""
        from levada import KafkaAdmin
        from levada.config import AdminConfig

        return KafkaAdmin({**ASKED_ONCE, **self.client_settings(AdminConfig)})

    def scan(self, topics: Any = None, **arguments: Any) -> Scan[Any, Any]:
        """Make a scan. arguments: further arguments of levada.scan()."""
        from levada import scan
        from levada.config import ConsumerConfig

        return scan(topics, self.client_settings(ConsumerConfig), **arguments)

    def registry(self, *, asks_twice: bool = True) -> SchemaRegistryClient:
        """Make a client of the Schema Registry at schema.registry.url. Raises ConfigError if that is not set.

        asks_twice: retry a failed request only once, unless the user set otherwise. If false, or with --wait, the library's defaults apply.
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
        """The output format from the command line, the environment or the profile, or None.

        "table" in the environment or the profile counts as None: it is the usual format, and must not change commands with another default.
        """
        usual = None if self.settings.output is OutputFormat.TABLE else self.settings.output
        return self._output or usual

    @property
    def format_of_command_line(self) -> OutputFormat | None:
        """The output format from --output, or None."""
        return self._output

    @property
    def format(self) -> OutputFormat:
        """The output format of results."""
        return self.asked_format or OutputFormat.TABLE

    @property
    def out(self) -> IO[bytes]:
        """The stream for the command's data: stdout, for bytes."""
        return sys.stdout.buffer

    @property
    def to_terminal(self) -> bool:
        """Whether stdout is a terminal. A terminal acts on control characters, so these must be escaped."""
        return sys.stdout.isatty()

    def show(self, result: Any, columns: Sequence[str] = ()) -> None:
        """Print a result in the chosen format, by output.write(). columns: the columns of a table."""
        write(result, sys.stdout, self.format, columns=columns, color=self.color)

    def say(self, text: str) -> None:
        """Write a message to stderr, so that it does not mix with data."""
        say(text)

    def progress(self, what: str, *, total: int | None = None, unit: str = "record") -> AbstractContextManager[Progress]:
        """Return a context manager for a progress bar on stderr. It is drawn after a second, and only on a terminal.

        what: the description. total: None if unknown. unit: a noun for the count, in singular.
        """
        from levada.cli.progress import progress

        return progress(what, total=total, unit=unit, color=self.color)


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


class _Visible(logging.Formatter):
    """Formats log lines with their control characters escaped."""

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
    """Ask the user for confirmation, unless --yes was given. Raises CommandError if the answer is no, or stdin is not a terminal."""
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise CommandError(f"{question} There is no terminal to ask on: add --yes", Exit.WRONG_USE)
    # The question may hold names from the cluster, such as principals of ACLs, with control characters.
    if not typer.confirm(in_one_line(question), err=True):
        raise CommandError("nothing was done")


def is_terminal(stream: IO[str]) -> bool:
    """Return whether a user can answer questions on this stream."""
    return stream.isatty()
