"""The requests of a member of a consumer group (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from levada.base.flow import Call, Flow
from levada.client.driver_interface import ENDED
from levada.client.requests.destination import Coordinator
from levada.client.requests.group_offsets import CoordinatedGroup
from levada.consumer.group.consumer_heartbeat import FIRST_VERSION_WITH_PATTERNS, JOIN_EPOCH, Identity, leaving, makes_sense, refusal
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, KafkaError, ProtocolError, UnsupportedVersionError, UnwritableError, broker_error
from levada.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_ID_BITS = 128


def new_member_id(random: Random) -> str:
    """Return a new unique member id (KIP-1082)."""
    return str(UUID(int=random.getrandbits(_ID_BITS), version=4))


def ask_coordinator(call: Call, unsupported: Callable[[str], KafkaError]) -> Flow[Any]:
    """Send a member's heartbeat. Return the answer, or None if it is missing or unreadable.

    unsupported: makes the error to raise if the coordinator does not support the request. Raises UnwritableError, and permanent errors of
    the coordinator look-up.
    """
    try:
        answer = yield call
    except ENDED:
        raise
    except UnsupportedVersionError as error:
        raise unsupported(str(error)) from None
    except UnwritableError:
        raise
    except (ConnectError, ProtocolError):
        return None
    return answer


class ConsumerRequests:
    """Sends the requests of one member."""

    def __init__(self, identity: Identity, group: CoordinatedGroup) -> None:
        self._identity = identity
        self._coordinator: Coordinator = group.coordinator

    def beat(self, request: ConsumerGroupHeartbeatRequest) -> Flow[ConsumerGroupHeartbeatResponse | None]:
        """Send a heartbeat. Return the answer, or None if it is missing, unreadable or invalid.

        Raises UnsupportedVersionError, UnwritableError, and permanent errors of the coordinator look-up.
        """
        oldest = FIRST_VERSION_WITH_PATTERNS if request.subscribed_topic_regex is not None else 0
        call = Call(request, self._coordinator, min_version=oldest)
        answer: ConsumerGroupHeartbeatResponse | None
        answer = yield from ask_coordinator(call, lambda why: refusal(self._identity, ErrorCode.UNSUPPORTED_VERSION, why))
        return answer if answer is None or request.member_epoch < JOIN_EPOCH or makes_sense(answer) else None

    def leave(self, *, for_a_while: bool) -> Flow[None]:
        """Send the heartbeat that leaves the group. Raises a KafkaError if there is no answer, or if the answer is an error.

        for_a_while: a static member keeps its assignment until its session ends.
        """
        answer = yield from self.beat(leaving(self._identity, for_a_while=for_a_while))
        if answer is None:
            raise ConnectError(f"the coordinator of group '{self._identity.group_id}' did not answer")
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message or "ConsumerGroupHeartbeat")
