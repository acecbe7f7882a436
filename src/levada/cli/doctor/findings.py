"""The steps of `levada doctor`, and the findings that they return.

The steps DNS to LOGIN are done for each address in bootstrap.servers. Each of them needs the one before: a client cannot log in to a host
whose name does not resolve. An address that fails at a step is not examined further. If no address works, doctor stops and does not
report the later steps. Otherwise doctor asks the cluster through the addresses that work. If no broker can be reached at its advertised
listener, doctor stops after LISTENERS. Every other step is done whatever the steps before it found: a partition
without a leader says nothing about groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Step(StrEnum):
    """The steps in the order in which they are done. The text below each says what holds if the step succeeds."""

    DNS = "dns"
    """The host names in bootstrap.servers have addresses."""
    TCP = "tcp"
    """A process accepts connections at these addresses."""
    TLS = "tls"
    """Both sides agree on whether there is TLS, and the certificates are accepted."""
    VERSIONS = "versions"
    """A Kafka broker answers, and supports versions of the protocol that this client supports."""
    LOGIN = "login"
    """The broker accepts this user's login."""
    METADATA = "metadata"
    """The metadata names the cluster's brokers and its controller."""
    LISTENERS = "listeners"
    """Every broker can be reached at its advertised listener."""
    CLOCK = "clock"
    """The clock of the controller quorum's leader agrees with this machine's."""
    LEADERS = "leaders"
    """Every partition has a leader."""
    REPLICAS = "replicas"
    """Every replica is in sync."""
    GROUPS = "groups"
    """Groups with records to read have members that commit, and the records at their committed offsets are recent and still exist."""
    TRANSACTIONS = "transactions"
    """No transaction has been open for long, and no group waits for one. With isolation.level=read_committed, consumers wait for them."""


class Status(StrEnum):
    """The result of a step. WARNING: the user should look at it, for example because it may fail soon or could not be examined."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(NamedTuple):
    """One result of a step.

    about: the address, broker, topic, group or transaction that was examined. found: the result in one sentence. advice: what to do, or ""
    if there is nothing to do.
    """

    step: Step
    status: Status
    about: str
    found: str
    advice: str = ""


def worst(findings: Iterable[Finding]) -> Status:
    """Return the worst status of all findings, or OK if there are none."""
    order = tuple(Status)
    return max((finding.status for finding in findings), key=order.index, default=Status.OK)
