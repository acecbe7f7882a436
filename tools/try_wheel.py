"""Use an installed levada as a newcomer would: `python -I tools/try_wheel.py`. Fails unless it is compiled and of this environment."""

from __future__ import annotations

import platform
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import levada as lv
from levada.testing import EmbeddedKafka

RECORDS = 10_000


def main() -> None:
    """Write and read records, and tell."""
    home = Path(lv.__file__).parent
    assert home.is_relative_to(sys.prefix), f"levada comes from {home}"
    compiled = sorted(path for path in home.rglob("*") if path.name.endswith(EXTENSION_SUFFIXES[0]))
    assert compiled, "nothing is compiled"

    with EmbeddedKafka() as kafka:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, compression_type="lz4") as producer:
            deliveries = [producer.send("wheel", key=str(number), value=b"value") for number in range(RECORDS)]
        assert all(delivery.exception() is None for delivery in deliveries)
        records = list(lv.scan("wheel", bootstrap_servers=kafka.bootstrap_servers))
    assert sorted(int(record.key) for record in records) == list(range(RECORDS))

    loaded = [path for path in compiled if ".".join(path.relative_to(home.parent).parts).split(".cpython")[0] in sys.modules]
    assert len(loaded) == len(compiled), f"loaded from source: {[path.name for path in compiled if path not in loaded]}"
    python = platform.python_version()
    print(f"levada {lv.__version__} on Python {python}: {RECORDS} records there and back, {len(compiled)} compiled modules")


if __name__ == "__main__":
    main()
