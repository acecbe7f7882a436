"""Profiles: named sets of settings in a TOML file. Their secrets can be kept elsewhere.

    default = "dev"

    [profiles.dev]
    brokers = "localhost:9092"

    [profiles.production]
    brokers = "kafka-1.example:9093,kafka-2.example:9093"
    output = "json"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "alice"
    sasl.password = { command = "pass show kafka/alice" }

A profile holds settings of the clients under Kafka's names. A setting's value may be read from a file: `{ file = "..." }`, from the output
of a command: `{ command = "..." }` (a list of words, or text that is split like a shell does), or from an environment variable:
`{ env = "..." }`. A line feed at the end of each of these is removed. Such a file is refused if other users can read or write it.

The profiles are in config.toml in $XDG_CONFIG_HOME/levada, by default ~/.config/levada, or in the file that LEVADA_CONFIG names. This file
may name commands to run, so it is refused if other users can write it. If the profile that is used contains a secret, it is also refused
if other users can read it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from levada.base.text import did_you_mean
from levada.cli.private_files import read_private
from levada.config import Config
from levada.config.option import Option
from levada.errors import ConfigError

COMMAND_TIMEOUT_S = 60
SOURCES = ("file", "command", "env")
"""The sources of a value that stands outside of the file."""


class Profile(NamedTuple):
    """A profile with its secrets read. where: its name and file, for errors. output: its output format, or None."""

    where: str
    settings: Mapping[str, Any]
    output: str | None = None


def config_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the configuration file, which need not exist. Raises ConfigError if the home directory is needed and not known."""
    if named := environment.get("LEVADA_CONFIG"):
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME")
    try:
        return (Path(home) if home else Path.home() / ".config") / "levada" / "config.toml"
    except RuntimeError:
        raise ConfigError("the home directory is not known; set HOME, or LEVADA_CONFIG to the configuration file") from None


def read_profile(path: Path, name: str | None) -> Profile:
    """Return a profile. name: None takes the profile that `default` names, or an empty profile if there is no `default` or no file.

    Raises ConfigError if the profile does not exist, if a secret cannot be read, or if the file is invalid or has unsafe permissions;
    OSError if a file cannot be opened.
    """
    try:
        return _read(path, name)
    except FileNotFoundError:
        if name is not None:
            raise ConfigError(f"there is no profile '{name}': {path} does not exist") from None
        return Profile(str(path), {})
    except RecursionError:
        raise ConfigError(f"{path}: tables or lists are nested too deeply") from None


def profile_names(path: Path) -> list[str]:
    """Return the names of all profiles in a file. Raises ConfigError or OSError if it cannot be read."""
    return list(_parsed(path).get("profiles", {}))


def _read(path: Path, name: str | None) -> Profile:
    found = _parsed(path)
    profiles = found.get("profiles", {})
    wanted = name if name is not None else found.get("default")
    if wanted is None:
        return Profile(str(path), {})
    if wanted not in profiles:
        by = "" if name is not None else f', which `default = "{wanted}"` in this file names'
        raise ConfigError(f"{path}: there is no profile '{wanted}'{by}{did_you_mean(str(wanted), profiles)}")
    where = f"profile '{wanted}' of {path}"
    try:
        flat = _flat(profiles[wanted])
    except ConfigError as fault:
        raise ConfigError(f"{where}: {fault}") from None
    return _checked(path, where, flat)


def _parsed(path: Path) -> dict[str, Any]:
    text = read_private(path, "the configuration file", others_may_read=True)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"{path}: this is not TOML: {fault}") from None
    if unknown := sorted(found.keys() - {"default", "profiles"}):
        raise ConfigError(f"{path}: unknown key '{unknown[0]}'{did_you_mean(unknown[0], ('default', 'profiles'))}")
    profiles = found.get("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(profile, dict) for profile in profiles.values()):
        raise ConfigError(f"{path}: a profile is a table, such as [profiles.dev]")
    if not isinstance(found.get("default", ""), str):
        raise ConfigError(f"{path}: default is the name of a profile, as text")
    return found


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the settings by dotted name. TOML reads `security.protocol = ...` as nested tables."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and not _is_source(name, value):
            _check_words(name, value)
            flat |= _flat(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def _is_source(name: str, table: Mapping[str, Any]) -> bool:
    """Return whether a table is a source of a value. `{ file = ... }` may also be the last part of an option's name."""
    return len(table) == 1 and all(key in SOURCES and not _options(f"{name}.{key}") for key in table)


def _check_words(name: str, table: Mapping[str, Any]) -> None:
    """Raise ConfigError if a table stands in place of a secret but is no source."""
    if _is_secret(name) and (wrong := [key for key in table if not _options(f"{name}.{key}")]):
        unknown = [key for key in wrong if key not in SOURCES]
        close = did_you_mean(unknown[0], SOURCES) if unknown else ""
        told = ", ".join(f"'{key}'" for key in unknown or wrong)
        raise ConfigError(f'{name}: a secret comes from one of {", ".join(SOURCES)}, such as {{ file = "..." }}; got {told}{close}')


def _checked(path: Path, where: str, flat: dict[str, Any]) -> Profile:
    output = flat.pop("output", None)
    if "brokers" in flat:
        flat["bootstrap.servers"] = flat.pop("brokers")
    written = [name for name, value in flat.items() if _is_secret(name) and not isinstance(value, dict)]
    if written:
        read_private(path, f"the configuration file, which contains {written[0]},", others_may_read=False)
    return Profile(where, {name: _resolved(where, name, value) for name, value in flat.items()}, output)


def _is_secret(name: str) -> bool:
    return any(option.secret for option in _options(name))


def dotted(key: str) -> str:
    """Return a setting's name in Kafka's spelling: sasl_password becomes sasl.password."""
    return key.replace("_", ".").strip()


def _options(name: str) -> list[Option]:
    """Return the options of all Config classes with this name or alias."""
    name = dotted(name)
    found = (kind.OPTIONS.get(kind.ALIASES.get(name, name)) for kind in Config.KINDS)
    return [option for option in found if option is not None]


def _resolved(where: str, name: str, value: Any) -> Any:
    """Return a setting's value. If it is a source, read the value from there."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, dict):
        return value
    [(source, what)] = value.items()
    try:
        return {"file": _of_file, "command": _of_command, "env": _of_environment}[source](what)
    except ConfigError as fault:
        raise ConfigError(f"{where}: {name}: {fault}") from None


def _of_file(name: Any) -> str:
    try:
        path = Path(str(name)).expanduser()
    except RuntimeError:
        raise ConfigError(f"the home directory in {name} is not known") from None
    if "\0" in str(path):
        raise ConfigError(f"{str(path)!r} is not a file name")
    try:
        return _without_line_feed(read_private(path, "the secret's file", others_may_read=False))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist") from None


def _of_command(command: Any) -> str:
    words = _words(command)
    try:
        # The command keeps the user's stdin and stderr, so that it can ask for a passphrase and print its own errors.
        done = subprocess.run(words, stdout=subprocess.PIPE, timeout=COMMAND_TIMEOUT_S, check=False)
    except (OSError, IndexError, ValueError) as error:
        raise ConfigError(f"the command {words!r} could not be run: {error}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"the command {words!r} did not end within {COMMAND_TIMEOUT_S} s") from None
    if done.returncode:
        raise ConfigError(f"the command {words!r} ended with exit code {done.returncode}")
    return _without_line_feed(done.stdout.decode(errors="surrogateescape"))


def _words(command: Any) -> list[str]:
    if isinstance(command, str):
        try:
            return shlex.split(command)
        except ValueError as fault:
            raise ConfigError(f"the command cannot be split into words: {fault}") from None
    if not isinstance(command, list):
        raise ConfigError(f"a command is text or a list of words, not {type(command).__name__}")
    return [str(word) for word in command]


def _of_environment(name: Any) -> str:
    if str(name) not in os.environ:
        raise ConfigError(f"the environment variable {name} is not set")
    return _without_line_feed(os.environ[str(name)])


def _without_line_feed(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
