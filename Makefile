# The only place where commands are spelled; CI calls the same ones.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Each peer has its own environment beside ours; the benchmark builds them on demand.
BENCH := .venv-bench/ours
# Spark is large and needs Java 17: the other tests do without.
SPARK := .venv-spark
# PyTorch with its libraries is 5 GB: an environment of its own, too.
GPU := .venv-gpu
# A test that waits for a cluster that will not come ends the run, and says where.
NO_HANGING := -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# --no-compile: Python compiles what is imported, a small part of what is installed, and
# must keep it: without bytecode every process compiles its libraries again for seconds.
export PYTHONDONTWRITEBYTECODE :=
# Two workers must not each start as many threads as there are cores; the second
# setting turns on the last of scikit-learn's estimator checks.
TEST_ENV := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 SCIPY_ARRAY_API=1

.PHONY: demo test test-all test-slow lint types imports unit test-spark test-gpu docs dist bench reproduce fix forget clean help

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

demo: $(VENV)/.demo  ## What priors are worth, and a report page: about a minute
	$(BIN)/priormtl demo

# Types keep one core busy for most of a minute: tests run beside them.
test: $(VENV)/.dev  ## Style, types, imports and all quick tests: a few minutes
	$(MAKE) --no-print-directory --jobs 2 lint types imports unit

lint: $(VENV)/.dev  ## Style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## Types
	$(BIN)/mypy

imports: $(VENV)/.dev  ## Rooms only look down
	$(BIN)/lint-imports

# By file, in the order of tests/conftest.py: both workers would else compile the same
# loops at the same time, and fit what the tests of a file share twice.
unit: $(VENV)/.dev  ## Tests and doctests, without those marked slow
	$(TEST_ENV) $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: $(VENV)/.dev  ## The tests marked slow
	$(TEST_ENV) $(BIN)/pytest -n 2 -m slow tests

test-all: $(VENV)/.dev  ## All tests, with parameters in every combination: long
	$(MAKE) --no-print-directory --jobs 2 lint types imports
	$(TEST_ENV) $(BIN)/pytest -n 2 --every-combination

test-spark: $(SPARK)/.ready  ## Tests of Spark, in an environment of their own; needs Java 17
	$(TEST_ENV) $(SPARK)/bin/pytest $(NO_HANGING) tests/engines/test_spark.py

test-gpu: $(GPU)/.ready  ## Tests of fits on a device, by PyTorch on the processor: 5 GB
	$(TEST_ENV) $(GPU)/bin/pytest tests/gpu

docs: $(VENV)/.docs  ## The documentation, with its gallery: docs/_build/html; warnings are errors
	OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html

dist: $(VENV)/.dev  ## Wheel and source archive in dist, the same bytes each time
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build

bench: $(BENCH)/.ready  ## Ours, the paper's methods and peers side by side; QUICK=1, ONLY=name
	$(BENCH)/bin/python -m benchmarks.main $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

reproduce: $(VENV)/.reproduce  ## The paper's tables and figures into docs; QUICK=1, JOBS=2; PRIORMTL_DATA names the data
	$(BIN)/priormtl reproduce all --jobs $(or $(JOBS),2) $(if $(QUICK),--quick --out results,--out docs/results --page docs/results.md)

fix: $(VENV)/.dev  ## Apply what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

forget:  ## Forget compiled loops, after an edit of one that others call
	find src -name '*.nb[ci]' -delete

clean: forget  ## Forget the environment and all caches
	rm -rf dist $(VENV) $(SPARK) $(GPU) .venv-bench docs/_build docs/gallery docs/generated docs/cli.md .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable '.[cli,plot]'
	touch $@

$(VENV)/.reproduce: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable '.[reproduce]'
	touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --no-compile --editable '.[docs]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --no-compile --editable '.[dev]'
	touch $@

$(BENCH)/.ready: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet --upgrade pip
	$(BENCH)/bin/pip install --quiet --editable '.[bench]'
	touch $@

$(SPARK)/.ready: pyproject.toml
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/pip install --quiet --upgrade pip
	$(SPARK)/bin/pip install --quiet --no-compile --editable '.[spark]' 'pytest>=9'
	touch $@

$(GPU)/.ready: pyproject.toml
	$(PYTHON) -m venv $(GPU)
	$(GPU)/bin/pip install --quiet --upgrade pip
	$(GPU)/bin/pip install --quiet --editable '.[gpu]' 'pytest>=9'
	touch $@
