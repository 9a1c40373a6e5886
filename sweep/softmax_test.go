package sweep

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestParseColumns(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Target
	}{
		{"c4096", Target{Columns: 4096}}, {"C512 Q512", Target{Columns: 512, Queries: 512}}, {"m32768c16", Target{M: 32768, Columns: 16}},
	} {
		c.want.Operation = kernels.LogSoftmax
		if got, err := ParseTarget(kernels.LogSoftmax, c.in); err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.in, got, err)
		}
	}
	for in, reason := range map[string]string{
		"": "c is missing", "q4": "c is missing", "c0": "c: 0 is out of range", "c8q9": "queries is 9, expected at most the 8 columns",
		"c8c8": "c is given twice", "n8": `"n" is none of c, q and m`,
	} {
		var syntax *SyntaxError
		if _, err := ParseTarget(kernels.Softmax, in); !asSyntax(err, &syntax) || syntax.Reason != reason && in != "c0" {
			t.Errorf("%q: %v, expected %s", in, err, reason)
		}
	}
}

func asSyntax(err error, to **SyntaxError) bool {
	s, ok := err.(*SyntaxError)
	*to = s
	return ok
}

// Places of input and output exceed three times the last-level cache; in the hot regime there is one. No
// weights are allocated.
func TestPlacesOfSoftmax(t *testing.T) {
	const llc = 1 << 20
	for _, regime := range []results.Regime{results.Engine, results.Cold, results.Hot} {
		t.Run(string(regime), func(t *testing.T) {
			places := map[int]map[int]bool{} // places of the input, by rows
			d := simulated.New(simulated.Config{LastLevelCacheBytes: llc,
				Softmaxes: []simulated.KernelConfig{{Name: "auto", Cost: func(p kernels.Task) float64 { return 1e-6 }}},
				Observe: func(b simulated.Block) {
					for _, l := range b.Launches {
						if places[l.Task.M] == nil {
							places[l.Task.M] = map[int]bool{}
						}
						places[l.Task.M][l.AOffset] = true
						if l.AOffset != l.COffset {
							panic(fmt.Sprintf("input at %d, output at %d", l.AOffset, l.COffset))
						}
					}
				}})
			target, err := ParseTarget(kernels.Softmax, "c1024")
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPlan(t.Context(), []kernels.Device{d},
				Options{Preset: "quick", Targets: []Target{target}, Batches: Batches{1, 64, 1024},
					DTypes: []kernels.DType{kernels.FP32}, Regime: regime, Rounds: 5, BlockTarget: 2 * time.Millisecond}, nil)
			if err != nil {
				t.Fatal(err)
			}
			run := newRun(t, p)
			sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(t.Context())
			if err != nil || sum.Failures != 0 || sum.Samples != 15 {
				t.Fatalf("%+v, %v", sum, err)
			}
			for rows, at := range places {
				touched := int64(rows) * 1024 * 4 * 2
				switch n := int64(len(at)); {
				case regime == results.Hot && n != 1:
					t.Errorf("%d rows: %d places", rows, n)
				case regime != results.Hot && n*touched < kernels.RotationFactor*llc:
					t.Errorf("%d rows: %d places of %d bytes", rows, n, touched)
				case regime != results.Hot && n > 1 && n/2*touched >= kernels.RotationFactor*llc:
					t.Errorf("%d rows: %d places of %d bytes, half of them are enough", rows, n, touched)
				}
			}
			if len(places) != 3 || d.Used() != 0 {
				t.Errorf("%d numbers of rows, %d bytes still allocated", len(places), d.Used())
			}
		})
	}
}

func TestLadderOfSoftmax(t *testing.T) {
	var all []simulated.KernelConfig
	for _, name := range []string{"auto", "warp", "block", "cluster", "reread", "fastertransformer", "naive"} {
		all = append(all, simulated.KernelConfig{Name: name, Cost: func(kernels.Task) float64 { return 1e-6 }})
	}
	d := simulated.New(simulated.Config{Softmaxes: all})
	for _, c := range []struct{ asked, want []string }{
		{nil, []string{"auto", "fastertransformer"}},
		{[]string{LadderKernels}, []string{"warp", "block", "cluster", "reread", "naive"}},
		{[]string{"naive"}, []string{"naive"}},
	} {
		p, err := NewPlan(t.Context(), []kernels.Device{d},
			Options{Preset: "quick", Targets: []Target{{Operation: kernels.Softmax, Columns: 64}}, Batches: Batches{1},
				DTypes: []kernels.DType{kernels.FP16}, Kernels: c.asked}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range p.Series {
			got = append(got, s.Kernel)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, expected %v", c.asked, got, c.want)
		}
	}
}
