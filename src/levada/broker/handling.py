"""The steps that every request goes through before its API serves it.

A step is called with the request and with the rest of the chain. It calls the rest and returns its answer, or answers by itself. Kafka's
order is authenticate, authorize, count against quotas, serve; of these there is only the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TypeAlias

from levada.broker.state import Answer, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Handler: TypeAlias = Callable[[Call], Answer]
Step: TypeAlias = Callable[[Call, Handler], Answer]

_HAS_SOFTWARE = 3


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


def _take(step: Step, rest: Handler, call: Call) -> Answer:
    return step(call, rest)


HANDLE = chain((introduce,), serve)
"""What a node does with a request."""
