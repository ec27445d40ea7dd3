# The only commands a checkout needs. Each sets everything up by itself: the virtual environment, the install, and the
# Java that Spark and the peers in the tests run on.

# The first that really runs: a version manager may put a name on the PATH that stands for nothing.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
READY  := $(VENV)/.ready-for-demo

.PHONY: demo test conformance check bench clean
.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo "make demo          real flights through PySpark, killed on purpose, exactly once"
	@echo "make test          the tests; ONCELOG_WHOLE=1 takes those too that a run draws"
	@echo "make conformance   which client gets on with the broker in which scenario"
	@echo "make compatibility the releases of PySpark before the one that is installed"
	@echo "make chaos         kills of brokers and clients, cut links, full disks, power cuts, for a quarter of an hour"
	@echo "make fuzz          bytes that nobody wrote, guided by what they reach"
	@echo "make mutants       small changes in the source that some test has to find"
	@echo "make check         formatting, lint, types, layers, spelling"
	@echo "make bench         figures beside Apache Kafka's, on a quiet machine"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "oncelog needs Python 3.11 or newer with venv; name one with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m compileall -q src
	-$(BIN)/oncelog prepare
	touch $@ $(READY)

$(READY): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	$(BIN)/python -m compileall -q src
	-$(BIN)/oncelog prepare
	touch $@

demo: $(READY)
	$(BIN)/oncelog demo

# Hundreds of processes start in the tests. Each takes 0.2 s longer where it has to compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

# Tests wait for processes half of the time: three of them keep two cores at work.
test: $(STAMP)
	$(BIN)/python -m compileall -q src harness
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations=15 $(TESTS)

conformance: $(STAMP)
	$(BIN)/python -m pytest --quiet --numprocesses 2 --dist loadfile --no-loadscope-reorder -k "not apache" -r fE \
		-p harness.conformance_table tests/conformance

# Each of the older releases has an environment of its own.
PYSPARKS := 4.0.5 4.1.4 4.2.1
COMPATIBILITY := tests/spark/test_compatibility.py tests/spark/sink/test_shared_producer.py

.cache/pyspark-%/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv .cache/pyspark-$*
	.cache/pyspark-$*/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' pyspark==$*
	touch $@

.PHONY: compatibility
compatibility: $(PYSPARKS:%=.cache/pyspark-%/.installed)
	@for version in $(PYSPARKS); do \
		echo "PySpark $$version"; \
		.cache/pyspark-$$version/bin/python -m pytest --quiet $(COMPATIBILITY) || exit 1; \
	done

.PHONY: chaos
chaos: $(STAMP)
	ONCELOG_CHAOS_SECONDS=$${ONCELOG_CHAOS_SECONDS:-300} ONCELOG_ROUNDS=$${ONCELOG_ROUNDS:-150} \
		$(BIN)/python -m pytest --quiet -rA tests/chaos

# frames, batches, compressed or recovery. Findings go to tests/fuzz/corpus, where the tests find them.
FUZZ         ?= recovery
FUZZ_SECONDS ?= 600
FUZZERS      := .cache/fuzzers

$(FUZZERS)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(FUZZERS)
	$(FUZZERS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' atheris
	touch $@

.PHONY: fuzz
fuzz: $(FUZZERS)/.installed
	$(FUZZERS)/bin/python -m tests.fuzz $(FUZZ) $(FUZZ_SECONDS)

# MUTANTS="--only ID" tries one again; python -m tools.mutants --help says what else there is.
SEED    ?= 1
DRAW    ?= 50
FOLDERS ?= coordination transactions replication groups client/producer log
MUTANTS ?= --seed $(SEED) --draw $(DRAW) --folders $(FOLDERS)

.PHONY: mutants
mutants: $(STAMP)
	$(BIN)/python -m tools.mutants $(MUTANTS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: $(STAMP)
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
