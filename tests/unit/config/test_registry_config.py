"""Settings of the Schema Registry client and of its serializers."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from levada.config import JSONSerializerConfig, ProducerConfig, RegistryConfig, SerializerConfig
from levada.errors import ConfigError

URL = {"schema.registry.url": "http://registry:8081"}


def test_addresses_are_read_with_ports_paths_and_users() -> None:
    config = RegistryConfig.parse(schema_registry_url=["https://me:p%40ss@one/api/", "http://[::1]:8081", "https://two:444"])
    assert [str(url) for url in config.schema_registry_url] == ["https://one:443/api", "http://[::1]:8081", "https://two:444"]
    assert [url.user_info for url in config.schema_registry_url] == ["me:p@ss", None, None]


@pytest.mark.parametrize(
    ("config", "example"), [(RegistryConfig, "schema_registry_url='http://host:8081'"), (SerializerConfig, "auto_register_schemas=False")]
)
def test_an_address_in_the_place_of_the_settings_is_told_the_settings_own_name(
    config: type[RegistryConfig | SerializerConfig], example: str
) -> None:
    with pytest.raises(ConfigError, match=f"settings are a mapping, or keywords such as {example}; got 'http://registry:8081'"):
        config.parse("http://registry:8081")  # type: ignore[arg-type]


def test_addresses_may_be_text_with_commas_under_the_name_of_confluents_python_client() -> None:
    assert len(RegistryConfig.parse({"url": "http://a:8081, http://b:8081"}).schema_registry_url) == 2


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("registry:8081", "does not begin with http"),
        ("ftp://registry", "does not begin with http"),
        ("http://", "names no host"),
        ("http://registry:port", "is no URL"),
        ("http://registry/?a=1", "query"),
        ("", "names no registry"),
        (7, "expected 'http://host:port'"),
    ],
)
def test_a_bad_address_is_refused(url: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RegistryConfig.parse({"schema.registry.url": url})


@pytest.mark.parametrize(
    "url", ["ftp://me:s3cret@registry", "http://me:s3cret@registry:port", "me:s3cret@registry", "http://me:s3cret@h/?q"]
)
def test_an_error_about_an_address_does_not_show_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RegistryConfig.parse({"schema.registry.url": url})
    assert "s3cret" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    config = RegistryConfig.parse({**URL, "basic.auth.user.info": "me:s3cret", "ssl.key.password": "s3cret"})
    assert "s3cret" not in repr(config)
    assert "basic.auth.user.info=[hidden]" in repr(config)
    assert "s3cret" not in repr(RegistryConfig.parse({"url": "http://me:s3cret@registry"}))
    with pytest.raises(ConfigError) as caught:
        RegistryConfig.parse({**URL, "basic.auth.user.info": b"me:s3cret"})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"basic.auth.user.infos": "a:b"}, "did you mean 'basic.auth.user.info'"),
        ({"basic_auth_user_infos": "a:b"}, "did you mean 'basic_auth_user_info'"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "SASL_INHERIT is not there yet"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "needs 'basic.auth.user.info'"),
        ({"basic.auth.credentials.source": "URL", "basic.auth.user.info": "a:b"}, "does not read 'basic.auth.user.info'"),
        ({"basic.auth.user.info": "nobody"}, "no colon"),
        ({"basic.auth.user.info": "a:b", "bearer.auth.token": "t"}, "exclude each other"),
        ({"bearer.auth.token": "abc\n"}, "line end"),
        ({"bearer.auth.client.id": "x"}, "bearer.auth.issuer.endpoint.url"),
        ({"ssl.truststore.location": "x.jks"}, "PEM"),
        ({"schema.registry.ssl.keystore.location": "x.jks"}, "PEM"),
        ({"ssl.ca.location": "ca.pem"}, "not TLS"),
        ({"url": "https://r", "schema.registry.url": "https://r"}, "given twice"),
        ({"timeout": 3}, "http.read.timeout.ms"),
        ({"linger.ms": 3}, "option of the producer"),
    ],
)
def test_mistakes_are_found_at_construction(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RegistryConfig.parse({**URL, **settings})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ssl.key.location": "key.pem"}, "needs 'ssl.certificate.location'"),
        ({"ssl.context": ssl.create_default_context(), "ssl.ca.location": "ca.pem"}, "exclude each other"),
        ({"ssl.context": "strict"}, "expected an ssl.SSLContext, got str"),
        ({"url": "https://a:b@registry", "basic.auth.user.info": "a:b"}, "has a user"),
    ],
)
def test_mistakes_about_tls_are_found_at_construction(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RegistryConfig.parse({"url": "https://registry", **settings})


def test_names_with_javas_prefix_are_read() -> None:
    config = RegistryConfig.parse({"schema.registry.url": "https://r", "schema.registry.basic.auth.user.info": "a:b"})
    assert config.basic_auth_user_info == "a:b"


def test_a_producer_says_whose_option_it_is() -> None:
    with pytest.raises(ConfigError, match="it is an option of the registry"):
        ProducerConfig.parse({"bootstrap.servers": "h:9092", "schema.registry.url": "http://r"})


@pytest.mark.parametrize(
    "spelling", ["RecordName", "recordname", "RecordNameStrategy", "io.confluent.kafka.serializers.subject.RecordNameStrategy"]
)
def test_a_subject_name_strategy_is_a_word_that_java_users_know(spelling: str) -> None:
    assert SerializerConfig.parse({"subject.name.strategy": spelling}).subject_name_strategy == "RecordName"


def test_a_subject_name_strategy_may_be_a_callable() -> None:
    strategy = lambda topic, field, record: f"{topic}.{field}.{record}"  # noqa: E731
    assert SerializerConfig.parse(subject_name_strategy=strategy).subject_name_strategy is strategy


@pytest.mark.parametrize("way", [{"use_latest_version": True}, {"use_schema_id": 7}])
def test_a_serializer_that_takes_a_registered_schema_registers_none(way: dict[str, Any]) -> None:
    assert SerializerConfig.parse(**way).auto_register_schemas is False
    with pytest.raises(ConfigError, match=r"'auto.register.schemas' and 'use\..*' exclude each other"):
        SerializerConfig.parse(**way, auto_register_schemas=True)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"subject.name.strategy": "Topic"}, "must be one of TopicName, RecordName, TopicRecordName"),
        ({"use.latest.version": True, "use.schema.id": 1}, "exclude each other"),
        ({"use.schema.id": 0}, "between 1 and"),
        ({"auto.register.schema": True}, "did you mean 'auto.register.schemas'"),
        ({"json.fail.invalid.schema": True}, "unknown option"),
    ],
)
def test_mistakes_about_a_serializer_are_found(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        SerializerConfig.parse(settings)


def test_validation_has_the_name_that_confluents_python_client_gives_it() -> None:
    assert JSONSerializerConfig.parse(validate=True).json_fail_invalid_schema is True
