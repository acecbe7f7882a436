"""The plugin for pytest, used as users do: every example of docs/PYTEST.md, and what happens to tests that go wrong."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from levada.testing import pytest_plugin

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "PYTEST.md").read_text(), re.S)

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def only_our_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded by its module: an installed levada may be another one, or older than its entry point."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-p {pytest_plugin.__name__} -p no:cacheprovider --strict-markers")


def test_the_examples_of_its_page_pass(pytester: pytest.Pytester) -> None:
    *tests, conftest = EXAMPLES
    pytester.makepyfile(**{f"test_example_{number}": text for number, text in enumerate(tests)})
    pytester.runpytest_inprocess().assert_outcomes(passed=sum(len(re.findall(r"^def test_", text, re.M)) for text in tests))
    assert len(tests) >= 5
    assert conftest.startswith("# conftest.py")


def test_a_conftest_sets_what_brokers_have_in_common(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(EXAMPLES[-1])
    pytester.makepyfile(
        """
        def test_settings(kafka, kafka_cluster, kafka_time):
            for broker in (kafka, kafka_cluster, kafka_time):
                assert not broker.node.settings.auto_create_topics_enable
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_client_that_a_test_leaves_connected_fails_the_test_alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest_plugin, "LEAK_PATIENCE_S", 0.2)
    pytester.makepyfile(
        """
        import levada as lv

        left = []

        def test_leaks(kafka, topic):
            left.append(lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, client_id="forgotten"))
            left[0].send(topic, b"x").result(timeout=10)

        def test_the_next_one(kafka, producer, topic):
            producer.send(topic, b"x").result(timeout=10)
            left.pop().close()
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_leaks*", "*still connected after the test: forgotten*"])


def test_a_client_that_fails_to_close_does_not_keep_others_from_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        closed = []

        def fail(partitions):
            raise ZeroDivisionError("a listener")

        class Noting:
            def __call__(self, data):
                return data

            def close(self):
                closed.append(True)

        def test_fails_to_close(consumer_factory, topic):
            consumer_factory(group_id="g", key_deserializer=Noting())
            last = consumer_factory(group_id="g")
            last.subscribe([topic], on_revoked=fail)
            while not last.assignment():
                last.poll(0.1)

        def test_the_next_one(kafka):
            assert closed == [True]
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_fails_to_close*", "*ZeroDivisionError: a listener*"])


def test_what_a_test_broke_is_whole_for_the_next_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_faults("blackhole")
        def test_faults(kafka):
            kafka.stop_node(1)
            kafka.faults.hold("Metadata")

        def test_the_next_one(producer, consumer, topic):
            producer.send(topic, b"x").result(timeout=10)
            assert len(consumer.poll(timeout=10)) == 1
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=2)


def test_topics_are_named_by_their_test_and_deleted_after_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        names = []

        @pytest.mark.parametrize("what", ["a/b c", "\\u00e9" * 300])
        def test_a_name(kafka, topic, what):
            assert topic.startswith("test_a_name-")
            assert kafka.node.cluster.topic(topic).config.retention_ms == 604_800_000
            names.append(topic)

        def test_all_are_gone(kafka):
            assert len(set(names)) == 2
            assert not kafka.node.cluster.topics
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=3)


def test_wrong_use_is_explained(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_faults("drop_reply", "Produce")
        def test_no_such_fault(kafka):
            pass

        def test_two_brokers(kafka, kafka_cluster, topic):
            pass
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["*'drop_reply' is no fault; did you mean 'drop_response'?*", "*which broker is meant: kafka_cluster, kafka*"],
    )


def test_each_worker_of_xdist_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_alone(producer, consumer, topic, number):
            producer.send(topic, b"%d" % number).result(timeout=10)
            assert [record.value for record in consumer.poll(timeout=10)] == [b"%d" % number]
        """
    )
    pytester.runpytest_subprocess("-p", "xdist", "-n", "2").assert_outcomes(passed=4)


def test_a_run_that_does_not_use_it_loads_nothing_of_levada_but_its_names() -> None:
    program = f"import sys, pytest, {pytest_plugin.__name__}; print(*sorted(name for name in sys.modules if name.startswith('levada')))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert {"levada", "levada.testing", pytest_plugin.__name__} <= loaded
    assert not {name for name in loaded if name.startswith(("levada.broker", "levada.sync", "levada.client", "levada.testing.e"))}


def test_the_wheel_announces_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"levada": pytest_plugin.__name__}
