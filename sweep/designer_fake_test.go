package sweep

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// halver measures rows at fixed distances, then bisects between two whose times differ by more than their Ms.
type halver struct {
	every int
	calls *int
}

func (h halver) Seeds(s PlannedSeries, _ results.Choices) (Batches, error) {
	var out Batches
	for i := 0; i < len(s.Ms); i += h.every {
		out = append(out, s.Ms[i])
	}
	if last := s.Ms[len(s.Ms)-1]; out[len(out)-1] != last {
		out = append(out, last)
	}
	return out, nil
}

func (h halver) More(series []PlannedSeries, _ map[results.SeriesKey]results.Choices, cases []results.Case,
	samples []results.Sample) ([]results.Case, int, error) {
	if h.calls != nil {
		*h.calls++
	}
	us := map[int64][]float64{}
	for _, s := range samples {
		us[s.CaseID] = append(us[s.CaseID], s.US)
	}
	var more []results.Case
	inferred := 0
	for _, s := range series {
		var mine []results.Case
		for _, c := range cases {
			if c.SeriesKey == s.SeriesKey {
				mine = append(mine, c)
			}
		}
		slices.SortFunc(mine, func(a, b results.Case) int { return a.M - b.M })
		for i := 1; i < len(mine); i++ {
			a, b := mine[i-1], mine[i]
			between := b.M - a.M - 1
			if len(us[a.ID]) == 0 || len(us[b.ID]) == 0 || between == 0 {
				continue
			}
			if r := stats.Median(us[b.ID]) / stats.Median(us[a.ID]) * float64(a.M) / float64(b.M); math.Abs(r-1) > 0.2 {
				more = append(more, s.Case(a.M+(b.M-a.M)/2))
			} else {
				inferred += between
			}
		}
	}
	return more, inferred, nil
}

// stepped has a kernel that takes twice as long per row from m100 to m150.
func stepped() *simulated.Device {
	return declared(func(c *simulated.Config) {
		c.ClockMHz = 0
		c.Gemms = c.Gemms[:1]
		c.Gemms[0].Cost = simulated.Slow(simulated.Linear(1e10, 0), 100, 150, 2)
	})
}

// Seven screening rounds of fifteen, one inferred series.
func inferring(d kernels.Device) (*Plan, error) {
	yes := true
	return hurriedPlan(d, "8:400",
		Options{Targets: []Target{{N: 64, K: 64}}, Screening: 7, BlockTarget: 200 * time.Microsecond, Infer: &yes})
}

// designedAsAsked checks that a run holds exactly the rows that its designer requests, given the samples
// before each look.
func designedAsAsked(t *testing.T, p *Plan, run *results.Run, d Designer) map[int][]results.Sample {
	t.Helper()
	cases, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	samples, err := run.Samples(results.PhaseSweep)
	if err != nil {
		t.Fatal(err)
	}
	byCase, m := map[int64][]results.Sample{}, map[int64]int{}
	for _, c := range cases {
		m[c.ID] = c.M
	}
	for _, s := range samples {
		byCase[s.CaseID] = append(byCase[s.CaseID], s)
	}
	first := func(id int64) int {
		return slices.MinFunc(byCase[id], func(a, b results.Sample) int { return a.Round - b.Round }).Round
	}
	seeds, err := p.Seeds(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]int{}
	for _, m := range seeds[p.Series[0].SeriesKey] {
		want[m] = 0
	}
	looks := []int{math.MaxInt}
	for _, c := range cases {
		if n := first(c.ID); n > 0 {
			looks = append(looks, n)
		}
	}
	slices.Sort(looks)
	for _, round := range slices.Compact(looks) {
		var earlier []results.Sample
		var known []results.Case
		for _, c := range cases {
			if first(c.ID) < round {
				known = append(known, c)
			}
		}
		for _, s := range samples {
			if s.Round < round {
				earlier = append(earlier, s)
			}
		}
		more, _, err := d.More(p.inferred(), nil, known, earlier)
		if err != nil {
			t.Fatal(err)
		}
		if round == math.MaxInt && len(more) > 0 {
			t.Errorf("%v were asked for at last", more)
			continue
		}
		for _, c := range more {
			want[c.M] = round
		}
	}
	out := map[int][]results.Sample{}
	for id, of := range byCase {
		out[m[id]] = of
		from, ok := want[m[id]]
		if !ok {
			t.Errorf("m%d was measured and not asked for", m[id])
			continue
		}
		rounds := map[int]int{}
		for _, s := range of {
			rounds[s.Round]++
		}
		for n := range p.Screening {
			if rounds[from+n] != 1 {
				t.Errorf("m%d has %d samples of round %d, its first is %d", m[id], rounds[from+n], from+n, from)
			}
		}
	}
	for m := range want {
		if len(out[m]) == 0 {
			t.Errorf("m%d was asked for and not measured", m)
		}
	}
	return out
}
