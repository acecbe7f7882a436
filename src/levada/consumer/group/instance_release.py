"""Waiting for a group.instance.id that the coordinator does not give up yet (KIP-848).

A static member that was killed sent no request to leave. Until its session ends, the coordinator refuses the next member with the same
group.instance.id, because the old member may still be alive. The new member cannot know either. So it tries again for as long as the
session may last, and fails when the id is in use even then. The session timeout is a setting of the group, kept by the brokers; a client
that may not read it assumes the default of session.timeout.ms.
"""

from __future__ import annotations

from levada.base.clock import Now
from levada.base.flow import Call, Flow
from levada.base.promise import Promise
from levada.client.driver_interface import ENDED
from levada.client.requests.fan_out import Spawn
from levada.consumer.group.consumer_heartbeat import Identity
from levada.errors import KafkaError
from levada.logs import Log
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse

GROUP = 32
"""The resource type of group configurations in DescribeConfigs."""
SESSION_TIMEOUT = "consumer.session.timeout.ms"
GRACE_MS = 2_000
"""How much later than the session timeout the coordinator may end a session."""


class InstanceRelease:
    """The wait of a static member for the release of its group.instance.id. default_ms: the session timeout if the brokers do not return
    it.
    """

    def __init__(self, who: Identity, default_ms: int, spawn: Spawn, now: Now, log: Log) -> None:
        self._who = who
        self._session_ms = default_ms
        self._spawn = spawn
        self._now = now
        self._log = log
        self._since_ms: int | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether the member is waiting for its group.instance.id."""
        return self._since_ms is not None

    def refused(self) -> bool:
        """Handle a refusal because another member uses the group.instance.id. Return whether the member should try again."""
        if self._who.instance_id is None:
            return False
        if self._since_ms is None:
            self._since_ms = self._now.ms
            self._spawn.start(self._ask()).on_done(self._answered)
        return self._now.ms < self._since_ms + self._session_ms + GRACE_MS

    def end(self) -> None:
        """Stop waiting."""
        self._since_ms = None

    @property
    def waited(self) -> str:
        """A text with the session timeout that the member has waited for, to append to an error message; "" if it does not wait."""
        return f" (after {self._session_ms / 1000:g} s, {SESSION_TIMEOUT} of the group)" if self.is_awaited else ""

    def _ask(self) -> Flow[int | None]:
        resource = DescribeConfigsResource(resource_type=GROUP, resource_name=self._who.group_id, configuration_keys=[SESSION_TIMEOUT])
        answer: DescribeConfigsResponse = yield Call(DescribeConfigsRequest(resources=[resource]))
        values = [entry.value for result in answer.results for entry in result.configs if entry.name == SESSION_TIMEOUT]
        return int(values[0]) if values and values[0] is not None and values[0].isdecimal() else None

    def _answered(self, asked: Promise[int | None]) -> None:
        if isinstance(asked.error, ENDED) or not self.is_awaited:
            return
        if asked.error is None:
            self._session_ms = asked.result() or self._session_ms
        elif not isinstance(asked.error, KafkaError):
            raise asked.error
        self._log.warning(
            "group '%s': group.instance.id '%s' belongs to a member whose session has not ended, as that of one that was killed; joining "
            "again until it ends, for %g s at most (%s of the group). Should that member live, give each one an id of its own",
            self._who.group_id,
            self._who.instance_id,
            self._session_ms / 1000,
            SESSION_TIMEOUT,
        )
