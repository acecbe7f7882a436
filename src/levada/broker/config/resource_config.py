"""The settings of a resource such as a topic or a group: its overrides, and the broker's defaults for all others (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self

from levada.broker.config.checks import Check
from levada.broker.config.settings import BrokerSettings
from levada.errors import ConfigError


class Setting(NamedTuple):
    """A setting of a resource. default: as text, unless broker_setting names the broker setting that it comes from."""

    check: Check
    default: str = ""
    broker_setting: str | None = None


class EffectiveSetting(NamedTuple):
    """The effective value of a setting for one resource, and whether it is an override."""

    name: str
    text: str
    overridden: bool


class ResourceConfig:
    """The settings of one resource. Raises ConfigError for an unknown name or a bad value.

    SETTINGS: all settings by name. WHAT: the kind of resource, for messages. SOURCE: the ConfigSource of overrides in DescribeConfigs.
    TELLS_DEFAULTS: whether the synonyms include defaults that come from no broker setting.
    """

    SETTINGS: ClassVar[Mapping[str, Setting]]
    WHAT: ClassVar[str]
    SOURCE: ClassVar[int]
    TELLS_DEFAULTS: ClassVar[bool] = False

    def __init__(self, settings: BrokerSettings, overrides: Mapping[str, str | None] | None = None) -> None:
        self._settings = settings
        self.overrides: Mapping[str, str] = {name: self._checked(name, text) for name, text in (overrides or {}).items()}

    def with_overrides(self, overrides: Mapping[str, str | None]) -> Self:
        """Return the same resource with other overrides. Raises ConfigError for an unknown name or a bad value."""
        return type(self)(self._settings, overrides)

    def under(self, settings: BrokerSettings) -> Self:
        """Return the same overrides with the defaults of other broker settings."""
        return type(self)(settings, self.overrides)

    def setting(self, name: str) -> Setting | None:
        """Return the setting of this name, None for an unknown one."""
        return self.SETTINGS.get(name)

    def effective(self) -> list[EffectiveSetting]:
        """Return all settings with their effective values."""
        return [EffectiveSetting(name, self.text(name), name in self.overrides) for name in self.SETTINGS]

    def default(self, name: str) -> str:
        """Return the value of a setting that is not overridden."""
        setting = self.SETTINGS[name]
        if setting.broker_setting is None:
            return setting.default
        return self._settings.text(setting.broker_setting)

    def integer(self, name: str) -> int:
        """Return the effective value of an integer setting."""
        return int(self.text(name))

    def text(self, name: str) -> str:
        """Return the effective value of a setting as text."""
        return self.overrides[name] if name in self.overrides else self.default(name)

    def _checked(self, name: str, text: str | None) -> str:
        setting = self.SETTINGS.get(name)
        if setting is None:
            raise ConfigError(f"unknown {self.WHAT} config name: {name}")
        if text is None:
            raise ConfigError(f"null is not allowed for {self.WHAT} config {name}")
        try:
            setting.check.parse(text)
        except ValueError as fault:
            raise ConfigError(f"invalid value '{text}' for {self.WHAT} config {name}: {fault}") from None
        return text
