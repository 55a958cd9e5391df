# The tasks of this house. `make help` lists them; CI runs the same ones through .ci/run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv pip

SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=6 HEAD 2>/dev/null || echo 0))

# Of so many of the locked versions a scan must know something.
AT_LEAST ?= 1

.DEFAULT_GOAL := help

help: ## list the tasks
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

setup: $(VENV)/ready ## build .venv from the locked requirements and fetch the jars the tests use

$(VENV)/ready: requirements/uv.txt requirements/dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --require-hashes -r requirements/uv.txt
	$(UV) install -q --compile-bytecode --require-hashes -r requirements/dev.txt
	$(UV) install -q --no-deps --no-build-isolation -e .
	$(BIN)/lakelog warm
	$(BIN)/python -m tests.parts.jars
	$(BIN)/python -m tests.parts.archives
	touch $@

# A version that was published less than a week ago may be somebody else's: those are found within days.
LOCK = $(UV) compile -q --universal --python-version 3.11 --generate-hashes --exclude-newer $(shell date -u -d '7 days ago' +%F)

lock: ## compile the hash-locked requirement files, which hold no addresses, of versions that are a week old
	$(LOCK) --upgrade requirements/uv.in -o requirements/uv.txt
	$(LOCK) --upgrade --all-extras pyproject.toml requirements/dev.in -o requirements/dev.txt
	$(LOCK) --upgrade --extra server -c requirements/dev.txt pyproject.toml -o requirements/server.txt

check: setup ## lint, format, types, floors
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup ## put the code in the house's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: setup ## unit, golden, property and architecture tests, and the findings of the simulator
	$(BIN)/python -m pytest -n 3 --dist worksteal tests/unit tests/golden tests/property tests/architecture tests/simulation
	$(BIN)/python -m pytest tests/model -k "not comes_out_as_expected"

e2e: setup ## tests against the real parts: Kafka, SeaweedFS, Spark; of long tables a sample
	LAKELOG_SAMPLE=$(SEED) $(BIN)/python -m pytest -n 4 --dist loadscope --no-loadscope-reorder tests/contract tests/e2e -m "not long and not alone" --durations=25 -p tests.e2e.late --late-to $(VENV)/late --reruns 0
	LAKELOG_SAMPLE=$(SEED) $(BIN)/python -m pytest tests/e2e -m "alone and not long"
	xargs -r -d '\n' -a $(VENV)/late $(BIN)/python -m pytest

e2e-all: setup ## the same with every row of every table, one test after another
	$(BIN)/python -m pytest tests/contract tests/e2e -m "not long"

sim: setup ## the simulator: 32,000 seeds, and proof that everything that can go wrong did
	$(BIN)/python -m lakelog.testing --seeds 0:32000 --at-least 30

sim-cluster: setup ## the simulated cluster: 20,000 seeds
	$(BIN)/python -m lakelog.testing --cluster --seeds 0:20000 --at-least 30

sim-spool: setup ## a spool on a disk that forgets: 10,000 seeds, every policy
	$(BIN)/python -m lakelog.testing --spool --seeds 0:10000 --at-least 20

sim-quick: setup ## as many seeds as 40 seconds take
	$(BIN)/python -m lakelog.testing --seeds 0:20000 --seconds 40

sim-ci: setup ## 400 seeds, and 500 of spools, of a range that differs from commit to commit
	$(BIN)/python -m lakelog.testing --seeds $(SEED):$$(( $(SEED) + 400 ))
	$(BIN)/python -m lakelog.testing --spool --seeds $(SEED):$$(( $(SEED) + 500 ))

model: setup ## the Spin models of lane and history, and their mutants
	$(BIN)/python -m tests.model.check

skeleton: setup ## the whole system once through: Java, broker, bundles, Spark, seal, kill -9, again
	$(BIN)/python -m pytest tests/e2e/test_skeleton.py

live: setup ## Spark on the live log: 100 ranges, a stream for ten minutes, a thousand fresh reads
	LAKELOG_LIVE_RANGES=100 LAKELOG_STREAM_SECONDS=600 LAKELOG_FRESH_ROUNDS=1000 $(BIN)/python -m pytest tests/e2e/test_spark_live.py tests/e2e/test_spark_live_story.py tests/e2e/test_spark_live_fresh.py -s --timeout 3600

upkeep: setup ## the pipeline keeps a log for ten minutes; each verb killed a hundred times; two at once
	LAKELOG_UPKEEP_SECONDS=600 LAKELOG_UPKEEP_KILLS=100 $(BIN)/python -m pytest tests/e2e/test_upkeep.py tests/e2e/test_upkeep_kills.py -s

once: setup ## 200 streaming queries that write, killed with -9 while producers write as well
	LAKELOG_ONCE_QUERIES=200 $(BIN)/python -m pytest tests/e2e/test_spark_exactly_once.py -s

compat: setup ## seven clients, behaviour by behaviour, on Apache Kafka and on lakelog: docs/compatibility.md
	$(BIN)/python -m tests.e2e.compat

acls: setup ## every API under every ACL, on Apache Kafka and on lakelog: docs/reference/acls.md
	$(BIN)/python -m tests.e2e.acls

compat-three: setup ## the same on three brokers of lakelog: what the page says holds for them
	$(BIN)/python -m tests.e2e.compat --on three

clients: setup ## seven unmodified Kafka clients: the same stories on Apache Kafka and on lakelog
	LAKELOG_CLIENTS_ON=kafka,lakelog $(BIN)/python -m pytest tests/e2e/clients

secure: setup ## seven clients with certificates, passwords and tokens, good and bad; ten thousand bad logins
	$(BIN)/python -m pytest tests/e2e/secure -s

oidc: setup ## six clients with tokens of a real Keycloak, which is 600 MB and takes two minutes to be built
	$(BIN)/python -m pytest tests/e2e/oidc -s

durability: setup ## a million records while the broker is killed, and a minute of trouble with the store
	LAKELOG_DURABILITY_RECORDS=1000000 LAKELOG_TROUBLE_SECONDS=60 $(BIN)/python -m pytest tests/e2e/broker/test_durability.py tests/e2e/broker/test_store_trouble.py -s --timeout 3600

power: setup ## a broker on a disk whose power is cut 200 times, under load
	LAKELOG_POWER_CUTS=200 $(BIN)/python -m pytest tests/e2e/test_power_cuts.py -s

spool: setup ## a spool: 200 kills, 100 power cuts, a million records shipped under 100 kills, Spark beside it
	LAKELOG_SPOOL_KILLS=200 LAKELOG_SPOOL_CUTS=100 LAKELOG_SPOOL_SHIPMENTS=100 LAKELOG_SPOOL_RECORDS=1000000 LAKELOG_SPOOL_READS=100 LAKELOG_SPOOL_PARTITIONS=10000 $(BIN)/python -m pytest tests/e2e/spool -s --timeout 7200

scale: setup ## ten thousand partitions, and a consumer that catches up on 10 GB of journal
	LAKELOG_CATCH_UP_BYTES=10737418240 $(BIN)/python -m pytest tests/e2e/broker/test_scale.py -s --timeout 3600

packages: setup ## the built files with each extra on each Python, and the README's first screen typed there
	$(BIN)/python -m pytest tests/e2e/packages -s -p no:randomly

sbom: setup ## what a server consists of, as CycloneDX, in dist/
	$(BIN)/python -m release.sbom

vulnerabilities: setup ## what is known against the locked versions; fails when nothing is known of one
	$(BIN)/python -m release.vulnerabilities --at-least $(AT_LEAST)

release: setup ## everything of a release but publishing it: check, build, try, and say what is left
	$(BIN)/python -m release

fsck: setup ## a thousand damages in a GiB, each by itself; a minute of verify beside producers
	LAKELOG_FSCK_SECONDS=60 LAKELOG_FSCK_DAMAGES=1000 LAKELOG_FSCK_BYTES=1073741824 $(BIN)/python -m pytest tests/e2e/test_fsck.py -s --timeout 14400

writers: setup ## eight processes on one lane of SeaweedFS for five minutes, killed and stopped
	LAKELOG_WRITERS_SECONDS=300 $(BIN)/python -m pytest tests/e2e/writers -s --timeout 900

cluster: setup ## three real brokers: faults, failing over, restarts, moves, outages and distrust, for an hour and a half
	$(BIN)/python -m benchmarks.cluster_faults
	$(BIN)/python -m benchmarks.cluster_failover
	$(BIN)/python -m benchmarks.cluster_rolling
	$(BIN)/python -m benchmarks.cluster_moves
	$(BIN)/python -m benchmarks.cluster_outage
	$(BIN)/python -m benchmarks.cluster_distrust
	$(BIN)/python -m benchmarks.cluster_etcd
	$(BIN)/python -m benchmarks.cluster
	$(BIN)/python -m benchmarks.cluster_large
	LAKELOG_CLIENTS_ON=three $(BIN)/python -m pytest tests/e2e/clients

chaos: setup ## the campaign of faults goes on: 8 runs of two minutes, or RUNS of them, added to RELIABILITY.jsonl; WALLS=1: with TLS, SCRAM and ACLs; WORKLOAD: only of that
	$(BIN)/python -m tests.chaos --runs $${RUNS:-8} --seconds 120 $(if $(WALLS),--walls) $(if $(WORKLOAD),--workload $(WORKLOAD))

chaos-planted: setup ## every bug that is planted into brokers is found by the campaign
	$(BIN)/python -m tests.chaos --planted

hostile: setup ## every attack for 20 seconds on a broker with honest clients; prints what they noticed
	LAKELOG_HOSTILE_SECONDS=$${LAKELOG_HOSTILE_SECONDS:-20} $(BIN)/python -m pytest tests/e2e/hostile -s

quotas: setup ## clients with quotas for a minute: what they get is what the quotas say, within 5 %
	LAKELOG_QUOTA_SECONDS=60 $(BIN)/python -m pytest tests/e2e/test_quotas_hold.py -s --timeout 900

soak: setup ## a broker for an hour at 2,000 requests a second, on a store that fails 5 % of its requests
	LAKELOG_SOAK_SECONDS=$${LAKELOG_SOAK_SECONDS:-3600} $(BIN)/python -m pytest tests/e2e/soak -s --reruns 0

nightly: setup ## the laws with many more examples, and an hour of fuzzing
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest tests/property --timeout 3600
	LAKELOG_KEY_MAP_OPERATIONS=2000000 $(BIN)/python -m pytest tests/unit/records/test_key_map.py
	$(BIN)/python -m tests.fuzz --seconds 3600

oracle: setup ## the comparison with a real Kafka, by hand and by Spark, over a million records
	LAKELOG_ORACLE_RECORDS=1000000 $(BIN)/python -m pytest tests/e2e/test_kafka_oracle.py tests/e2e/test_kafka_pipeline.py --timeout 1800

fuzz: setup ## every decoder against atheris, 60 seconds in all
	$(BIN)/python -m tests.fuzz --seconds 60 --seed 1

fuzz-ci: setup ## the same in half the time, with a seed that differs from commit to commit
	$(BIN)/python -m tests.fuzz --seconds 30 --seed $(SEED)

bench: setup ## every figure, in full
	$(BIN)/python -m benchmarks

bench-quick: setup ## every figure, in its short form
	$(BIN)/python -m benchmarks --quick

bench-ci: setup ## two figures in their short form, others with each commit
	$(BIN)/python -m benchmarks --quick --some 2 --seed $(SEED)

.PHONY: help oidc secure setup lock check format test e2e e2e-all sim sim-cluster sim-spool sim-quick sim-ci model skeleton live upkeep once clients acls compat compat-three durability power spool scale fsck packages sbom vulnerabilities release writers cluster chaos chaos-planted hostile soak nightly oracle fuzz fuzz-ci bench bench-quick bench-ci
