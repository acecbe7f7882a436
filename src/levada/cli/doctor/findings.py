"""What doctor looks at, in which order, and what it finds.

Each step needs those before it: nobody logs in to a host whose name does not resolve. DNS to LOGIN are done for each address in
bootstrap.servers; one that fails at a step is not examined further. When none is left the examination ends there, and the steps after it
are not reported. Otherwise the cluster is asked through the addresses that work, and every later step is done whatever the one before it
found: a partition without a leader says nothing about groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Step(StrEnum):
    """What is examined, in order."""

    DNS = "dns"
    """The host names in bootstrap.servers have addresses."""
    TCP = "tcp"
    """Something accepts connections there."""
    TLS = "tls"
    """Both sides agree on whether there is TLS, and the certificates are accepted."""
    VERSIONS = "versions"
    """A Kafka broker answers, and its versions of the protocol suit."""
    LOGIN = "login"
    """The broker lets this user in."""
    METADATA = "metadata"
    """The brokers name the cluster's nodes and its controller."""
    CLOCK = "clock"
    """This machine's clock and the brokers' agree."""
    LISTENERS = "listeners"
    """Every broker can be reached where the cluster says that it listens."""
    LEADERS = "leaders"
    """Every partition has a leader."""
    REPLICAS = "replicas"
    """Every replica is in sync."""
    GROUPS = "groups"
    """Groups of consumers have members, and what they have committed can still be read."""
    TRANSACTIONS = "transactions"
    """No transaction has been open for long: readers of committed records wait for it."""


class Status(StrEnum):
    """How a step ended. WARNING: it works, and may not for long."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(NamedTuple):
    """What a step found about something.

    about: an address, a broker, a partition, a group. found: in one sentence. advice: what to do, "" where there is nothing to do.
    """

    step: Step
    status: Status
    about: str
    found: str
    advice: str = ""


def worst(findings: Iterable[Finding]) -> Status:
    """Return the worst status there is, OK for none."""
    order = tuple(Status)
    return max((finding.status for finding in findings), key=order.index, default=Status.OK)
