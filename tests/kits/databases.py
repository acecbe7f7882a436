"""A MariaDB and a PostgreSQL of the test's own, each in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_cluster import die_with_parent, free_ports

PATIENCE_S = 60
USER = "nobody"
"""Servers of databases refuse to run as root. Where tests run as root, they run as this user."""
TABLES = ("customers", "orders", "payments")
CREATE = """
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(200) NOT NULL, change_no INT NOT NULL);
CREATE TABLE orders (shop INT, number INT, customer INT NOT NULL, amount DECIMAL(10, 2), note VARCHAR(200), change_no INT NOT NULL,
    PRIMARY KEY (shop, number));
CREATE TABLE payments (id INT PRIMARY KEY, amount DECIMAL(10, 2), paid TIMESTAMP NULL, change_no INT NOT NULL)
"""


class Database:
    """A running server."""

    program: str
    packages: Sequence[str]
    example: str
    schema: str
    """The first part of its topics' names."""
    url: str
    """What the example connects to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self.url = self.url.format(port=self.port)
        self._prepare()
        self._process = self._run(*self._serve(), wait=False)
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                with closing(self.connect(first=True)) as connection, closing(connection.cursor()) as cursor:
                    for statement in self._set_up():
                        cursor.execute(statement)
                return
            except Exception:
                if time.monotonic() > deadline_s or self._process.poll() is not None:
                    raise AssertionError((folder / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self) -> None:
        """End the server at once."""
        self._process.send_signal(signal.SIGQUIT if self.example == "postgres" else signal.SIGKILL)
        self._process.wait()

    def _run(self, *command: str | Path, wait: bool = True) -> subprocess.Popen[bytes]:
        as_user: dict[str, Any] = {"user": USER, "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent, **as_user
            )
        if wait and process.wait(PATIENCE_S) != 0:
            raise AssertionError((self.folder / "log").read_text())
        return process

    def begin(self, reader: str) -> None:
        """Empty the tables for a reader that has not run yet."""
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            for statement in self._preparations(reader):
                cursor.execute(statement)
            connection.commit()

    def execute(self, statement: str) -> None:
        """Execute a statement that has no result."""
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(statement)
            connection.commit()

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()]

    def connect(self, *, first: bool = False) -> Any:
        raise NotImplementedError

    def stored(self, folder: Path, name: str) -> tuple[Any, ...]:
        """Return the position that a reader has stored, which runs in a folder and has a name: not more than that of the next change."""
        raise NotImplementedError

    def _prepare(self) -> None:
        raise NotImplementedError

    def _serve(self) -> list[str | Path]:
        raise NotImplementedError

    def _set_up(self) -> list[str]:
        raise NotImplementedError

    def _preparations(self, reader: str) -> list[str]:
        return [f"TRUNCATE TABLE {table}" for table in TABLES]


class MariaDb(Database):
    program, packages, example, schema = "mariadbd", ("pymysql", "pymysqlreplication"), "binlog", "shop"
    url = "mysql://reader:secret@127.0.0.1:{port}/shop"

    def connect(self, *, first: bool = False) -> Any:
        import pymysql

        where: dict[str, Any] = (
            {"unix_socket": str(self.folder / "socket")} if first else {"host": "127.0.0.1", "port": self.port, "database": "shop"}
        )
        return pymysql.connect(user="root" if first else "writer", password="" if first else "secret", **where)

    def stored(self, folder: Path, name: str) -> tuple[Any, ...]:
        path = folder / f"{name}.position"
        return tuple(json.loads(path.read_text())) if path.exists() else ()

    def _prepare(self) -> None:
        self._run(
            found("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )

    def _serve(self) -> list[str | Path]:
        where = (
            f"--datadir={self.folder / 'data'}",
            f"--socket={self.folder / 'socket'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
        )
        # Small files, so that the log rotates often.
        log = ("--log-bin=binlog", "--server-id=1", "--binlog-format=ROW", "--binlog-row-metadata=FULL", "--max-binlog-size=65536")
        return [found("mariadbd"), "--no-defaults", *where, *log, "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"]

    def _set_up(self) -> list[str]:
        users = [
            "CREATE USER reader IDENTIFIED BY 'secret'",
            "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO reader",
            "CREATE USER writer IDENTIFIED BY 'secret'",
            "GRANT ALL ON *.* TO writer",
        ]
        return [*users, "CREATE DATABASE shop", "USE shop", *CREATE.split(";")]


class Postgres(Database):
    program, packages, example, schema = "postgres", ("psycopg",), "postgres", "public"
    url = "postgresql://writer@127.0.0.1:{port}/postgres"

    def connect(self, *, first: bool = False) -> Any:
        import psycopg

        return psycopg.connect(self.url, autocommit=first)

    def stored(self, folder: Path, name: str) -> tuple[Any, ...]:
        rows = self.query(f"SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = '{name}'")
        return rows[0] if rows else ()

    def _prepare(self) -> None:
        self._run(found("initdb"), "--pgdata=data", "--username=writer", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")

    def _serve(self) -> list[str | Path]:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "wal_level": "logical",
            "fsync": "off",
            "synchronous_commit": "off",
            "shared_buffers": "32MB",
        }
        return [found("postgres"), "-D", "data", *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))]

    def _set_up(self) -> list[str]:
        return CREATE.split(";")

    def _preparations(self, reader: str) -> list[str]:
        return [*super()._preparations(reader), f"CREATE PUBLICATION {reader} FOR ALL TABLES"]


def found(program: str) -> Path:
    """Return the path of a program. Debian does not have all of them in PATH."""
    folders = [*os.environ["PATH"].split(":"), "/usr/sbin", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))]
    path = shutil.which(program, path=":".join(folders))
    if path is None:
        pytest.skip(f"{program} is missing (`make test-examples` installs it)")
    return Path(path)


def each_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Run the server of a fixture whose parameters are EACH."""
    with running(request.param) as database:
        yield database


EACH = [pytest.param(MariaDb, id="mariadb"), pytest.param(Postgres, id="postgresql")]
"""Each kind of server, as parameters of a fixture."""


@contextmanager
def running(kind: type[Database]) -> Iterator[Database]:
    """Run a server. Skips the test if the server or a package is missing."""
    for package in kind.packages:
        pytest.importorskip(package, reason=f"the package {package} is missing (`make test-examples` installs it)")
    found(kind.program)
    folder = Path(tempfile.mkdtemp(prefix="levada-database-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        database = kind(folder)
        try:
            yield database
        finally:
            database.stop()
    finally:
        shutil.rmtree(folder)
