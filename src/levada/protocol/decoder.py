"""Generates the source of a decoder for one version of one message.

The generated function is straight-line code with loops only for arrays. `pos` is always the position of the next byte, `end` the end of the
data. Before anything is sliced or allocated, its length is compared with the bytes that remain. A fixed-size read beyond the end raises
struct.error or IndexError by itself. One `except` around the whole function turns every error into a ProtocolError with position and field.

While a larger array of structs is decoded, the structs are untracked: the garbage collector no longer visits them.
levada.protocol.untracked explains why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import calcsize
from typing import Any, cast

from levada.base.gil import has_gil
from levada.protocol import runtime
from levada.protocol.schema import UNSET, Field, Message, Request, Struct
from levada.protocol.source import FORMATS, LONGEST_SHORT_ARRAY, Slot, Source, unpackers_of
from levada.protocol.untracked import turns

_SIZES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4, "float64": 8, "bool": 1, "uuid": 16}

SEVERAL = 8
"""Arrays with fewer structs are untracked together with the struct around them, because a call for each would cost more."""


def smallest_size(field: Field, version: int, flexible: bool) -> int:
    """Return the smallest number of bytes that a value of this field can take. flexible: whether the version is flexible."""
    if field.kind in _SIZES:
        return _SIZES[field.kind]
    if field.kind == "string":
        return 1 if flexible else 2
    if field.struct is None:
        return 1 if flexible else 4
    if field.nullable.has(version):
        return 1
    parts = [smallest_size(part, version, flexible) for part in field.struct.FIELDS if part.is_inline(version)]
    return sum(parts) + flexible


def decoder_source(message: type[Message], version: int) -> Source:
    """Return the source of a function decode(data, pos, end), which returns the message and the position after it."""
    return _Decoder(message, version).write()


class _Decoder:
    def __init__(self, message: type[Message], version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = message.is_flexible(version)
        self.counts_elements = issubclass(message, Request)
        self.null = "0" if self.flexible else "-1"
        self.out = Source({name: getattr(runtime, name) for name in _HELPERS} | {"new": object.__new__, "turns": turns})
        self.run: list[Slot] = []
        self.after_run: list[str] = []
        self.names = 0

    def write(self) -> Source:
        with self.out.block("def decode(data, pos, end):"):
            self.out.line("view = memoryview(data)")
            if self.flexible:
                self.out.line("unknown = 0")
            if self.counts_elements:
                self.out.line("elements = 0")
            with self.out.block("try:"):
                self.new_struct(self.message, "message")
                self.flush()
            with self.out.block("except FAULTS as error:"):
                self.out.line("raise decode_fault(error, pos) from error")
            self.out.line("return message, pos")
        return self.out

    def fresh(self, word: str) -> str:
        """Return a variable name that is not in use."""
        self.names += 1
        return f"{word}{self.names}"

    def new_struct(self, struct: type[Struct], target: str) -> None:
        """Write code that creates a struct, assigns it to `target`, and decodes its fields."""
        var = self.made(struct, target)
        for field in struct.FIELDS:
            with self.out.field(field.name):
                self.member(field, f"{var}.{field.name}")
        if self.flexible:
            with self.out.field("tags"):
                self.tags([field for field in struct.FIELDS if field.is_tagged(self.version)], var)

    def made(self, struct: type[Struct], target: str) -> str:
        """Write code that creates a struct but does not set its fields. Return the name of the variable that holds the struct."""
        var = target if target.isidentifier() else self.fresh("s")
        self.out.scope[struct.__name__] = struct
        self.out.line(f"{var} = new({struct.__name__})" if var == target else f"{var} = {target} = new({struct.__name__})")
        return var

    def member(self, field: Field, target: str) -> None:
        if field.is_inline(self.version):
            self.value(field, target)
        else:
            self.default(field, target)

    def default(self, field: Field, target: str) -> None:
        """Write code that sets a field to its default: a new object if the default is mutable."""
        if field.default is not UNSET:
            self.out.line(f"{target} = {self.constant(field.default)}")
        elif field.kind == "array":
            self.out.line(f"{target} = []")
        else:
            var = self.made(cast("type[Struct]", field.struct), target)
            for part in cast("type[Struct]", field.struct).FIELDS:
                self.default(part, f"{var}.{part.name}")

    def constant(self, value: Any) -> str:
        """Return a Python expression for a default value. Values without a literal become a variable in the scope of the code."""
        if value is None or isinstance(value, bool | int | str | bytes):
            return repr(value)
        name = self.fresh("default")
        self.out.scope[name] = value
        return name

    def value(self, field: Field, target: str) -> None:
        """Write code that decodes one value of a field's type and assigns it to `target`."""
        if field.kind in FORMATS:
            self.fixed(field.kind, target)
        elif field.kind == "struct":
            self.struct_value(field, target)
        else:
            {"string": self.string, "bytes": self.bytestring, "records": self.records, "array": self.array}[field.kind](field, target)

    def fixed(self, kind: str, target: str) -> None:
        place = target
        if kind == "uuid":
            place = self.fresh("raw")
            self.after_run.append(f"{target} = uuid_of({place})")
        self.run.append(Slot(FORMATS[kind], place, self.out.path))

    def flush(self) -> None:
        """Write the code that decodes the collected run of fixed-size values with one call of unpack."""
        if not self.run:
            return
        if len(self.run) == 1 and self.run[0].format == "B":
            self.out.line(f"{self.run[0].place} = data[pos]", self.run[0].field)
            size = 1
        else:
            size = self.out.add_run(self.run, _unpack, "unpack")
        self.out.line(f"pos += {size}")
        for line in self.after_run:
            self.out.line(line)
        self.run, self.after_run = [], []

    def head(self, classic: str, slow: str = "decode_uvarint") -> None:
        """Write code that decodes a length or an element count into the variable n, together with the run before it.

        In flexible versions n is the length plus one, or 0 for null. classic: the struct code of the length in other versions. slow: the
        function that decodes a length of more than two bytes.
        """
        self.run.append(Slot("B" if self.flexible else classic, "n", self.out.path))
        self.flush()
        if self.flexible:
            self.long_head(slow)

    def long_head(self, slow: str = "decode_uvarint") -> None:
        with self.out.block("if n > 127:"):
            with self.out.block("if data[pos] < 128:"):
                self.out.line("n = n & 127 | data[pos] << 7")
                self.out.line("pos += 1")
            with self.out.block("else:"):
                self.out.line(f"n, pos = {slow}(data, pos - 1)")

    def string(self, field: Field, target: str) -> None:
        self.head("h", "read_string_head")
        self.sized(field, target, 'str(data[pos:stop], "utf-8")')

    def bytestring(self, field: Field, target: str) -> None:
        self.head("i")
        self.sized(field, target, "bytes(view[pos:stop])")

    def records(self, field: Field, target: str) -> None:
        self.head("i")
        # Without the interpreter lock, CPython miscounts the views of one buffer when threads release them at once (its issue 127716). The
        # records are decoded in another thread than the one that receives, so they do not share a buffer with other views of the frame.
        self.sized(field, target, "view[pos:stop]" if has_gil() else "bytes(view[pos:stop])")

    @contextmanager
    def unless_null(self, field: Field, target: str, test: str) -> Iterator[None]:
        """Write code that sets a nullable field to None if the test is true, and otherwise runs the code that the `with` block writes."""
        if not field.nullable.has(self.version):
            yield
            return
        with self.out.block(f"if {test}:"):
            self.out.line(f"{target} = None")
        with self.out.block("else:"):
            yield
            self.flush()

    def sized(self, field: Field, target: str, value: str) -> None:
        """Write code that decodes a value of n bytes, where n is the variable that head() has set."""
        with self.unless_null(field, target, f"n == {self.null}"):
            self.out.line("stop = pos + n - 1" if self.flexible else "stop = pos + n")
            with self.out.block("if not pos <= stop <= end:"):
                self.out.line("raise length_fault(stop - pos, end - pos)")
            self.out.line(f"{target} = {value}")
            self.out.line("pos = stop")

    def array(self, field: Field, target: str) -> None:
        element = cast(Field, field.element)
        if element.kind in FORMATS and element.kind != "uuid":
            self.numbers(field, FORMATS[element.kind], target)
            return
        self.head("i")
        with self.unless_null(field, target, f"n == {self.null}"):
            self.elements(element, target)

    def elements(self, element: Field, target: str) -> None:
        """Write code that checks whether n elements can fit into the remaining bytes, and then decodes the elements."""
        smallest = max(1, smallest_size(element, self.version, self.flexible))
        if self.flexible:
            self.out.line("n -= 1")
        with self.out.block(f"if not 0 <= n <= (end - pos) // {smallest}:"):
            self.out.line(f"raise count_fault(n, end - pos, {smallest})")
        self.count_elements()
        self.loop(element, target)

    def count_elements(self) -> None:
        """Write code that adds n to the number of all array elements of the request, and raises if that number exceeds the limit."""
        if self.counts_elements:
            self.out.line("elements += n")
            with self.out.block(f"if elements > {runtime.MAX_REQUEST_ELEMENTS}:"):
                self.out.line("raise elements_fault(elements)")

    def numbers(self, field: Field, letter: str, target: str) -> None:
        """Write code that decodes an array of numbers. A short array, the usual case, takes one call; a longer array takes all checks.

        letter: the format of a number, as in the struct module. target: the variable for the list.
        """
        self.run.append(Slot("B" if self.flexible else "i", "n", self.out.path))
        self.flush()
        few, size = unpackers_of(letter), calcsize(f">{letter}")
        self.out.scope[f"few_{letter}"] = [None, *few] if self.flexible else few
        with self.out.block(f"if {int(self.flexible)} <= n <= {LONGEST_SHORT_ARRAY + self.flexible}:"):
            self.out.line(f"{target} = [*few_{letter}[n](data, pos)]")
            self.out.line(f"pos += n * {size}{f' - {size}' if self.flexible else ''}")
        with self.out.block("else:"):
            if self.flexible:
                self.out.line("n, pos = decode_uvarint(data, pos - 1)")
                self.out.line("n -= 1")
            self.count_elements()
            self.out.line(f"{target}, pos = read_numbers({letter!r}, n, data, pos, end, {field.nullable.has(self.version)})")

    def loop(self, element: Field, target: str) -> None:
        items, item = self.fresh("items"), self.fresh("item")
        self.out.line(f"{items} = {target} = []")
        with self.out.block(f"for _ in {self.steps(element, items)}:"):
            self.value(element, item)
            self.flush()
            self.out.line(f"{items}.append({item})")

    @staticmethod
    def steps(element: Field, items: str) -> str:
        return "range(n)" if element.struct is None else f"range(n) if n < {SEVERAL} else turns({items}, n)"

    def struct_value(self, field: Field, target: str) -> None:
        if field.nullable.has(self.version):
            self.run.append(Slot("b", "n", self.out.path))
            self.flush()
        # As in Java, null is -1 in line, but the unsigned varint 0 in the tag section.
        with self.unless_null(field, target, "n == 0" if field.is_tagged(self.version) else "n < 0"):
            self.new_struct(cast("type[Struct]", field.struct), target)

    def tags(self, fields: list[Field], var: str) -> None:
        """Write code that decodes a tag section. Tagged fields have their defaults already."""
        self.run.append(Slot("B", "n", self.out.path))
        self.flush()
        with self.out.block("if n:"):
            if not fields:
                self.out.line("pos, unknown = skip_tags(data, pos - 1, end, unknown)")
            else:
                self.known_tags(fields, var)

    def known_tags(self, fields: list[Field], var: str) -> None:
        tag, stop, left = self.fresh("tag"), self.fresh("stop"), self.fresh("left")
        self.long_head()
        self.out.line(f"{tag} = -1")
        with self.out.block(f"for {left} in range(n, 0, -1):"):
            self.out.line(f"{tag}, pos, {stop} = read_tag_head(data, pos, end, {tag})")
            word = "if"
            for field in fields:
                with self.out.block(f"{word} {tag} == {field.tag}:"), self.out.field(field.name):
                    self.value(field, f"{var}.{field.name}")
                    self.flush()
                word = "elif"
            # Tags ascend, so all tags after this one are unknown, too.
            with self.out.block(f"elif {tag} > {max(field.tag for field in fields)}:"):
                self.out.line(f"pos, unknown = skip_tagged_fields(data, {stop}, end, {left} - 1, {tag}, count_unknown(unknown))")
                self.out.line("break")
            with self.out.block("else:"):
                self.out.line("unknown = count_unknown(unknown)")
                self.out.line(f"pos = {stop}")
            with self.out.block(f"if pos != {stop}:"):
                self.out.line(f"raise tag_size_fault({tag}, pos, {stop})")


def _unpack(name: str, places: str) -> str:
    return f"{places}{'' if ', ' in places else ','} = {name}(data, pos)"


_HELPERS = (
    "uuid_of",
    "decode_uvarint",
    "read_string_head",
    "read_numbers",
    "length_fault",
    "count_fault",
    "skip_tags",
    "skip_tagged_fields",
    "count_unknown",
    "read_tag_head",
    "elements_fault",
    "tag_size_fault",
)
