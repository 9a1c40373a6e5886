// Package cpu audits the processor that it runs on. Its kernels are C with
// intrinsics, chosen at run time among what the CPU has, and portable C for the
// rest; beside them it opens the system's BLAS libraries as subjects of the audit.
//
// The environment variable GEMMAUDIT_ISA caps the instruction set of our own kernels, for tests and for comparisons:
// portable, avx2, avx512-core (AVX-512 without VNNI and BF16), avx512-vnni (without BF16), avx512 or amx. It does not reach
// the libraries: OpenBLAS has OPENBLAS_CORETYPE, oneDNN has ONEDNN_MAX_CPU_ISA. `make test-isa` sets all three.
package cpu

/*
#include "native/execute.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	_ "github.com/gemmaudit/gemmaudit/kernels/cpu/native" // the C that is called here
	"github.com/gemmaudit/gemmaudit/kernels/procfs"
)

// Provider offers the CPU as one device.
type Provider struct {
	// Threads is the number of threads of its pool, 0 for one per CPU that the process may
	// use.
	Threads int
	// LibraryPaths are files or folders of libraries, by name, in place of those that are
	// looked for.
	LibraryPaths map[string][]string
}

// Libraries implements [kernels.LibraryChooser].
func (Provider) Libraries() []string {
	var names []string
	for _, s := range systemLibraries {
		names = append(names, s.name.kernel)
	}
	return names
}

// WithLibraries implements [kernels.LibraryChooser].
func (p Provider) WithLibraries(paths map[string][]string) kernels.Provider {
	p.LibraryPaths = paths
	return p
}

// Open returns the CPU. It is missing only when its threads can't be started or
// GEMMAUDIT_ISA names no instruction set.
func (p Provider) Open() ([]kernels.Device, []kernels.Missing) {
	d, err := openWith(p)
	if err != nil {
		return nil, []kernels.Missing{{Name: "cpu", Reason: err.Error()}}
	}
	return []kernels.Device{d}, nil
}

// Device is the processor that the program runs on.
type Device struct {
	pool     *pool
	opened   Provider // with which it was
	spec     kernels.Spec
	features features // what our kernels may use: the CPU's, capped by GEMMAUDIT_ISA
	ceilings *kernels.Ceilings
	memory   *memoryMeter
	gemms    []kernels.Gemm
	// softmaxFiles are the kernels of softmax that were brought as files.
	softmaxFiles []*broughtSoftmax
	missing      []kernels.Missing
	steal        stealMeter
	energy       energyMeter
	slabs        slabs
}

// The order in which our kernels are listed, from the best to the plainest. The libraries
// follow in the order of systemLibraries, then what was brought as a file.
const (
	slotAuto = iota
	slotGemv
	slotAMX
	slotTiled
	slotNaive
	slots
)

// constructors make our kernels of a device, or say why one is missing. Each
// kernel's file puts its own into its slot.
var constructors [slots]func(*Device) (kernels.Gemm, *kernels.Missing)

// Open starts a pool of that many threads (0: one per allowed CPU) and finds the
// kernels that run here.
func Open(threads int) (*Device, error) { return openWith(Provider{Threads: threads}) }

func openWith(from Provider) (*Device, error) {
	threads := from.Threads
	if threads < 0 {
		return nil, fmt.Errorf("open cpu with %d threads: expected at least 1, or 0 for all", threads)
	}
	have, err := capped(detect(), os.Getenv("GEMMAUDIT_ISA"))
	if err != nil {
		return nil, err
	}
	p, err := newPool(threads)
	if err != nil {
		return nil, err
	}
	d := &Device{pool: p, opened: from, spec: readSpec(), features: have, memory: newMemoryMeter(p, detect())}
	d.steal.open()
	for _, construct := range constructors {
		if construct == nil {
			continue
		}
		g, missing := construct(d)
		if missing != nil {
			d.missing = append(d.missing, *missing)
			continue
		}
		d.gemms = append(d.gemms, g)
	}
	d.openLibraries(from.LibraryPaths)
	return d, nil
}

// isas are the values of GEMMAUDIT_ISA, each with the instructions of those before it.
var isas = []string{"portable", "avx2", "avx512-core", "avx512-vnni", "avx512", "amx"}

// capped removes from f what lies above the instruction set that was asked for.
func capped(f features, isa string) (features, error) {
	at := slices.Index(isas, isa)
	switch {
	case isa == "" || isa == "amx":
		return f, nil
	case at < 0:
		return f, fmt.Errorf("GEMMAUDIT_ISA is %q: expected %s or amx", isa, strings.Join(isas[:len(isas)-1], ", "))
	}
	f.dropAMX("GEMMAUDIT_ISA=" + isa + " leaves it out")
	allows := func(least string) bool { return at >= slices.Index(isas, least) }
	f.AVX512BF16 = f.AVX512BF16 && allows("avx512")
	f.AVX512VNNI = f.AVX512VNNI && allows("avx512-vnni")
	f.AVXVNNI = f.AVXVNNI && allows("avx512-vnni")
	f.AVX512 = f.AVX512 && allows("avx512-core")
	if isa == "portable" {
		f = features{noAMX: f.noAMX}
	}
	return f, nil
}

// Spec describes the processor.
func (d *Device) Spec() kernels.Spec { return d.spec }

// FreeMemory is what the process can take without the system swapping or ending it.
func (d *Device) FreeMemory() (bytes int64, ok bool) {
	return procfs.Tree{FS: os.DirFS("/")}.AvailableMemory()
}

// Ceilings measures the peaks and the memory at the first call.
func (d *Device) Ceilings(ctx context.Context) (kernels.Ceilings, error) {
	if d.ceilings == nil {
		c, err := measureCeilings(ctx, d.pool, d.memory)
		if err != nil {
			return kernels.Ceilings{}, err
		}
		d.ceilings = &c
	}
	return *d.ceilings, nil
}

// Bandwidth measures the memory anew, in a fraction of a second.
func (d *Device) Bandwidth(ctx context.Context) (read, copied float64, err error) {
	if d.pool.c == nil {
		return 0, 0, errors.New("measure the memory of cpu: the device is closed")
	}
	return d.memory.measure(ctx, readSpec())
}

// Gemms lists the kernels that run here, ours first.
func (d *Device) Gemms() []kernels.Gemm { return d.gemms }

// Missing lists the kernels and libraries that don't, with reasons.
func (d *Device) Missing() []kernels.Missing { return d.missing }

// Threads is the number of threads of the pool.
func (d *Device) Threads() int { return d.pool.threads() }

// WithThreads opens the processor once more with a pool of n threads, so that kernels,
// libraries, brought kernels and the measured ceilings are those of n.
func (d *Device) WithThreads(n int) (kernels.Device, error) {
	if n < 1 || n > d.Threads() {
		return nil, fmt.Errorf("%d threads on %s, expected 1 to %d", n, d.spec.ID, d.Threads())
	}
	from := d.opened
	from.Threads = n
	fewer, err := openWith(from)
	if err != nil {
		return nil, err // a nil *Device would be a kernels.Device that isn't nil
	}
	for _, g := range d.gemms {
		if b, ok := g.(*brought); ok {
			if _, err := fewer.LoadKernel(b.k.Path); err != nil {
				return nil, errors.Join(err, fewer.Close())
			}
		}
	}
	for _, b := range d.softmaxFiles {
		if _, err := fewer.LoadSoftmax(b.s.Path); err != nil {
			return nil, errors.Join(err, fewer.Close())
		}
	}
	return fewer, nil
}

// gemm is our own kernel of that name, nil when it isn't there.
func (d *Device) gemm(name string) kernels.Gemm {
	for _, g := range d.gemms {
		if g.Name() == name {
			return g
		}
	}
	return nil
}

// Execute runs launches[i % len(launches)] for i in [0,n) back to back inside
// one call of the C side. Where a launch uses fewer threads than another of the
// block, the others wait meanwhile. When ctx ends, the launch in progress is the last.
func (d *Device) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	if err := ctx.Err(); err != nil {
		return kernels.Span{}, err
	}
	if len(launches) == 0 || n < 1 {
		return kernels.Span{}, fmt.Errorf("execute %d launches of %d: expected at least one of each", n, len(launches))
	}
	if d.pool.c == nil {
		return kernels.Span{}, errors.New("execute on cpu: the device is closed")
	}
	block := make([]C.ga_launch, min(len(launches), n))
	for i := range block {
		l, ok := launches[i].(*launch)
		if !ok {
			return kernels.Span{}, fmt.Errorf("execute on %s: launch %d is a %T of another device", d.spec.ID, i, launches[i])
		}
		block[i] = l.c
	}
	stolen := d.steal.begin()
	var span C.ga_span
	var stop *C.int32_t // none for a context that can't end
	if ctx.Done() != nil {
		ended := new(int32)
		defer context.AfterFunc(ctx, func() { atomic.StoreInt32(ended, 1) })()
		stop = (*C.int32_t)(unsafe.Pointer(ended))
	}
	C.ga_execute(d.pool.c, &block[0], C.int64_t(len(block)), C.int64_t(n), stop, &span)
	runtime.KeepAlive(launches)
	if span.failed != 0 {
		failed := launches[int(span.failed_at)%len(launches)].(*launch)
		if failed.reason != nil {
			return kernels.Span{}, fmt.Errorf("execute on %s: launch %d: %s", d.spec.ID, int(span.failed_at), failed.reason(int(span.failed)))
		}
		return kernels.Span{}, fmt.Errorf("execute on %s: %s returned %d at launch %d",
			d.spec.ID, failed.label, int(span.failed), int(span.failed_at))
	}
	if int64(span.done) < int64(n) {
		return kernels.Span{}, ctx.Err()
	}
	off := offCPU{
		preempted: int64(span.preempted), told: d.tellsLost(),
		lost: seconds(span.lost), suspended: seconds(span.suspended), block: seconds(span.seconds),
	}
	return kernels.Span{
		Seconds:     float64(span.seconds),
		ClockMHz:    float64(span.mhz),
		Disturbance: off.disturbance(d.steal.end(stolen)),
		Lost:        off.lost + off.suspended,
	}, nil
}

// Close ends the threads. Buffers are closed by their owners.
func (d *Device) Close() error {
	if d.pool.c != nil {
		d.pool.close()
		d.steal.close()
	}
	return nil
}
