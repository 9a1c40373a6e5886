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
	if len(seen) != 13 {
		t.Errorf("%d epilogues: %v", len(seen), seen)
	}
	for _, bad := range []string{"", "gelu+bias", "bias+", "tanh", "bias+bias", "gated+residual"} {
		if e, err := ParseEpilogue(bad); err == nil {
			t.Errorf("%q is %v", bad, e)
		}
	}
	for _, bad := range []Epilogue{0, -1, 14} {
		if (Subject{Operation: FusedGEMM, DType: FP32, Dims: Dims{N: 2, K: 3, Epilogue: bad}}).Validate() == nil {
			t.Errorf("epilogue %d is accepted", int(bad))
		}
	}
	if (Subject{DType: FP32, Dims: Dims{N: 2, K: 3, Epilogue: Bias}}).Validate() == nil {
		t.Error("a plain product has an epilogue")
	}
	if (Subject{Operation: FusedGEMM, DType: FP32, Dims: Dims{N: 3, K: 3, Epilogue: Gated}}).Validate() == nil {
		t.Error("3 columns are halved")
	}
	along := Subject{Operation: FusedGEMM, DType: FP32, Dims: Dims{K: 3, Epilogue: Gated}, Along: Along{Dimension: "n", M: 5}}
	if err := along.Validate(); err != nil {
		t.Errorf("%v: %v", along, err)
	}
}

// Values of Φ, tanh and e^x to 16 digits.
func TestEpilogueValues(t *testing.T) {
	for _, c := range []struct {
		e          Epilogue
		sum, other float64
		want       float64
	}{
		{Bias, 3, 7, 3},
		{ReLU, -1, 9, 0},
		{Bias + ReLU, 8, 9, 8},
		{GELU, 1, 0, 0.8413447460685429},
		{GELU, -10, 0, -7.619853024160527e-23},
		{TanhGELU, 1, 0, 0.8411919906082768},
		{SiLU, -1, 0, -0.2689414213699951},
		{Gated, -1, -3, 3 * 0.2689414213699951},
		{Bias + Residual, -2, 5, 3},
	} {
		if got := c.e.Of(c.sum, c.other); math.Abs(got-c.want) > 1e-12*math.Abs(c.want) {
			t.Errorf("%v of %g and %g is %.17g, expected %.17g", c.e, c.sum, c.other, got, c.want)
		}
	}
}

// slope bounds the derivative, and in fp32 the reference tells the two kinds of GELU apart.
func TestFusedReference(t *testing.T) {
	for _, a := range steps {
		for x := -8.0; x < 8; x += 1e-3 {
			if d := math.Abs(a.of(x+1e-6)-a.of(x)) / 1e-6; d > a.slope+1e-6 {
				t.Fatalf("%s has the derivative %g at %g, slope is %g", a.name, d, x, a.slope)
			}
		}
	}
	other := Fault{Name: "another GELU", Compute: epilogueFault(func(_ Task, w *fusedWay) {
		w.of = func(sum, bias, _ float64) float64 { return TanhGELU.Of(sum+bias, 0) }
	})}
	shown := 0
	for _, task := range fusedCases(FP32) {
		if task.Operation = FusedGEMM; task.Epilogue.Step() != GELU {
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

func TestFusedSizes(t *testing.T) {
	for _, c := range []struct {
		e                      Epilogue
		flops, bytes, residual float64
		in, stored, out        int64
	}{
		{Bias, 1200, 2 * (50 + 120 + 12 + 60), 0, 50, 264, 60},
		{Gated, 1200, 2 * (50 + 120 + 30), 0, 50, 240, 30},
		{Bias + Gated, 1200, 2 * (50 + 120 + 12 + 30), 0, 50, 264, 30},
		{Residual, 1200, 2 * (50 + 60 + 120 + 60), 60, 56 + 60, 240, 60}, // behind A, at a multiple of 16 bytes
	} {
		s := Subject{Operation: FusedGEMM, DType: BF16, Dims: Dims{N: 12, K: 10, Epilogue: c.e}}
		if got := s.FLOPs(5); got != c.flops {
			t.Errorf("%v: %g FLOPs, expected %g", s, got, c.flops)
		}
		if got := s.Bytes(5); got != c.bytes {
			t.Errorf("%v: %g bytes, expected %g", s, got, c.bytes)
		}
		if got := float64(s.ResidualElements(5)); got != c.residual || s.InputBytes(5) != 2*(50+int64(c.residual)) {
			t.Errorf("%v: a residual of %g, expected %g", s, got, c.residual)
		}
		task, err := Task{Subject: s, M: 5}.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		if in, stored, out := task.Extents(); in != c.in || stored != c.stored || out != c.out {
			t.Errorf("%v: extents %d, %d, %d, expected %d, %d, %d", s, in, stored, out, c.in, c.stored, c.out)
		}
	}
	for _, bad := range []Task{
		{Subject: Subject{Operation: FusedGEMM, DType: BF16, Dims: Dims{N: 12, K: 10, Epilogue: Residual}}, M: 5, ResidualAt: 49},
		{Subject: Subject{Operation: FusedGEMM, DType: BF16, Dims: Dims{N: 12, K: 10, Epilogue: Bias}}, M: 5, ResidualAt: 50},
	} {
		if n, err := bad.Normalized(); err == nil {
			t.Errorf("%v: accepted with a residual at %d", bad, n.ResidualAt)
		}
	}
}
