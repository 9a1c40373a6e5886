package cpu

/*
#include "native/amx.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { constructors[slotAMX] = newAMX }

// amx multiplies on the CPU's tile registers: bf16 and int8.
type amx struct{ dev *Device }

func newAMX(d *Device) (kernels.Gemm, *kernels.Missing) {
	if !d.features.AMX {
		reason := detect().noAMX
		if reason == "" {
			reason = "GEMMAUDIT_ISA leaves AMX out"
		}
		return nil, &kernels.Missing{Name: amx{}.Name(), Reason: reason}
	}
	return amx{d}, nil
}

func (amx) Name() string { return "amx" }

func (amx) Describe() string {
	t := C.ga_amx_tuned
	unit := "AMX"
	if amxEmulated {
		unit = "AMX emulated in software"
	}
	return fmt.Sprintf("%s, 2x2 tiles of 16x16, blocks of %dx%d and %d bytes of K", unit, t.rows, t.cols, 64*t.steps)
}

func (k amx) Supports(p kernels.Problem) error {
	if err := k.dev.supports(k.Name(), p); err != nil {
		return err
	}
	f := k.dev.features
	has := map[kernels.DType]bool{kernels.BF16: f.AMXBF16, kernels.INT8: f.AMXINT8}[p.DType]
	if has {
		return nil
	}
	reason := fmt.Sprintf("AMX has no instruction for %s", p.DType)
	switch p.DType {
	case kernels.FP16:
		reason = "this CPU's AMX has no instruction for fp16"
		if f.AMXFP16 {
			reason = "the kernel is written for bf16 and int8"
		}
	case kernels.BF16, kernels.INT8:
		reason = fmt.Sprintf("this CPU's AMX has no instruction for %s", p.DType)
	}
	return &kernels.Unsupported{Kernel: k.Name(), DType: p.DType, Reason: reason}
}

func (k amx) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	return k.dev.pack(p, raw)
}

// Packs implements [kernels.Packer].
func (k amx) Packs(kernels.Problem) bool { return true }

func (k amx) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	g, p, err := k.dev.bindPacked(k.Name(), p, a, w, c)
	if err != nil {
		return nil, err
	}
	g.plan = unsafe.Pointer(k.dev.path(p.DType))
	l := kernelLaunch(C.ga_kernel(C.ga_amx), g, k.dev.threadsOf(p), "", a.Buffer, w, c.Buffer)
	l.tiling = k.tiling(p)
	return l, nil
}

// tiling is how the launch of a normalized problem divides its work.
func (amx) tiling(p kernels.Problem) kernels.Tiling {
	return kernels.Tiling{Tile: [3]int{amxRows(p.M), panelColumns, amxStepBytes / p.DType.Size()}, Split: 1}
}

// Choice implements [kernels.ChoiceTeller].
func (k amx) Choice(p kernels.Problem) (kernels.Choice, error) { return plannedChoice(k, p) }

// amxStepBytes is what a tile register's row holds of K.
const amxStepBytes = 64

// amxRows is the height of the register tile: one tile of 16 rows, or two.
func amxRows(m int) int { return 16 * min(divideUp(m, 16), 2) }

// amxTuning is what the speed of amx depends on and its result does not: see amx.h.
type amxTuning = C.ga_amx_tuning

// amxSetting is the type of its fields.
type amxSetting = C.int

// tuneAMX replaces the tuning of the following launches and returns the one before,
// for measurements of the kernel and for tests of its loops.
func tuneAMX(t amxTuning) amxTuning {
	before := C.ga_amx_tuned
	C.ga_amx_tuned = t
	return before
}

// SupportsBatch implements [kernels.Batcher].
func (k amx) SupportsBatch(batch kernels.Batch) error { return batchSupports(k, batch) }

// PrepareBatch implements [kernels.Batcher].
func (k amx) PrepareBatch(batch kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	return k.dev.batchPrepare(k, batch, raw)
}

// BindBatch implements [kernels.Batcher]: the products run one after the other.
func (k amx) BindBatch(batch kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	return k.dev.batchBind(k, batch, a, w, c)
}
