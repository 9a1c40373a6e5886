# gemmaudit builds with Go, a C compiler and make; nothing else is needed, for GPUs
# neither: the driver is opened when the program runs, and device code is embedded.
#
#   make run     build, then sweep, judge, prove and remedy this machine (under 2 minutes)
#   make steady RUNS=20 SPIN=0   run it so many times, beside so many spinning processes: exit codes, seconds, resolution,
#                undecided rows, and how well any two runs agree; PARENT and CPUS=0,1 as in scripts/steady.py, which needs no Go
#   make test    every package's tests, as a clean clone runs them (some minutes; then what has changed)
#   make test-all    that, and make test-rest: what takes longer (20 minutes more). CONTRIBUTING.md says what each part proves
#       vet formatted  go vet of both builds, gofmt
#       test-long      the tests that -short leaves out or cuts: large simulations, Chromium, each fault of a driver
#       test-race      the race detector, on what runs concurrently
#       test-amx       AMX's kernels on a model of the tiles, for CPUs that have none
#       test-isa       the tests that instruction sets change, on each kind of x86-64 CPU that this CPU can be taken for: SSE only,
#                      AVX2, AVX-512 with and without VNNI and BF16, AMX; it names those that it can't
#       test-cluster   manifests, alerts and dashboard, checked by the code of Kubernetes and Prometheus (its modules are downloaded)
#       test-slurm     the jobs of scripts/slurm on a Slurm of four nodes
#       test-endure    kill -9, signals and full disks for FOR=30s each, and kernels in Python that crash, hang and lie
#       test-release   two releases, each compiled for itself, are the same bytes; their programs run; the wheel is installed in a fresh
#                      virtual environment and used
#       test-wheel reproducible   the same of the wheel, and of two clones, where no release can be made
#   make test-asan   C code under the sanitizers of addresses, undefined behaviour and leaks (some minutes; in neither)
#   make check   formatting, go vet and make test's tests, while one works: what has not changed is not run again
#   make test-busy   the short tests beside four spinning processes and on half a CPU: no test depends on how busy the machine is
#                (many minutes, no part of .ci/run; BUSY names packages)
#   make lint    formatting, go vet and staticcheck
#   make test-python   the Python package of scripts/python and the worker's code, PyTorch's part where PyTorch is there (part of make test)
#   make test-pyodide  its reader in the newest Python that runs on WebAssembly (needs npm; PYODIDE=version)
#   make bench   what the kernels reach here, compared with registers, memory and libraries; with PAIR=cold.db,hot.db
#                how well two audits of one machine agree (scripts/gpu/run.sh pair makes them), with
#                FAMILIES=run.db how much of such a run could have been inferred, with
#                INFERRED=inferred.db,dense.db how well an inferred sweep agrees with a measured one
#   make build   bin/gemmaudit, GPU support included (Linux on x86-64 and arm64)
#   make wheel   bin/wheel/*.whl, to be installed by pip: the program, linked with glibc 2.28, and the Python package (Python 3.11, pip)
#   make wheel-check   that, and what it installs in a fresh virtual environment
#   make cuda-test   bin/tests, a program for each room with GPU tests, to run on a machine that has one
#   make gpu-bundle  bin/gpu-bundle, to check and measure a GPU machine that has no Go: copy it there, ./run.sh
#   make endure  processes ended by KILLS=1000 kill -9 and SIGNALS=300 other signals, WORKERS=200 workers of kernels in Python
#                ended by kill -9, kernels that fail in many ways and that lie, and a disk that is full at each write:
#                nothing is lost (ten minutes; FOR=60s bounds each part, SEED repeats what was drawn); with NIGHT=1 a
#                sweep of a day and a million samples in compressed time, whose memory stays flat
#   make mutants MUTANTS=200 changes of the program, drawn by SEED: the tests of their packages, as make test runs them, are to notice 85 %;
#                MUTANTS_FOR=20m ends it; with LONG=1 as test-all does, nine of ten (minutes)
#   make trust   the summary in docs/trust.md: wrong verdicts on MACHINES simulated machines; bin/trust.md has all tables
#   make fuzz    each fuzz target for FUZZTIME, an input that reaches new code minimised for up to FUZZMIN
#   make reproducible  whether two clones of this commit, in folders of their own, build the same program
#   make pages   rewrites the outputs and screens that documents show, from the run in docs/runs; scripts/pages.py says how
#   make gallery RUNS=folder   docs/gallery, a page of each run file in the folder; scripts/gallery.sh measure makes those of a GPU
#   make release VERSION=v0.9.0   bin/release/v0.9.0, for Linux on x86-64 and arm64: archives, wheels, bills of materials, notes with a
#                table of sizes, checksums
#   make release-check VERSION=v0.9.0   the same twice, which is to be the same bytes; each program is run where it can be
#   make structure   files that extensions touch, lines, references that point upward, ways of values; with BASE=revision before and after
#   make verify-kernels  whether the embedded device code is what its sources make; with NTH=7 of one source, counted round the list
#   make texts    golden files, scripts and documents anew after a sentence changed: each stands once, in the source
#   make notices  the notices and licences of linked modules, after go.mod changed
#   make vulncheck  known vulnerabilities of what is linked, where https://vuln.go.dev can be reached
#   make kernels device code, after a .cu of kernels/cuda changed (Python 3 and pip, Linux; ONLY="mma gemv")

GO       ?= go
NM       ?= nm
OUT      ?= out
PRESET   ?= quick
FUZZTIME ?= 20s
FUZZMIN  ?= 1s
MACHINES ?= 1000
comma    := ,

# Empty outside of a clone; the program then tells what the toolchain recorded.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
DATE    := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%d --format=%cd 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

# Pinned, so that a new release of the tool can't fail an old commit.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

# Packages in which goroutines meet, and their tests that add nothing to them: properties, hostile input, and sweeps that
# go through one plan after another.
CONCURRENT   := ./results ./sweep
SERIAL_TESTS := Fuzz.*|TestProperty.*|TestHostileParquet|TestKilledMigration|TestPagesThatMeetAgain|TestTextOutOfProportion|TestANightIsPlannedInLittle|TestBudgetsYield|TestInterruptedNightIsTheSame|TestKilledSweepChoosesAlike|TestMeasuringAgainKeepsTheClockOfTheSweep|TestPresetsFitTheirBudgets|TestReferenceClock|TestResumeCompletesAnyPrefix|TestTrafficIsKnownFirst

# The commands in which goroutines meet: runs of one and several devices, choices, fleets, pipes that break, signals. RACED_LONG are
# scripts that -short skips, in which processes are interrupted; test-long leaves them to test-race.
RACED_SCRIPTS := cards|choices|fleetnode|lostoutput|peaks|pipes|run|sweep
RACED_LONG    := interrupt|night|fleet
RACED_TESTS   := AskingHangs|BenchMeasuresBandwidthBetweenRounds|Check|ChoicesOnFakeGPU|Interrupt.*|NumericsOnCPU|ResumeUnderOtherConditions|SelftestKnowsFaults|SignalEndsCommands|WorkloadIsBounded

# What goes on side by side elsewhere and in no script that is raced: checks that share their references, and weights that are read.
BESIDES       := ./kernels ./kernels/mistral/checkpoint
BESIDES_TESTS := TestCheckAttentions|TestAttentionGateReports|TestSoftmaxGateOnShortRows|TestQuantized|TestUnpackLarge|TestRopeTable|TestAsOverflow

# What AMX takes part in, of the tests of kernels/cpu: those that name it, those of instruction sets, with
# AMX alone, and all that do not divide themselves into tests but for these.
TILES := -run 'AMX|/^amx' -skip 'Ceilings|Bandwidth|EveryUnit|Streams|Buffers|Librar|Attention|Softmax|Operations|Brought|BLAS|QuantizedFP32'

.PHONY: FORCE wheel wheel-check test-wheel run steady test test-all test-rest test-long test-endure test-release test-race test-amx test-isa test-busy test-slurm test-cluster structure test-asan test-python test-pyodide check lint bench bench-kernels build cuda-test gpu-bundle test-cuda texts trust endure mutants fuzz test-kernels kernels verify-kernels older-ptx reproducible compiled pages gallery release release-check notices vulncheck clean vet formatted

# GPU support: the driver's functions are reached through trampolines in a library of
# our own, declared in a header of our own. go-nvml, too, leaves functions to be
# found at run time: so symbols are bound lazily, and since its link flags ignore
# whatever is unresolved, a look at the result makes sure that nothing of ours is.
ifneq (,$(filter linux/amd64 linux/arm64,$(shell $(GO) env GOOS)/$(shell $(GO) env GOARCH)))
GPU := 1
endif
OPTIMISE    := -O2
ifdef GPU
CUDA_FOLDER := bin/cuda/$(shell $(GO) env GOARCH)
CUDA_LIB    := $(CURDIR)/$(CUDA_FOLDER)
# A cross compiler does not look into LIBRARY_PATH. The folder is named as it is called in every clone.
LDFLAGS     += "-extldflags=-Wl,-z,lazy$(LD_OPTIONS) -L$(CUDA_FOLDER)"
TRAMPOLINES := $(CUDA_LIB)/libcuda.a
endif
# The program looks up names of hosts itself, as it must with an older glibc. What depends on Go's package net, SQLite among it, is
# compiled once for programs, releases, tests and go vet.
TAGS := -tags $(if $(GPU),cuda$(comma))netgo

# Go's cache does not see which headers CPATH leads to: this macro, which no code reads, makes objects depend on them.
HEADERS     := -DGEMMAUDIT_HEADERS=$(firstword $(shell cat kernels/cuda/driver/include/*.h | cksum))
# No flag names this folder, and C has no debug information: objects are the same in every clone, so they are cached once and the
# program is the same (make reproducible). Builds with and without GPU support share them.
CUDA_ENV     = $(if $(GPU),CPATH='$(CURDIR)/kernels/cuda/driver/include' LIBRARY_PATH='$(CUDA_LIB)') CGO_CFLAGS='$(OPTIMISE) -g0 $(HEADERS) -Wno-deprecated-declarations -Werror=implicit-function-declaration' CGO_LDFLAGS='-O2'

# One compilation serves the program and its tests. Names of files begin at the module, so that no folder is in them; what a debugger
# would read of Go is left out, as it is of C: a sixth of compilation. Traces and profiles name functions and lines without it.
PLAIN    := -dwarf=false
COMPILED := -trimpath -gcflags='all=$(PLAIN)'

# With GLIBC=2.28 the program is linked with that glibc, stripped unless STRIP is empty.
PROGRAM ?= bin/gemmaudit
ifdef GLIBC
OLD_GLIBC := bin/glibc/$(GLIBC)/$(shell $(GO) env GOARCH)
STRIP     := -s
LDFLAGS   += $(STRIP) -extld=$(OLD_GLIBC)/link
build: export CC := $(shell $(GO) env CC)
build: $(OLD_GLIBC)/link
endif

build: $(TRAMPOLINES)
	$(CUDA_ENV) $(GO) build $(TAGS) $(COMPILED) -ldflags '-w $(LDFLAGS)' -o $(PROGRAM) ./cmd/gemmaudit
	$(call resolved,$(PROGRAM))

# The version of the glibc that wheels and releases need at most; the wheel's tag has it.
WHEEL_GLIBC := 2.28
WHEEL_TOOLS := build/wheel-tools
MACHINE      = $(patsubst arm64,aarch64,$(patsubst amd64,x86_64,$(shell $(GO) env GOARCH)))

$(WHEEL_TOOLS)/ready: scripts/wheel/requirements.txt
	python3 -m venv $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

bin/glibc/%/link: scripts/wheel/glibc.sh $(WHEEL_TOOLS)/ready
	scripts/wheel/glibc.sh $(WHEEL_TOOLS)/bin/python $(GLIBC) $(MACHINE) $(@D)

wheel:
	@$(MAKE) --no-print-directory build GLIBC=$(WHEEL_GLIBC) PROGRAM=bin/wheel/gemmaudit
	scripts/wheel/wheel.py --program bin/wheel/gemmaudit --version '$(VERSION)' --glibc $(WHEEL_GLIBC) --machine $(MACHINE) --out bin/wheel

# In a fresh virtual environment, with neither Go nor a C compiler in PATH.
wheel-check: wheel
	scripts/wheel/check.sh bin/wheel/gemmaudit-*_$(MACHINE).whl

# Only where the stubs of the old glibc can be installed; with GEMMAUDIT_RELEASE_REQUIRED it is a failure that they can't.
test-wheel:
	@if $(MAKE) --no-print-directory -s $(WHEEL_TOOLS)/ready; then \
		$(MAKE) --no-print-directory wheel-check; \
	else \
		echo 'test-wheel: ziglang can not be installed, see above: no wheel was made' >&2; test -z "$$GEMMAUDIT_RELEASE_REQUIRED"; \
	fi

# A program for each folder below kernels whose tests look for a GPU, to be started in it.
GPU_TESTS := cuda cuda/attention cuda/cublas cuda/decoder cuda/management cuda/softmax mistral
cuda-test: $(GPU_TESTS:%=bin/tests/%.test)

bin/tests/%.test: $(TRAMPOLINES) FORCE
	@mkdir -p $(@D)
	$(CUDA_ENV) $(GO) test $(TAGS) -c $(COMPILED) -ldflags '-w $(LDFLAGS)' -o $@ ./kernels/$*
	$(call resolved,$@)

FORCE:

# The tests find sources and data in the folder that they are started in.
BUNDLE := bin/gpu-bundle
gpu-bundle: build cuda-test bin/tests/cpu.test
	rm -rf $(BUNDLE)
	mkdir -p $(BUNDLE)/kernels/cuda/driver
	cp LICENSE cmd/gemmaudit/notices/THIRD_PARTY_NOTICES bin/gemmaudit scripts/gpu/run.sh scripts/gpu/fleet.sh scripts/test_isa.sh scripts/fleet/node.sh scripts/fleet/collect.sh scripts/check_sweep.py scripts/check_model.py scripts/check_attention.py scripts/check_softmax.py scripts/check_prompt.py scripts/check_patch.py scripts/check_worker.py scripts/make_model.py $(BUNDLE)
	cp -RL scripts/python $(BUNDLE)
	mkdir -p $(BUNDLE)/examples
	cp -R examples/python $(BUNDLE)/examples
	mkdir -p $(BUNDLE)/results/table
	cp -R results/table/testdata $(BUNDLE)/results/table
	cp -R bin/tests $(BUNDLE)
	if [ -d bin/older ]; then cp -R bin/older $(BUNDLE); fi
	mkdir -p $(BUNDLE)/kernels/plugin
	cp -R kernels/plugin/include $(BUNDLE)/kernels/plugin
	cp -R kernels/cuda/driver/include $(BUNDLE)/kernels/cuda/driver
	for room in cpu $(GPU_TESTS); do \
		mkdir -p $(BUNDLE)/kernels/$$room && \
		if [ -d kernels/$$room/testdata ]; then cp -R kernels/$$room/testdata $(BUNDLE)/kernels/$$room || exit 1; fi; \
	done
	mkdir -p $(BUNDLE)/kernels/mistral/checkpoint
	cp -R kernels/mistral/checkpoint/testdata $(BUNDLE)/kernels/mistral/checkpoint

# resolved fails when a function of the driver, or one of ours, was left out.
define resolved
	@! $(NM) -u -D $(1) 2>/dev/null | grep -E ' U (cu[A-Z]|ga_)' || { echo '$(1): unresolved, see above' >&2; exit 1; }
endef

$(CUDA_LIB)/libcuda.a: $(wildcard kernels/cuda/driver/trampoline/* kernels/cuda/driver/include/*) Makefile
	@mkdir -p $(CUDA_LIB)
	@rm -f $@
	$$($(GO) env CC) -c -O2 -fPIC -fvisibility=hidden -std=gnu11 -Ikernels/cuda/driver/include kernels/cuda/driver/trampoline/driver.c -o $(CUDA_LIB)/driver.o
	$$($(GO) env CC) -c -fPIC -Ikernels/cuda/driver/include kernels/cuda/driver/trampoline/trampoline.S -o $(CUDA_LIB)/trampoline.o
	$$($(GO) env AR) rcs $@ $(CUDA_LIB)/driver.o $(CUDA_LIB)/trampoline.o

# Exit codes 1 and 4 are verdicts, which is what the run is for: something was
# found, or the machine was too unsteady to tell.
run: build
	@bin/gemmaudit run --preset $(PRESET) --parent '$(OUT)' || { code=$$?; [ $$code -eq 1 ] || [ $$code -eq 4 ]; }

SPIN   ?= 0
CPUS   ?=
PARENT ?= $(OUT)/steady
# The default of RUNS is the gallery's folder.
steady: build
	python3 scripts/steady.py --runs '$(if $(filter file,$(origin RUNS)),20,$(RUNS))' --spin '$(SPIN)' --cpus '$(CPUS)' --parent '$(PARENT)' --preset '$(PRESET)'

# One build serves all tests but those of the race detector and of AMX in software; the
# GPU's code is in it, which is tested without a GPU against fake drivers. What is linked
# for a test needs no symbols, and no version, with which it would be linked anew after each
# commit. The Go compiler spends a tenth of its time on collecting garbage in a heap of the usual size.
test test-long test-race test-amx test-isa test-cluster test-release check vet: export GOGC := 200
TEST   = $(CUDA_ENV) $(GO) test -vet=off -timeout 30m
ifdef GPU
TEST_FLAGS := $(TAGS) $(COMPILED) -ldflags '-s -w -extldflags=-Wl,-z,lazy'
else
TEST_FLAGS := $(TAGS) $(COMPILED) -ldflags '-s -w'
endif

# What drives Chromium is behind a tag: its protocol would be compiled and linked for tests that make test leaves out.
BROWSER_TAGS  := $(TAGS)$(comma)browser
BROWSER_FLAGS := $(subst $(TAGS),$(BROWSER_TAGS),$(TEST_FLAGS))

# SQLite is not ours to search for races: its code, most of what -race would compile anew,
# stays as it is. All else is instrumented: atomics that are not, and that are inlined into
# what is, look like races. C code is compiled once more for the race detector, and our kernels
# for AMX in software: with little optimisation, since neither looks at what the optimiser made of it.
RACED := -gcflags='all=$(PLAIN)' -gcflags='modernc.org/...=$(PLAIN) -race=false'

# A process that was instrumented waits for a second before it ends, so that races of goroutines that
# it leaves behind are told. The scripts start some hundred processes, whose goroutines have nothing
# left to do that takes a twentieth of it.
GORACE := atexit_sleep_ms=50

# What takes longer is left to test-rest: with -short a test leaves out, or cuts, what nothing but more machines, rows or time would find.
test: $(TRAMPOLINES) test-python
	$(TEST) $(TEST_FLAGS) -short ./...

# Each part prints its time and its CPU time, user and system. They run side by side, since some wait: for processes that they
# interrupt, and for Slurm. The longest come first. test-release proves what reproducible and test-wheel prove.
PARTS := test-race test-release test-slurm test-endure test-long vet formatted test-cluster test-isa test-amx
test-all: test
	@$(MAKE) --no-print-directory test-rest

# All of them link with the trampolines, which are made before.
test-rest: $(TRAMPOLINES)
	@$(MAKE) --no-print-directory -j 3 $(PARTS:%=timed-%)

timed-%:
	@bash -c 'TIMEFORMAT="test-rest: %0R s, %0U + %0S s of CPU: make $*"; time $(MAKE) --no-print-directory $*'

# The tests that make test left out or cut, and no others (scripts/long_tests.sh lists them), without what test-race runs.
test-long: $(TRAMPOLINES)
	$(TEST) $(BROWSER_FLAGS) -run "$$(scripts/long_tests.sh run '$(RACED_LONG)')" $$(scripts/long_tests.sh packages)

# The interpreter of tests that need none of ours; another one, as one with PyTorch, by PYTHON=.
PYTHON ?= python3
test-python:
	cd scripts/python && PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m unittest -q
	cd kernels/worker && PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m unittest discover -q -t . -s python_tests

PYODIDE ?= latest
test-pyodide:
	mkdir -p build/pyodide
	cd build/pyodide && npm install --silent --no-save --prefix . pyodide@$(PYODIDE) && NODE_PATH=node_modules node ../../scripts/python/pyodide.cjs ../..

RACE = GORACE='$(GORACE)' $(subst -O2,-O0,$(TEST)) -ldflags '-s -w' -race $(RACED)
test-race:
	$(RACE) -short -skip '^($(SERIAL_TESTS))$$' $(CONCURRENT)
	$(RACE) -short -run '^($(BESIDES_TESTS))' $(BESIDES)
	$(RACE) -run '^Test($(RACED_TESTS))$$|^TestScripts$$/^($(RACED_SCRIPTS)|$(RACED_LONG))$$' ./cmd/gemmaudit

# The tag lowers the optimisation of our kernels alone (native.go): with other flags for all C, packages of the standard library
# would be compiled again, and what imports them.
test-amx:
	$(TEST) $(COMPILED) -ldflags '-s -w' -tags amxemu $(TILES) ./kernels/cpu

# With instruction sets left out, one after the other: our kernels, the CPU's libraries, and the commands that run on a CPU.
# ISA_SAME are tests that run nothing but our kernels, on each instruction set in turn: make test runs them so already.
ISA_SAME    := ^Test(Attention|BatchGate|BindChecksOperands|BindRefuses|Choices|Detached|ExecuteStopsBetweenLaunches|Gate|GateDeepK|GateQuantized|GateRounded|GateScaled|Operations|QuantizedFP32|QuantizedSlices|RowBits|ScaledNaN|StripActivations|ThreadsDoNotChangeAttention|ThreadsDoNotChangeBits|Tilings)$$
ISA_SCRIPTS := attention|brought|cpu|cpuattention|devices|mistral|quantised|selftest|softmax
test-isa: $(TRAMPOLINES)
	@mkdir -p bin/isa
	$(TEST) $(TEST_FLAGS) -c -o bin/isa/ ./kernels/cpu ./kernels/mistral ./cmd/gemmaudit
	SAME='$(ISA_SAME)' scripts/test_isa.sh '$(CURDIR)/bin/isa/cpu.test' kernels/cpu -test.short
	scripts/test_isa.sh '$(CURDIR)/bin/isa/mistral.test' kernels/mistral -test.short
	scripts/test_isa.sh '$(CURDIR)/bin/isa/gemmaudit.test' cmd/gemmaudit -test.short -test.run '^TestSelftest|^TestScripts$$/^($(ISA_SCRIPTS))$$'

# The short tests beside four spinning processes, then on half a CPU where this process may make a control group.
BUSY ?= ./sweep/... ./results ./results/draft ./cmd/gemmaudit ./kernels/cpu ./kernels/regular ./kernels/mistral ./kernels/cuda/... ./rules/trust
test-busy: $(TRAMPOLINES)
	$(TEST) $(TEST_FLAGS) -run '^$$' $(BUSY) > /dev/null
	$(CUDA_ENV) scripts/test_busy.sh $(GO) test -vet=off -count=1 -timeout 60m $(TEST_FLAGS) -short $(BUSY)

# The jobs of scripts/slurm on a cluster of this machine's own, where Slurm is installed.
test-slurm:
	$(TEST) $(TEST_FLAGS) -run '^TestSlurm$$' ./cmd/gemmaudit

# The files of scripts/kubernetes and examples/prometheus, by the code of Kubernetes, kustomize and Prometheus: a module of its own. The flags are those
# of make test, so that the standard library is compiled once.
test-cluster:
	$(CUDA_ENV) $(GO) -C scripts/clustertest vet -tags netgo $(COMPILED) ./...
	$(CUDA_ENV) $(GO) -C scripts/clustertest test -vet=off -tags netgo $(COMPILED) -ldflags '-s -w' ./...

structure:
	@$(GO) run ./scripts/structure $(if $(BASE),--base '$(BASE)') $(PACKAGES)

# C code and what it does with the CPU's libraries, under the sanitizers of addresses and of undefined behaviour, which take
# minutes to build. Leaks are looked for at the end, and named by file and line since the programs keep what a debugger
# would read. Operands are mappings of their own, so the memory that is watched is that of plans, calls and stacks; libraries
# are not instrumented: of them it sees what they allocate and free, and the functions of libc that they call. Uses of a stack frame
# after its return are not looked for: GCC 13 keeps such frames where vectors of 64 bytes are not aligned (GCC's bug 110027).
# Nor is thread-local memory of libraries that are opened late: GCC 12 guesses where it ends, for oneDNN's guesses wrong, and
# the search for leaks dies of it.
ASAN_TESTS    ?= -test.run 'TestGate|Gate$$|TestStrip|TestLibraries|TestWeights|TestBrought|TestKernelName'
ASAN_PACKAGES ?= kernels/cpu $(if $(GPU),kernels/cuda/driver)
# References in float64 touch no memory of C, and with each of their loads watched they would take 250 times as long.
UNWATCHED      = -gcflags='$(shell $(GO) list -m)/kernels=-asan=false'
UNDEFINED     := -fsanitize=undefined -fno-sanitize-recover=undefined
SANITIZED      = $(subst CGO_LDFLAGS=',CGO_LDFLAGS='$(UNDEFINED) ,$(subst -g0,-g $(UNDEFINED),$(subst -O2,-O1,$(TEST))))
test-asan: $(TRAMPOLINES)
	@for package in $(ASAN_PACKAGES); do \
		program=$(CURDIR)/bin/asan/$$(basename $$package).test; \
		$(SANITIZED) $(TAGS) -asan $(UNWATCHED) -c -o $$program ./$$package || exit 1; \
		(cd $$package && ASAN_OPTIONS=detect_stack_use_after_return=0:intercept_tls_get_addr=0:$$ASAN_OPTIONS UBSAN_OPTIONS=print_stacktrace=1:$$UBSAN_OPTIONS $$program -test.timeout 30m $(ASAN_TESTS)) || exit 1; \
	done

check: vet formatted
	$(TEST) $(TEST_FLAGS) -short ./...

# Code without GPU support differs in these packages.
vet: $(TRAMPOLINES)
	$(CUDA_ENV) $(GO) vet $(BROWSER_TAGS) $(COMPILED) ./...
ifdef GPU
	$(CUDA_ENV) $(GO) vet -tags netgo $(COMPILED) ./kernels/cuda/... ./kernels/mistral ./cmd/...
endif

formatted:
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted:"; echo "$$files"; exit 1; fi

# The CPU's kernels on every instruction set that this machine can run, and AMX in
# software where it can't.
test-kernels:
	$(GO) test ./kernels/cpu
	$(GO) test -tags amxemu $(TILES) ./kernels/cpu

# The driver's layer without a GPU: against fake drivers, which the tests build.
test-cuda: $(TRAMPOLINES)
ifdef GPU
	$(CUDA_ENV) $(GO) vet $(TAGS) $(COMPILED) ./kernels/cuda/... ./cmd/...
	$(TEST) $(TEST_FLAGS) ./kernels/cuda/...
endif

# What the rooms of kernels/cuda plan is used by what the tag brings in, so they are looked
# at with it.
lint: formatted $(TRAMPOLINES)
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) -tags browser $$($(GO) list ./... | grep -v /kernels/cuda)
ifdef GPU
	$(CUDA_ENV) $(GO) run $(STATICCHECK) $(TAGS) ./kernels/cuda/...
endif

# The figures of docs/speed.md: kernels against registers, memory and libraries in one
# interleaved run; then the parts of the program that must keep up with them.
bench:
	$(GO) test -run '^$$' -bench '^BenchmarkReach' -benchtime 15x ./kernels/cpu
	$(GO) test -run '^$$' -bench . -timeout 30m ./results/... ./rules
ifdef PAIR
	PAIR='$(PAIR)' $(GO) test -run '^$$' -bench '^BenchmarkPair$$' -benchtime 1x ./cmd/gemmaudit
endif

# Every kernel, type and size on its own.
bench-kernels:
	$(GO) test -run '^$$' -bench 'Gemm|Pack|Fill|AMXTuning' -benchtime 5x -timeout 30m ./kernels/cpu

# bin/trust.md has all tables, docs/trust.md the summary. Exit code 1 means that a rate is past its bound, 4 too few machines.
trust: build
	bin/gemmaudit selftest --simulate --machines $(MACHINES) -o markdown > bin/trust.md || { code=$$?; [ $$code -eq 1 ] || [ $$code -eq 4 ]; }
	{ sed '/^<!-- make trust -->/q' docs/trust.md; echo; \
	  echo '    $$ gemmaudit selftest --simulate --machines $(MACHINES) -o markdown'; echo; sed '/^### Verdicts/,$$d' bin/trust.md; \
	  sed -n '/^<!-- end of make trust -->/,$$p' docs/trust.md; } > bin/trust-page.md
	mv bin/trust-page.md docs/trust.md
	$(TEST) $(TEST_FLAGS) -run '^TestDataSets$$' ./rules/trust -all-sets

KILLS   ?= 1000
WORKERS ?= 200
SIGNALS ?= 300
SEED    ?= 0
FOLDER  ?= -1
FOR     ?= 0
ENDURE  := -endure.seed $(SEED) -endure.for $(FOR)

test-endure:
	@$(MAKE) --no-print-directory endure FOR=30s WORKERS=10

# Its failures keep the folder and print the command that repeats it.
endure: $(TRAMPOLINES)
ifdef NIGHT
	$(GO) test -run '^$$' -bench '^BenchmarkDay$$' -benchtime 1x -timeout 1h ./sweep
else
	$(subst 30m,3h,$(TEST)) $(TEST_FLAGS) -count=1 -v -run '^TestEndure' ./cmd/gemmaudit \
	  -endure.kills $(KILLS) -endure.workers $(WORKERS) -endure.signals $(SIGNALS) -endure.folder $(FOLDER) -endure.disk $(ENDURE)
endif

# With LONG=1 the tests of test-long count too. The flags are those of make test, whose cache serves both.
MUTANTS ?= 200
mutants: $(TRAMPOLINES)
	$(CUDA_ENV) $(GO) run ./scripts/mutants --n $(MUTANTS) --seed $(SEED)$(if $(LONG),, --short --share 0.85)$(if $(MUTANTS_FOR), --for $(MUTANTS_FOR)) -- $(TEST_FLAGS)

fuzz:
	@for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime $(FUZZMIN) $$pkg || exit 1; \
		done; \
	done

# Compiles what has changed; go build embeds the result. The compilers are pinned and
# live in an environment of their own.
KERNEL_TOOLS := build/kernel-tools

kernels: $(KERNEL_TOOLS)/ready
	$(KERNEL_TOOLS)/bin/python scripts/build_kernels.py --only '$(ONLY)'

verify-kernels: $(KERNEL_TOOLS)/ready
	$(KERNEL_TOOLS)/bin/python scripts/build_kernels.py --verify --only '$(ONLY)' $(if $(NTH),--nth $(NTH))

# PTX for older GPUs, which the tests load on a newer one: GEMMAUDIT_TEST_CC=80
# GEMMAUDIT_TEST_PTX=.../older. The bundle takes it along where it was made.
older-ptx: $(KERNEL_TOOLS)/ready
	$(KERNEL_TOOLS)/bin/python scripts/build_kernels.py --ptx --out bin/older

# Two folders whose names differ in length. The second compiles all of this module anew: it has a copy of Go's cache without
# what the first made of it. The program is built with GPU support, and without.
reproducible:
	@cache=$$($(GO) env GOCACHE) && dir=$$(mktemp -d -p "$$(dirname "$$cache")" reproducible.XXXXXX) && trap 'rm -rf "$$dir"' EXIT && mkdir "$$dir/longer" && \
	git clone -q . "$$dir/a" && git clone -q . "$$dir/longer/b" && b="$(MAKE) -C $$dir/longer/b --no-print-directory -s" && \
	for support in GPU=$(GPU) GPU=; do \
		$(MAKE) -C "$$dir/a" --no-print-directory -s build $$support && mv "$$dir/a/bin/gemmaudit" "$$dir/$$support" || exit 1; \
	done && \
	cp -al "$$cache" "$$dir/cache" && export GOCACHE="$$dir/cache" && \
	{ $$b compiled GPU=$(GPU) && $$b compiled GPU=; } > "$$dir/compiled" && xargs rm -f -- < "$$dir/compiled" && \
	for support in GPU=$(GPU) GPU=; do \
		$$b build $$support && cmp "$$dir/$$support" "$$dir/longer/b/bin/gemmaudit" && sha256sum < "$$dir/$$support" || exit 1; \
	done && echo 'two clones build the same program'

# compiled lists the files of Go's cache that hold what was compiled of this module.
compiled: $(TRAMPOLINES)
	@$(CUDA_ENV) $(GO) list $(TAGS) $(COMPILED) -deps -export -f '{{with .Module}}{{if .Main}}{{$$.Export}}{{end}}{{end}}' ./cmd/gemmaudit

# The test binary serves as the program, and simulates the fleet.
pages: build
	$(TEST) $(TEST_FLAGS) -count=1 -run '^(TestPages|TestScreens)$$' ./cmd/gemmaudit -update
	PATH='$(CURDIR)/bin':"$$PATH" scripts/pages.py page

# A page that unpacks itself, of each run file: RUNS holds NAME.db, docs/gallery then NAME.html.
RUNS ?= out/gallery
gallery: build
	GEMMAUDIT='$(CURDIR)/bin/gemmaudit' scripts/gallery.sh pages '$(RUNS)'

# Both need a C compiler of the other machine; the second runs its program under qemu.
release:
	scripts/release.sh '$(VERSION)' bin/release/'$(VERSION)'

release-check:
	scripts/release_check.sh '$(VERSION)'

# What shows sentences of the program is written by the tests that compare it, never by hand.
texts: $(TRAMPOLINES)
	$(TEST) $(TEST_FLAGS) -short ./report ./results/table ./results/tunableop ./sweep/health -update
	$(TEST) $(TEST_FLAGS) -run '^(TestHelpLayout|TestCommandLines|TestDocumentsShowTheCode|TestScripts|TestPages|TestScreens)$$' ./cmd/gemmaudit -update

# release-check proves what test-wheel and reproducible do; its second release is of this machine's program alone here. They run instead where the other machine's compiler or an emulator is
# missing; with GEMMAUDIT_RELEASE_REQUIRED that is a failure.
test-release:
	@if command -v aarch64-linux-gnu-gcc >/dev/null && command -v jq >/dev/null && { command -v qemu-aarch64 || command -v qemu-aarch64-static; } >/dev/null; then \
		scripts/release_check.sh "$$(sed -n 's/^## \(v[^ ]*\)$$/\1/p' CHANGELOG.md | head -n 1)-ci" "$$($(GO) env GOHOSTARCH)"; \
	else \
		echo 'test-release: gcc-aarch64-linux-gnu, qemu-user-static or jq is missing: no release was made' >&2; test -z "$$GEMMAUDIT_RELEASE_REQUIRED" && \
		$(MAKE) --no-print-directory test-wheel reproducible; \
	fi

notices:
	$(GO) test ./cmd/gemmaudit/notices -update

# A machine that can't reach the database has looked at nothing, and says so.
vulncheck: $(TRAMPOLINES)
	@mkdir -p bin
	@$(CUDA_ENV) $(GO) run $(GOVULNCHECK) $(TAGS) ./... 2> bin/vulncheck.txt || { code=$$?; cat bin/vulncheck.txt >&2; \
		! grep -q 'fetching vulnerabilities' bin/vulncheck.txt || echo 'vulncheck: the database https://vuln.go.dev can not be reached from here: nothing was looked at' >&2; \
		exit $$code; }

$(KERNEL_TOOLS)/ready: scripts/kernels-requirements.txt scripts/kernels-later-requirements.txt
	python3 -m venv $(KERNEL_TOOLS)
	$(KERNEL_TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	packages=$$($(KERNEL_TOOLS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && rm -rf "$$packages/../later" && \
	$(KERNEL_TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target "$$packages/../later" -r scripts/kernels-later-requirements.txt
	@touch $@

clean:
	rm -rf bin build
