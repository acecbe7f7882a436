"""What fetch responses mean, code by code, and where data ends without a look inside."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from consumer_kit import TP, batch
from levada.base.clock import ExponentialBackoff
from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.client.requests.retry import Reaction
from levada.consumer.fetch.fetch_buffer import FetchBuffer
from levada.consumer.fetch.fetch_response import ON_FETCH_ERROR, Asked, FetchResponseHandler
from levada.consumer.fetch.fetch_session import NO_SESSION, NO_TOPIC_ID, FetchSession, FetchTarget
from levada.consumer.positions.subscription_state import SubscriptionState
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from levada.record.compression import Codec
from levada.record.memory_records import offset_after_last_batch
from levada.types import UNKNOWN_OFFSET, Node, PartitionInfo, TopicPartition
from record_kit import raw_message, raw_wrapper
from settings_kit import fetch_settings, new_metadata

NODE = 2


class Client:
    """A handler with one assigned partition at offset 10, which was asked for at node 2."""

    def __init__(self) -> None:
        self.subscription = SubscriptionState()
        self.buffer = FetchBuffer(self.subscription, 64 << 20)
        self.subscription.assign([TP], 0)
        self.subscription.seek(TP, 10)
        self.state = self.subscription.state(TP)
        self.metadata = new_metadata()
        self.lead(NODE)
        self.metadata._need_full = False
        backoff = ExponentialBackoff(100, 1000, Random(0))
        self.handler = FetchResponseHandler(self.buffer, self.metadata, fetch_settings(), backoff)
        self.session = FetchSession()

    def answer(self, *, tp: TopicPartition = TP, code: int = 0, top: int = 0, session_id: int = NO_SESSION, **data: Any) -> bool:
        request = self.session.begin({TP: FetchTarget(NO_TOPIC_ID, self.state.fetch_offset, -1, 1)}, by_id=False)
        asked = Asked(NODE, request, {TP: (self.state, self.state.round, self.state.fetch_offset)})
        part = PartitionData(partition_index=tp.partition, error_code=code, **data)
        topics = [] if top else [FetchableTopicResponse(topic=tp.topic, partitions=[part])]
        return self.handler.handle(self.session, asked, FetchResponse(error_code=top, session_id=session_id, responses=topics), 5_000)

    def lead(self, node_id: int) -> None:
        """Have metadata say who leads."""
        infos = tuple(PartitionInfo(TP.topic, number, node_id, 1, (), ()) for number in range(4))
        topics = {TP.topic: TopicMetadata(TP.topic, None, ErrorCode.NONE, False, infos)}
        self.metadata.snapshot = ClusterSnapshot(nodes={n: Node(n, "h", n) for n in (NODE, 7)}, topics=topics)

    @property
    def wants_metadata(self) -> bool:
        return self.metadata._need_full


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_M_B7_every_code_every_time(code: ErrorCode) -> None:
    client = Client()
    reaction = ON_FETCH_ERROR.reaction(code)
    for _ in range(3):
        client.answer(code=code)
        taken = client.buffer.first()
        if reaction in (Reaction.RAISE, Reaction.RESET):
            assert taken is not None and isinstance(taken.error, BrokerError)
            assert taken.error.code is code
            assert "orders-3: fetch at offset 10 from node 2" in str(taken.error)
            assert not client.state.wants_data, "nothing is fetched before the caller has seen the error"
            client.buffer.take(taken)
            client.buffer.done(taken)
        else:
            assert taken is None
            assert client.state.retry_at_ms >= 5_080
            assert client.state.last_error == f"node 2: {code.name}"
            assert client.wants_metadata == (reaction is Reaction.REFRESH)
        assert (client.state.position, client.state.fetch_offset) == (10, 10)


def test_F7_data_goes_into_the_buffer_as_it_came_and_the_next_fetch_goes_on_behind_it() -> None:
    client = Client()
    assert client.answer(records=batch(10, [b"a", b"b"]), high_watermark=20, last_stable_offset=15, log_start_offset=3)
    state = client.state
    assert (state.position, state.fetch_offset, state.buffered) == (10, 12, 1)
    assert (state.high_watermark, state.last_stable_offset, state.log_start_offset) == (20, 15, 3)
    assert state.heard_ms == 5_000


def test_TR57_data_for_a_position_that_moved_is_dropped() -> None:
    client = Client()
    request = client.session.begin({TP: FetchTarget(NO_TOPIC_ID, 10, -1, 1)}, by_id=False)
    asked = Asked(NODE, request, {TP: (client.state, client.state.round, 10)})
    client.subscription.seek(TP, 50)
    part = PartitionData(partition_index=TP.partition, records=batch(10))
    response = FetchResponse(responses=[FetchableTopicResponse(topic=TP.topic, partitions=[part])])
    assert not client.handler.handle(client.session, asked, response, 0)
    assert client.buffer.first() is None


def test_TR57_what_came_from_one_broker_is_not_taken_from_another_again() -> None:
    client = Client()
    request = client.session.begin({TP: FetchTarget(NO_TOPIC_ID, 10, -1, 1)}, by_id=False)
    asked = Asked(NODE, request, {TP: (client.state, client.state.round, 10)})
    part = PartitionData(partition_index=TP.partition, records=batch(10, [b"a", b"b"]))
    response = FetchResponse(responses=[FetchableTopicResponse(topic=TP.topic, partitions=[part])])
    assert [client.handler.handle(client.session, asked, response, 0) for _ in range(2)] == [True, False]
    assert client.state.buffered == 1


def test_F19_an_answer_for_something_else_is_not_believed() -> None:
    client = Client()
    assert not client.answer(tp=TopicPartition("other", 0), records=batch(0))
    assert client.buffer.first() is None
    assert "does not name the partitions" in client.state.last_error


def test_F20_a_lost_session_is_renewed_at_once_other_faults_after_a_pause() -> None:
    client = Client()
    client.answer(session_id=7)
    assert client.session.session_id == 7
    client.answer(top=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert client.session.session_id == NO_SESSION
    assert client.state.retry_at_ms == 0
    client.answer(top=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    assert client.state.retry_at_ms > 5_000
    assert client.wants_metadata


def test_F16_a_leader_may_point_to_a_replica_and_the_replica_is_left_when_it_lags() -> None:
    client = Client()
    client.answer(preferred_read_replica=NODE)
    assert (client.state.preferred_replica, client.state.preferred_until_ms) == (NODE, 305_000)
    assert not client.answer(code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert client.state.preferred_replica is None
    assert client.buffer.first() is None


@pytest.mark.parametrize(("leader", "preferred"), [(7, None), (7, 3), (-1, None)], ids=["left", "another one", "no leader known"])
def test_F16_a_replica_that_is_not_preferred_any_more_moves_no_position_either(leader: int, preferred: int | None) -> None:
    client = Client()
    client.lead(leader)
    client.state.prefer(preferred, 305_000)
    assert not client.answer(code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert client.buffer.first() is None, "only the leader knows which offsets there are"
    assert client.state.preferred_replica is None


def test_D16_a_leader_of_an_older_epoch_than_the_positions_is_doubted_for_a_while() -> None:
    client = Client()
    client.subscription.seek(TP, 10, 5)
    for _ in range(3):
        client.metadata._need_full = False
        assert not client.answer(code=ErrorCode.OFFSET_OUT_OF_RANGE)
        assert client.wants_metadata, "another broker may lead by now"
        assert client.state.retry_at_ms > 5_000
    assert client.answer(code=ErrorCode.OFFSET_OUT_OF_RANGE), "an epoch that the program made up does not stop it"


def test_D17_an_error_that_names_a_newer_leader_is_followed_at_once() -> None:
    client = Client()
    client.answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(leader_id=7, leader_epoch=2))
    leader = client.metadata.snapshot.leader(TP)
    assert leader is not None and leader.id == 7
    assert client.state.retry_at_ms == 0
    assert client.wants_metadata


def test_KIP_392_a_follower_does_not_turn_the_high_watermark_back() -> None:
    client = Client()
    client.answer(high_watermark=20, preferred_read_replica=NODE)
    client.answer(high_watermark=18)
    assert client.state.high_watermark == 20


def test_M11_the_end_of_data_is_the_last_complete_batch() -> None:
    whole = batch(5, [b"a", b"b"]) + batch(7, [b"c"], last_offset=19)
    assert offset_after_last_batch(whole) == (20, True)
    assert offset_after_last_batch(whole + batch(20)[:40]) == (20, True)
    assert offset_after_last_batch(memoryview(whole)) == (20, True)


def test_M5_the_end_of_messages_is_the_last_complete_entry() -> None:
    plain = raw_message(5, 0) + raw_message(9, 1)
    assert offset_after_last_batch(plain) == (10, True)
    for size in range(len(raw_message(10, 1))):
        assert offset_after_last_batch(plain + raw_message(10, 1)[:size]) == (10, True)
    assert offset_after_last_batch(plain + raw_wrapper(14, 1, Codec.GZIP, raw_message(0, 1) + raw_message(4, 1))) == (15, True)
    assert offset_after_last_batch(plain + batch(10, [b"a", b"b"])) == (12, True)


def test_TR9_the_end_of_messages_out_of_order_is_the_highest() -> None:
    assert offset_after_last_batch(raw_message(5, 1) + raw_message(9, 1) + raw_message(8, 1)) == (10, True)


def test_data_that_takes_a_closer_look_has_no_known_end() -> None:
    cut, younger, short = batch(0)[:-1], bytearray(batch(0)), bytearray(batch(0))
    younger[16] = 3
    short[8:12] = (3).to_bytes(4, "big")
    for data, is_valid in ((b"", True), (cut, True), (bytes(younger), False), (bytes(short), False), (raw_message(0, 1, size=21), False)):
        assert offset_after_last_batch(data) == (UNKNOWN_OFFSET, is_valid)
        assert offset_after_last_batch(batch(5) + data) == (6, is_valid)
