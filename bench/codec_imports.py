"""How long clients take to import: processor time of a new interpreter, without its start."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

IMPORTS = {
    "levada": "import levada",
    "levada, its APIs loaded": "from levada import KafkaAdmin, KafkaConsumer, KafkaProducer",
    "confluent-kafka": "import confluent_kafka",
    "aiokafka": "import aiokafka",
    "kafka-python": "import kafka",
}
PROGRAM = "import time; before = time.process_time(); {}; print(time.process_time() - before)"


@dataclass
class Import:
    """One client. ms: the best of its rounds."""

    name: str
    ms: float


def measure(rounds: int) -> list[Import]:
    """Import each client in a new process, in turns, from bytecode. The first round may have to write the bytecode."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = [Import(name, float("inf")) for name in IMPORTS]
    for _ in range(max(2, rounds)):
        for each in found:
            command = [sys.executable, "-c", PROGRAM.format(IMPORTS[each.name])]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            each.ms = min(each.ms, round(float(done.stdout) * 1000, 1))
    return found
