# `make` lists the targets. Each target installs what it needs, unless it is already there.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export SLUICE_CACHE ?= $(CURDIR)/.cache
export SLUICE_PYTHON_ENV ?= $(CURDIR)/.venv

TOOLS := .cache/tools
VERSION ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What a target needs of the system comes first. Where it cannot be installed, nothing is built.
.NOTPARALLEL:
needs-%:
	@scripts/install.sh $*

.PHONY: setup
setup: ## create .venv with PyTorch and ONNX Runtime, and download the example's mail
	@scripts/python.sh
	@$(SLUICE_PYTHON_ENV)/bin/python3 examples/spam/fetch.py --download

# The flags must not differ from those of `go test` in what they compile, or the Temporal server is compiled twice.
.PHONY: build
build: ## build bin/sluice and bin/sluice-agent; with a C compiler also bin/sluice-gpu
	@mkdir -p bin
	go build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/sluice ./cmd/sluice
	CGO_ENABLED=0 go build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/sluice-agent ./cmd/sluice-agent
	@if command -v "$$(go env CC)" >/dev/null; then CGO_ENABLED=1 go build -ldflags '-s -w' -o bin/sluice-gpu ./cmd/sluice-gpu; \
	else echo 'no C compiler: bin/sluice-gpu is not built; Sluice asks nvidia-smi for GPUs'; fi

.PHONY: demo
demo: needs-demo setup build ## run examples/spam, from raw mail to a served spam filter
	bin/sluice run examples/spam/pipeline.yaml -e examples/spam/environment.yaml

.PHONY: flink
flink: needs-flink ## fetch Flink's job server for Beam into the cache folder, for cleaning on Flink
	@scripts/flink.sh

.PHONY: kube
kube: ## build a Kubernetes control plane into the cache folder, for the tests of the kubernetes pool
	@scripts/kube.sh

.PHONY: moto
moto: setup ## install moto, a fake of AWS, into the cache folder, for the tests of the EC2 pool
	@scripts/moto.sh

.PHONY: tritonclient
tritonclient: setup ## install NVIDIA's client of the inference protocol into the cache folder, for the tests of the gateway
	@scripts/tritonclient.sh

.PHONY: triton
triton: needs-triton setup ## install NVIDIA's Triton Inference Server into the cache folder, for the tests of the triton target
	@scripts/triton.sh

.PHONY: rtx
rtx: setup ## install TensorRT for RTX, NVIDIA's builder of engines, into the cache folder, for the tests of compile
	@scripts/rtx.sh

.PHONY: ggml
ggml: setup ## install an execution provider of ONNX Runtime that needs no GPU into the cache folder, for the tests of the gateway
	@scripts/ggml.sh

.PHONY: peers
peers: setup ## install DuckDB, pyarrow, polars and fastavro into the cache folder, with which the tests compare cleaning
	@scripts/peers.sh

.PHONY: prometheus
prometheus: ## unpack Prometheus into the cache folder, for the cluster and the tests of its alerts
	@scripts/prometheus.sh

.PHONY: s3
s3: ## build an S3 server into the cache folder, for the tests of buckets
	go -C tools/s3 build -trimpath -o "$(SLUICE_CACHE)/s3/s3" .

.PHONY: cluster
cluster: needs-cluster prometheus setup build ## start the services of docker-compose.yml as processes: Temporal on PostgreSQL, S3, Prometheus, two workers
	@scripts/cluster.sh
	@PATH="$$PATH:$(SLUICE_CACHE)/prometheus" $(SLUICE_CACHE)/cluster/cluster -programs $(SLUICE_CACHE)/cluster:$(CURDIR)/bin

.PHONY: test
test: needs-test prometheus setup build flink moto tritonclient triton rtx ggml peers kube s3 ## run all tests
	@scripts/test.sh

.PHONY: test-long
test-long: needs-test-long setup build ## test the documented limits (10,000 instances, 2,000 steps, 1,000 runs, 50 killed workers) and the recipes of CONTRIBUTING.md
	SLUICE_BIN=$(CURDIR)/bin SLUICE_TEST_LONG=1 go test -count=1 -timeout 40m -v ./integration -run 'AtScale|TestScale|TestCrowd|TestChaos'
	SLUICE_TEST_LONG=1 go test -count=1 -timeout 20m -v ./internal/repotest -run TestRecipes

.PHONY: test-cluster
test-cluster: needs-cluster prometheus setup build ## run the example on the services of `make cluster` while each of them is killed (5 minutes)
	@scripts/cluster.sh
	go -C tools/cluster test ./...
	SLUICE_BIN=$(CURDIR)/bin SLUICE_TEST_CLUSTER=$(SLUICE_CACHE)/cluster PATH="$$PATH:$(SLUICE_CACHE)/prometheus" go test -count=1 -timeout 30m -v ./integration -run TestCluster

.PHONY: test-frameworks
test-frameworks: needs-test-frameworks setup build ## train with current PyTorch, Hugging Face and Lightning through interruptions (downloads 3 GB, then 8 minutes)
	@scripts/frameworks.sh
	SLUICE_BIN=$(CURDIR)/bin SLUICE_TEST_FRAMEWORKS=1 SLUICE_PYTHON_ENV=$(SLUICE_CACHE)/frameworks go test -count=1 -timeout 30m -v ./integration -run TestFrameworks

.PHONY: test-gpu
test-gpu: ## check what only a machine with an NVIDIA GPU can show, in at most 8 minutes: with bin/ and a python3 that has PyTorch, without Go and network
	@python3 -B scripts/test-gpu.py

.PHONY: test-gpu-archive
test-gpu-archive: build ## write dist/test-gpu.tar.xz, in which `make test-gpu` has all that it needs of this folder
	@mkdir -p dist
	tar -cJf dist/test-gpu.tar.xz Makefile bin examples/ddp scripts/test-gpu.py
	@ls -sh dist/test-gpu.tar.xz

.PHONY: soak
soak: needs-soak setup build s3 peers ## long tests: outages of server, store, pool and Vault for up to ten minutes, a training with 200 interruptions, killed workers and gateways during rollouts, pipelines with large values, and a model beyond 2 GiB (90 minutes)
	SLUICE_TEST_SOAK=1 go test -count=1 -timeout 60m -v ./compile -run TestBeyondTwoGiB
	SLUICE_TEST_SOAK=1 go test -count=1 -timeout 20m -v ./pipelines -run TestAgainstDuckDB
	SLUICE_BIN=$(CURDIR)/bin SLUICE_TEST_SOAK=1 go test -count=1 -timeout 90m -v ./integration -run 'TestOutages|TestTrainSoak|TestReplicasUnderLoad|TestKillsInRollout|TestManyBytesOfAnyPipeline'

.PHONY: lint
lint: needs-lint $(TOOLS)/golangci-lint $(TOOLS)/workflowcheck $(TOOLS)/govulncheck ## run golangci-lint (with vet and gofumpt), workflowcheck, govulncheck and a check of modules that only tests need
	$(TOOLS)/golangci-lint run
	@scripts/modules.sh
	$(TOOLS)/workflowcheck -config .workflowcheck.yaml ./workflows/...
	@scripts/vuln.sh --if-reachable

.PHONY: vuln
vuln: $(TOOLS)/govulncheck ## look for known vulnerabilities in the dependencies of the programs; offline with GOVULNDB=file:///...
	@scripts/vuln.sh

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint ## format all Go files
	$(TOOLS)/golangci-lint fmt

.PHONY: generate
generate: needs-generate ## regenerate dsl/schema.json and the generated pages and tables of docs/
	go generate ./...

.PHONY: check-generated
check-generated: generate ## fail if generated files are stale
	@git diff --exit-code || { echo 'generated files are stale: commit what `make generate` writes' >&2; exit 1; }

.PHONY: histories
histories: setup build ## record the histories for the replay tests again, in place of those of the release before; only at a release
	SLUICE_BIN=$(CURDIR)/bin go test -count=1 ./worker -run 'TestPipelineRuns|TestRolloutRuns|TestGroupQueues|TestOutputTrigger|TestWatchIsOne|TestWaitsReachNoLimit' -record ../workflows/testdata
	SLUICE_BIN=$(CURDIR)/bin go test -count=1 ./integration -run 'TestTrain(SurvivesInterruptions|FailsWith|CancelLeaves|KeepsIts|MovesBack|LeavesBroken|ReleasesIdle)|TestEnds|TestContinued|TestCancels|TestLostLane' -record ../workflows/testdata

.PHONY: state
state: setup build ## record the state folder that TestEarlierState opens, in place of that of the release before; only at a release
	SLUICE_BIN=$(CURDIR)/bin go test -count=1 ./integration -run '^TestEarlierState$$' -record-state

.PHONY: bench
bench: needs-bench $(if $(filter serve rollback recovery checkpoint,$(NAME)),setup) $(if $(filter serve,$(NAME)),triton) $(if $(filter recovery checkpoint,$(NAME)),s3) $(if $(filter compile,$(NAME)),rtx) build ## run a benchmark: NAME=engine, clean, policy, canary, serve, rollback, recovery, checkpoint or compile
	go run ./bench/$(or $(NAME),$(error say which: make bench NAME=engine, clean, policy, canary, serve, rollback, recovery, checkpoint or compile))

.PHONY: release
release: $(TOOLS)/cyclonedx-gomod ## write archives, SBOMs and checksums into dist/; VERSION=v1.2.3
	@VERSION=$(VERSION) scripts/release.sh

.PHONY: clean
clean: ## remove everything built and downloaded; runs and models in .sluice and .cluster stay
	rm -rf bin dist .cache .venv .venv.lock

# Two modules, since the requirements of these and of the linters exclude each other.
$(TOOLS)/cyclonedx-gomod: TOOL := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
$(TOOLS)/govulncheck: TOOL := golang.org/x/vuln/cmd/govulncheck
$(TOOLS)/cyclonedx-gomod $(TOOLS)/govulncheck: tools/release/go.mod tools/release/go.sum
	@mkdir -p $(TOOLS)
	go -C tools/release build -trimpath -o $(CURDIR)/$@ $(TOOL)
	@touch $@

$(TOOLS)/golangci-lint: TOOL := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/workflowcheck: TOOL := go.temporal.io/sdk/contrib/tools/workflowcheck
$(TOOLS)/%: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	go -C tools build -trimpath -o ../$@ $(TOOL)
	@touch $@
