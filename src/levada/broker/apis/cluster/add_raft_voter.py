"""AddRaftVoter: refused as by a Kafka whose voters are given by controller.quorum.voters (KIP-853)."""

from __future__ import annotations

from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(call: Call) -> AddRaftVoterResponse:
    """Refuse the request, because the voters of the embedded cluster cannot be changed."""
    request: AddRaftVoterRequest = call.request
    if request.cluster_id not in (None, call.state.cluster.id):
        return AddRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    if not request.listeners:
        return AddRaftVoterResponse(error_code=ErrorCode.INVALID_REQUEST)
    return AddRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="the voters of this cluster cannot be changed")


def refuse(request: AddRaftVoterRequest, version: int, code: ErrorCode) -> AddRaftVoterResponse:
    """Answer with an error."""
    return AddRaftVoterResponse(error_code=code)


API = Api(AddRaftVoterRequest, 0, 1, handle, refuse, 0)
