"""A Celery task that writes to Kafka: python examples/celery_worker.py

Without --kafka HOST:PORT, or KAFKA in the environment, it starts the embedded broker. It starts a worker and asks for some tasks, whose
queue is a temporary folder, and shows what they have written. In production, with Redis or RabbitMQ as the queue:

    KAFKA=localhost:9092 CELERY_BROKER=redis://localhost celery --app celery_worker worker
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_process_shutdown

import levada as lv
from levada.testing import EmbeddedKafka

app = Celery("celery_worker", broker=os.environ.get("CELERY_BROKER", "redis://localhost"), backend=os.environ.get("CELERY_RESULTS"))
app.conf.task_acks_late = True  # A task whose worker is killed is done again ...
app.conf.task_reject_on_worker_lost = True  # ... also if only the worker's child process is killed.
if folder := os.environ.get("CELERY_FOLDER"):
    app.conf.broker_transport_options = dict.fromkeys(("data_folder_in", "data_folder_out", "control_folder"), folder)

producer = lv.KafkaProducer(
    # A producer has no thread and no connection before its first call: each process of the worker makes its own, after the fork.
    {"bootstrap.servers": os.environ.get("KAFKA", "localhost:9092"), "request.timeout.ms": 4_000, "delivery.timeout.ms": 10_000}
)


@app.task(bind=True, max_retries=5)  # type: ignore[untyped-decorator]
def bill(task: Any, customer: str, amount: int) -> int:
    """Write a bill, and succeed when all replicas in sync have it. A retry keeps the task's id: readers tell by it what came twice."""
    try:
        headers = {"task": task.request.id}
        return producer.send("bills", str(amount), key=customer, headers=headers).result().offset
    except lv.KafkaError as error:
        if not error.retriable:
            raise
        raise task.retry(exc=error, countdown=min(2.0**task.request.retries, 60.0)) from error


@worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def close(**_: Any) -> None:
    """Write what is not acknowledged yet. Celery's processes end without Python's exit handlers."""
    producer.close(timeout=10)


ASK = """
from celery_worker import bill
tasks = [bill.delay(customer, 7) for customer in ("ann", "bob", "cid")]
print("offsets:", sorted(task.get(timeout=60) for task in tasks))
"""


def main() -> None:
    """Start a worker, ask for tasks, wait for them, and print the bills."""
    options = argparse.ArgumentParser()
    options.add_argument("--kafka", default=os.environ.get("KAFKA"), help="HOST:PORT; default: the embedded broker")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as queue, nullcontext() if given.kafka else EmbeddedKafka(num_partitions=1) as embedded:
        kafka = embedded.bootstrap_servers if embedded else given.kafka
        environment = {"KAFKA": kafka, "CELERY_BROKER": "filesystem://", "CELERY_FOLDER": queue, "CELERY_RESULTS": f"file://{queue}"}
        here: dict[str, Any] = {"cwd": Path(__file__).parent, "env": {**os.environ, **environment}}
        worker = subprocess.Popen([sys.executable, "-m", "celery", "--app", "celery_worker", "worker", "--concurrency", "2"], **here)
        try:
            subprocess.run([sys.executable, "-c", ASK], check=True, **here)
        finally:
            worker.terminate()
            worker.wait()
        for record in lv.scan("bills", bootstrap_servers=kafka):
            print(record.key, record.value, dict(record.headers))


if __name__ == "__main__":
    main()
