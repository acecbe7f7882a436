"""Settings as other clients name them: read where they mean the same, answered with advice where they do not."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import aiokafka
import kafka
import pytest

from levada.config import AdminConfig, Config, ConsumerConfig, ProducerConfig
from levada.config.client import ClientConfig
from levada.consumer.positions.auto_offset_reset import ByDuration, reset_policy
from levada.errors import ConfigError

CONFIGS: list[type[Config]] = [ClientConfig, AdminConfig, ConsumerConfig, ProducerConfig]
SERVERS = {"bootstrap.servers": "a:9092"}


@pytest.mark.parametrize(
    ("config", "name", "given", "ours", "value"),
    [
        (ProducerConfig, "queue.buffering.max.ms", 7, "linger_ms", 7),
        (ProducerConfig, "message.max.bytes", 5000, "max_request_size", 5000),
        (ProducerConfig, "message.send.max.retries", 3, "retries", 3),
        (ProducerConfig, "request.required.acks", "all", "acks", -1),
        (ProducerConfig, "max.in.flight", 1, "max_in_flight_requests_per_connection", 1),
        (ProducerConfig, "message.timeout.ms", 60_000, "delivery_timeout_ms", 60_000),
        (ProducerConfig, "compression.codec", "lz4", "compression_type", "lz4"),
        (ConsumerConfig, "fetch.wait.max.ms", 9, "fetch_max_wait_ms", 9),
        (ConsumerConfig, "fetch.message.max.bytes", 9000, "max_partition_fetch_bytes", 9000),
        (ConsumerConfig, "auto.offset.reset", "smallest", "auto_offset_reset", "earliest"),
        (ConsumerConfig, "auto.offset.reset", "end", "auto_offset_reset", "latest"),
        (ConsumerConfig, "auto.offset.reset", "error", "auto_offset_reset", "none"),
        (AdminConfig, "topic.metadata.refresh.interval.ms", 1000, "metadata_max_age_ms", 1000),
        (AdminConfig, "receive.message.max.bytes", 4096, "max_response_bytes", 4096),
    ],
)
def test_M_C13_another_name_of_the_same_setting_is_read(config: type[Config], name: str, given: Any, ours: str, value: Any) -> None:
    assert getattr(config.parse(SERVERS, **{name.replace(".", "_"): given}), ours) == value
    assert getattr(config.parse({**SERVERS, name: given}), ours) == value


def test_metadata_broker_list_is_bootstrap_servers() -> None:
    assert AdminConfig.parse({"metadata.broker.list": "a:1"}).bootstrap_servers == (("a", 1),)


def test_M_C13_a_setting_given_under_both_names_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'linger\.ms' is given twice \(once as 'queue\.buffering\.max\.ms'\)"):
        ProducerConfig.parse({**SERVERS, "linger.ms": 1, "queue.buffering.max.ms": 2})


@pytest.mark.parametrize(
    ("config", "name", "advice"),
    [
        (ProducerConfig, "queue.buffering.max.kbytes", r"did you mean 'buffer\.memory'\? It counts bytes"),
        (ProducerConfig, "queue_buffering_max_messages", r"did you mean 'buffer\.memory'"),
        (ProducerConfig, "compression.level", r"compression\.zstd\.level"),
        (ProducerConfig, "fetch.wait.max.ms", "it is an option of the consumer"),
        (ProducerConfig, "queue.buffering.max", r"did you mean 'linger\.ms'\?"),
        (ProducerConfig, "reconnect.backoff.jitter.ms", r"see reconnect\.backoff\.ms"),
        (ConsumerConfig, "queued.max.messages.kbytes", r"did you mean 'fetch\.buffer\.bytes'\? It counts bytes"),
        (ConsumerConfig, "enable.auto.offset.store", r"enable\.auto\.commit=false, and call commit\(offsets\)"),
        (ConsumerConfig, "enable.partition.eof", r"did you mean 'stop\.at\.end'\?"),
        (AdminConfig, "socket.timeout.ms", r"did you mean 'request\.timeout\.ms'"),
        (AdminConfig, "log_level", "Python's logging"),
    ],
)
def test_M_C13_a_setting_of_another_unit_or_meaning_is_answered_with_ours(config: type[Config], name: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown option '{name}'; .*{advice}"):
        config.parse({**SERVERS, name: "1"})


def test_M_C13_an_error_names_the_option_and_what_was_written() -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.parse(SERVERS, message_timeout_ms=1000)
    assert str(caught.value) == (
        "'delivery.timeout.ms' (given as 'message_timeout_ms') must be at least linger.ms + request.timeout.ms = 30005, got 1000; "
        "lower request.timeout.ms too"
    )
    with pytest.raises(ConfigError, match=r"got 1000; lower linger\.ms and request\.timeout\.ms too"):
        ProducerConfig.parse(SERVERS, delivery_timeout_ms=1000, linger_ms=1000)
    with pytest.raises(ConfigError, match=r"'linger\.ms' \(given as 'queue\.buffering\.max\.ms'\): expected a whole number, got 'soon'"):
        ProducerConfig.parse({**SERVERS, "queue.buffering.max.ms": "soon"})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("murmur2_random", "leave it out: levada's default puts keys where murmur2_random does"),
        ("consistent_random", r"zlib\.crc32\(key\) % count; the default would put keys into other partitions"),
        ("org.apache.kafka.RoundRobin", "class names are not looked up"),
    ],
)
def test_M_C13_a_partitioner_of_librdkafka_is_answered_with_what_to_write(name: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        ProducerConfig.parse(SERVERS, partitioner=name)


@pytest.mark.parametrize("duration", ["", "1h", "-PT1H", "PT-1H", "P", "PT", "P1M", "P1Y", "PT1H1D", "PT1.5H"])
def test_M_C13_a_duration_that_is_none_is_answered_with_an_example(duration: str) -> None:
    with pytest.raises(ConfigError, match=r"'auto\.offset\.reset': expected an ISO 8601 duration such as PT6H"):
        ConsumerConfig.parse({**SERVERS, "auto.offset.reset": f"by_duration:{duration}"})


def test_O6_a_start_by_duration_is_read_as_java_reads_it() -> None:
    parsed = ConsumerConfig.parse({**SERVERS, "auto.offset.reset": "By_Duration:p1dt2h3m4.5678s"}).auto_offset_reset
    assert parsed == "by_duration:P1DT2H3M4.5678S"
    assert reset_policy(parsed) == ByDuration((((24 + 2) * 60 + 3) * 60 + 4) * 1_000 + 567)
    assert reset_policy("by_duration:PT0S") == ByDuration(0)


def keywords(client: Callable[..., Any]) -> set[str]:
    return {name for name in inspect.signature(client).parameters if name != "self"}


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (ProducerConfig, {*kafka.KafkaProducer.DEFAULT_CONFIG, *keywords(aiokafka.AIOKafkaProducer)}),
        (ConsumerConfig, {*kafka.KafkaConsumer.DEFAULT_CONFIG, *keywords(aiokafka.AIOKafkaConsumer)}),
        (AdminConfig, set(kafka.KafkaAdminClient.DEFAULT_CONFIG)),
    ],
)
def test_M_C13_every_keyword_of_a_peer_is_read_or_answered_in_its_own_words(config: type[Config], names: set[str]) -> None:
    known = {*config.FOREIGN, *(name for kind in CONFIGS for name in [*kind.OPTIONS, *kind.ALIASES])}
    dotted = {name.replace("_", ".") for name in names}
    assert [name for name in sorted(dotted - known) if config._not_yet(name) is None] == []


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_advice_names_only_options_that_exist_and_hides_none(config: type[Config]) -> None:
    for name, advice in config.FOREIGN.items():
        assert name not in config.OPTIONS, name
        assert name not in config.ALIASES, name
        for meant in re.findall(r"'([a-z.]+\.[a-z.]+)'", advice):
            assert meant in config.OPTIONS, f"{name}: {meant}"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_no_name_has_two_meanings(config: type[Config]) -> None:
    aliases = [alias for option in config.OPTIONS.values() for alias in option.aliases]
    assert len(aliases) == len({*aliases, *config.OPTIONS}) - len(config.OPTIONS)


@pytest.mark.parametrize(
    ("config", "who"),
    [(ClientConfig, "a client"), (AdminConfig, "an admin client"), (ConsumerConfig, "a consumer"), (ProducerConfig, "a producer")],
)
def test_a_key_like_no_other_is_answered_in_words_of_the_user(config: type[Config], who: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown option 'zebra'; {who} knows {len(config.OPTIONS)} options"):
        config.parse({**SERVERS, "zebra": 1})


def test_topics_without_a_group_are_answered_with_assign() -> None:
    ConsumerConfig.parse(bootstrap_servers="a:9092", group_id="g").check_may_subscribe(["orders"])
    with pytest.raises(ConfigError, match=r"give a group\.id; .* consumer\.assign\(consumer\.partitions_for\('orders'\)\)"):
        ConsumerConfig.parse(bootstrap_servers="a:9092").check_may_subscribe(["orders"])


def test_on_commit_is_answered_with_commit_async() -> None:
    with pytest.raises(ConfigError, match=r"pass a callback to commit_async\(\)"):
        ConsumerConfig.parse({**SERVERS, "on_commit": print})
