"""The settings of a resource, such as a topic or a group: those that it was given, over the broker's defaults (KIP-226)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple, Self

from levada.broker.settings import MAX_INT64, BrokerSettings
from levada.errors import ConfigError
from levada.types import setting_text

MAX_INT32 = (1 << 31) - 1
_WHOLE = re.compile(r"[+-]?[0-9]+")
"""int() would also take 1_000."""


class Kind(IntEnum):
    """The type of a setting, as DescribeConfigs tells it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Check(NamedTuple):
    """parse: text to value; ValueError says what the text must be."""

    kind: Kind
    parse: Callable[[str], Any]


def integer(low: int, high: int = MAX_INT64) -> Check:
    """Return the check of a whole number."""

    def check(text: str) -> int:
        if not _WHOLE.fullmatch(text.strip()):
            raise ValueError("must be a whole number")
        return int(_within(int(text), low, high))

    return Check(Kind.LONG if high > MAX_INT32 else Kind.INT, check)


def gzip_level() -> Check:
    """Return the check of a level of gzip; -1 is the default one."""

    def check(text: str) -> int:
        level = int(integer(-1, 9).parse(text))
        if level == 0:
            raise ValueError("must be between 1 and 9, or -1")
        return level

    return Check(Kind.INT, check)


def number(low: float, high: float) -> Check:
    """Return the check of a number."""

    def check(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("must be a number") from None
        return _within(value, low, high)

    return Check(Kind.DOUBLE, check)


def _within(value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise ValueError(f"must be between {low} and {high}")
    return value


def one_of(*choices: str) -> Check:
    """Return the check of one of some words."""

    def check(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return Check(Kind.STRING, check)


def list_of(*choices: str) -> Check:
    """Return the check of a list of some words; of any words without choices."""

    def check(text: str) -> tuple[str, ...]:
        values = listed(text)
        if choices and any(value not in choices for value in values):
            raise ValueError(f"must be a list of some of {', '.join(choices)}")
        return values

    return Check(Kind.LIST, check)


def listed(text: str) -> tuple[str, ...]:
    """Return the values of a list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def boolean() -> Check:
    """Return the check of true or false."""

    def check(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("must be true or false")
        return text.lower() == "true"

    return Check(Kind.BOOLEAN, check)


class Setting(NamedTuple):
    """default: a text, unless broker_setting names where it comes from."""

    check: Check
    default: str = ""
    broker_setting: str | None = None


class EffectiveSetting(NamedTuple):
    """A setting's text as it holds for one resource, and whether the resource itself set it."""

    name: str
    text: str
    overridden: bool


class ResourceConfig:
    """The settings of one resource. ConfigError for an unknown name or a bad value.

    SETTINGS: which there are. WHAT: the kind of resource, in errors. SOURCE: what DescribeConfigs names as the origin of overrides.
    TELLS_DEFAULTS: whether it has them among the synonyms.
    """

    SETTINGS: ClassVar[Mapping[str, Setting]]
    WHAT: ClassVar[str]
    SOURCE: ClassVar[int]
    TELLS_DEFAULTS: ClassVar[bool] = True

    def __init__(self, settings: BrokerSettings, overrides: Mapping[str, str | None] | None = None) -> None:
        self.overrides: Mapping[str, str] = {name: self._checked(name, text) for name, text in (overrides or {}).items()}
        self._settings = settings

    def with_overrides(self, overrides: Mapping[str, str | None]) -> Self:
        """Return other settings of the same resource. ConfigError for an unknown name or a bad value."""
        return type(self)(self._settings, overrides)

    def effective(self) -> list[EffectiveSetting]:
        """Every setting with its value for this resource."""
        return [EffectiveSetting(name, self.text(name), name in self.overrides) for name in self.SETTINGS]

    def default(self, name: str) -> str:
        """Return what holds for a setting that the resource has not set."""
        setting = self.SETTINGS[name]
        if setting.broker_setting is None:
            return setting.default
        return setting_text(getattr(self._settings, setting.broker_setting))

    def integer(self, name: str) -> int:
        """Return the value of a setting that is a whole number."""
        return int(self.text(name))

    def text(self, name: str) -> str:
        """Return what holds for a setting."""
        return self.overrides[name] if name in self.overrides else self.default(name)

    def _checked(self, name: str, text: str | None) -> str:
        setting = self.SETTINGS.get(name)
        if setting is None:
            raise ConfigError(f"unknown {self.WHAT} config name: {name}")
        if text is None:
            raise ConfigError(f"null is no value for {self.WHAT} config {name}")
        try:
            setting.check.parse(text)
        except ValueError as fault:
            raise ConfigError(f"invalid value '{text}' for {self.WHAT} config {name}: {fault}") from None
        return text
