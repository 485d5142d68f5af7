PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: setup sweep refute build test check bench calibrate fmt lock clean

setup: $(VENV)/.ready  ## the k3prof command, in a virtual environment of its own

build: $(VENV)/.ready  ## llama.cpp, compiled once and cached
	$(BIN)/k3prof build

sweep: build  ## measure the shipped placements on this machine
	$(BIN)/k3prof sweep placements/

refute: build  ## test the shipped hypotheses on this machine
	$(BIN)/k3prof refute placements/

test: check  ## everything that must hold: style, types, architecture, behaviour
	$(BIN)/python -m pytest

check: $(VENV)/.dev-ready build
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev-ready build  ## what k3prof itself costs, as ratios measured in one run
	$(BIN)/python -m tests.bench

calibrate: $(VENV)/.dev-ready  ## how often verdicts are wrong, on simulated truth
	$(BIN)/python -m tests.calibrate

fmt: $(VENV)/.dev-ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# llama-cpp-python is built without its own llama.cpp, since `k3prof build` makes the one that both use; nothing may
# take that wheel out of pip's cache for the real one.
$(VENV)/.ready: requirements-build.lock requirements.lock k3prof/llama/llama_cpp.lock pyproject.toml
	@echo "setting up $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "error: Python 3.11 or newer is needed; name it with make PYTHON=python3.x"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements-build.lock -r requirements.lock
	SKBUILD_WHEEL_CMAKE=false $(PIP) install --no-cache-dir --no-deps --no-build-isolation --require-hashes \
	    -r k3prof/llama/llama_cpp.lock
	$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.dev-ready: $(VENV)/.ready requirements-dev.lock
	$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

LOCK := CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --generate-hashes --strip-extras --quiet \
    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
    --no-build-isolation --unsafe-package llama-cpp-python

lock: $(VENV)/.dev-ready  ## renew the lock files
	$(LOCK) --output-file requirements-build.lock requirements-build.in
	$(LOCK) --output-file requirements-dev.lock --extra dev pyproject.toml
	$(LOCK) --output-file requirements.lock --constraint requirements-dev.lock pyproject.toml

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
