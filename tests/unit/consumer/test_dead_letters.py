"""Letters to a dead-letter topic: written once per record, however often a call is broken off."""

from __future__ import annotations

from typing import Any

import pytest

from consumer_kit import Bench, batch, run_flow
from levada.api.consumer.dead_letters import fitted
from levada.consumer.fetch.dead_letters import AwaitsDeadLetterError, DeadLetters
from levada.consumer.fetch.decode import RecordConverter
from levada.dead_letter import HEADER_PREFIX, MAX_HEADER_BYTES, letter
from levada.errors import ConnectError, DeadLetterError, RecordDeserializationError
from levada.record.batch import record_size_upper_bound
from levada.record.compression import Codec
from levada.types import AnyRecord, ConsumerRecord, TopicPartition


def failed(offset: int, value: bytes = b"bad") -> RecordDeserializationError:
    record: AnyRecord = ConsumerRecord("t", 0, offset, 7, 0, None, value, (("trace", None),), 0)
    return RecordDeserializationError("it does not deserialize", record)


def awaits(letters: DeadLetters, error: RecordDeserializationError) -> bool:
    try:
        letters.meet(error.record, error)
    except AwaitsDeadLetterError:
        return True
    return False


def test_a_letter_is_written_once_however_often_its_record_is_met() -> None:
    letters, error = DeadLetters("dead"), failed(3)
    assert awaits(letters, error)
    assert awaits(letters, failed(3))
    ((sent, record),) = letters.take_due()
    assert (record.topic, record.value) == ("dead", b"bad")
    assert awaits(letters, error)
    assert letters.take_due() == []
    sent.settle(None)
    assert not awaits(letters, error)
    assert not awaits(letters, failed(3))


def test_a_letter_that_failed_is_raised_once_and_due_again() -> None:
    letters, error = DeadLetters("dead"), failed(3)
    awaits(letters, error)
    ((sent, _),) = letters.take_due()
    sent.settle(ConnectError("no broker"))
    with pytest.raises(
        DeadLetterError, match=r"t-0 at offset 3: the value does not deserialize, .* 'dead': no broker; .*seek to 4"
    ) as caught:
        letters.meet(error.record, error)
    assert caught.value.retriable
    assert awaits(letters, error)
    assert len(letters.take_due()) == 1


def test_another_record_at_the_same_place_has_a_letter_of_its_own() -> None:
    """As in a topic that was created again."""
    letters = DeadLetters("dead")
    awaits(letters, failed(3))
    ((sent, _),) = letters.take_due()
    sent.settle(None)
    assert awaits(letters, failed(3, b"another"))
    ((_, record),) = letters.take_due()
    assert record.value == b"another"


def test_what_an_interrupted_program_has_not_sent_is_due_again() -> None:
    letters = DeadLetters("dead")
    for offset in (1, 2, 3):
        awaits(letters, failed(offset))
    first, second, third = letters.take_due()
    letters.give_back([second[0], third[0]])
    awaits(letters, failed(4))
    assert [record.headers[3][1] for _, record in letters.take_due()] == [b"2", b"3", b"4"]  # type: ignore[index]
    first[0].settle(None)
    assert not awaits(letters, failed(1))


def test_letters_of_records_that_are_passed_are_forgotten() -> None:
    letters = DeadLetters("dead")
    for offset in (1, 2, 3):
        awaits(letters, failed(offset))
    for sent, _ in letters.take_due():
        sent.settle(None)
    letters.forget_passed(lambda tp: {TopicPartition("t", 0): 3}[tp])
    assert not awaits(letters, failed(3))
    assert awaits(letters, failed(2))
    letters.forget_passed(lambda tp: None)
    assert awaits(letters, failed(3))


def test_all_bad_records_that_one_look_finds_are_due_together() -> None:
    """So a flood of them costs a round trip for each piece, not for each record."""
    letters = DeadLetters("dead")
    bench = Bench(converter=RecordConverter(None, int, on_error=letters.meet, foresee=letters.foresee))
    bench.assign(0)
    bench.fetched(batch(0, [b"0", b"x", b"2", b"y", b"z", b"5"]))
    assert bench.offsets() == [0]
    sent = letters.take_due()
    assert [record.value for _, record in sent] == [b"x", b"y", b"z"]
    for _ in range(2):
        with pytest.raises(AwaitsDeadLetterError):
            bench.records()
    assert (bench.position(), letters.take_due()) == (1, [])
    sent[0][0].settle(None)
    assert bench.offsets() == [2]
    for one, _ in sent[1:]:
        one.settle(None)
    assert bench.offsets() == [5]
    assert bench.position() == 6


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_all_bad_texts_of_a_batch_are_due_together(codec: Codec) -> None:
    columnar = pytest.importorskip("levada.record.columnar")
    letters, sink = DeadLetters("dead"), columnar.ColumnDecoder(("value",), text=("value",))
    bench = Bench(converter=RecordConverter(on_error=letters.meet, foresee=letters.foresee))
    bench.assign(0)
    bench.fetched(batch(0, [b"\xff", b"a", b"\xfe", None, b"\xfd", b"b"], codec=codec))

    def columns() -> list[str | None]:
        bench.collector.begin()
        found = run_flow(bench.collector.collect_columns(sink, None, 1 << 20, sink.finish))
        assert found is not None
        values: list[str | None] = found["value"].to_pylist()
        return values

    with pytest.raises(AwaitsDeadLetterError):
        columns()
    sent = letters.take_due()
    assert [record.value for _, record in sent] == [b"\xff", b"\xfe", b"\xfd"]
    for one, _ in sent:
        one.settle(None)
    assert columns() == ["a", None, "b"]
    assert bench.position() == 6


def test_a_letter_says_where_it_is_from_and_why() -> None:
    error = failed(3)
    error.__cause__ = LookupError("no schema \udcff 7")
    written = letter("dead", error)
    headers = dict(written.headers)  # type: ignore[arg-type]
    assert next(iter(headers)) == "trace"
    assert headers["__levada.errors.exception"] == b"LookupError"
    assert headers["__levada.errors.message"] == b"no schema \\udcff 7"
    assert headers["__levada.errors.timestamp"] == b"7"
    assert written.timestamp is None


@pytest.mark.parametrize("piece", ["x", "ä", "€", "\ud800"])
def test_the_headers_of_a_letter_are_cut(piece: str) -> None:
    """An exception that quotes its record would make a letter of twice the record's size."""
    error = failed(3)
    for length in (MAX_HEADER_BYTES // 8, MAX_HEADER_BYTES, 600_000):
        text = piece * length
        whole = text.encode("utf-8", "backslashreplace")
        error.__cause__ = ValueError(text)
        written = dict(letter("dead", error).headers)[HEADER_PREFIX + "message"]  # type: ignore[arg-type]
        assert isinstance(written, bytes)
        if len(whole) <= MAX_HEADER_BYTES:
            assert written == whole
            continue
        end = f"... ({length} characters)"
        assert MAX_HEADER_BYTES - 3 <= len(written) <= MAX_HEADER_BYTES
        assert written.decode().endswith(end)
        assert whole.startswith(written.removesuffix(end.encode()))


def test_a_record_that_just_fits_is_written_with_as_many_headers_as_fit() -> None:
    whole = letter("dead", failed(3))
    headers: Any = whole.headers
    for kept in range(1, len(headers) + 1):
        limit = record_size_upper_bound(0, len(b"bad"), headers[:kept])
        assert fitted(whole, limit).headers == headers[:kept]
    assert fitted(whole, None) == whole
    assert fitted(whole, 1).headers == [("trace", None)]
