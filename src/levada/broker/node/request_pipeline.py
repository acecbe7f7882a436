"""The steps that every request goes through before its API serves it.

A step is called with the request and with the rest of the chain. It calls the rest and returns its answer, or answers by itself. Kafka's
order is authenticate, authorize, count against quotas, serve. The node authenticates before it decodes a request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TypeAlias

from levada.broker.access.permissions import refusal
from levada.broker.node.state import Answer, Call, Unanswered
from levada.broker.quotas.client_quotas import REQUEST_PERCENTAGE
from levada.error_codes import ErrorCode
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Handler: TypeAlias = Callable[[Call], Answer]
Step: TypeAlias = Callable[[Call, Handler], Answer]

_HAS_SOFTWARE = 3
_NS_PER_S = 1_000_000_000


def chain(steps: Sequence[Step], serve: Handler) -> Handler:
    """Return the handler that goes through the steps, the first one first, and then serves."""
    return reduce(lambda rest, step: partial(_take, step, rest), reversed(steps), serve)


def serve(call: Call) -> Answer:
    """Let the request's API carry it out."""
    return call.api.handle(call)


def introduce(call: Call, rest: Handler) -> Answer:
    """Keep what the client says about itself. Its software is kept once ApiVersions has found the names to be well formed."""
    call.session.client_id = call.client_id
    answer = rest(call)
    if isinstance(answer, ApiVersionsResponse) and answer.error_code == ErrorCode.NONE and call.version >= _HAS_SOFTWARE:
        request: ApiVersionsRequest = call.request
        call.session.software_name, call.session.software_version = request.client_software_name, request.client_software_version
    return answer


def authorize(call: Call, rest: Handler) -> Answer:
    """Refuse what the client may do nothing of. Where a request names several things, its API asks about each."""
    code = refusal(call)
    return rest(call) if code is ErrorCode.NONE else call.api.refuse(call.request, call.version, code)


def count(call: Call, rest: Handler) -> Answer:
    """Count the time that a request takes against its client's quota (KIP-124); a request without an answer costs nothing."""
    state = call.state
    if state.throttles.are_off or not state.throttles.has_quota(REQUEST_PERCENTAGE, call.quoted):
        return rest(call)
    begun_ns = state.work_ns()
    answer = rest(call)
    if not isinstance(answer, Unanswered):
        percent = (state.work_ns() - begun_ns) / _NS_PER_S * 100
        longest_ms = state.settings.quota_window_size_seconds * 1000
        call.throttle(state.throttles.record(REQUEST_PERCENTAGE, call.quoted, percent, call.now_ms, longest_ms=longest_ms))
    return answer


def _take(step: Step, rest: Handler, call: Call) -> Answer:
    return step(call, rest)


HANDLE = chain((introduce, authorize, count), serve)
"""What a node does with a request."""
