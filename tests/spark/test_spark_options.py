"""Options of the Spark source and sink, read without Spark (spark.md 1.1, 1.2)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from levada.errors import ConfigError
from levada.spark.offsets import EARLIEST, LATEST
from levada.spark.options import NOT_YET, SINK_OPTIONS, SOURCE_OPTIONS, sink_options, source_options, wants_headers
from levada.types import TopicPartition

KAFKA = {"kafka.bootstrap.servers": "localhost:9092"}
SOURCE = {**KAFKA, "subscribe": "orders"}


def batch(**given: Any) -> Any:
    return source_options({**SOURCE, **given}, streaming=False)


def stream(**given: Any) -> Any:
    return source_options({**SOURCE, **given}, streaming=True)


def test_a_batch_reads_everything_and_a_stream_begins_at_the_end() -> None:
    assert (batch().starting, batch().ending) == (EARLIEST, LATEST)
    assert stream().starting == LATEST
    assert stream().fail_on_data_loss is True
    assert stream().include_headers is False
    assert stream().max_offsets_per_trigger is None


def test_names_arrive_in_lower_case() -> None:
    options = stream(startingoffsets="earliest", failondataloss="FALSE", maxoffsetspertrigger="500", includeheaders="true")
    assert options.starting == EARLIEST
    assert options.fail_on_data_loss is False
    assert options.max_offsets_per_trigger == 500
    assert options.include_headers is True


def test_subscribe_is_a_list_with_commas() -> None:
    options = source_options({**KAFKA, "subscribe": " a, b,,a "}, streaming=True)
    assert options.topics == ("a", "b")
    assert options.assigned == ()


def test_assign_names_partitions() -> None:
    options = source_options({**KAFKA, "assign": '{"t": [1, 0], "s": [2]}'}, streaming=True)
    assert options.assigned == (TopicPartition("s", 2), TopicPartition("t", 0), TopicPartition("t", 1))


@pytest.mark.parametrize("text", ["t", "[1]", '{"t": 0}', '{"t": [-1]}', '{"t": ["0"]}', '{"t": [true]}', "{}", '{"t": []}'])
def test_a_bad_assign_shows_the_form(text: Any) -> None:
    with pytest.raises(ConfigError, match=r"option 'assign'.*give \{\"topic\": \[0, 1\]\}"):
        source_options({**KAFKA, "assign": text}, streaming=True)


@pytest.mark.parametrize("where", [{}, {"subscribe": "a", "assign": '{"a":[0]}'}])
def test_exactly_one_of_subscribe_and_assign(where: Any) -> None:
    with pytest.raises(ConfigError, match="exactly one of the options 'subscribe'"):
        source_options({**KAFKA, **where}, streaming=True)


def test_an_empty_subscribe_is_an_error() -> None:
    with pytest.raises(ConfigError, match="names no topic"):
        stream(subscribe=" , ")


def test_starting_offsets_in_json() -> None:
    assert stream(startingoffsets='{"orders":{"0":23,"1":-2,"2":-1}}').starting == {
        TopicPartition("orders", 0): 23,
        TopicPartition("orders", 1): EARLIEST,
        TopicPartition("orders", 2): LATEST,
    }


@pytest.mark.parametrize(
    "text", ["newest", "{", '{"orders": 3}', '{"orders":{"0":"3"}}', '{"orders":{"x":3}}', '{"orders":{"0":-3}}', "{}", "[]"]
)
def test_bad_starting_offsets_show_the_form(text: Any) -> None:
    with pytest.raises(ConfigError, match=r"option 'startingOffsets': cannot use .* give \"earliest\", \"latest\" or JSON"):
        stream(startingoffsets=text)


@pytest.mark.parametrize("text", ["latest", '{"orders":{"0":-1}}'])
def test_a_batch_cannot_start_at_latest(text: Any) -> None:
    with pytest.raises(ConfigError, match="cannot start at latest"):
        batch(startingoffsets=text)


@pytest.mark.parametrize("text", ["earliest", '{"orders":{"0":-2}}'])
def test_a_batch_cannot_end_at_earliest(text: Any) -> None:
    with pytest.raises(ConfigError, match="cannot end at earliest"):
        batch(endingoffsets=text)


def test_a_stream_has_no_ending_offsets() -> None:
    with pytest.raises(ConfigError, match="'endingOffsets' is for batch queries"):
        stream(endingoffsets="latest")


@pytest.mark.parametrize("text", ["0", "-5", "many", "1.5", ""])
def test_a_limit_is_a_whole_number_above_zero(text: Any) -> None:
    with pytest.raises(ConfigError, match="'maxOffsetsPerTrigger': expected a whole number above 0"):
        stream(maxoffsetspertrigger=text)


def test_a_switch_is_true_or_false() -> None:
    with pytest.raises(ConfigError, match="'failOnDataLoss': expected true or false, got 'yes'"):
        stream(failondataloss="yes")


@pytest.mark.parametrize("option", NOT_YET)
def test_every_other_option_of_the_connector_is_refused_by_name(option: Any) -> None:
    with pytest.raises(ConfigError, match=f"option '{option}' is not there yet: "):
        stream(**{option.lower(): "1"})


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("subscribes", "did you mean 'subscribe'"),
        ("startingoffset", "did you mean 'startingOffsets'"),
        ("bootstrap.servers", "did you mean 'kafka.bootstrap.servers'"),
        ("fetch.min.bytes", "did you mean 'kafka.fetch.min.bytes'"),
        ("path", "topics are named with 'subscribe'"),
        ("zzz", "known here: assign, "),
    ],
)
def test_an_unknown_option_says_what_was_probably_meant(option: Any, hint: Any) -> None:
    with pytest.raises(ConfigError, match=f"unknown option '{option}'.*{hint}"):
        stream(**{option: "1"})


def test_an_option_of_the_other_side_says_so() -> None:
    with pytest.raises(ConfigError, match="'topic' belongs to a levada sink"):
        stream(topic="t")
    with pytest.raises(ConfigError, match="'subscribe' belongs to a levada source"):
        sink_options({**KAFKA, "subscribe": "t"})


def test_kafka_options_go_to_the_client_without_their_prefix() -> None:
    assert stream(**{"kafka.fetch.min.bytes": "7"}).client == {"bootstrap.servers": "localhost:9092", "fetch.min.bytes": "7"}


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"'kafka\.bootstrap\.servers' is required"):
        source_options({"subscribe": "t"}, streaming=True)
    with pytest.raises(ConfigError, match=r"'kafka\.bootstrap\.servers' is required"):
        sink_options({"topic": "t"})


def test_an_unknown_kafka_option_is_found_in_the_driver() -> None:
    with pytest.raises(
        ConfigError, match=r"among the kafka\.\* options: unknown option 'fetch\.min\.byte'; did you mean 'fetch\.min\.bytes'"
    ):
        stream(**{"kafka.fetch.min.byte": "7"})


@pytest.mark.parametrize(
    "name", ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"]
)
def test_consumer_settings_that_would_break_the_source_are_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=rf"option 'kafka\.{name}' cannot be set: "):
        stream(**{f"kafka.{name}": "x"})


@pytest.mark.parametrize("name", ["key.serializer", "value.serializer"])
def test_producer_settings_that_would_break_the_sink_are_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=rf"option 'kafka\.{name}' cannot be set: "):
        sink_options({**KAFKA, f"kafka.{name}": "x"})


def test_a_sink_takes_what_spark_adds() -> None:
    options = sink_options({**KAFKA, "topic": " t ", "checkpointlocation": "/c", "queryname": "q", "kafka.linger.ms": "0"})
    assert options.topic == "t"
    assert options.client == {"bootstrap.servers": "localhost:9092", "linger.ms": "0"}


def test_an_empty_topic_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'topic' is empty"):
        sink_options({**KAFKA, "topic": " "})


def test_headers_are_wanted_before_the_side_is_known() -> None:
    assert wants_headers({"includeheaders": "true", "whatever": "x"}) is True
    assert wants_headers({"topic": "t"}) is False


def test_the_manual_names_every_option() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "SPARK.md").read_text()
    missing = [name for name in (*SOURCE_OPTIONS, *SINK_OPTIONS, *NOT_YET) if not re.search(rf"\b{re.escape(name)}\b", manual)]
    assert not missing
