# Shortcuts over tools/setup.sh, CMake presets and CTest. `make help` lists them.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
# YES=1 installs what is missing without asking (as does CI=1).
SETUP := tools/setup.sh $(if $(YES),--yes)

.PHONY: help setup build demo test fast asan tsan fuzz lint format bench package install clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing (asks first, unless CI=1 or YES=1)
	@$(SETUP)

build: setup ## the program, at build/tempera, and its tests
	@cmake --preset release --log-level=NOTICE
	@cmake --build --preset release -j $(JOBS)

demo: build ## optimise a super-resolution model on real photos; writes demo/report.html
	@tools/demo.sh

test: build ## every test
	@ctest --preset all -j $(JOBS)

fast: build ## the tests without the slow ones
	@ctest --preset fast -j $(JOBS)

asan: setup ## the fast tests under the address and undefined-behaviour sanitizers
	@cmake --preset asan --log-level=NOTICE
	@cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan -j $(JOBS)

tsan: setup ## the tests of threaded rooms under the thread sanitizer
	@cmake --preset tsan --log-level=NOTICE
	@cmake --build --preset tsan -j $(JOBS)
	@ctest --preset tsan -j $(JOBS)

fuzz: setup ## every fuzz target for TEMPERA_FUZZ_SECONDS (60); needs clang
	@cmake --preset fuzz --log-level=NOTICE
	@cmake --build --preset fuzz -j $(JOBS)
	@ctest --preset fuzz

lint: setup ## clang-tidy 14 over our code; FILES="a.cc b.cc" for some of it
	@cmake --preset release --log-level=NOTICE
	@tools/lint.sh $(FILES)

format: ## clang-format 14 over our code
	@tools/format.sh

bench: build ## figures against peers and limits, measured in pairs
	@tools/bench.sh

package: build ## a relocatable archive under build/
	@tools/package.sh

install: ## what `make build` built, into PREFIX (default /usr/local), under DESTDIR when set
	@test -x build/tempera || { echo "install: error: build/tempera does not exist"; echo "  try: make build"; exit 2; } >&2
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

clean: ## remove what was built (the cached SDKs stay)
	rm -rf build build-dev build-asan build-tsan build-coverage build-fuzz demo
