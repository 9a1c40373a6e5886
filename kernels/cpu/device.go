// Package cpu audits the host's processor. Its kernels are C with intrinsics, selected at run time by CPU
// features, with portable C as fallback. It also loads the system's BLAS libraries as audited kernels.
//
// The environment variable GEMMAUDIT_ISA caps the instruction set of our own kernels for tests and
// comparisons: portable, avx2, avx512-core (AVX-512 without VNNI and BF16), avx512-vnni (without BF16),
// avx512 or amx. Libraries have their own variables: OPENBLAS_CORETYPE and ONEDNN_MAX_CPU_ISA. `make
// test-isa` sets all three.
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
	_ "github.com/gemmaudit/gemmaudit/kernels/cpu/native"
	"github.com/gemmaudit/gemmaudit/kernels/procfs"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

// Provider offers the CPU as one device.
type Provider struct {
	// Threads is the pool's number of threads; 0 means one per CPU that the process may use.
	Threads int
	// LibraryPaths replaces the search for libraries with files or folders, by name.
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

// Open returns the CPU. The CPU is missing if its threads can't start or GEMMAUDIT_ISA is invalid.
func (p Provider) Open() ([]kernels.Device, []kernels.Missing) {
	d, err := openWith(p)
	if err != nil {
		return nil, []kernels.Missing{{Name: "cpu", Reason: err.Error()}}
	}
	return []kernels.Device{d}, nil
}

// Device is the host's processor.
type Device struct {
	pool         *pool
	opened       Provider // arguments of Open
	spec         kernels.Spec
	features     features // available to our kernels: the CPU's, capped by GEMMAUDIT_ISA
	ceilings     *kernels.Ceilings
	memory       *memoryMeter
	gemms        []kernels.Kernel
	softmaxFiles []*broughtSoftmax
	missing      []kernels.Missing
	steal        stealMeter
	energy       energyMeter
	slabs        slabs
	workers      *worker.Set
}

// Our kernels in display order, from the fastest to the simplest. Libraries (systemLibraries) and user
// kernels follow.
const (
	slotAuto = iota
	slotGemv
	slotAMX
	slotTiled
	slotRounded
	slotScaled
	slotNaive
	slots
)

// constructors return our kernels, or the reason for a missing one. Each kernel's file sets its slot.
var constructors [slots]func(*Device) (kernels.Kernel, *kernels.Missing)

// Open opens the CPU with a pool of threads (0: one per allowed CPU) and its available kernels.
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
	d.workers = d.newWorkers()
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

// isas are the values of GEMMAUDIT_ISA in ascending order; each includes the previous ones.
var isas = []string{"portable", "avx2", "avx512-core", "avx512-vnni", "avx512", "amx"}

// capped removes the features above isa from f.
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

// FreeMemory returns how many bytes the process can allocate before the system swaps or kills it.
func (d *Device) FreeMemory() (bytes int64, ok bool) {
	return procfs.Tree{FS: os.DirFS("/")}.AvailableMemory()
}

// Ceilings returns peaks and memory bandwidth, measured at the first call.
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

// Bandwidth measures the memory bandwidth again, in a fraction of a second.
func (d *Device) Bandwidth(ctx context.Context) (read, copied float64, err error) {
	if d.pool.c == nil {
		return 0, 0, errors.New("measure the memory of cpu: the device is closed")
	}
	return d.memory.measure(ctx, readSpec())
}

// Kernels lists the available kernels of an operation, ours first.
func (d *Device) Kernels(o kernels.Operation) []kernels.Kernel {
	var own []kernels.Kernel
	switch o {
	case kernels.GEMM:
		own = d.gemms
	case kernels.AttentionPrefill, kernels.AttentionDecode:
		own = kernels.AttentionKernels(d, d.attentions())
	case kernels.Softmax, kernels.LogSoftmax:
		own = d.softmaxKernels()
	case kernels.GroupedGEMM:
		own = d.groupedKernels()
	case kernels.FusedGEMM:
		own = d.fusedKernels()
	}
	return append(slices.Clip(own), d.workers.Kernels(o)...)
}

// Missing lists unavailable kernels and libraries with reasons.
func (d *Device) Missing() []kernels.Missing { return d.missing }

// Threads returns the pool's number of threads.
func (d *Device) Threads() int { return d.pool.threads() }

// WithThreads opens the processor again with a pool of n threads. Kernels, libraries, user kernels and
// measured ceilings use n threads there.
func (d *Device) WithThreads(n int) (kernels.Device, error) {
	if n < 1 || n > d.Threads() {
		return nil, fmt.Errorf("%d threads on %s, expected 1 to %d", n, d.spec.ID, d.Threads())
	}
	from := d.opened
	from.Threads = n
	fewer, err := openWith(from)
	if err != nil {
		return nil, err // a nil *Device would give a non-nil kernels.Device
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
	if err := fewer.workers.Reload(d.workers); err != nil {
		return nil, errors.Join(err, fewer.Close())
	}
	return fewer, nil
}

// gemm returns our kernel of that name, or nil.
func (d *Device) gemm(name string) kernels.Kernel {
	for _, g := range d.gemms {
		if g.Name() == name {
			return g
		}
	}
	return nil
}

// Execute runs launches[i % len(launches)] for i in [0,n) back to back in one C call. Threads that a launch
// does not use wait. If ctx ends, execution stops after the current launch.
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
	if d.workers.Owns(launches) {
		stolen := d.steal.begin()
		span, err := d.workers.Execute(ctx, launches, n)
		span.Disturbance.Stolen = d.steal.end(stolen)
		return span, err
	}
	leadIn := d.workers.Own()
	block := make([]C.ga_launch, min(len(launches), n))
	for i := range block {
		l, ok := launches[i].(*launch)
		if !ok {
			return kernels.Span{}, fmt.Errorf("execute on %s: launch %d is a %T of another device", d.spec.ID, i, launches[i])
		}
		block[i] = l.c
		l.overwrites()
	}
	ahead := 0
	if leadIn {
		var untimed C.ga_span
		C.ga_execute(d.pool.c, &block[0], C.int64_t(len(block)), C.int64_t(n), nil, &untimed)
		ahead = n
	}
	stolen := d.steal.begin()
	var span C.ga_span
	var stop *C.int32_t // nil if the context can't end
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
			return kernels.Span{},
				fmt.Errorf("execute on %s: launch %d: %s", d.spec.ID, int(span.failed_at), failed.reason(int(span.failed)))
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
		Ahead:       ahead,
		Disturbance: off.disturbance(d.steal.end(stolen)),
		Lost:        off.lost + off.suspended,
	}, nil
}

// Close stops the threads. Owners close their buffers.
func (d *Device) Close() error {
	if d.pool.c == nil {
		return nil
	}
	d.pool.close()
	d.steal.close()
	return d.workers.Close()
}
