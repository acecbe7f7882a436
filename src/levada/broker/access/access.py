"""What a cluster knows of those who use it: users of SCRAM, delegation tokens, access rules, and quotas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from levada.broker.access.authorizer import Authorizer
from levada.broker.access.delegation_tokens import DelegationTokens
from levada.broker.access.scram_users import ScramUsers
from levada.broker.config.settings import BrokerSettings
from levada.broker.log.storage import ClusterStorage
from levada.broker.quotas.client_quotas import ClientQuotas
from levada.broker.quotas.throttles import Throttles

_SCRAM_USERS, _CLIENT_QUOTAS, _DELEGATION_TOKENS = "scram_users", "client_quotas", "delegation_tokens"


class Access:
    """Shared by all nodes.

    mutations: what clients have used of controller_mutation_rate. authorizer: None where everybody may do everything. new_id: makes ids
    that nothing else has.
    """

    def __init__(self, settings: BrokerSettings, storage: ClusterStorage, new_id: Callable[[], str]) -> None:
        self.scram_users = ScramUsers(storage.section(_SCRAM_USERS), partial(storage.keep_section, _SCRAM_USERS))
        self.client_quotas = ClientQuotas(storage.section(_CLIENT_QUOTAS), partial(storage.keep_section, _CLIENT_QUOTAS))
        sample_ms = settings.controller_quota_window_size_seconds * 1000
        self.mutations = Throttles(self.client_quotas, settings.controller_quota_window_num, sample_ms)
        kept, keep = storage.section(_DELEGATION_TOKENS), partial(storage.keep_section, _DELEGATION_TOKENS)
        self.delegation_tokens = DelegationTokens(settings, new_id, kept, keep)
        self.authorizer = _authorizer(settings, storage)


def _authorizer(settings: BrokerSettings, storage: ClusterStorage) -> Authorizer | None:
    if not settings.authorizer_class_name:
        return None
    return Authorizer(
        storage.acls(),
        super_users=[name.strip() for name in settings.super_users.split(";") if name.strip()],
        allows_if_none=settings.allow_everyone_if_no_acl_found,
        keep=storage.keep_acls,
    )
