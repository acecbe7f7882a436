"""What is done about each error code of each API of a transaction, held against Java's rules, written down a second time (section 15)."""

from __future__ import annotations

import pytest

from levada.error_codes import ErrorCode
from levada.producer.send.sequences import ProducerIdentity
from levada.producer.transactions import requests
from levada.producer.transactions.reactions import REACTIONS, Api, TransactionReaction
from levada.producer.transactions.requests import ANNOUNCING, IMPLICIT, EndTxn, protocol_for, worst
from levada.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

R = TransactionReaction
ASKED = [api for api in Api if api is not Api.FIND_COORDINATOR]
IDENTITY = ProducerIdentity(7, 3)
TP = TopicPartition("t", 0)


def codes(reaction: TransactionReaction, api: Api) -> set[int]:
    return {int(code) for code in ErrorCode if REACTIONS[api][code] is reaction}


@pytest.mark.parametrize("api", Api)
def test_T20_T3_a_coordinator_that_moved_is_looked_for_and_one_that_loads_is_waited_for(api: Api) -> None:
    assert {15, 16} <= codes(R.FIND_COORDINATOR, api)
    assert {14, 51} <= codes(R.RETRY, api)
    assert all(REACTIONS[api][code] in (R.RETRY, R.FIND_COORDINATOR) for code in ErrorCode if code.retriable)


@pytest.mark.parametrize("api", ASKED)
def test_T20_T10_who_was_replaced_is_told_by_two_codes(api: Api) -> None:
    assert codes(R.FENCED, api) == {47, 90}


def test_T20_T9_what_costs_the_transaction_only() -> None:
    assert codes(R.ABORT, Api.ADD_PARTITIONS) == {29, 55, 120}
    assert codes(R.ABORT, Api.ADD_OFFSETS) == {30, 120}
    assert codes(R.ABORT, Api.TXN_OFFSET_COMMIT) == {12, 22, 24, 25, 28, 29, 30, 69, 82, 113, 120}
    assert codes(R.ABORT, Api.END_TXN) == {48, 120}
    assert codes(R.ABORT, Api.INIT_PRODUCER_ID) == set(), "there is no transaction to be aborted yet"


def test_T20_T3_a_refused_initialization_may_be_repeated() -> None:
    assert codes(R.REFUSED, Api.INIT_PRODUCER_ID) == {31, 53, 120}


@pytest.mark.parametrize("api", ASKED)
def test_T20_T9_a_producer_id_that_was_forgotten_needs_a_new_epoch(api: Api) -> None:
    assert codes(R.ABORT_AND_INITIALIZE, api) == {49, 59}


def test_T20_T9_what_nobody_knows_is_fatal() -> None:
    for api in ASKED:
        assert REACTIONS[api][ErrorCode.UNKNOWN_SERVER_ERROR] is R.FATAL
        assert REACTIONS[api][ErrorCode.UNSUPPORTED_VERSION] is R.FATAL
    assert REACTIONS[Api.INIT_PRODUCER_ID][ErrorCode.INVALID_TRANSACTION_TIMEOUT] is R.FATAL
    assert REACTIONS[Api.ADD_PARTITIONS][ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] is R.FATAL


def test_T6_the_worst_of_several_codes_decides_and_what_was_not_attempted_is_not_the_cause() -> None:
    answered = {"a-0": 55, "b-0": 29, "c-0": 3}
    assert worst(Api.ADD_PARTITIONS, answered) == ("b-0", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert worst(Api.ADD_PARTITIONS, {"a-0": 0, "b-0": 3}) == ("b-0", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert worst(Api.ADD_PARTITIONS, {"a-0": 53, "b-0": 29})[1] is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert worst(Api.ADD_PARTITIONS, {}) == ("", ErrorCode.NONE)


@pytest.mark.parametrize(("level", "protocol"), [(0, ANNOUNCING), (1, ANNOUNCING), (2, IMPLICIT), (3, IMPLICIT)])
def test_T12_C26_the_feature_chooses_the_protocol(level: int, protocol: requests.Protocol) -> None:
    assert protocol_for(level) is protocol


def test_T12_the_versions_of_the_two_protocols_do_not_meet() -> None:
    for older, newer in ((ANNOUNCING.produce, IMPLICIT.produce), (ANNOUNCING.offsets, IMPLICIT.offsets), (ANNOUNCING.end, IMPLICIT.end)):
        assert older[1] < newer[0]


def test_T11_partitions_are_announced_in_versions_for_clients() -> None:
    question = requests.add_partitions("x", IDENTITY, [TopicPartition("u", 1), TP, TopicPartition("u", 0)])
    assert question.versions == (0, 3)
    assert [(topic.name, topic.partitions) for topic in question.request.v3_and_below_topics] == [("u", [1, 0]), ("t", [0])]  # type: ignore[attr-defined]


def test_T6_a_member_needs_a_version_that_can_say_so() -> None:
    offsets = {TP: OffsetAndMetadata(5, 2, "m")}
    plain = requests.commit_offsets("x", IDENTITY, ConsumerGroupMetadata("g"), offsets, ANNOUNCING.offsets)
    member = requests.commit_offsets("x", IDENTITY, ConsumerGroupMetadata("g", 4, "m1"), offsets, ANNOUNCING.offsets)
    assert (plain.versions, member.versions) == ((0, 4), (3, 4))
    assert requests.commit_offsets("x", IDENTITY, ConsumerGroupMetadata("g"), offsets, IMPLICIT.offsets).versions == (5, 5)


def test_T3_only_the_first_initialization_comes_without_an_identity() -> None:
    assert requests.initialize("x", 1000, ProducerIdentity()).versions[0] == 0
    again = requests.initialize("x", 1000, IDENTITY)
    assert again.versions[0] == 3
    assert (again.request.producer_id, again.request.producer_epoch) == IDENTITY  # type: ignore[attr-defined]


def test_an_end_is_repeated_by_the_same_versions_and_pair() -> None:
    ending = EndTxn(True, IDENTITY, IMPLICIT.end)
    first, second = requests.end("x", ending), requests.end("x", ending)
    assert (first.request, first.versions) == (second.request, second.versions)
    assert first.versions == (5, 5)
