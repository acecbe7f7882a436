"""Options of the Spark source and sink, read without Spark (spark.md 1.1, 1.2)."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from levada.config import ProducerConfig
from levada.errors import ConfigError, DataLossError
from levada.spark.datasource import LevadaDataSource
from levada.spark.options.option_text import UNKNOWN_OPTIONS
from levada.spark.options.options import IGNORED_OF_GROUPS, IGNORED_OF_JAVA, SINK_OPTIONS, SOURCE_OPTIONS, sink_options, source_options
from levada.spark.source.bounds import EARLIEST, LATEST, AtTime
from levada.spark.source.loss import OnLoss
from levada.spark.source.planning import Splitting
from levada.types import TopicPartition

KAFKA = {"kafka.bootstrap.servers": "localhost:9092"}
SOURCE = {**KAFKA, "subscribe": "orders"}


def batch(**given: Any) -> Any:
    return source_options({**SOURCE, **given}, streaming=False)


def stream(**given: Any) -> Any:
    return source_options({**SOURCE, **given}, streaming=True)


def written(**given: Any) -> Any:
    return sink_options({**KAFKA, **given})


def test_a_batch_reads_everything_and_a_stream_begins_at_the_end() -> None:
    assert (batch().starting, batch().ending) == (EARLIEST, LATEST)
    assert stream().starting == LATEST
    assert stream().on_loss is OnLoss.FAIL
    assert stream().include_headers is False
    assert stream().max_offsets_per_trigger is None


def test_names_arrive_in_lower_case() -> None:
    options = stream(startingoffsets="earliest", failondataloss="FALSE", maxoffsetspertrigger="500", includeheaders="true")
    assert options.starting == EARLIEST
    assert options.on_loss is OnLoss.NOT_FAIL
    assert options.max_offsets_per_trigger == 500
    assert options.include_headers is True


def test_subscribe_is_a_list_with_commas() -> None:
    options = source_options({**KAFKA, "subscribe": " a, b,,a "}, streaming=True)
    assert options.selection.topics == ("a", "b")
    assert options.selection.partitions == ()


def test_columns_are_a_list_with_commas() -> None:
    assert stream().columns == ()
    assert stream(columns=" value, key,,value ").columns == batch(columns="value,key").columns == ("value", "key")
    with pytest.raises(ConfigError, match="option 'columns' names no column; give one or more, separated by commas"):
        stream(columns=" , ")


@pytest.mark.parametrize("given", ["keys,value", "KEY"])
def test_load_and_both_readers_refuse_a_column_that_there_is_not(given: str) -> None:
    named = LevadaDataSource({**SOURCE, "columns": given})
    # Spark does not call schema() where the program gives one.
    by_program = StructType([StructField("value", BinaryType())])
    for make in (named.schema, lambda: named.reader(by_program), lambda: named.streamReader(by_program)):
        with pytest.raises(ConfigError, match=r"option 'columns': there is no column '.*'; did you mean 'key'\?"):
            make()


def test_assign_names_partitions() -> None:
    options = source_options({**KAFKA, "assign": '{"t": [1, 0], "s": [2]}'}, streaming=True)
    assert options.selection.partitions == (TopicPartition("s", 2), TopicPartition("t", 0), TopicPartition("t", 1))


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


@pytest.mark.parametrize("name", ["key.serializer", "value.serializer", "transactional.id"])
def test_producer_settings_that_would_break_the_sink_are_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=rf"option 'kafka\.{name}' cannot be set: "):
        sink_options({**KAFKA, f"kafka.{name}": "x"})


@pytest.mark.parametrize(("name", "value"), [("acks", "0"), ("acks", " 1 "), ("request.required.acks", "0")])
def test_a_sink_with_fewer_acknowledgements_than_all_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"option 'kafka\.acks'={value.strip()} cannot be used: .*; leave it out \(all\)"):
        sink_options({**KAFKA, "topic": "t", f"kafka.{name}": value})


def test_a_sink_takes_what_spark_adds() -> None:
    options = sink_options({**KAFKA, "topic": " t ", "checkpointlocation": "/c", "queryname": "q", "kafka.linger.ms": "0"})
    assert options.topic == "t"
    assert options.client == {"bootstrap.servers": "localhost:9092", "linger.ms": "0", "batch.size": "1000000"}


@pytest.mark.parametrize("name", [*IGNORED_OF_GROUPS, *IGNORED_OF_JAVA])
def test_settings_of_java_that_mean_nothing_here_are_taken_with_a_warning(name: str, caplog: Any) -> None:
    assert name not in stream(**{f"kafka.{name}": "x"}).client
    assert f"these options have no effect: levada uses no consumer group and no Java client: kafka.{name}" in caplog.text


def test_what_is_unknown_can_be_ignored_with_a_warning(caplog: Any) -> None:
    assert stream(unknownoptions="warn", startingoffset="earliest").starting == LATEST
    assert "unknown option 'startingoffset'; did you mean 'startingOffsets'?; ignored, because unknownOptions is warn" in caplog.text
    with pytest.raises(ConfigError, match="option 'unknownOptions': expected fail or warn, got 'maybe'"):
        stream(unknownoptions="maybe")


def test_a_pattern_chooses_topics() -> None:
    pattern = source_options({**KAFKA, "subscribepattern": "orders-\\d+"}, streaming=True).selection.pattern
    assert pattern is not None
    assert pattern.fullmatch("orders-17")
    assert not pattern.fullmatch("my-orders-17")


@pytest.mark.parametrize(
    ("given", "on_loss", "why"),
    [
        ({}, OnLoss.FAIL, None),
        ({"failondataloss": "false"}, OnLoss.NOT_FAIL, "failOnDataLoss is false"),
        ({"ondataloss": "skip"}, OnLoss.SKIP, "onDataLoss is skip"),
        ({"ondataloss": "earliest"}, OnLoss.EARLIEST, "onDataLoss is earliest"),
        ({"ondataloss": "Earliest", "failondataloss": "false"}, OnLoss.EARLIEST, "onDataLoss is earliest"),
        ({"ondataloss": "fail", "failondataloss": "true"}, OnLoss.FAIL, None),
    ],
)
def test_what_to_do_about_lost_records(given: Any, on_loss: OnLoss, why: str | None, caplog: Any) -> None:
    assert stream(**given).on_loss is on_loss
    if why is None:
        with pytest.raises(DataLossError):
            on_loss.report(["t-0 is gone"], logging.getLogger("levada.spark"))
    else:
        on_loss.report(["t-0 is gone"], logging.getLogger("levada.spark"))
        assert f"t-0 is gone; the query continues because {why}" in caplog.messages


def test_a_word_that_is_no_reaction_to_a_loss() -> None:
    with pytest.raises(ConfigError, match="option 'onDataLoss': expected fail or skip or earliest, got 'false'"):
        stream(ondataloss="false")


def test_two_answers_about_lost_records_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="options 'failOnDataLoss'=true and 'onDataLoss'=skip contradict each other"):
        stream(failondataloss="true", ondataloss="skip")


def test_times_win_over_offsets() -> None:
    all_three = {"startingtimestamp": "5", "startingoffsetsbytimestamp": '{"orders":{"0":7}}', "startingoffsets": "earliest"}
    assert stream(**all_three).starting == AtTime(5, or_latest=False)
    del all_three["startingtimestamp"]
    by_partition = {TopicPartition("orders", 0): 7}
    assert stream(**all_three, startingoffsetsbytimestampstrategy="latest").starting == AtTime(by_partition, or_latest=True)
    ends = {"endingoffsetsbytimestamp": '{"orders":{"0":7}}', "endingoffsets": "latest"}
    assert batch(**ends).ending == AtTime(by_partition, or_latest=True)
    assert batch(**ends, endingtimestamp="9").ending == AtTime(9, or_latest=True)
    with pytest.raises(ConfigError, match="option 'endingTimestamp' is for batch queries"):
        stream(endingtimestamp="9")


@pytest.mark.parametrize(
    ("option", "text"), [("startingtimestamp", "soon"), ("startingtimestamp", "-1"), ("startingoffsetsbytimestamp", '{"orders":{"0":-1}}')]
)
def test_a_bad_time_shows_the_form(option: str, text: str) -> None:
    with pytest.raises(ConfigError, match="milliseconds since the epoch"):
        stream(**{option: text})


@pytest.mark.parametrize(("text", "seconds"), [("15m", 900.0), ("30s", 30.0), ("500", 0.5), ("250 ms", 0.25), ("1H", 3600.0)])
def test_durations_are_those_of_spark(text: str, seconds: float) -> None:
    assert stream(maxtriggerdelay=text).max_trigger_delay_s == seconds


def test_a_bad_duration_shows_the_form() -> None:
    with pytest.raises(ConfigError, match="option 'maxTriggerDelay': expected a duration such as 15m, 30s or 500ms, got 'a while'"):
        stream(maxtriggerdelay="a while")


def test_a_minimum_above_the_maximum_is_an_error() -> None:
    with pytest.raises(ConfigError, match="option 'minOffsetsPerTrigger'=7 is above 'maxOffsetsPerTrigger'=5"):
        stream(minoffsetspertrigger="7", maxoffsetspertrigger="5")


def test_the_rest_of_the_numbers() -> None:
    given = {"minpartitions": "8", "maxrecordsperpartition": "50", "fetchoffset.numretries": "0", "fetchoffset.retryintervalms": "20"}
    options = stream(**given, **{"kafkaconsumer.polltimeoutms": "512", "groupidprefix": "x"})
    assert options.splitting == Splitting(8, 50)
    assert (options.fetch_offset_retries, options.fetch_offset_interval_s, options.poll_timeout_s) == (0, 0.02, 0.512)
    assert (stream().fetch_offset_retries, stream().poll_timeout_s) == (3, 120.0)
    assert stream(recordspertask="1").splitting == Splitting(None, None, 1)


def test_an_empty_topic_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'topic' is empty"):
        sink_options({**KAFKA, "topic": " "})


def test_the_manual_names_every_option() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "SPARK.md").read_text()
    missing = [name for name in (*SOURCE_OPTIONS, *SINK_OPTIONS, UNKNOWN_OPTIONS) if not re.search(rf"\b{re.escape(name)}\b", manual)]
    assert not missing


def test_a_login_with_kerberos_is_read_as_the_connector_of_spark_has_it() -> None:
    module = "com.sun.security.auth.module.Krb5LoginModule"
    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "GSSAPI",
        "kafka.sasl.kerberos.service.name": "broker",
        "kafka.sasl.jaas.config": f'{module} required useKeyTab=true keyTab="/etc/etl.keytab" principal="etl@HERE";',
    }
    for read in (stream, written):
        read(**login)
    with pytest.raises(ConfigError, match="useKeyTab=true needs keyTab"):
        stream(**login | {"kafka.sasl.jaas.config": f"{module} required useKeyTab=true;"})


def test_a_token_endpoint_as_the_connector_of_spark_has_it_is_read() -> None:
    home = "kafkashaded.org.apache.kafka.common.security.oauthbearer"
    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": f'{home}.OAuthBearerLoginModule required clientId="u" clientSecret="planted" scope="s";',
        "kafka.sasl.login.callback.handler.class": f"{home}.OAuthBearerLoginCallbackHandler",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://login.test/token",
    }
    for read in (stream, written):
        assert "planted" not in repr(read(**login))


def test_a_login_of_the_connector_of_spark_is_read() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = {"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": f'{module} required username="u" password="planted";'}
    for read in (stream, written):
        assert "planted" not in repr(read(**login, **{"kafka.security.protocol": "SASL_SSL"}))


def test_options_of_tls_are_those_of_the_clients() -> None:
    given = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/etc/ca.pem", "kafka.ssl.keystore.password": "planted"}
    for read in (stream, written):
        assert "planted" not in repr(read(**given))
        with pytest.raises(ConfigError, match=r"is set, but security\.protocol=PLAINTEXT has no TLS"):
            read(**{"kafka.ssl.truststore.location": "/etc/ca.pem"})


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "ä"])
def test_what_is_no_name_of_a_topic_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"option 'subscribe': .* is not a topic name: use letters, digits"):
        stream(subscribe=f"fine,{name}")
    with pytest.raises(ConfigError, match=r"option 'topic': .* is not a topic name"):
        sink_options({**KAFKA, "topic": name})


@pytest.mark.parametrize("spelled", ["READ_COMMITTED", " read_committed ", "read_committed"])
def test_an_isolation_level_counts_as_it_is_understood(spelled: str) -> None:
    assert stream(**{"kafka.isolation.level": spelled}).reads_committed
    assert not stream().reads_committed


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("minpartitions", "²"),
        ("maxoffsetspertrigger", "9" * 5000),
        ("maxrecordsperpartition", str(2**63)),
        ("startingtimestamp", "²"),
        ("startingtimestamp", str(2**63)),
        ("kafkaconsumer.polltimeoutms", "9" * 400),
        ("startingoffsets", '{"t":' * 50_000),
        ("startingoffsets", '{"t":{"0":1,"00":5}}'),
        ("startingoffsets", '{"t":{"0":1,"0":5}}'),
        ("startingoffsets", '{"t":{"-1":1}}'),
        ("startingoffsets", '{"t":{"0":9223372036854775808}}'),
    ],
)
def test_what_is_no_number_is_refused_with_the_name_of_the_option(option: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"(?i)option '{re.escape(option)}': ") as refused:
        stream(**{option: text})
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("text", ['{"t":[0],"t":[1]}', '{"t":[2147483648]}', "[" * 50_000])
def test_partitions_that_cannot_be_assigned_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="option 'assign': cannot use"):
        source_options({**KAFKA, "assign": text}, streaming=True)


@pytest.mark.parametrize("pattern", ["a(?i)b", "a{99999999999999}", pytest.param("(" * 100_000 + ")" * 100_000, id="nested without end")])
def test_a_pattern_that_python_cannot_read_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"option 'subscribePattern': Python cannot use the regular expression"):
        source_options({**KAFKA, "subscribePattern": pattern}, streaming=True)


def test_load_names_the_mistake_whatever_the_kind_of_query() -> None:
    for given, said in (
        ({"endingOffsets": "latst"}, "option 'endingOffsets'"),
        ({"endingOffsets": "latest", "maxRecordsPerPartition": "abc"}, "option 'maxRecordsPerPartition'"),
        ({"endingOffsets": "earliest"}, "a batch query cannot end at earliest"),
    ):
        with pytest.raises(ConfigError, match=said):
            LevadaDataSource({**KAFKA, "subscribe": "t", **given}).schema()
    for given in ({"endingOffsets": "latest"}, {"startingOffsets": "latest"}):
        LevadaDataSource({**KAFKA, "subscribe": "t", **given}).schema()


def test_passwords_are_not_in_the_text_of_options() -> None:
    assert "secret" not in repr(stream(**{"kafka.client.id": "secret"}))
    assert "secret" not in repr(sink_options({**KAFKA, "kafka.client.id": "secret"}))


@pytest.mark.parametrize("bound", ["Offsets", "OffsetsByTimestamp"])
def test_bounds_of_a_partition_that_are_backwards_show_up_when_the_reader_is_made(bound: str) -> None:
    given = {f"starting{bound}": '{"orders": {"0": 3, "1": 7}}', f"ending{bound}": '{"orders": {"0": 3, "1": 4}}'}
    with pytest.raises(ConfigError, match=f"option 'ending{bound}' is before 'starting{bound}': orders-1 from 7 to 4"):
        batch(**given)


def test_words_and_bounds_of_different_kinds_are_compared_when_kafka_was_asked() -> None:
    batch(startingOffsets='{"orders": {"0": 3}}', endingOffsets='{"orders": {"0": -1}}')
    batch(startingOffsets='{"orders": {"0": 3}}', endingOffsetsByTimestamp='{"orders": {"0": 1}}')
    batch(startingTimestamp="7", endingTimestamp="4")


def test_load_says_what_is_wrong_with_the_end_of_a_batch_query() -> None:
    source = LevadaDataSource({**SOURCE, "startingoffsets": '{"orders": {"0": 7}}', "endingoffsets": '{"orders": {"0": 4}}'})
    with pytest.raises(ConfigError, match="option 'endingOffsets' is before 'startingOffsets': orders-0 from 7 to 4"):
        source.schema()


def test_a_task_waits_for_large_batches_unless_the_user_says_otherwise() -> None:
    client = sink_options(KAFKA).client
    assert (client["linger.ms"], client["batch.size"]) == ("100", "1000000")
    given = {"kafka.queue.buffering.max.ms": "7", "kafka.batch.size": "16384"}
    parsed = ProducerConfig.parse(sink_options({**KAFKA, **given}).client)
    assert (parsed.linger_ms, parsed.batch_size) == (7, 16_384)
    tight = {"kafka.delivery.timeout.ms": "30010", "kafka.request.timeout.ms": "30000", "kafka.max.request.size": "500000"}
    parsed = ProducerConfig.parse(sink_options({**KAFKA, **tight}).client)
    assert (parsed.linger_ms, parsed.batch_size) == (10, 500_000)
