# The tasks of this house. `make help` lists them; CI runs the same ones through .ci/run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv pip

SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=6 HEAD 2>/dev/null || echo 0))

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
	$(BIN)/python -m pytest tests/unit tests/golden tests/property tests/architecture tests/simulation
	$(BIN)/python -m pytest tests/model -k "not comes_out_as_expected"

e2e: setup ## tests against the real parts: Kafka, SeaweedFS, Spark
	$(BIN)/python -m pytest tests/contract tests/e2e

sim: setup ## the simulator: 32,000 seeds, and proof that everything that can go wrong did
	$(BIN)/python -m lakelog.testing --seeds 0:32000 --at-least 100

sim-quick: setup ## as many seeds as 40 seconds take
	$(BIN)/python -m lakelog.testing --seeds 0:20000 --seconds 40

sim-ci: setup ## 2,000 seeds of a range that differs from commit to commit
	$(BIN)/python -m lakelog.testing --seeds $(SEED):$$(( $(SEED) + 2000 )) --at-least 3

model: setup ## the Spin model of the lane protocol, and its mutants
	$(BIN)/python -m tests.model.check

writers: setup ## eight processes on one lane of SeaweedFS for five minutes, killed and stopped
	LAKELOG_WRITERS_SECONDS=300 $(BIN)/python -m pytest tests/e2e/writers -s --timeout 900

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

.PHONY: help setup lock check format test e2e sim sim-quick sim-ci model writers nightly oracle fuzz bench bench-quick
