# Everything here works on a fresh Debian machine with Python 3.11+, git and make.
# `make setup` is part of every other target; it is quick when nothing is missing.

SHELL := /bin/bash
PYTHON ?= python3
UV := .tools/bin/uv
PY := .venv/bin/python
# One more than the cores of a small machine: many tests wait for processes, servers and timeouts.
WORKERS ?= 3
BENCHMARKS := append commit read rebuild plan scale workers fairness cancel latency size automation lineage pipeline catalog

export UV_PYTHON_DOWNLOADS = never
export UV_COMPILE_BYTECODE = 1
# Tests start hundreds of processes: each would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup java chromium ui test test-deep prepared archive compiled lint format bench peers overhead checks cli api demo docs clean

setup: .venv/.installed .tools/datacontract/.installed java

# uv comes from PyPI, into an environment of its own, so that neither the system's
# Python nor its "externally managed" mark is in the way.
.tools/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Arco needs Python 3.11 or newer; set PYTHON=…"; exit 1; }
	@$(PYTHON) -m venv .tools 2>/dev/null \
	  || { rm -rf .tools; apt-get update -qq && apt-get install -y -qq python3-venv \
	       && $(PYTHON) -m venv .tools; }
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7

.venv/.installed: .tools/bin/uv pyproject.toml uv.lock
	@$(UV) sync --quiet --locked --all-extras --python $(PYTHON)
	@touch $@

# Validates exported contracts in the tests; it conflicts with our own dependencies.
.tools/datacontract/.installed: .tools/bin/uv tests/kit/datacontract.txt
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .tools/datacontract
	@$(UV) pip install --quiet -p .tools/datacontract -r tests/kit/datacontract.txt
	@touch $@

java:
	@command -v java >/dev/null || [ -n "$$JAVA_HOME" ] \
	  || { echo "installing Java, which Spark needs"; \
	       apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; }

# The browser of tests/web.
chromium:
	@command -v chromium >/dev/null \
	  || { echo "installing Chromium, which tests of the web page need"; \
	       apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium > /dev/null; }

# The web page, in src/arco/ui; at once if it was made of these sources.
ui: .venv/.installed
	@$(PY) ui/build.py

# Lint runs beside the tests: many of them wait for processes, and leave a core free.
# (`make -n` would perform a line that names the variable MAKE.)
test: prepared
	@make --no-print-directory lint > .lint.txt 2>&1 & lint=$$!; \
	$(PY) -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder; tested=$$?; \
	wait $$lint; linted=$$?; cat .lint.txt; rm -f .lint.txt; \
	[ $$tested = 0 ] && [ $$linted = 0 ]

# The same tests with larger numbers (tests/kit/depth.py): more seconds of stress, more seeds
# and examples, and a second Spark cluster. It takes half an hour to an hour.
test-deep: prepared
	ARCO_TEST_DEEP=1 $(PY) -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --timeout 1800

# What all workers of the tests need: Spark starts in half the time with an archive of its
# classes, and tests are compiled once.
prepared: setup
	@$(MAKE) --no-print-directory -j2 archive compiled ui chromium

compiled: setup
	@compgen -G "tests/unit/__pycache__/*-pytest-*" > /dev/null || $(PY) -m pytest --collect-only -qq > /dev/null

archive: setup
	@$(PY) -m arco.spark.archive > /dev/null

lint: setup
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

format: setup
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

bench: setup
	@for name in $(BENCHMARKS); do echo "== $$name"; $(PY) -m benchmarks.$$name || exit 1; done

# The peers that `benchmarks/overhead.py`, `checks.py`, `cli.py` and `api.py` compare with, in environments
# of their own; the scripts that they run are in `benchmarks/peers`.
# Prefect 3.9.0 asks for a certifi that registries may not have yet; any will do.
peers: .tools/bin/uv
	@$(UV) venv --quiet --allow-existing .peers/dagster
	@$(UV) pip install --quiet -p .peers/dagster dagster==1.13.28
	@$(UV) venv --quiet --allow-existing .peers/prefect
	@echo certifi > .peers/overrides.txt
	@$(UV) pip install --quiet -p .peers/prefect --override .peers/overrides.txt prefect==3.9.0
	@$(UV) venv --quiet --allow-existing .peers/dagster-webserver
	@$(UV) pip install --quiet -p .peers/dagster-webserver dagster-webserver==1.13.27
	@$(UV) venv --quiet --allow-existing .peers/airflow
	@$(UV) pip install --quiet -p .peers/airflow apache-airflow==3.3.2
	@$(UV) venv --quiet --allow-existing .peers/gx
	@$(UV) pip install --quiet -p .peers/gx great_expectations==1.24.1 pyspark==4.3.0 pandas pyarrow

overhead: setup peers
	@$(PY) -m benchmarks.overhead

checks: setup peers
	@$(PY) -m benchmarks.checks

cli: setup peers
	@$(PY) -m benchmarks.cli

api: setup peers
	@$(PY) -m benchmarks.api

# The documentation as a site, in site/; `mkdocs serve` shows it while it is written.
docs: setup
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo "site/index.html; to read it with its search: $(PY) -m http.server -d site"

# At the end it serves the web page, if there is a terminal.
demo: setup ui
	@$(PY) examples/demo.py

clean:
	rm -rf site .venv .tools .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo
