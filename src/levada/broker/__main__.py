"""python -m levada.broker: a broker in the foreground, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from random import SystemRandom
from typing import Any

from levada.broker.node import BrokerNode
from levada.broker.server import BrokerServer
from levada.errors import KafkaError


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM and return 0; 1 with one sentence on stderr when it cannot start."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _serve(options)
    except KafkaError as error:
        print(f"levada broker: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("levada broker: ended", flush=True)
    return 0


def _serve(options: argparse.Namespace) -> None:
    settings: dict[str, Any] = dict(_setting(text) for text in options.set)
    node = BrokerNode(random=SystemRandom(), **settings)
    server = BrokerServer(node, host=options.host, port=options.port, insecure_listen=options.insecure_listen)
    try:
        server.start()
        print(f"levada broker: listening on {server.address}, everything in memory; Ctrl-C ends it", flush=True)
        server.wait()
    finally:
        server.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m levada.broker", description="A Kafka broker for tests and development, in memory.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=9092, help="port to listen on, 0 for any free one (default: %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a broker setting, such as num.partitions=4")
    parser.add_argument("--insecure-listen", action="store_true", help="allow a --host that other machines reach, without authentication")
    return parser


def _port(text: str) -> int:
    # Beyond its 16 bits the system takes what is left of the number, and the broker would listen on another port.
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; ports go from 0 (any free one) to 65535")
    return int(text)


def _setting(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    words = {"true": True, "false": False}
    typed: object = int(value) if value.lstrip("-").isdigit() else words.get(value.lower(), value)
    return name.strip().replace(".", "_"), typed


if __name__ == "__main__":
    sys.exit(main())
