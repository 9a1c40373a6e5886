package advice

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func bumpy(best int, se float64) Part {
	part := Part{Names: []string{"products"}, Count: 1}
	for m := 64; m <= 2048; m += 64 {
		us := float64(m)
		if m == best {
			us *= 0.8
		}
		part.Times = append(part.Times, Time{M: m, Seconds: us, SE: se, DF: 20, Scatter: infer.OwnScatter})
	}
	return part
}

// No size of any setting exceeds the chunk and the flags.
func TestLimits(t *testing.T) {
	number := regexp.MustCompile(`\d+`)
	for _, c := range []struct {
		name              string
		best              int
		tokens, sequences int
		traffic           results.Traffic
		chunk, decoding   int // the chunk, and the maximum size in sequences
	}{
		{"the chunk", 640, 0, 0, nil, 640, 640},
		{"a chunk that is bounded", 1536, 1024, 0, nil, 0, 1024},
		{"sequences", 640, 0, 256, nil, 640, 256},
		{"more sequences than tokens", 640, 0, 4096, nil, 640, 640},
		{"fewer sequences than the smallest size", 640, 0, 8, nil, 640, 64},
		{"a traffic above the chunk", 640, 0, 128, results.Traffic{{M: 1024, Weight: 1}, {M: 2048, Weight: 1}}, 640, 128},
		{"tokens below all sizes", 640, 8, 0, nil, 64, 64},
	} {
		a, err := Advise(Subject{Model: "m"}, []Part{bumpy(c.best, 0.001)}, nil, nil,
			Options{Sizes: 16, MinGain: 0.02, FDR: 0.05, Engines: Engines(), Traffic: c.traffic, MaxTokens: c.tokens,
				MaxSequences: c.sequences})
		if err != nil {
			t.Fatal(err)
		}
		if c.chunk > 0 && a.Chunk.M != c.chunk || c.tokens >= 64 && a.Chunk.M > c.tokens {
			t.Errorf("%s: chunk m%d", c.name, a.Chunk.M)
		}
		for _, s := range a.Settings {
			if s.Advice != "capture" {
				continue
			}
			most := a.Chunk.M
			if s.Engine != "vllm" {
				most = min(most, c.decoding)
			}
			for _, text := range number.FindAllString(s.Text, -1) {
				if m, _ := strconv.Atoi(text); m > most {
					t.Errorf("%s: %s captures %d, above %d: %s", c.name, s.Engine, m, most, s.Text)
				}
			}
			if named := strings.Contains(s.Note, "--max-sequences"); named != (c.sequences == 0) {
				t.Errorf("%s: %s: note %q", c.name, s.Engine, s.Note)
			}
		}
		if len(a.Sizes.Captured) == 0 {
			t.Errorf("%s: nothing to capture", c.name)
		}
	}
}

// Noise picks no odd sizes, real steps are kept, and losses are within the limit.
func TestSimplerSizes(t *testing.T) {
	var ms []int
	for m := 2; m <= 512; m += 2 {
		ms = append(ms, m)
	}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		flat, steps := make([]float64, len(ms)), make([]float64, len(ms))
		for i, m := range ms {
			flat[i] = math.Exp(0.01 * random.NormFloat64()) // equally long at every M
			steps[i] = math.Ceil(float64(m)/96) * math.Exp(0.001*random.NormFloat64())
		}
		load, err := NewLoad(nil, ms[0], 512)
		if err != nil {
			t.Fatal(err)
		}
		if s := known(ms, flat, 0.01).AdviseSizes(load, 16, 0, 0.02, random.NormFloat64); len(s.Captured) > 2 {
			t.Errorf("seed %d: times that are flat give %v", seed, s.Captured)
		}
		p := known(ms, steps, 0.001)
		s := p.AdviseSizes(load, 16, 0, 0.02, random.NormFloat64)
		for _, edge := range []int{96, 192, 288, 384} {
			if !slices.Contains(s.Captured, edge) {
				t.Errorf("seed %d: the step at %d is not among %v", seed, edge, s.Captured)
			}
		}
		best := capture(ms, steps, load, 16)
		all := []span{{0, 512}}
		if lost := s.Expected.Mid / sum(padded(ms, best, load, all), steps); lost > 1.02 {
			t.Errorf("seed %d: %v takes %g times the least", seed, s.Captured, lost)
		}
	}
}
