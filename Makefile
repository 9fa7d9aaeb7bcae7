# Everything starts here: `make help`. A fresh machine needs make and Python 3.11 or newer with venv, nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

BIN := .venv/bin
VERSIONS := 3.11 3.12 3.13
# The interpreter of .venv; the best one of this machine if none is named.
PYTHON ?=
NEWEST := $(lastword $(VERSIONS))
PYTEST_OPTIONS ?= -n 3 --dist worksteal
# What draws the faults of the hostile DynamoDB that `make torture-aws` sets in front of the emulator at last.
HOSTILE_SEED ?= 1
NEAR_PYTHON := -m "not (aws or process or slow)" -k "not (sqlite or forgetful)" tests/codec tests/kernel tests/replay tests/runtime tests/test_containment.py \
	$(addprefix tests/workflows/test_,cancellation.py concurrency.py failing_sagas.py generators.py sagas.py steps.py threads.py)

export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# ── Environments ─────────────────────────────────────────────────────────────────────────────────────────────────────
# .venv holds what a user gets; the tools of development come on top, for the targets that need them.

.venv/.runtime-installed: pyproject.toml locks/build.txt locks/core.txt
	@python="$(PYTHON)"; tools/install .venv "$${python:-$$(tools/find-python)}" build core
	@touch $@

.venv/.dev-installed: .venv/.runtime-installed locks/dev.txt
	@tools/install .venv $(BIN)/python dev
	@touch $@

.venv-%/.dev-installed: pyproject.toml locks/dev.txt
	@tools/install .venv-$* "$$(tools/find-python $*)" dev
	@touch $@

# ── Targets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

.PHONY: help demo demo-aws test test-cdk test-newest wheel lock stub audit bench observed hostile fuzz swarm torture torture-aws test-all examples cart coverage docs format clean \
	check check-format check-lint check-mypy check-pyright check-layers check-tidiness

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.runtime-installed ## see durable execution survive a kill -9, in a minute
	@$(BIN)/holdfast demo

demo-aws: .venv/.dev-installed ## the same and more on an emulator of AWS, deployed by CDK (400 MB, and wants Node)
	@$(BIN)/python -m examples.on_aws $(DEMO_AWS_OPTIONS)

test: .venv/.dev-installed ## run the test suite
	@$(BIN)/python -m pytest $(PYTEST_OPTIONS)

test-cdk: .venv/.dev-installed ## compare the construct of AWS CDK with the template; installs CDK (400 MB) into .tools
	@HOLDFAST_SKIP_NOTHING=1 $(BIN)/python -m pytest tests/infra/test_construct.py

check: check-format check-lint check-mypy check-pyright check-layers check-tidiness ## what CI runs before the tests

check-format: .venv/.dev-installed
	@$(BIN)/ruff format --check .

check-lint: .venv/.dev-installed
	@$(BIN)/ruff check .

check-mypy: .venv/.dev-installed
	@$(BIN)/mypy

check-pyright: .venv/.dev-installed
	@$(BIN)/pyright --pythonpath $(BIN)/python

check-layers: .venv/.dev-installed
	@$(BIN)/lint-imports --no-logo

check-tidiness: .venv/.dev-installed
	@$(BIN)/python -m pytest -q tests/test_tidiness.py tests/test_imports.py

docs: .venv/.dev-installed ## write the reference of the public API into build/reference/
	@$(BIN)/python -m tools.reference build/reference
	@echo "open build/reference/index.html"

bench: .venv/.dev-installed ## measure, and print the numbers
	@$(BIN)/python -m benchmarks

observed: .venv/.dev-installed ## measure what metrics and traces cost
	@$(BIN)/python -m benchmarks.observed

hostile: .venv/.dev-installed ## measure valid requests while hostile ones arrive
	@$(BIN)/python -m benchmarks.hostile

fuzz: .venv/.dev-installed ## feed 200,000 hostile inputs to all that takes any, and print how many they were
	@$(BIN)/python -m tests.fuzz $(FUZZ_OPTIONS)

swarm: .venv/.dev-installed ## run many seeds of simulated processes under faults
	@$(BIN)/python -m tests.simulation

torture: .venv/.dev-installed ## kill, pause and starve real processes, then compare ledgers; and what takes long of the tests
	@$(BIN)/python -m tests.torture
	@$(BIN)/python -m tests.messaging.torture
	@HOLDFAST_SKIP_NOTHING=1 HOLDFAST_TORTURE=1 $(BIN)/python -m pytest $(PYTEST_OPTIONS) -o faulthandler_timeout=3600 -m "torture and not aws"

torture-aws: .venv/.dev-installed ## all that `make test` leaves out on emulators of AWS; takes two to three hours on two processors
	@HOLDFAST_SKIP_NOTHING=1 HOLDFAST_TORTURE=1 $(BIN)/python -m pytest $(PYTEST_OPTIONS) -o faulthandler_timeout=3600 -m aws
	@HOLDFAST_SKIP_NOTHING=1 HOLDFAST_HOSTILE=$(HOSTILE_SEED) $(BIN)/python -m pytest $(PYTEST_OPTIONS) -o faulthandler_timeout=3600 -m aws

examples: .venv/.dev-installed ## run every example
	@shopt -s nullglob; for example in examples/*.py; do echo "── $$example"; $(BIN)/python "$$example"; done
	@echo "── examples.checkout_machine"; $(BIN)/python -m examples.checkout_machine
	@echo "── examples.shopping_cart"; $(BIN)/python -m examples.shopping_cart --demo

cart: .venv/.dev-installed ## serve the shopping cart of the examples on loopback
	@$(BIN)/python -m examples.shopping_cart

test-all: ## run the suite on every Python from 3.11 to 3.13 found on this machine
	@tools/test-all $(VERSIONS)

test-newest: ## run the quick tests of what is nearest to Python on the newest version
	@PYTEST_OPTIONS='$(PYTEST_OPTIONS) $(NEAR_PYTHON)' tools/test-all $(NEWEST)

coverage: .venv/.dev-installed ## run the suite and report the branches it missed
	@rm -f .coverage .coverage.*
	@$(BIN)/coverage run -m pytest
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

wheel: .venv/.dev-installed ## build the wheel, with its SBOM, and the source distribution into dist/
	@$(BIN)/python -m hatchling build

lock: ## write locks/ and the SBOM anew from pyproject.toml; the newest that fits with LOCK_OPTIONS=--upgrade
	@tools/lock $(LOCK_OPTIONS)

stub: .venv/.dev-installed ## write what type checkers read of the package, from the names in its __init__.py
	@$(BIN)/python -m tools.stub >src/holdfast/__init__.pyi.new && mv src/holdfast/__init__.pyi.new src/holdfast/__init__.pyi

audit: ## look the locked packages up in the database of known flaws
	@tools/audit

format: .venv/.dev-installed ## rewrite the sources as the checks want them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet . || true

clean: ## remove environments, caches and local state
	rm -rf .venv .venv-* .venv*.lock .holdfast .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		.coverage .coverage.* build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
