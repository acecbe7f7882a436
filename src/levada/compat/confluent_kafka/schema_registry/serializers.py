"""What the serializers and deserializers of all formats share: the strategies for the names of subjects, the options of their conf, and one
serializer of levada for each topic and field, because levada's serializers know their subject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from levada.compat.confluent_kafka.schema_registry.error import raising_registry_errors
from levada.compat.confluent_kafka.schema_registry.schema_ids import add_headers, id_header, levada_place, reads_headers
from levada.compat.confluent_kafka.serialization import Deserializer, MessageField, SerializationContext, Serializer

Settings = dict[str, Any]
Strategy = Callable[[SerializationContext, str | None], str | None]
"""Returns the name of a subject for a context and the name of a record."""

_SERIALIZERS = ("auto.register.schemas", "normalize.schemas", "use.schema.id", "use.latest.version", "use.latest.with.metadata")
ID_DESERIALIZER = "schema.id.deserializer"
_STRATEGY_TYPES = {"TOPIC": "TopicName", "RECORD": "RecordName", "TOPIC_RECORD": "TopicRecordName", "ASSOCIATED": "TopicName"}
_STRATEGY = ("subject.name.strategy", "subject.name.strategy.type", "subject.name.strategy.conf")


def topic_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None) -> str | None:
    """Return <topic>-key or <topic>-value."""
    if ctx is None:
        raise ValueError("SerializationContext is required for topic_subject_name_strategy")
    return f"{ctx.topic}-{ctx.field}"


def topic_record_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None) -> str | None:
    """Return <topic>-<name of the record>; None without a name."""
    if ctx is None:
        raise ValueError("SerializationContext is required for topic_record_subject_name_strategy")
    return None if record_name is None else f"{ctx.topic}-{record_name}"


def record_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None) -> str | None:
    """Return the name of the record; None without a name."""
    return record_name


def serializer_settings(conf: Mapping[str, Any] | None, own: Mapping[str, Any]) -> tuple[Settings, Settings]:
    """Return levada's settings, and the values of the options of one kind of serializer.

    own: these options, each with its default. Raises ValueError for options that levada cannot honour.
    """
    given = dict(conf or {})
    values = {name: given.pop(name, default) for name, default in own.items()}
    place = levada_place(given.pop("schema.id.serializer", None))
    strategy, kind = given.pop(_STRATEGY[0], None), given.pop(_STRATEGY[1], None)
    settings = {name: value for name, value in given.items() if name in _SERIALIZERS and value is not None}
    refuse_rest(given, {*_SERIALIZERS})
    settings["schema.id.serializer"] = place
    settings["subject.name.strategy"] = _levada_strategy(strategy, kind)
    return settings, values


def _levada_strategy(strategy: Strategy | None, kind: Any) -> Any:
    """Return levada's subject.name.strategy. strategy: a function of the program, or None. kind: subject.name.strategy.type, or None for
    TOPIC. Raises ValueError for another type.
    """
    if strategy is not None:
        return lambda topic, field, record_name: strategy(SerializationContext(topic, MessageField(field)), record_name)
    name = str(getattr(kind, "value", kind or "TOPIC")).upper()
    if name not in _STRATEGY_TYPES:
        raise ValueError(f"subject.name.strategy.type: expected one of {', '.join(_STRATEGY_TYPES)}, got {kind!r}")
    return _STRATEGY_TYPES[name]


def deserializer_settings(conf: Mapping[str, Any] | None, own: Mapping[str, Any]) -> Settings:
    """Return the values of the options of one kind of deserializer, and schema.id.deserializer.

    own: these options, each with its default. Strategies have no effect: values are read by their schema's id. Raises ValueError for
    options that levada cannot honour.
    """
    given = dict(conf or {})
    values = {name: given.pop(name, default) for name, default in {**own, ID_DESERIALIZER: None}.items()}
    refuse_rest(given, set(_STRATEGY))
    return values


def refuse_rest(given: Mapping[str, Any], known: set[str]) -> None:
    """Raise ValueError for options that are not known and not switched off."""
    rest = sorted(name for name, value in given.items() if name not in known and value not in (None, False))
    if rest:
        raise ValueError(f"Unrecognized properties: {', '.join(rest)}: levada.registry has nothing like them; leave them out")


def refuse_arguments(**given: Any) -> None:
    """Raise ValueError for arguments of constructors that levada cannot honour, unless they are None or False."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise ValueError(f"{name}: levada.registry has nothing like it; leave it out")


class PerFieldSerializer(Serializer):
    """A serializer that makes one of levada's for each topic and field. make: returns it for a topic and a field. to_dict: the program's
    function that converts an object before, None for no conversion.
    """

    def __init__(self, make: Callable[[str, str], Callable[[Any], bytes | None]], to_dict: Callable[..., Any] | None = None) -> None:
        if to_dict is not None and not callable(to_dict):
            raise ValueError("to_dict must be callable with the signature to_dict(object, SerializationContext)->dict")
        self._make = make
        self._to_dict = to_dict
        self._made: dict[tuple[str, str], Callable[[Any], bytes | None]] = {}

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return an object as bytes; None as None. The id of its schema stands before the data, or is added to ctx.headers.

        Raises ValueError without a context, SchemaRegistryError and SerializationError.
        """
        if obj is None:
            return None
        if ctx is None:
            raise ValueError("SerializationContext is required: the subject of the schema contains the topic")
        with raising_registry_errors():
            key = (ctx.topic, str(ctx.field))
            if key not in self._made:
                self._made[key] = self._make(*key)
            return add_headers(self._made[key](obj if self._to_dict is None else self._to_dict(obj, ctx)), ctx)


class ByIdDeserializer(Deserializer):
    """Deserializes with a deserializer of levada, by the schema id in the data or in a header.

    read: levada's deserializer, called with the data and the header with the id, or None. from_dict: the program's function that converts
    the result; None for no conversion. settings: from deserializer_settings().
    """

    def __init__(self, read: Callable[[bytes, bytes | None], Any], from_dict: Callable[..., Any] | None, settings: Settings) -> None:
        if from_dict is not None and not callable(from_dict):
            raise ValueError("from_dict must be callable with the signature from_dict(dict, SerializationContext) -> object")
        self._read = read
        self._reads_headers = reads_headers(settings[ID_DESERIALIZER])
        self._from_dict = from_dict

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the object that the bytes are, by the schema's id in them or in ctx.headers; None for None.

        Raises SchemaRegistryError and SerializationError.
        """
        if value is None:
            return None
        with raising_registry_errors():
            found = self._read(value, id_header(ctx) if self._reads_headers else None)
        return found if self._from_dict is None else self._from_dict(found, ctx)
