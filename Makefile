# Two commands: `make demo` runs the main job, `make test` passes lint, types and all tests. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test benchmark clean

demo: $(VENV)/train.done
	$(BIN)/equigrad demo

test: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal --durations=10

benchmark: $(VENV)/dev.done
	$(BIN)/python benchmarks/losses.py

clean:
	rm -rf $(VENV)

$(VENV)/bin/uv:
	$(PYTHON) -c 'import sys; sys.exit("equigrad needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv

$(VENV)/train.done: pyproject.toml constraints.txt | $(VENV)/bin/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable ".[train]"
	touch $@

$(VENV)/dev.done: pyproject.toml constraints.txt | $(VENV)/bin/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable ".[train,dev]"
	touch $@ $(VENV)/train.done
