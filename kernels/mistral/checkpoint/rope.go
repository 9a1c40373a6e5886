package checkpoint

import (
	"math"
	"strconv"
	"sync"
)

// RopeScaling is the "llama3" rescaling of rotary frequencies in config.json: Llama 3.1 and later use it to
// exceed the first training's context. With the wavelength w = 2π/frequency in tokens: a pair with w <
// Original/HighFreq keeps its frequency, with w > Original/LowFreq it is divided by Factor, and in between it
// is interpolated linearly in Original/w.
type RopeScaling struct {
	Factor            float64 // at least 1
	LowFreq, HighFreq float64 // 0 < LowFreq < HighFreq
	Original          int     // the first training's context in tokens
}

// Frequencies returns each pair's angle in radians per token: θ^(-2i/Dim) for pair i (Su et al. 2021,
// equation 15), rescaled by [RopeScaling] (apply_scaling of Meta's llama-models, _compute_llama3_parameters
// of transformers).
func (c Config) Frequencies() []float64 {
	frequencies := make([]float64, c.Heads.Dim/2)
	for i := range frequencies {
		frequencies[i] = c.Rope.rescale(math.Pow(c.RopeTheta, -2*float64(i)/float64(c.Heads.Dim)))
	}
	return frequencies
}

// RopeTable returns the cosine and sine of each pair's angle at each position, [positions, Dim/2, 2], nil for
// no positions. Values are computed in float64 and rounded once.
func (c Config) RopeTable(positions int) []float32 {
	half := c.Heads.Dim / 2
	if positions < 1 || half < 1 {
		return nil
	}
	frequencies := c.Frequencies()
	table := make([]float32, positions*half*2)
	const chunk = 1 << 10 // positions per goroutine at a time
	var group sync.WaitGroup
	for first := 0; first < positions; first += chunk {
		group.Go(func() {
			for p := first; p < min(first+chunk, positions); p++ {
				row := table[p*half*2:][:half*2]
				for i, f := range frequencies {
					sin, cos := math.Sincos(float64(p) * f)
					row[2*i], row[2*i+1] = float32(cos), float32(sin)
				}
			}
		})
	}
	group.Wait()
	return table
}

func (s *RopeScaling) rescale(f float64) float64 {
	if s == nil {
		return f
	}
	turns := float64(s.Original) * f / (2 * math.Pi) // Original ÷ wavelength
	switch {
	case turns > s.HighFreq:
		return f
	case turns < s.LowFreq:
		return f / s.Factor
	}
	smooth := (turns - s.LowFreq) / (s.HighFreq - s.LowFreq)
	return (1-smooth)*f/s.Factor + smooth*f
}

// readRope reads rotary embeddings: rope_parameters of transformers 5, or rope_theta with rope_scaling of
// earlier versions. If both are present they must agree.
func readRope(f *fields, c *Config, defaultTheta float64) {
	theta := f.positive("rope_theta", defaultTheta)
	found := ""
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		value, _ := f.take(name)
		if value == nil || f.err != nil {
			continue
		}
		in := readFields(f.path, name+".", value)
		t := in.positive("rope_theta", theta)
		scaling := readScaling(in, c.Context)
		if f.err = in.finish(); f.err != nil {
			return
		}
		if found != "" && (t != c.RopeTheta || !sameScaling(scaling, c.Rope)) {
			f.failf(name, brief(value), "%s says something else", found)
		}
		found, c.RopeTheta, c.Rope = name, t, scaling
	}
	if found == "" {
		c.RopeTheta = theta
	}
}

func readScaling(f *fields, context int) *RopeScaling {
	kind := "default"
	read(f, "type", "a name", &kind) // the field's name before rope_type
	read(f, "rope_type", "a name", &kind)
	switch {
	case f.err != nil || kind == "default":
		return nil
	case kind != "llama3":
		f.failf("rope_type", strconv.Quote(kind), "only default and llama3 are supported")
		return nil
	}
	s := &RopeScaling{
		Factor:   f.required("factor"),
		LowFreq:  f.required("low_freq_factor"),
		HighFreq: f.required("high_freq_factor"),
		Original: f.size("original_max_position_embeddings", context, maxContext),
	}
	switch {
	case f.err != nil:
	case s.Factor < 1:
		f.failf("factor", s.Factor, "expected at least 1")
	case s.HighFreq <= s.LowFreq:
		f.failf("high_freq_factor", s.HighFreq, "expected more than low_freq_factor, which is %v", s.LowFreq)
	}
	return s
}

func (f *fields) required(name string) float64 {
	x := f.positive(name, 0)
	if x == 0 {
		f.failf(name, "missing", "expected a number")
	}
	return x
}

func sameScaling(a, b *RopeScaling) bool {
	return a == b || a != nil && b != nil && *a == *b
}
