"""RemoveRaftVoter: refused as by a Kafka whose voters are given by controller.quorum.voters (KIP-853)."""

from __future__ import annotations

from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def handle(call: Call) -> RemoveRaftVoterResponse:
    """Refuse the request, because the voters of the embedded cluster cannot be changed."""
    request: RemoveRaftVoterRequest = call.request
    if request.cluster_id not in (None, call.state.cluster.id):
        return RemoveRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    return RemoveRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="the voters of this cluster cannot be changed")


def refuse(request: RemoveRaftVoterRequest, version: int, code: ErrorCode) -> RemoveRaftVoterResponse:
    """Answer with an error."""
    return RemoveRaftVoterResponse(error_code=code)


API = Api(RemoveRaftVoterRequest, 0, 0, handle, refuse, 0)
