package cpu

/*
#include "native/quantised.h"
#include "native/tiled.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() {
	constructors[slotTiled] = func(d *Device) (kernels.Kernel, *kernels.Missing) {
		return &blocked{dev: d, name: "tiled", kernel: C.ga_kernel(C.ga_tiled), what: "cache-blocked, packed, register-tiled"}, nil
	}
	constructors[slotGemv] = func(d *Device) (kernels.Kernel, *kernels.Missing) {
		return &blocked{dev: d, name: "gemv", kernel: C.ga_kernel(C.ga_gemv), maxM: gemvRows,
			what: fmt.Sprintf("streams the weights once, M up to %d", gemvRows)}, nil
	}
}

// gemvRows is gemv's largest M. Above it, loading weights is not the bottleneck and tiled's blocking is
// faster.
const gemvRows = 16

// blocked is a kernel over paths (path.h): tiled for any M, gemv for few rows. Both use the same packed
// weights.
type blocked struct {
	dev    *Device
	name   string
	what   string
	kernel C.ga_kernel
	maxM   int // 0 for any
}

func (b *blocked) Name() string { return b.name }

func (b *blocked) Describe() string {
	s := b.what
	for i, t := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		s += fmt.Sprintf("%s %s %s", []string{":", ";", ";", ";"}[i], t, C.GoString(b.dev.path(t).name))
	}
	return s
}

func (d *Device) path(t kernels.DType) *C.ga_path { return C.ga_path_for(dtypeCodes[t], d.isa()) }

func (d *Device) isa() C.uint {
	f, isa := d.features, C.uint(0)
	if f.AVX2 && f.FMA && f.F16C {
		isa |= C.GA_ISA_AVX2
		if f.AVX512 {
			isa |= C.GA_ISA_AVX512
		}
		if f.AVX512VNNI {
			isa |= C.GA_ISA_VNNI
		}
		if f.AVX512BF16 {
			isa |= C.GA_ISA_BF16
		}
	}
	return isa
}

func (b *blocked) Supports(t kernels.Task) error {
	t, err := b.dev.supports(b.name, t, kernels.Batches|kernels.QuantizedWeights)
	switch {
	case err != nil || b.maxM == 0:
		return err
	case t.M > b.maxM:
		return t.Unsupported(b.name, fmt.Sprintf("M is %d, expected at most %d rows", t.M, b.maxM))
	case t.Quantized():
		if !b.dev.quantizedFits(t) {
			return t.Unsupported(b.name, fmt.Sprintf("%d rows of k %d do not fit next to the weights", t.M, t.K))
		}
	}
	return nil
}

func (b *blocked) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	return b.dev.prepare(b, kernels.Batches|kernels.QuantizedWeights, t, raw, b.dev.pack)
}

// Packs implements [kernels.Packer].
func (b *blocked) Packs(kernels.Task) bool { return true }

// Bind implements [kernels.Kernel]; the products of a batch run in sequence.
func (b *blocked) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	switch err := b.Supports(t); {
	case err != nil:
		return nil, err
	case t.Products > 0:
		return b.dev.batchBind(b, t, a, w, c)
	case t.Quantized():
		return b.bindQuantized(t, a, w, c)
	}
	g, q, err := b.dev.bindPacked(b.name, t, a, w, c)
	if err != nil {
		return nil, err
	}
	g.plan = unsafe.Pointer(b.dev.path(q.DType))
	l := kernelLaunch(b.kernel, g, b.dev.threadsOf(q), "", a.Buffer, w, c.Buffer)
	l.tiling = b.tiling(q)
	return l, nil
}

func (b *blocked) tiling(p kernels.Task) kernels.Tiling {
	t := kernels.Tiling{Tile: [3]int{b.dev.tileRows(p), panelColumns, int(b.dev.path(p.DType).group)}, Split: 1}
	if b.maxM > 0 {
		g := sizes(p)
		t.Split = int(C.ga_gemv_parts(&g, C.int(b.dev.threadsOf(p))))
	}
	return t
}

// Choice implements [kernels.Kernel].
func (b *blocked) Choice(p kernels.Task) (kernels.Choice, error) { return plannedChoice(b, p) }

// panelColumns is the width of B's panels and of all register tiles.
const panelColumns = C.GA_PANEL

// tileRows is the height of the register tile; rows are split evenly among tiles.
func (d *Device) tileRows(p kernels.Task) int {
	return divideUp(p.M, divideUp(p.M, int(d.path(p.DType).rows)))
}
