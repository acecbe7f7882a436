"""What every suite shares: the report header, real Kafka, and the guard against what outlives a test."""

from __future__ import annotations

import gc
import logging
import os
import platform
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from hypothesis import settings

import leftovers
import run_again
from java_kit import SOURCES, JavaProgram
from kafka_cluster import POMS, VERSIONS, KafkaCluster
from kafka_jars import KafkaUnavailable, jars
from real_registry import RealRegistry
from zookeeper_kafka import VERSIONS as ZOOKEEPER_VERSIONS
from zookeeper_kafka import ZookeeperKafka

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "levada"
KEPT_LOGS = ROOT / ".kafka" / "logs"
IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")
INTERPRETED = os.environ.get("LEVADA_PURE", "") not in ("", "0")
AT_FULL_SIZE = os.environ.get("LEVADA_HARDENING", "") not in ("", "0")
UNAVAILABLE = "real Kafka"

# Machines that run several suites at once are slow in bursts; the suite's own time limit is the judge.
settings.register_profile("levada", deadline=None, print_blob=True, max_examples=40)
settings.register_profile("full size", settings.get_profile("levada"), max_examples=100)
settings.load_profile("full size" if AT_FULL_SIZE else "levada")


def pytest_addoption(parser: pytest.Parser) -> None:
    run_again.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    run_again.register(config)
    # A shell script has what it starts with `&` ignore Ctrl-C, programs of tests included, which are to be ended by it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    parts = [f"Python {platform.python_version()}", *(_version_of(name) for name in ("pyarrow", "pyspark", "confluent-kafka"))]
    return [f"levada: {_how_it_runs()}", f"with: {', '.join(parts)}"]


def _version_of(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def _how_it_runs() -> str:
    compiled = sorted(path.name.split(".")[0] for pattern in ("*.so", "*.pyd") for path in SOURCE.rglob(pattern))
    if INTERPRETED or not compiled:
        return "interpreted" + (" (LEVADA_PURE)" if INTERPRETED else "")
    return f"compiled ({', '.join(compiled)})"


class AnyKafka(Protocol):
    """What tests ask of a broker, embedded or real."""

    @property
    def bootstrap_servers(self) -> str: ...

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None: ...


@contextmanager
def _skipped_if_unavailable() -> Iterator[None]:
    try:
        yield
    except KafkaUnavailable as reason:
        if IN_CI:
            pytest.fail(f"{UNAVAILABLE}: {reason}", pytrace=False)
        pytest.skip(f"{UNAVAILABLE}: {reason}")


@contextmanager
def _real_kafka(request: pytest.FixtureRequest, version: str, **arguments: Any) -> Iterator[Any]:
    failed_before = request.session.testsfailed
    with _skipped_if_unavailable():
        cluster = (ZookeeperKafka if version in ZOOKEEPER_VERSIONS else KafkaCluster)(version, **arguments)
    with cluster:
        yield cluster
        if request.session.testsfailed > failed_before:
            request.config.stash.setdefault(KEPT, []).extend(cluster.keep_logs(KEPT_LOGS))


KEPT = pytest.StashKey[list[Path]]()
NOTES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def skipped_if_unavailable() -> Callable[[], AbstractContextManager[None]]:
    """For what Maven fetches: `with skipped_if_unavailable(): ...` skips the test where that is not to be had, and fails it in CI."""
    return _skipped_if_unavailable


@pytest.fixture(scope="session")
def start_real_kafka(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[Any]]:
    """For a cluster with settings of its own: `with start_real_kafka("4.4.0", properties={...}) as cluster`."""
    return lambda version, **arguments: _real_kafka(request, version, **arguments)


def _authority() -> Any:
    from levada.testing import Authority

    return Authority()


@pytest.fixture(scope="session")
def kafka44(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One node of Apache Kafka 4.4.0, shared by the whole run."""
    with _real_kafka(request, "4.4.0", authority=_authority()) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka39(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One node of Apache Kafka 3.9.2, shared by the whole run."""
    with _real_kafka(request, "3.9.2", authority=_authority()) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka44_acls(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One node of Apache Kafka 4.4.0 with an authorizer, shared by the whole run; tests/kits/guarded_kafka.py knows its users."""
    from guarded_kafka import REAL_PROPERTIES

    with _real_kafka(request, "4.4.0", authority=_authority(), properties=REAL_PROPERTIES) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three nodes of Apache Kafka 4.4.0, shared by the whole run. A test that ends one starts it again."""
    with _real_kafka(request, "4.4.0", nodes=3, heap="256m") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def apicurio() -> Iterator[str]:
    """The address of a real registry, shared by the whole run. A test takes subjects that no other has."""
    with _skipped_if_unavailable():
        registry = RealRegistry()
    with registry:
        yield registry.url


REAL = [pytest.param(version, id=f"kafka-{version}", marks=pytest.mark.kafka) for version in VERSIONS]
FIXTURES = {"4.4.0": "kafka44", "3.9.2": "kafka39"}


@pytest.fixture(scope="session", params=REAL)
def real_kafka(request: pytest.FixtureRequest) -> KafkaCluster:
    """Each real version in turn."""
    cluster: KafkaCluster = request.getfixturevalue(FIXTURES[request.param])
    return cluster


@pytest.fixture(
    scope="session",
    params=[pytest.param("embedded"), pytest.param(VERSIONS[0], id=f"kafka-{VERSIONS[0]}", marks=[pytest.mark.kafka, pytest.mark.matrix])],
)
def given_kafka(request: pytest.FixtureRequest) -> KafkaCluster | None:
    """What tests of examples run against: None for an embedded broker of their own, then the newest real version."""
    return request.getfixturevalue(FIXTURES[request.param]) if request.param in FIXTURES else None


@pytest.fixture(scope="session")
def java_program() -> Iterator[Callable[[str, str], JavaProgram]]:
    """A program of tests/java on the jars of a Kafka, started once per run: java_program("Messages", "4.4.0")."""
    with ExitStack() as running:

        @cache
        def start(name: str, version: str) -> JavaProgram:
            with _skipped_if_unavailable():
                program = JavaProgram(SOURCES / f"{name}.java", jars(POMS / f"pom-{version}.xml"))
            return running.enter_context(program)

        yield start


@pytest.fixture(scope="session")
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Add a line to the end of the report: note("809 versions compared")."""
    return request.config.stash.setdefault(NOTES, []).append


@pytest.fixture(scope="session")
def embedded() -> Iterator[AnyKafka]:
    """The broker that comes with levada, shared by the whole run."""
    from levada.testing import EmbeddedKafka

    # As the real brokers of the tests do it (tests/kits/kafka_cluster.py).
    settings: dict[str, Any] = {
        "log_retention_check_interval_ms": 86_400_000,  # Never: some tests write old timestamps.
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
        "group_consumer_heartbeat_interval_ms": 200,
        "group_share_heartbeat_interval_ms": 200,
    }
    with EmbeddedKafka(**settings) as kafka:
        yield cast(AnyKafka, kafka)


@pytest.fixture(scope="session", params=[pytest.param("embedded"), *REAL])
def any_kafka(request: pytest.FixtureRequest) -> AnyKafka:
    """The embedded broker, then each real version: one suite for all."""
    kafka: AnyKafka = request.getfixturevalue(FIXTURES.get(request.param, "embedded"))
    return kafka


_numbers = count(1)


@pytest.fixture
def new_topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Create a topic with a name of its own: new_topic(kafka, partitions=1, config=None) -> name."""

    def create(kafka: AnyKafka, partitions: int = 1, config: Mapping[str, Any] | None = None) -> str:
        name = f"{request.function.__name__.removeprefix('test_')[:80]}-{next(_numbers)}"
        kafka.create_topic(name, partitions, config)
        return name

    return create


GUARDED = {"unit", "sim", "api", "interop"}
SHARING_A_BROKER = {"api", "interop"}


@pytest.fixture(autouse=True)
def nothing_outlives_the_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves something behind: a thread, a socket, a task of levada, memory of a closed producer."""
    folder = request.path.relative_to(ROOT / "tests").parts[0]
    if folder not in GUARDED or request.node.get_closest_marker("spark"):
        yield
        return
    if folder in SHARING_A_BROKER:
        # Whichever test asks for it first, it is not that test's.
        request.getfixturevalue("embedded")
    with leftovers.watched(tasks=not request.node.get_closest_marker("drops_clients")):
        yield


@pytest.fixture(autouse=True)
def the_log_is_as_in_a_new_process() -> Iterator[None]:
    """The command line sets up the log of its process. What ran it in this one, another test or an import, must not change what is seen."""
    forget_the_set_up_of_the_log()
    yield
    forget_the_set_up_of_the_log()


def forget_the_set_up_of_the_log() -> None:
    log = logging.getLogger("levada")
    log.handlers[:] = []
    log.setLevel(logging.NOTSET)


@pytest.fixture(scope="module", autouse=True)
def little_is_left_to_the_garbage_collector() -> None:
    """Keep out of its way what is there by now, which is mostly there to the end: all tests, parsed sources, the classes of peers.

    A collection stops all threads, among them a broker's and its members'. Over millions of objects it took five seconds on a busy machine,
    as long as a member's session.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Find the tests without the garbage collector: nothing of them is garbage, and it would look at all of them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


# In parallel (pytest -n 2 --dist loadgroup): what belongs to one group runs in one worker.


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.config.pluginmanager.hasplugin("xdist"):
        item.add_marker(pytest.mark.xdist_group(_group_of(item)))


def _group_of(item: pytest.Item) -> str:
    """All of one real Kafka together, so that it starts once, the same for a Spark session, and as much of a file as is left.

    The real registry starts once, too: it goes with the Kafka that some of its tests use.
    """
    if item.get_closest_marker("spark"):
        sessions = ("connector", "spark")
        used = [name for name in sessions if name in getattr(item, "fixturenames", ())]
        return f"spark-{used[0]}" if used else item.path.relative_to(ROOT).as_posix()
    # A test on both APIs has the API and the broker in one parameter.
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    parameters = {part for value in values for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, str)}
    parameters.update(getattr(item, "fixturenames", ()))
    for release, fixture in FIXTURES.items():
        if parameters & {release, fixture} or (release == VERSIONS[0] and "apicurio" in parameters):
            return f"kafka-{release}"
    if "kafka44_acls" in parameters:
        return "kafka-acls"
    if "kafka_cluster" in parameters:
        return "kafka-cluster"
    # These parse the whole source, once per process (tests/kits/source_tree.py).
    if item.path.parent.name == "architecture":
        return "architecture"
    return item.path.relative_to(ROOT).as_posix()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what the report ends with from a worker to the process that writes the report."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["notes"] = session.config.stash.get(NOTES, [])
        output["kept"] = [str(path) for path in session.config.stash.get(KEPT, [])]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})
    node.config.stash.setdefault(NOTES, []).extend(output.get("notes", []))
    node.config.stash.setdefault(KEPT, []).extend(map(Path, output.get("kept", [])))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _leave_out_the_matrix(config, items)
    # PySpark's gateway opens sockets when it likes and takes over Ctrl-C, so its session begins when all other tests are done.
    items.sort(key=lambda item: item.path.parent.name == "spark")


def _leave_out_the_matrix(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Thirteen brokers and Spark clusters take minutes: they are for who asks for them, with -m matrix."""
    if "matrix" in config.option.markexpr:
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (left_out if item.get_closest_marker("matrix") else kept).append(item)
    if left_out:
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reasons = [_skip_reason(report) for report in terminalreporter.getreports("skipped")]
    missing = sorted({reason for reason in reasons if UNAVAILABLE in reason})
    if missing:
        number = sum(UNAVAILABLE in reason for reason in reasons)
        terminalreporter.write_line(f"{UNAVAILABLE}: {number} tests skipped because {'; '.join(_bare(reason) for reason in missing)}")
    for line in config.stash.get(NOTES, []):
        terminalreporter.write_line(line)
    for path in config.stash.get(KEPT, []):
        terminalreporter.write_line(f"log of a failed run: {path}")


def _skip_reason(report: pytest.TestReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else ""


def _bare(reason: str) -> str:
    return reason.partition(f"{UNAVAILABLE}: ")[2]
