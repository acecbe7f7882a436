"""docs/CLI.md, made of what --help says, by `python -m levada.cli.document`."""

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

`pip install 'levada[cli]'` installs the command `levada`. Every command has its own `--help`, of which `make docs` makes this page.

```
levada broker --port 9092 &
levada topics create orders -p 3 -b localhost:9092
echo hello | levada produce orders -b localhost:9092
levada consume orders -b localhost:9092
levada doctor -b localhost:9092
```

Data go to stdout and everything else to stderr. Results are tables; `-o json` and `-o yaml` print the same with all fields, for programs.
What failed is named on stderr; JSON and YAML have it among the results, too. `levada consume` prints records in the format that `--output`,
`LEVADA_OUTPUT` or the profile names, and without one, or where these two say `table`, their values as they are.

A terminal acts on escape sequences, and keys, values and headers of records may hold some. So where stdout is a terminal, their
control characters are written out, as `\\x1b`; what a template itself says is printed as it is. In a file or a pipe every byte is as
it was written. In tables, line feeds, tabs and invisible characters such as U+200B are written out too; JSON and YAML keep them.

What cannot be taken back is asked about first; without a terminal to ask on it needs `--yes`.
Commands that ask a cluster something, such as `levada topics list`, wait 15 s for each answer; `-X default.api.timeout.ms=60000` says
otherwise. Where none of the brokers that `-b` names can be reached, a command ends once each has failed, and where TLS or the login is
refused it ends at once; `--wait` has it wait for brokers that are still starting, for as long as its calls may take.
`levada registry` asks a registry that does not answer once more; `-X max.retries=5`, or `--wait`, more often.
`levada scan`, `levada copy`, and parquet and Arrow files of `levada produce`, need pyarrow: `pip install 'levada[cli,arrow]'`.
"""
_OFFSETS = """\
## Offsets

Wherever a command takes a position in a log, it is written like this. Some commands take one position, others a range.

A range that ends before it begins is refused. Where a range begins or ends behind the end of a log, stderr says so: `levada consume`
waits for those records, and with `-e`, as `levada scan` and `levada copy` do, it reads what is there.
"""


def document() -> str:
    """Return the page about all commands."""
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
    """Return the parameters of a command that every command has, or those that are its own."""
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
