"""Users of SCRAM, quotas of clients and delegation tokens: the embedded broker answers as a real one does, right and wrong."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

import levada as lv
from kafka_cluster import PASSWORD, USER, KafkaCluster
from levada.errors import SaslAuthenticationError
from levada.net.sasl.scram import salted
from levada.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from levada.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from levada.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from levada.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from levada.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from levada.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from levada.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from levada.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from levada.protocol.schema import Request
from levada.testing import EmbeddedKafka

pytestmark = pytest.mark.kafka

PATIENCE_S = 20
SHA_256, SHA_512 = 1, 2
SALT = b"salt of a test"
OTHER, OTHER_PASSWORD = "bob", "of bob"
EXACT, DEFAULT, ANY = range(3)


class Side(NamedTuple):
    """A broker: what clients need to log in, but for who they are, and clients: one that nobody has to know, one of alice, one of bob."""

    login: dict[str, Any]
    plain: lv.KafkaClient
    alice: lv.KafkaClient
    bob: lv.KafkaClient


@pytest.fixture(scope="module")
def embedded_kafka() -> Iterator[EmbeddedKafka]:
    listeners = ["PLAINTEXT", "SASL_PLAINTEXT"]
    with EmbeddedKafka(listeners=listeners, users={USER: PASSWORD}, delegation_token_secret_key="of the tests' nodes") as kafka:
        yield kafka


@pytest.fixture
def sides(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> Iterator[tuple[Side, Side]]:
    """The real broker and the embedded one."""
    real = one_side(kafka44.bootstrap_servers, kafka44.settings_for("SASL_PLAINTEXT"))
    embedded = one_side(embedded_kafka.bootstrap_servers, embedded_kafka.settings_at("SASL_PLAINTEXT"))
    with real as theirs, embedded as ours:
        yield theirs, ours


@contextmanager
def one_side(servers: str, login: dict[str, Any]) -> Iterator[Side]:
    with lv.KafkaClient(bootstrap_servers=servers) as plain:
        answer = plain.request(altering(upsertion(OTHER, password=OTHER_PASSWORD)))
        assert [result.error_code for result in answer.results] == [0]
        until(lambda: told_of_users(plain, OTHER) == [(OTHER, 0, ((SHA_256, 4096),))])
        alice = lv.KafkaClient(**login, sasl_mechanism="PLAIN", sasl_username=USER, sasl_password=PASSWORD)
        bob = lv.KafkaClient(**login, sasl_mechanism="SCRAM-SHA-256", sasl_username=OTHER, sasl_password=OTHER_PASSWORD)
        with alice, bob:
            yield Side(login, plain, alice, bob)


def until(is_so: Callable[[], bool]) -> None:
    """Wait until a broker has learned what its controller knows."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def same(sides: tuple[Side, Side], ask: Callable[[Side], Any]) -> Any:
    """Ask both sides; they have to tell the same, which is returned."""
    theirs, ours = ask(sides[0]), ask(sides[1])
    assert ours == theirs
    return ours


# Users


def upsertion(
    user: str, mechanism: int = SHA_256, iterations: int = 4096, *, salt: bytes = SALT, password: str = "secret"
) -> ScramCredentialUpsertion:
    key = salted("SCRAM-SHA-256", password, SALT, 4096)
    return ScramCredentialUpsertion(name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=key)


def deletion(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def altering(*changes: Any) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )


def told_of_users(client: lv.KafkaClient, *users: str) -> list[Any]:
    answer = client.request(DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users]))
    return sorted(
        (result.user, result.error_code, tuple(sorted((info.mechanism, info.iterations) for info in result.credential_infos)))
        for result in answer.results
    )


def test_M_P8_users_of_scram(sides: tuple[Side, Side]) -> None:
    user, another = (f"u-{uuid4().hex}" for _ in range(2))
    questions: dict[str, Sequence[Any]] = {
        "a new user": [upsertion(user)],
        "another mechanism": [upsertion(user, SHA_512, 8192)],
        "two mechanisms": [upsertion(user), upsertion(user, SHA_512, 8192)],
        "two mechanisms, deleted": [deletion(user), deletion(user, SHA_512)],
        "one mechanism set and one deleted": [upsertion(user), deletion(user, SHA_512)],
        "first bad, then good": [deletion(user, 9), upsertion(user)],
        "too few iterations": [upsertion(user, iterations=4095)],
        "the most iterations": [upsertion(user, iterations=16_384)],
        "too many iterations": [upsertion(user, iterations=16_385)],
        "no salt": [upsertion(user, salt=b"")],
        "no name": [upsertion("")],
        "deletion without a name": [deletion("")],
        "an unknown mechanism": [upsertion(user, 0)],
        "another unknown mechanism": [upsertion(user, 9)],
        "deletion of an unknown mechanism": [deletion(user, 9)],
        "deletion of a user that is not there": [deletion(another)],
        "deletion of a mechanism that is not there": [upsertion(another), deletion(another, SHA_512)],
        "twice the same": [upsertion(user), upsertion(user)],
        "set and deleted": [upsertion(user), deletion(user)],
        "deleted twice": [deletion(user), deletion(user)],
        "one good and one bad": [upsertion(another), upsertion(user, iterations=1)],
        "one mechanism good and one bad": [upsertion(user), upsertion(user, SHA_512, 1)],
        "wrong in two ways": [upsertion(user, 9, 1), upsertion("", 9)],
        "deleted": [deletion(user), deletion(another)],
        "nothing": [],
    }

    def told(side: Side) -> dict[str, Any]:
        answers = {}
        for about, changes in questions.items():
            results = side.plain.request(altering(*changes)).results
            answers[about] = sorted((result.user, result.error_code, result.error_message) for result in results)
        return answers

    same(sides, told)


def test_M_P8_descriptions_of_users(sides: tuple[Side, Side]) -> None:
    user = f"u-{uuid4().hex}"

    def told(side: Side) -> Any:
        for change in (upsertion(user), upsertion(user, SHA_512, 5000)):
            side.plain.request(altering(change))
        until(lambda: len(told_of_users(side.plain, user)[0][2]) == 2)
        everybody = side.plain.request(DescribeUserScramCredentialsRequest(users=None))
        return (
            told_of_users(side.plain, user, "nobody", "twice", "twice", ""),
            [code for name, code, _ in told_of_users(side.plain) if name == user],
            everybody.error_code,
            user in [result.user for result in everybody.results],
        )

    same(sides, told)


# Quotas


def entry(names: Mapping[str, str | None], changes: Any) -> EntryData:
    ops = changes.items() if isinstance(changes, dict) else changes
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[OpData(key=key, value=limit or 0.0, remove=limit is None) for key, limit in ops],
    )


PRODUCED, READ = "producer_byte_rate", "consumer_byte_rate"


def test_M_P8_changes_of_quotas(sides: tuple[Side, Side]) -> None:
    user = {"user": f"u-{uuid4().hex}"}
    questions: dict[str, list[EntryData]] = {
        "a user": [entry(user, {PRODUCED: 1e9, "request_percentage": 1000.5})],
        "a client": [entry({"client-id": f"c-{uuid4().hex}"}, {READ: 1e9, "controller_mutation_rate": 1e6})],
        "both": [entry({**user, "client-id": "c"}, {PRODUCED: 1e9})],
        "a default": [entry({**user, "client-id": None}, {PRODUCED: 1e9})],
        "an address": [entry({"ip": "127.0.0.9"}, {"connection_creation_rate": 1e6})],
        "no address": [entry({"ip": "not an address"}, {"connection_creation_rate": 1e6})],
        "no entity": [entry({}, {PRODUCED: 1e9})],
        "an unknown type": [entry({"group": "g"}, {PRODUCED: 1e9})],
        "a type without a name": [entry({"": "g"}, {PRODUCED: 1e9})],
        "an empty user": [entry({"user": ""}, {PRODUCED: 1e9})],
        "an address and a user": [entry({**user, "ip": "127.0.0.1"}, {PRODUCED: 1e9})],
        "an unknown quota": [entry(user, {"byte_rate": 1.0})],
        "an unknown quota removed": [entry(user, {"byte_rate": None})],
        "a quota of addresses": [entry(user, {"connection_creation_rate": 1.0})],
        "a quota of clients": [entry({"ip": "127.0.0.1"}, {PRODUCED: 1.0})],
        "zero": [entry(user, {PRODUCED: 0.0})],
        "negative": [entry(user, {"request_percentage": -1.0})],
        "a fraction": [entry(user, {PRODUCED: 1.5})],
        "almost whole": [entry(user, {PRODUCED: 1_000_000_000.0000001})],
        "too large": [entry(user, {PRODUCED: 1e19})],
        "too large for an int": [entry({"ip": "127.0.0.1"}, {"connection_creation_rate": 3e9})],
        "not a number": [entry(user, {"request_percentage": float("nan")})],
        "the same quota twice": [entry(user, [(PRODUCED, 1e9), (PRODUCED, 2e9)])],
        "the same entity twice": [entry(user, {PRODUCED: 1e9}), entry(user, {READ: 1e9})],
        "one good and one bad": [entry(user, {PRODUCED: 1e9}), entry({"user": ""}, {READ: 1e9})],
        "removed": [entry(user, {PRODUCED: None})],
        "removed again": [entry(user, {PRODUCED: None})],
        "no change": [entry(user, {})],
        "nothing": [],
    }

    def told(side: Side) -> dict[tuple[str, bool], Any]:
        return {
            (about, validate): sorted(
                (one.error_code, sorted((part.entity_type, part.entity_name or "") for part in one.entity))
                for one in side.plain.request(AlterClientQuotasRequest(entries=entries, validate_only=validate)).entries
            )
            for about, entries in questions.items()
            for validate in (True, False)
        }

    same(sides, told)


def component(kind: str, how: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=how, match=match)


def test_M_P8_filters_of_quotas(sides: tuple[Side, Side]) -> None:
    user, client = f"u-{uuid4().hex}", f"c-{uuid4().hex}"
    known: list[dict[str, str | None]] = [
        {"user": user},
        {"user": user, "client-id": client},
        {"user": user, "client-id": None},
        {"client-id": client},
    ]
    filters: dict[str, tuple[list[ComponentData], bool]] = {
        "a user": ([component("user", EXACT, user)], False),
        "only a user": ([component("user", EXACT, user)], True),
        "a user with any client": ([component("user", EXACT, user), component("client-id", ANY)], True),
        "a user with the default client": ([component("user", EXACT, user), component("client-id", DEFAULT)], False),
        "a client": ([component("client-id", EXACT, client)], False),
        "nobody": ([component("user", EXACT, "nobody")], False),
        "nothing but strict": ([], True),
        "an empty type": ([component("", EXACT, user)], False),
        "an unknown type": ([component("group", EXACT, user)], False),
        "no name": ([component("user", EXACT)], False),
        "a default with a name": ([component("user", DEFAULT, user)], False),
        "any with a name": ([component("user", ANY, user)], False),
        "an unknown match": ([component("user", 3)], False),
        "a type twice": ([component("user", ANY), component("user", DEFAULT)], False),
        "an address and a user": ([component("user", ANY), component("ip", ANY)], False),
        "an address": ([component("ip", EXACT, "127.0.0.99")], False),
    }

    def asked(side: Side, components: list[ComponentData], strict: bool) -> Any:
        answer = side.plain.request(DescribeClientQuotasRequest(components=components, strict=strict))
        if answer.entries is None:
            return answer.error_code
        return sorted(
            (sorted((part.entity_type, part.entity_name or "") for part in one.entity), {value.key: value.value for value in one.values})
            for one in answer.entries
        )

    def told(side: Side) -> dict[str, Any]:
        entries = [entry(names, {PRODUCED: 1e9 + number}) for number, names in enumerate(known)]
        side.plain.request(AlterClientQuotasRequest(entries=entries))
        until(lambda: len(asked(side, [component("user", EXACT, user)], False)) == 3)
        return {about: asked(side, *wanted) for about, wanted in filters.items()}

    same(sides, told)


# Tokens


def creation(*renewers: str, kind: str = "User", **fields: Any) -> CreateDelegationTokenRequest:
    named = [CreatableRenewers(principal_type=kind, principal_name=name) for name in renewers]
    return CreateDelegationTokenRequest(renewers=named, **{"max_lifetime_ms": -1, **fields})


def seen(answer: Any) -> list[Any]:
    """What an answer tells of a token, its times in minutes after its creation."""
    if answer.error_code:
        times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
        return [answer.error_code, answer.principal_type, answer.principal_name, times, answer.token_id, bytes(answer.hmac)]
    lives = [(at - answer.issue_timestamp_ms) // 60_000 for at in (answer.expiry_timestamp_ms, answer.max_timestamp_ms)]
    requester = (answer.token_requester_principal_type, answer.token_requester_principal_name)
    return [answer.principal_type, answer.principal_name, requester, *lives, len(answer.hmac)]


def test_M_P8_creation_of_tokens(sides: tuple[Side, Side]) -> None:
    questions: dict[str, tuple[str, Request]] = {
        "of one's own": ("alice", creation()),
        "with renewers": ("alice", creation("bob", "carol")),
        "with a renewer that is no user": ("alice", creation("g", kind="Group")),
        "a short one": ("alice", creation(max_lifetime_ms=600_000)),
        "a long one": ("alice", creation(max_lifetime_ms=10**12)),
        "no lifetime": ("alice", creation(max_lifetime_ms=0)),
        "for another": ("alice", creation(owner_principal_type="User", owner_principal_name="carol")),
        "for another that is no user": ("alice", creation(owner_principal_type="Group", owner_principal_name="g")),
        "for a nameless one": ("alice", creation(owner_principal_type="User", owner_principal_name="")),
        "without a login": ("plain", creation()),
        "for another without a login": ("plain", creation(owner_principal_type="User", owner_principal_name="carol")),
    }
    same(sides, lambda side: {about: seen(getattr(side, who).request(request)) for about, (who, request) in questions.items()})


def test_M_P8_renewing_expiring_and_describing_tokens(sides: tuple[Side, Side]) -> None:
    def described(client: lv.KafkaClient, *owners: str) -> Any:
        named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
        return client.request(DescribeDelegationTokenRequest(owners=named))

    def told(side: Side) -> dict[str, Any]:
        renewer = f"r-{uuid4().hex}"
        token = side.alice.request(creation(renewer))
        until(lambda: len(described(side.alice, renewer).tokens) == 1)

        def after(answer: Any) -> Any:
            return answer.error_code, answer.expiry_timestamp_ms if answer.error_code else round(
                (answer.expiry_timestamp_ms - token.issue_timestamp_ms) / 60_000
            )

        def renew(client: lv.KafkaClient, period_ms: int = -1, hmac: bytes = token.hmac) -> Any:
            return after(client.request(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)))

        def expire(client: lv.KafkaClient, period_ms: int, hmac: bytes = token.hmac) -> Any:
            return after(client.request(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)))

        def expire_at_once() -> Any:
            answer = expire(side.alice, -1)
            until(lambda: not described(side.alice, renewer).tokens)
            return answer

        owner = f"o-{uuid4().hex}"
        of_another = bytes(side.alice.request(creation(owner_principal_type="User", owner_principal_name=owner)).hmac)
        until(lambda: len(described(side.alice, owner).tokens) == 1)
        (one,) = described(side.bob, renewer).tokens
        return {
            "asked for, for another": [
                renew(side.alice, hmac=of_another),
                expire(side.alice, -1, of_another),
                owner in [token.principal_name for token in described(side.bob, USER).tokens],
            ],
            "described": (
                one.principal_name,
                one.token_requester_principal_name,
                [name.principal_name == renewer for name in one.renewers],
            ),
            "the hmac": bytes(one.hmac) == bytes(token.hmac),
            "for no owners": (described(side.alice).error_code, len(described(side.alice).tokens)),
            "for a stranger": (described(side.alice, "stranger").error_code, len(described(side.alice, "stranger").tokens)),
            "without a login": (described(side.plain, renewer).error_code, described(side.plain, renewer).tokens),
            "renewed": [renew(side.alice), renew(side.alice, 600_000), renew(side.alice, 0), renew(side.alice, 10**13)],
            "renewed by another": [renew(side.bob), renew(side.plain)],
            "renewed with a wrong hmac": [renew(side.alice, hmac=b"wrong"), renew(side.alice, hmac=b"")],
            "expired by another": [expire(side.bob, -1), expire(side.plain, -1), expire(side.alice, -1, b"wrong")],
            "expired": [expire(side.alice, 1_200_000), expire_at_once(), expire(side.alice, -1), renew(side.alice)],
        }

    same(sides, told)


def test_M_P8_a_token_logs_in_and_may_not_ask_for_another_one(sides: tuple[Side, Side]) -> None:
    def told(side: Side) -> dict[str, Any]:
        renewer = f"r-{uuid4().hex}"
        token = side.alice.request(creation(renewer))
        owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name=renewer)]
        until(lambda: len(side.alice.request(DescribeDelegationTokenRequest(owners=owners)).tokens) == 1)
        password = b64encode(token.hmac).decode()
        answers: dict[str, list[Any]] = {}
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            login: dict[str, Any] = {**side.login, "sasl_mechanism": mechanism, "sasl_username": token.token_id, "sasl_password": password}
            with lv.KafkaClient(**login, sasl_tokenauth=True) as client:
                answers[mechanism] = [
                    client.request(creation()).error_code,
                    client.request(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)).error_code,
                    client.request(DescribeDelegationTokenRequest(owners=None)).error_code,
                ]
            for wrong in ({}, {"sasl_tokenauth": True, "sasl_password": "wrong"}, {"sasl_tokenauth": True, "sasl_username": "wrong"}):
                with pytest.raises(SaslAuthenticationError) as error, lv.KafkaClient(**{**login, **wrong}) as client:
                    client.request(creation(), timeout=20)
                answers[mechanism].append(str(error.value).partition(": ")[2])
        return answers

    same(sides, told)
