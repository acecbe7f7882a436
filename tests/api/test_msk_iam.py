"""AWS_MSK_IAM: credentials of the environment, or those that botocore finds, on the embedded broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import levada as lv
from levada.base.clock import SystemClock
from levada.errors import ConfigError, SaslAuthenticationError, TokenError
from levada.oauth.aws import AwsMskIam
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


class Session:
    """Stands for botocore's session. profiles: those that were asked for."""

    profiles: list[str | None]
    fails: Exception | None

    def __init__(self, profile: str | None) -> None:
        self.profiles.append(profile)

    def get_config_variable(self, name: str) -> str:
        if self.fails is not None:
            raise self.fails
        return "us-east-1"

    def get_credentials(self) -> Any:
        if self.fails is not None:
            raise self.fails
        frozen = SimpleNamespace(access_key="AKIDEXAMPLE", secret_key=SECRET, token=None)
        return SimpleNamespace(get_frozen_credentials=lambda: frozen)


class ProfileNotFound(Exception):
    pass


class ConfigParseError(Exception):
    pass


@pytest.fixture
def botocore(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> type[Session]:
    monkeypatch.setattr(Session, "profiles", [], raising=False)
    monkeypatch.setattr(Session, "fails", None, raising=False)
    parts: dict[str, dict[str, Any]] = {
        "botocore": {},
        "botocore.session": {"Session": Session},
        "botocore.exceptions": {"ProfileNotFound": ProfileNotFound, "ConfigParseError": ConfigParseError},
    }
    for name, members in parts.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    return Session


def test_credentials_that_botocore_finds(settings: dict[str, Any], botocore: type[Session]) -> None:
    del settings["sasl_aws_region"]
    jaas = f'{MSK}.IAMLoginModule required awsProfileName="work";'
    with lv.KafkaAdmin(**settings, sasl_jaas_config=jaas) as admin:
        admin.list_topics()
    assert botocore.profiles == ["work"]


@pytest.mark.parametrize("region", ["eu-west-1", None])
def test_a_profile_that_does_not_exist_is_not_tried_again(settings: dict[str, Any], botocore: type[Session], region: str | None) -> None:
    botocore.fails = ProfileNotFound("The config profile (nope) could not be found")
    settings |= {"sasl_aws_region": region, "sasl_aws_profile": "nope"}
    missing = r"The config profile \(nope\) could not be found; correct it"
    with pytest.raises(TokenError, match=missing) as refused, lv.KafkaAdmin(**settings) as admin:
        admin.list_topics(timeout=20)
    assert not refused.value.retriable


def test_another_error_of_botocore_may_pass(botocore: type[Session]) -> None:
    botocore.fails = OSError("the metadata service does not answer")
    step: Any = next(AwsMskIam(None, None, SystemClock(), "levada").begin("kafka.test"))
    with pytest.raises(TokenError, match="botocore cannot get AWS credentials: OSError") as unanswered:
        step.run()
    assert unanswered.value.retriable
