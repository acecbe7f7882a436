"""The steps that every request passes before its handler is called.

A step is called with the request and the rest of the chain. It either calls the rest and returns its answer, or answers itself. Kafka's
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
    """Return a handler that passes a request through these steps, in order, and then to `serve`."""
    return reduce(lambda rest, step: partial(_take, step, rest), reversed(steps), serve)


def serve(call: Call) -> Answer:
    """Call the handler of the request's API."""
    return call.api.handle(call)


def note_client(call: Call, rest: Handler) -> Answer:
    """Store the client id in the session and, after a successful ApiVersions request, the name and version of the client software."""
    call.session.client_id = call.client_id
    answer = rest(call)
    if isinstance(answer, ApiVersionsResponse) and answer.error_code == ErrorCode.NONE and call.version >= _HAS_SOFTWARE:
        request: ApiVersionsRequest = call.request
        call.session.software_name, call.session.software_version = request.client_software_name, request.client_software_version
    return answer


def authorize(call: Call, rest: Handler) -> Answer:
    """Answer a request with an error if the client may not make it. If it names several resources, the API's handler checks the permissions
    on each.
    """
    code = refusal(call)
    return rest(call) if code is ErrorCode.NONE else call.api.refuse(call.request, call.version, code)


def count(call: Call, rest: Handler) -> Answer:
    """Count the processing time of a request against the client's quota request_percentage (KIP-124). A request without a response is not
    counted.
    """
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


HANDLE = chain((note_client, authorize, count), serve)
"""How a node handles a request."""
