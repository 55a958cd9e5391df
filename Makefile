# The tasks of this house. `make help` lists them; CI runs the same ones through .ci/run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv pip

.DEFAULT_GOAL := help

help: ## list the tasks
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

setup: $(VENV)/ready ## build .venv from the locked requirements and fetch the jars the tests use

$(VENV)/ready: requirements/uv.txt requirements/dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --require-hashes -r requirements/uv.txt
	$(UV) install -q --compile-bytecode --require-hashes -r requirements/dev.txt
	$(UV) install -q --no-deps --no-build-isolation -e .
	$(BIN)/python -m tests.parts.jars
	touch $@

lock: ## compile the hash-locked requirement files, which hold no addresses
	$(UV) compile -q --universal --python-version 3.11 --generate-hashes --upgrade requirements/uv.in -o requirements/uv.txt
	$(UV) compile -q --universal --python-version 3.11 --generate-hashes --upgrade --all-extras pyproject.toml requirements/dev.in -o requirements/dev.txt

check: setup ## lint, format, types, floors
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup ## put the code in the house's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: setup ## unit, golden, property and architecture tests: no process is started
	$(BIN)/python -m pytest tests/unit tests/golden tests/property tests/architecture

e2e: setup ## tests against the real parts: Kafka, SeaweedFS, Spark
	$(BIN)/python -m pytest tests/contract tests/e2e

nightly: setup ## the laws with many more examples, and an hour of fuzzing
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest tests/property --timeout 3600
	$(BIN)/python -m tests.fuzz --seconds 3600

oracle: setup ## the comparison with a real Kafka, by hand and by Spark, over a million records
	LAKELOG_ORACLE_RECORDS=1000000 $(BIN)/python -m pytest tests/e2e/test_kafka_oracle.py tests/e2e/test_kafka_pipeline.py --timeout 1800

fuzz: setup ## every decoder against atheris, 60 seconds in all
	$(BIN)/python -m tests.fuzz --seconds 60 --seed 1

bench: setup ## every figure, in full
	$(BIN)/python -m benchmarks

bench-quick: setup ## every figure, in its short form
	$(BIN)/python -m benchmarks --quick

.PHONY: help setup lock check format test e2e nightly oracle fuzz bench bench-quick
