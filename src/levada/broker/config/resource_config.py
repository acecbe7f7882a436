"""The settings of a resource such as a topic or a group: its overrides, and the broker's defaults for all others (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self

from levada.broker.config.checks import Check
from levada.broker.config.settings import BrokerSettings
from levada.errors import ConfigError


class Setting(NamedTuple):
    """A setting that topics, groups or other resources can have. default: its default as text, unless broker_setting is given.
    broker_setting: the name of the broker setting that is its default.
    """

    check: Check
    default: str = ""
    broker_setting: str | None = None


class EffectiveSetting(NamedTuple):
    """A setting of one resource with its effective value. The flag tells whether the resource overrides the default."""

    name: str
    text: str
    overridden: bool


class ResourceConfig:
    """The settings of one resource: overrides, and defaults that come from broker settings. Raises ConfigError for an unknown name or an
    invalid value.

    SETTINGS: all settings of such resources, by name. WHAT: the kind of resource, for messages. SOURCE: the ConfigSource of overrides in
    DescribeConfigs. TELLS_DEFAULTS: whether DescribeConfigs lists a default that is not a broker setting among the synonyms.
    """

    SETTINGS: ClassVar[Mapping[str, Setting]]
    WHAT: ClassVar[str]
    SOURCE: ClassVar[int]
    TELLS_DEFAULTS: ClassVar[bool] = False

    def __init__(self, settings: BrokerSettings, overrides: Mapping[str, str | None] | None = None) -> None:
        self._settings = settings
        self.overrides: Mapping[str, str] = {name: self._checked(name, text) for name, text in (overrides or {}).items()}

    def with_overrides(self, overrides: Mapping[str, str | None]) -> Self:
        """Return the config of the same resource with other overrides. Raises ConfigError for an unknown name or an invalid value."""
        return type(self)(self._settings, overrides)

    def under(self, settings: BrokerSettings) -> Self:
        """Return a config with the same overrides, whose defaults come from other broker settings."""
        return type(self)(settings, self.overrides)

    def setting(self, name: str) -> Setting | None:
        """Return the setting of this name, None for an unknown one."""
        return self.SETTINGS.get(name)

    def effective(self) -> list[EffectiveSetting]:
        """Return all settings of the resource with their effective values."""
        return [EffectiveSetting(name, self.text(name), name in self.overrides) for name in self.SETTINGS]

    def default(self, name: str) -> str:
        """Return the default of a setting as text."""
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
