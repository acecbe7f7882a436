"""What users write, and what they are told when it makes no sense."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from levada.config import AdminConfig, ConsumerConfig, ProducerConfig
from levada.config.document import document
from levada.errors import ConfigError
from levada.interceptors import ProducerInterceptor

SERVERS = {"bootstrap.servers": "a:9092"}


def test_dotted_and_snake_case_are_the_same_key() -> None:
    assert ProducerConfig.parse(SERVERS, linger_ms=7).linger_ms == 7
    assert ProducerConfig.parse({**SERVERS, "linger.ms": "7"}).linger_ms == 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a:9092, b:9093", (("a", 9092), ("b", 9093))),
        (["a:9092", "[::1]:9093"], (("a", 9092), ("::1", 9093))),
        ("metadata", None),
        ("http://a:9092", None),
        ("a:0", None),
        ("", None),
        (9092, None),
    ],
)
def test_bootstrap_servers_are_read_from_text_and_lists(value: Any, expected: Any) -> None:
    if expected is None:
        with pytest.raises(ConfigError, match=r"'bootstrap\.servers'"):
            AdminConfig.parse(bootstrap_servers=value)
    else:
        assert AdminConfig.parse(bootstrap_servers=value).bootstrap_servers == expected


@pytest.mark.parametrize("servers", ["localhost:9092 localhost:9093", "a:1,b :2", ["a:1 b:2"], [("a b", 1)], "a:1\nb:2"])
def test_M_C13_addresses_are_not_separated_by_white_space(servers: Any) -> None:
    with pytest.raises(ConfigError, match=r"'bootstrap.servers': .* has white space in an address; separate addresses by commas"):
        ProducerConfig.parse({"bootstrap.servers": servers})


def test_white_space_around_an_address_does_no_harm() -> None:
    assert ProducerConfig.parse({"bootstrap.servers": " a:1 ,\n b:2 "}).bootstrap_servers == (("a", 1), ("b", 2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"linger_millis": 5}, "unknown option 'linger_millis'; did you mean 'linger_ms'?"),
        ({"linger.millis": 5}, "unknown option 'linger.millis'; did you mean 'linger.ms'?"),
        ({"linger.ms": "soon"}, "'linger.ms': expected a whole number, got 'soon'"),
        ({"linger.ms": -1}, "'linger.ms': must be between 0 and 9223372036854775807, got -1"),
        ({"linger.ms": True}, "'linger.ms': expected a whole number, got True"),
        ({"linger.ms": 1, "linger_ms": 2}, "'linger.ms' is given twice (once as 'linger_ms')"),
        ({"acks": 2}, "'acks': must be one of all, -1, 1, 0; got 2"),
        ({"enable.idempotence": "yes"}, "'enable.idempotence': expected true or false, got 'yes'"),
        ({"compression.type": "brotli"}, "'compression.type': must be one of none, gzip, snappy, lz4, zstd; got 'brotli'"),
        ({"key.serializer": "org.apache.StringSerializer"}, "'key.serializer': expected a callable"),
        ({"transactional.id": ""}, "'transactional.id' must not be empty"),
        ({"transactional.id": "t", "enable.idempotence": False}, "'transactional.id' needs 'enable.idempotence', which was switched off"),
        ({"transactional.id": "t", "acks": 1}, "'transactional.id' needs 'acks=all', got acks=1"),
        ({"transactional.id": "t", "transaction.timeout.ms": 0}, "'transaction.timeout.ms': must be between 1 and 2147483647, got 0"),
        ({"transactionalid": "t"}, "unknown option 'transactionalid'; did you mean 'transactional.id'?"),
        ({"sasl.mechanism": "PLAIN"}, "'sasl.mechanism' is not supported yet: only plaintext"),
        ({"security.protocol": "SSL"}, "'security.protocol': must be one of PLAINTEXT; got 'SSL'; only plaintext connections exist so far"),
        ({"enable.idempotence": True, "acks": 1}, "'enable.idempotence' needs 'acks=all', got acks=1"),
        ({"enable.idempotence": True, "retries": 0}, "'enable.idempotence' needs 'retries' above 0"),
        ({"delivery.timeout.ms": 10}, "'delivery.timeout.ms' must be at least linger.ms + request.timeout.ms = 30005, got 10"),
        ({"client.id": "\ud800"}, "'client.id': expected text that can be written as UTF-8, got '\\ud800'"),
        ({"client.id": "\N{EURO SIGN}" * 11_000}, "'client.id': must take at most 32767 bytes, takes 33000"),
        ({"qqqqqq": 1}, "unknown option 'qqqqqq'; a producer knows"),
    ],
)
def test_M_C13_a_mistake_fails_at_construction_and_names_the_option(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.parse({**SERVERS, **settings})
    assert str(caught.value).startswith(message)


def test_M_C13_every_option_refuses_a_value_of_the_wrong_type() -> None:
    for config in (ProducerConfig, ConsumerConfig, AdminConfig):
        for name, option in config.OPTIONS.items():
            with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
                config.parse({**SERVERS, name: object()} if name != "bootstrap.servers" else {name: object()})
            assert option.doc.endswith("."), name


def test_a_keyword_is_answered_with_a_keyword() -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'linger'; did you mean 'linger_ms'\?"):
        ProducerConfig.parse(SERVERS, linger=5)


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"'bootstrap\.servers' is required"):
        ProducerConfig.parse()


def test_options_of_members_say_that_membership_is_not_there_yet() -> None:
    with pytest.raises(ConfigError, match="'group_instance_id' is not supported yet: membership of consumer groups is not there"):
        ConsumerConfig.parse(SERVERS, group_instance_id="g")


def test_K22_idempotence_gives_way_to_acks_unless_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    config = ProducerConfig.parse(SERVERS, acks="1")
    assert not config.enable_idempotence
    assert "idempotence is off" in caplog.text


def test_K21_a_default_delivery_timeout_is_raised_to_the_sum() -> None:
    assert ProducerConfig.parse(SERVERS, linger_ms=100_000, request_timeout_ms=90_000).delivery_timeout_ms == 190_000


def test_N19_a_base_above_the_maximum_gives_a_fixed_delay() -> None:
    assert AdminConfig.parse(SERVERS, reconnect_backoff_ms=5_000).reconnect_backoff_max_ms == 5_000


def test_the_level_is_that_of_the_codec() -> None:
    assert ProducerConfig.parse(SERVERS, compression_type="zstd", compression_zstd_level=7).compression_level == 7
    assert ProducerConfig.parse(SERVERS, compression_type="snappy").compression_level is None


def test_a_config_does_not_change() -> None:
    with pytest.raises(AttributeError):
        ProducerConfig.parse(SERVERS).linger_ms = 3


def test_the_generated_page_is_current() -> None:
    page = Path(__file__).parents[3] / "docs" / "CONFIGURATION.md"
    assert page.read_text() == document(), "run `make docs`"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("com.example.Interceptor", "class names are not looked up"),
        ([object()], "expected objects of classes derived from levada.ProducerInterceptor, got <object object"),
        ([ProducerInterceptor], "the class itself; make an object of it"),
        (5, "expected a list of ProducerInterceptor, got 5"),
    ],
)
def test_interceptors_are_objects(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        ProducerConfig.parse({"bootstrap.servers": "h:1", "interceptors": given})


def test_one_interceptor_needs_no_list() -> None:
    interceptor = ProducerInterceptor()
    assert ProducerConfig.parse({"bootstrap.servers": "h:1"}, interceptors=interceptor).interceptors == (interceptor,)
    with pytest.raises(ConfigError, match="give objects as 'interceptors'"):
        ProducerConfig.parse({"bootstrap.servers": "h:1", "interceptor.classes": "a.B"})
