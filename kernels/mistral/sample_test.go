package mistral

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestLikeliest(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{2, 3, 3}, 1},
		{[]float32{nan, 1, nan, 2}, 3},
		{[]float32{nan, nan}, 0},
		{[]float32{-inf, -5}, 1},
		{[]float32{nan, -inf}, 1},
	} {
		if got := Likeliest(c.logits); got != c.want {
			t.Errorf("%v: %d, expected %d", c.logits, got, c.want)
		}
	}
}

func TestDraw(t *testing.T) {
	p := []float64{0.5, 0.25, 0.125, 0.0625, 0.0625}
	logits := make([]float32, len(p))
	for i := range p {
		logits[i] = float32(math.Log(p[i]) + 7)
	}
	for _, c := range []struct {
		name string
		s    Sampling
		want []float64
	}{
		{"greedy", Sampling{}, []float64{1, 0, 0, 0, 0}},
		{"as it is", Sampling{Temperature: 1}, p},
		{"top-p 1", Sampling{Temperature: 1, TopP: 1}, p},
		{"top-p", Sampling{Temperature: 1, TopP: 0.7}, []float64{2. / 3, 1. / 3, 0, 0, 0}},
		{"top-p of one token", Sampling{Temperature: 1, TopP: 0.3}, []float64{1, 0, 0, 0, 0}},
		{"min-p", Sampling{Temperature: 1, MinP: 0.2}, []float64{4. / 7, 2. / 7, 1. / 7, 0, 0}},
		{"cold", Sampling{Temperature: 0.5}, []float64{0.7442, 0.1860, 0.0465, 0.0116, 0.0116}},
		{"cold and top-p", Sampling{Temperature: 0.5, TopP: 0.9}, []float64{0.8, 0.2, 0, 0, 0}},
		{"very cold", Sampling{Temperature: 1e-9}, []float64{1, 0, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const draws = 40000
			counts := make([]float64, len(p))
			s := NewSampler(c.s)
			for range draws {
				counts[s.Draw(logits)]++
			}
			for i, n := range counts {
				if c.want[i] == 0 && n > 0 || math.Abs(n/draws-c.want[i]) > 0.012 {
					t.Errorf("token %d: drawn %.4f of the time, expected %.4f", i, n/draws, c.want[i])
				}
			}
		})
	}
}

func TestDrawOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32(), 1, 50).Draw(t, "logits")
		s := Sampling{
			Temperature: rapid.Float64Range(0, 3).Draw(t, "temperature"), TopP: rapid.Float64Range(0, 1).Draw(t, "top-p"),
			MinP: rapid.Float64Range(0, 1).Draw(t, "min-p"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		a, b := NewSampler(s), NewSampler(s)
		for range 5 {
			x, y := a.Draw(logits), b.Draw(logits)
			if x != y || x < 0 || int(x) >= len(logits) {
				t.Fatalf("drew %d and %d of %d", x, y, len(logits))
			}
		}
	})
}

func TestSamplingValidate(t *testing.T) {
	for _, s := range []Sampling{
		{Temperature: -1}, {Temperature: math.NaN()}, {Temperature: math.Inf(1)}, {TopP: -0.1}, {TopP: 1.1}, {TopP: math.NaN()}, {MinP: 2},
		{MinP: -1},
	} {
		if s.Validate() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
	if err := (Sampling{Temperature: 0.7, TopP: 0.9, MinP: 0.05}).Validate(); err != nil {
		t.Error(err)
	}
}
