# `make demo` and `make test` set up everything they need in .venv; later runs reuse it until the lock file changes.

SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_OUTPUT ?= demo-run
PYTEST_ARGS ?=

# The interpreter that the environment is made with: the first of these that runs and is supported.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c '$(SUPPORTED)' >/dev/null 2>&1 && echo $$p && break; done)

# Beam's job service starts `python` from PATH, which has to be the environment's own.
export PATH := $(abspath $(BIN)):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format lock clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18
	@echo
	@echo "  PYTHON=python3.12 picks the interpreter, BITEXT_DATA=FOLDER names the evaluation data (optional)."

demo: $(VENV)/.installed ## Hide real translations, mine them with the bundled model, print F1 (under a minute)
	$(BIN)/bitext demo --output $(DEMO_OUTPUT)

test: $(VENV)/.installed ## Run the fast tests
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_ARGS)

test-all: $(VENV)/.installed ## Run every test, the slow ones too
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed ## Check format, lint, types and the sizes of files and functions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python .ci/sizes

format: $(VENV)/.installed ## Format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.locked: requirements.lock
	@if [ -z "$(PYTHON)" ]; then \
		echo "error: no Python 3.11, 3.12 or 3.13 found; install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; fi
	@$(PYTHON) -c '$(SUPPORTED)' || { \
		echo "error: $(PYTHON) is $$($(PYTHON) --version 2>&1 | head -1); the pinned versions need Python 3.11, 3.12 or 3.13" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.locked setup.py pyproject.toml
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@

lock: ## Write requirements.lock anew from setup.py, with the newest versions (needs Python 3.11)
	./.ci/lock

clean: ## Remove the environment and everything that was built or cached
	rm -rf $(VENV) build dist *.egg-info $(DEMO_OUTPUT) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find mining pipelines tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
