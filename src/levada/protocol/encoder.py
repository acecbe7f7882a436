"""Generates the source of an encoder for one version of one message.

The generated function appends byte strings to a list, which the caller joins once, so that payloads are copied only once. A value of the
wrong type or size makes pack, encode or len raise. One `except` around the whole function adds the name of the field.
"""

from __future__ import annotations

from typing import cast

from levada.protocol import runtime
from levada.protocol.schema import Field, Message, Struct
from levada.protocol.source import FORMATS, LONGEST_SHORT_ARRAY, Slot, Source, packers_of


def encoder_source(message: type[Message], version: int) -> Source:
    """Return the source of a function encode(message, parts), which appends the message's bytes to the list `parts`."""
    return _Encoder(message, version).write()


class _Encoder:
    def __init__(self, message: type[Message], version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = message.is_flexible(version)
        self.out = Source({name: getattr(runtime, name) for name in _HELPERS})
        self.run: list[Slot] = []
        self.names = 0
        self.add = "add"

    def write(self) -> Source:
        with self.out.block("def encode(message, parts):"):
            with self.out.block("try:"):
                self.out.line("add = parts.append")
                self.members(self.message, "message")
                self.flush()
            with self.out.block("except FAULTS as error:"):
                self.out.line("raise encode_fault(error) from error")
        return self.out

    def fresh(self, word: str) -> str:
        """Return a variable name that is not in use."""
        self.names += 1
        return f"{word}{self.names}"

    def members(self, struct: type[Struct], var: str) -> None:
        """Write code that encodes the fields of a struct."""
        for field in struct.FIELDS:
            with self.out.field(field.name):
                if field.is_inline(self.version):
                    self.value(field, f"{var}.{field.name}")
                elif not field.is_tagged(self.version) and not field.ignorable:
                    self.refuse(field, f"{var}.{field.name}")
        if self.flexible:
            self.tags([field for field in struct.FIELDS if field.is_tagged(self.version)], var)

    def refuse(self, field: Field, place: str) -> None:
        """Write code that raises if a field has a value other than its default, for a field that this version does not have."""
        with self.out.block(f"if {self.differs(field, place)}:"):
            self.out.line(f"missing_field({self.out.path!r})")

    def differs(self, field: Field, place: str) -> str:
        """Return an expression that is true if a field does not have its default value."""
        value = field.new_default()
        if value is None:
            return f"{place} is not None"
        if isinstance(value, list):
            return f"({place} is None or len({place}))"
        if isinstance(value, Struct):
            parts = [self.differs(part, f"{place}.{part.name}") for part in value.FIELDS]
            return f"({place} is None or {' or '.join(parts)})"
        if isinstance(value, bool | int | str | bytes):
            return f"{place} != {value!r}"
        name = self.fresh("default")
        self.out.scope[name] = value
        return f"{place} != {name}"

    def value(self, field: Field, place: str) -> None:
        """Write code that encodes one value of a field's type. place: the expression of the value."""
        if field.kind in FORMATS:
            self.run.append(Slot(FORMATS[field.kind], f"{place}.bytes" if field.kind == "uuid" else place, self.out.path))
        elif field.kind == "struct":
            self.struct_value(field, place)
        else:
            {"string": self.string, "bytes": self.bytestring, "records": self.bytestring, "array": self.array}[field.kind](field, place)

    def flush(self) -> None:
        """Write the code that encodes the collected run of fixed-size values with one call of pack."""
        if self.run:
            self.out.add_run(self.run, lambda name, places: f"{self.add}({name}({places}))", "pack")
            self.run = []

    def head(self, field: Field, place: str, length: str, classic: str, long: str = "encode_uvarint") -> None:
        """Write code that encodes a length or an element count, together with the run before it.

        place: the variable that is None if the value is null. length: the expression of the length. classic: the struct format of the
        length in versions that are not flexible. long: the function that encodes a length of 16383 or more in flexible versions.
        """
        nullable = field.nullable.has(self.version)
        if not self.flexible:
            text = f"-1 if {place} is None else {length}" if nullable else length
            self.run.append(Slot(classic, text, self.out.path))
            self.flush()
            return
        self.flush()
        self.out.line(f"n = 0 if {place} is None else {length} + 1" if nullable else f"n = {length} + 1")
        self.out.line(f"{self.add}(SHORT[n] if n < 128 else pair(n & 127 | 128, n >> 7) if n < 16384 else {long}(n))")

    def string(self, field: Field, place: str) -> None:
        if field.nullable.has(self.version):
            self.out.line(f"text = {place}")
            self.out.line('data = b"" if text is None else text.encode()')
        else:
            self.out.line(f"data = {place}.encode()")
        self.head(field, "text", "len(data)", "h", "write_string_head")
        self.out.line(f"{self.add}(data)")

    def bytestring(self, field: Field, place: str) -> None:
        self.out.line(f"blob = {place}")
        plain = 'blob if type(blob) in PLAIN else memoryview(blob).cast("B")'
        self.out.line(f'data = b"" if blob is None else {plain}' if field.nullable.has(self.version) else f"data = {plain}")
        self.head(field, "blob", "len(data)", "i")
        self.out.line(f"{self.add}(data)")

    def array(self, field: Field, place: str) -> None:
        element = cast(Field, field.element)
        items = self.fresh("items")
        self.out.line(f"{items} = {place}")
        if element.kind in FORMATS and element.kind != "uuid":
            self.numbers(field, FORMATS[element.kind], items)
            return
        self.head(field, items, f"len({items})", "i")
        self.loop(element, f"{items} or ()" if field.nullable.has(self.version) else items)

    def numbers(self, field: Field, letter: str, items: str) -> None:
        """Write code that encodes an array of numbers. A short array, the usual case, takes one call; a longer array takes two steps.

        letter: the format of a number, as in the struct module. items: the variable with the list.
        """
        self.flush()
        head = "B" if self.flexible else "i"
        counted = f"counted_{head}{letter}"
        self.out.scope[counted] = packers_of(head, letter)
        few = f"{items} is not None and len({items})" if field.nullable.has(self.version) else f"len({items})"
        with self.out.block(f"if {few} <= {LONGEST_SHORT_ARRAY}:"):
            self.out.line(f"n = len({items})")
            self.out.line(f"{self.add}({counted}[n](n{' + 1' if self.flexible else ''}, *{items}))")
        with self.out.block("else:"):
            self.head(field, items, f"len({items})", "i")
            with self.out.block(f"if {items}:"):
                self.out.line(f'{self.add}(pack(f">{{len({items})}}{letter}", *{items}))')

    def loop(self, element: Field, items: str) -> None:
        item = self.fresh("item")
        with self.out.block(f"for {item} in {items}:"):
            self.value(element, item)
            self.flush()

    def struct_value(self, field: Field, place: str) -> None:
        struct = cast("type[Struct]", field.struct)
        var = self.named(place)
        if not field.nullable.has(self.version):
            self.members(struct, var)
            return
        # As in Java, null is -1 in line, but the unsigned varint 0 in the tag section.
        null = 0 if field.is_tagged(self.version) else -1
        self.run.append(Slot("b", f"{null} if {var} is None else 1", self.out.path))
        self.flush()
        with self.out.block(f"if {var} is not None:"):
            self.members(struct, var)
            self.flush()

    def named(self, place: str) -> str:
        """Return a variable with the value of an expression; assign it first if the expression is not a variable."""
        if place.isidentifier():
            return place
        var = self.fresh("s")
        self.out.line(f"{var} = {place}")
        return var

    def tags(self, fields: list[Field], var: str) -> None:
        """Write code that encodes the tag section: the fields that do not have their defaults, in the order of their tags."""
        if not fields:
            self.run.append(Slot("x", "", self.out.path))
            return
        self.flush()
        places = {field: f"{var}.{field.name}" for field in sorted(fields, key=lambda field: field.tag)}
        for field, place in places.items():
            # A variable, because the expression is evaluated several times.
            if field.kind in ("struct", "array"):
                places[field] = self.named(place)
        tests = [self.differs(field, place) for field, place in places.items()]
        with self.out.block(f"if {' or '.join(tests)}:"):
            self.tagged(places, tests)
        with self.out.block("else:"):
            self.out.line(f"{self.add}(SHORT[0])")

    def tagged(self, places: dict[Field, str], tests: list[str]) -> None:
        """Write code that encodes a tag section that is not empty. tests: for each field, an expression from differs()."""
        found = self.fresh("tags")
        self.out.line(f"{found} = []")
        for (field, place), test in zip(places.items(), tests, strict=True):
            with self.out.field(field.name), self.out.block(f"if {test}:"):
                self.tag(field, place, found)
        self.out.line(f"{self.add}(SHORT[len({found})])")
        self.out.line(f"parts.extend({found})" if self.add == "add" else f"{self.add}(b''.join({found}))")

    def tag(self, field: Field, place: str, found: str) -> None:
        inner, outer = self.fresh("value"), self.add
        self.out.line(f"{inner} = []")
        self.add = f"{inner}.append"
        self.value(field, place)
        self.flush()
        self.add = outer
        self.out.line(f"{found}.append(tagged({field.tag}, {inner}))")


_HELPERS = ("SHORT", "PLAIN", "pair", "encode_uvarint", "write_string_head", "tagged")
