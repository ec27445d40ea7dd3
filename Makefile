# The only commands a checkout needs. Each sets everything up by itself: the virtual environment, the install, and the
# Java that Spark and the peers in the tests run on.

PYTHON ?= $(shell command -v python3.13 || command -v python3.12 || command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test check bench clean
.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo "make demo    real flights through PySpark, killed on purpose, exactly once"
	@echo "make test    every test this machine has the means to run"
	@echo "make check   formatting, lint, types, layers, spelling"
	@echo "make bench   figures beside Apache Kafka's, on a quiet machine"

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "oncelog needs Python 3.11 or newer; name one with PYTHON=..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/oncelog demo

test: $(STAMP)
	$(BIN)/python -m pytest $(TESTS)

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
