package kernels

import (
	"math"
	"testing"
)

func TestEpilogues(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Epilogues() {
		again, err := ParseEpilogue(e.String())
		if err != nil || again != e || seen[e.String()] {
			t.Errorf("%d is %v, read as %d: %v", int(e), e, int(again), err)
		}
		seen[e.String()] = true
		if s := (Subject{Operation: FusedGEMM, DType: FP32, Dims: Dims{N: 2, K: 3, Epilogue: e}}); s.Validate() != nil {
			t.Errorf("%v: %v", s, s.Validate())
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d epilogues: %v", len(seen), seen)
	}
	for _, bad := range []string{"", "gelu+bias", "bias+", "tanh", "bias+bias"} {
		if e, err := ParseEpilogue(bad); err == nil {
			t.Errorf("%q is %v", bad, e)
		}
	}
	for _, bad := range []Epilogue{0, -1, 10} {
		if (Subject{Operation: FusedGEMM, DType: FP32, Dims: Dims{N: 2, K: 3, Epilogue: bad}}).Validate() == nil {
			t.Errorf("epilogue %d is accepted", int(bad))
		}
	}
	if (Subject{DType: FP32, Dims: Dims{N: 2, K: 3, Epilogue: Bias}}).Validate() == nil {
		t.Error("a plain product has an epilogue")
	}
}

// Values of Φ, tanh and e^x to 16 digits.
func TestEpilogueValues(t *testing.T) {
	for _, c := range []struct {
		e         Epilogue
		sum, bias float64
		want      float64
	}{
		{Bias, 1, 2, 3},
		{ReLU, -1, 9, 0},
		{Bias + ReLU, -1, 9, 8},
		{GELU, 1, 0, 0.8413447460685429},
		{GELU, -10, 0, -7.619853024160527e-23},
		{TanhGELU, 1, 0, 0.8411919906082768},
		{SiLU, -1, 0, -0.2689414213699951},
		{Bias + SiLU, -2, 1, -0.2689414213699951},
	} {
		if got := c.e.Of(c.sum, c.bias); math.Abs(got-c.want) > 1e-12*math.Abs(c.want) {
			t.Errorf("%v of %g and %g is %.17g, expected %.17g", c.e, c.sum, c.bias, got, c.want)
		}
	}
}

// slope bounds the derivative, and in fp32 the reference tells the two kinds of GELU apart.
func TestFusedReference(t *testing.T) {
	for _, a := range activations {
		for x := -8.0; x < 8; x += 1e-3 {
			if d := math.Abs(a.of(x+1e-6)-a.of(x)) / 1e-6; d > a.slope+1e-6 {
				t.Fatalf("%s has the derivative %g at %g, slope is %g", a.name, d, x, a.slope)
			}
		}
	}
	other := Fault{Name: "another GELU", Compute: func(t Task, in, stored []float64) []float64 {
		out, _ := fusedProducts(t, in, stored, (t.Epilogue - GELU + TanhGELU).Of, func(n int) int { return n })
		return out
	}}
	shown := 0
	for _, task := range fusedCases(FP32) {
		if task.Operation = FusedGEMM; task.Epilogue.Activation() != GELU {
			continue
		}
		task, err := task.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		of, err := drawCase(task, 1)
		if err != nil {
			t.Fatal(err)
		}
		if of.shows(task, other) {
			shown++
		}
	}
	if shown == 0 {
		t.Error("no case in fp32 tells gelu from gelu-tanh")
	}
}
