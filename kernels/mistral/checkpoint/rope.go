package checkpoint

import (
	"math"
	"strconv"
	"sync"
)

// RopeScaling is the rescaling of rotary frequencies by which Llama 3.1 and later
// reach beyond the context that they were trained on first, "llama3" in config.json.
// With w the wavelength 2π/frequency of a pair in tokens: w < Original/HighFreq keeps
// its frequency, w > Original/LowFreq has it divided by Factor, and between the two the
// frequency is interpolated, linearly in Original/w.
type RopeScaling struct {
	Factor            float64 // at least 1
	LowFreq, HighFreq float64 // 0 < LowFreq < HighFreq
	Original          int     // the context of the first training, in tokens
}

// Frequencies returns the angle of each pair of a head in radians a token: of pair i
// θ^(-2i/Dim) (Su et al. 2021, equation 15), rescaled as [RopeScaling] says (Meta's
// apply_scaling of llama-models, transformers' _compute_llama3_parameters).
func (c Config) Frequencies() []float64 {
	frequencies := make([]float64, c.Heads.Dim/2)
	for i := range frequencies {
		frequencies[i] = c.Rope.rescale(math.Pow(c.RopeTheta, -2*float64(i)/float64(c.Heads.Dim)))
	}
	return frequencies
}

// RopeTable returns the cosine and sine of each pair's angle at each position, as
// [positions, Dim/2, 2], nil for no positions. Computed in float64 and rounded once.
func (c Config) RopeTable(positions int) []float32 {
	half := c.Heads.Dim / 2
	if positions < 1 || half < 1 {
		return nil
	}
	frequencies := c.Frequencies()
	table := make([]float32, positions*half*2)
	const chunk = 1 << 10 // positions a goroutine takes at a time
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

// rescale returns the frequency to use in place of f, in radians a token.
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

// readRope reads rotary embeddings as transformers 5 writes them, rope_parameters, and
// as earlier versions did, rope_theta with rope_scaling. Where both are there, they must
// say the same.
func readRope(f *fields, c *Config) {
	const defaultTheta = 10000
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
	read(f, "type", "a name", &kind) // the name of the field before rope_type
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

// required reads a number above 0 that has no default.
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
