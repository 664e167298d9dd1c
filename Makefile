# Everything sets itself up in .venv; only Python 3.11+, make and a C++ compiler are needed.
#   make demo      compare samples, see the speed beside POT, write pictures and a drift report
#   make test      all checks and tests
#   make test-core the tests of the core, where no framework is installed
#   make test-cpp  the tests of the kernel in C++; make test runs them too
#   make test-arm64  the same, compiled for arm64 and run under qemu-user
#   make bench     speed and memory against peers and limits, as a table and as JSON
#   make paper     every experiment of the paper at a small size, with a verdict on each
#   make docs      the documentation site, in build/docs; warnings are errors
#   make sanitize  the kernel's tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   make wheel     a source distribution and a manylinux wheel for this Python, in dist
#   make test-wheel  both, installed where no compiler is found; make test-wheel-core the core's tests on the wheel
#   make clean     remove what the above made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HEADERS := $(filter-out cpp/tests/%,$(wildcard cpp/*/*.hpp))
UNFUSED := cpp/sketch/integer_turns.cpp
BINDINGS := $(wildcard cpp/bindings/*.cpp)
KERNEL := CMakeLists.txt $(BINDINGS) $(UNFUSED) $(HEADERS)
CPP_TESTS := $(wildcard cpp/tests/*)
ifeq ($(origin CXX),default)
CXX := c++
endif
# An editable install knows the modules that were there when it was made: folders change when one is added.
FOLDERS := $(shell find src -type d -not -name __pycache__)

# Build requirements obey the constraints too; pip parts a list of them at blanks, which an address does not have. A kernel
# that does not build is an error here, not a slower package.
EMPTY :=
export PIP_CONSTRAINT := file://$(subst $(EMPTY) ,%20,$(CURDIR))/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export SPHEREOT_REQUIRE_KERNEL := 1

.PHONY: help demo test test-core test-cpp test-arm64 lint bench paper docs sanitize wheel test-wheel \
    test-wheel-core clean
help:
	@sed -n '2,13s/^# *//p' Makefile

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sphereot needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras; each is made again when the kernel, the metadata or the constraints change.
$(VENV)/.installed-%: $(VENV)/bin/python pyproject.toml constraints.txt $(KERNEL) $(FOLDERS)
	@echo "Installing into $(VENV): packages, and the kernel, which takes some minutes to compile."
	$(BIN)/pip install --quiet --editable ".[$*]"
	@touch $@

# Warnings of the compiler are errors for those who test, not for those who only use the package.
$(VENV)/.installed-test $(VENV)/.installed-core-test: export CMAKE_ARGS := -DSPHEREOT_WERROR=ON

demo: $(VENV)/.installed-demo
	$(BIN)/python examples/demo.py

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(BINDINGS) $(UNFUSED) $(HEADERS) $(CPP_TESTS)
	$(BIN)/mypy
	$(BIN)/python tools/check_words.py

# A run of all tests also reports the lines of the package that none of them runs; TESTS=tests/stats runs a part.
COVERAGE := $(if $(TESTS),,--cov --cov-report=term --cov-fail-under=95)
test: lint test-cpp
	$(BIN)/python -m pytest -n auto --dist worksteal $(COVERAGE) $(TESTS)

# The tests in C++, for the baseline and for the instruction set of this machine. No Python and no library is needed.
TEST_FLAGS := -std=c++20 -O2 -fno-math-errno -fno-trapping-math -fopenmp-simd -Wall -Wextra -Wconversion -Wshadow -Werror
build/cpp-tests/native: private MACHINE := -march=native
build/cpp-tests/arm64: private MACHINE := -static
build/cpp-tests/%: $(HEADERS) $(UNFUSED) $(CPP_TESTS) Makefile
	@mkdir -p $(@D)
	$(CXX) $(TEST_FLAGS) $(MACHINE) -ffp-contract=off -Icpp -c $(UNFUSED) -o $@.unfused.o
	$(CXX) $(TEST_FLAGS) $(MACHINE) -Icpp $(filter %.cpp,$(CPP_TESTS)) $@.unfused.o -pthread -o $@

test-cpp: build/cpp-tests/baseline build/cpp-tests/native
	build/cpp-tests/baseline
	build/cpp-tests/native

ARM64_CXX := aarch64-linux-gnu-g++
test-arm64:
	@if command -v $(ARM64_CXX) >/dev/null && command -v qemu-aarch64 >/dev/null; then \
	    $(MAKE) --no-print-directory CXX=$(ARM64_CXX) build/cpp-tests/arm64 && qemu-aarch64 build/cpp-tests/arm64; \
	else \
	    echo "test-arm64 is skipped: it needs $(ARM64_CXX) and qemu-aarch64 (Debian: g++-aarch64-linux-gnu, qemu-user)"; \
	fi

# The same tests where neither PyTorch nor JAX nor the command line's packages are installed.
test-core:
	@$(MAKE) --no-print-directory VENV=.venv-core .venv-core/.installed-core-test
	.venv-core/bin/python -m pytest -n auto --dist worksteal tests

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks $(BENCH)

paper: $(VENV)/.installed-paper
	$(BIN)/python -m paper all --preset quick

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	@echo "Open build/docs/index.html"

# The baseline kernel, built aside with the sanitizers; the interpreter itself is not, so the runtimes are preloaded.
# Leaks of the interpreter are not ours to report.
SANITIZED := build/sanitized
sanitize: $(VENV)/.installed-test
	$(BIN)/pip install --quiet cmake nanobind
	$(BIN)/cmake -S . -B $(SANITIZED) -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSPHEREOT_SANITIZE=ON \
	    -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir)
	$(BIN)/cmake --build $(SANITIZED) --target _kernel_baseline
	LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libubsan.so)" \
	    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	    $(BIN)/python tests/_backends/native/sanitized.py $(SANITIZED)

# Tools alone: the package is built from its source distribution, in an environment that build makes.
RELEASE := .venv-release
$(RELEASE)/.installed: pyproject.toml constraints.txt tools/requirements.py
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python tools/requirements.py release > $(RELEASE)/requirements.txt
	$(RELEASE)/bin/pip install --quiet --requirement $(RELEASE)/requirements.txt
	@touch $@

wheel: $(RELEASE)/.installed
	rm -rf dist build/dist
	$(RELEASE)/bin/python -m build --outdir build/dist .
	@mkdir dist
	cp build/dist/*.tar.gz dist
	PATH="$(CURDIR)/$(RELEASE)/bin:$$PATH" auditwheel repair --wheel-dir dist build/dist/*.whl
	$(RELEASE)/bin/twine check --strict dist/*

test-wheel: $(RELEASE)/.installed
	$(RELEASE)/bin/python tools/check_distribution.py

# The tests of `make test-core`, in the environment that test-wheel made.
test-wheel-core: test-wheel
	build/clean/wheel/bin/pip install --quiet "$$(echo dist/*.whl)[core-test]"
	build/clean/wheel/bin/python -m pytest -n auto --dist worksteal $(or $(TESTS),tests)

clean:
	rm -rf $(VENV) .venv-core $(RELEASE) build dist out docs/api docs/gallery .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
