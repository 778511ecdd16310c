# Two commands do everything on a machine with Python 3.11+ and make:
#   make demo   learn from simulated clicks and compare with the unlearned metric
#   make test   run every check: format, lint, types, imports, tests
# `make serve` runs the live service with example images.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal
MINUTES ?= 10
PLACES ?= 300

.PHONY: help demo test test-fast test-oldest docs dist fuzz coverage mutate lint format bench-step bench-learners bench-graph bench-stream bench-search bench-recipe bench-anchored bench-service bench-report serve clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: $(VENV)/.plots ## learn from simulated clicks with AnchoredOAHU and LEGO; writes demo-output/
	@$(BIN)/oahu demo

serve: $(VENV)/.service ## run the live service with example images at http://127.0.0.1:8000/
	@$(BIN)/oahu serve --demo

test: $(VENV)/.dev lint ## every check: format, lint, types, import contract, all tests
	@$(PYTEST)

test-fast: $(VENV)/.dev ## the tests without a browser, server processes, kills and slow tests
	@$(PYTEST) -m "not browser and not server and not slow"

test-oldest: ## the core and service tests with the oldest dependencies, in .venv-oldest
	@test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	@.venv-oldest/bin/pip --disable-pip-version-check --quiet install --constraint requirements-oldest.txt \
		--editable '.[ann,parquet,plots,service]' hypothesis playwright pytest pytest-xdist 'schemathesis>=4' torch
	@.venv-oldest/bin/python -m pytest --numprocesses auto -m "not browser and not server" \
		tests/constraints tests/index tests/io tests/learners tests/metrics tests/tasks tests/service tests/cli

docs: $(VENV)/.docs ## build the documentation site in docs/_build/html; warnings are errors
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

dist: ## build wheel and sdist in dist/, install each in an empty environment and run a smoke test
	@$(PYTHON) tools/build_dist.py

fuzz: $(VENV)/.dev ## property tests with random seeds: make fuzz MINUTES=60
	@$(BIN)/python tools/fuzz.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(TESTS)

lint: $(VENV)/.dev ## format, lint, types and the import contract
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/package_map.py --check

format: $(VENV)/.dev ## put the code into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/python tools/package_map.py

coverage: $(VENV)/.dev ## coverage per package, and the tests of every line in .coverage
	@$(PYTEST) -m "not browser and not server" --cov=src/oahu --cov-context=test --cov-report=
	@$(BIN)/python tools/coverage_by_package.py

mutate: $(VENV)/.dev ## mutation test: change one place of the source at a time and run its tests (after make coverage)
	@$(BIN)/python tools/mutate.py --places $(PLACES)

bench-step: $(VENV)/.bench ## speed and memory of the online step
	@$(BIN)/python benchmarks/step.py

bench-learners: $(VENV)/.dev ## speed of every learner
	@$(BIN)/python benchmarks/learners.py

bench-graph: $(VENV)/.dev ## transitive closure of a million constraints
	@$(BIN)/python benchmarks/graph.py

bench-stream: $(VENV)/.dev ## a million lines through oahu train, stopped and resumed
	@$(BIN)/python benchmarks/stream.py

bench-search: $(VENV)/.bench ## search against faiss, scikit-learn and plain products
	@$(BIN)/python benchmarks/search.py

bench-recipe: $(VENV)/.dev ## what OAHU's error depends on, on Fashion-MNIST (oahu datasets get fashion-mnist)
	@$(BIN)/python benchmarks/recipe.py
	@$(BIN)/python benchmarks/minibatch.py

bench-anchored: $(VENV)/.plots ## AnchoredOAHU on digits by number of clicks, and with its parts taken away
	@$(BIN)/python benchmarks/anchored.py
	@$(BIN)/python benchmarks/anchored.py --parts

bench-service: $(VENV)/.dev ## the live service under load: searches, acknowledged feedback, restart, memory
	@$(BIN)/python benchmarks/service.py

bench-report: $(VENV)/.dev ## the live report: clicks, report and true precision; coverage of its interval
	@$(BIN)/python benchmarks/live_report.py
	@$(BIN)/python benchmarks/live_report.py tiles:colour --coverage 100

clean: ## forget the environment and everything built
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# requirements.txt holds back what must not float; a plain `pip install oahu` takes any release that fits.
$(VENV)/.%: pyproject.toml requirements.txt | $(VENV)/bin/python
	@echo "Installing oahu[$*] into $(VENV) ..."
	@$(PIP) install --constraint requirements.txt --editable '.[$*]'
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "oahu needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
