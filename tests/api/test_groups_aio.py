"""Members of groups on asyncio, where it differs: listeners may be coroutines, and a task may be cancelled."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from random import Random
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import cancelled_soon
from levada import aio
from levada.errors import CommitFailedError, ConcurrentUseError, RebalanceInProgressError, RetriableCommitError

FAST = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 100, "auto_offset_reset": "earliest"}
PATIENCE_S = 30
PARTITIONS = 4
RECORDS = 2_000


class Committing(lv.RebalanceListener):
    """Commits in coroutines, as the task that polls."""

    def __init__(self) -> None:
        self.consumer: Any = None
        self.heard: list[str] = []
        self.within: asyncio.Event | None = None

    async def on_partitions_assigned(self, partitions: list[lv.TopicPartition]) -> None:
        positions = [await self.consumer.position(tp) for tp in partitions]
        self.heard.append(f"assigned {positions}")

    async def on_partitions_revoked(self, partitions: list[lv.TopicPartition]) -> None:
        if self.within is not None:
            self.within.set()
            await asyncio.Event().wait()
        await self.consumer.commit(dict.fromkeys(partitions, 5))
        self.heard.append(f"revoked {len(partitions)}")


def member(servers: str, group: str, **settings: Any) -> Any:
    return aio.KafkaConsumer(bootstrap_servers=servers, group_id=group, **{**FAST, **settings})


async def poll_until(holds: Any, *members: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            for one in members:
                await one.poll(0.02)


def test_O18_a_listener_awaits_and_commits_in_the_task_that_polls(embedded: Any, new_topic: Any) -> None:
    topic, group = new_topic(embedded, partitions=2), f"g-{uuid4().hex}"

    async def main() -> None:
        told = Committing()
        async with member(embedded.bootstrap_servers, group, enable_auto_commit=False) as first:
            told.consumer = first
            first.subscribe([topic], told)
            await poll_until(lambda: len(first.assignment()) == 2, first)
            async with member(embedded.bootstrap_servers, group, enable_auto_commit=False) as second:
                second.subscribe([topic])
                await poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
            found = await first.committed([lv.TopicPartition(topic, index) for index in range(2)])
            assert [at.offset for at in found.values()] == [5, 5]
            await first.unsubscribe()
        assert told.heard[:2] == ["assigned [0, 0]", "revoked 2"]
        assert told.heard[2] == "assigned [5]"

    asyncio.run(main())


def test_O18_a_task_that_is_cancelled_within_a_listener_leaves_the_member_in_order(embedded: Any, new_topic: Any) -> None:
    topic, group = new_topic(embedded, partitions=2), f"g-{uuid4().hex}"

    async def main() -> None:
        told = Committing()
        async with member(embedded.bootstrap_servers, group, enable_auto_commit=False) as first:
            told.consumer = first
            first.subscribe([topic], told)
            await poll_until(lambda: len(first.assignment()) == 2, first)
            told.within = asyncio.Event()
            first.enforce_rebalance()
            polling = asyncio.create_task(first.poll(PATIENCE_S))
            await told.within.wait()
            with pytest.raises(ConcurrentUseError):
                await first.poll(0)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
            assert first.assignment() == set()
            told.within = None
            await poll_until(lambda: len(first.assignment()) == 2, first)

    asyncio.run(main())


def of_protocol(protocol: Any, servers: str, group: str) -> Any:
    return aio.KafkaConsumer(bootstrap_servers=servers, group_id=group, group_protocol=protocol)


def members_left(kafka: Any, group_id: str) -> int:
    return sum(len(group.members) for group in kafka.node._state.groups if group.id == group_id)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_G15_a_close_that_is_cancelled_leaves_the_group_all_the_same(embedded: Any, new_topic: Any, protocol: str) -> None:
    topic, group = new_topic(embedded, partitions=2), f"g-{uuid4().hex}"

    async def main() -> None:
        one: Any = of_protocol(protocol, embedded.bootstrap_servers, group)
        one.subscribe([topic])
        await poll_until(lambda: len(one.assignment()) == 2, one)
        for tp in one.assignment():
            await one.position(tp)  # There is nothing to commit before.
        held = embedded.faults.hold("OffsetCommit")
        closing = asyncio.create_task(one.close())
        async with asyncio.timeout(PATIENCE_S):
            while not held.waiting:
                await asyncio.sleep(0.01)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        held.release()
        async with asyncio.timeout(PATIENCE_S):
            while members_left(embedded, group):
                await asyncio.sleep(0.01)

    asyncio.run(main())


@pytest.mark.drops_clients
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_G15_a_member_that_is_dropped_leaves_its_group(embedded: Any, new_topic: Any, protocol: str) -> None:
    topic, group = new_topic(embedded, partitions=2), f"g-{uuid4().hex}"

    async def main() -> None:
        one: Any = of_protocol(protocol, embedded.bootstrap_servers, group)
        one.subscribe([topic])
        async with asyncio.timeout(PATIENCE_S):
            while len(one.assignment()) < 2:
                await one.poll(0.02)
        del one
        gc.collect()
        async with asyncio.timeout(PATIENCE_S):
            while members_left(embedded, group):
                await asyncio.sleep(0.01)

    asyncio.run(main())


@pytest.mark.parametrize("protocol", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"])
def test_M_B18_what_members_do_is_cancelled_at_any_await(embedded: Any, new_topic: Any, protocol: dict[str, str]) -> None:
    """Joining, polls, commits and closing, while members come and go. What is committed was handed out, and nothing is skipped."""
    topic, group = new_topic(embedded, partitions=PARTITIONS), f"g-{uuid4().hex}"
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
    partitions = [lv.TopicPartition(topic, number) for number in range(PARTITIONS)]
    seen: dict[lv.TopicPartition, set[int]] = {tp: set() for tp in partitions}
    random = Random(7)

    def joined() -> Any:
        settings: dict[str, Any] = protocol or {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 100}
        one = aio.KafkaConsumer(
            bootstrap_servers=embedded.bootstrap_servers, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, **settings
        )
        one.subscribe([topic])
        return one

    async def main() -> None:
        members = [joined()]
        async with asyncio.timeout(PATIENCE_S):
            while sum(map(len, seen.values())) < RECORDS:
                if random.random() < 0.02 and len(members) < 3:
                    members.append(joined())
                elif random.random() < 0.02 and len(members) > 1:
                    leaving = members.pop(0)
                    await cancelled_soon(leaving.close(), random)
                    await leaving.close()
                for one in members:
                    for record in await cancelled_soon(one.poll(1.0, max_records=40), random) or ():
                        seen[lv.TopicPartition(topic, record.partition)].add(record.offset)
                    with suppress(CommitFailedError, RebalanceInProgressError, RetriableCommitError):
                        await cancelled_soon(one.commit(), random)
                committed = await members[0].committed(partitions)
                assert all(seen[tp] >= set(range(at.offset)) for tp, at in committed.items() if at is not None)
            for one in members:
                await one.close()

    asyncio.run(main())
