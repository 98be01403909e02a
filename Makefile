# Aliquot: one rate limit held over many regions. `make help` lists the targets.

GO        ?= go
# Three packages at a time on two cores: many tests wait for daemons.
TESTFLAGS ?= -count=1 -timeout 20m -p 3 -parallel 4
FUZZTIME  ?= 30s
# Packages that compute, and neither wait nor know what time it is, so the race detector has nothing to look for and
# would make their tests ten times as long. What runs side by side in them is tested with it. ./lua/ computes in a Redis.
# The one that takes longest, ./internal/sim/plants/, is among the last: it has two jobs, which fill two cores when all
# else has ended.
COMPUTING  = ./budget/ ./internal/capacity/ ./internal/penalty/ ./internal/replay/ ./limit/ ./rules/... ./lua/ ./internal/sim/...
# The packages whose tests take longest. They begin first: nothing would run beside one that began last.
LONGEST    = ./regional/ ./coordinator/ ./regional/store/ ./cluster/ ./internal/cli/ ./coordinator/internal/service/
SIDEBYSIDE = TestReplay|TestTheSameSeedIsTheSameRun|TestWorkersAgree|TestHotKeysAtOnce|TestKeyHasherAgreesAndIsConcurrent
# Tests that take all the processor time there is, or measure what is served in it.
ALONE      = TestPromises|TestSpecification|TestALimitThatCounts|TestSurge|TestAttacks|TestOverload|TestMemoryUnreadAndOverloadAtOnce|TestFloods|TestInputs|TestPeers
# Where the packages of ./internal/e2e/ share the programs that they build: go links them again only when they changed.
PROGRAMS   = E2E_PROGRAMS='$(CURDIR)/bin/e2e'

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: need-go
need-go:
	@command -v $(GO) >/dev/null 2>&1 || { echo "Go is needed (1.26 or newer): https://go.dev/dl/, then put its bin directory on PATH" >&2; exit 1; }

.PHONY: build
build: need-go ## bin/coordinator, bin/regional, bin/aliquot
	$(GO) build -o bin/ ./cmd/...

.PHONY: run
run: build ## 3 coordinators and 3 regions in one process, nothing else needed
	@exec bin/aliquot dev

.PHONY: up
up: build ## the same as six processes with three Redis servers
	@deploy/local/up.sh

.PHONY: down
down: ## stop what `make up` started and wipe its data
	@deploy/local/down.sh

.PHONY: test
test: need-go ## every test, with the race detector where anything runs side by side
	@deploy/local/install.sh redis-server cc prometheus promtool nginx caddy curl
	@# What computes (two million states, ten million keys, ten hours of faults) gets the time that the others leave:
	@# they often wait for real processes. Two packages at a time, so that no core is idle once the others have ended.
	nice -n 19 env GOMAXPROCS=1 $(GO) test $(TESTFLAGS) -p 2 $(COMPUTING) & computing=$$!; \
	$(GO) test -race $(TESTFLAGS) $(LONGEST) $$($(GO) list ./... | grep -v -x -F "$$($(GO) list $(COMPUTING) $(LONGEST) ./internal/e2e/...)") && \
	$(GO) test -race $(TESTFLAGS) -run '$(SIDEBYSIDE)' ./internal/penalty/ ./internal/sim/ ./internal/sim/check/ ./internal/sim/compare/ ./rules/ && { \
	$(GO) test -C tools -count=1 -timeout 10m ./deploycheck/... ./envoydiff/... ./house/... ./links/... ./modpath/... ./prose/... ./reference/... ./sametree/... & tools=$$!; \
	$(PROGRAMS) $(GO) test $(TESTFLAGS) -p 2 -skip '$(ALONE)' ./internal/e2e/...; e2e=$$?; \
	wait $$tools && test $$e2e -eq 0; }; others=$$?; \
	wait $$computing && exit $$others
	$(PROGRAMS) $(GO) test $(TESTFLAGS) -p 1 -parallel 1 -run '$(ALONE)' ./internal/e2e/...

.PHONY: deploycheck
deploycheck: need-go ## deploy/ against BuildKit, compose, Kubernetes and systemd, and run for real
	@deploy/local/install.sh redis-server
	$(GO) test -C tools -count=1 -timeout 10m ./deploycheck/...

.PHONY: check
check: generated fmt vet lint arch test ## what a change must pass

.PHONY: fmt
fmt: need-go
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './.*')); \
	test -z "$$unformatted" || { echo "not formatted (run gofmt -w): $$unformatted" >&2; exit 1; }

.PHONY: vet
vet: need-go ## go vet
	$(GO) vet ./...

.PHONY: lint
lint: need-go ## staticcheck, pinned in tools/go.mod
	$(GO) build -C tools -o ../bin/tools/ honnef.co/go/tools/cmd/staticcheck
	bin/tools/staticcheck ./...

.PHONY: arch
arch: need-go ## who may import whom
	$(GO) test -count=1 .

.PHONY: generate
generate: need-go ## regenerate the code beside the .proto files, and docs/reference
	@deploy/local/install.sh protoc
	proto/gen.sh
	$(GO) run -C tools ./reference

.PHONY: generated
generated: need-go
	@deploy/local/install.sh protoc
	@before=$$(find proto -name '*.go' | sort | xargs cat | cksum); proto/gen.sh; \
	after=$$(find proto -name '*.go' | sort | xargs cat | cksum); \
	test "$$before" = "$$after" || { echo "the generated code was out of date; it was regenerated, commit it" >&2; exit 1; }
	@changed=$$($(GO) run -C tools ./reference) || exit 1; \
	test -z "$$changed" || { echo "these pages were out of date; they were regenerated, commit them:" $$changed >&2; exit 1; }

.PHONY: fuzz
fuzz: need-go ## every fuzzer for FUZZTIME (30s)
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
	  for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$dir"/*_test.go); do \
	    echo "$$dir $$name"; $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "$$dir"; \
	  done; done

# Fuzzers of what peers and disks send, which fuzz-long runs for ten minutes each.
LONG_FUZZ = FuzzEntry FuzzSnapshot FuzzDecodeMeta FuzzStateFile FuzzReplies FuzzHello FuzzReport \
            FuzzStoreReplies FuzzRecord FuzzKept FuzzReservation FuzzStream FuzzPacket FuzzSealed FuzzScanner

.PHONY: fuzz-long
fuzz-long: need-go ## ten minutes for each fuzzer of what peers and disks send, two for each other one
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
	  for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$dir"/*_test.go); do \
	    time=2m; case " $(LONG_FUZZ) " in *" $$name "*) time=10m;; esac; \
	    echo "$$dir $$name $$time"; $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $$time -fuzzminimizetime 1x "$$dir"; \
	  done; done

# What takes minutes by itself: size, growth, elections.
SLOW_BENCHMARKS = Scale|Growth|Failover|Worst|Search
.PHONY: bench
bench: need-go ## Go benchmarks with allocations (a few minutes)
	@deploy/local/install.sh redis-server
	$(GO) test -run '^$$' -bench . -skip '$(SLOW_BENCHMARKS)' -benchmem -p 1 ./...

.PHONY: bench-scale
bench-scale: need-go ## Go benchmarks of what grows: coordinators at size, stores, elections
	$(GO) test -run '^$$' -bench '$(SLOW_BENCHMARKS)' -benchmem -benchtime 3x -p 1 ./...

.PHONY: bench-peers
bench-peers: need-go ## Envoy's protocol against envoyproxy/ratelimit and a server that decides nothing, as a table
	@deploy/local/install.sh redis-server
	$(GO) run -C tools ./goals -only '^rls'

.PHONY: bench-goals
bench-goals: need-go ## everything that is promised about speed, as a table (about 10 minutes, on a quiet machine)
	@deploy/local/install.sh redis-server
	$(GO) run -C tools ./goals

.PHONY: sim
SEED  ?= 1
HOURS ?= 10
sim: need-go ## HOURS virtual hours of random faults from SEED on; exit 1 on a violation
	@$(GO) run ./internal/sim/run -seed $(SEED) -hours $(HOURS)

.PHONY: check-states
STATES ?= 400000
check-states: need-go ## everything that can happen in small worlds, up to STATES states of each; exit 1 on a violation
	@$(GO) run ./internal/sim/check/run -states $(STATES)

.PHONY: plants
plants: need-go ## every planted bug, and where the simulator catches it (ONLY=name,name)
	@$(GO) run ./internal/sim/plants/run -only '$(ONLY)'

.PHONY: plants-doc
plants-doc: need-go ## search again for what catches the planted bugs; the table in docs/benchmarks/planted-bugs.md
	@$(GO) run ./internal/sim/plants/run -hunt -doc

.PHONY: demo
demo: build ## a greedy client, a killed leader, a flushed Redis and a region that is cut off, live (1 minute)
	@deploy/local/install.sh redis-server
	@$(GO) run ./internal/e2e/demo -bin bin

.PHONY: surge
surge: build ## 2,000 riders before a backend that collapses, with and without Aliquot, as a table (5 minutes)
	@deploy/local/install.sh redis-server nginx
	@$(GO) run ./internal/e2e/surge -bin bin

.PHONY: attack
attack: need-go ## hostile bytes and overload against real daemons, at full length (a few minutes); RUN=TestPeers for one test
	@deploy/local/install.sh redis-server
	$(GO) test -count=1 -timeout 20m -v -run '$(RUN)' ./internal/e2e/attack -args -long

.PHONY: acceptance
acceptance: build ## every promise at full length on real processes, as a table (about 10 minutes)
	@deploy/local/install.sh redis-server
	$(GO) run ./internal/e2e/acceptance
	$(GO) run ./internal/e2e/outages -runs 1 -matrix -only "1,000 a second" -bin bin

.PHONY: test-long
test-long: build fuzz-long ## the long fuzzers, five million states, then each fault of a store with each algorithm on real processes; docs/benchmarks/outages.md (2 hours)
	@deploy/local/install.sh redis-server
	$(GO) run ./internal/sim/check/run -states 77000
	$(GO) run ./internal/e2e/holes
	$(GO) run ./internal/e2e/outages -bin bin
	$(GO) run ./internal/e2e/outages -runs 1 -matrix -bin bin -doc docs/benchmarks/outages.md
