"""What users write, and what they are told when it makes no sense."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from levada.config import AdminConfig, ConsumerConfig, ProducerConfig, RegistryConfig
from levada.config.consumer import ASSIGNORS
from levada.config.document import document
from levada.consumer.group.assignors import BUILT_IN, assignors_of
from levada.errors import ConfigError
from levada.groups import PartitionAssignor
from levada.interceptors import ProducerInterceptor

SERVERS = {"bootstrap.servers": "a:9092"}
TLS = {"security.protocol": "SSL"}
SASL = {"security.protocol": "SASL_PLAINTEXT"}
PLAIN, SCRAM = {**SASL, "sasl.mechanism": "PLAIN"}, {**SASL, "sasl.mechanism": "SCRAM-SHA-256"}
OAUTH = {**SASL, "sasl.mechanism": "OAUTHBEARER"}
OAUTH_MODULE, ENDPOINT = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule", "sasl.oauthbearer.token.endpoint.url"
USER = {"sasl.username": "u", "sasl.password": "p"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PEM = "-----BEGIN SOMETHING-----"


def test_dotted_and_snake_case_are_the_same_key() -> None:
    assert ProducerConfig.parse(SERVERS, linger_ms=7).linger_ms == 7
    assert ProducerConfig.parse({**SERVERS, "linger.ms": "7"}).linger_ms == 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a:9092, b:9093", (("a", 9092), ("b", 9093))),
        (["a:9092", "[::1]:9093"], (("a", 9092), ("::1", 9093))),
        ("localhost", (("localhost", 9092),)),
        ("a, b:9093,[::1]", (("a", 9092), ("b", 9093), ("::1", 9092))),
        (("a", "10.0.0.7"), (("a", 9092), ("10.0.0.7", 9092))),
        (["::1", "fe80::1%eth0", ("::1", 9093), ("[::1]", "9094")], (("::1", 9092), ("fe80::1%eth0", 9092), ("::1", 9093), ("::1", 9094))),
        ("2001:db8:0:0:0:0:0:1:9093", (("2001:db8:0:0:0:0:0:1", 9093),)),
        ("b-1.my_cluster.x.kafka.eu-west-1.amazonaws.com.", (("b-1.my_cluster.x.kafka.eu-west-1.amazonaws.com.", 9092),)),
        ("", None),
        (" , ", None),
    ],
)
def test_bootstrap_servers_are_read_from_text_and_lists(value: Any, expected: Any) -> None:
    if expected is None:
        with pytest.raises(ConfigError, match=r"'bootstrap\.servers'"):
            AdminConfig.parse(bootstrap_servers=value)
    else:
        assert AdminConfig.parse(bootstrap_servers=value).bootstrap_servers == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("http://a:9092", "'http://a:9092' is a URL; give host:port, and the protocol as security.protocol"),
        ("a:0", "expected host:port with a port from 1 to 65535, got 'a:0'"),
        ("a:65536", "expected host:port with a port from 1 to 65535, got 'a:65536'"),
        ("a:", "expected host:port with a port from 1 to 65535, got 'a:'"),
        (":9092", "expected host:port with a port from 1 to 65535, got ':9092'"),
        ("a:kafka", "expected host:port with a port from 1 to 65535, got 'a:kafka'"),
        ("a:\xb2", "expected host:port with a port from 1 to 65535, got 'a:\xb2'"),
        ("9092", "'9092' is a port without a host; expected host:port"),
        (9092, "expected 'host:port,host:port' or a list of such, got 9092"),
        (("a", 9092), "expected host:port, got 9092; host and port are one text, such as 'localhost:9092'"),
        ([(None, 9092)], "expected host:port, got (None, 9092)"),
        ("${BROKERS}", "'${BROKERS}' is no host name and no IP address"),
        ("a;b", "'a;b' is no host name and no IP address"),
        ("a/b:9092", "'a/b' is no host name and no IP address"),
        ("me:secret@a:9092", "an address contains @; give host:port, and user and password as sasl.username and sasl.password"),
        ("[::1", "'[:' is no host name and no IP address"),
        ("[::1]x:9092", "'[::1]x' is no host name and no IP address"),
        ("2001:db8::1:9092", "is an IPv6 address with a port, or one without; write [2001:db8::1]:9092 or [2001:db8::1:9092]"),
        ("1:2:3:9092", "'1:2:3' is no host name and no IP address"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused_with_the_reason(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        AdminConfig.parse(bootstrap_servers=value)
    assert str(raised.value).startswith("'bootstrap.servers': ")


def test_controllers_have_no_usual_port() -> None:
    with pytest.raises(ConfigError, match=r"'bootstrap\.controllers': expected host:port with a port"):
        AdminConfig.parse(bootstrap_controllers="a")
    assert AdminConfig.parse(bootstrap_controllers="a:9093,[::1]:9094").bootstrap_controllers == (("a", 9093), ("::1", 9094))


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
        ({"sasl.mechanism": "PLAIN"}, "'sasl.mechanism' is set, but security.protocol=PLAINTEXT has no login; did you mean SASL_SSL?"),
        (
            {**PLAIN, **USER, "ssl.ca.location": "x"},
            "'ssl.truststore.location' (given as 'ssl.ca.location') is set, but security.protocol=SAS",
        ),
        (SASL, "security.protocol=SASL_PLAINTEXT needs 'sasl.mechanism': one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (
            {**SASL, "sasl.mechanism": "SCRAM-SHA-1"},
            "'sasl.mechanism': must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI, AWS_MSK_IAM; got 'SC",
        ),
        ({**SASL, "sasl.mechanism": "PLAIN"}, "sasl.mechanism=PLAIN needs 'sasl.username'"),
        (
            {
                **SASL,
                "sasl.mechanism": "GSSAPI",
                "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;",
            },
            "'sasl.jaas.config': useKeyTab=true needs keyTab",
        ),
        ({**SASL, "sasl.kerberos.kinit.cmd": "kinit"}, "unknown option 'sasl.kerberos.kinit.cmd'; levada fetches tickets with sasl.kerb"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.mechanism=PLAIN needs 'sasl.password'"),
        ({**SASL, "sasl.mechanism": type("Own", (), {})}, "'sasl.mechanism': Own is a class: make an object of it"),
        (OAUTH, "sasl.mechanism=OAUTHBEARER needs one of 'sasl.oauth.token.provider', 'sasl.oauthbearer.token.endpoint.url', or"),
        ({**OAUTH, "sasl.username": "u"}, "'sasl.username' is set, but belongs to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, not to OAUTHBEARER"),
        ({**PLAIN, **USER, "sasl.oauthbearer.scope": "s"}, "'sasl.oauthbearer.scope' is set, but belongs to OAUTHBEARER, not to PLAIN"),
        ({**OAUTH, "sasl.oauth.token.provider": "tok3n"}, "'sasl.oauth.token.provider': expected a function that returns a token, or an"),
        ({**OAUTH, ENDPOINT: "https://a/"}, "'sasl.oauthbearer.token.endpoint.url' needs 'sasl.oauthbearer.client.credentials.client.id'"),
        (
            {**OAUTH, ENDPOINT: "https://a/", "sasl.oauth.token.provider": str},
            "'sasl.oauth.token.provider': expected a function that returns a token; str is a class",
        ),
        (
            {**OAUTH, ENDPOINT: "https://a/", "sasl.oauth.token.provider": str.upper},
            "'sasl.oauth.token.provider' and 'sasl.oauthbearer.token.endpoint.url' exclude each other",
        ),
        (
            {**OAUTH, ENDPOINT: "https://a/", "sasl.oauthbearer.assertion.claim.sub": "s"},
            "an assertion needs either 'sasl.oauthbearer.assertion.file' or 'sasl.oauthbearer.assertion.private.key.file'",
        ),
        (
            {**OAUTH, "sasl.oauthbearer.jwt.retriever.class": "com.acme.Retriever"},
            "'sasl.oauthbearer.jwt.retriever.class': no class is loaded; known by name are DefaultJwtRetriever, Client",
        ),
        ({**OAUTH, "sasl.oauthbearer.extensions": "a"}, "'sasl.oauthbearer.extensions': expected name=value,name=value, or a mapping of"),
        (
            {**OAUTH, "sasl.login.refresh.window.factor": "2"},
            "'sasl.login.refresh.window.factor': must be a number between 0.5 and 1.0, got",
        ),
        ({**OAUTH, "sasl.jaas.config": f"{OAUTH_MODULE} required unsecuredLoginNumberClaim_x=y;"}, "'sasl.jaas.config': unsecuredLoginNum"),
        ({**OAUTH, "sasl.jaas.config": f"{OAUTH_MODULE} required unsecuredLoginNumberClaim_x=1;"}, "'sasl.jaas.config': a token without a"),
        ({**OAUTH, "oauth.cb": str.upper}, "unknown option 'oauth.cb'; set sasl.oauth.token.provider to a function without arguments"),
        ({**PLAIN, "sasl.jaas.config": "PlainLoginModule"}, "'sasl.jaas.config': expected <login module> required username="),
        (
            {**PLAIN, "sasl.jaas.config": "com.acme.Login required;"},
            "'sasl.jaas.config': the login module com.acme.Login is not known here",
        ),
        (
            {**PLAIN, "sasl.jaas.config": f"{SCRAM_MODULE} required;"},
            "'sasl.jaas.config': ScramLoginModule is not the login module of sasl",
        ),
        ({**PLAIN, "sasl.jaas.config": f'{PLAIN_MODULE} required username="u" x'}, "'sasl.jaas.config': expected options as name="),
        ({**PLAIN, "sasl.jaas.config": f"{PLAIN_MODULE} required;"}, "sasl.mechanism=PLAIN needs 'sasl.username'"),
        ({**PLAIN, "sasl.jaas.config": "x", "sasl.username": "u"}, "'sasl.jaas.config' and 'sasl.username' exclude each other"),
        (
            {**PLAIN, "sasl.username": "u", "sasl.password": "p", "sasl.tokenauth": True},
            "'sasl.tokenauth' is set, but belongs to SCRAM-SHA-256, SCRAM-SHA-512, not to PLAIN",
        ),
        ({"security.protocol": "TLS"}, "'security.protocol': must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; got 'TLS'"),
        (
            {"ssl.ca.location": "ca.pem"},
            "'ssl.truststore.location' (given as 'ssl.ca.location') is set, but security.protocol=PLAINTEXT has",
        ),
        ({**TLS, "ssl.truststore.location": "a", "ssl.ca.pem": PEM}, "'ssl.truststore.location' and 'ssl.truststore.certificates' (given"),
        (
            {**TLS, "ssl.keystore.location": "a", "ssl.certificate.location": "b"},
            "'ssl.keystore.location' and 'ssl.certificate.location' excl",
        ),
        ({**TLS, "ssl.keystore.key": PEM}, "'ssl.keystore.key' needs 'ssl.keystore.certificate.chain'"),
        ({**TLS, "ssl.keystore.certificate.chain": PEM}, "'ssl.keystore.certificate.chain' needs 'ssl.keystore.key'"),
        ({**TLS, "ssl.key.location": "a"}, "'ssl.key.location' needs 'ssl.certificate.location'"),
        ({**TLS, "ssl.keystore.key": "s3cret"}, "'ssl.keystore.key': expected text in PEM, with -----BEGIN ...-----, got [hidden]"),
        (
            {**TLS, "ssl.truststore.type": "JKS"},
            "'ssl.truststore.type': must be one of PEM, PKCS12; got 'JKS'; convert a Java keystore with",
        ),
        (
            {**TLS, "ssl.endpoint.identification.algorithm": ""},
            "'ssl.endpoint.identification.algorithm': must be one of https; got ''; to accept",
        ),
        ({**TLS, "ssl.enabled.protocols": "TLSv1.2,TLSv1.1"}, "'ssl.enabled.protocols': expected some of TLSv1.2, TLSv1.3; got 'TLSv1.1'"),
        ({**TLS, "ssl.enabled.protocols": []}, "'ssl.enabled.protocols': must name at least one: TLSv1.2, TLSv1.3"),
        ({**TLS, "ssl.context": "default"}, "'ssl.context': expected an ssl.SSLContext, got str"),
        ({**TLS, "ssl.protocol": "TLSv1.3"}, "unknown option 'ssl.protocol'; name versions in ssl.enabled.protocols"),
        ({"enable.ssl.certificate.verification": False}, "unknown option 'enable.ssl.certificate.verification'; certificates are always"),
        ({"enable.idempotence": True, "acks": 1}, "'enable.idempotence' needs 'acks=all', got acks=1"),
        ({"enable.idempotence": True, "retries": 0}, "'enable.idempotence' needs 'retries' above 0"),
        ({"delivery.timeout.ms": 10}, "'delivery.timeout.ms' must be at least linger.ms + request.timeout.ms = 30005, got 10"),
        ({"client.id": "\ud800"}, "'client.id': expected text that can be written as UTF-8, got '\\ud800'"),
        ({"client.id": "\N{EURO SIGN}" * 11_000}, "'client.id': must be at most 32767 bytes long, is 33000"),
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


@pytest.mark.parametrize(("config", "required"), [(ConsumerConfig, SERVERS), (RegistryConfig, {"schema.registry.url": "http://r"})])
def test_M_C13_a_name_that_no_file_can_have_is_refused(config: Any, required: dict[str, str]) -> None:
    files = [name for name in config.OPTIONS if name.endswith((".location", ".file", ".keytab"))]
    assert "ssl.key.location" in files
    for name in files:
        with pytest.raises(ConfigError, match=f"'{name}': a file's name has no zero byte"):
            config.parse({**required, name: "ca\0.pem"})


def test_a_keyword_is_answered_with_a_keyword() -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'linger'; did you mean 'linger_ms'\?"):
        ProducerConfig.parse(SERVERS, linger=5)


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"'bootstrap\.servers' is required"):
        ProducerConfig.parse()


class Own(PartitionAssignor):
    NAME = "own"

    def assign(self, topics: Any, members: Any) -> Any:
        return {}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("range", ["range"]),
        (" sticky, roundrobin ", ["sticky", "roundrobin"]),
        (["org.apache.kafka.clients.consumer.CooperativeStickyAssignor"], ["cooperative-sticky"]),
        (Own(), ["own"]),
        (["range", Own()], ["range", "own"]),
    ],
)
def test_G6_assignors_are_named_as_here_or_as_in_java_or_are_objects(given: Any, names: list[str]) -> None:
    chosen = ConsumerConfig.parse(SERVERS, group_id="g", partition_assignment_strategy=given).partition_assignment_strategy
    assert [one if isinstance(one, str) else one.NAME for one in chosen] == names
    assert [assignor.NAME for assignor in assignors_of(chosen)] == names


def test_every_named_assignor_is_there() -> None:
    assert set(ASSIGNORS.values()) == set(BUILT_IN)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partition_assignment_strategy": "rang"}, "expected range, roundrobin, sticky, cooperative-sticky, or an object"),
        ({"partition_assignment_strategy": "stiky"}, "got 'stiky'; did you mean 'sticky'?"),
        ({"partition_assignment_strategy": "range,range"}, "'range' is given twice"),
        ({"partition_assignment_strategy": []}, "must name at least one"),
        ({"partition_assignment_strategy": Own}, "make an object of the class"),
        ({"partition_assignment_strategy": 5}, "expected range"),
        ({"heartbeat_interval_ms": 45_000}, "must be below session.timeout.ms"),
        ({"group_instance_id": "a b"}, "must be 1 to 249 of a-z"),
        ({"group_instance_id": ""}, "must be 1 to 249 of a-z"),
        ({"group_protocol": "consumr"}, "classic, consumer"),
        ({"group_protocol": "consumer", "session_timeout_ms": 10_000}, "'session.timeout.ms'.* does not go with group.protocol=consumer"),
        ({"group_protocol": "consumer", "heartbeat_interval_ms": 10}, "the group's consumer.heartbeat.interval.ms.*; leave it out"),
        ({"group_protocol": "consumer", "partition_assignment_strategy": "range"}, "as group.remote.assignor says; leave it out"),
        ({"group_remote_assignor": "uniform"}, "goes with group.protocol=consumer"),
    ],
)
def test_G6_options_of_members_are_checked(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ConsumerConfig.parse(SERVERS, group_id="g", **settings)


def test_G16_an_instance_id_needs_a_group() -> None:
    with pytest.raises(ConfigError, match="names a member of a group; give a group"):
        ConsumerConfig.parse(SERVERS, group_instance_id="one")


def test_K22_idempotence_gives_way_to_acks_unless_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    config = ProducerConfig.parse(SERVERS, acks="1")
    assert not config.enable_idempotence
    assert "idempotence is off" in caplog.text


def test_K21_a_default_delivery_timeout_is_raised_to_the_sum() -> None:
    assert ProducerConfig.parse(SERVERS, linger_ms=100_000, request_timeout_ms=90_000).delivery_timeout_ms == 190_000


def test_N19_a_base_above_the_maximum_gives_a_fixed_delay() -> None:
    def delays(**settings: int) -> tuple[int, int]:
        config = AdminConfig.parse(SERVERS, **settings)
        return config.retry_backoff_ms, config.retry_backoff_max_ms

    assert delays(retry_backoff_ms=5_000) == (5_000, 5_000)
    assert delays(retry_backoff_ms=5_000, retry_backoff_max_ms=2_000) == (2_000, 2_000)
    assert delays(retry_backoff_max_ms=50) == (50, 50)


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


@pytest.mark.parametrize(
    ("text", "user", "password"),
    [
        ('required username="u" password="p1";', "u", "p1"),
        ("required\n  username='u'\n  password='p1' ;\n", "u", "p1"),
        ("REQUIRED username=u password=p1;", "u", "p1"),
        (r'required username="a\"b" password="c\\d; e=f" serviceName="kafka";', 'a"b', r"c\d; e=f"),
    ],
)
def test_M_D10_jaas_is_read_as_data(text: str, user: str, password: str) -> None:
    config = ProducerConfig.parse({**SERVERS, **PLAIN, "sasl.jaas.config": f"{PLAIN_MODULE} {text}"})
    assert (config.sasl_username, config.sasl_password) == (user, password)
    assert password not in repr(config)


@pytest.mark.parametrize(
    ("option", "is_token"), [('tokenauth="true"', True), ("tokenauth=TRUE", True), ('tokenauth="false"', False), ("", False)]
)
def test_jaas_says_that_the_login_is_a_delegation_token(option: str, is_token: bool) -> None:
    jaas = f'{SCRAM_MODULE} required username="id" password="hmac" {option};'
    assert ProducerConfig.parse({**SERVERS, **SCRAM, "sasl.jaas.config": jaas}).sasl_tokenauth is is_token
