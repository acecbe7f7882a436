"""Writes docs/CLI.md from the commands' help texts: `python -m levada.cli.document > docs/CLI.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from typer import Context
from typer.core import TyperGroup

from levada.cli import offsets
from levada.cli.application import COMMANDS, application, load
from levada.cli.command import PANEL
from levada.cli.exits import MEANINGS

_HEAD = """\
# The command line

`pip install 'levada[cli]'` installs the command `levada`. Every command has a `--help`; `make docs` generates this page from these texts.

```
levada broker --port 9092 &
levada topics create orders -p 3 -b localhost:9092
echo hello | levada produce orders -b localhost:9092
levada consume orders -b localhost:9092
levada doctor -b localhost:9092
```

Data go to stdout and everything else to stderr. Results are printed as tables; `-o json` and `-o yaml` print all fields, for programs.
Failures are named on stderr; JSON and YAML also have them among the results. `levada consume` prints records in the format of `--output`,
`LEVADA_OUTPUT` or the profile. Without a format, or if `LEVADA_OUTPUT` or the profile says `table`, it prints the bare values.

A terminal acts on escape sequences, and keys, values and headers of records may contain such sequences. If stdout is a terminal, their
control characters are therefore printed in an escaped form, such as `\\x1b`; the text of a template is printed unchanged. In a file or a
pipe every byte is unchanged. In tables, line feeds, tabs and invisible characters such as U+200B are escaped too; JSON and YAML keep them.

Before an action that cannot be undone, levada asks for confirmation. If stdin is not a terminal, such an action needs `--yes`.
Commands that ask a cluster, such as `levada topics list`, wait 15 s for each answer; `-X default.api.timeout.ms=60000` changes that. If
none of the brokers of `-b` can be reached, a command fails after it has tried each; if TLS or the login fails, it fails at once. With
`--wait` it waits for brokers that are still starting, until the timeout of its calls.
`levada registry` retries once if a registry does not answer; `-X max.retries=5` or `--wait` retry more often.
`levada scan`, `levada copy`, and parquet and Arrow files of `levada produce`, need pyarrow: `pip install 'levada[cli,arrow]'`.
"""
_OFFSETS = """\
## Offsets

All commands use this syntax for positions in a log. Some commands take one position, others a range.

A range that ends before it begins, or a partition that a topic does not have, is refused with exit code 2. If a range begins or ends
behind the end of a log, or has no records, stderr says so, and the exit code is 0: `levada consume` waits for those records; `levada
consume -e`, `levada scan` and `levada copy` read only the records that exist. `levada perf consume` of an empty topic fails.

`levada consume` and `levada scan` take a regular expression for topics: `'/orders-.*/'` are all topics whose whole name matches it.
Kafka's own topics, which begin with `__`, only match an expression that has `__` in it. With `--group`, topics that are created later are
read, too.
"""


def document() -> str:
    """Return the page as Markdown."""
    root = application()
    context = Context(root, info_name="levada")
    parts = [_HEAD, "## Options of every command\n", _table(root, context, of_every_command=True), _exit_codes()]
    parts += [_OFFSETS, f"```\n{inspect.cleandoc(offsets.__doc__ or '').partition(chr(10))[2].strip()}\n```\n"]
    for name in COMMANDS:
        parts += _sections(load(name), name, context)
    return "\n".join(parts)


def _sections(command: Any, name: str, parent: Context) -> Iterator[str]:
    context = Context(command, info_name=name, parent=parent)
    yield f"{'##' if parent.parent is None else '###'} {context.command_path}\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    if isinstance(command, TyperGroup):
        for below in command.list_commands(context):
            yield from _sections(command.get_command(context, below), below, context)
        return
    yield f"```\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```\n"
    yield _table(command, context, of_every_command=False)


def _table(command: Any, context: Context, *, of_every_command: bool) -> str:
    """Return a table of a command's parameters: either the options of every command, or the command's own parameters."""
    params = [param for param in command.get_params(context) if (getattr(param, "rich_help_panel", None) == PANEL) is of_every_command]
    records = [record for param in params if (record := param.get_help_record(context)) and "--help" not in record[0]]
    return _rows(("", ""), [(f"`{declared}`", meaning) for declared, meaning in records]) if records else ""


def _exit_codes() -> str:
    codes = _rows(("code", "meaning"), [(str(int(code)), meaning) for code, meaning in MEANINGS.items()])
    return f"## Exit codes\n\n{codes}"


def _rows(heading: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {' | '.join(heading)} |", "|---|---|", *(f"| {_cell(left)} | {_cell(right)} |" for left, right in rows)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(document(), end="")
