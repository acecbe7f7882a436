"""Who may log in to a BrokerNode of a test."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from levada.broker.access.logins import Logins
from levada.broker.cluster.cluster import Access
from levada.broker.cluster.storage import IN_MEMORY
from levada.broker.config.settings import BrokerSettings
from levada.testing.listening import OAuth, logins_of


def logins_for(users: Mapping[str, str] | None = None, oauth: OAuth = None) -> Logins:
    """Return logins of a cluster of their own."""
    ids = count()
    return logins_of(Access(BrokerSettings(), IN_MEMORY, lambda: str(next(ids))), users, oauth, None)
