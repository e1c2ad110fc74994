# One target per verb of the tools; `make help` lists them.
PYTHON ?= python3.11
# Where downloads and the test environment are kept; may be shared between checkouts.
CACHE ?= vendor/cache
# Only the command line sets these: ENV and CPU mean other things in many shells.
$(foreach v,FROM CPU VIA ENV TOPIC IMPORT QUILT ARGS TINY UPSTREAM STEP CONTINUE ABORT RETIRE \
	PROMOTE LOG DIFF LINE REUSE PATCH TESTS LINT ASSISTED_BY MODEL TASKS HOST,\
	$(if $(filter command,$(word 1,$(origin $(v)))),,$(eval $(v) :=)))
# A word that no recipe knows would be taken for another, or for none.
$(foreach v,CPU STEP CONTINUE ABORT LOG IMPORT QUILT REUSE TESTS LINT,$(if $(filter-out 0 1,$($(v))),\
	$(error $(v)=$($(v)): $(v) takes 1 or 0)))
$(if $(filter-out cpu gpu none,$(HOST)),$(error HOST=$(HOST): HOST takes cpu, gpu or none))
$(if $(filter-out 1 line,$(PROMOTE)),$(error PROMOTE=$(PROMOTE): PROMOTE takes 1 or line))
# Here and not in the recipe: build applies the series first.
ifneq ($(filter-out overlay setup,$(VIA)),)
$(error VIA=$(VIA): build takes VIA=overlay or VIA=setup)
endif
ifeq ($(VIA) $(CPU),setup 1)
$(error VIA=setup and CPU=1 exclude each other; leave one of them out)
endif
VENV := .venv
STAMP := $(VENV)/.stamp
DEV_STAMP := $(VENV)/.stamp-dev
BENCH_STAMP := $(VENV)/.stamp-bench
# The Python that measures: one that has the wheel, on a GPU host.
GPU_PYTHON ?= python3
# A line is a project of its own, laid out there.
PROJECT := $(if $(LINE),vendor/lines/$(LINE),.)
CHECKOUT := $(if $(LINE),$(PROJECT)/)vendor/vllm/.git
TOOLS = GDNWINDOW_CACHE="$(abspath $(CACHE))" $(VENV)/bin/python -m tools$(if $(LINE), --line "$(LINE)")
PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help status fetch apply lock refresh verify prove rebase stats watch build extract env lint test-tools test-series \
	test-engine test-bench test promotion promotion-check bench bench-kernels bench-table bench-check gpu-bundle clean \
	distclean

help: ## this text
	@echo "make TARGET [CACHE=folder for downloads and environments]"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# ---- the series --------------------------------------------------------------------------

status: $(STAMP) ## where everything stands
	@$(TOOLS) status

fetch: $(STAMP) ## the pinned sdist and wheel, by hash (FROM=git or a folder, CPU=1)
	@$(TOOLS) fetch $(if $(FROM),--from "$(FROM)") $(if $(filter 1,$(CPU)),--cpu)

apply: $(STAMP) ## vendor/vllm: the pristine tree plus one commit per patch
	@$(TOOLS) apply

lock: $(STAMP) ## write series.lock from the patches as they are, and apply them
	@$(TOOLS) apply --relock

refresh: $(STAMP) ## commits of vendor/vllm back to patches/ (TOPIC=name for new ones)
	@$(TOOLS) refresh $(if $(TOPIC),--topic "$(TOPIC)")

verify: $(STAMP) ## every check of the series (IMPORT=0, QUILT=0: leave out; ENV=folder)
	@$(TOOLS) verify $(if $(filter 0,$(IMPORT)),--no-import) \
		$(if $(filter 0,$(QUILT)),--no-quilt) $(if $(ENV),--env "$(ENV)")

prove: $(STAMP) ## each patch's tests pass with it and fail without it (PATCH=name, ENV=folder)
	@$(TOOLS) prove $(if $(PATCH),--patch "$(PATCH)") $(if $(ENV),--env "$(ENV)")

rebase: $(STAMP) ## the series on UPSTREAM=version (STEP=1; CONTINUE=1, RETIRE=, ABORT=1, PROMOTE=1)
	@$(TOOLS) rebase $(if $(UPSTREAM),--upstream "$(UPSTREAM)") $(if $(filter 1,$(STEP)),--step) \
		$(if $(filter 0,$(REUSE)),--no-reuse) \
		$(if $(filter 1,$(CONTINUE)),--continue) $(if $(RETIRE),--retire "$(RETIRE)") \
		$(if $(filter 1,$(ABORT)),--abort) $(if $(PROMOTE),--promote$(if $(filter line,$(PROMOTE)), line)) \
		$(if $(FROM),--from "$(FROM)")

stats: $(STAMP) ## lines of upstream's files the series touches, and the ceiling (LOG=1: over time)
	@$(TOOLS) stats $(if $(filter 1,$(LOG)),--log)

watch: $(STAMP) ## patches that look merged, upstream's work (DIFF=file: what that collides with)
	@$(TOOLS) watch $(if $(UPSTREAM),--upstream "$(UPSTREAM)") $(if $(DIFF),--diff "$(DIFF)") \
		$(if $(FROM),--from "$(FROM)")

build: apply ## dist/: the patched wheel (VIA=setup: by upstream's setup.py; CPU=1: for tests)
	@$(TOOLS) build $(if $(VIA),--via "$(VIA)") $(if $(filter 1,$(CPU)),--cpu) \
		$(if $(ENV),--env "$(ENV)")

extract: $(DEV_STAMP) ## out/: a branch for upstream (TOPIC=topic or patch, UPSTREAM=fla, TESTS=0, LINT=0)
	@$(TOOLS) extract $(if $(TOPIC),--topic "$(TOPIC)") \
		$(if $(UPSTREAM),--upstream "$(UPSTREAM)") \
		$(if $(ASSISTED_BY),--assisted-by "$(ASSISTED_BY)") $(if $(ENV),--env "$(ENV)") \
		$(if $(filter 0,$(TESTS)),--no-tests) $(if $(filter 0,$(LINT)),--no-lint)

# ---- tests -------------------------------------------------------------------------------

env: $(STAMP) | $(CHECKOUT) ## in CACHE: the environment and CPU build tests run in (8 GB)
	@$(TOOLS) env

lint: $(DEV_STAMP) ## ruff on tools, tests, ci and benchmarks, mypy on the tools
	@$(TOOLS) lint

test-tools: $(DEV_STAMP) ## the tests of the tools
	@$(VENV)/bin/python -m pytest -n auto tests/tools $(ARGS)

test-series: env $(DEV_STAMP) ## the tests that the patches carry, interpreted on a CPU
	@$(VENV)/bin/python ci/series_tests.py "$(PROJECT)" $$($(TOOLS) env --print) $(ARGS)

test-engine: env $(DEV_STAMP) ## the patched engine for real, on a CPU
	@set -- $$($(TOOLS) env --print); GDNWINDOW_CPU_BUILD=$$2 \
		GDNWINDOW_CACHE="$(abspath $(CACHE))" $$1/bin/python -m pytest -q tests/engine $(ARGS)

test-bench: env $(DEV_STAMP) $(BENCH_STAMP) ## the benchmarks' own code on a CPU, and what deploy/ names
	@$(VENV)/bin/python -m pytest -q tests/bench $(ARGS)
	@$(VENV)/bin/python ci/bench_tests.py $$($(TOOLS) env --print) $(ARGS)

test: lint test-tools test-series test-engine test-bench ## all tests that need no GPU
	@$(PYTHON) bench/table.py --check
	@set -- $$($(TOOLS) env --print); CUDA_VISIBLE_DEVICES= PYTHONPATH=$$2 \
		$$1/bin/python ci/support_table.py --check

promotion: $(STAMP) ## docs/promotion.md: what is shown here (HOST=cpu, gpu, none; MODEL=, TASKS=, FROM=)
	@$(TOOLS) promotion $(if $(HOST),--host "$(HOST)") $(if $(MODEL),--model "$(MODEL)") \
		$(if $(TASKS),--tasks "$(TASKS)") --python "$(GPU_PYTHON)" $(if $(FROM),--from $(FROM))

promotion-check: $(STAMP) ## the committed ledger against tests/promotion.toml and series.lock
	@$(TOOLS) promotion --check

# ---- benchmarks (docs/benchmarks.md) ------------------------------------------------------

bench: ## on a GPU host: kernels, engines, latency, tables (ARGS=--quick; TINY=checkpoint folder)
	@code=0; try() { "$$@" || { [ $$? -eq 1 ] && code=1; } || exit 2; }; \
		try $(GPU_PYTHON) bench/layer.py $(ARGS); \
		try $(GPU_PYTHON) bench/engines.py $(if $(TINY),--tiny "$(TINY)") $(ARGS); \
		try $(GPU_PYTHON) bench/latency.py $(ARGS); \
		$(MAKE) --no-print-directory bench-table && exit $$code

bench-kernels: ## on a GPU host: a layer's step against upstream's kernels
	@$(GPU_PYTHON) bench/layer.py $(ARGS)

bench-table: $(BENCH_STAMP) ## README's tables, docs/benchmarks.md and the plots from the JSON
	@$(VENV)/bin/python bench/plots.py
	@$(VENV)/bin/python bench/table.py

bench-check: $(STAMP) ## the committed JSON against bench/targets.toml
	@$(VENV)/bin/python bench/check.py $(ARGS)

gpu-bundle: build ## .gpu/: the wheel in slices for a GPU host without network (ARGS=--ray; LINE: .gpu-LINE/)
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' $(PROJECT)/vendor/upstream.toml); \
		$(VENV)/bin/python ci/gpu/pack.py .gpu$(if $(LINE),-$(LINE)) --wheel dist/vllm-$$version+*manylinux*.whl $(ARGS)

# ---- housekeeping ------------------------------------------------------------------------

clean: $(STAMP) ## delete what was built here; never unsaved work
	@$(TOOLS) clean

distclean: $(STAMP) ## also vendor/vllm (if it is all in patches/), and all downloads and builds of its own
	@$(TOOLS) clean --all

$(CHECKOUT): | $(STAMP)
	@$(TOOLS) apply

$(STAMP): tools/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' || \
		{ echo "Python 3.11.4 or newer is needed: make PYTHON=... names one." >&2; exit 2; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -r $<
	@touch $@

$(DEV_STAMP): tools/requirements-dev.txt $(STAMP)
	@$(PIP) -r $<
	@touch $@

$(BENCH_STAMP): bench/requirements.txt $(STAMP)
	@$(PIP) -r $<
	@touch $@
