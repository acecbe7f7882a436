"""How an administrative request goes on after an error (behaviour X1, X2).

Requests that change a cluster go to the controller as metadata names it. In today's clusters any broker passes them on, so where no
controller is known any broker will do.
"""

from __future__ import annotations

from levada.client.metadata.metadata import Metadata
from levada.client.network.backoff import ExponentialBackoff
from levada.client.network.connection_key import Peer
from levada.client.requests.retry import Reaction, Retries, RetryPolicy
from levada.error_codes import ErrorCode

ON_ADMIN_ERROR = RetryPolicy(
    {
        ErrorCode.NOT_CONTROLLER: Reaction.REFRESH,
        ErrorCode.NETWORK_EXCEPTION: Reaction.REFRESH,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.RETRY,
        ErrorCode.LEADER_NOT_AVAILABLE: Reaction.RETRY,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: Reaction.RETRY,
    }
)
"""Other codes are raised: for an admin client, a topic that does not exist is an answer, not a temporary failure."""


class Attempts(Retries):
    """The repetitions of one administrative request. retries: how often at most for each topic, partition or id.

    answers_lost: requests that were sent and never answered, so that the cluster may have done what they asked for.
    """

    def __init__(self, metadata: Metadata, backoff: ExponentialBackoff, retries: int) -> None:
        super().__init__(metadata, backoff, retries)
        self.answers_lost = 0

    def controller(self) -> Peer | None:
        """Return the controller that metadata names, None for any node."""
        controller = self.metadata.snapshot.controller
        return None if controller is None else controller.id
