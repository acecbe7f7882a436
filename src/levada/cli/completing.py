"""Completes values on the command line: topics and groups of the cluster, profiles, formats. It is loaded when a shell asks.

The options that already stand on the line count, such as -b and --profile. If the brokers do not answer soon, or anything else fails, there
are no completions: a shell shows no errors while a user types.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from threading import Thread
from typing import Any

TIME_LIMIT_S = 0.6
"""How long the brokers are asked. Together with the start of the process, a user waits for less than a second."""
QUICK: Mapping[str, Any] = {"request.timeout.ms": 500, "default.api.timeout.ms": 500, "socket.connection.setup.timeout.ms": 500}

TOPICS = frozenset({"topic", "topics", "source", "target"})
GROUPS = frozenset({"group", "groups"})
PROFILES = frozenset({"profile", "to_profile"})
"""Names of parameters by what their values are."""


def completions(context: Any, param: Any, incomplete: str) -> list[str]:
    """Return the values of a parameter that begin with what is typed, sorted; [] if they are not known within TIME_LIMIT_S.

    Names that begin with __ are left out until something is typed. context: typer's, with the options that stand on the line.
    """
    found: list[str] = []

    def ask() -> None:
        try:
            found.extend(_values(context, param))
        except Exception:
            logging.getLogger(__name__).debug("no completions", exc_info=True)

    asking = Thread(target=ask, name="levada-completing", daemon=True)
    asking.start()
    asking.join(TIME_LIMIT_S)
    return [one for one in sorted(found) if one.startswith(incomplete) and (incomplete or not one.startswith("__"))]


def _values(context: Any, param: Any) -> Iterable[str]:
    if (words := _WORDS.get((context.info_name, param.name))) is not None:
        return words()
    if param.name in PROFILES:
        from levada.cli.profiles import config_path, profile_names

        return profile_names(config_path(os.environ))
    if param.name in TOPICS:
        with _admin(context) as admin:
            return [str(topic) for topic in admin.list_topics(internal=True)]
    if param.name in GROUPS:
        with _admin(context) as admin:
            return [listing.group_id for listing in admin.list_groups()]
    return ()


def _admin(context: Any) -> Any:
    from levada import KafkaAdmin
    from levada.cli.command import OPTIONS, Given
    from levada.cli.invocation import Invocation
    from levada.config import AdminConfig

    own, outer = (
        Given(**{name: context_.params[name] or Given._field_defaults[name] for name in OPTIONS if name in context_.params})
        for context_ in (context, context.find_root())
    )
    given = own._replace(option=tuple(own.option)).over(outer._replace(option=tuple(outer.option)))
    run = Invocation(given.brokers, given.option, given.profile)
    # Log lines would mix with what the user types.
    logging.getLogger("levada").handlers[:] = [logging.NullHandler()]
    return KafkaAdmin({**run.client_settings(AdminConfig), **QUICK})


def _formats_of_consume() -> Iterable[str]:
    from levada.cli.records.printing import FORMATS

    return FORMATS


def _formats_of_produce() -> Iterable[str]:
    from levada.cli.commands.produce import FORMATS

    return FORMATS


def _formats_of_scan() -> Iterable[str]:
    from levada.cli.records.sinks import SUFFIXES

    return set(SUFFIXES.values())


def _kinds_of_schemas() -> Iterable[str]:
    from levada.cli.records.schemas import KINDS, PARTS

    return [*KINDS, *(f"{part}={kind}" for part in PARTS for kind in KINDS)]


def _kinds_of_columns() -> Iterable[str]:
    from levada.cli.records.schemas import OF_COLUMNS, PARTS

    return [*OF_COLUMNS, *(f"{part}={kind}" for part in PARTS for kind in OF_COLUMNS)]


def _codecs() -> Iterable[str]:
    return "none", "gzip", "snappy", "lz4", "zstd"


_WORDS: Mapping[tuple[str, str], Callable[[], Iterable[str]]] = {
    ("consume", "format"): _formats_of_consume,
    ("produce", "format"): _formats_of_produce,
    ("scan", "format"): _formats_of_scan,
    **{(command, "schema"): _kinds_of_schemas for command in ("consume", "produce")},
    ("scan", "schema"): _kinds_of_columns,
    **{(command, "on_decode_error"): lambda: ("raise", "skip", "null") for command in ("consume", "scan")},
    ("produce", "compression"): _codecs,
    ("produce", "acks"): lambda: ("all", "1", "0"),
    **{
        (command, "kind"): lambda: ("topic", "broker", "broker-logger", "group", "client-metrics")
        for command in ("describe", "set", "unset")
    },
}
"""By command and parameter, the values that do not depend on the cluster."""
