# Everything runs in the virtual environment .venv; nothing needs root.
PYTHON ?= python3
VENV := .venv$(if $(LOCKED),-locked)$(if $(LOWEST),-lowest)
BIN := $(VENV)/bin
DEMO := runs/demo
SENTENCE := The train to Vienna leaves at twenty-five to nine.

PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# One more than there are cores: tests wait for processes and browsers
CORES = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
WORKERS ?= $(shell $(BIN)/python -c 'import os; print(len($(CORES)) + 1)')

.PHONY: help demo parse test additions quick prove mutants torture fuzz real-cupy lint book notebooks sdist clean

help:
	@echo "Times are for 2 idle cores; the first command also installs packages into .venv, in about a minute."
	@echo "make demo    train on the built-in corpus, score, translate, write the translator page (1.5 minutes)"
	@echo "             LOCKED=1: use the packages of requirements.lock, verified by their hashes"
	@echo "make parse   train a parser on the built-in treebank, score it, parse a sentence (5 minutes)"
	@echo "make test    run the test suite (3 minutes)"
	@echo "make additions  run what takes long in the tests of additions and studies: pages in Chromium, runs (1.5 minutes)"
	@echo "make quick   run the fast tests (1.5 minutes; PYTHON=python3.12 VENV=.venv-3.12: use another Python;"
	@echo "             LOWEST=1: use the lowest versions that pyproject.toml allows)"
	@echo "make prove   run all tests, including the slow ones (about 15 minutes)"
	@echo "make mutants run the mutation tests of gradients, engine and checker"
	@echo "make torture kill, starve and damage runs, and give invalid input to all readers (20 minutes)"
	@echo "make fuzz    only the invalid input (2 minutes)"
	@echo "make lint    run ruff and mypy"
	@echo "make book    build the documentation, with its output and figures, into build/book (under 2 minutes of processor time; half a minute if the code is as before)"
	@echo "make notebooks  build the chapters as Jupyter notebooks, in build/notebooks"
	@echo "make sdist   build the source distribution and the wheel in dist/, with a bill of materials and checksums"
	@echo "make clean   delete the virtual environments (runs are kept)"

IS_SUPPORTED := import sys; sys.exit(sys.version_info < (3, 11))

# With an older Python, pip would look for versions of every package that fit it, for many minutes and in vain
$(BIN)/python:
	@$(PYTHON) -c '$(IS_SUPPORTED)' || { \
	    echo "error: $(PYTHON) is $$($(PYTHON) --version 2>&1); Python 3.11 to 3.14 is needed: make PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }

# HIPS autograd has the import name of this project's autograd: in one environment, each would replace files of the other
comma := ,
PIP = $(BIN)/python -m pip install --quiet
define install
@if $(BIN)/python -m pip show --quiet autograd 2>/dev/null; then \
    echo "error: $(VENV) contains HIPS autograd, which has the import name of this project's autograd; run make clean"; exit 2; \
fi
@$(BIN)/python -c '$(IS_SUPPORTED)' || { echo "error: $(VENV) is of $$($(BIN)/python --version); run make clean"; exit 2; }
@echo "installing into $(VENV)"
$(if $(LOCKED),@$(PIP) --require-hashes -r requirements-build.lock)
$(if $(LOCKED),@$(PIP) --require-hashes --no-build-isolation --use-pep517 -r requirements.lock)
$(if $(LOWEST),@$(BIN)/python .ci/lowest.py > $(VENV)/lowest.txt)
@$(PIP) $(if $(LOCKED),--no-build-isolation $(if $(1),,--no-deps)) $(if $(LOWEST),-c $(VENV)/lowest.txt) --editable '.$(1)'
@touch $@
endef

# A stamp for each extra, remade when the project's requirements change
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(call install,)

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(call install,[test])

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(call install,[test$(comma)dev])

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(call install,[docs])

demo: $(VENV)/.installed
	@if [ -e $(DEMO)/config.json ]; then \
	    echo "$(DEMO) holds a run already: resuming it (delete $(DEMO) to start again)"; \
	    $(BIN)/python train.py --resume $(DEMO); \
	else \
	    $(BIN)/python train.py --preset demo --output $(DEMO); \
	fi
	@echo "and a page that translates, for a browser:"
	@$(BIN)/python -m minitf page $(DEMO) --output $(DEMO)/translator.html \
	    --sentence "$(SENTENCE)"
	@echo "translate a sentence:"
	@echo "    . $(BIN)/activate"
	@echo '    minitf translate $(DEMO) --text "$(SENTENCE)"'

parse: $(VENV)/.installed
	@[ -e runs/treebank/vocabulary.model ] || $(BIN)/minitf parse prepare runs/treebank
	@if [ -e runs/parsing-tiny/config.json ]; then \
	    $(BIN)/python train.py --resume runs/parsing-tiny; \
	else \
	    $(BIN)/python train.py --preset parsing-tiny; \
	fi
	$(BIN)/minitf parse test runs/parsing-tiny runs/treebank
	echo "The teacher found the key in the garden ." | $(BIN)/minitf parse trees runs/parsing-tiny

test: $(VENV)/.installed-test
	$(PYTEST) -m "not slow and not apart"

additions: $(VENV)/.installed-test
	$(PYTEST) -m "not slow and apart" additions studies

quick: $(VENV)/.installed-test
	$(PYTEST) -m "not slow and not heavy"

prove: $(VENV)/.installed-test
	$(PYTEST)

mutants: $(VENV)/.installed-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -W error -m tests.mutants

torture: $(VENV)/.installed-test
	TORTURE=1 $(PYTEST) --hypothesis-profile=many tests/torture

fuzz: $(VENV)/.installed-test
	$(PYTEST) --hypothesis-profile=many tests/torture/test_hostile_input.py

# CuPy with CUDA's libraries, 2.3 GB, over a stub of the driver: needs gcc and g++, no card
REAL_CUPY := build/real-cupy/venv
$(REAL_CUPY)/.installed: pyproject.toml
	$(PYTHON) -m venv $(REAL_CUPY)
	$(REAL_CUPY)/bin/python -m pip install --quiet -e '.[gpu,test]' nvidia-cuda-crt
	touch $@

real-cupy: $(REAL_CUPY)/.installed $(VENV)/.installed-test
	$(PYTEST) -m real_cupy --numprocesses 1 tests/minitf/test_on_real_cupy.py studies/tests/benchmarks/test_gpu_window.py

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Every page again, since Sphinx does not see that code has changed which a page runs; the outputs of blocks are kept
# while the code is the same (docs/book/extension/cache.py)
book: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -q -T -W --keep-going -E -a -c docs/book . build/book
	@echo "open build/book/index.html"

notebooks: $(VENV)/.installed
	$(BIN)/python -m docs.book.notebooks build/notebooks

# Dependencies of the build come from the package index; the checklist of a release is in CONTRIBUTING.md
sdist: $(VENV)/.installed-dev
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python .ci/release_files.py dist

clean:
	rm -rf .venv .venv-*
