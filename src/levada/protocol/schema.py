"""The declaration of messages.

A message is a class whose attributes are the fields on the wire, in their order::

    class TopicProduceData(Struct):
        name: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partition_data: list[PartitionProduceData] = array(PartitionProduceData)

Versions are ranges of the API's versions: "3", "0-12", "9+", or "none". `nullable` is the range in which null is allowed. `tagged` is the
range in which the field is a tagged field (with number `tag`), not in line. If a version lacks a field, decoding sets its default. Encoding
raises an error if such a field has another value, unless it is `ignorable`.

Every field has a default: the given one; otherwise null if the field is nullable in all its versions; otherwise zero, empty or a new
struct, but null for records. Instances have slots, a keyword-only constructor, `==`, and a repr that hides `secret` fields, and binary
values of more than 32 bytes. Arrays are lists. Records are bytes-like or None; after decoding they are a memoryview of the input, or bytes
if there is no global interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeAlias, cast, dataclass_transform, overload
from uuid import UUID

if TYPE_CHECKING:
    # For the same reason as in levada.types.
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
    """A range of versions, from the lowest to the highest, both included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse "3", "0-12", "9+" or "none"."""
        if text == "none":
            return NO_VERSIONS
        first, dash, last = text.partition("-")
        if first.endswith("+"):
            return cls(int(first[:-1]), _LAST_VERSION)
        return cls(int(first), int(last) if dash else int(first))

    def has(self, version: int) -> bool:
        """Whether the version is in the range."""
        return self.first <= version <= self.last

    def covers(self, other: Versions) -> bool:
        """Whether the other range is completely in this one."""
        return self.first <= other.first and other.last <= self.last


NO_VERSIONS: Final = Versions(0, -1)


class _Unset:
    """Marks a default that was not given."""

    def __repr__(self) -> str:
        return "<default>"


UNSET: Final[Any] = _Unset()

NEW: Final[Any] = _Unset()
"""The default of a nullable array or struct that is not null by default."""


class Field(NamedTuple):
    """The declaration of one field of a struct, for the code generator.

    element: the declaration of an array's elements. struct: the class of a field that is a struct. secret: whether logs must not show it.
    """

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
        """Whether the field is in the tag section of this version."""
        return self.tagged.has(version)

    def is_inline(self, version: int) -> bool:
        """Whether this version has the field as an ordinary field, not in the tag section."""
        return self.versions.has(version) and not self.tagged.has(version)

    def new_default(self) -> Any:
        """Return the default value: a new object if it is mutable."""
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
        """Declare a field of fixed size that is never null. versions and the other arguments: see the module."""


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
    """Declare text: at most 32767 bytes of UTF-8. secret: repr() does not show it. versions and the other arguments: see the module."""
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
    """Declare opaque bytes. secret: repr() does not show them. versions and the other arguments: see the module."""
    return _field("bytes", versions, default, ignorable=ignorable, **more)


def records(versions: str = "0+", *, nullable: str = "none", ignorable: bool = False) -> RecordBytes | None:
    """Declare record batches as raw bytes. Null and empty both mean no batches. versions and the other arguments: see the module."""
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
    """Declare an array. element: the class of its structs, or the function that declares its elements, such as int32.

    default: None, or NEW for an empty list. versions and the other arguments: see the module.
    """
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
    """Declare a struct inside a struct. default: None or NEW; without it, a new struct unless the field is always nullable.

    element: the class of the struct. versions and the other arguments: see the module.
    """
    return _field("struct", versions, default, ignorable=ignorable, struct=element, **more)


class StructMeta(type):
    """Metaclass that turns declared fields into slots and the tuple FIELDS."""

    FIELDS: tuple[Field, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructMeta:
        """Move the fields from the class body to FIELDS. options: class keywords, for example those of Request and Response."""
        fields = tuple(value._replace(name=key) for key, value in namespace.items() if isinstance(value, Field))
        for field in fields:
            del namespace[field.name]
        namespace["__slots__"] = tuple(field.name for field in fields)
        cls = super().__new__(mcs, name, bases, namespace, **options)
        cls.FIELDS = fields
        return cls


@dataclass_transform(kw_only_default=True, eq_default=True)
class Struct(metaclass=StructMeta):
    """Base of all declared classes: requests, responses, and their parts."""

    FIELDS: ClassVar[tuple[Field, ...]]
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, **values: Any) -> None:
        # Generated for the first instance, because most programs use few messages, and compiling costs more than declaring.
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
    # Compiled first: during exec() of text, Ctrl-C would end the process by the signal, even if the program handles KeyboardInterrupt.
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), scope)
    init = cast("Callable[..., None]", scope["__init__"])
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


class Message(Struct):
    """A struct with versions of its own, such as a request. It can be encoded and decoded by itself.

    MIN_VERSION to MAX_VERSION are the versions that Kafka has released. OLDEST_VERSION to NEWEST_VERSION also include drafts, which can be
    encoded and decoded, but are never negotiated.
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

    R: the class of its response, for type checkers. unstable: the versions that are drafts.
    """

    API_KEY: ClassVar[int]
    RESPONSE: ClassVar[type[Response]]

    def __init_subclass__(cls, *, key: int, versions: str, flexible: str = "none", unstable: str = "none") -> None:
        cls.API_KEY = key
        cls.NAME = cls.__name__.removesuffix("Request")
        cls._set_versions(versions, flexible, unstable)


class Response(Message):
    """A response: `class ProduceResponse(Response, request=ProduceRequest)`. It has the versions of the request."""

    API_KEY: ClassVar[int]
    REQUEST: ClassVar[type[Request]]

    def __init_subclass__(cls, *, request: type[Request]) -> None:
        cls.API_KEY, cls.NAME, cls.FIRST_FLEXIBLE = request.API_KEY, request.NAME, request.FIRST_FLEXIBLE
        cls.MIN_VERSION, cls.MAX_VERSION = request.MIN_VERSION, request.MAX_VERSION
        cls.OLDEST_VERSION, cls.NEWEST_VERSION = request.OLDEST_VERSION, request.NEWEST_VERSION
        cls.REQUEST = request
        request.RESPONSE = cls


class Data(Message):
    """A struct in a bytes field or in a record, with its own versions: `class EndTxnMarker(Data, versions="0")`."""

    def __init_subclass__(cls, *, versions: str, flexible: str = "none") -> None:
        cls.NAME = cls.__name__
        cls._set_versions(versions, flexible)


class RecordKey(Data, versions="0"):
    """The key of a record in a coordinator's topic. Its prefix is RECORD_TYPE, the type of the record."""

    RECORD_TYPE: ClassVar[int]
    VALUE: ClassVar[type[RecordValue]]

    def __init_subclass__(cls, *, record_type: int, versions: str = "0") -> None:
        super().__init_subclass__(versions=versions)
        cls.RECORD_TYPE = record_type


class RecordValue(Data, versions="0"):
    """The value of a record in a coordinator's topic. Its prefix is its version. A record without a value is a tombstone."""

    KEY: ClassVar[type[RecordKey]]

    def __init_subclass__(cls, *, key: type[RecordKey], versions: str, flexible: str = "none") -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.KEY = key
        key.VALUE = cls
