# make demo    three million flights through Kafka and Spark and back, every value verified; COMPARE=1 for Spark's own connector beside it,
#              KILL=1 for a driver that is killed in mid-batch
# make test    lint, then the whole suite, then the compiled modules' tests once more interpreted
# make test-hardening   the rows of the fault matrix about bad bytes and refused logins, at full size, with a table of figures, then
#              what draws its examples at random, with all of them
# make test-spark-matrix   500 generated queries, and streams and writes, beside Spark's own connector; Kafka 2.8, PySpark 4.0 to 4.2, a cluster, Connect
# make test-matrix   every Kafka from 0.8.2 to 4.4 for real, one after another, and one with a plugin for telemetry
# make test-faults   three nodes of Kafka killed, paused, cut off and filled up under load, librdkafka's mock cluster, and what takes long
#              of transactions in virtual time, with figures
# make test-examples   programs of examples/ on the embedded broker and a real Kafka; with MariaDB and PostgreSQL killed thirty times under load, with figures
# make test-release   the five above and make dist, one after another, about two hours: what a release has to pass beside make test
# make soak    simulated runs with faults, 10,000 seeds; SEEDS=, FROM=, HOURS=, or SEED= for one; GROUPS=1 for those of groups
# make test-sink-model   Spark's exactly-once sink in a model: all schedules with few faults and WALKS= (500,000) random ones for each variant,
#              and a mutant for each rule of the protocol, with a table
# make test-spark-faults   processes of a real Spark die at every step of the exactly-once sink, ROUNDS= (1) times, on three brokers, and drivers and
#              executors in mid-batch, beside the at-least-once sink and Spark's own connector; with tables
# make fuzz    atheris on everything that reads bytes from the network, for FUZZ_SECONDS (600)
# make bench-consume   every way of reading, and groups, beside other clients and Java's performance tool, on a real Kafka, with targets
# make bench-produce   every way of producing beside other clients and Java's performance tool, on a real Kafka, with targets
# make bench-ack   what an acknowledgement costs: AckBuffer beside a dict and a heap, ack= beside a callback per record
# make bench-codec   levada's codecs beside other clients', without a broker, in an environment of their own
# make bench-engine   what a request and a send cost beside other clients, on a real Kafka, with targets
# make bench-cli   the command line beside kcat and the library, on a real Kafka, with targets
# make bench-tls   what TLS costs readers and senders beside confluent-kafka, on a real Kafka, with targets
# make bench-spark   Spark through levada beside Spark's own connector, on a real Kafka, with targets
# make kafka   a real Kafka 4.4 on port 9092 until Ctrl-C
# make docs    the pages of docs/ that are made from the source and the tests
# make site    the documentation as a site, in build/site, with the chart of the last `make demo`, which it runs if there is none
# make dist    source archive and wheels for Linux in dist/, tried in bare environments, some of them under qemu; PYTHONS="3.11 3.14" and
#              PLATFORMS="manylinux_2_17_x86_64" for some of them
# make messages   fetch Kafka's message schemas (make schemas) and write the declarations in src/levada/protocol from them
#
# Each sets up what it needs in .venv; the second time that takes no time.

SHELL := /bin/bash
# Compiled modules are kept, whatever the caller's environment says: tests start hundreds of processes, each of which would compile all it imports.
export PYTHONDONTWRITEBYTECODE :=
.DELETE_ON_ERROR:
.PHONY: setup jars demo test suite interpreted test-sink-model test-hardening test-faults test-release soak test-matrix test-examples databases test-spark-matrix test-spark-faults fuzz fuzzer bench-consume bench-produce bench-ack bench-codec bench-engine bench-cli bench-tls bench-spark kafka kerberos docs site schemas messages dist lint format clean

PYTHON ?= python3
BIN := .venv/bin
IN_VENV = PATH="$(CURDIR)/$(BIN):$$PATH" JAVA_HOME="$$(cat .venv/java-home)"

COMPILED := $(shell find src -name '*.pxd')
SOURCES := setup.py $(COMPILED) $(COMPILED:.pxd=.py)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

setup: .venv/built .venv/java-home

.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "levada needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Creating .venv ..."
	@$(PYTHON) -m venv .venv
	@touch $@

# Build tools first, by the same constraints: no build runs in an isolated environment with versions of its own.
.venv/installed: .venv/created constraints.txt pyproject.toml
	@echo "Installing the pinned packages, which takes a minute or two ..."
	@$(PIP) pip setuptools wheel Cython
	@LEVADA_PURE=1 $(PIP) --no-build-isolation --group dev -e '.[arrow,spark,cli]'
	@touch $@

.venv/built: .venv/installed $(SOURCES)
	@echo "Compiling the hot modules ..."
	@$(PIP) --no-build-isolation --no-deps -e .
	@touch $@

.venv/java-home: .venv/created tools/java.sh
	@tools/java.sh > $@

demo: setup
	@$(IN_VENV) PYTHONPATH=tests/kits $(BIN)/python demo

# Two at a time: what waits for packages and for jars, then what keeps one core busy. In CI twenty seconds of fuzzing are part of the suite,
# where its tool is to be had.
test:
	@$(MAKE) --no-print-directory -j2 setup jars
	@$(MAKE) --no-print-directory -j2 lint .venv/rewritten $(if $(CI),fuzzer)
	@$(MAKE) --no-print-directory suite interpreted

# Without them the first tests wait for Maven, or say that they cannot have them.
jars: .venv/java-home
	@JAVA_HOME="$$(cat .venv/java-home)" $(PYTHON) tests/kits/fetch_jars.py || true

# Before it runs a test for the first time, pytest rewrites the asserts of all files, which takes as long as finding the tests in them. It does
# so once here, not once in each worker.
.venv/rewritten: .venv/built
	@$(BIN)/pytest --collect-only -qq > /dev/null || true
	@touch $@

# Most of the suite waits for brokers, so that four workers keep two cores busy; Spark, and the interpreted modules, do so with two.
WORKERS ?= 4
BUSY_WORKERS = $(if $(filter 1,$(WORKERS)),1,2)

# Where tests of Spark stand: each worker looks through all files that it is given.
SPARK_TESTS := tests/spark

# PySpark takes over signals and opens sockets when it likes, so its tests have a process of their own.
suite:
	$(IN_VENV) $(BIN)/pytest --run-failed-again --durations=20 --durations-min=4 -m "not spark" -n $(WORKERS) --dist loadgroup
	$(IN_VENV) $(BIN)/pytest --run-failed-again --durations=20 --durations-min=4 -m spark -n $(BUSY_WORKERS) --dist loadgroup $(SPARK_TESTS)

interpreted:
	$(IN_VENV) LEVADA_PURE=1 $(BIN)/pytest --run-failed-again -n $(BUSY_WORKERS) tests/unit/wire tests/unit/record tests/unit/ack_buffer tests/unit/formats

test-hardening: setup
	@LEVADA_HARDENING=1 $(BIN)/pytest -m hardening tests/hardening tests/fuzz
	@LEVADA_HARDENING=1 $(BIN)/pytest -m "hypothesis and not spark" tests/unit tests/sim tests/spark tests/api/test_registry_serializers.py
	@$(IN_VENV) LEVADA_HARDENING=1 $(BIN)/pytest tests/interop/test_java_messages.py

# ROUNDS: how often a process ends at each step, on each broker; MINUTES: how long one is struck all the time on three nodes.
test-spark-faults: setup
	@$(IN_VENV) LEVADA_STRIKE_ROUNDS=$(or $(ROUNDS),1) LEVADA_STRIKE_MINUTES=$(or $(MINUTES),2) $(BIN)/pytest -m matrix $(EXACTLY_ONCE)

EXACTLY_ONCE := $(wildcard tests/spark/test_exactly_once*.py)

test-faults: setup
	$(IN_VENV) $(BIN)/pytest -m matrix tests/faults $(BEYOND_CLUSTERS)

BEYOND_CLUSTERS := tests/interop/test_librdkafka_mock.py tests/interop/test_real_kafka_itself.py $(addprefix tests/sim/,test_a_day.py test_transactions.py test_transaction_error_codes.py test_group_error_codes.py test_group_chaos.py test_producer_nemesis.py)

soak: setup
	@PYTHONPATH=tests/kits $(BIN)/python tests/soak $(if $(GROUPS),--groups) $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FROM),--from $(FROM)) $(if $(HOURS),--hours $(HOURS))

# ONLY: a part of the names of variants and rules.
test-sink-model: setup
	@$(BIN)/python -m tests.spark.model $(if $(WALKS),--walks $(WALKS)) $(if $(ONLY),--only "$(ONLY)")

FUZZ_SECONDS ?= 600

fuzz: setup .venv/fuzzer
	@PYTHONPATH=tests/kits $(BIN)/python tests/fuzz --seconds $(FUZZ_SECONDS)

.venv/fuzzer: .venv/installed
	@$(PIP) --group fuzz
	@touch $@

fuzzer: .venv/installed
	@$(MAKE) --no-print-directory .venv/fuzzer || echo "atheris is not to be had here: nothing beyond the corpus is fuzzed" >&2

# What a ticket server for tests needs. gssapi is built against MIT Kerberos, which is a system's package.
kerberos: .venv/installed
	@command -v krb5-config > /dev/null || { apt-get -q update && apt-get -q -y install krb5-kdc krb5-admin-server krb5-user libkrb5-dev; } > /dev/null
	@$(PIP) gssapi k5test

test-matrix: setup kerberos
	$(IN_VENV) $(BIN)/pytest tests/api/test_kerberos.py
	$(IN_VENV) $(BIN)/pytest -m matrix tests/interop/test_old_brokers.py tests/interop/test_telemetry_java.py tests/interop/test_admin_on_three_nodes.py tests/interop/test_group_handover.py tests/interop/test_java_records.py tests/interop/test_log_segments.py tests/api/test_transactions_page.py

# Tests start servers of their own, with data in a temporary folder; the ones that Debian may start are not used.
databases: .venv/installed
	@ls /usr/sbin/mariadbd /usr/lib/postgresql/*/bin/postgres > /dev/null 2>&1 || { apt-get -q update && apt-get -q -y install mariadb-server postgresql; } > /dev/null
	@$(PIP) --group examples

test-examples: setup databases
	$(IN_VENV) $(BIN)/pytest -m "matrix or not matrix" $(wildcard tests/api/test_example_*.py tests/spark/test_example_*.py)

OLDER_SPARKS := 4.0.1 4.1.4 4.2.1

test-spark-matrix: setup $(foreach version,$(OLDER_SPARKS),.venv-spark-$(version)/installed)
	@$(IN_VENV) LEVADA_SPARK_SEEDS=500 $(BIN)/pytest -m "spark or matrix" $(BESIDE)
	$(IN_VENV) $(BIN)/pytest -m matrix tests/spark/test_spark_cluster.py tests/spark/test_spark_connect.py
	$(foreach version,$(OLDER_SPARKS),$(call on_spark,$(version)) $(ON_EACH_SPARK) && ) true
	$(call on_spark,4.2.1) -m spark $(BESIDE) tests/spark/test_spark_kafka_guide.py

BESIDE := $(wildcard tests/spark/test_spark_*beside_connector*.py)
ON_EACH_SPARK := $(addprefix tests/spark/,test_pyspark_versions.py test_spark_planning.py test_spark_end_to_end.py test_exactly_once.py test_kill_restart.py)
on_spark = JAVA_HOME="$$(cat .venv/java-home)" .venv-spark-$(1)/bin/pytest

# One after another even under `make -j`: each of them keeps the whole machine busy.
test-release:
	$(MAKE) test-hardening
	$(MAKE) test-faults
	$(MAKE) test-matrix
	$(MAKE) test-examples
	$(MAKE) test-spark-matrix
	$(MAKE) test-spark-faults
	$(MAKE) dist

# The oldest PySpark that levada supports, and the newest of each minor version since; everything else as it is pinned.
.venv-spark-%/installed: .venv/installed
	@echo "Installing PySpark $* ..."
	@$(PYTHON) -m venv .venv-spark-$*
	@{ grep -v '^pyspark==' constraints.txt; echo 'pyspark==$*'; } > .venv-spark-$*/constraints.txt
	@$(OLDER_SPARK_PIP) pip setuptools wheel Cython
	@LEVADA_PURE=1 $(OLDER_SPARK_PIP) --no-build-isolation --group dev -e '.[arrow,spark]'
	@touch $@

OLDER_SPARK_PIP = .venv-spark-$*/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-spark-$*/constraints.txt

# SECTIONS: some of none, lz4, zstd, ways, rebalance, idle; CONSUME_FLAGS: --quick, --turns.
bench-consume: setup
	@$(IN_VENV) PYTHONPATH=tests/kits $(BIN)/python bench/consume.py $(SECTIONS) $(CONSUME_FLAGS)

# SECTIONS: some of scan, json, produce, start; CLI_FLAGS: --quick, --turns.
bench-cli: setup
	@$(IN_VENV) PYTHONPATH=tests/kits $(BIN)/python bench/cli.py $(SECTIONS) $(CLI_FLAGS)

# SECTIONS: some of reading, sending; TLS_FLAGS: --quick, --turns.
bench-tls: setup
	@$(IN_VENV) PYTHONPATH=tests/kits $(BIN)/python bench/tls.py $(SECTIONS) $(TLS_FLAGS)

# SECTIONS: some of none, lz4, zstd, transactions; PRODUCE_FLAGS: --quick, --turns.
bench-produce: setup
	@$(IN_VENV) PYTHONPATH=tests/kits $(BIN)/python bench/produce.py $(SECTIONS) $(PRODUCE_FLAGS)

bench-ack: setup
	@$(BIN)/python bench/ack.py

bench-codec: .venv-bench/built
	@.venv-bench/bin/python bench/codec.py

# SECTIONS: some of them; ENGINE_FLAGS: --quick, --turns. BEFORE: a commit; levada as it was then takes turns with this one.
bench-engine: setup $(if $(BEFORE),.bench/$(BEFORE)/built)
	@$(IN_VENV) PYTHONPATH=tests/kits $(BIN)/python bench/engine.py $(SECTIONS) $(ENGINE_FLAGS) $(if $(BEFORE),--before .bench/$(BEFORE)/src)

# SECTIONS: some of them; SPARK_FLAGS: --quick, --turns.
bench-spark: setup
	@$(IN_VENV) PYTHONPATH=tests/kits $(BIN)/python bench/spark.py $(SECTIONS) $(SPARK_FLAGS)

.bench/%/built: | .venv/installed
	@echo "Building levada at $* ..."
	@rm -rf .bench/$* && mkdir -p .bench/$* && git archive "$*" src setup.py pyproject.toml README.md LICENSE | tar -x -C .bench/$*
	@cd .bench/$* && "$(CURDIR)/$(BIN)/python" setup.py -q build_ext --inplace
	@touch $@

# Peers and levada as a user gets them: the same pins, nothing else, and levada compiled and installed.
BENCH_PIP := .venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.venv-bench/installed: constraints.txt pyproject.toml
	@echo "Creating .venv-bench ..."
	@$(PYTHON) -m venv .venv-bench
	@$(BENCH_PIP) pip setuptools wheel Cython
	@LEVADA_PURE=1 $(BENCH_PIP) --no-build-isolation --group bench '.[arrow]'
	@touch $@

.venv-bench/built: .venv-bench/installed setup.py $(shell find src -name '*.py' -o -name '*.pxd')
	@echo "Compiling and installing levada ..."
	@$(BENCH_PIP) --no-build-isolation --no-deps --force-reinstall .
	@touch $@

kafka: setup
	@$(IN_VENV) $(BIN)/python tests/kits/kafka_cluster.py

docs: setup
	$(BIN)/python -m levada.config.document > docs/CONFIGURATION.md
	$(BIN)/python -m levada.config.typed_source > src/levada/config/typed.py
	$(BIN)/python -m levada.protocol.document > docs/PROTOCOL.md
	$(BIN)/python -m levada.api.metric_tables > docs/METRICS.md
	$(BIN)/python tools/states.py > docs/STATES.md
	$(BIN)/python tools/admin.py > docs/ADMIN.md
	$(BIN)/python tools/benchmarks.py > docs/benchmarks.svg
	$(BIN)/python -m levada.cli.document > docs/CLI.md
	$(BIN)/python tools/recording.py > docs/recording.svg
	$(BIN)/python tools/top_picture.py > docs/top.svg
	$(BIN)/python tools/requirements.py

# Without Java, or where the demo fails, the site shows the chart that is committed.
site: .venv/built .venv/site
	@test -f demo/out/delays.svg || $(MAKE) --no-print-directory demo || echo "no chart of a demo here: the site shows docs/demo.svg" >&2
	@rm -rf build/site && $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/site
	@echo "build/site/index.html"

.venv/site: .venv/installed
	@echo "Installing Sphinx ..."
	@$(PIP) --group site
	@touch $@

schemas: setup
	@$(IN_VENV) PYTHONPATH=tests/kits $(BIN)/python tools/schemas.py .kafka/messages

messages: schemas
	@$(BIN)/python tools/messages.py .kafka/messages
	@$(BIN)/python tools/messages.py --check .kafka/messages

# Where Debian has which version of Python: for those that this machine lacks, and to try wheels for ARM.
DEBIAN_PYTHONS := bookworm=3.11 sid=3.13,3.14

.pythons/unpacked: tools/pythons.sh
	@tools/pythons.sh .pythons $(DEBIAN_PYTHONS)
	@touch $@

dist: .venv/created .pythons/unpacked
	@$(BIN)/python tools/dist.py $(PYTHONS) $(if $(PLATFORMS),--platforms $(PLATFORMS))

# The cache does not notice when a module that a file imports appears, and then sorts imports differently from a fresh clone.
lint: setup
	$(BIN)/ruff check --no-cache
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@$(BIN)/python tools/long_files.py

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv .venv-bench .venv-spark-* .bench .pythons build dist .fuzz .kafka .mypy_cache .pytest_cache .ruff_cache .hypothesis demo/out bench/results spark-warehouse metastore_db derby.log
	find src \( -name '*.so' -o -name '*.pyd' -o -name '*.c' -o -name '*.html' \) -delete
	find . -name __pycache__ -prune -exec rm -rf {} +
