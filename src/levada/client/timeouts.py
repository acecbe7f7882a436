"""What to tell a caller whose time is over."""

from __future__ import annotations

from levada.client.network.network_client import NetworkClient
from levada.errors import AuthenticationError, MetadataTimeout, TimeoutError


def timeout_error(network: NetworkClient, error: TimeoutError, timeout_s: float | None) -> TimeoutError | AuthenticationError:
    """Return the error to raise for a call that took too long: with what is wrong with the brokers, when something is.

    When no broker was ever reached that alone is the cause, and the error a BootstrapError.
    """
    failures = network.failures()
    if not failures or timeout_s is None or type(error) not in (TimeoutError, MetadataTimeout):
        return error
    if not network.ever_answered:
        return network.bootstrap_error(timeout_s)
    told = type(error)("\n".join([str(error), *(f"  {address}  {cause}" for address, cause in failures.items())]))
    told.outcomes, told.results = error.outcomes, error.results
    return told
