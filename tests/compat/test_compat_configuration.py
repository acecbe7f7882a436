"""Settings of librdkafka: taken, converted, without effect, or refused with a text that names them."""

from __future__ import annotations

import logging
import re
from typing import Any

import confluent_kafka as theirs
import pytest
from confluent_kafka import admin as their_admin

from levada.compat import confluent_kafka as ours
from levada.compat.confluent_kafka import KafkaError, KafkaException, cimpl, not_there
from levada.compat.confluent_kafka import admin as our_admin
from levada.compat.confluent_kafka.admin import AdminClient
from levada.compat.confluent_kafka.configuration import NO_EFFECT, admin_configuration, consumer_configuration, producer_configuration
from source_tree import ROOT

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
PAGE = (ROOT / "docs" / "MIGRATING.md").read_text()


def producer(**given: Any) -> dict[str, Any]:
    return producer_configuration({**SERVERS, **{name.replace("_", "."): value for name, value in given.items()}}, {}).levada


def consumer(**given: Any) -> dict[str, Any]:
    return consumer_configuration(
        {**SERVERS, "group.id": "g", **{name.replace("_", "."): value for name, value in given.items()}}, {}
    ).levada


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (producer(), {"delivery.timeout.ms": 300_000, "linger.ms": 5, "max.block.ms": 0, "max.request.size": 1 << 20}),
        (producer(message_timeout_ms=1000), {"delivery.timeout.ms": 1000, "request.timeout.ms": 995}),
        (producer(message_timeout_ms=0), {"delivery.timeout.ms": 2**31 - 1}),
        (producer(acks=1), {"acks": 1, "enable.idempotence": False}),
        (producer(request_required_acks=0), {"acks": 0, "enable.idempotence": False}),
        (producer(acks="all", max_in_flight=20), {"enable.idempotence": False}),
        (producer(message_max_bytes=5_000_000), {"max.request.size": 5_004_096}),
        (producer(compression_type="zstd", compression_level=5), {"compression.zstd.level": 5}),
        (producer(topic={"acks": 1, "linger.ms": 9}, linger_ms=3), {"acks": 1, "linger.ms": 3}),
        (producer(default_topic_config={"message.timeout.ms": 700}), {"delivery.timeout.ms": 700}),
        (producer(topic_metadata_refresh_interval_ms=-1), {"metadata.max.age.ms": 2**31 - 1}),
        (producer(socket_send_buffer_bytes=0), {"send.buffer.bytes": -1}),
        (consumer(), {"isolation.level": "read_committed", "enable.auto.commit": False, "allow.auto.create.topics": False}),
        (consumer(), {"partition.assignment.strategy": "range,roundrobin"}),
        (consumer(queued_max_messages_kbytes=100), {"fetch.buffer.bytes": 102_400}),
        (consumer(socket_timeout_ms=4000), {"request.timeout.ms": 4000}),
        (producer(socket_timeout_ms=4000), {"request.timeout.ms": 4000}),
        (producer(request_timeout_ms=3000, socket_timeout_ms=4000), {"request.timeout.ms": 3000}),
        (consumer(default_topic_config={"auto.offset.reset": "smallest"}), {"auto.offset.reset": "smallest"}),
    ],
)
def test_settings_become_levadas(settings: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {name: settings.get(name) for name in expected} == expected


def test_settings_of_other_clients_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        **SERVERS,
        "group.id": "g",
        "acks": "all",
        "queue.buffering.max.messages": 5,
        "enable.auto.commit": True,
        "socket.timeout.ms": 5000,
    }
    assert admin_configuration(given, {}).levada == {**SERVERS, "request.timeout.ms": 5000}
    assert "group.id" not in producer_configuration(given, {}).levada
    assert "acks" not in consumer_configuration(given, {}).levada
    assert "a consumer ignores settings of other clients: acks, queue.buffering.max.messages" in caplog.text
    theirs.Producer(given)
    theirs.Consumer(given)


@pytest.mark.parametrize("kind", [ours.Producer, ours.Consumer, AdminClient])
def test_settings_without_effect_are_taken(kind: Any) -> None:
    group = {"group.id": "g"} if kind is ours.Consumer else {}
    with kind({**SERVERS, **group, **dict.fromkeys(NO_EFFECT, 1)}):
        pass


@pytest.mark.parametrize("name", sorted(NO_EFFECT))
def test_settings_without_effect_are_settings_of_librdkafka(name: str) -> None:
    with pytest.raises(theirs.KafkaException) as refused:
        theirs.Producer({**SERVERS, {"log.level": "log_level"}.get(name, name): "no such value"})
    assert "No such configuration property" not in refused.value.args[0].str()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.thing", 1),
        ("linger.ms", "x"),
        ("acks", "most"),
        ("key.serializer", str),
        ("partitioner", "fair"),
        ("queuing.strategy", "lifo"),
        ("enable.gapless.guarantee", True),
        ("broker.address.family", "v6"),
        ("plugin.library.paths", "x.so"),
        ("throttle.cb", print),
        ("dr.msg.cb", print),
        ("socks5.proxy", "h:1"),
        ("delivery.report.only.error", "perhaps"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(KafkaException) as refused:
        ours.Producer({**SERVERS, name: value})
    assert refused.value.args[0].code() == KafkaError._INVALID_ARG
    assert name in refused.value.args[0].str()


@pytest.mark.parametrize("config", [None, "", "principal=user"])
def test_oauth_cb_gets_the_value_of_its_setting(config: str | None) -> None:
    given: list[str | None] = []

    def token(config: str | None) -> tuple[str, float]:
        given.append(config)
        return "token", 1e10

    settings = producer(oauth_cb=token, sasl_oauthbearer_config=config)
    assert settings["sasl.oauth.token.provider"]().value == "token"
    assert (given, "sasl.oauthbearer.config" in settings) == ([config], False)


def test_callbacks_have_to_be_callable() -> None:
    for name in ("error_cb", "stats_cb", "on_delivery", "oauth_cb"):
        with pytest.raises(TypeError, match=name):
            ours.Producer({**SERVERS, name: 5})
    with pytest.raises(TypeError, match="configuration dict"):
        ours.Producer(5)  # type: ignore[arg-type]


def test_keywords_are_settings_too_and_a_logger_gets_the_lines() -> None:
    lines: list[str] = []
    logger = logging.Logger("of the program")
    logger.addFilter(lambda line: bool(lines.append(line.getMessage())))  # type: ignore[func-returns-value]
    with ours.Producer(SERVERS, logger=logger, client_id="named") as producer:
        producer.produce("t", b"v")
        producer.flush(0.5)
        producer.purge()
    assert any("127.0.0.1:1" in line for line in lines)
    assert all(line.startswith("named") for line in lines)


MODULES = {"": ours, "Producer.": ours.Producer, "Consumer.": ours.Consumer, "AdminClient.": AdminClient}
NOT_THERE = {"": not_there.MODULE, "Producer.": not_there.PRODUCER, "Consumer.": not_there.CONSUMER, "AdminClient.": not_there.ADMIN}


@pytest.mark.parametrize("owner", NOT_THERE, ids=lambda owner: owner or "module")
def test_names_that_are_not_there_say_what_to_use(owner: str) -> None:
    for name, advice in NOT_THERE[owner].items():
        with pytest.raises(AttributeError, match=re.escape(advice)):
            getattr(MODULES[owner], name)


def test_the_page_lists_what_is_not_there() -> None:
    listed = re.findall(r"^\| `([\w.]+)` \| not there: (.+) \|$", PAGE, re.M)
    expected = {f"{owner}{name}": advice for owner, names in NOT_THERE.items() for name, advice in names.items()}
    assert {name: advice.replace("`", "") for name, advice in listed} == expected


def test_the_page_lists_the_settings_without_effect() -> None:
    (text,) = re.findall(r"have no effect: (.+?)\.\n\n", PAGE, re.S)
    assert {name.replace("_", ".") for name in re.findall(r"`([\w.]+)`", text)} == NO_EFFECT


def test_every_other_public_name_of_confluent_kafka_is_there() -> None:
    missing = {name for name in theirs.__all__ if not hasattr(ours, name)} - not_there.MODULE.keys()
    assert missing == {"admin", "kafkatest", "IllegalStateException", "ConcurrentModificationException"} - {"admin"}
    for owner, of_theirs in (("Producer.", theirs.Producer), ("Consumer.", theirs.Consumer), ("AdminClient.", their_admin.AdminClient)):
        named = {name for name in dir(of_theirs) if not name.startswith("_")}
        assert {name for name in named if not hasattr(MODULES[owner], name)} == NOT_THERE[owner].keys()
    classes = {name for name, value in vars(their_admin).items() if isinstance(value, type) and value.__module__.startswith("confluent")}
    assert {name for name in classes if name[0] != "_" and not hasattr(our_admin, name)} == {"GroupMember", "GroupMetadata"}
    assert cimpl.NewTopic is our_admin.NewTopic and cimpl.Consumer is ours.Consumer
