"""Names and values of options as the user wrote them: this module checks the names, suggests known ones, and parses the values.

Spark passes option names in lower case; messages show the usual spelling. An option that is silently ignored gives a wrong result. So an
unknown option is refused, and the error suggests a similar name. With `unknownOptions=warn` it is logged instead.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from levada.base.text import did_you_mean
from levada.config import ConsumerConfig, ProducerConfig
from levada.config.registry import RegistryConfig
from levada.errors import ConfigError
from levada.types import is_topic_name

logger = logging.getLogger(__name__)

UNKNOWN_OPTIONS = "unknownOptions"
KAFKA = "kafka."
"""The prefix of options that are settings of the Kafka clients."""
BOOTSTRAP = f"{KAFKA}bootstrap.servers"
PROVIDER = "provider"
"""An option that only CREATE TABLE adds."""
NO_TABLES = (
    "CREATE TABLE cannot be used: Spark does not pass the table's options to a Python source when the table is read or written; "
    "use CREATE TEMPORARY VIEW ... USING levada OPTIONS (...)"
)
REGISTRY = "schema.registry."
"""The prefix of options that are settings of the schema registry's client."""
MOST_LONG = 2**63 - 1
MOST_DIGITS = 19
MOST_PARTITION = 2**31 - 1
MOST_SHOWN = 200
DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Side(NamedTuple):
    """The option names of the source, or of the sink.

    options: the names that this side accepts. other: "sink" if this is the source, else "source". options_of_other: the names that the
    other side accepts, for error texts.
    """

    other: str
    options: tuple[str, ...]
    options_of_other: tuple[str, ...]


def split(given: Mapping[str, str], side: Side) -> tuple[dict[str, str], dict[str, str]]:
    """Return two mappings: levada's own options in their usual spelling, and the settings of the Kafka client without their prefix
    `kafka.`.

    The options that begin with `schema.registry.` are among levada's own. Raises ConfigError for an unknown option, unless
    unknownOptions=warn, and for the option that CREATE TABLE adds.
    """
    if any(name.lower() == PROVIDER for name in given):
        raise ConfigError(NO_TABLES)
    by_folded = {option.lower(): option for option in side.options}
    warns = _warns_of_unknown(given)
    own: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, value in given.items():
        folded = name.lower()
        if folded.startswith(KAFKA):
            client[folded.removeprefix(KAFKA)] = value
        elif folded in by_folded:
            own[by_folded[folded]] = value
        elif folded.startswith(REGISTRY):
            own[folded] = value
        elif warns:
            logger.warning("%s; ignored, because %s is warn", _fault(name, side, by_folded), UNKNOWN_OPTIONS)
        else:
            raise ConfigError(_fault(name, side, by_folded))
    return own, client


def _warns_of_unknown(given: Mapping[str, str]) -> bool:
    for name, value in given.items():
        if name.lower() == UNKNOWN_OPTIONS.lower():
            return choice({UNKNOWN_OPTIONS: value}, UNKNOWN_OPTIONS, ("fail", "warn"), "fail") == "warn"
    return False


def _fault(name: str, side: Side, by_folded: Mapping[str, str]) -> str:
    folded = name.lower()
    for option in side.options_of_other:
        if option.lower() == folded:
            return f"option '{option}' belongs to a levada {side.other}, not here"
    return f"unknown option '{name}'{_did_you_mean(folded, by_folded)}"


def _did_you_mean(folded: str, by_folded: Mapping[str, str]) -> str:
    if folded == "path":
        return "; topics are named with 'subscribe' or 'assign' when reading and with 'topic' when writing"
    if folded in ConsumerConfig.OPTIONS or folded in ProducerConfig.OPTIONS:
        return f"; did you mean 'kafka.{folded}'?"
    if folded in RegistryConfig.OPTIONS:
        return f"; did you mean '{REGISTRY}{folded}'?"
    candidates = {**by_folded, BOOTSTRAP: BOOTSTRAP}
    close = difflib.get_close_matches(folded, candidates, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{candidates[close[0]]}'?"
    return f"; known here: {', '.join(sorted(by_folded.values()))} and kafka.* for the client's own settings"


def boolean(own: Mapping[str, str], name: str, default: bool) -> bool:
    """Read an option that is true or false. Raises ConfigError for another text. own: levada's own options, from split()."""
    word = own.get(name, str(default)).strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"option '{name}': expected true or false, got {own[name]!r}")
    return word == "true"


def choice(own: Mapping[str, str], name: str, words: Collection[str], default: str) -> str:
    """Read an option that must be one of `words`, in upper or lower case. Raises ConfigError for another text.

    own: levada's own options, from split(). words: in lower case.
    """
    word = own.get(name, default).strip().lower()
    if word not in words:
        raise ConfigError(f"option '{name}': expected {' or '.join(words)}, got {own[name]!r}{did_you_mean(word, words)}")
    return word


def positive(own: Mapping[str, str], name: str) -> int | None:
    """Read a whole number above 0; None if the option is not given. Raises ConfigError for another text. own: from split()."""
    return whole(own, name, least=1)


def whole(own: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    """Read a whole number of at least `least`, 0 or 1; None if the option is not given. Raises ConfigError for another text."""
    if name not in own:
        return None
    number = decimal(own[name].strip())
    if number is None or number < least:
        kind = "a whole number above 0" if least else "0 or a whole number above it"
        raise ConfigError(f"option '{name}': expected {kind}, got {shown(own[name])}")
    return number


def decimal(text: str) -> int | None:
    """Return the number that the text holds. None if it has other characters than 0 to 9, or if the number is above 2**63 - 1."""
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        return None
    number = int(text)
    return number if number <= MOST_LONG else None


def duration_s(own: Mapping[str, str], name: str, default_s: float) -> float:
    """Read a duration such as 15m or 500ms, and return seconds; default_s if the option is not given. Raises ConfigError for another text.

    A number without a unit is milliseconds. own: levada's own options, from split().
    """
    if name not in own:
        return default_s
    found = DURATION.fullmatch(own[name].strip())
    number = None if found is None else decimal(found[1])
    if found is None or number is None:
        raise ConfigError(f"option '{name}': expected a duration such as 15m, 30s or 500ms, got {shown(own[name])}")
    return number * _SECONDS[(found[2] or "ms").lower()]


def parse_json(text: str, name: str, form: str) -> Any:
    """Read the text of an option that is JSON. Raises ConfigError for another text.

    An object that has a key twice is refused: the first value would be lost. name: of the option. form: the expected form, for errors.
    """
    try:
        return json.loads(text, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as fault:
        why = "it is nested too deep" if isinstance(fault, RecursionError) else str(fault)
        raise ConfigError(f"option '{name}': cannot use {shown(text)} ({why}); {form}") from None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(name for name in names if names.count(name) > 1)}' comes twice")
    return found


def shown(text: str) -> str:
    """Return the text of an option for an error message: quoted, and shortened."""
    return repr(text) if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]!r}..."


def check_topic(name: str, topic: str) -> None:
    """Raise ConfigError for a name that no topic can have. name: of the option."""
    if not is_topic_name(topic):
        raise ConfigError(
            f"option '{name}': {shown(topic)} is not a topic name: use letters, digits, '.', '_' and '-', at most 249 characters"
        )
