"""What simulated tests share: a scripted server, and a client on an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from levada.base.clock import NEVER_MS
from levada.base.flow import Call, Flow
from levada.base.promise import Promise
from levada.broker.node.node import BrokerNode
from levada.client.network.connection_key import ConnectionKey
from levada.client.setup.flow import Authenticate
from levada.protocol.frame import RequestFrame, decode_request, encode_response
from levada.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from levada.protocol.schema import Request, Response
from levada.testing import Simulation
from settings_kit import new_engine

HOST, PORT = "kafka", 9092
Handler = Callable[[RequestFrame], Response | bytes | None]
SPOKEN = {0: (3, 12), 3: (0, 12), 18: (0, 4)}


def versions_reply(spoken: dict[int, tuple[int, int]] | None = None, **fields: Any) -> ApiVersionsResponse:
    spoken = SPOKEN if spoken is None else spoken
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in spoken.items()]
    return ApiVersionsResponse(api_keys=keys, **fields)


def one_node(host: str = HOST, port: int = PORT, **fields: Any) -> MetadataResponse:
    broker = MetadataResponseBroker(node_id=1, host=host, port=port)
    return MetadataResponse(**{"brokers": [broker], "cluster_id": "c", "controller_id": 1, **fields})


class ScriptedServer:
    """Answers each API as told; `asked` is what came. A handler returns a response, whole bytes with their size, or None for silence."""

    def __init__(self, handlers: dict[type[Request], Handler] | None = None) -> None:
        self.handlers: dict[type[Request], Handler] = {
            ApiVersionsRequest: lambda frame: versions_reply(),
            MetadataRequest: lambda frame: one_node(),
            **(handlers or {}),
        }
        self.asked: list[RequestFrame] = []
        self.connected: list[int] = []
        self.disconnected: list[int] = []
        self._out: list[tuple[int, bytes | None]] = []

    def connect(self, conn_id: int) -> None:
        self.connected.append(conn_id)

    def disconnect(self, conn_id: int) -> None:
        self.disconnected.append(conn_id)

    def receive(self, conn_id: int, frame: bytes, now_ms: int) -> None:
        request = decode_request(frame)
        self.asked.append(request)
        answer = self.handlers[type(request.request)](request)
        if isinstance(answer, bytes):
            self._out.append((conn_id, answer))
        elif answer is not None:
            self._out.append((conn_id, encode_response(answer, request.version, request.correlation_id)))

    def hang_up(self, conn_id: int) -> None:
        self._out.append((conn_id, None))

    def push(self, conn_id: int, data: bytes) -> None:
        self._out.append((conn_id, data))

    def outgoing(self) -> list[tuple[int, bytes | None]]:
        out, self._out = self._out, []
        return out

    def advance(self, now_ms: int) -> int:
        return NEVER_MS

    def count(self, request_type: type[Request]) -> int:
        return sum(isinstance(frame.request, request_type) for frame in self.asked)


class SimClient:
    """An engine in a simulation."""

    def __init__(self, sim: Simulation, *bootstrap: tuple[str, int], authenticate: Authenticate | None = None, **settings: Any) -> None:
        self.sim = sim
        self.selectable = sim.network.selectable()
        self.engine = new_engine(selectable=self.selectable, bootstrap=bootstrap or [(HOST, PORT)], random=sim.random, **settings)
        self.driver = sim.driver(self.engine, self.selectable, name="tested")
        self.network = self.engine.network
        self.network.setups.authenticate = authenticate
        self.metadata = self.engine.metadata

    def start(self, flow: Flow[Any], within_ms: int = 60_000, describe: str = "the flow") -> Promise[Any]:
        return self.engine.flows.start(flow, self.sim.now_ms, deadline_ms=self.sim.now_ms + within_ms, describe=describe)

    def ask(self, request: Request, node: int | None = None, timeout_s: float = 60, **options: Any) -> Any:
        return self.driver.run(asking(request, node, **options), timeout_s, request.NAME)

    def updated(self, within_ms: int = 60_000) -> bool:
        """Let time pass until the next metadata update is in."""
        return self.sim.run_until(self.metadata.await_update(self.metadata.version), within_ms)


def asking(request: Request, node: int | ConnectionKey | None = None, **options: Any) -> Flow[Any]:
    return (yield Call(request, node, **options))


def broker(sim: Simulation, host: str = HOST, port: int = PORT, **settings: Any) -> BrokerNode:
    """Put the embedded broker's node on the simulated network."""
    node = BrokerNode(host=host, port=port, random=sim.random, **settings)
    sim.network.add_server(node, host, port)
    return node


def server(sim: Simulation, handlers: dict[type[Request], Handler] | None = None) -> ScriptedServer:
    scripted = ScriptedServer(handlers)
    sim.network.add_server(scripted, HOST, PORT)
    return scripted
