package cpu

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestFusedGate(t *testing.T) {
	dev := open(t, 2)
	for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		ks := dev.Kernels(kernels.FusedGEMM)
		found, errs := kernels.FusedGEMM.Definition().Gate(t.Context(), dev, ks, d, 1)
		for i, k := range ks {
			if errs[i] != nil {
				t.Errorf("%s: %v", k.Name(), errs[i])
			}
			if found[i].Passed == 0 && k.(*fused).of.Supports(kernels.Task{Subject: kernels.Product(d, 8, 8), M: 1}) == nil {
				t.Errorf("%s %s: no fused product passed: %v", k.Name(), d, found[i].Skipped)
			}
			t.Logf("%s %s: %d passed, %.2f of the bound", k.Name(), d, found[i].Passed, found[i].Margin)
		}
	}
}

// faulty is a kernel of fused products whose bias is changed.
type faulty struct {
	*fused
	change func(bias []float32)
}

func (k *faulty) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	w, err := k.fused.Prepare(t, raw)
	if err == nil && t.Epilogue.HasBias() {
		k.change(unsafe.Slice((*float32)(unsafe.Add(w.(*fusedWeights).epilogue.data, biasStart)), t.N))
	}
	return w, err
}

// unfinished leaves out the epilogue.
type unfinished struct{ *fused }

func (k unfinished) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	_, product, err := t.Fused(k.Name())
	if err != nil {
		return nil, err
	}
	return k.of.Bind(product, a, w.(*fusedWeights).Of[0], c)
}

// misplaced reads the residual elsewhere.
type misplaced struct {
	*fused
	by int
}

func (k misplaced) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	t, err := t.Normalized()
	if err == nil && t.Epilogue.HasResidual() {
		t.ResidualAt += k.by
	}
	if err != nil {
		return nil, err
	}
	return k.fused.Bind(t, a, w, c)
}

// swapped stores the weights of gates behind those that they multiply.
type swapped struct{ *fused }

func (k swapped) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if t.Epilogue.IsGated() {
		content := raw.(*Buffer).Content()
		turned, err := k.dev.alloc(raw.Bytes())
		if err != nil {
			return nil, err
		}
		half := t.N / 2 * t.K * t.DType.Size()
		copy(turned.Content(), content)
		copy(turned.Content(), content[half:2*half])
		copy(turned.Content()[half:], content[:half])
		raw = turned
	}
	return k.fused.Prepare(t, raw)
}

func TestFusedGateRejects(t *testing.T) {
	dev := open(t, 2)
	k := &fused{dev: dev, of: dev.gemm("naive")}
	for name, wrong := range map[string]kernels.Kernel{
		"no epilogue":     unfinished{k},
		"swapped gates":   swapped{k},
		"other residuals": misplaced{k, 1},
		"swapped bias": &faulty{k, func(bias []float32) {
			bias[0], bias[len(bias)-1] = bias[len(bias)-1], bias[0]
		}},
		"no bias": &faulty{k, func(bias []float32) { clear(bias) }},
	} {
		for _, d := range []kernels.DType{kernels.FP32, kernels.BF16} {
			_, errs := kernels.FusedGEMM.Definition().Gate(t.Context(), dev, []kernels.Kernel{wrong}, d, 1)
			var result kernels.WrongResult
			if !errors.As(errs[0], &result) {
				t.Errorf("%s %s: %v, expected a wrong result", d, name, errs[0])
			}
		}
	}
}
