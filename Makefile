# Every target sets up what it needs (a .venv, the build, the tools), in any order, and again.
# Needed beforehand: Python 3.11 or newer with venv, a C++20 compiler, make.

PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest -q -n $(JOBS)
SOURCES := CMakeLists.txt pyproject.toml $(shell find native -type f)
PACKAGES := $(shell find python/needle -name __init__.py)

# Tests that run once more on each instruction set, and with tensors over plain NumPy arrays.
NATIVE_TESTS := tests/parity tests/native
THREAD_TESTS := tests/native/test_threads.py tests/parity/test_threads_equal.py \
  tests/compile/test_concurrency.py
NUMPY_TESTS := tests/ops/test_forward.py tests/ops/test_gradient.py::test_gradient
# Kernels of cuda() beside the reference: what the simulator runs in minutes.
CUDA_PARITY := tests/parity/test_parity_mix.py tests/parity/test_parity_index.py \
  tests/parity/test_program_random.py
# Tests that open files and start processes; once more as `python -X dev`, which reports what stays open.
DEV_TESTS := tests/io tests/data
# For make check: the quickest tests of each room, without those that take seconds each.
QUICK_TESTS := tests/unit tests/contract tests/autograd tests/ndarray/test_ndarray.py \
  tests/ops/test_coverage.py tests/ops/test_forward.py tests/ops/test_gradient.py \
  tests/ops/test_errors.py tests/compile/test_jit.py tests/compile/test_passes.py \
  tests/compile/test_fuse.py tests/nn/test_module.py tests/nn/test_container.py \
  tests/optim/test_course.py tests/io/test_saving.py tests/train/test_trainer.py tests/docs
NOT_QUICK := over_numpy or deep_chain or memory_flat or memory_is_flat or number_of_tensors \
  or live_tensors or as_in_torch or retracing_often

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help train test test-slow check lint format bench docs wheel wheel-test clean
.PHONY: asan parity-wide tsan cuda selftest selftest-wide selftest-aarch64

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' Makefile

train: $(VENV)/installed ## needle train digits: progress, curves, test accuracy
	$(VENV)/bin/needle train digits

test: $(VENV)/tested $(VENV)/with-test ## all tests, after those of each instruction set and mode
	@for isa in $$($(PY) -c "from needle import _native; print(*_native.instruction_sets()[1:])"); \
	do echo "NEEDLE_CPU=$$isa" && NEEDLE_CPU=$$isa $(PYTEST) $(NATIVE_TESTS) || exit 1; done
	@echo NEEDLE_BACKEND=np && NEEDLE_BACKEND=np $(PYTEST) $(NUMPY_TESTS)
	@echo PYTHONDEVMODE=1 && PYTHONDEVMODE=1 $(PYTEST) $(DEV_TESTS)
	@echo "all tests, best instruction set" && $(PYTEST)

check: lint ## the linters and the quick tests: a minute on two cores
	$(PYTEST) -k "not ($(NOT_QUICK))" $(QUICK_TESTS)

test-slow: $(VENV)/installed $(VENV)/with-test ## adds the operators of docs/add-an-op.md to a copy, builds it
	$(PY) -m pytest -q -m slow

lint: $(VENV)/installed $(VENV)/with-test $(VENV)/with-lint ## ruff, clang-format and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/clang-format --dry-run --Werror $(filter %.h %.cc,$(SOURCES))
	$(PY) -m mypy

format: $(VENV)/installed $(VENV)/with-lint ## generated stubs, and what lint would ask for
	$(PY) tools/public_names.py
	$(PY) tools/tensor_methods.py
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(VENV)/bin/clang-format -i $(filter %.h %.cc,$(SOURCES))

bench: $(VENV)/installed ## import time; kernels beside PyTorch, if it is installed in .venv
	$(PY) benchmarks/import_time.py
	$(PY) benchmarks/kernels.py --seconds 0.3

docs: $(VENV)/installed $(VENV)/with-test $(VENV)/with-docs ## run the docs' examples, build build/site
	$(PY) -m pytest -q tests/docs
	$(PY) tools/build_site.py build/site

# From Python 3.12 on, one wheel serves that and newer ones (the stable part of Python's interface);
# make wheel VENV=.venv-3.12 PYTHON=python3.12 makes it beside that of another Python.
wheel: $(VENV)/with-build ## build dist/needle_dl-*.whl for all machines, and say for which Pythons
	rm -rf build/made$(VENV)
	$(PY) -m pip wheel -q --no-deps --no-build-isolation -Cbuild-dir=build/wheel$(VENV) \
	  -Cwheel.py-api=cp312 -w build/made$(VENV) .
	$(PY) tools/check_wheel.py build/made$(VENV)/*.whl
	mkdir -p dist && mv build/made$(VENV)/*.whl dist

wheel-test: wheel $(VENV)/with-test ## train the digits where there is only that wheel and NumPy
	$(PY) -m pip install -q "numpy>=1.26"
	$(PY) -m pytest -q -p no:cacheprovider --noconftest tests/wheel

# Checks of the native core ------------------------------------------------------------------------

# Python itself is not instrumented: the sanitizer's library goes first, and leaks are not looked for.
preload = LD_PRELOAD="$$(g++ -print-file-name=lib$(1).so) $$(g++ -print-file-name=libstdc++.so)"

asan: .venv-asan/installed .venv-asan/with-test ## parity tests under AddressSanitizer and UBSan
	$(call preload,asan) ASAN_OPTIONS=detect_leaks=0:halt_on_error=1:allocator_may_return_null=1 \
	  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  .venv-asan/bin/python -m pytest -q -n $(JOBS) -p no:cacheprovider tests/parity

parity-wide: .venv-wide/installed .venv-wide/with-test ## the same with vectors and tiles as AVX-512 and AMX have
	NEEDLE_CPU=wide .venv-wide/bin/python -m pytest -q -n $(JOBS) -p no:cacheprovider tests/parity

tsan: .venv-tsan/installed .venv-tsan/with-test ## the thread pool's tests under ThreadSanitizer
	$(call preload,tsan) TSAN_OPTIONS=halt_on_error=1:die_after_fork=0 NEEDLE_NUM_THREADS=4 \
	  setarch -R .venv-tsan/bin/python -m pytest -q -p no:cacheprovider $(THREAD_TESTS)

cuda: $(VENV)/tested $(VENV)/with-test $(VENV)/with-cuda ## tests of cuda() on the simulator, which stands for the driver
	NEEDLE_CUDA=sim $(PYTEST) tests/cuda
	NEEDLE_CUDA=sim $(PYTEST) -k cuda $(CUDA_PARITY)

selftest: build/selftest/needle_selftest ## the kernels' self-test, without Python
	$<

selftest-wide: build/wide/needle_selftest ## the same with vectors of 64 bytes, on any machine
	NEEDLE_CPU=wide $<

selftest-aarch64: build/aarch64/needle_selftest ## the same, cross-built for AArch64, under qemu
	@command -v qemu-aarch64 > /dev/null || (apt-get update && apt-get install -y qemu-user)
	qemu-aarch64 -L /usr/aarch64-linux-gnu $<

build/selftest/needle_selftest: CMAKE_OPTIONS := -DNEEDLE_ISAS=runnable
build/wide/needle_selftest: CMAKE_OPTIONS := -DNEEDLE_ISAS=wide
build/aarch64/needle_selftest: CMAKE_OPTIONS := -DCMAKE_TOOLCHAIN_FILE=native/aarch64.cmake
build/aarch64/needle_selftest: | /usr/bin/aarch64-linux-gnu-g++

build/%/needle_selftest: $(SOURCES) | $(VENV)/with-build
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake -S . -B build/$* -G Ninja -DNEEDLE_SELFTEST=ON \
	  $(CMAKE_OPTIONS)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake --build build/$* -j $(JOBS) --target needle_selftest
	touch $@

/usr/bin/aarch64-linux-gnu-g++:
	apt-get update && apt-get install -y g++-aarch64-linux-gnu

# Set-up -------------------------------------------------------------------------------------------

# The packages that pyproject.toml names: build requirements, or an optional group.
requirements = $$($(PYTHON) -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
  print(*(p['project']['optional-dependencies'] | {'build': p['build-system']['requires'] \
  + ['cmake>=3.25', 'ninja']})['$(1)'])")

define install_group
@echo "$(@D): installing what pyproject.toml names for $*"
@$(@D)/bin/python -m pip install -q $(call requirements,$*)
@touch $@
endef

# Which instruction sets are built (CMakeLists.txt has the words): the best one of this machine, or
# all that it has for tests. A wheel has all that there are.
ISAS = native
$(VENV)/tested: ISAS = runnable
.venv-wide/installed: ISAS = native;wide
.venv-asan/installed: BUILD_OPTIONS := -Ccmake.define.NEEDLE_SANITIZE=address,undefined
.venv-tsan/installed: BUILD_OPTIONS := -Ccmake.define.NEEDLE_SANITIZE=thread

# Editable: Python files are used where they lie; native sources and new packages need this again.
define install_needle
@echo "$(@D): building and installing needle, instruction sets: $(ISAS) (a minute or two)"
@$(@D)/bin/python -m pip install -q --no-build-isolation -Cbuild-dir=build/for$(@D) \
  "-Ccmake.define.NEEDLE_ISAS=$(ISAS)" $(BUILD_OPTIONS) -e .
@$(@D)/bin/python -m compileall -q python/needle
@touch $(@D)/installed $@
endef

%/installed: $(SOURCES) $(PACKAGES) | %/with-build
	$(install_needle)

$(VENV)/tested: $(SOURCES) $(PACKAGES) | $(VENV)/with-build
	$(install_needle)

$(VENV)/with-%: pyproject.toml | $(VENV)/created
	$(install_group)

.venv-asan/with-%: pyproject.toml | .venv-asan/created
	$(install_group)

.venv-tsan/with-%: pyproject.toml | .venv-tsan/created
	$(install_group)

.venv-wide/with-%: pyproject.toml | .venv-wide/created
	$(install_group)

%/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "needle needs Python 3.11 or newer; say which with make PYTHON=python3.11")'
	$(PYTHON) -m venv $*
	@touch $@

.PRECIOUS: %/created %/installed $(VENV)/with-% .venv-asan/with-% .venv-tsan/with-% .venv-wide/with-%
.PRECIOUS: build/%/needle_selftest

clean: ## remove everything that make made
	rm -rf .venv .venv-* build dist
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
