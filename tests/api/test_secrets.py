"""A secret is planted in each option that has one, and looked for wherever something is shown."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from levada.config import AdminConfig, ConsumerConfig, ProducerConfig
from levada.config.option import HIDDEN
from levada.errors import KafkaError, SaslAuthenticationError
from levada.net.sasl.scram import ScramServer
from levada.oauth import allow_token_endpoints
from levada.testing import Authority, EmbeddedKafka, EmbeddedTokenEndpoint
from proxies import TestProxy

PLANTED = "planted-8a1f"
MODULE = "org.apache.kafka.common.security"
SOURCE = str(Path(lv.__file__).parent)
PEM = f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----\n"
CHAIN = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
BY_PASSWORD = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": PLANTED}
BY_TOKEN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


def settings_with(folder: Path, endpoint: str, proxy: str) -> Mapping[str, dict[str, Any]]:
    """For each option that has a secret, settings with one that cannot work."""
    (folder / "key.pem").write_text(PEM)
    (folder / "key.p12").write_text("no PKCS12")
    asked = {**BY_TOKEN, "sasl.oauthbearer.token.endpoint.url": endpoint}
    by_key = {"security.protocol": "SSL", "ssl.certificate.location": str(folder / "key.pem"), "ssl.key.location": str(folder / "key.pem")}
    stored = {"security.protocol": "SSL", "ssl.keystore.location": str(folder / "key.p12"), "ssl.keystore.type": "PKCS12"}
    trusted = {"security.protocol": "SSL", "ssl.truststore.location": str(folder / "key.p12"), "ssl.truststore.type": "PKCS12"}
    by_assertion = {**asked, "sasl.oauthbearer.assertion.private.key.file": str(folder / "key.pem")}
    return {
        "sasl.password": {"security.protocol": "SASL_PLAINTEXT", **BY_PASSWORD},
        "sasl.jaas.config": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{MODULE}.scram.ScramLoginModule required username="u" password="{PLANTED}";',
        },
        "sasl.oauth.token.provider": {**BY_TOKEN, "sasl.oauth.token.provider": lambda: lv.OAuthToken(PLANTED)},
        "sasl.oauthbearer.client.credentials.client.secret": {
            **asked,
            "sasl.oauthbearer.client.credentials.client.id": "u",
            "sasl.oauthbearer.client.credentials.client.secret": PLANTED,
        },
        "sasl.oauthbearer.assertion.private.key.passphrase": {**by_assertion, "sasl.oauthbearer.assertion.private.key.passphrase": PLANTED},
        "proxy.url": {"proxy.url": f"socks5://u:{PLANTED}@{proxy}"},
        "sasl.oauthbearer.token.endpoint.proxy.url": {
            **asked,
            "sasl.oauthbearer.client.credentials.client.id": "u",
            "sasl.oauthbearer.client.credentials.client.secret": "another",
            "sasl.oauthbearer.token.endpoint.proxy.url": f"http://u:{PLANTED}@{proxy}",
        },
        "ssl.key.password": {**by_key, "ssl.key.password": PLANTED},
        "ssl.keystore.key": {"security.protocol": "SSL", "ssl.keystore.key": PEM, "ssl.keystore.certificate.chain": CHAIN},
        "ssl.keystore.password": {**stored, "ssl.keystore.password": PLANTED},
        "ssl.truststore.password": {**trusted, "ssl.truststore.password": PLANTED},
    }


OPTIONS = sorted(name for name, option in ProducerConfig.OPTIONS.items() if option.secret)


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users={"u": "another"}, oauth="unsecured") as kafka:
        yield kafka


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with EmbeddedTokenEndpoint({}) as tokens:
        allow_token_endpoints([tokens.url])
        yield tokens.url
        allow_token_endpoints(None)


@pytest.fixture(scope="module")
def proxy() -> Iterator[str]:
    with TestProxy(users={"u": "another"}) as proxy:
        yield f"127.0.0.1:{proxy.port}"


def shown_by(error: BaseException, handed_over: Mapping[str, Any]) -> str:
    """What a tool shows that logs a traceback with the variables of every frame of ours, causes included.

    handed_over: the program's own mapping, which stands in the frames that it was handed to, as in the program's.
    """
    lines = [str(error), repr(error)]
    seen: set[int] = set()
    following: list[BaseException | None] = [error]
    while following:
        found = following.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        following += [found.__cause__, found.__context__]
        told = traceback.TracebackException(type(found), found, found.__traceback__, capture_locals=True)
        for frame in told.stack:
            if frame.filename.startswith(SOURCE):
                ours = {name: value for name, value in (frame.locals or {}).items() if value != repr(handed_over)}
                lines.append(f"{frame.name} {frame.line} {ours}")
    return "\n".join(lines)


def test_M_D11_every_option_with_a_secret_is_tried(tmp_path: Path) -> None:
    tried = settings_with(tmp_path, "http://a/", "a:1")
    assert set(OPTIONS) <= set(tried)


@pytest.mark.parametrize("option", [*OPTIONS, "sasl.oauth.token.provider"])
def test_M_D11_a_planted_secret_is_found_nowhere(
    option: str, kafka: EmbeddedKafka, endpoint: str, proxy: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, **settings_with(tmp_path, endpoint, proxy)[option]}
    shown = [repr(kind.parse(settings)) for kind in (ProducerConfig, ConsumerConfig, AdminConfig)]
    if option in OPTIONS:
        assert f"{option}={HIDDEN}" in shown[0]
    failures = []
    with caplog.at_level(logging.DEBUG):
        try:
            with lv.KafkaAdmin(settings) as admin:
                shown += [repr(admin), repr(admin.metrics())]
                with pytest.raises(TypeError):
                    pickle.dumps(admin)
                admin.list_topics(timeout=2)
        except KafkaError as error:
            failures.append(error)
            shown.append(shown_by(error, settings))
    assert failures, "the secret is wrong, so something has to be said"
    assert PLANTED not in "\n".join([*shown, caplog.text])


@pytest.mark.skipif(os.name != "posix", reason="files have no modes")
def test_M_D5_a_key_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority()
    with EmbeddedKafka(security=authority.listener(client_auth="required")) as kafka:
        me = authority.client()
        file = tmp_path / "me.pem"
        file.write_text(me["ssl_keystore_certificate_chain"] + me["ssl_keystore_key"])
        settings = {**kafka.client_settings, **authority.trust(), "ssl_keystore_location": str(file)}
        for mode, is_warned in ((0o600, False), (0o640, True), (0o644, True)):
            file.chmod(mode)
            caplog.clear()
            with caplog.at_level(logging.WARNING), lv.KafkaAdmin(**settings) as admin:
                admin.list_topics()
            assert ("ssl.keystore.location: other users of this machine can read" in caplog.text) is is_warned


def test_M_D11_a_broker_that_proves_nothing_is_told_without_keys_made_of_the_password(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScramServer, "last", lambda self, message: b"v=" + base64.b64encode(b"x" * 32))
    settings = {**kafka.settings_for("u", "SCRAM-SHA-256")}
    with pytest.raises(SaslAuthenticationError, match="its signature is wrong") as error, lv.KafkaAdmin(settings) as admin:
        admin.list_topics(timeout=20)
    assert "password_key" not in shown_by(error.value, settings)
