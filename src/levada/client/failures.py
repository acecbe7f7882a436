"""Why connections failed: for error messages and log lines, and to decide when trying on is useless.

Failures are kept per connection and shown per address, because users know addresses. An address is an invalid peer when something else than
a Kafka listener answered there, or when it refused this client. When all addresses are invalid peers, the client gives up.

With bootstrap.wait=false no warnings are logged before the first broker is reached: either the error of a call lists what happened at each
address, or a broker is reached, and then the warnings about the other addresses are logged.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping
from copy import copy
from typing import NamedTuple

from levada.client.driver_interface import DeferredLog
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.client.network.connection_key import ConnectionKey, key_of
from levada.client.network.connection_states import Connection
from levada.client.setup.states import ConnectionState
from levada.errors import AuthenticationError, BootstrapError, ConnectError, KafkaError
from levada.net.diagnose import Doing, diagnose
from levada.net.selectable import Disconnect, Ending

_DOING: Mapping[ConnectionState, Doing] = {
    ConnectionState.CONNECTING: Doing.CONNECTING,
    ConnectionState.CHECKING_API_VERSIONS: Doing.NEGOTIATING,
    ConnectionState.AUTHENTICATING: Doing.AUTHENTICATING,
    ConnectionState.READY: Doing.WORKING,
    ConnectionState.REAUTHENTICATING: Doing.AUTHENTICATING,
}
_MOST_TOLD = 8
_NOT_THAT_OLD = "; brokers do that to a version they do not know: is broker.version.fallback right, and needed at all?"


def advertised_by(known: Connection | None, snapshot: ClusterSnapshot) -> str:
    """Return a note about the broker that has advertised an address which never worked; "" if no broker has.

    Such an address may be valid only in the broker's own network. known: the failed connection; None if it is not known.
    """
    if known is None or known.has_worked or snapshot.described_by in ("", known.node.address):
        return ""
    node = snapshot.nodes.get(known.key.node_id)
    if node is None or node.address != known.node.address:
        return ""
    return f" (advertised by {snapshot.described_by}; check advertised.listeners)"


class _Failure(NamedTuple):
    address: str
    cause: str
    invalid_peer: bool
    asks_anew: bool


class Failures:
    """The connection failures of one client. Each cause is logged once per address. Until a request is answered there, repetitions are
    logged at DEBUG.

    proxy: the proxy that all connections pass through; "" for none. has_fallback: whether broker.version.fallback is set, so that brokers
    are not asked for their versions. waits: bootstrap.wait.
    """

    def __init__(self, log: DeferredLog, security_protocol: str, proxy: str, *, has_fallback: bool, waits: bool) -> None:
        self._log = log
        self._security_protocol = security_protocol
        self._proxy = proxy
        self._has_fallback = has_fallback
        self._waits = waits
        self._untold: list[tuple[ConnectionKey, str, str]] | None = None if waits else []
        """Connections, addresses and causes to warn of once a broker is reached; None where warnings are logged at once."""
        self._by_key: dict[ConnectionKey, _Failure] = {}
        self._refusals: dict[ConnectionKey, AuthenticationError] = {}
        self._told: dict[str, deque[str]] = {}
        """The newest causes that were logged for an address. Several, because an address may fail in two ways by turns."""

    def diagnose(self, disconnect: Disconnect, known: Connection | None, *, waited_for: int) -> str:
        """Return the probable cause of a connection's end. known: the connection before it ended. waited_for: the number of missing
        responses.
        """
        cause = diagnose(
            disconnect.ending,
            Doing.CONNECTING if known is None else _doing(known, waited_for),
            first_bytes=disconnect.first_bytes,
            detail=disconnect.cause,
            security_protocol=self._security_protocol,
            proxy=self._proxy,
        )
        if not self._has_fallback:
            return cause
        if disconnect.ending is Ending.UNREADABLE:
            return f"{cause}; is broker.version.fallback right?"
        hung_up = disconnect.ending in (Ending.CLOSED, Ending.RESET) and waited_for
        return cause + _NOT_THAT_OLD if hung_up else cause

    def so_far(self, known: Connection, if_late: Ending, waits_for: str) -> str:
        """Return a description of a connection that is still being set up.

        if_late: how it ends if it is not established in time. waits_for: what it waits for apart from the broker, "" for nothing.
        """
        ending = if_late if known.state is ConnectionState.CONNECTING else Ending.UNANSWERED
        return waits_for or diagnose(ending, _DOING[known.state], security_protocol=self._security_protocol, proxy=self._proxy)

    def note(
        self,
        known: Connection | None,
        key: ConnectionKey,
        address: str,
        cause: str,
        *,
        level: int,
        invalid_peer: bool,
        asks_anew: bool = False,
    ) -> None:
        """Record that a connection failed, and log the cause.

        known: the connection. Once it has answered a request, causes that were logged before are logged again. level: the log level.
        invalid_peer: whether no Kafka broker listens at the address. asks_anew: whether the next attempt uses another version of
        ApiVersions, so that the address is not given up; a warning is logged only if that attempt fails, too.
        """
        if known is not None and known.has_answered:
            self._told.pop(address, None)
        told = self._told.setdefault(address, deque(maxlen=_MOST_TOLD))
        is_told = cause in told
        if asks_anew:
            level = logging.DEBUG
        elif not is_told:
            told.append(cause)
            if self._untold is not None and level == logging.WARNING:
                self._untold.append((key, address, cause))
                level = logging.INFO
        self._write(logging.DEBUG if is_told else level, key, address, cause)
        self._by_key.pop(key, None)  # The newest stands last, and is the one that counts for its address.
        self._by_key[key] = _Failure(address, cause, invalid_peer or key in self._refusals, asks_anew)

    def _write(self, level: int, key: ConnectionKey, address: str, cause: str) -> None:
        self._log.log(level, "%s: %s", address, cause, node_id=key.node_id, address=address)

    def refused(self, key: ConnectionKey, address: str, error: AuthenticationError) -> AuthenticationError:
        """Record that authentication failed, on the client's or the broker's side. Return the error for requests until a later attempt
        succeeds.
        """
        told = _copied(error)
        told.args = (f"{address}: {error}",)
        self._refusals[key] = told
        return told

    def refusal_by_all(self, node_ids: Collection[int]) -> AuthenticationError | None:
        """If authentication failed with all of these nodes, return the error of one of them; else None.

        A node where a later attempt succeeded does not count as failed. Without node_ids the result is None.
        """
        refusals = [self._refusals[key] for key in map(key_of, node_ids) if key in self._refusals]
        return _copied(refusals[-1]) if refusals and len(refusals) == len(node_ids) else None

    def bootstrap_error(self, waited_s: float, causes: Mapping[str, str], *, is_final: bool) -> BootstrapError | AuthenticationError:
        """Return the error for a client that never reached a broker. is_final: whether all addresses are given up.

        waited_s: how long the call has waited, in seconds. causes: the cause of failure of each address.
        """
        if is_final and self._refusals:
            return _copied(next(reversed(self._refusals.values())))  # Raising an error changes it.
        is_pointless = is_final and all(failure.invalid_peer for failure in self._by_key.values())
        hint = "; with bootstrap.wait=false this is raised once every address has failed" if self._waits else ""
        within = "" if is_final else f" within {waited_s:g} s{hint}"
        reason = ": no address is a Kafka listener of this security.protocol" if is_pointless else within
        error = BootstrapError("no broker could be reached" + reason, causes)
        error.retriable = not is_pointless
        return error

    def works(self, key: ConnectionKey, address: str) -> None:
        """Note that a connection to an address was set up. Earlier failures at this address for the same purpose are forgotten, too."""
        self._refusals.pop(key, None)
        self._by_key = {
            other: failure for other, failure in self._by_key.items() if failure.address != address or other.purpose is not key.purpose
        }

    def reached(self, address: str) -> None:
        """Note that a broker has answered for the first time, and log the warnings about other addresses that were deferred until then."""
        untold, self._untold = self._untold, None
        for key, failed, cause in untold or ():
            if failed != address:
                self._write(logging.WARNING, key, failed, cause)

    def forget(self, key: ConnectionKey) -> None:
        """Note that a connection's address is no longer part of the cluster, and forget its failures."""
        self._refusals.pop(key, None)
        gone = self._by_key.pop(key, None)
        # The bootstrap addresses stay in the configuration, and are tried again and again while the brokers they name cannot be reached.
        if gone is not None and key.node_id >= 0 and not any(failure.address == gone.address for failure in self._by_key.values()):
            self._told.pop(gone.address, None)

    def causes(self) -> dict[str, str]:
        """Return the newest cause for each address."""
        return {failure.address: failure.cause for failure in list(self._by_key.values())}

    def cause(self, key: ConnectionKey, address: str) -> str | None:
        """Return why a connection failed. If that is not known, return why its address failed; None if it did not."""
        failure = self._by_key.get(key)
        return failure.cause if failure is not None else self.causes().get(address)

    def error(self, key: ConnectionKey, address: str) -> KafkaError:
        """Return the error for a call that needed a connection: why authentication failed, or else the cause of the last failure."""
        return self._refusals.get(key) or ConnectError(f"{address} ({key}): {self.cause(key, address) or 'not connected'}")

    def is_given_up(self, address: str) -> bool:
        """Return whether an address is not worth another attempt: no Kafka broker listens there, or authentication failed.

        With bootstrap.wait=false every failure counts, unless the next attempt uses another version of ApiVersions.
        """
        failures = [failure for failure in self._by_key.values() if failure.address == address]
        found = [failure.invalid_peer or not (self._waits or failure.asks_anew) for failure in failures]
        return bool(found) and found[-1]

    def __len__(self) -> int:
        return len(self._by_key)


def _copied(error: AuthenticationError) -> AuthenticationError:
    """Return a copy of an error together with its cause, which copy() leaves out."""
    told = copy(error)
    told.__cause__ = error.__cause__
    return told


def _doing(known: Connection, waited_for: int) -> Doing:
    is_first = known.state is ConnectionState.READY and not known.has_answered and waited_for
    return Doing.ASKING_FIRST if is_first else _DOING[known.state]
