# Needs git, make and Python 3.11 or newer, and nothing else. `make` alone says what there is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
CODE := src tests examples benchmarks docs
# Four at once on two cores: many tests wait, for a lease to end or a process to start.
PYTEST := $(BIN)/python -m pytest -n 4 --no-loadscope-reorder
# Material for MkDocs tells of its end of life at every start: docs/decisions/0036-the-docs-site.md knows.
QUIET_MKDOCS := NO_MKDOCS_2_WARNING=1
MKDOCS := $(QUIET_MKDOCS) $(BIN)/mkdocs
ARGS ?=
DJANGO ?= python3.12
SPARK ?= 4.3
WITH_SPARK = $(VENV)/spark-$(SPARK)-$(notdir $(PYTHON))
VERSION ?=
# Tests start hundreds of Python processes, which would all compile the same files again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test quick format lint types mypy imports servers compiled docs links peers publish django spark bench chaos dist clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  PYTHON=python3.12 chooses another Python; ARGS=... goes to the command, as in make test ARGS='-k reap'."

demo: $(VENV)/.spark ## A shop at work, with its dashboard: three workers, one killed half-way, a ledger and a lake
	@$(BIN)/python -m holdfast demo --dashboard $(ARGS)

# Checks and servers take a core each before the tests need both.
test: $(VENV)/.dev ## The one gate: format, lint, types, imports, and all tests on real servers
	@$(MAKE) --no-print-directory -j 2 lint servers mypy imports compiled
	@$(PYTEST) $(ARGS)

servers: $(VENV)/.dev
	@$(BIN)/python tests/debian.py
	@$(BIN)/python tests/spark_classes.py

# Each process of tests would compile all of them in a fresh clone. What is wrong with one, its own run tells.
compiled: $(VENV)/.dev
	@-$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1

# It leaves out whatever starts a server, Spark or many processes: tests/selection.py has the list.
quick: lint mypy imports ## The inner loop, under 90 seconds: the same checks, and the tests on SQLite and in memory
	@$(PYTEST) --quick $(ARGS)

format: $(VENV)/.dev ## Rewrite the code as it should look
	@$(BIN)/ruff check --fix-only --quiet $(CODE)
	@$(BIN)/ruff format $(CODE)

lint: $(VENV)/.dev
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/ruff check $(CODE)

# What comes with the tests leaves pyright to them: tests/app/test_typing.py has it read the same file.
types: mypy
	@$(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python tests/typing/right.py

mypy: $(VENV)/.dev
	@$(BIN)/mypy

imports: $(VENV)/.dev
	@$(BIN)/lint-imports

docs: $(VENV)/.dev ## Rewrite the parts of the docs that are made from the code, and build the site in build/site
	@$(BIN)/python -m holdfast.core.diagram > docs/state-machine.md
	@$(BIN)/python -m holdfast.web.api.description.reference > docs/reference/http-api.md
	@$(BIN)/python tests/docs/architecture.py --write
	@$(BIN)/python docs/tools/included.py
	@$(BIN)/python docs/tools/diagrams.py
	@$(BIN)/python docs/tools/llms.py
	@$(MKDOCS) build --strict

links: $(VENV)/.dev ## Ask every link of the docs that leaves them whether it still leads somewhere (needs the internet)
	@$(BIN)/python docs/tools/links.py

peers: $(VENV)/.dev ## Run the other side of the docs' migration guides, each queue in an environment of its own
	@$(BIN)/python tests/docs/peers.py $(ARGS)

# One folder for each version on the branch gh-pages, and an alias for the newest; nothing is pushed.
publish: $(VENV)/.dev ## Put the site on the branch gh-pages as VERSION=0.1
	@test -n "$(VERSION)" || { echo "say which version: make publish VERSION=0.1" >&2; exit 1; }
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(QUIET_MKDOCS) $(BIN)/mike deploy --update-aliases $(VERSION) latest
	@$(BIN)/mike set-default latest

# The ordinary tests have the Django that their Python takes; from 6 on it wants Python 3.12.
django: $(VENV)/.dev ## Test with the newest Django: make django DJANGO=python3.12
	@$(DJANGO) -m venv $(VENV)/newest-django
	@$(VENV)/newest-django/bin/python -m pip --quiet --disable-pip-version-check install \
		--editable '.[cli,django,postgres,redis]' 'django>=6' httpx opentelemetry-sdk pytest pytest-django pytest-timeout
	@DJANGO_PYTHON=$(CURDIR)/$(VENV)/newest-django/bin/python $(PYTEST) tests/contrib/test_django.py tests/contrib/test_django_serving.py $(ARGS)

# Each pair of Spark and Python has an environment of its own, which stays for the next time.
spark: ## Test one Spark with one Python: make spark SPARK=4.2 PYTHON=python3.12 (ARGS chooses tests)
	@$(PYTHON) -m venv $(WITH_SPARK)
	@$(WITH_SPARK)/bin/python -m pip --quiet --disable-pip-version-check install --editable '.[test]' 'pyspark~=$(SPARK).0'
	@$(WITH_SPARK)/bin/python tests/debian.py
	@$(WITH_SPARK)/bin/python -m pytest tests/spark -n 1 $(ARGS)

bench: $(VENV)/.dev ## Measure on every store, beside other queues, and write docs/benchmarks.md (ARGS=--quick: some minutes)
	@$(BIN)/python -m benchmarks --page $(ARGS)

chaos: $(VENV)/.dev ## Torture every store (ARGS="--seconds 600" for longer), and run the tests that kill workers and Spark's executors
	@$(BIN)/python tests/debian.py
	@PYTHONPATH=tests/chaos $(BIN)/python -m torture $(ARGS)
	@CHAOS_SECONDS=60 $(BIN)/python -m pytest --chaos tests/chaos tests/spark/test_executors.py tests/spark/test_lake_azure.py tests/spark/test_lake_chaos.py tests/spark/test_driver_kill.py

# Its tools have an environment of their own: they are for releases alone.
dist: $(VENV)/.dist ## Build wheel and sdist, check them, try the README on the wheel in an empty environment, list what it needs
	@rm -rf dist
	@$(VENV)/dist/bin/python -m build --outdir dist .
	@$(VENV)/dist/bin/twine check --strict dist/*
	@$(VENV)/dist/bin/python tests/release/try_wheel.py dist $(if $(TAG),--tag $(TAG))

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
	@$(PIP) install --editable '.[cli]'
	@touch $@

# Spark is large: where it cannot be had the demo does without, and says so.
$(VENV)/.spark: pyproject.toml | $(BIN)/python
	@test -e $(VENV)/.core || echo "Installing, with Spark for the end of the demo (about 450 MB, once)"
	@extra=cli,spark,web; command -v java >/dev/null || extra=cli,spark,web,java; \
	$(PIP) install --editable ".[$$extra]" && touch $@ || { \
		echo "Spark could not be installed; the demo does without its lake" >&2; \
		$(PIP) install --editable '.[cli,web]'; }
	@touch $(VENV)/.core

$(VENV)/.dist: tests/release/requirements.txt | $(BIN)/python
	@$(BIN)/python -m venv --clear $(VENV)/dist
	@$(VENV)/dist/bin/python -m pip --quiet --disable-pip-version-check install --requirement $<
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@$(PIP) install --editable '.[dev]'
	@sh tests/pgbouncer.sh $(VENV)/pgbouncer
	@touch $@ $(VENV)/.core $(VENV)/.spark
