"""Config, the base class of all configurations: turns a user's settings into typed attributes, or raises ConfigError."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

from levada.config.option import HIDDEN, Option
from levada.errors import ConfigError

Init = TypeVar("Init", bound=Callable[..., None])

_HELP = """\
Settings are keywords, with a `_` for each `.` of Kafka's names, or a mapping with Kafka's names. A wrong one raises ConfigError.

"""
_HELP_LINE = re.compile(r"(.{1,105})(?: |$)")


class Config:
    """Base class of the configurations. A subclass declares its keys as attributes. Instances do not change.

    An attribute's name is Kafka's dotted key with underscores: `linger_ms` is `linger.ms`. Both spellings are read, and so are other
    clients' names of the same setting (`Option.aliases`).
    """

    WHO: ClassVar[str]
    """The client that has these settings, for error messages, such as "a producer"."""
    EXAMPLE: ClassVar[str]
    """A setting written as keyword. The error about an argument that is not a mapping quotes it."""
    OPTIONS: ClassVar[dict[str, Option]] = {}
    ALIASES: ClassVar[dict[str, str]] = {}
    """Other clients' names of an option, each with our name."""
    NOT_YET: ClassVar[Mapping[str, str]] = {}
    """Keys of Kafka's own clients that levada refuses for now, with the reason and what to use instead. A key may end with `.*`."""
    FOREIGN: ClassVar[Mapping[str, str]] = {}
    """Keys of other clients, and of Java's TLS, with what to use instead; see levada.config.other_clients."""

    INSTEAD: ClassVar[Mapping[str, str]] = {}
    """Required options, each with the option that may be given instead."""

    REFUSED: ClassVar[Mapping[str, str]] = {}
    """Keys of other levada clients that this client cannot have, with the reason."""

    KINDS: ClassVar[list[type[Config]]] = []
    """The Config classes that have WHO. They show whether an unknown key belongs to another client or is misspelt."""

    given: frozenset[str]
    """Dotted names of the options that the user set."""
    _written: Mapping[str, str]
    """The user's spelling of each option in `given`."""

    def __init_subclass__(cls) -> None:
        own = {key: value for key, value in vars(cls).items() if isinstance(value, Option)}
        cls.OPTIONS = dict(cls.OPTIONS)
        for attribute, option in own.items():
            name = attribute.replace("_", ".")
            cls.OPTIONS[name] = replace(option, name=name)
            delattr(cls, attribute)
        cls.ALIASES = {alias: name for name, option in cls.OPTIONS.items() for alias in option.aliases}
        if hasattr(cls, "WHO"):
            Config.KINDS.append(cls)

    @classmethod
    def in_help(cls, init: Init) -> Init:
        """Decorate a client's __init__(): help() then shows each setting with its type, default, allowed values and meaning."""
        init.__doc__ = _HELP + "\n".join(map(_helped, sorted(cls.OPTIONS.values(), key=_place_in_help)))
        return init

    @classmethod
    def parse(cls, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> Self:
        """Read settings by dotted or snake_case name. Raises ConfigError for an unknown key, a bad value or contradicting settings."""
        if settings is not None and not isinstance(settings, Mapping):
            raise ConfigError(f"settings are a mapping, or keywords such as {cls.EXAMPLE}; got {settings!r}")
        values: dict[str, Any] = {}
        written: dict[str, str] = {}
        for key, raw in [*(settings or {}).items(), *keywords.items()]:
            option = cls._option(key, snake=key in keywords)
            if option.name in values:
                raise ConfigError(f"'{option.name}' is given twice (once as '{key}')")
            values[option.name] = _read(option, raw, _named(option.name, key))
            written[option.name] = key
        return cls._of(values, written)

    @classmethod
    def _of(cls, values: dict[str, Any], written: Mapping[str, str]) -> Self:
        missing = [
            name for name, option in cls.OPTIONS.items() if option.required and not {name, cls.INSTEAD.get(name, name)} & values.keys()
        ]
        if missing:
            raise ConfigError(f"'{missing[0]}' is required")
        config = cls.__new__(cls)
        for name, option in cls.OPTIONS.items():
            object.__setattr__(config, _attribute(name), values.get(name, option.default))
        object.__setattr__(config, "given", frozenset(values))
        object.__setattr__(config, "_written", written)
        config._check()
        return config

    def _check(self) -> None:
        """Check options that depend on each other. Subclasses raise ConfigError, or set a default that depends on other options."""

    def _settle(self, attribute: str, value: Any) -> None:
        object.__setattr__(self, attribute, value)

    def _named(self, name: str) -> str:
        """Return an option's name for an error message, and also the user's spelling if that is an alias."""
        return _named(name, self._written.get(name, name))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} does not change after construction")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self._shown(name)}" for name in sorted(self.given))
        return f"{type(self).__name__}({shown})"

    def _shown(self, name: str) -> str:
        return HIDDEN if self.OPTIONS[name].secret else repr(getattr(self, _attribute(name)))

    @classmethod
    def _option(cls, key: str, *, snake: bool) -> Option:
        name = key.replace("_", ".").strip()
        if option := cls.OPTIONS.get(cls.ALIASES.get(name, name)):
            return option
        if reason := cls.REFUSED.get(name):
            raise ConfigError(f"'{key}' does not go with {cls.WHO}: {reason}")
        if advice := cls.FOREIGN.get(name):
            raise ConfigError(f"unknown option '{key}'; {advice}")
        if reason := cls._not_yet(name):
            raise ConfigError(f"'{key}' is not supported yet: {reason}")
        raise ConfigError(f"unknown option '{key}'{cls._suggestion(name, snake=snake or '_' in key)}")

    @classmethod
    def _not_yet(cls, name: str) -> str | None:
        return next((reason for pattern, reason in cls.NOT_YET.items() if name == pattern or _covers(pattern, name)), None)

    @classmethod
    def _suggestion(cls, name: str, *, snake: bool) -> str:
        owners = [kind.__name__.removesuffix("Config").lower() for kind in Config.KINDS if name in kind.OPTIONS or name in kind.ALIASES]
        if owners:
            return f"; it is an option of the {owners[0]}"
        close = difflib.get_close_matches(name, [*cls.OPTIONS, *cls.ALIASES], n=1, cutoff=0.7)
        if not close:
            return f"; {cls.WHO} knows {len(cls.OPTIONS)} options, see docs/CONFIGURATION.md"
        meant = cls.ALIASES.get(close[0], close[0])
        return f"; did you mean '{_attribute(meant) if snake else meant}'?"


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _covers(pattern: str, name: str) -> bool:
    return pattern.endswith(".*") and name.startswith(pattern[:-1])


def _named(name: str, written: str) -> str:
    return f"'{name}'" if written.replace("_", ".").strip() == name else f"'{name}' (given as '{written}')"


def _read(option: Option, raw: Any, named: str) -> Any:
    try:
        return option.read(raw)
    except ValueError as fault:
        raise ConfigError(f"{named}: {fault}") from None


def _place_in_help(option: Option) -> tuple[bool, str]:
    """What nearly every client needs comes before what only secured clusters need."""
    return option.name.startswith(("sasl.", "security.", "ssl.")), option.name


def _helped(option: Option) -> str:
    default = option.shown_default
    facts = [option.kind, f"default {default}" if default and not option.required else default, option.bounds]
    meaning = _HELP_LINE.sub(r"    \1\n", option.doc)
    return f"{option.name.replace('.', '_')}: {'; '.join(filter(None, facts))}\n{meaning}"
