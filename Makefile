# `make run` and `make test` set up all they need on a fresh machine: Python 3.11 or newer and make.

PYTHON ?= python3
BIN := .venv/bin
DONE := .venv/.set-up

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run test test-machine test-sockets test-all test-all-machine test-all-sockets fuzz check lint types imports docs wheelhouse bench clean

run: $(DONE)  ## the router in front of an embedded fleet of three simulated model servers
	$(BIN)/pointsman serve -c builtin:default -c builtin:dev

test: $(DONE) wheelhouse  ## the tests, in under four minutes on two cores
	$(MAKE) --no-print-directory -j2 test-machine test-sockets

test-machine:  # the two run beside each other: one computes, the other mostly waits
	$(BIN)/python -m pytest tests/unit tests/contract tests/config

test-sockets:
	$(BIN)/python -m pytest tests/wiring tests/integration tests/e2e

test-all: $(DONE) wheelhouse  ## with the long ones (mutations, wheels, soak, fuzzing), and branch coverage
	rm -f .coverage .coverage.*
	$(MAKE) --no-print-directory -j2 test-all-machine test-all-sockets
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --fail-under=90
	$(BIN)/coverage report --fail-under=95 --include='app/domain/*,app/extension/*,app/scheduling/*,app/routing/*,app/settings/*'

test-all-machine:
	$(BIN)/coverage run -m pytest -m "" tests/unit tests/contract tests/config

test-all-sockets:
	$(BIN)/coverage run -m pytest -m "not fuzz" tests/wiring tests/integration tests/e2e
	$(BIN)/python -m pytest -m fuzz -o faulthandler_timeout=900 tests/integration  # coverage would make it four times as long

fuzz: $(DONE)  ## a hundred thousand random inputs, without coverage
	$(BIN)/python -m pytest -m fuzz -o faulthandler_timeout=900

check:  ## lint, types and import contracts
	$(MAKE) --no-print-directory -j2 lint types imports

lint: $(DONE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DONE)
	$(BIN)/mypy

imports: $(DONE)
	$(BIN)/lint-imports

docs: $(DONE)  ## docs/schema.json, docs/plugins.md, the generated part of config/default.yaml
	$(BIN)/python docs/generate.py

wheelhouse: .wheelhouse/.filled  ## the wheels that an empty environment needs, so that tests need no network

bench: $(DONE)
	$(BIN)/python benchmarks/decide.py

clean:
	rm -rf .venv .wheelhouse .coverage .coverage.*

$(DONE): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

.wheelhouse/.filled: $(DONE) pyproject.toml constraints.txt
	mkdir -p .wheelhouse
	$(BIN)/python -m pip wheel --quiet --wheel-dir .wheelhouse .
	rm -f .wheelhouse/pointsman-*.whl
	touch $@
