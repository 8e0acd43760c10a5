# The two commands: `make demo` and `make test`. Both create the environment in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
# Which versions a new lock may change: nothing that the old one fixes, `--upgrade` for all, or
# `--upgrade-package NAME`.
UPGRADE ?=
# One lock for Linux and macOS and each Python from 3.11 on, without the addresses of any index.
LOCK = compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(UPGRADE)
# Where the machine says not to keep compiled modules, every process would compile ours again.
export PYTHONDONTWRITEBYTECODE :=
# The first line of a docstring, and its commands with the lines that go on with them.
define COMMANDS
FNR == 1 { sub(/^"""/, "\n"); print; inside = 1; next } \
/"""$$/ { inside = more = 0 } \
inside && /^(Usage:|   ) [a-z\/]*(python|pip) / { sub(/^(Usage:|   ) */, "    "); print; more = 1; next } \
more && /^       / { sub(/^ */, "        "); print; next } \
{ more = 0 }
endef

PYTEST = $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: wheel demo test test-all test-quick audit check lint types imports trusted trusted-page docs format lock bench clean help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dp-release needs Python 3.11 or newer; set PYTHON=/path/to/it")'
	@echo "Creating the environment in $(VENV) (about a minute) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@echo "Making Prefect's tables and compiling, once (half a minute) ..."
	@$(BIN)/python -m flows.engine.compiled_loops & compiled=$$!; $(BIN)/python -m flows.engine.prefect_tables && wait $$compiled
	@touch $(READY)

demo: $(READY)  ## make a whole release of the built-in survey
	$(BIN)/dp-release demo

test: $(READY)  ## run the tests: all kinds, a few of each long row of cases
	$(PYTEST) --unless-audited

test-all: $(READY)  ## run every test at full size; if all pass, note what was tested in tests/audited.txt
	@audited=$$($(BIN)/python -m tests.trusted_core --digest) && set -x && \
	$(PYTEST) --full && echo $$audited > tests/audited.txt

test-quick: $(READY)  ## run the tests that take no more than a few seconds each
	$(PYTEST) -m "not slow"

audit: $(READY)  ## compare every charge with the exact answers on neighbouring files (minutes)
	$(BIN)/dp-release audit

check: lint types imports test  ## everything CI checks

lint: $(READY)  ## style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)  ## types
	$(BIN)/mypy

imports: $(READY)  ## which package may import which
	$(BIN)/lint-imports

trusted: $(READY)  ## list the files that the privacy of a release depends on
	@$(BIN)/python -m tests.trusted_core

trusted-page: $(READY)  ## rewrite docs/trusted-core.md, and the computed parts of docs/privacy-specification.md
	@$(BIN)/python -m tests.trusted_core --page > docs/trusted-core.md
	@$(BIN)/python -m tests.privacy_specification --write

$(DOCS_READY): $(READY) docs/requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement docs/requirements.lock
	@touch $(DOCS_READY)

docs: $(DOCS_READY)  ## build the documentation's site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is in site/: open site/index.html."

format: $(READY)  ## rewrite the code in the project's style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(READY)  ## build the wheel in dist/
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

lock:  ## renew the three locks with the hashes of every file; UPGRADE=--upgrade
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && \
	$(PYTHON) -m venv "$$tools" && "$$tools/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9 && \
	"$$tools/bin/uv" --quiet pip $(LOCK) pyproject.toml --extra pipeline --extra export --group dev --group build --output-file requirements.lock && \
	"$$tools/bin/uv" --quiet pip $(LOCK) pyproject.toml --extra pipeline --group build --constraint requirements.lock --output-file deployments/image/requirements.lock && \
	"$$tools/bin/uv" --quiet pip $(LOCK) --group pyproject.toml:docs --constraint requirements.lock --output-file docs/requirements.lock

bench: $(READY)  ## list the benchmarks: what each asks, and how to run it
	@awk '$(COMMANDS)' $(filter-out benchmarks/common.py,$(wildcard benchmarks/*.py))

clean:  ## remove the environment and caches
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
