"""What doctor says of what it saw: pure."""

from __future__ import annotations

import pytest

from levada import ClusterDescription, GroupState, Node, PartitionInfo, TopicPartition, TransactionDescription, TransactionState
from levada.cli.doctor import cluster, connecting, groups
from levada.cli.doctor.findings import Finding, Status, Step, worst
from levada.cli.doctor.listener import Listener, Speaks, mismatch
from levada.cli.doctor.probe import Reached, Resolved
from levada.cli.lag import LogEnds, PartitionLag, lag_of
from levada.errors import BootstrapError, SaslAuthenticationError, SslAuthenticationError, UnsupportedSaslMechanismError

NODE = Node(1, "broker.example", 9092)
RESOLVED = Resolved(("10.0.0.1",), None, 1.0)
REACHED = [Reached("10.0.0.1", None, 1.0)]


def one(findings: list[Finding]) -> Finding:
    (found,) = findings
    return found


def test_the_worst_status_is_what_counts() -> None:
    findings = [Finding(Step.DNS, status, "a", "b") for status in (Status.OK, Status.FAILED, Status.WARNING)]
    assert worst(findings) is Status.FAILED
    assert worst([]) is Status.OK


def test_a_name_without_an_address() -> None:
    found = connecting.resolved("nowhere.example", Resolved((), "Name or service not known", 1.0))
    assert (found.step, found.status) == (Step.DNS, Status.FAILED)
    assert "does not resolve: Name or service not known" in found.found


@pytest.mark.parametrize(("fault", "advice"), [("Connection refused", "nothing listens there"), ("timed out", "a firewall")])
def test_a_port_that_cannot_be_reached(fault: str, advice: str) -> None:
    found = connecting.reached("h:1", [Reached("10.0.0.1", fault, 1.0)])
    assert (found.status, advice in found.advice, fault in found.found) == (Status.FAILED, True, True)


def test_a_name_of_which_one_address_is_dead() -> None:
    found = connecting.reached("h:1", [*REACHED, Reached("10.0.0.2", "timed out", 1.0)])
    assert found.status is Status.WARNING
    assert "10.0.0.2 (timed out)" in found.found
    local = connecting.reached("localhost:1", [Reached("127.0.0.1", None, 1.0), Reached("::1", "Connection refused", 1.0)])
    assert local.status is Status.OK


@pytest.mark.parametrize(
    ("listener", "ours", "step", "text"),
    [
        (Listener(True, Speaks.KAFKA, ()), "PLAINTEXT", Step.TLS, "set security.protocol=SSL"),
        (Listener(False, Speaks.KAFKA, ()), "SSL", Step.TLS, "set security.protocol=PLAINTEXT"),
        (Listener(True, Speaks.KAFKA, ("PLAIN",)), "SSL", Step.LOGIN, "set security.protocol=SASL_SSL and sasl.mechanism, one of PLAIN"),
        (Listener(False, Speaks.KAFKA, ()), "SASL_PLAINTEXT", Step.LOGIN, "set security.protocol=PLAINTEXT"),
        (Listener(False, Speaks.KAFKA), "SASL_SSL", Step.TLS, "set security.protocol=SASL_PLAINTEXT"),
        (Listener(False, Speaks.HTTP), "PLAINTEXT", Step.VERSIONS, "check the port"),
        (Listener(False, Speaks.NOTHING), "PLAINTEXT", Step.VERSIONS, "check the port"),
    ],
)
def test_a_listener_that_does_not_suit_is_named(listener: Listener, ours: str, step: Step, text: str) -> None:
    found = mismatch("h:1", listener, ours)
    assert found is not None
    assert (found.step, found.status) == (step, Status.FAILED)
    assert text in found.advice


def test_a_listener_that_suits_is_not_mentioned() -> None:
    assert mismatch("h:1", Listener(True, Speaks.KAFKA, ("PLAIN",)), "SASL_SSL") is None
    assert mismatch("h:1", Listener(True, Speaks.NOTHING), "SSL") is None, "a certificate of the client may be missing"


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (SslAuthenticationError("h:1: its certificate is not accepted"), Step.TLS),
        (SaslAuthenticationError("h:1: PLAIN: wrong"), Step.LOGIN),
        (UnsupportedSaslMechanismError("h:1: this listener offers PLAIN"), Step.LOGIN),
        (BootstrapError("no broker", {"h:1": "closed"}), Step.VERSIONS),
    ],
)
def test_an_attempt_that_failed_is_told_at_its_step(error: Exception, step: Step) -> None:
    *well, failed = connecting.connected("h:1", error, "SASL_SSL")  # type: ignore[arg-type]
    assert (failed.step, failed.status) == (step, Status.FAILED)
    assert not failed.found.startswith("h:1: ")
    assert all(found.status is Status.OK for found in well)


def test_a_refused_login_says_what_to_look_at() -> None:
    *_, failed = connecting.connected("h:1", SaslAuthenticationError("h:1: PLAIN: wrong"), "SASL_SSL")
    assert failed.advice.startswith("the user or the password is wrong, or the broker does not know this user for this sasl.mechanism")
    assert "levada users list" in failed.advice


def test_an_attempt_that_succeeded_is_told_step_by_step() -> None:
    assert [found.step for found in connecting.connected("h:1", None, "SASL_SSL")] == [Step.TLS, Step.VERSIONS, Step.LOGIN]
    assert [found.step for found in connecting.connected("h:1", None, "PLAINTEXT")] == [Step.VERSIONS]


def test_a_cluster_without_a_controller() -> None:
    *_, found = cluster.members(ClusterDescription("c", None, (NODE,)))
    assert (found.status, found.found) == (Status.FAILED, "no controller is named")


@pytest.mark.parametrize(("theirs", "text"), [(20_000, "9.9 s ahead of"), (1_000, "9.0 s behind")])
def test_a_clock_that_differs(theirs: int, text: str) -> None:
    found = cluster.clock("controller 1", theirs, before_ms=10_000, after_ms=10_100)
    assert found.status is Status.FAILED
    assert text in found.found
    assert cluster.clock("controller 1", 12_000, 10_000, 10_100).status is Status.OK


def test_a_broker_that_advertises_each_clients_own_machine() -> None:
    node = Node(1, "localhost", 9092)
    found = cluster.listener(node, RESOLVED, [Reached("127.0.0.1", "Connection refused", 1.0)], None, bootstrap=["kafka.example"])
    assert found.status is Status.FAILED
    assert "each client's own machine" in found.advice


def test_a_broker_that_advertises_a_name_that_does_not_resolve() -> None:
    found = cluster.listener(NODE, Resolved((), "unknown", 1.0), [], None, bootstrap=["h"])
    assert (found.status, "does not resolve" in found.found, "advertised.listeners" in found.advice) == (Status.FAILED, True, True)


def test_a_broker_that_can_be_reached_but_not_spoken_to() -> None:
    found = cluster.listener(NODE, RESOLVED, REACHED, BootstrapError("no", {}), bootstrap=["h"])
    assert found.status is Status.FAILED
    assert cluster.listener(NODE, RESOLVED, REACHED, None, bootstrap=["h"]).status is Status.OK


def info(partition: int, leader: int, isr: tuple[int, ...]) -> PartitionInfo:
    return PartitionInfo("t", partition, leader, 0, (1, 2, 3), isr)


def test_partitions_without_a_leader() -> None:
    found = cluster.leaders([info(0, -1, (1,)), info(1, 2, (2,)), info(2, -1, (1,))])
    assert (found.status, found.about) == (Status.FAILED, "topic t")
    assert "no leader for partitions 0, 2" in found.found
    assert "`levada cluster elect-leaders t:0 --unclean`" in found.advice
    assert cluster.leaders([info(0, 1, (1,))]).status is Status.OK
    single = [info(0, -1, ())._replace(topic=topic, replicas=(3,)) for topic in ("t", "u")]
    found = cluster.leaders(single)
    assert (found.about, found.advice) == ("2 topics", "start these brokers: no other has a replica")
    assert "no leader for t-0, u-0: nothing can be read or written there; replicas on broker 3" in found.found


def test_replicas_out_of_sync() -> None:
    brokers = (1, 2, 3)
    found = one(cluster.replicas([info(0, 1, (1, 2)), info(1, 1, (1, 2, 3))], {"t": 2}, brokers))
    assert (found.status, found.found) == (Status.WARNING, "replicas out of sync on broker 3: partition 0")
    found = one(cluster.replicas([info(0, 1, (1,))], {"t": 2}, brokers))
    assert found.status is Status.FAILED
    assert "writes with acks=all are refused; out of sync: brokers 2, 3" in found.found
    assert one(cluster.replicas([info(0, -1, (1,))], {}, brokers)).status is Status.OK, "that it has no leader is told elsewhere"
    single = info(0, 1, (1,))._replace(replicas=(1,))
    assert one(cluster.replicas([single], {"t": 2}, brokers)).status is Status.OK, "no replica of it is out of sync"


def test_a_broker_that_is_down_is_told_once_for_all_topics() -> None:
    infos = [info(number, 1, (1, 2))._replace(topic=f"t{number}") for number in range(30)]
    found = one(cluster.replicas(infos, {}, (1, 2)))
    assert (found.status, found.about) == (Status.WARNING, "broker 3")
    assert found.found == "it is down, or was removed: it has replicas of 30 partitions of 30 topics"
    down, few = cluster.replicas([*infos, info(0, 1, (1,)), info(0, 1, (1,))._replace(topic="u")], {"t": 2, "u": 2}, (1, 2))
    assert (down.about, few.about) == ("broker 3", "2 topics")
    assert few.found.endswith("min.insync.replicas=2 in t-0, u-0: writes with acks=all are refused; out of sync: brokers 2, 3")


def seen(
    state: GroupState = GroupState.STABLE, before: GroupState = GroupState.STABLE, *, members: int = 1, idle: int = 0, **at: int
) -> groups.Seen:
    tp = TopicPartition("t", 0)
    lags = lag_of("g", {tp: at.get("committed", 10)}, {tp: LogEnds(at.get("start", 0), 10)}, {})
    return groups.Seen("g", (before, state), members, idle, lags)


@pytest.mark.parametrize(
    ("group", "status", "text"),
    [
        (seen(GroupState.DEAD), Status.FAILED, "does not exist"),
        (seen(GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE), Status.WARNING, "is being rebalanced"),
        (seen(GroupState.EMPTY, members=0, committed=4), Status.WARNING, "it has no members, and 6 records to read"),
        (seen(members=3, idle=1), Status.WARNING, "1 of 3 members have no partition"),
        (seen(committed=1, start=4), Status.FAILED, "it has not read 3 offsets that retention deleted, in t-0"),
    ],
)
def test_what_is_wrong_with_a_group(group: groups.Seen, status: Status, text: str) -> None:
    found = one(groups.examined([group]))
    assert (found.status, found.about) == (status, "group g")
    assert text in found.found
    assert found.advice


def test_a_group_without_members_is_told_with_the_record_at_which_its_program_may_end() -> None:
    found = one(groups.examined([seen(GroupState.EMPTY, members=0, committed=4)]))
    assert (
        "If they end again and again, their log tells why; `levada consume t -p 0 -o 4 -c 1 -f hex` prints the next record" in found.advice
    )


def delay(partition: int, *, moves: bool = False, share: float | None = 0.25, partitions: int = 4, member: str = "m-1") -> groups.Delay:
    lag = PartitionLag("g", "t", partition, 7, 0, 1_007, 1_000, member, member and "app-1", member and "/10.0.0.9")
    return groups.Delay(lag, moves, partitions, share)


def test_a_member_that_commits_nothing_is_named_with_the_record_that_it_reads_next() -> None:
    found = one(groups.examined([seen()._replace(delays=[delay(1), delay(2)])]))
    assert (found.status, found.about) == (Status.WARNING, "group g")
    stuck, waiting = "committed nothing in t-1, t-2 while doctor watched", "2,000 records to read, the oldest for more than 60 s"
    assert found.found == f"member app-1 on 10.0.0.9 {stuck}: {waiting}"
    assert "`levada consume t -p 1 -o 7 -c 1 -f hex`" in found.advice
    assert "`levada groups reset g -t t:1 --by 1 --execute`" in found.advice
    hot = one(groups.examined([seen()._replace(delays=[delay(1), delay(2, share=0.9)])]))
    assert hot.found == f"{found.found}; 90% of the new records of t are in t-2", "it may commit too rarely to be seen committing"
    orphan = one(groups.examined([seen()._replace(delays=[delay(1, member="")])]))
    assert (orphan.status, orphan.found.partition(":")[0]) == (Status.WARNING, "no member reads t-1")


def test_a_member_that_is_slow_is_told_from_one_with_a_hot_partition() -> None:
    delays = [delay(0, moves=True, member="m-2"), delay(1, moves=True, member="m-2"), delay(2, moves=True, share=0.9)]
    hot, slow = groups.examined([seen()._replace(delays=delays)])
    assert slow.found == "app-1: more than 60 s behind in t-0, t-1, 2,000 records"
    assert slow.advice.startswith("`levada top` shows whether its lag falls. If not, its consumers are slower than the producers")
    assert "start more, up to 4" in slow.advice
    (full,) = groups.examined([seen(members=4)._replace(delays=delays[:2])])
    assert full.advice.endswith("make them faster, or add partitions"), "each partition has a member"
    assert hot.found.endswith("; 90% of the new records of t are in this one of 4 partitions")
    assert "more consumers or partitions do not help" in hot.advice
    assert hot.advice.endswith("a suffix, if their order does not matter; what waits already stays in this partition")
    assert r"`levada consume t -p 2 -o -1000 -e -f '%k\n' |" in hot.advice
    alone = one(groups.examined([seen()._replace(delays=[delay(0, moves=True, share=1.0, partitions=1)])]))
    assert "new records" not in alone.found


def test_a_member_that_is_busy_in_one_partition_is_not_stuck_in_another() -> None:
    hot = one(groups.examined([seen()._replace(delays=[delay(1), delay(2, moves=True, share=0.9)])]))
    assert hot.found.startswith("app-1: more than 60 s behind in t-2, 1,000 records (meanwhile t-1 must wait); 90% of the new records")
    slow = one(groups.examined([seen()._replace(delays=[delay(1), delay(2, moves=True)])]))
    assert slow.found == "app-1: more than 60 s behind in t-1, t-2, 2,000 records"


def test_a_group_that_waits_for_a_transaction_is_not_told_to_skip_records() -> None:
    found = one(groups.examined([seen()._replace(delays=[delay(1)._replace(blocked=True), delay(2)._replace(blocked=True)])]))
    assert found.found == "it waits for the end of a transaction in t-1, t-2: 2,000 records to read"
    assert "reset" not in found.advice


def test_groups_with_which_nothing_is_wrong() -> None:
    assert one(groups.examined([seen(), seen(GroupState.STABLE, GroupState.PREPARING_REBALANCE)._replace(group="h")])).status is Status.OK
    assert one(groups.examined([])).found == "there are none"


def opened(minutes: int, *topics: str) -> TransactionDescription:
    partitions = tuple(TopicPartition(topic, 0) for topic in topics)
    return TransactionDescription(0, TransactionState.ONGOING, 1, 0, 900_000, NOW_MS - minutes * 60_000, partitions)


NOW_MS = 1_700_000_000_000


def test_transactions_that_are_open_for_long_are_told_with_what_ends_them() -> None:
    short = {"a": opened(1, "t"), "b": opened(5, "t")}
    fine = one(cluster.transactions(short, (), NOW_MS))
    assert (fine.status, fine.found) == (Status.OK, "2 transactions open, none for long: b for 5 min, a for 60 s")
    assert one(cluster.transactions({}, (), NOW_MS)).found == "none is open"
    long = {"app": opened(7, "u", "t", "__consumer_offsets"), "levada-q~0123abcd.1.12.0": opened(6)}
    app, slot = cluster.transactions({**short, **long}, (), NOW_MS)
    assert (app.status, app.about) == (Status.WARNING, "transaction app")
    waiting = "open for 7 min: readers with isolation.level=read_committed wait, in t-0, u-0"
    assert app.found == f"{waiting}; its coordinator aborts it in 8 min"
    assert "look for the program" in app.advice
    assert "`levada transactions abort app` ends the transaction" in app.advice
    assert "`levada spark transactions abort levada-q`" in slot.advice


def test_a_transaction_for_which_a_group_waits_is_told_however_short_it_is_open() -> None:
    short = {"a": opened(1, "t"), "b": opened(1, "u")}
    a = one(cluster.transactions(short, [TopicPartition("t", 0)], NOW_MS))
    assert (a.status, a.about) == (Status.WARNING, "transaction a")
    assert a.found.startswith("open for 60 s: readers")
    unknown = one(cluster.transactions(short, [TopicPartition("v", 3)], NOW_MS))
    assert (unknown.status, unknown.about) == (Status.WARNING, "v-3")
    assert "`levada transactions find-hanging -t v`" in unknown.advice
