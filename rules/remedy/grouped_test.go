package remedy

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func groupedKey(kernel string, d kernels.Dims) results.SeriesKey {
	k := synthetic.Keyed(kernel, kernels.BF16)
	d.N, d.K, d.Groups = 1024, 512, 8
	k.Subject = kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.BF16, Dims: d, Layout: kernels.Transposed}
	return k
}

// Rows of further tokens fill up even and drawn routing, but not a recorded one, whose other M may have fewer rows of an expert.
func TestPadsByRouting(t *testing.T) {
	ms := synthetic.Grid(32, 1024, 32)
	table := kernels.RecordedRouting{Groups: 8, Rows: map[int][]int{}}
	for _, m := range ms {
		table.Rows[m] = []int{m - 7, 1, 1, 1, 1, 1, 1, 1}
	}
	hash, err := table.Register()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dims kernels.Dims
		pads bool
	}{{kernels.Dims{}, true}, {kernels.Dims{TopK: 2, Skew: 100, Draw: 1}, true}, {kernels.Dims{Routing: hash}, false}} {
		data, w := synthetic.Joined([]results.SeriesKey{groupedKey("loop", c.dims)}, func(c results.Case) float64 {
			m := max(c.M, c.PadTo)
			us := 50 + float64(m)
			if m%128 != 0 {
				us *= 2
			}
			return us
		}, ms, 4)
		r, err := Find(t.Context(), data, rules.Default().Only(rules.Monotonic), Options{Among: AmongAll}, w)
		if err != nil {
			t.Fatal(err)
		}
		padded := 0
		for _, s := range r.Stretches {
			if s.Kind != rules.RemedyPad {
				continue
			}
			padded += len(s.Ms)
			if s.PadTo%128 != 0 {
				t.Errorf("%+v: M %v padded to %d", c.dims, s.Ms, s.PadTo)
			}
		}
		if (padded > 0) != c.pads {
			t.Errorf("%+v: %d sizes are padded", c.dims, padded)
		}
	}
}

// Two kernels of grouped products cross, each routing at another M: the other kernel is the remedy from there on.
func TestAnotherKernelByRouting(t *testing.T) {
	key := groupedKey
	even, drawn := kernels.Dims{}, kernels.Dims{TopK: 2, Skew: 100, Draw: 1}
	ms := synthetic.Grid(32, 1024, 32)
	crossing := map[bool]int{true: 512, false: 256} // of even routing, and of drawn
	keys := []results.SeriesKey{key("loop", even), key("loop", drawn), key("persistent", even), key("persistent", drawn)}
	data, w := synthetic.Joined(keys,
		func(c results.Case) float64 {
			us := 50 + float64(c.M)
			if (c.Kernel == "loop") != (c.M < crossing[c.Even()]) {
				us *= 1.4
			}
			return us
		}, ms, 4)
	r, err := Find(t.Context(), data, rules.Default().Only(rules.Alternative), Options{Among: AmongAll}, w)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		kernel string
		even   bool
		m      int
	}
	got := map[row]string{}
	for _, s := range r.Stretches {
		if s.Kind != rules.AsIs && s.Kind != rules.RemedyOther {
			t.Errorf("%v has remedy %s", s.Series, s.Kind)
		}
		for _, m := range s.Ms {
			if s.Kind == rules.RemedyOther {
				got[row{s.Series.Kernel, s.Series.Even(), m}] = s.Kernel
			}
		}
	}
	other := map[string]string{"loop": "persistent", "persistent": "loop"}
	for kernel := range other {
		for even, from := range crossing {
			for _, m := range ms {
				want := ""
				if (kernel == "loop") == (m >= from) {
					want = other[kernel]
				}
				if of := got[row{kernel, even, m}]; of != want {
					t.Errorf("%s, even %v, M %d: remedy %q, expected %q", kernel, even, m, of, want)
				}
			}
		}
	}
}
