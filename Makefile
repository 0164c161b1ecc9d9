# Everything people and CI run. CI runs these same targets, so that a green run
# here means the same as one there.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
GO ?= go
# go.mod names the toolchain; a machine that pins its own would ignore it.
export GOTOOLCHAIN ?= auto
# Inputs, not seconds: a fuzzer that is stopped by the clock may fail for that alone.
FUZZTIME ?= 10000x
# gin's MessagePack takes longer to compile than the rest of it, and nobody asks
# for it. A -tags of a command's own takes the place of this one.
export GOFLAGS += -tags=nomsgpack
# Checks and tests share one build, with the race detector: to compile everything
# a second time without it takes as long as the tests (docs/decisions/0018).
GOTEST := $(GO) test -race
ALL_TAGS := nomsgpack,slow,bench

.PHONY: help run build test test-slow test-go test-clients test-vectors race bench lint fuzz fuzz-short tools node chromium jdk

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | while IFS=$$'\t' read -r name text; do printf '%-12s %s\n' "$$name" "$$text"; done

# Without a provider's name its SDK is not needed, nor the minutes to compile it.
run: ## start everything in one process; needs Go and nothing else
	$(GO) run -tags nomsgpack$(if $(filter-out local,$(TIDINGS_MODEL)),,,nosdk) ./cmd/tidings dev

build: ## make the release, bin/tidings: stripped, the same bytes from the same commit; says its size
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/tidings ./cmd/tidings
	@du --apparent-size -h bin/tidings

test: tools lint test-go fuzz-short test-clients ## all checks that take minutes at most, on a real Redis

# Tests in files with the build tag are slow as a whole; those of jobs go through
# more cases with it.
test-slow: tools node jdk ## the tests that need minutes, with the race detector
	@files=$$(grep -rlE '^//go:build slow' --include='*_test.go' cmd server jobs/model events locales); \
	  names=$$(grep -hoE '^func Test[A-Za-z0-9_]+' $$files | sed 's/^func //' | paste -sd'|'); \
	  dirs=$$(dirname $$files | sort -u | sed 's|^|./|' | tr '\n' ' '); \
	  set -x; $(GOTEST) -timeout 20m -tags nomsgpack,slow -run "^($$names)$$" $$dirs
	$(GOTEST) -timeout 20m -tags nomsgpack,slow ./jobs
	$(call fuzz,$(FUZZ_WIDE))
	cd clients/readers && $(GO) vet -race ./... && $(GOTEST) -count 1 ./...
	cd clients/install && $(GO) vet -race ./... && $(GOTEST) -count 1 ./...

# The race detector makes the simulation too slow for many seeds.
test-go: ## the Go tests
	$(GOTEST) -timeout 15m ./...
	$(GO) test -count 1 ./jobs/simulation -seeds 10000

# The clients are tested against their contract server and the real program, the
# web client also in a browser and through nginx.
test-clients: export TIDINGS_PROGRAM := $(CURDIR)/bin/tidings
test-clients: tools node chromium jdk ## build and test the clients and the demo page, against their contract server and the real program
	$(GO) build -race -o $(TIDINGS_PROGRAM) ./cmd/tidings
	cd clients/contract && $(GO) vet -race ./... && $(GOTEST) ./...
	cd clients/go && $(GO) vet -race ./... && $(GOTEST) ./...
	cd clients/web && npm ci --no-audit --no-fund && npm run build && npm test
	cd clients/web && npm run test:demo
	cd clients/kotlin && mvn -B -ntp test

# Other vectors: make test-vectors TIDINGS_VECTORS=/some/dir. A relative path
# starts here and not where each client's tests run.
test-vectors: export TIDINGS_VECTORS := $(abspath $(or $(TIDINGS_VECTORS),clients/vectors))
test-vectors: node jdk ## the clients' common vectors alone
	cd clients/go && $(GOTEST) -count 1 -run '^TestVectors' .
	cd clients/web && npm ci --no-audit --no-fund && npm run test:vectors
	cd clients/kotlin && mvn -B -ntp test -Dtest=VectorsTest

race: test-go ## the same, by its usual name

bench: tools ## the figures: latency, throughput, extra calls, on a real Redis
	$(GO) test -tags nomsgpack,bench -run '^TestFigures$$' -count 1 -v ./cmd/tidings
	$(GO) test -run '^$$' -bench . ./events ./jobs ./jobs/gate
	$(GO) run ./cmd/tidings drill --row amplification

lint: ## formatting, vet, staticcheck, known vulnerabilities, a tidy go.mod and a changelog that is up to date
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then printf 'gofmt these files:\n%s\n' "$$files" >&2; exit 1; fi
	$(GO) vet -race -tags $(ALL_TAGS) ./...
	$(GO) vet -race -tags nomsgpack,nosdk ./jobs/model/provider ./cmd/tidings
	GOFLAGS=-race $$($(GO) tool -n staticcheck) -tags $(ALL_TAGS) ./...
	$(GO) run ./cmd/vulncheck
	$(GO) mod tidy -diff
	@last=$$(git log -1 --format=%H -- docs/CHANGELOG.md) || { echo 'no git history here: the changelog is not checked' >&2; exit 0; }; \
	  changed=$$(git diff --name-only $$last -- docs/openapi.yaml docs/schemas docs/errors.md); \
	  if [ -n "$$changed" ]; then printf 'What clients see has changed since the last line of docs/CHANGELOG.md: say so there, in the same commit\n%s\n' "$$changed" >&2; exit 1; fi

# The fuzzer compiles all that a package needs once more, its own way. Those that
# need much (Redis, gin) are fuzzed by test-slow, and by test-go with their seeds
# alone, as the providers' is in both: the SDKs take longer than all tests.
FUZZ_WIDE := events server
FUZZ_SHORT = $(filter-out $(addprefix ./,$(FUZZ_WIDE)) ./jobs/model/provider,$(shell grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -r -n1 dirname | sort -u))
define fuzz
@for dir in $(1); do \
	  grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | sed 's/^func //' | while read -r target; do \
	    echo "fuzzing $$target in $$dir"; \
	    (cd "$$dir" && $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) .) </dev/null; \
	  done; \
	done
endef

fuzz-short: ## the fuzz targets of packages that compile fast, each for FUZZTIME (10000x, or 1m)
	$(call fuzz,$(FUZZ_SHORT))

fuzz: fuzz-short ## every fuzz target for FUZZTIME, but the providers'
	$(call fuzz,$(FUZZ_WIDE))

# The tests start their own redis-server and nginx and the Python example, run
# the curl pair that dev prints, look at the operators' pages in Chromium, and the
# race detector needs a C compiler. On Debian as root they are installed;
# elsewhere this says what to do.
tools: chromium
	@missing=; command -v redis-server >/dev/null || missing="redis-server"; \
	  python3 -c 'import ensurepip' 2>/dev/null || missing="$$missing python3 python3-venv"; \
	  command -v nginx >/dev/null || missing="$$missing nginx"; \
	  command -v curl >/dev/null || missing="$$missing curl"; \
	  command -v $${CC:-gcc} >/dev/null || missing="$$missing gcc libc6-dev"; \
	  if [ -z "$$missing" ]; then exit 0; fi; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  else \
	    echo "These tests need a program that is not here. Install: $$missing (apt-get install $$missing)" >&2; exit 1; \
	  fi

node:
	@major=$$(node --version 2>/dev/null | sed -E 's/^v([0-9]+).*/\1/' || true); \
	  if [ "$${major:-0}" -lt 20 ] || ! command -v npm >/dev/null; then \
	    echo "The web client's tests need Node 20 or newer, with npm" >&2; exit 1; \
	  fi

# The web client and the demo page are tested in a browser that is installed; none is downloaded by npm.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name >/dev/null && exit 0; done; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	  else \
	    echo "These tests need a browser that is not here. Install: chromium (apt-get install chromium)" >&2; exit 1; \
	  fi

# Maven fetches the Kotlin compiler itself.
jdk:
	@major=$$(javac -version 2>&1 | sed -nE 's/^javac ([0-9]+).*/\1/p' || true); \
	  if [ "$${major:-0}" -ge 17 ] && command -v mvn >/dev/null; then exit 0; fi; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jdk-headless maven >/dev/null; \
	  else \
	    echo "The Kotlin client's tests need a JDK of 17 or newer and Maven. Install: default-jdk-headless maven (apt-get install default-jdk-headless maven)" >&2; exit 1; \
	  fi
