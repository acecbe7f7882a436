"""AWS_MSK_IAM: credentials of the environment, or those that botocore finds, on the embedded broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import levada as lv
from levada.errors import ConfigError, SaslAuthenticationError, TokenError
from levada.testing import EmbeddedKafka

SECRET = "planted/secret+key"
MSK = "software.amazon.msk.auth.iam"


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(aws_accounts={"AKIDEXAMPLE": SECRET}) as kafka:
        yield kafka


@pytest.fixture
def settings(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_region": "eu-west-1"}
    return {**kafka.client_settings, **login}


def found(error: type[Exception], settings: dict[str, Any]) -> str:
    with pytest.raises(error) as caught, lv.KafkaAdmin(**settings) as admin:
        admin.list_topics(timeout=20)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_credentials_of_the_environment(kafka: EmbeddedKafka, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a/token=")
    java = {"sasl.jaas.config": f"{MSK}.IAMLoginModule required;", "sasl.client.callback.handler.class": f"{MSK}.IAMClientCallbackHandler"}
    with lv.KafkaAdmin({**settings, **java}) as admin:
        admin.list_topics()
        assert {session.principal for session in kafka.connections()} == {"User:AKIDEXAMPLE"}
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    assert "invalid credentials with SASL mechanism AWS_MSK_IAM" in found(SaslAuthenticationError, settings)


def test_what_is_missing_is_named(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set" in found(TokenError, settings)
    with pytest.raises(ConfigError, match=r"'sasl\.aws\.profile' needs the package botocore: pip install 'levada\[aws\]'"):
        lv.KafkaAdmin(**settings, sasl_aws_profile="work")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    del settings["sasl_aws_region"]
    assert "names no region of AWS; give sasl.aws.region" in found(TokenError, settings)


def test_credentials_that_botocore_finds(kafka: EmbeddedKafka, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    profiles: list[str | None] = []

    class Session:
        def __init__(self, profile: str | None) -> None:
            profiles.append(profile)

        def get_config_variable(self, name: str) -> str:
            return "us-east-1"

        def get_credentials(self) -> Any:
            frozen = SimpleNamespace(access_key="AKIDEXAMPLE", secret_key=SECRET, token=None)
            return SimpleNamespace(get_frozen_credentials=lambda: frozen)

    module = ModuleType("botocore.session")
    module.Session = Session  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "botocore", ModuleType("botocore"))
    monkeypatch.setitem(sys.modules, "botocore.session", module)
    del settings["sasl_aws_region"]
    jaas = f'{MSK}.IAMLoginModule required awsProfileName="work";'
    with lv.KafkaAdmin(**settings, sasl_jaas_config=jaas) as admin:
        admin.list_topics()
    assert profiles == ["work"]
