package remedy

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestCovered(t *testing.T) {
	for _, c := range []struct {
		s         Stretch
		covered   []rules.Range
		intervals [][3]int // from, to, step
	}{
		{Stretch{Ms: []int{1, 2, 4, 8, 12, 16}}, []rules.Range{{FromM: 1, ToM: 16}}, [][3]int{{1, 2, 0}, {3, 4, 2}, {5, 16, 4}}},
		{Stretch{Ms: []int{1, 5, 6, 7, 15}}, []rules.Range{{FromM: 1, ToM: 15}}, [][3]int{{1, 5, 4}, {6, 7, 0}, {8, 15, 8}}},
		{Stretch{Ms: []int{8, 16, 32, 64}}, []rules.Range{{FromM: 8, ToM: 16}, {FromM: 32, ToM: 32}, {FromM: 64, ToM: 64}},
			[][3]int{{8, 16, 8}, {32, 32, 0}, {64, 64, 0}}},
		{Stretch{Ms: []int{8, 16, 17, 18}, OnlySwept: true}, []rules.Range{{FromM: 8, ToM: 8}, {FromM: 16, ToM: 16}, {FromM: 17,
			ToM: 18}}, nil},
		{Stretch{Ms: []int{8, 16, 512}, Filled: true}, []rules.Range{{FromM: 8, ToM: 512}}, [][3]int{{8, 512, 0}}},
		{Stretch{Ms: []int{7}}, []rules.Range{{FromM: 7, ToM: 7}}, [][3]int{{7, 7, 0}}},
	} {
		c.s.Kind, c.s.PadTo, c.s.FromM, c.s.ToM = rules.RemedyPad, 1024, c.s.Ms[0], c.s.Ms[len(c.s.Ms)-1]
		var got [][3]int
		for _, iv := range intervalsOf(c.s) {
			got = append(got, [3]int{iv.From, iv.To, iv.Step})
		}
		if c.intervals != nil && !slices.Equal(got, c.intervals) {
			t.Errorf("%v: intervals %v, expected %v", c.s.Ms, got, c.intervals)
		}
		if covered := c.s.Covered(); !c.s.OnlySwept && !slices.Equal(covered, c.covered) {
			t.Errorf("%v: covered %v, expected %v", c.s.Ms, covered, c.covered)
		}
	}
}

// On any grid, a table acts exactly on the Ms that a stretch covers, which include the measured ones and the
// first M of an interval.
func TestTablesServeWhatIsCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.SliceOfNDistinct(rapid.IntRange(1, 90), 1, 20, rapid.ID).Draw(t, "ms")
		slices.Sort(ms)
		key := results.SeriesKey{Device: "sim", Kernel: "dented", Subject: kernels.Product(kernels.BF16, 64, 64), Regime: results.Engine}
		s := Stretch{Series: key, Kind: rules.RemedyPad, PadTo: 128, FromM: ms[0], ToM: ms[len(ms)-1], Ms: ms,
			Filled: rapid.Bool().Draw(t, "filled")}
		s.OnlySwept = !s.Filled && rapid.Bool().Draw(t, "only swept")
		tab, err := BuildTable(results.Meta{},
			&Result{Searched: []results.SeriesKey{key}, Ranges: []rules.Range{{FromM: ms[0], ToM: 100}}, Stretches: []Stretch{s}})
		if err != nil {
			t.Fatal(err)
		}
		for _, iv := range tab.Series[0].Intervals {
			if !iv.Filled && !slices.Contains(ms, iv.FirstMeasured()) {
				t.Fatalf("%v: the first measured M of %+v is m%d", ms, iv, iv.FirstMeasured())
			}
		}
		for m := 1; m <= 100; m++ {
			covered := slices.ContainsFunc(s.Covered(), func(r rules.Range) bool { return r.FromM <= m && m <= r.ToM })
			if acts := tab.Lookup(tab.Series[0].Product, m).Kind == table.Pad; acts != covered {
				t.Fatalf("%v: m%d is covered: %v, the table acts: %v", ms, m, covered, acts)
			}
			if slices.Contains(ms, m) && !covered {
				t.Fatalf("%v: m%d is not covered", ms, m)
			}
		}
	})
}

// If rows of a stretch pay in different ways, the list, the stretch and the table must agree on each row.
func TestPadsOfBothKinds(t *testing.T) {
	for _, c := range []struct {
		name   string
		cheap  func(m int) bool
		copied []rules.Range
		placed []rules.Range
	}{
		{"first", func(m int) bool { return m == 264 }, []rules.Range{{FromM: 264, ToM: 264}}, []rules.Range{{FromM: 272, ToM: 320}}},
		{"last", func(m int) bool { return m == 320 }, []rules.Range{{FromM: 320, ToM: 320}}, []rules.Range{{FromM: 264, ToM: 312}}},
		{"all", func(int) bool { return true }, []rules.Range{{FromM: 264, ToM: 320}}, nil},
		{"none", func(int) bool { return false }, nil, []rules.Range{{FromM: 264, ToM: 320}}},
	} {
		m := dented(0)
		bare := m.Time
		m.Time = func(at results.Case) float64 {
			us := bare(at)
			if at.Copied && !c.cheap(at.M) {
				us += 500
			}
			return us
		}
		r := searchAll(t, m, m.Sweep(synthetic.Grid(8, 512, 8), 9), Options{Kinds: []rules.RemedyKind{rules.RemedyPad}, Pads: PadsBoth})
		ways := map[table.PadKind][]rules.Range{}
		for _, s := range r.Stretches {
			ways[s.Pad] = append(ways[s.Pad], rules.Range{FromM: s.FromM, ToM: s.ToM})
			if len(s.Proofs) == 0 || s.Ms[0] != s.FromM || s.Ms[len(s.Ms)-1] != s.ToM {
				t.Errorf("%s: %+v", c.name, s)
			}
		}
		if !slices.Equal(ways[table.Copied], c.copied) || !slices.Equal(ways[table.InPlace], c.placed) {
			t.Errorf("%s: stretches %v, expected copied %v and in place %v", c.name, ways, c.copied, c.placed)
		}
		tab, err := BuildTable(results.Meta{}, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range r.Splits {
			if a := tab.Lookup(tab.Series[0].Product, row.M); a.Pad != row.Pad || a.PadTo != row.PadTo {
				t.Errorf("%s: m%d is listed as %s, the table has %s", c.name, row.M, row.Pad, a.Pad)
			}
		}
		for _, iv := range tab.Series[0].Intervals {
			for _, p := range iv.Proofs {
				at := slices.IndexFunc(r.Splits, func(row Row) bool { return row.M == p.M })
				if at < 0 || r.Splits[at].Pad != iv.Action.Pad || r.Splits[at].Gain.Mid != p.GainMid {
					t.Errorf("%s: the table's proof at m%d is not what is listed", c.name, p.M)
				}
			}
		}
	}
}

func TestAdjustedP(t *testing.T) {
	m := dented(38)
	r := searchAll(t, m, m.Sweep(synthetic.Grid(8, 512, 8), 9),
		Options{Kinds: []rules.RemedyKind{rules.RemedyPad}, Pads: PadsCopied, Candidates: CandidatesAll})
	if len(r.Splits)+len(r.Rejected) == 0 {
		t.Fatal("nothing was executed")
	}
	for _, row := range slices.Concat(r.Splits, r.Rejected) {
		if fdr := rules.Default().FDR; !(row.AdjustedP > 0 && row.AdjustedP <= 1) || row.Pays && row.AdjustedP > fdr {
			t.Errorf("m%d pays: %v, with the adjusted p-value %v", row.M, row.Pays, row.AdjustedP)
		}
	}
}

func TestLeftOutRowsAreCounted(t *testing.T) {
	for _, fill := range []bool{false, true} {
		m := dented(0)
		m.numerics = func(r results.ResultRequest) ([]results.Numerics, bool, error) {
			out := make([]results.Numerics, len(r.Remedies))
			for i, cases := range r.Remedies {
				out[i] = results.Numerics{Rows: 1, SameBits: cases[0].M%16 == 0} // every other row
			}
			return out, true, nil
		}
		r := searchAll(t, m, m.Sweep(synthetic.Grid(8, 512, 8), 9), Options{Kinds: []rules.RemedyKind{rules.RemedyPad}, SameBits: true,
			Fill: fill})
		if got := fmt.Sprint(r.LeftOut, r.Untried); got != "1 0" {
			t.Errorf("fill %v: left out and untried %s, expected 1 0", fill, got)
		}
		if r.Scope == nil || r.Scope.Rows != 64 || r.Scope.Among != AmongAll || !slices.Equal(r.Scope.Kinds,
			[]rules.RemedyKind{rules.RemedyPad}) {
			t.Errorf("searched %+v", r.Scope)
		}
	}
}

func TestTrafficOutsideOfTheSweep(t *testing.T) {
	m := dented(0)
	data := m.Sweep(synthetic.Grid(8, 512, 8), 9)
	r := searchAll(t, m, data, Options{Kinds: []rules.RemedyKind{rules.RemedyPad}})
	for _, c := range []struct {
		traffic   results.Traffic
		uncovered float64
		perSecond bool
	}{
		{results.Traffic{{M: 300, Weight: 1}}, 0, true},
		{results.Traffic{{M: 300, Weight: 1}, {M: 301, Weight: 0}, {M: 4096, Weight: 3}}, 0.75, true},
		{results.Traffic{{M: 4, Weight: 1}, {M: 5, Weight: 0}, {M: 512, Weight: 1}, {M: 516, Weight: 0}}, 0.8, false},
		{results.Traffic{{M: 4096, Weight: 1}}, 1, false},
		{nil, 0, true},
	} {
		data.Traffic = c.traffic
		r.Weigh(data)
		if d := r.TrafficUncovered - c.uncovered; d > 1e-9 || d < -1e-9 {
			t.Errorf("%v: %v is not covered, expected %v", c.traffic, r.TrafficUncovered, c.uncovered)
		}
		if saved := r.Savings[0].PerSecond(); (saved > 0) != c.perSecond {
			t.Errorf("%v: %v ms are saved of a second", c.traffic, saved)
		}
	}
	data.Traffic = results.Traffic{{M: 300, Weight: 1}}
	r.Weigh(data)
	near := r.Savings[0].PerSecond()
	data.Traffic = results.Traffic{{M: 300, Weight: 1}, {M: 301, Weight: 0}, {M: 4096, Weight: 3}}
	if r.Weigh(data); r.Savings[0].PerSecond() != near {
		t.Errorf("traffic outside changes the saving from %v to %v", near, r.Savings[0].PerSecond())
	}
}
