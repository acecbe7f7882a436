"""Log lines of tasks name the query, the micro-batch and the task."""

from __future__ import annotations

import io
import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import TaskContext

from levada import KafkaAdmin
from levada.spark import clients
from levada.spark import task as spark_task
from levada.spark.task import log_with_task, tell, with_task
from spark_sink import close_idle

STREAMING = {"sql.streaming.queryId": "q-1", "spark.jobGroup.id": "r-1", "streaming.sql.batchId": "7"}
BATCH = {"spark.jobGroup.id": "whatever"}


def task(properties: dict[str, str]) -> Any:
    return SimpleNamespace(stageId=lambda: 4, partitionId=lambda: 2, attemptNumber=lambda: 1, getLocalProperty=properties.get)


def in_worker(monkeypatch: pytest.MonkeyPatch, properties: dict[str, str] | None) -> None:
    """Remove all logging setup, as in a Spark worker. properties: local properties of the current task; None outside of a task."""
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.getLogger("levada"), "handlers", [])
    monkeypatch.setattr(logging, "_logRecordFactory", logging.LogRecord)
    monkeypatch.setattr(TaskContext, "get", lambda: None if properties is None else task(properties))
    log_with_task()
    log_with_task()


def test_a_warning_of_a_client_names_query_batch_and_task(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    in_worker(monkeypatch, STREAMING)
    logging.getLogger("levada.consumer.fetch.fetcher").warning("slow %s", "node")
    line = capsys.readouterr().err
    assert line.endswith("WARNING levada.consumer.fetch.fetcher [query_id=q-1 run_id=r-1 batch_id=7 task=4.2.1] slow node\n")
    assert line.count("\n") == 1


def test_a_batch_query_has_no_ids_but_the_tasks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    in_worker(monkeypatch, BATCH)
    logging.getLogger("levada.x").warning("hm")
    assert "[task=4.2.1] hm" in capsys.readouterr().err
    in_worker(monkeypatch, None)
    logging.getLogger("levada.x").warning("between tasks")
    assert "WARNING levada.x between tasks" in capsys.readouterr().err


def test_only_warnings_are_written_and_only_where_nobody_else_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_worker(monkeypatch, STREAMING)
    monkeypatch.setattr(logging.getLogger("levada"), "level", logging.DEBUG)
    logging.getLogger("levada.x").info("quiet")
    logging.getLogger("elsewhere").handle(logging.makeLogRecord({"msg": "not ours", "levelno": logging.DEBUG}))
    logging.root.handlers.append(caplog.handler)
    logging.getLogger("levada.x").warning("loud")
    assert capsys.readouterr().err == ""
    (record,) = caplog.records
    assert vars(record)["context"] == {"query_id": "q-1", "run_id": "r-1", "batch_id": "7", "task": "4.2.1"}


def test_nobody_is_told_of_brokers_that_an_idle_client_cannot_reach(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_worker(monkeypatch, BATCH)
    log = logging.getLogger("levada.client.network.network_client")
    monkeypatch.setattr(clients, "_idle", {})
    with clients.reused_consumer({"bootstrap.servers": "127.0.0.1:1"}):
        log.warning("in a task")
    log.warning("between tasks")
    close_idle()
    lines = capsys.readouterr().err
    assert "in a task" in lines
    assert "between tasks" not in lines


def test_a_handler_before_levadas_has_the_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    in_worker(monkeypatch, BATCH)
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(logging.Formatter("%(task)s|%(context)s|%(message)s"))
    monkeypatch.setattr(logging.getLogger("levada.spark"), "handlers", [handler])
    logging.getLogger("levada.spark.schema").warning("hello")
    assert lines.getvalue() == "task=4.2.1|{'task': '4.2.1'}|hello\n"


def test_a_programs_own_factory_stays_and_records_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(logging.LogRecord):
        pass

    in_worker(monkeypatch, BATCH)
    monkeypatch.setattr(logging, "_logRecordFactory", with_task(Own))
    ours, other = (logging.getLogger(name).makeRecord(name, logging.INFO, "", 0, "", (), None) for name in ("levada", "levadas"))
    assert isinstance(ours, Own)
    assert vars(ours)["task"] == "task=4.2.1"
    assert not {"task", "context"} & vars(other).keys()


def test_a_line_is_written_though_a_program_has_put_its_own_factory_in_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_worker(monkeypatch, BATCH)
    logging.setLogRecordFactory(logging.LogRecord)
    logging.getLogger("levada.x").warning("hm")
    assert "levada.x hm" in capsys.readouterr().err


def test_outside_of_a_task_a_line_may_have_a_context_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    in_worker(monkeypatch, None)
    record = logging.getLogger("levada.x").makeRecord("levada.x", logging.INFO, "", 0, "", (), None, extra={"context": {"query_id": "q"}})
    assert (vars(record)["context"], vars(record)["task"]) == ({"query_id": "q"}, "")


def test_what_a_user_should_see_is_written_where_logging_is_not_set_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_worker(monkeypatch, None)
    tell(logging.getLogger("levada.spark.x"), "topic %s", "paid")
    assert capsys.readouterr().err.endswith(" INFO levada.spark.x topic paid\n")


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_what_a_user_should_see_is_logged_at_info_where_logging_is_set_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    in_worker(monkeypatch, None)
    logging.root.handlers.append(caplog.handler)
    caplog.set_level(level, "levada")
    tell(logging.getLogger("levada.spark.x"), "topic %s", "paid")
    assert capsys.readouterr().err == ""
    assert [record.getMessage() for record in caplog.records] == (["topic paid"] if level == logging.INFO else [])


def test_a_program_that_wants_fewer_lines_is_not_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    in_worker(monkeypatch, None)
    monkeypatch.setattr(logging.getLogger("levada"), "level", logging.ERROR)
    tell(logging.getLogger("levada.spark.x"), "topic %s", "paid")
    assert capsys.readouterr().err == ""


def test_a_warning_about_settings_is_written_once_however_many_clients_have_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_worker(monkeypatch, None)
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"}
    for _ in range(2):
        KafkaAdmin({"bootstrap_servers": "127.0.0.1:1", **login}).close()
    logging.getLogger("levada.api.logins").warning("another one")
    lines = capsys.readouterr().err
    assert lines.count("everybody on the way can read the password") == 1
    assert "another one" in lines


def test_a_worker_freezes_what_it_has_loaded_and_not_without_end(monkeypatch: Any) -> None:
    freezes: list[None] = []
    monkeypatch.setattr(spark_task, "_is_worker", lambda: True)
    monkeypatch.setattr(spark_task, "_modules", [])
    monkeypatch.setattr("gc.freeze", lambda: freezes.append(None))
    for _ in range(3):
        spark_task.begin_task()
    assert len(freezes) == 1
    for number in range(2 * spark_task.FREEZES):
        monkeypatch.setitem(sys.modules, f"module_{number}", sys)
        spark_task.begin_task()
    assert len(freezes) == spark_task.FREEZES
