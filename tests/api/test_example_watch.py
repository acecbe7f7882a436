"""examples/watch_clients.py: scraped while it works, with JSON in its log, and ended by SIGTERM."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import levada as lv
from example_programs import broker
from kafka_cluster import KafkaCluster

PROGRAM = Path(__file__).parents[2] / "examples" / "watch_clients.py"
PATIENCE_S = 30
READ = 'kafka_consumer_consumer_fetch_manager_metrics_records_consumed_total{client_id="worker-in"} 3.0'
SENT = 'kafka_producer_producer_topic_metrics_record_send_total{client_id="worker-out",topic="orders.done"} 3.0'


def test_a_worker_can_be_watched(given_kafka: KafkaCluster | None) -> None:
    with broker(given_kafka, 1) as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in (b"1", b"2", b"3"):
            producer.send("orders", value).result(PATIENCE_S)
        command = [sys.executable, str(PROGRAM), kafka.bootstrap_servers, "orders", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None and worker.stderr is not None
            url = worker.stdout.readline().split()[-1]
            with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
                done = lv.TopicPartition("orders.done", 0)
                consumer.assign([done])
                consumer.seek_to_beginning([done])
                values: set[bytes | None] = set()
                while len(values) < 3:
                    values |= {record.value for record in consumer.poll(PATIENCE_S)}
            with urlopen(url, timeout=PATIENCE_S) as answer:
                metrics = answer.read().decode().splitlines()
            worker.send_signal(signal.SIGTERM)
            log = worker.stderr.read()
            assert worker.wait(PATIENCE_S) == 0, log
    assert values == {b"1", b"2", b"3"}
    assert READ in metrics and SENT in metrics
    for line in log.splitlines():
        assert json.loads(line)["kafka_client_id"] in ("worker-in", "worker-out")
