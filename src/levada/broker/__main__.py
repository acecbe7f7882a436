"""python -m levada.broker: a broker in the foreground, until Ctrl-C. `levada broker`, in the extra cli, also has TLS and users."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from levada.broker.foreground import Listening, properties, serve, setting
from levada.errors import KafkaError


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM and return 0. If the broker cannot start, or cannot store its data at the end, print one sentence on
    stderr and return 1.
    """
    options = _parser().parse_args(arguments)
    listening = Listening(options.host, options.port, insecure=options.insecure_listen)
    try:
        given = {} if options.properties is None else properties(options.properties)
        serve(listening, options.data_dir, {**given, **dict(setting(text) for text in options.set)}, _tell)
    except KafkaError as error:
        print(f"levada broker: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        _tell("ended")
    return 0


def _tell(text: str) -> None:
    print(f"levada broker: {text}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m levada.broker", description="A Kafka broker for tests and development.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=9092, help="port to listen on, 0 for any free one (default: %(default)s)")
    parser.add_argument(
        "--data-dir", metavar="FOLDER", help="store everything in this folder, and continue with it at the next start (default: in memory)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a broker setting, such as num.partitions=4 or node.id=0"
    )
    parser.add_argument(
        "--properties", metavar="FILE", help="a file with broker settings, like Kafka's server.properties; --set overrides it"
    )
    parser.add_argument("--insecure-listen", action="store_true", help="allow a --host that other machines reach, without authentication")
    return parser


def _port(text: str) -> int:
    # The system would cut a larger number to 16 bits, and the broker would listen on another port.
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; ports go from 0 (any free one) to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
