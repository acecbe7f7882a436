"""Columns where pyarrow is not installed: every call that needs it says so in the same words."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules["pyarrow"] = None
import levada as lv
from levada.testing import EmbeddedKafka

with EmbeddedKafka(num_partitions=1) as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
    producer.send("t", b"v").result()
    try:
        {call}
    except ImportError as error:
        print(error)
"""
CALLS = {
    "send_arrow": "producer.send_arrow('t', [], value='value')",
    "scan": "lv.scan('t', bootstrap_servers=kafka.bootstrap_servers).to_table()",
}


@pytest.mark.parametrize("call", CALLS)
def test_the_error_says_how_to_get_it(call: str) -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM.replace("{call}", CALLS[call])], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "columns need pyarrow: pip install 'levada[arrow]'\n"
