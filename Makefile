# Two commands do everything on a fresh Linux machine: `make demo` and `make test`.

VENV := .venv
BIN := $(VENV)/bin

# The first Python that is new enough; name another with `make PYTHON=...`.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.14,\
	$(shell $(name) -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && echo $(name))))
PIP := $(BIN)/python -m pip --disable-pip-version-check

# What the tests need; `EXTRAS=test,independent` adds the comparison with transformers.
EXTRAS ?= test

.PHONY: help demo test lint unit packaging slow clean

help:
	@echo 'make demo   generate text with the built-in model on the simulated accelerator'
	@echo 'make test   run all checks: style, types, tests, benches, packaging'
	@echo 'make slow   run the tests that take more than a minute each'
	@echo 'make clean  remove the environment and everything built (simulators stay in their'
	@echo '            cache: headrace cache --clear)'

demo: $(VENV)/.installed
	@$(BIN)/headrace run demo --prompt "Once upon a time" --tokens 48 --device sim --check

test: lint unit packaging

lint: $(VENV)/.installed-test
	$(BIN)/ruff check
	$(BIN)/pyright --pythonpath $(BIN)/python

# Unit tests, benches under cocotb, and whole runs.
unit: $(VENV)/.installed-test
	$(BIN)/pytest --numprocesses auto --ignore tests/packaging

packaging: $(VENV)/.installed-test
	$(BIN)/pytest tests/packaging -m ""

slow: $(VENV)/.installed-test
	$(BIN)/pytest --numprocesses auto --ignore tests/packaging -m slow

# Installs are repeated only when the project's dependencies may have changed.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing headrace into $(VENV) ...'
	@$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing headrace and what its tests need into $(VENV) ...'
	@$(PIP) install --quiet --editable '.[$(EXTRAS)]'
	@# cocotb runs Python inside the simulator, as a shared library.
	@test -n "$$($(BIN)/python -m find_libpython)" || { \
		echo 'error: the benches need Python as a shared library (libpython3.*.so), which this'; \
		echo 'Python lacks. Install it, for example with: apt-get install python3-dev'; exit 1; }
	@touch $@ $(VENV)/.installed

$(VENV)/bin/python:
	@test -n '$(PYTHON)' || { \
		echo 'error: Python 3.11 or newer is not on PATH. Install it, for example with:'; \
		echo '  apt-get install python3 python3-venv'; exit 1; }
	@$${CXX:-g++} --version >/dev/null 2>&1 || { \
		echo 'error: no C++ compiler: g++ is not on PATH. Install it, for example with:'; \
		echo '  apt-get install g++'; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo 'error: $(PYTHON) cannot make a virtual environment. Install what it lacks, for'; \
		echo 'example with: apt-get install python3-venv'; exit 1; }

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find hw sw sim boards tests -name __pycache__ -type d -prune -exec rm -rf {} +
