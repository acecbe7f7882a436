"""examples/call_service.py: killed and ended at any moment, every record reaches the service, in the order of its key."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from example_programs import Kafka, broker
from kafka_cluster import KafkaCluster
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

PROGRAM = Path(__file__).parents[2] / "examples" / "call_service.py"
COUNT, KEYS, MANY = 200, 40, 10
REFUSED, UNSTABLE = 17, 23
PATIENCE_S = 30


class Service:
    """What was posted, in order. It refuses one record, and fails twice on another one."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.at_once = self.most = 0
        self._changed = threading.Condition()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                number = int(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(service.post(self.headers["X-Key"], number))
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def post(self, key: str, number: int) -> int:
        with self._changed:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self._changed.notify_all()
            # The first ones are answered when there are many, at whatever pace they come.
            self._changed.wait_for(lambda: self.most >= MANY, PATIENCE_S)
        time.sleep(0.005)  # It is a slow one.
        with self._changed:
            self.at_once -= 1
            self.seen.append((key, number))
            self._changed.notify_all()
            times = self.seen.count((key, number))
        if number == REFUSED:
            return 422
        return 503 if number == UNSTABLE and times < 3 else 204

    def wait(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, PATIENCE_S), f"{len(self.seen)} posted"


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def kafka(given_kafka: KafkaCluster | None) -> Iterator[Kafka]:
    with broker(given_kafka, 3) as kafka:
        kafka.create_topic("orders", 3)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send_many("orders", [(str(number % KEYS), str(number)) for number in range(COUNT)])
        yield kafka


@contextmanager
def running(kafka: Kafka, service: Service) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, PROGRAM, kafka.bootstrap_servers, "orders", service.url]) as program:
        try:
            yield program
        finally:
            program.kill()


def committed(kafka: Kafka) -> int:
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        offsets = admin.list_consumer_group_offsets("scoring")
    return sum(at.offset for at in offsets.values() if at is not None)


def left_to_do(kafka: Kafka) -> set[int]:
    """The numbers of the records that are not committed."""
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        offsets = {tp.partition: at.offset for tp, at in admin.list_consumer_group_offsets("scoring").items() if at is not None}
    everything = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers)
    return {int(record.value or b"") for record in everything if record.offset >= offsets.get(record.partition, 0)}


def forget_members(kafka: Kafka, group: str) -> None:
    """Do what the end of a killed member's session does, and spare the test its 45 seconds."""
    with lv.KafkaClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        (described,) = client.request(DescribeGroupsRequest(groups=[group])).groups
        gone = [MemberIdentity(member_id=member.member_id) for member in described.members]
        client.request(LeaveGroupRequest(group_id=group, members=gone))


def test_killed_or_ended_at_any_moment_it_loses_nothing(kafka: Kafka, service: Service) -> None:
    with running(kafka, service):
        service.wait(lambda: len(service.seen) >= 40)
    forget_members(kafka, "scoring")

    with running(kafka, service) as program:
        service.wait(lambda: len({number for _, number in service.seen}) >= COUNT // 2)
        program.terminate()
        assert program.wait(PATIENCE_S) == 0
    posted = Counter(number for _, number in service.seen)
    assert committed(kafka) <= len(posted), "no more than what was done"
    before, redone = len(service.seen), left_to_do(kafka)

    with running(kafka, service) as program:
        service.wait(
            lambda: redone <= {number for _, number in service.seen[before:]} and service.seen.count((str(UNSTABLE), UNSTABLE)) >= 3
        )
        program.terminate()
        assert program.wait(PATIENCE_S) == 0
    assert committed(kafka) == COUNT
    assert service.most >= MANY, "many at once"
    again = Counter(number for _, number in service.seen[before:])
    assert max(count for number, count in again.items() if number != UNSTABLE) == 1
    order = defaultdict(list)
    for key, number in service.seen[before:]:
        order[key].append(number)
    assert all(numbers == sorted(numbers) for numbers in order.values())
    dead = {letter.value for letter in lv.scan("orders.dead", bootstrap_servers=kafka.bootstrap_servers)}
    assert dead == {b"%d" % REFUSED}
