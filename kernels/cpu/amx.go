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

type amx struct{ dev *Device }

func newAMX(d *Device) (kernels.Kernel, *kernels.Missing) {
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

func (k amx) Supports(t kernels.Task) error {
	p, err := k.dev.supports(k.Name(), t, kernels.Batches|kernels.QuantizedWeights)
	if err != nil {
		return err
	}
	f := k.dev.features
	has := map[kernels.DType]bool{kernels.BF16: f.AMXBF16, kernels.INT8: f.AMXINT8}[p.DType]
	switch {
	case has && p.Quantized():
		if g := k.dev.quantizedSizes(p); C.ga_amx_quantised_fits(&g) == 0 {
			return p.Unsupported(k.Name(), fmt.Sprintf("32 rows of k %d do not fit next to the weight tiles", p.K))
		}
		return nil
	case has:
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
	return p.Unsupported(k.Name(), reason)
}

func (k amx) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	return k.dev.prepare(k, kernels.Batches|kernels.QuantizedWeights, t, raw, k.dev.pack)
}

// Packs implements [kernels.Packer].
func (k amx) Packs(kernels.Task) bool { return true }

// Bind implements [kernels.Kernel]; the products of a batch run in sequence.
func (k amx) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand, _ ...kernels.Operand) (kernels.Launch, error) {
	switch err := k.Supports(t); {
	case err != nil:
		return nil, err
	case t.Products > 0:
		return k.dev.batchBind(k, t, a, w, c)
	case t.Quantized():
		return k.bindQuantized(t, a, w, c)
	}
	g, p, err := k.dev.bindPacked(k.Name(), t, a, w, c)
	if err != nil {
		return nil, err
	}
	g.plan = unsafe.Pointer(k.dev.path(p.DType))
	l := kernelLaunch(C.ga_kernel(C.ga_amx), g, k.dev.threadsOf(p), "", a.Buffer, w, c.Buffer)
	l.tiling = k.tiling(p)
	return l, nil
}

func (amx) tiling(p kernels.Task) kernels.Tiling {
	return kernels.Tiling{Tile: [3]int{amxRows(p.M), panelColumns, amxStepBytes / p.DType.Size()}, Split: 1}
}

// Choice implements [kernels.Kernel].
func (k amx) Choice(p kernels.Task) (kernels.Choice, error) { return plannedChoice(k, p) }

// amxStepBytes is the width of a tile register along K.
const amxStepBytes = 64

// amxRows is the height of the register tile: one or two hardware tiles of 16 rows.
func amxRows(m int) int { return 16 * min(divideUp(m, 16), 2) }

// amxTuning changes the speed of amx but not its results; see amx.h.
type amxTuning = C.ga_amx_tuning

type amxSetting = C.int

// tuneAMX sets the tuning of later launches and returns the previous one, for benchmarks and tests.
func tuneAMX(t amxTuning) amxTuning {
	before := C.ga_amx_tuned
	C.ga_amx_tuned = t
	return before
}
