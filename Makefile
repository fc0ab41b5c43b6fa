# Everything runs from here on a fresh machine with Python 3.11+ and a C++ compiler; `make` lists what there is.
PYTHON ?= python3
BIN := .venv/bin

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

setup: .venv/installed  ## create .venv and install bertie with its test dependencies

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bertie needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@

demo: setup  ## see the whole of BERT work in five minutes, on text that this machine has
	$(BIN)/bertie demo --out demo

lint: setup  ## formatter, linter, type checker
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint  ## lint, then all tests on all cores
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

docs: setup  ## build the documentation into site/, English and Chinese; a broken link fails
	$(BIN)/python docs/site/build.py site

bench: setup  ## list the benchmarks: one script for each claim of speed or quality
	@for script in benchmarks/*.py; do printf '%s\n    %s\n' "$$script" "$$(sed -n '1s/^"""//p' $$script)"; done

.PHONY: help setup demo lint test docs bench
