# gemmaudit builds with Go, a C compiler and make; nothing else is needed.
#
#   make run     build, then sweep, judge, prove and remedy this machine (under 2 minutes)
#   make test    everything, as a clean clone runs it
#   make lint    formatting, go vet and staticcheck
#   make bench   what the kernels reach here, beside registers, memory and libraries
#   make build   bin/gemmaudit
#   make fuzz    each fuzz target for FUZZTIME
#   make kernels device code, after kernels/cuda/*.cu changed (Python 3 and pip, Linux; ONLY="mma gemv")

GO       ?= go
OUT      ?= out
PRESET   ?= quick
FUZZTIME ?= 20s

# Empty outside of a clone; the program then tells what the toolchain recorded.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION)

# Pinned, so that a new release of the tool can't fail an old commit.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Packages in which goroutines meet.
CONCURRENT := ./results ./sweep ./cmd/...

.PHONY: run test lint bench bench-kernels build fuzz test-kernels kernels clean

build:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/gemmaudit ./cmd/gemmaudit

# Exit codes 1 and 4 are verdicts, which is what the run is for: something was
# found, or the machine was too unsteady to tell.
run: build
	@bin/gemmaudit run --preset $(PRESET) --parent '$(OUT)' || { code=$$?; [ $$code -eq 1 ] || [ $$code -eq 4 ]; }

test: test-kernels
	$(GO) vet ./...
	$(GO) test ./...
	$(GO) test -race $(CONCURRENT)

# The same kernels on every instruction set that this machine can run, and AMX in
# software where it can't.
test-kernels:
	$(GO) test -tags amxemu ./kernels/cpu
	GEMMAUDIT_ISA=avx2 $(GO) test ./kernels/cpu
	GEMMAUDIT_ISA=portable $(GO) test ./kernels/cpu

lint:
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

# The figures of the README: kernels against registers, memory and libraries in one
# interleaved run; then the parts of the program that must keep up with them.
bench:
	$(GO) test -run '^$$' -bench '^BenchmarkReach$$' -benchtime 15x ./kernels/cpu
	$(GO) test -run '^$$' -bench . ./results/... ./rules

# Every kernel, type and size on its own.
bench-kernels:
	$(GO) test -run '^$$' -bench 'Gemm|Pack|Fill|AMXTuning' -benchtime 5x -timeout 30m ./kernels/cpu

fuzz:
	@for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

# Compiles what has changed; go build embeds the result. The compilers are pinned and
# live in an environment of their own.
KERNEL_TOOLS := build/kernel-tools

kernels: $(KERNEL_TOOLS)/ready
	$(KERNEL_TOOLS)/bin/python scripts/build_kernels.py --only '$(ONLY)'

$(KERNEL_TOOLS)/ready: scripts/kernels-requirements.txt
	python3 -m venv $(KERNEL_TOOLS)
	$(KERNEL_TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

clean:
	rm -rf bin build
