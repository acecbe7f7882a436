"""Words of kcat, Kafka's scripts and rpk: the few that levada accepts, and for the others the command line of levada that does the same."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ALIASES: Mapping[str, str] = {"topic": "topics", "group": "groups", "ls": "list", "rm": "delete"}
"""Names of commands that are accepted as well, because users of rpk type them all day. No command of levada has these names."""

PROGRAMS = ("kcat", "kafkacat", "rpk")
MODES: Mapping[str, str] = {"-C": "consume", "-P": "produce", "-L": "topics list", "-Q": "topics offsets"}
"""kcat's letters that say what to do. They may stand anywhere."""
VERBS: Mapping[str, str] = {
    "--list": "list",
    "--create": "create",
    "--describe": "describe",
    "--delete": "delete",
    "--alter": "alter",
    "--reset-offsets": "reset",
    "--delete-offsets": "delete-offsets",
}
"""Options of Kafka's scripts that say what to do."""
COMMANDS: Mapping[str, str] = {
    "console-consumer": "consume",
    "console-producer": "produce",
    "consumer-groups": "groups",
    "producer-perf-test": "perf produce",
    "consumer-perf-test": "perf consume",
    "get-offsets": "topics offsets",
    "dump-log": "log dump",
    "metadata-quorum": "cluster quorum",
    "broker list": "cluster nodes",
    "brokers": "cluster nodes",
    "nodes": "cluster nodes",
    "metadata": "cluster info",
    "cluster describe": "cluster info",
    "cluster metadata": "cluster info",
    "cluster health": "doctor",
    "security acl": "acls",
    "security user": "users",
    "acl": "acls",
    "user": "users",
    "topics consume": "consume",
    "topics produce": "produce",
    "topics alter": "topics add-partitions",
    "topics alter-config": "configs set topic",
    "topics trim-prefix": "topics delete-records",
    "groups seek": "groups reset",
    "groups offset-delete": "groups delete-offsets",
    "groups lag": "groups describe",
    "configs alter": "configs set",
    "configs get": "configs describe",
    "registry subject list": "registry subjects",
    "registry schema list": "registry subjects",
    "registry schema get": "registry schema",
    "registry schema create": "registry register",
    "lag": "groups describe",
    "tail": "consume",
    "cat": "consume",
    "read": "consume",
    "write": "produce",
    "send": "produce",
    "list": "topics list",
    "create": "topics create",
    "describe": "topics describe",
    "delete": "topics delete",
    "reset": "groups reset",
}
"""Other tools' names of commands, and levada's. Names of Kafka's scripts are without `kafka-` and `.sh`, and ALIASES are replaced first."""
OF_EVERY_COMMAND: Mapping[str, str] = {
    "--bootstrap-server HOST": "-b {}",
    "--bootstrap-servers HOST": "-b {}",
    "--broker-list HOST": "-b {}",
    "--consumer-property SETTING": "-X {}",
    "--producer-property SETTING": "-X {}",
    "--command-property SETTING": "-X {}",
    "--format json": "-o json",
    "--format yaml": "-o yaml",
}
_NAME: Mapping[str, str] = {"--topic NAME": "{}", "-t NAME": "{}"}
_GROUP: Mapping[str, str] = {"--group NAME": "{}", "-g NAME": "{}"}
_RESOURCE: Mapping[str, str] = {
    "--entity-type topics": "topic",
    "--entity-type brokers": "broker",
    "--entity-type broker-loggers": "broker-logger",
    "--entity-type groups": "group",
    "--entity-type client-metrics": "client-metrics",
    "--entity-name NAME": "{}",
    "--topic NAME": "topic {}",
}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "consume": {
        "--from-beginning": "",
        "--max-messages N": "-c {}",
        "-n N": "-c {}",
        "--num N": "-c {}",
        "-g NAME": "-G {}",
        "--timeout-ms MS": "-e",
        "--include REGEX": "/{}/",
        "--whitelist REGEX": "/{}/",
        "--partitions N": "-p {}",
        "--isolation-level NAME": "-X isolation.level={}",
        "--read-committed": "-X isolation.level=read_committed",
        "--rack NAME": "-X client.rack={}",
        "--property print.key=true": "-K '\\t'",
        "--formatter-property print.key=true": "-K '\\t'",
        "--property key.separator=SEPARATOR": "-K {}",
        "--formatter-property key.separator=SEPARATOR": "-K {}",
        "--property SETTING": "",
        "--formatter-property SETTING": "",
        "--skip-message-on-error": "--on-decode-error skip",
        "-q": "",
        "-u": "",
        "-d NAMES": "-v",
    },
    "produce": {
        **_NAME,
        "--property parse.key=true": "-K '\\t'",
        "--reader-property parse.key=true": "-K '\\t'",
        "--property key.separator=SEPARATOR": "-K {}",
        "--reader-property key.separator=SEPARATOR": "-K {}",
        "--property SETTING": "",
        "--reader-property SETTING": "",
        "--compression-codec NAME": "-z {}",
        "--request-required-acks N": "-a {}",
        "--sync": "",
        "-l": "",
        "-d NAMES": "-v",
    },
    "topics list": {**_NAME, "--exclude-internal": "", "-i": "--internal"},
    "topics create": {**_NAME, "--replication-factor N": "-r {}", "--topic-config SETTING": "-c {}"},
    "topics describe": {**_NAME, "-p": "", "-s": "", "-a": ""},
    "topics delete": _NAME,
    "topics add-partitions": {**_NAME, "--partitions N": "--total {}"},
    "topics offsets": {**_NAME, "--time -1": "--at end", "--time -2": "--at start", "--time MS": "--at @{}"},
    "topics delete-records": {**_NAME, "-o OFFSET": "--before {}", "--offset OFFSET": "--before {}", "--no-confirm": "-y"},
    "groups list": {"-s": ""},
    "groups describe": {**_GROUP, "--all-groups": "", "--offsets": "", "-l": "", "-c": "", "-d": ""},
    "groups delete": _GROUP,
    "groups delete-offsets": _GROUP,
    "groups reset": {
        **_GROUP,
        "--to-earliest": "--to start",
        "--to-latest": "--to end",
        "--to-offset N": "--to {}",
        "--to-datetime TIME": "--to @{}",
        "--to-current": "--by 0",
        "--shift-by N": "--by {}",
        "--topics NAME": "-t {}",
        "--all-topics": "",
        "--dry-run": "",
    },
    "configs describe": {**_RESOURCE, "--describe": ""},
    "configs set": {**_RESOURCE, "--add-config SETTING": "{}", "--set SETTING": "{}", "-s SETTING": "{}"},
    "perf produce": {**_NAME, "--num-records N": "-n {}", "--record-size N": "-s {}", "--throughput N": "--rate {}"},
    "perf consume": {**_NAME, "--messages N": "-n {}", "--num-records N": "-n {}"},
}
"""What an option of another tool becomes, by command of levada. A word after the option means that it has a value: a word in capitals
stands for any value, a word without capitals for this value only, and a word that ends in capitals for values that begin like it. The
value, without such a beginning, replaces {}. "" means that the option is not needed. A replacement that does not begin with - is a name,
which stands before the options."""
_REGEX = ("-r", "--regex")


def answer(root: Any, words: Sequence[str]) -> str | None:
    """Return the command line of levada that does what these words mean in another tool. It is complete: it can be typed.

    None if there is none that levada accepts, or if it would be the same words. root: the application, which has the commands.
    """
    left = [word for word in words if word not in ("-h", "--help")]
    path, left = _path(root, left)
    if path is None or (own := _own_options(root, path)) is None:
        return None
    if path == "topics list" and any(word == "-t" or word.startswith("--topic") for word in left):
        path = "topics describe"
        own = _own_options(root, path) or {}
    names, options = _replaced(path, left, own)
    line = [*path.split(), *names, *options]
    return shlex.join(["levada", *line]) if line != list(words) and _is_accepted(root, line) else None


def _path(root: Any, words: list[str]) -> tuple[str | None, list[str]]:
    """Return the command of levada that the words mean, and the other words; (None, []) if they mean none."""
    if words and words[0] in PROGRAMS:
        words = words[1:]
    first = next(iter(words), "")
    if first.startswith("-"):
        for place, word in enumerate(words):
            if word[:2] in MODES:
                more = [f"-{word[2:]}"] if len(word) > 2 else []
                return MODES[word[:2]], [*words[:place], *more, *words[place + 1 :]]
    in_front, words = _options_in_front(words)
    named: list[str] = []
    while words and not words[0].startswith("-") and len(named) < 3:
        named.append(words.pop(0))
    if named:
        named[0] = named[0].removeprefix("kafka-").removesuffix(".sh")
    named = [ALIASES.get(word, word) for word in named[:2]] + named[2:]
    verb = next((word for word in words if word in VERBS), None)
    if verb is not None and len(named) < 2:
        words.remove(verb)
        of_groups = any(word.startswith(("--group", "--all-groups")) for word in words) or verb.endswith("-offsets")
        named = [*(named or ["groups" if of_groups else "topics"]), VERBS[verb]]
        named[0] = COMMANDS.get(named[0], named[0])
    for count in (3, 2, 1):
        name = " ".join(named[:count])
        if len(named) >= count and (name in COMMANDS or _own_options(root, name) is not None):
            ours, kind, _ = COMMANDS.get(name, name).partition(" topic")
            return ours, [*in_front, *kind.split(), *named[count:], *words]
    return ("consume", [*in_front, *words]) if not named and {"-t", "-G"} & set(words) else (None, [])


def _options_in_front(words: list[str]) -> tuple[list[str], list[str]]:
    """Split off the options that stand before a command, with their values."""
    have_values = {key.split()[0] for key in OF_EVERY_COMMAND} | {"-b", "--brokers", "-X", "--option", "--profile", "-o", "--output"}
    place = 0
    while place < len(words) and words[place] in have_values:
        place += 2
    return words[:place], words[place:]


def _own_options(root: Any, path: str) -> dict[str, bool] | None:
    """Return the options of a command of levada, and whether each has a value. None if there is no such command, or it is a group."""
    name, *below = path.split() or [""]
    command = root.loaded(name)
    for word in below:
        if (command := getattr(command, "commands", {}).get(word)) is None:
            return None
    if command is None or hasattr(command, "commands"):
        return None
    return {
        spelling: not (param.is_flag or param.count)
        for param in command.params
        if param.param_type_name == "option"
        for spelling in param.opts
    }


def _replaced(path: str, words: Sequence[str], own: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Return the names and the options of a command, with options of other tools replaced."""
    # An option that this command of levada has is replaced only if OPTIONS names it: it means something else in another tool.
    table = {**{key: to for key, to in OF_EVERY_COMMAND.items() if key.split()[0] not in own}, **OPTIONS.get(path, {})}
    foreign = {key.split()[0]: " " in key for key in table}
    names: list[str] = []
    options: list[str] = []
    are_regexes = False
    for option, value in _parsed(words, {**own, **foreign}):
        if option is None:
            (names if not options or path not in ("consume", "produce") else options).append(str(value))
        elif option in _REGEX and option not in own:
            are_regexes = True
        elif option not in foreign:
            options += [option] if value is None else [option, value]
        else:
            made = _replacement(table, option, value)
            if made[:1] == ["-K"] and "-K" in options:
                # print.key=true has the separator \t, unless key.separator follows.
                options[options.index("-K") + 1] = made.pop()
                continue
            (options if not made or made[0].startswith("-") else names).extend(made)
    return [f"/{name}/" for name in names] if are_regexes else names, options


def _replacement(table: Mapping[str, str], option: str, value: str | None) -> list[str]:
    for key, to in table.items():
        name, _, wanted = key.partition(" ")
        fixed = wanted.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        if name != option or not (value or "").startswith(fixed) or (fixed == wanted and value != (wanted or None)):
            continue
        return [word.replace("{}", (value or "").removeprefix(fixed)) for word in shlex.split(to)]
    return [option] if value is None else [option, value]


def _parsed(words: Sequence[str], have_values: Mapping[str, bool]) -> Iterator[tuple[str | None, str | None]]:
    """Yield options and their values, and names as (None, name)."""
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            yield None, word
            continue
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            attached = value if equals else None
        else:
            option, attached = word[:2], word[2:] or None
            if attached is not None and not have_values.get(option):
                # Several letters in one word.
                left.insert(0, f"-{attached}")
                attached = None
        if attached is None and have_values.get(option) and left:
            attached = left.pop(0)
        yield option, attached


def _is_accepted(root: Any, line: Sequence[str]) -> bool:
    """Return whether levada accepts the words of a command line. The command is not run."""
    import typer

    command = root
    context: Any = None
    words = list(line)
    name = "levada"
    try:
        while True:
            context = command.make_context(name, words, parent=context)
            if not hasattr(command, "commands"):
                return True
            name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
    except (typer.TyperException, typer.Exit):
        return False
