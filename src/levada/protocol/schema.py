"""How a message is declared.

A message is a class whose attributes say what stands on the wire, in wire order::

    class TopicProduceData(Struct):
        name: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partition_data: list[PartitionProduceData] = array(PartitionProduceData)

Versions are spans of the API's versions: "3", "0-12", "9+". `nullable` is the span in which null is allowed, `tagged` the span in which
the field is a tagged one (with number `tag`) instead of standing in line. A field that a version lacks reads as its default and, when it
holds something else, is refused on writing unless it is `ignorable`.

Every field has a default: the one given, else null where the field is nullable in all its versions, else zero, empty or a new struct.
Instances have slots, a keyword-only constructor, `==` and a repr that prints neither payloads nor what is marked `secret`. Arrays are
lists; records are bytes-like or None, and a memoryview of the input after decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeAlias, cast, dataclass_transform, overload
from uuid import UUID

if TYPE_CHECKING:
    # As in levada.types.
    from typing_extensions import TypeVar

    R = TypeVar("R", default=Any, covariant=True)
else:
    from typing import TypeVar

    R = TypeVar("R", covariant=True)

T = TypeVar("T")

RecordBytes: TypeAlias = bytes | bytearray | memoryview

ZERO_UUID: Final = UUID(int=0)
_LAST_VERSION = 32767
_SHOWN_BYTES = 32


class Versions(NamedTuple):
    """A span of versions, both ends included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read "3", "0-12", "9+" or "none"."""
        if text == "none":
            return NO_VERSIONS
        first, dash, last = text.partition("-")
        if first.endswith("+"):
            return cls(int(first[:-1]), _LAST_VERSION)
        return cls(int(first), int(last) if dash else int(first))

    def has(self, version: int) -> bool:
        """Whether the version lies in the span."""
        return self.first <= version <= self.last

    def covers(self, other: Versions) -> bool:
        """Whether the other span lies in this one."""
        return self.first <= other.first and other.last <= self.last


NO_VERSIONS: Final = Versions(0, -1)


class _Unset:
    """Marks a default that was not given."""

    def __repr__(self) -> str:
        return "<default>"


UNSET: Final[Any] = _Unset()

NEW: Final[Any] = _Unset()
"""The default of an array or struct that is nullable, but not null unless it is set so."""


class Field(NamedTuple):
    """One field of a struct, as the code generator sees it. element: of an array; struct: of kind "struct"; secret: not for logs."""

    kind: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Any
    ignorable: bool
    element: Field | None = None
    struct: type[Struct] | None = None
    name: str = ""
    secret: bool = False

    def is_tagged(self, version: int) -> bool:
        """Whether the field stands in the tag section of this version."""
        return self.tagged.has(version)

    def is_inline(self, version: int) -> bool:
        """Whether the field stands in line in this version."""
        return self.versions.has(version) and not self.tagged.has(version)

    def new_default(self) -> Any:
        """Return the default value; a fresh one when it can be changed in place."""
        if self.default is not UNSET:
            return self.default
        return [] if self.kind == "array" else cast("type[Struct]", self.struct)()


_ZEROS: Final = {"string": "", "bytes": b"", "records": None, "array": UNSET, "struct": UNSET}


def _field(
    kind: str, versions: str, default: Any = UNSET, *, nullable: str = "none", tagged: str = "none", tag: int = -1, **more: Any
) -> Any:
    span, nulls = Versions.parse(versions), Versions.parse(nullable)
    if default is UNSET:
        default = None if nulls.covers(span) else _ZEROS[kind]
    elif default is NEW:
        default = UNSET
    return Field(kind, span, nulls, Versions.parse(tagged), tag, default, **more)


class _Fixed(Protocol[T]):
    def __call__(self, versions: str = "0+", *, default: T = ..., tagged: str = "none", tag: int = -1, ignorable: bool = False) -> T:
        """Declare a field that is always there and always the same size."""


def _fixed(kind: str, zero: T) -> _Fixed[T]:
    def declare(versions: str = "0+", *, default: T = zero, tagged: str = "none", tag: int = -1, ignorable: bool = False) -> T:
        return cast(T, _field(kind, versions, default, tagged=tagged, tag=tag, ignorable=ignorable))

    return declare


int8: Final = _fixed("int8", 0)
int16: Final = _fixed("int16", 0)
int32: Final = _fixed("int32", 0)
int64: Final = _fixed("int64", 0)
uint16: Final = _fixed("uint16", 0)
uint32: Final = _fixed("uint32", 0)
float64: Final = _fixed("float64", 0.0)
boolean: Final = _fixed("bool", False)
uuid: Final = _fixed("uuid", ZERO_UUID)


@overload
def string(
    versions: str = "0+", *, default: str = ..., tagged: str = "none", tag: int = -1, ignorable: bool = False, secret: bool = False
) -> str: ...
@overload
def string(
    versions: str = "0+",
    *,
    nullable: str,
    default: str | None = ...,
    tagged: str = "none",
    tag: int = -1,
    ignorable: bool = False,
    secret: bool = False,
) -> str | None: ...
def string(versions: str = "0+", *, default: Any = UNSET, ignorable: bool = False, **more: Any) -> Any:
    """Declare text: UTF-8, at most 32767 bytes. secret: repr does not show it."""
    return _field("string", versions, default, ignorable=ignorable, **more)


@overload
def bytestring(
    versions: str = "0+", *, default: bytes = ..., tagged: str = "none", tag: int = -1, ignorable: bool = False, secret: bool = False
) -> bytes: ...
@overload
def bytestring(
    versions: str = "0+",
    *,
    nullable: str,
    default: bytes | None = ...,
    tagged: str = "none",
    tag: int = -1,
    ignorable: bool = False,
    secret: bool = False,
) -> bytes | None: ...
def bytestring(versions: str = "0+", *, default: Any = UNSET, ignorable: bool = False, **more: Any) -> Any:
    """Declare opaque bytes. secret: repr does not show it."""
    return _field("bytes", versions, default, ignorable=ignorable, **more)


def records(versions: str = "0+", *, nullable: str = "none", ignorable: bool = False) -> RecordBytes | None:
    """Declare record batches as raw bytes. Null and empty both mean that there are none."""
    return cast("RecordBytes | None", _field("records", versions, nullable=nullable, ignorable=ignorable))


@overload
def array(element: Callable[..., T], versions: str = "0+", *, tagged: str = "none", tag: int = -1, ignorable: bool = False) -> list[T]: ...
@overload
def array(
    element: Callable[..., T],
    versions: str = "0+",
    *,
    nullable: str,
    default: list[T] | None = ...,
    tagged: str = "none",
    tag: int = -1,
    ignorable: bool = False,
) -> list[T] | None: ...
def array(element: Any, versions: str = "0+", *, default: Any = UNSET, ignorable: bool = False, **more: Any) -> Any:
    """Declare a list of structs (give the class) or of primitives (give the function, such as int32). The only default is null."""
    inner = _field("struct", "0+", struct=element, ignorable=False) if isinstance(element, StructMeta) else element()
    return _field("array", versions, default, ignorable=ignorable, element=inner, **more)


S = TypeVar("S", bound="Struct")


@overload
def struct(element: type[S], versions: str = "0+", *, tagged: str = "none", tag: int = -1, ignorable: bool = False) -> S: ...
@overload
def struct(
    element: type[S],
    versions: str = "0+",
    *,
    nullable: str,
    default: None = ...,
    tagged: str = "none",
    tag: int = -1,
    ignorable: bool = False,
) -> S | None: ...
def struct(element: Any, versions: str = "0+", *, default: Any = UNSET, ignorable: bool = False, **more: Any) -> Any:
    """Declare a struct inside a struct. The only default but a new struct is null."""
    return _field("struct", versions, default, ignorable=ignorable, struct=element, **more)


class StructMeta(type):
    """Turns declared fields into slots and a list of fields."""

    FIELDS: tuple[Field, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructMeta:
        """Take the fields out of the class body. options: the class keywords of Request and Response."""
        fields = tuple(value._replace(name=key) for key, value in namespace.items() if isinstance(value, Field))
        for field in fields:
            del namespace[field.name]
        namespace["__slots__"] = tuple(field.name for field in fields)
        cls = super().__new__(mcs, name, bases, namespace, **options)
        cls.FIELDS = fields
        return cls


@dataclass_transform(kw_only_default=True, eq_default=True)
class Struct(metaclass=StructMeta):
    """Base of everything declared: a request, a response, or a part of one."""

    FIELDS: ClassVar[tuple[Field, ...]]
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, **values: Any) -> None:
        # Generated when the first instance is made: most programs use few of the messages, and compiling costs more than declaring.
        cls = type(self)
        cls.__init__ = _make_init(cls)  # type: ignore[method-assign]
        self.__init__(**values)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={_show(field, getattr(self, field.name))}" for field in self.FIELDS)
        return f"{type(self).__name__}({shown})"


def _show(field: Field, value: Any) -> str:
    if field.secret and value:
        return "<secret>"
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > _SHOWN_BYTES:
        return f"<{len(value)} bytes>"
    return repr(bytes(value) if isinstance(value, memoryview) else value)


def _make_init(cls: type[Struct]) -> Callable[..., None]:
    parameters, body, scope = [], [], {"UNSET": UNSET}
    for field in cls.FIELDS:
        name, default = field.name, f"default_{field.name}"
        if field.default is UNSET:
            scope[default] = list if field.kind == "array" else field.struct
            parameters.append(f"{name}=UNSET")
            body.append(f"self.{name} = {default}() if {name} is UNSET else {name}")
        else:
            scope[default] = field.default
            parameters.append(f"{name}={default}")
            body.append(f"self.{name} = {name}")
    signature = ", ".join(["self", *(["*", *parameters] if parameters else [])])
    source = f"def __init__({signature}):\n    " + "\n    ".join(body or ["pass"])
    # Compiled first: Ctrl-C within text that is executed ends the process by the signal, whatever the program makes of KeyboardInterrupt.
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), scope)
    init = cast("Callable[..., None]", scope["__init__"])
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


class Message(Struct):
    """A struct that travels on its own, with versions.

    MIN_VERSION to MAX_VERSION are those Kafka has released. OLDEST_VERSION to NEWEST_VERSION hold its drafts as well, which encode and
    decode, and are never chosen by themselves.
    """

    NAME: ClassVar[str]
    OLDEST_VERSION: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    NEWEST_VERSION: ClassVar[int]
    FIRST_FLEXIBLE: ClassVar[int | None]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return cls.FIRST_FLEXIBLE is not None and version >= cls.FIRST_FLEXIBLE

    @classmethod
    def _set_versions(cls, versions: str, flexible: str, unstable: str = "none") -> None:
        stable = Versions.parse(versions)
        draft = stable if unstable == "none" else Versions.parse(unstable)
        cls.MIN_VERSION, cls.MAX_VERSION = stable
        cls.OLDEST_VERSION, cls.NEWEST_VERSION = min(stable.first, draft.first), max(stable.last, draft.last)
        cls.FIRST_FLEXIBLE = None if flexible == "none" else Versions.parse(flexible).first


class Request(Message, Generic[R]):
    """A request: `class FetchRequest(Request["FetchResponse"], key=1, versions="0-18", flexible="12+")`.

    R: what a client gets for it, for type checkers. unstable: the versions that are drafts.
    """

    API_KEY: ClassVar[int]
    RESPONSE: ClassVar[type[Response]]

    def __init_subclass__(cls, *, key: int, versions: str, flexible: str = "none", unstable: str = "none") -> None:
        cls.API_KEY = key
        cls.NAME = cls.__name__.removesuffix("Request")
        cls._set_versions(versions, flexible, unstable)


class Response(Message):
    """A response: `class ProduceResponse(Response, request=ProduceRequest)`; its versions are the request's."""

    API_KEY: ClassVar[int]
    REQUEST: ClassVar[type[Request]]

    def __init_subclass__(cls, *, request: type[Request]) -> None:
        cls.API_KEY, cls.NAME, cls.FIRST_FLEXIBLE = request.API_KEY, request.NAME, request.FIRST_FLEXIBLE
        cls.MIN_VERSION, cls.MAX_VERSION = request.MIN_VERSION, request.MAX_VERSION
        cls.OLDEST_VERSION, cls.NEWEST_VERSION = request.OLDEST_VERSION, request.NEWEST_VERSION
        cls.REQUEST = request
        request.RESPONSE = cls


class Data(Message):
    """What stands in a bytes field or in a record, with versions of its own: `class EndTxnMarker(Data, versions="0")`."""

    def __init_subclass__(cls, *, versions: str, flexible: str = "none") -> None:
        cls.NAME = cls.__name__
        cls._set_versions(versions, flexible)


class RecordKey(Data, versions="0"):
    """The key of a record in a coordinator's topic; RECORD_TYPE stands before it and tells what the record is about."""

    RECORD_TYPE: ClassVar[int]
    VALUE: ClassVar[type[RecordValue]]

    def __init_subclass__(cls, *, record_type: int, versions: str = "0") -> None:
        super().__init_subclass__(versions=versions)
        cls.RECORD_TYPE = record_type


class RecordValue(Data, versions="0"):
    """The value of a record in a coordinator's topic; its version stands before it. No value at all is a tombstone."""

    KEY: ClassVar[type[RecordKey]]

    def __init_subclass__(cls, *, key: type[RecordKey], versions: str, flexible: str = "none") -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.KEY = key
        key.VALUE = cls
