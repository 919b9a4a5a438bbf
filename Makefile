# `make demo` runs the main job, `make quick` checks a change in about a minute, `make test` is what CI runs.
# Each target sets up what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
HOSTS ?= .venv-integrations

# Every loss, the rules of the packages, and one short run of each task; without tests that start processes of their own.
QUICK_TESTS := tests/losses tests/test_statistics.py tests/test_architecture.py tests/tasks/test_quick_runs.py
# With bytecode: otherwise every process compiles torch again where PYTHONDONTWRITEBYTECODE is set, which takes seconds.
INSTALL := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt
# What an installation depends on; it compiles the C passes of the losses.
INSTALLED := pyproject.toml constraints.txt hatch_build.py src/equigrad/losses/compiled/rows.c
# For the same reason the tests and their processes keep the bytecode of the sources, whatever the environment says.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal

# Random cases of `make fuzz`, of each fuzzer; a seed gives the same cases again: make fuzz SEED=7
FUZZ_CASES ?= 1000000

.PHONY: demo page-pictures page-speed lint quick quick-tests quick-pythons test test-gpu test-integrations integrations exactness fuzz kernel-space faults benchmark clean

demo: $(VENV)/train.done
	$(BIN)/equigrad demo

# The pictures of the page in README.md, from the page of the demo; needs Chromium.
page-pictures: $(VENV)/dev.done demo
	$(BIN)/python -m tests.page_pictures runs/demo/report.html docs/figures

# The table of docs/page.md: size of a page of thousands of categories, and how long it takes.
page-speed: $(VENV)/dev.done
	$(BIN)/python -m tests.page_speed

lint: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

quick: lint quick-tests

quick-tests: $(VENV)/dev.done
	$(PYTEST) -m "not slow" -k "not two_ranks" $(QUICK_TESTS)

# The quick tests with each Python that is installed, on the PATH or by pyenv, in a virtual environment of its own.
quick-pythons:
	@for version in 3.11 3.12 3.13; do \
		found=; \
		for python in python$$version $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python; do \
			if $$python -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$$version')" 2>/dev/null; then found=$$python; break; fi; \
		done; \
		if [ -n "$$found" ]; then \
			echo "Python $$version: $$found"; \
			$(MAKE) --no-print-directory quick-tests PYTHON=$$found VENV=.venv-$$version || exit 1; \
		else echo "Python $$version: not installed, skipped"; fi; \
	done

test: lint
	$(PYTEST) --durations=10

# For whoever has a CUDA or ROCm device. One process: tests look at the peak of its memory.
test-gpu: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/pytest -m gpu -r s tests/gpu

# Host libraries of docs/integrations, in an environment of their own.
test-integrations: $(HOSTS)/integrations.done
	OMP_NUM_THREADS=1 $(HOSTS)/bin/pytest --numprocesses 2 --dist worksteal -k integrations -r s tests/integrations tests/test_docs.py

# The five checks in every host: measures the table of docs/integrations/README.md.
integrations: $(HOSTS)/integrations.done
	OMP_NUM_THREADS=1 $(HOSTS)/bin/python -m tests.integrations --table docs/integrations/README.md

# Ranks, micro-batches, precisions, wrappers and resumption against one process: measures the table of docs/exactness.md.
exactness: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.exactness --table docs/exactness.md

# Takes about an hour for each fuzzer; the tests try a few thousand cases of the same kind.
fuzz: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --cases $(FUZZ_CASES) $(if $(SEED),--seed $(SEED))

# The GPU kernels in Triton's interpreter on 100 batches of each kind, with up to 75,000 categories; the tests try ten smaller ones.
kernel-space: $(VENV)/dev.done
	EQUIGRAD_KERNEL_EXAMPLES=100 $(PYTEST) tests/losses/kernels/test_sigmoid.py tests/losses/kernels/test_softmax.py

# Disturbs a hundred trainings and renews the table of docs/faults.md.
faults: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults --faults 100 --seed 0 --table docs/faults.md

benchmark: $(VENV)/dev.done
	$(BIN)/python benchmarks/losses.py --best

clean:
	rm -rf .venv .venv-*

$(BIN)/uv:
	$(PYTHON) -c 'import sys; sys.exit("equigrad needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv

$(VENV)/train.done: $(INSTALLED) | $(BIN)/uv
	$(INSTALL) --editable ".[train]"
	touch $@

$(VENV)/dev.done: $(INSTALLED) | $(BIN)/uv
	$(INSTALL) --editable ".[train,dev]"
	touch $@ $(VENV)/train.done

HOST_FILES := $(addprefix tests/integrations/,constraints.txt overrides.txt requirements.txt)

$(HOSTS)/integrations.done: $(INSTALLED) $(HOST_FILES)
	$(MAKE) --no-print-directory $(HOSTS)/bin/uv VENV=$(HOSTS)
	$(HOSTS)/bin/uv pip install --quiet --compile-bytecode --python $(HOSTS)/bin/python --constraint constraints.txt \
		--constraint tests/integrations/constraints.txt --override tests/integrations/overrides.txt \
		--editable ".[train,dev]" --requirements tests/integrations/requirements.txt
	touch $@
