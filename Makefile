# make demo   a fresh machine to a first look: makes .venv, installs, runs the main job on built-in data
# make test   what CI runs, with make package; make test-long holds the rest
# make fuzz   a million inputs for all that reads, a fifth of them led by coverage: docs/reliability.md
# make package, test-lowest, audit, sbom   what a release needs: CONTRIBUTING.md

PYTHON ?= python3
BIN := .venv/bin

# Readers, searches, stores, solvers, training and the web, without the slow tests: what uses each dependency.
LOWEST := examples delimited readers cells store sql_search discrete_search reading_search retrieve ragged statistics \
	recipe checkpoint saved sql_solver reconstruct training track inspect web serve explore startup estimate paths cluster

.PHONY: demo install test test-long test-lowest fuzz package audit sbom lint format clean

demo: install
	rm -rf demo
	$(BIN)/bonafide demo sql --out demo

install: .venv/installed

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "torch>=2.11,<2.14"
	$(BIN)/python -m pip install --quiet -e ".[dev,explore,cluster,minilm,retrieve,rouge]"
	touch $@

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# By two processes, each with whole files: most tests keep one core busy.
test: lint
	$(BIN)/pytest -m "not long" -n 2 --dist loadfile

test-long: install
	$(BIN)/pytest -m long

fuzz: .venv/fuzz
	mkdir -p build
	$(BIN)/python tools/fuzz.py --inputs 1000000 --seed 0 --out build/fuzz.json

.venv/fuzz: .venv/installed
	$(BIN)/python -m pip install --quiet -e ".[fuzz]"
	touch $@

# Warnings are not errors here: old versions warn about the newer ones below them.
test-lowest: build/lowest/installed
	build/lowest/bin/pytest -m "not slow and not long" -o filterwarnings=default $(LOWEST:%=tests/test_%.py)

build/lowest/installed: pyproject.toml tools/lowest_versions.py | install
	$(PYTHON) -m venv --clear build/lowest
	$(BIN)/python tools/lowest_versions.py pyproject.toml > build/lowest/constraints.txt
	build/lowest/bin/python -m pip install --quiet --upgrade pip
	build/lowest/bin/python -m pip install --quiet --constraint build/lowest/constraints.txt \
		-e ".[explore,cluster,minilm,retrieve,rouge,track]" pytest hypothesis httpx
	touch $@

package: install
	rm -rf dist
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/python tools/check_package.py dist

audit: install build/release/installed
	$(BIN)/python tools/audit.py build/release/bin/pip-audit

sbom: install build/release/installed
	mkdir -p dist
	build/release/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
		--output-file dist/sbom.json $(BIN)/python

build/release/installed:
	$(PYTHON) -m venv --clear build/release
	build/release/bin/python -m pip install --quiet "pip-audit>=2.9" "cyclonedx-bom>=7.0"
	touch $@

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
