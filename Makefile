# Thin: each target is one line that calls the tool that does the work. The environment is made on first use.
SHELL := /bin/sh
.DEFAULT_GOAL := help
export ROOFLAB_PYTHON

.PHONY: help tour lab test check build record lock clean FORCE

help:  ## list the targets
	@awk -F ':.*##' '/^[a-z]+:.*##/ { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

tour: .venv/.ready  ## the first units and the first lab, executed and graded; leaves one HTML report
	@.venv/bin/rooflab tour

lab: .venv/.ready  ## open JupyterLab at the map of the book
	@.venv/bin/python tools/lab.py

test: .venv/.ready  ## all tests
	@.venv/bin/python tools/test_setup.py && .venv/bin/python -m pytest -rs -n 2 --dist loadgroup --timeout 600

check: .venv/.ready  ## within half a minute: generated files, layout rules, ruff, types
	@.venv/bin/python tools/check.py

build: .venv/.ready  ## generate the notebooks and the README's tables
	@.venv/bin/python tools/build.py && .venv/bin/python tools/readme.py

record: .venv/.ready  ## measure the units on this device and keep the numbers in records/
	@.venv/bin/rooflab record

lock: .venv/.ready  ## resolve the newest packages and pin them
	@.venv/bin/python tools/lock.py

clean:  ## remove the environment, caches and test artefacts
	@rm -rf .venv .artifacts .mypy_cache .ruff_cache .hypothesis build dist

# Always asked, answered in a moment when nothing has changed.
.venv/.ready: FORCE
	@for p in python3 python3.13 python3.12 python3.11 python3.10 python; do \
	  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null && exec "$$p" -S -E tools/bootstrap.py; \
	done; echo "Rooflab needs Python 3.11, 3.12 or 3.13, and no python3 was found: install one of them." >&2; exit 1
