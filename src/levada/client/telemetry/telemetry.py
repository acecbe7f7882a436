"""Client telemetry (KIP-714): requests a broker's subscription, and pushes the metrics. The module `states` has the states.

Telemetry is a poller of the engine: poll() starts a flow when a request is due. All requests go to the same broker until one fails without
a response, because the broker keeps the client's subscription. If the brokers have no telemetry plugin, the client requests a subscription
again every five minutes, because a broker with a plugin may join.

A delta that was pushed counts as delivered unless the broker responds with an error code. So if a response is lost, some counts may be
missing, but nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any
from uuid import UUID

from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.flow import ANY_NODE, Call, Flow
from levada.base.promise import Promise
from levada.base.state_table import following
from levada.client.driver_interface import ENDED
from levada.client.engine import Engine
from levada.client.network.connection_key import ConnectionKey
from levada.client.telemetry.payload import (
    UNCOMPRESSED,
    ZERO_ID,
    Counted,
    Subscription,
    of_the_client_as_a_whole,
    points,
    totals,
)
from levada.client.telemetry.states import DEFAULT_INTERVAL_MS, TRANSITIONS, Event, State, pause_ms
from levada.error_codes import ErrorCode
from levada.errors import KafkaError, UnsupportedVersionError
from levada.metrics import MetricName
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from levada.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from levada.protocol.otlp import Attributes, Payload, Temporality, encode
from levada.protocol.schema import Request

JITTER = (0.5, 1.5)
"""The first push after a subscription is made after a random part of the interval within these bounds, so that many clients do not push at
once.
"""


class Telemetry:
    """The telemetry of one client.

    read: returns all metrics at a monotonic time in ms. wall_ms: returns the time in ms since the epoch. resource: attributes of the
    client, which each payload has. compress: compresses data with the codec of this number. codecs: the supported codec numbers.

    instance_id: a promise of the client instance id, which the first response of a broker settles. failure: the text of the last error; ""
    after a success.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        read: Callable[[int], Mapping[MetricName, float]],
        wall_ms: Callable[[], int],
        resource: Attributes,
        compress: Callable[[int, bytes], bytes],
        codecs: Collection[int],
        backoff: ExponentialBackoff,
        random: Random,
    ) -> None:
        self.state = State.SUBSCRIPTION_NEEDED
        self.instance_id: Promise[UUID] = Promise()
        self.failure = ""
        self._engine = engine
        self._read = read
        self._wall_ms = wall_ms
        self._resource = resource
        self._compress = compress
        self._codecs = set(codecs)
        self._backoff = backoff
        self._random = random
        self._log = engine.network.log
        self._due_ms = 0
        self._failures = 0
        self._node: ConnectionKey | None = None
        self._id = ZERO_ID
        self._subscription: Subscription | None = None
        self._since = self._beginning = Counted({}, wall_ms())
        self._running: Promise[None] | None = None
        self._last: Promise[None] | None = None

    def _take(self, event: Event) -> None:
        self.state = following(TRANSITIONS, self.state, event, "telemetry")

    def poll(self, now_ms: int) -> int:
        """Begin the request that is due; return by when to call again (ms), NEVER_MS while a request is in flight or after the end."""
        if self.state is State.SUBSCRIPTION_NEEDED:
            return self._begin(self._subscribe, now_ms)
        if self.state is State.PUSH_NEEDED:
            return self._begin(self._push, now_ms)
        return NEVER_MS

    def _begin(self, flow: Callable[[], Flow[None]], now_ms: int) -> int:
        if now_ms < self._due_ms:
            return self._due_ms
        self._take(Event.ASKED if self.state is State.SUBSCRIPTION_NEEDED else Event.PUSHING)
        self._running = self._engine.flows.start(flow(), now_ms, describe="telemetry")
        self._running.on_done(self._over)
        return NEVER_MS

    def _over(self, done: Promise[None]) -> None:
        if done.error is not None and not isinstance(done.error, ENDED):
            self._take(Event.ENDED)
            self._log.error("telemetry stops because of a bug in levada", error=done.error)

    def close(self, now_ms: int, deadline_ms: int) -> Promise[None]:
        """Push for the last time, if the broker subscribes to metrics, and end. Return a promise that is settled at the end.

        deadline_ms: when to give up the last push. A second call returns the same promise.
        """
        if self._last is None:
            self._last = self._engine.flows.start(self._terminate(), now_ms, deadline_ms=deadline_ms, describe="the last telemetry")
            self._last.on_done(self._over)
        return self._last

    def _terminate(self) -> Flow[None]:
        self._take(Event.CLOSING)
        # A request in flight is abandoned.
        if self._running is not None:
            self._engine.flows.cancel(self._running, self._engine.now_ms)
        try:
            if self.state is State.TERMINATING_PUSH_NEEDED:
                self._take(Event.PUSHING)
                yield from self._push(terminating=True)
        finally:
            self._take(Event.ENDED)

    # Asking

    def _subscribe(self) -> Flow[None]:
        reply: GetTelemetrySubscriptionsResponse | None = yield from self._ask(
            GetTelemetrySubscriptionsRequest(client_instance_id=self._id)
        )
        if reply is None:
            return
        self._identify(reply.client_instance_id)
        subscription = Subscription.of(reply)
        if self._subscription is None or self._subscription.temporality is not subscription.temporality:
            self._since = self._beginning
        self._subscription = subscription
        if subscription.metrics:
            self._take(Event.SUBSCRIBED)
            self._wait(int(subscription.interval_ms * self._random.uniform(*JITTER)))
        else:
            self._take(Event.NOTHING_WANTED)
            self._wait(subscription.interval_ms)

    def _identify(self, given: UUID) -> None:
        if self._id == ZERO_ID:
            self._id = given if given != ZERO_ID else UUID(int=self._random.getrandbits(128), version=4)
            self._log.info("the cluster knows this client as %s (client instance id)", self._id)
            self.instance_id.resolve(self._id)

    def _push(self, *, terminating: bool = False) -> Flow[None]:
        subscription = self._subscription
        assert subscription is not None, "a subscription comes before a push"
        at_ms = self._wall_ms()
        values = self._read(self._engine.now_ms)
        codec = subscription.codec(self._codecs)
        told, self._since = self._since, self._next(subscription, values, at_ms)
        reply: PushTelemetryResponse | None = yield from self._ask(
            PushTelemetryRequest(
                client_instance_id=self._id,
                subscription_id=subscription.id,
                terminating=terminating,
                compression_type=codec,
                metrics=self._payload(subscription, codec, values, told, at_ms),
            ),
            # Values that the broker refused are part of the next delta.
            refused=lambda code: self._not_taken(code, codec, told),
        )
        if reply is not None:
            self._take(Event.PUSHED)
            self._wait(subscription.interval_ms)

    def _next(self, subscription: Subscription, values: Mapping[MetricName, float], at_ms: int) -> Counted:
        """Return the totals to subtract in the push after this one. values, at_ms: the metrics of this push, and when they were read."""
        return Counted(totals(values), at_ms) if subscription.temporality is Temporality.DELTA else self._beginning

    def _not_taken(self, code: ErrorCode, codec: int, told: Counted) -> None:
        self._since = told
        if code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
            self._codecs.discard(codec)

    def _payload(self, subscription: Subscription, codec: int, values: Mapping[MetricName, float], since: Counted, at_ms: int) -> bytes:
        """Return the encoded metrics to push, compressed by the codec with this number.

        values: the current metrics. since: the totals to subtract from them. at_ms: when `values` were read, in ms since the epoch. If the
        payload exceeds the broker's limit, metrics of single nodes, topics and partitions are left out.
        """
        found = points(values, subscription, since)
        packed = self._packed(subscription, codec, Payload(found, at_ms, subscription.temporality, self._resource))
        if len(packed) <= subscription.max_bytes:
            return packed
        few = Payload(of_the_client_as_a_whole(found), at_ms, subscription.temporality, self._resource)
        return self._packed(subscription, codec, few)

    def _packed(self, subscription: Subscription, codec: int, payload: Payload) -> bytes:
        data = encode(payload)
        return data if codec == UNCOMPRESSED else self._compress(codec, data)

    def _ask(self, request: Request[Any], refused: Callable[[ErrorCode], None] = lambda code: None) -> Flow[Any]:
        """Send a request and return the response. After an error, change the state and return None.

        refused: called with the error code of a response.
        """
        try:
            reply = yield Call(request, self._whom())
        except ENDED:
            raise
        except UnsupportedVersionError as error:
            if not self.failure:
                self._log.info("the cluster offers no telemetry: %s", error)
            self._fail(str(error), DEFAULT_INTERVAL_MS)
            return None
        except KafkaError as error:
            self._fail(str(error), self._backoff.delay_ms(self._failures) if error.retriable else DEFAULT_INTERVAL_MS)
            self._failures += 1
            return None
        code = ErrorCode.of(reply.error_code)
        if code:
            refused(code)
            self._log.warning("%s was refused: %s", request.NAME, code.name)
            interval_ms = DEFAULT_INTERVAL_MS if self._subscription is None else self._subscription.interval_ms
            self._fail(f"{request.NAME}: {code.name}", pause_ms(code, interval_ms), is_answer=True)
            return None
        self.failure, self._failures = "", 0
        return reply

    def _whom(self) -> ConnectionKey | None:
        """Return the connection to the broker of the last request; if that broker is no longer known or did not respond, to any broker."""
        if self._node is None or not self._engine.network.knows(self._node):
            node = self._engine.network.least_loaded_node(self._engine.now_ms)
            self._node = None if node is None else ConnectionKey(node.id)
        return ANY_NODE if self._node is None else self._node

    def _fail(self, why: str, after_ms: int, *, is_answer: bool = False) -> None:
        self.failure = why
        self._take(Event.FAILED)
        self._wait(after_ms)
        if not is_answer:
            self._node = None

    def _wait(self, ms: int) -> None:
        self._due_ms = min(self._engine.now_ms + ms, NEVER_MS)
