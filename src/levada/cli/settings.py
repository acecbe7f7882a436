"""The settings of a run. The command line overrides the environment, and the environment overrides the profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from levada.base.text import did_you_mean
from levada.cli.output import OutputFormat
from levada.cli.profiles import Profile, config_path, dotted, read_profile
from levada.config import ClientConfig, Config
from levada.errors import ConfigError

CLIENT_ID = "levada-cli"
"""The default client.id of the command line's clients."""
OPTION_PREFIX = "LEVADA_X_"
BROKERS = "bootstrap.servers"


class Layer(NamedTuple):
    """Settings from one source. where: names the source in error messages."""

    where: str
    values: Mapping[str, Any]


class Settings:
    """The user's settings for clients of all kinds. If several layers have a setting, the first layer counts."""

    def __init__(self, layers: Sequence[Layer], output: OutputFormat | None, config_file: Path) -> None:
        self._layers = layers
        self.output = output
        """The output format from the environment or the profile, or None."""
        self._config_file = config_file

    def of(self, kind: type[Config], *, needs_brokers: bool = True) -> dict[str, Any]:
        """Return the settings for a client of this kind. Settings that only other kinds know are left out: a profile is for all kinds.

        Raises ConfigError if no client knows a setting (the error names its source), and with needs_brokers, if bootstrap.servers is
        missing.
        """
        found: dict[str, Any] = {"client.id": CLIENT_ID} if "client.id" in kind.OPTIONS else {}
        for layer in reversed(self._layers):
            for key, value in layer.values.items():
                name = kind.ALIASES.get(dotted(key), dotted(key))
                if name in kind.OPTIONS:
                    found[name] = value
                elif not _is_known(key):
                    _refuse(layer, key, value)
        if needs_brokers and BROKERS not in found:
            raise ConfigError(
                f"no brokers are named: give -b host:9092, set LEVADA_BROKERS, or make a profile with brokers in {self._config_file}"
            )
        return found


def settings_of(environment: Mapping[str, str], *, brokers: str | None, options: Iterable[str], profile: str | None) -> Settings:
    """Return the settings of a run, from the command line, the environment and a profile.

    brokers: bootstrap.servers. options: each as KEY=VALUE. profile: its name; None for the one that LEVADA_PROFILE or else the file names.
    Raises ConfigError if an option is not of the form KEY=VALUE or the output format is unknown, and the errors of read_profile().
    """
    path = config_path(environment)
    read = read_profile(path, profile or environment.get("LEVADA_PROFILE"))
    given = {**_pairs(options), **({BROKERS: brokers} if brokers else {})}
    layers = [Layer("-X", given), *_of_environment(environment), Layer(read.where, read.settings)]
    return Settings(layers, _output(environment, read), path)


def settings_of_another(environment: Mapping[str, str], *, brokers: str | None, profile: str | None) -> Settings:
    """Return the settings of a second cluster. They are only `brokers`, or those of the profile if `brokers` is None.

    Raises the errors of read_profile().
    """
    path = config_path(environment)
    if brokers is not None:
        return Settings([Layer("--to-brokers", {BROKERS: brokers})], None, path)
    read = read_profile(path, profile)
    return Settings([Layer(read.where, read.settings)], None, path)


def _pairs(options: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"-X {option!r}: expected KEY=VALUE, such as -X security.protocol=SSL")
        pairs[key.strip()] = value
    return pairs


def _of_environment(environment: Mapping[str, str]) -> list[Layer]:
    brokers = environment.get("LEVADA_BROKERS")
    options = {key: value for key, value in environment.items() if key.startswith(OPTION_PREFIX)}
    return [
        *(Layer(key, {key.removeprefix(OPTION_PREFIX).lower(): value}) for key, value in options.items()),
        *([Layer("LEVADA_BROKERS", {BROKERS: brokers})] if brokers else []),
    ]


def _output(environment: Mapping[str, str], profile: Profile) -> OutputFormat | None:
    word = environment.get("LEVADA_OUTPUT") or profile.output
    if word is None:
        return None
    try:
        return OutputFormat(word)
    except ValueError:
        where = "LEVADA_OUTPUT" if environment.get("LEVADA_OUTPUT") else profile.where
        near = did_you_mean(str(word), OutputFormat)
        raise ConfigError(f"{where}: output is one of {', '.join(OutputFormat)}; got {word!r}{near}") from None


def _is_known(key: str) -> bool:
    name = dotted(key)
    return any(name in kind.OPTIONS or name in kind.ALIASES for kind in Config.KINDS)


def _refuse(layer: Layer, key: str, value: Any) -> None:
    try:
        ClientConfig.parse({key: value})
    except ConfigError as unknown:
        close = did_you_mean(dotted(key), {name for kind in Config.KINDS for name in (*kind.OPTIONS, *kind.ALIASES)})
        text = f"unknown option '{key}'{close}" if close else str(unknown)
        raise ConfigError(f"{layer.where}: {text}") from None
