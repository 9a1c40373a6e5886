package cpu

/*
#include "native/tiled.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() {
	constructors[slotTiled] = func(d *Device) (kernels.Gemm, *kernels.Missing) {
		return &blocked{dev: d, name: "tiled", kernel: C.ga_kernel(C.ga_tiled), what: "cache-blocked, packed, register-tiled"}, nil
	}
	constructors[slotGemv] = func(d *Device) (kernels.Gemm, *kernels.Missing) {
		return &blocked{dev: d, name: "gemv", kernel: C.ga_kernel(C.ga_gemv), maxM: gemvRows,
			what: fmt.Sprintf("streams the weights once, M up to %d", gemvRows)}, nil
	}
}

// gemvRows is the largest M of gemv: above it the weights' stream is no longer
// what takes the time, and tiled's blocking pays.
const gemvRows = 16

// blocked is one of the kernels that are written over paths (path.h): tiled for
// any M, gemv for few rows. They share the packed weights.
type blocked struct {
	dev    *Device
	name   string
	what   string
	kernel C.ga_kernel
	maxM   int // 0 for any
}

func (b *blocked) Name() string { return b.name }

// Describe names the register tile of each type.
func (b *blocked) Describe() string {
	s := b.what
	for i, t := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		s += fmt.Sprintf("%s %s %s", []string{":", ";", ";", ";"}[i], t, C.GoString(b.dev.path(t).name))
	}
	return s
}

// path is the best path for a type on this device.
func (d *Device) path(t kernels.DType) *C.ga_path { return C.ga_path_for(dtypeCodes[t], d.isa()) }

// isa are the instruction sets for C.ga_path_for.
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

func (b *blocked) Supports(p kernels.Problem) error {
	if err := b.dev.supports(b.name, p); err != nil {
		return err
	}
	if b.maxM > 0 && p.M > b.maxM {
		return &kernels.Unsupported{Kernel: b.name, DType: p.DType, Reason: fmt.Sprintf("M is %d, at most %d rows are kept beside the weights' stream", p.M, b.maxM)}
	}
	return nil
}

func (b *blocked) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	return b.dev.pack(p, raw)
}

// Packs implements [kernels.Packer].
func (b *blocked) Packs(kernels.Problem) bool { return true }

func (b *blocked) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := b.Supports(p); err != nil {
		return nil, err
	}
	g, q, err := b.dev.bindPacked(b.name, p, a, w, c)
	if err != nil {
		return nil, err
	}
	g.plan = unsafe.Pointer(b.dev.path(q.DType))
	l := kernelLaunch(b.kernel, g, b.dev.threadsOf(q), "", a.Buffer, w, c.Buffer)
	l.tiling = b.tiling(q)
	return l, nil
}

// tiling is how the launch of a normalized problem divides its work.
func (b *blocked) tiling(p kernels.Problem) kernels.Tiling {
	t := kernels.Tiling{Tile: [3]int{b.dev.tileRows(p), panelColumns, int(b.dev.path(p.DType).group)}, Split: 1}
	if b.maxM > 0 {
		g := sizes(p)
		t.Split = int(C.ga_gemv_parts(&g, C.int(b.dev.threadsOf(p))))
	}
	return t
}

// Choice implements [kernels.ChoiceTeller].
func (b *blocked) Choice(p kernels.Problem) (kernels.Choice, error) { return plannedChoice(b, p) }

// panelColumns is the width of the register tiles, all of which read panels of B.
const panelColumns = C.GA_PANEL

// tileRows is the height of the register tile of the kernels over paths: rows are divided
// evenly among tiles.
func (d *Device) tileRows(p kernels.Problem) int {
	return divideUp(p.M, divideUp(p.M, int(d.path(p.DType).rows)))
}

// SupportsBatch implements [kernels.Batcher].
func (b *blocked) SupportsBatch(batch kernels.Batch) error { return batchSupports(b, batch) }

// PrepareBatch implements [kernels.Batcher].
func (b *blocked) PrepareBatch(batch kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	return b.dev.batchPrepare(b, batch, raw)
}

// BindBatch implements [kernels.Batcher]: the products run one after the other.
func (b *blocked) BindBatch(batch kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	return b.dev.batchBind(b, batch, a, w, c)
}
