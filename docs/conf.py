"""The site: `make site` builds it with Sphinx from the pages in this folder."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from levada import KafkaError, __version__

project = "levada"
release = version = __version__
copyright = author = "the levada authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["requirements/TESTS.md"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
smartquotes = False  # They would turn the -- of options into a dash.
highlight_language = "text"
suppress_warnings = ["ref.python"]  # Both APIs have classes of the same names.
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "levada"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = html_logo = "_static/levada.svg"
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"inherited-members": "object, tuple, BaseException, Generic, Enum, str, int, dict, Mapping"}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

CHART = Path(__file__).parents[1] / "demo" / "out" / "delays.svg"
NOT_FOR_PROGRAMS = re.compile(r"(?:, |(?<=\())_\w+: [\w.~|\[\], ]+? = [^,)]*|, \*\*unknown: [\w.~]*Never")
CODE = re.compile(r"(`+)(.+?)\1")
PAGE = re.compile(r"docs/([\w/-]+)\.md")


def without_pages_for_developers(app: Any, env: Any) -> None:
    """Leave decisions and requirements out of the search, whose words they share with the pages for users."""
    for page in env.found_docs:
        if page.startswith(("adr/", "requirements/")):
            env.metadata[page]["nosearch"] = True


def without_private_arguments(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Leave out arguments that are for levada itself: _connect, and the misspelt ones that an error explains."""
    if not signature or not NOT_FOR_PROGRAMS.search(signature):
        return None
    return NOT_FOR_PROGRAMS.sub("", signature).replace("(, ", "(").replace("*, **", "**"), returned


def as_restructured_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring, which is Markdown with "name: meaning" for arguments, into the markup that autodoc reads."""
    arguments = "|".join(map(re.escape, arguments_of(obj)))
    named = re.compile(rf"(^|(?<=\. )|^- )((?:{arguments})(?:, (?:{arguments}))*)(?=: )") if arguments else None
    written: list[str] = []
    fenced = False
    for line in lines:
        text = line.lstrip()
        if text.startswith("```"):
            fenced = not fenced
            written += ["", f".. code-block:: {text.strip('`') or 'text'}", ""] if fenced else [""]
        elif fenced:
            written.append(f"    {line}")
        else:
            if text.startswith("- ") and written and written[-1].strip() and not written[-1].lstrip().startswith("- "):
                written.append("")
            written.append(inline(named.sub(r"\1**\2**", line) if named else line))
    if inspect.isclass(obj) and issubclass(obj, KafkaError):
        written += ["", " ".join(what_holds(obj))]
    lines[:] = written


def what_holds(error: type[KafkaError]) -> Iterator[str]:
    """Say what a program can do about every error of this class."""
    if error.retriable is True:
        yield "**Retriable**: repeating the call may succeed."
    if error.fatal is True:
        yield "**Fatal**: close this client, and make another one."
    if code := vars(error).get("CODE"):
        yield f"Kafka's error {code.name} ({code.value})."


def arguments_of(obj: Any) -> list[str]:
    """Return the names that a docstring may explain: a call's arguments, and a class's attributes."""
    try:
        names = [name for name in inspect.signature(obj).parameters if name not in ("self", "cls")]
    except (TypeError, ValueError):
        names = []
    if inspect.isclass(obj):
        names += [name for name in dir(obj) if not name.startswith("_")]
        names += list(getattr(obj, "__annotations__", ()))
    return sorted(set(names), key=len, reverse=True)


def inline(line: str) -> str:
    """Write code, pages and what reStructuredText takes for markup in one line."""
    pieces = CODE.split(line)
    text, code = pieces[::3], pieces[2::3]
    for number, piece in enumerate(text):
        piece = re.sub(r"(?<!\*)\*(?!\*)|\*\*(?=\w+[^\w*])(?![^*]*\*\*)|\|", r"\\\g<0>", piece)
        piece = re.sub(r"(?<=\w)_(?!\w)", r"\\_", piece)
        text[number] = PAGE.sub(lambda found: f":doc:`/{found[1]}`", piece)
    written = text[0]
    for piece, after in zip(code, text[1:], strict=True):
        written += f"``{piece}``" + ("\\ " if after[:1].isalnum() else "") + after
    return written


def without_fields(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what Python itself says about the fields of a named tuple: the class's signature has them."""
    return True if (getattr(obj, "__doc__", None) or "").startswith("Alias for field number") else None


class StateDiagram(Directive):
    """Shows the transitions of a Mermaid state diagram as a table. Drawing one needs a browser, or a script from the network."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        names = dict(re.findall(r"^\s*(\w+): (.*)$", "\n".join(self.content), re.M))
        moves = re.findall(r"^\s*(\w+) --> (\w+): (.*)$", "\n".join(self.content), re.M)
        if not moves:
            raise self.error("a Mermaid figure that is no state diagram with transitions")
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (30, 40, 30)), cols=3)
        group += nodes.thead("", _row("in the state", "when", "next state"))
        group += (body := nodes.tbody())
        before = None
        for start, end, when in moves:
            body += _row("" if start == before else names[start], when, "the same" if start == end else names[end])
            before = start
        return [nodes.table("", group)]


def _row(*cells: str) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in cells))


def with_the_chart_of_the_last_demo(app: Any, error: Exception | None) -> None:
    """Show what `make demo` drew on this machine, if it was run, instead of the chart that is committed."""
    if error is None and CHART.exists():
        shutil.copyfile(CHART, Path(app.outdir) / "_images" / "demo.svg")


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.add_directive("mermaid", StateDiagram)
    app.connect("env-updated", without_pages_for_developers)
    app.connect("build-finished", with_the_chart_of_the_last_demo)
    app.connect("autodoc-process-signature", without_private_arguments)
    app.connect("autodoc-process-docstring", as_restructured_text)
    app.connect("autodoc-skip-member", without_fields)
