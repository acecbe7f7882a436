"""A trace's context in the headers of a record."""

from __future__ import annotations

from typing import TypeAlias

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Link

from levada.api.arguments import header_pairs
from levada.types import Headers, HeadersIn

Pairs: TypeAlias = list[tuple[str, bytes | None]]


class _Reader(Getter[Headers]):
    """Reads headers. One that is null, or no text, is not there."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        found = [value.decode("utf-8", "replace") for name, value in carrier if name == key and value is not None]
        return found or None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


class _Writer(Setter[Pairs]):
    def set(self, carrier: Pairs, key: str, value: str) -> None:
        carrier.append((key, value.encode()))


_READER, _WRITER = _Reader(), _Writer()


def pairs_of(headers: HeadersIn | None) -> Pairs:
    """Return a record's headers as pairs."""
    return header_pairs(headers or ())


def with_context(headers: Headers, context: Context) -> Pairs:
    """Return a record's headers with a context, instead of the one they may have had."""
    own = propagate.get_global_textmap().fields
    pairs = [pair for pair in headers if pair[0] not in own]
    propagate.inject(pairs, context, _WRITER)
    return pairs


def context_of(headers: Headers) -> Context:
    """Return the context that headers carry, an empty one where they carry none."""
    return propagate.extract(headers, Context(), _READER)


def links_to(*contexts: Context) -> list[Link]:
    """Return links to the spans of contexts, each once, and none for a context without a span."""
    spans = {span.span_id: span for context in contexts if (span := trace.get_current_span(context).get_span_context()).is_valid}
    return [Link(span) for span in spans.values()]
