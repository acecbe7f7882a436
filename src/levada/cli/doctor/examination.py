"""Runs the steps of `levada doctor`: sends the requests of each step, and passes the answers to the functions that make findings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from levada import ClusterDescription, KafkaAdmin, KafkaError, Node
from levada.cli.doctor import cluster, connecting, probe, questions
from levada.cli.doctor.findings import Finding, Status, Step
from levada.cli.doctor.listener import mismatch
from levada.cli.doctor.questions import Scope
from levada.config import AdminConfig


class Way(NamedTuple):
    """A bootstrap address that works, and the description of the cluster that it returned."""

    address: str
    cluster: ClusterDescription


def examine(settings: Mapping[str, Any], scope: Scope, wall_ms: Callable[[], int]) -> Iterator[Finding]:
    """Yield the findings step by step, as they become known. wall_ms: returns this machine's time in ms since the epoch.

    Raises ConfigError for invalid settings, and KafkaError if the cluster does not answer a later request, such as for its topics. A note
    of that error names the step.
    """
    config = AdminConfig.parse(settings)
    ways: list[Way] = []
    probes = config.proxy_url is None
    for host, port in config.bootstrap_servers:
        yield from _approach(settings, Node(-1, host, port), config.security_protocol, scope.timeout, ways, probes=probes)
    if not ways:
        return
    yield from cluster.members(ways[0].cluster)
    reachable = [way.address for way in ways]
    with KafkaAdmin(_at(settings, reachable)) as admin:
        hosts = [host for host, _ in config.bootstrap_servers]
        is_reachable = False
        for node in ways[0].cluster.nodes:
            listener = _listener(admin, node, hosts, scope.timeout, probes=probes)
            is_reachable |= listener.status is not Status.FAILED
            yield listener
        if not is_reachable:
            return
        yield from questions.about_clocks(admin, scope.timeout, wall_ms)
        with _ending_at(Step.LEADERS):
            yield from questions.about_partitions(admin, scope, {node.id for node in ways[0].cluster.nodes})
        with _ending_at(Step.GROUPS):
            blocked = yield from questions.about_groups(admin, scope, wall_ms)
        with _ending_at(Step.TRANSACTIONS):
            yield from questions.about_transactions(admin, scope, wall_ms, blocked)


@contextmanager
def _ending_at(step: Step) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        error.add_note(f"doctor ended at the step {step} with this error, and did not do the steps after it")
        raise


def _approach(
    settings: Mapping[str, Any], target: Node, security_protocol: str, timeout: float, ways: list[Way], *, probes: bool
) -> Iterator[Finding]:
    """Check one address: resolve its name, connect, check the listener, describe the cluster. Stop at the first step that fails.

    Yields a finding for each step. If all succeed, the address is added to `ways`. timeout: seconds for each connection and for describing
    the cluster. probes: whether doctor opens connections of its own first. Through a proxy it opens none, and the client's error says what
    is wrong.
    """
    fault = (yield from _probe(target, security_protocol, timeout)) if probes else False
    if fault:
        return
    found, error = _described(_at(settings, [target.address]), timeout)
    yield from connecting.connected(target.address, error, security_protocol)
    if found is not None:
        ways.append(Way(target.address, found))


def _probe(target: Node, security_protocol: str, timeout: float) -> Generator[Finding, None, bool]:
    """Yield the findings of doctor's own connections to an address. Return whether one of them is a fault."""
    name = probe.resolve(target.host)
    yield connecting.resolved(target.host, name)
    if name.fault is not None:
        return True
    port = connecting.reached(target.address, probe.reach(name.addresses, target.port, timeout))
    yield port
    if port.status is Status.FAILED:
        return True
    fault = mismatch(target.address, probe.listen(target.host, target.port, timeout), security_protocol)
    if fault is not None:
        yield fault
    return fault is not None


def _described(settings: Mapping[str, Any], timeout: float) -> tuple[ClusterDescription | None, KafkaError | None]:
    with KafkaAdmin(settings) as admin:
        try:
            return admin.describe_cluster(timeout=timeout), None
        except KafkaError as error:
            return None, error


def _listener(admin: KafkaAdmin, node: Node, bootstrap: Sequence[str], timeout: float, *, probes: bool) -> Finding:
    name, reached = probe.Resolved((), None, 0), [probe.Reached(node.address, None, 0)]
    if probes:
        name = probe.resolve(node.host)
        reached = probe.reach(name.addresses, node.port, timeout)
    error = None
    if any(one.fault is None for one in reached):
        try:
            admin.api_versions(node=node.id, timeout=timeout)
        except KafkaError as fault:
            error = fault
    return cluster.listener(node, name, reached, error, bootstrap=bootstrap)


def _at(settings: Mapping[str, Any], addresses: Sequence[str]) -> dict[str, Any]:
    """Return the settings with bootstrap.servers replaced, whichever of its spellings and aliases they use."""
    spelt = {"bootstrap.servers", *(alias for alias, name in AdminConfig.ALIASES.items() if name == "bootstrap.servers")}
    others = {name: value for name, value in settings.items() if name.replace("_", ".") not in spelt}
    return {**others, "bootstrap.servers": addresses}
