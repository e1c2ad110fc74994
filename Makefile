# One target per verb of the tools; `make help` lists them.
PYTHON ?= python3.11
# Where downloads and the test environment are kept; may be shared between checkouts.
CACHE ?= vendor/cache
VENV := .venv
STAMP := $(VENV)/.stamp
TOOLS = GDNWINDOW_CACHE="$(abspath $(CACHE))" $(VENV)/bin/python -m tools

.DEFAULT_GOAL := help

$(STAMP): tools/requirements.txt
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.PHONY: help fetch apply lock refresh build env

help: ## this text
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

fetch: $(STAMP) ## the pinned sdist and wheel, by hash (FROM=git|DIR, CPU=1)
	@$(TOOLS) fetch $(if $(FROM),--from "$(FROM)") $(if $(filter 1,$(CPU)),--cpu)

apply: $(STAMP) ## vendor/vllm: the pristine tree plus one commit per patch
	@$(TOOLS) apply

lock: $(STAMP) ## write series.lock from the patches as they are, and apply them
	@$(TOOLS) apply --relock

refresh: $(STAMP) ## commits of vendor/vllm back to patches/ (TOPIC=name for new ones)
	@$(TOOLS) refresh $(if $(TOPIC),--topic "$(TOPIC)")

build: apply ## dist/: the patched wheel (VIA=setup: upstream's setup.py; CPU=1: for tests)
	@$(TOOLS) build $(if $(VIA),--via "$(VIA)") $(if $(filter 1,$(CPU)),--cpu) \
		$(if $(ENV),--env "$(ENV)")

env: apply ## $(CACHE)/env-KEY and $(CACHE)/cpu-TREE: what the tests run in (8 GB)
	@$(TOOLS) env
