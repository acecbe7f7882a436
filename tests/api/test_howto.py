"""The programs of docs/howto run as they stand, and print what a reader expects."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = {path.stem: path.read_text() for path in (Path(__file__).parents[2] / "docs" / "howto").glob("*.md")}
PRINTS = {
    "producing": [
        *("callback: orders-0@1", "handle: 0", "refused: no False"),
        *("audit: orders 6 None", "audit: orders -1 None", "offsets: [0, 1, 2]", "sent: 3.0 failed: 0.0"),
    ],
    "transactions": [
        *("dropped: TransactionAbortedError", "invoices: [b'for customer-3', b'for customer-4']"),
        *("10 invoices", "again: no price list yet", "bills: [b'APPLES', b'PEARS', b'PLUMS']"),
    ],
    "ack-buffer": ["safe: 200", "still safe: 200 - failed: 201", "safe in the end: 202"],
    "consuming": ["a poll: True", "in all: 45", "from 3 on: 3 lag 2"],
    "dead-letters": [
        *("orders: [{'pears': 1}, {'pears': 3}]", "dead: b'two pears' from orders 1 JSONDecodeError", "null: None b'two pears'"),
    ],
    "typed-records": [
        """read: b'{"item":"apples","price":2.5,"day":"2026-01-02","note":null}' Order(item='apples', price=2.5,""",
        "refused: it does not fit Order: Expected `float`, got `str` - at `$.price`",
        *("Avro: Order(item='apples', price=2.5, day=datetime.date(2026, 1, 2), note=None)", "JSON Schema: Order(item='apples', "),
    ],
    "no-records": ["why: OPEN_TRANSACTION billing-1", "then: b'paid' AT_END"],
    "scan": ["today: 1000", "of one customer: 100", "of a moment: 1000", "all: 499500"],
    "offsets": ["read: [0, 1, 2, 3]", "not committed: 3", "callback: 5 None", "committed: 5 next: 5"],
    "groups": ["mine: jobs-0 jobs-1", "given up: jobs-1", "second has: jobs-1"],
    "parallel": [
        *("left to do: 0", "dead: [b'order 11']", "committed: 100", "up to the first that is not done: 94", "read again: 94"),
    ],
    "shutdown": ["asked to end\ncommitted: 10", "asked to end, and done: 10"],
    "share-groups": ["worked off: 10", "worked off: 30", "failed: b'ten' delivery 1", "failed: b'ten' delivery 2"],
    "asyncio": ["the last of 100 was written", "100 orders served"],
    "columns": ["['row', 'partition', 'offset', 'error']", "[{'key': 'a', 'value_count': 2}, {'key': 'b', 'value_count': 1}]"],
    "formats": [
        *("polars: [(1, 'apples', 2.5), (2, 'pears', None)]", "pandas: ['apples', 'pears']", "duckdb: [(2.5, 2)]"),
        "consumer: 2 struct<id: int64, item: string, price: double>",
    ],
    "admin": [
        *("['audit'] 3", "{'audit': 'TopicAlreadyExistsError', 'new': None}", "['readers']"),
        *("[TopicPartition(topic='orders', partition=0), TopicPartition(topic='orders', partition=1)]", "0\n"),
        "(0, 13)",
    ],
    "testing": ["decided, not written: []", "refused: TransactionAbortableError", "then: [b'paid', b'paid too']", "[b'first', b'second']"],
    "security": [
        "read: [b'sealed']",
        "it wants a certificate of the client",
        "no authority that is trusted here has signed it",
        "in: []",
        "out: ",
        "users: {'etl': (ScramCredentialInfo(mechanism='SCRAM-SHA-256', iterations=4096),)}",
        "logged in: {'User:etl'}",
        "limits: {ClientQuotaEntity(user=None, client_id='etl', ip=None): {'producer_byte_rate': 50000.0}}",
        "muted: True",
    ],
    "monitoring": [
        "paid: b'pears'",
        """['kafka_producer_producer_topic_metrics_record_send_total{client_id="shop",topic="orders"} 1.0']""",
    ],
    "settings": ["did you mean 'bootstrap.servers'", "acks", "did you mean 'request.timeout.ms'"],
}


def program(page: str) -> str:
    return "".join(re.findall(r"```python\n(.*?)```", PAGES[page], re.S))


@pytest.mark.parametrize("page", PRINTS)
def test_a_program_runs_as_it_stands(page: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program(page))
    run = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert [text for text in PRINTS[page] if text not in run.stdout] == []


def test_every_program_is_run() -> None:
    assert {page for page in PAGES if program(page)} == PRINTS.keys() | {"glue"}, "test_glue_page.py runs that of AWS Glue"
