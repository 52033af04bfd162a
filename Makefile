# Every recipe of the project. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

# Where cargo builds. Set CARGO_TARGET_DIR from outside so that several clones share one build.
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
export CARGO_TARGET_DIR := $(TARGET)
BIN := $(TARGET)/release/thalweg

PG ?= 127.0.0.1:5460
HTTP ?= 127.0.0.1:5461
DATA ?= data

# Drivers for Python, where tests/setup.sh installs them.
BENCH_PYTHON := $(or $(THALWEG_SERVICES),$(HOME)/.cache/thalweg/services)/clients/venv/bin/python

.PHONY: help
help: ## List the recipes
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14
	echo
	echo "make run takes DATA=dir, PG=address:port and HTTP=address:port; make slt takes FILE=path."

.PHONY: run
run: ## Build the server, start it on ./data with the demo loaded, print how to connect
	@tests/setup.sh build psql
	cargo build --release -p thalweg
	exec tests/run.sh "$(BIN)" "$(DATA)" "$(PG)" "$(HTTP)"

.PHONY: build
build: ## Build the server
	@tests/setup.sh build
	cargo build --release -p thalweg

.PHONY: test
test: ## Set everything up and run every test
	@tests/setup.sh build psql services clients
	exec tests/test.sh

.PHONY: slt
slt: ## Run files of statements: make slt FILE="sqllogictest/window/*.slt"
	@tests/setup.sh build
	cargo build --release -p thalweg -p thalweg-sqllogictest
	THALWEG_BIN="$(BIN)" "$(TARGET)/release/thalweg-slt" $(FILE)

.PHONY: clients
clients: ## Run the tests with real clients: make clients CLIENTS="psql dbt" for some
	@tests/setup.sh build psql clients
	cargo build --release -p thalweg
	THALWEG_BIN="$(BIN)" clients/run.sh $(CLIENTS)

.PHONY: bench
bench: ## Measure the nexmark queries: events per second, per CPU-second, peak memory
	@tests/setup.sh build
	cargo build --release -p thalweg
	bench/run.py --bin "$(BIN)" $(BENCH)

.PHONY: bench-targets
bench-targets: ## Measure what else Thalweg wants to reach: make bench-targets TARGETS="--only start,idle" for some, "--scale 0.1" for a first look
	@tests/setup.sh build services clients
	cargo build --release -p thalweg
	"$(BENCH_PYTHON)" bench/targets.py --bin "$(BIN)" $(TARGETS)

.PHONY: bench-peers
bench-peers: ## Measure the same queries in Flink, DuckDB and DataFusion too, and compare results: make bench-peers PEERS="--sizes 1000000"
	@tests/setup.sh build
	cargo build --release -p thalweg
	bench/peers/run.py --bin "$(BIN)" $(PEERS)

.PHONY: bench-guard
bench-guard: ## Count the instructions of each query, and fail where they are more than recorded: make bench-guard GUARD=--update records
	@tests/setup.sh build guard
	cargo build --release -p thalweg
	bench/guard.py --bin "$(BIN)" $(GUARD)

.PHONY: fmt
fmt: ## Format the code
	@cargo fmt --all

.PHONY: lint
lint: ## Check the format, and everything that clippy knows
	@tests/setup.sh build
	cargo fmt --all -- --check
	cargo clippy --release --workspace --all-targets -- -D warnings

.PHONY: docs
docs: ## Build the documentation of the code
	@tests/setup.sh build
	RUSTDOCFLAGS="-Dwarnings -Arustdoc::private-intra-doc-links" cargo doc --release --workspace --no-deps
