# Every target does its own set-up. `make` alone lists them.
PYTHON ?= python3
ARCHS ?=
ALL_ARCHS := 80,86,89,90a,100f,120f
export ARCHS PYTHON

DEV = @$(PYTHON) tools/dev.py
RUN = $(DEV) exec --

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help needs needs-tests run build test test-cpp test-python test-kernels kernels-quick layers compare-tokenizers check-api docs-check stubs lint \
        types gpu-test gpu-package gpu-build gpu-cpp gpu-pytest gpu-bench gpu-sanitize check-limits measure-host sanitize tsan fuzz-pool fuzz-api bench wheel wheel-test wheelhouse \
        format precommit clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

needs:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	  { echo 'missing: Python 3.10 or newer as "$(PYTHON)" (Debian: python3 python3-venv; or make PYTHON=...)'; exit 1; }

run: needs ## set up, build, install into .venv and run the demonstration
	@KIND=build $(PYTHON) tools/dev.py build
	$(RUN) pygpukit demo

build: needs ## set up, build and install into .venv; ARCHS=90a also compiles the kernels beforehand
	$(DEV) build

test: needs-tests build layers lint test-cpp test-python kernels-quick check-api docs-check ## every test that needs no GPU
	@echo "-- all tests passed"

needs-tests: needs
	$(DEV) needs-tests

test-cpp: needs-tests build ## the C++ tests
	$(DEV) cpp-tests

test-python: build ## the Python tests
	$(RUN) python tools/run_tests.py

kernels-quick: build
	$(RUN) python tools/check_kernels.py --quick

test-kernels: build ## every instance of every kernel for every chip with NVRTC 12.9 and 13; cross-compile for Windows
	$(RUN) python tools/check_kernels.py --archs $(ALL_ARCHS)
	$(RUN) python tools/check_mingw.py

layers:
	@$(PYTHON) tools/check_layers.py

compare-tokenizers: build ## our tokenizer and the package `tokenizers` over lines of a generator: N=100000, of PYGPUKIT_ASSETS
	$(RUN) python tools/compare_tokenizers.py --lines $(or $(N),100000)

check-api: build ## the names and keywords of the 0.2 API
	$(RUN) python tools/check_api.py

docs-check: build ## code blocks, links and commands in README and docs
	$(RUN) python tools/check_docs.py

lint: build
	$(RUN) python -m ruff check .
	$(RUN) python -m mypy
	$(RUN) python tools/check_stubs.py

stubs: build ## write the stubs in python/pygpukit/_core anew
	$(RUN) python tools/check_stubs.py --write

gpu-test: needs ## on a machine with a GPU: build, test, measure, check the limits, in 25 minutes
	@$(PYTHON) tools/gpu_test.py

gpu-package: needs
	@KIND=test ARCHS=$(or $(ARCHS),90a) $(PYTHON) tools/dev.py build

gpu-build: gpu-package ## for the targets below, with the kernels and the C++ tests
	@$(PYTHON) tools/dev.py build-cpp-tests

gpu-cpp: gpu-package
	@PYGPUKIT_REQUIRE_GPU=1 $(PYTHON) tools/dev.py cpp-tests

gpu-pytest: gpu-package ## the Python tests on a GPU: PART=1/2, SECONDS=480
	@PYGPUKIT_REQUIRE_GPU=1 $(PYTHON) tools/dev.py exec -- python tools/run_tests.py --part $(or $(PART),1/1) --seconds $(or $(SECONDS),480)

gpu-bench: gpu-package ## measure on a GPU, what was longest ago first: PART=2/3, SECONDS=480, ONLY=groups
	$(RUN) python tools/measure.py --part $(or $(PART),1/1) --seconds $(or $(SECONDS),480) $(if $(SEED),--seed $(SEED)) \
	  $(if $(ONLY),--only $(ONLY))

gpu-sanitize: gpu-package ## every kernel of matrix products under compute-sanitizer
	$(RUN) python tools/sanitize_gpu.py

check-limits: ## check a committed result again: FILE=bench/results/...
	@$(PYTHON) tools/check_limits.py $(FILE)

measure-host: ## time `make run` and `make test` in a fresh clone
	@$(PYTHON) tools/measure_host.py

bench: build ## measure on this machine
	$(RUN) python bench/measure.py --out build/measure.json

sanitize: needs ## C++ and Python tests under the address and undefined-behaviour sanitizers
	$(DEV) sanitize

tsan: needs ## C++ tests under the thread sanitizer
	$(DEV) tsan

fuzz-pool: needs ## the memory pool against its model: N=100000000 steps
	@N=$(or $(N),1000000) $(PYTHON) tools/dev.py fuzz-pool

fuzz-api: needs ## hostile calls of every public function under the sanitizers: N=1000000 calls, SEED=1
	@N=$(or $(N),1000000) SEED=$(or $(SEED),1) $(PYTHON) tools/dev.py fuzz-api

wheel: needs ## dist/*.whl with the kernels for every chip, and the source distribution
	$(DEV) wheel

wheel-test: wheel ## install, use and remove the wheel and the source distribution in empty environments
	$(RUN) python tools/wheel_test.py

wheelhouse: needs ## what a machine without network needs to build: FOR=3.12 names its Python
	$(DEV) wheelhouse

format: needs ## rewrite sources in the project's style
	@KIND=lint $(PYTHON) tools/dev.py setup
	$(RUN) python tools/format.py

precommit: needs ## the checks of the commit hook
	@KIND=lint $(PYTHON) tools/dev.py setup
	$(RUN) python tools/format.py --check
	@$(MAKE) --no-print-directory layers lint

clean: ## remove what was built
	@rm -rf build dist .venv
