package remedy

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

type machine struct {
	*synthetic.World
	algorithm func(results.Case) (kernels.Algorithm, bool)
	numerics  func(r results.ResultRequest) ([]results.Numerics, bool, error)
	requested []results.Case
}

func (m *machine) Measure(ctx context.Context, requests []results.Request, rounds int) ([][]results.Sample, error) {
	for _, r := range requests {
		m.requested = append(m.requested, r.Case)
	}
	return m.World.Measure(ctx, requests, rounds)
}

func (m *machine) Algorithm(c results.Case) (kernels.Algorithm, bool) {
	if m.algorithm == nil {
		return kernels.Algorithm{}, false
	}
	return m.algorithm(c)
}

func (m *machine) Numerics(_ context.Context, r results.ResultRequest) ([]results.Numerics, bool, error) {
	if m.numerics == nil {
		return nil, false, nil
	}
	return m.numerics(r)
}

// dented is a world that runs at half speed from 264 to 320; copying rows takes copying microseconds.
func dented(copying float64) *machine {
	w := synthetic.ByM(nil, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(5, 9)))
	one := func(m int) float64 {
		us := 20 + 0.5*float64(m)
		if m > 256 && m <= 320 {
			us *= 2
		}
		return us
	}
	w.Time = func(c results.Case) float64 {
		var us float64
		switch {
		case len(c.Parts) > 0:
			for _, part := range c.Parts {
				us += one(part)
			}
		case c.PadTo > 0:
			us = one(c.PadTo)
		default:
			us = one(c.M)
		}
		if c.Copied {
			us += copying
		}
		return us
	}
	return &machine{World: w}
}

func searchAll(t *testing.T, m *machine, data infer.Data, o Options) *Result {
	t.Helper()
	o.Among = AmongAll
	r, err := Find(context.Background(), data, rules.Default(), o, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A pad in place is timed without a copy, a copied one with it. The copied one is kept if it pays, and table
// entries name the kind.
func TestPadsAreProvenAsWhatTheyAre(t *testing.T) {
	const cheap, dear = 3, 500
	for _, c := range []struct {
		pads    string
		copying float64
		want    []table.PadKind
	}{
		{"", cheap, []table.PadKind{table.InPlace}},
		{PadsInPlace, dear, []table.PadKind{table.InPlace}},
		{PadsCopied, cheap, []table.PadKind{table.Copied}},
		{PadsCopied, dear, nil},
		{PadsBoth, cheap, []table.PadKind{table.Copied}},
		{PadsBoth, dear, []table.PadKind{table.InPlace}},
	} {
		m := dented(c.copying)
		data := m.Sweep(synthetic.Grid(8, 512, 8), 9)
		r := searchAll(t, m, data, Options{Kinds: []rules.RemedyKind{rules.RemedyPad}, Pads: c.pads})
		got := map[table.PadKind]bool{}
		for _, s := range r.Stretches {
			got[s.Pad] = true
			for _, p := range s.Proofs {
				if p.Pad != s.Pad {
					t.Errorf("%s: a stretch of pads %s rests on one %s", c.pads, s.Pad, p.Pad)
				}
				direct := results.Case{SeriesKey: m.Key, M: p.M}
				if truth := m.Time(direct) / m.Time(p.Case(direct)); math.Abs(p.Gain.Mid/truth-1) > 0.02 {
					t.Errorf("%s: m%d gains %.3f, in truth %.3f", c.pads, p.M, p.Gain.Mid, truth)
				}
			}
		}
		if len(got) != len(c.want) || len(c.want) > 0 && !got[c.want[0]] {
			t.Errorf("pads %q at %v us a copy: stretches %v, expected %v", c.pads, c.copying, got, c.want)
		}
		tab, err := BuildTable(results.Meta{}, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, iv := range tab.Series[0].Intervals {
			if iv.Action.Kind != table.Pad || !slices.Contains(c.want, iv.Action.Pad) {
				t.Errorf("pads %q: the table has %+v", c.pads, iv.Action)
			}
		}
		if s := tab.Series[0]; s.FromM != 8 || s.ToM != 512 || s.Served != s.Count() {
			t.Errorf("the table tells of m%d to m%d, %d served", s.FromM, s.ToM, s.Served)
		}
	}
}

func TestRemediesOfAnEngine(t *testing.T) {
	data, w := synthetic.ChosenBadly("lt", "lt:1", "lt:2")
	m := &machine{World: w}
	kinds := func(o Options) map[rules.RemedyKind]bool {
		out := map[rules.RemedyKind]bool{}
		for _, s := range searchAll(t, m, data, o).Stretches {
			out[s.Kind] = true
		}
		return out
	}
	if got := kinds(Options{}); !got[rules.RemedyAlgorithm] {
		t.Errorf("kinds %v, expected an algorithm", got)
	}
	if got := kinds(Options{Kinds: []rules.RemedyKind{rules.RemedySplit, rules.RemedyPad,
		rules.RemedyOther}}); got[rules.RemedyAlgorithm] || got[rules.RemedyOther] {
		t.Errorf("kinds %v, expected no algorithm", got)
	}
	if got := kinds(Options{Kernels: []string{"lt"}}); !got[rules.RemedyAlgorithm] {
		t.Errorf("kinds %v of an engine that has the library", got)
	}
	other := searchAll(t, m, data, Options{Kernels: []string{"ours"}})
	if len(other.Searched)+len(other.Stretches) > 0 {
		t.Errorf("an engine without the kernel got %+v", other)
	}
	for _, o := range []Options{{Kinds: []rules.RemedyKind{"wish"}}, {Pads: "some"}} {
		if _, err := Find(context.Background(), data, rules.Default(), o, m); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// An algorithm that is different choices at different Ms is one remedy, executed by its attributes.
func TestAlgorithmsByTheirAttributes(t *testing.T) {
	fast := kernels.Algorithm{ID: 66, Tile: 20, Stages: 8, SplitK: 1}
	name := kernels.AlgorithmName("lt", fast)
	w := synthetic.ByM(nil, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(6, 9)))
	second := func(m int) bool { return m%16 == 0 }
	w.Time = func(c results.Case) float64 {
		us := 20 + 0.5*float64(c.M)
		if c.Kernel == name || c.Kernel == "lt:1" && second(c.M) || c.Kernel == "lt:2" && !second(c.M) {
			return us
		}
		return 1.5 * us
	}
	var data infer.Data
	for i, kernel := range []string{"lt", "lt:1", "lt:2"} {
		w.Key.Kernel = kernel
		one := w.Sweep(synthetic.Grid(64, 256, 8), 9)
		s := one.Series[0]
		for j := range s.Rows {
			row := &s.Rows[j]
			row.Case.ID = int64(1000*i + j + 1)
			row.Case.Label = "algo 7"
			if kernel == "lt:1" && second(row.Case.M) || kernel == "lt:2" && !second(row.Case.M) {
				row.Case.Label = "algo 66"
			}
			for k := range row.Samples {
				row.Samples[k].CaseID = row.Case.ID
			}
		}
		data.Series = append(data.Series, s)
		if i == 0 {
			data.Sentinels = one.Sentinels
		}
	}
	m := &machine{World: w, algorithm: func(c results.Case) (kernels.Algorithm, bool) {
		if c.Kernel == "lt:1" && second(c.M) || c.Kernel == "lt:2" && !second(c.M) {
			return fast, true
		}
		return kernels.Algorithm{ID: 7}, true
	}}
	r := searchAll(t, m, data, Options{Kinds: []rules.RemedyKind{rules.RemedyAlgorithm}})
	if len(r.Stretches) != 1 {
		for _, s := range r.Stretches {
			t.Errorf("m%d to m%d: %d rows", s.FromM, s.ToM, len(s.Ms))
		}
		t.Fatalf("expected one stretch for all rows: %+v", r.Warnings)
	}
	s := r.Stretches[0]
	if s.Kind != rules.RemedyAlgorithm || s.Kernel != "lt" || s.Algorithm != fast || len(s.Ms) != 25 {
		t.Errorf("%s of %s, %+v, for %d rows", s.Kind, s.Kernel, s.Algorithm, len(s.Ms))
	}
	if !slices.ContainsFunc(m.requested, func(c results.Case) bool { return c.Kernel == name }) {
		t.Error("the algorithm was not executed by its attributes")
	}
	if s.StakeUS <= 0 || len(r.Savings) != 1 || math.Abs(r.Savings[0].PerSecond()-1000.0/3) > 10 {
		t.Errorf("%v us at stake, savings %+v", s.StakeUS, r.Savings)
	}
	tab, err := BuildTable(results.Meta{}, r)
	if err != nil {
		t.Fatal(err)
	}
	if a := tab.Series[0].Intervals[0].Action; a.Kind != table.Algorithm || a.Kernel != "lt" || a.Algorithm != table.Attributes(fast) {
		t.Errorf("the table has %+v", a)
	}
	checks, err := VerifyTable(context.Background(), tab, "sim", rules.Default(), m)
	if err != nil || len(checks) == 0 || checks[0].Verdict != Pays {
		t.Errorf("verified: %+v, %v", checks, err)
	}
	m.algorithm = nil
	for _, s := range searchAll(t, m, data, Options{Kinds: []rules.RemedyKind{rules.RemedyAlgorithm}}).Stretches {
		for _, p := range s.Proofs {
			if (p.Kernel == "lt:1") != second(p.M) {
				t.Errorf("m%d by %s", p.M, p.Kernel)
			}
		}
	}
}

func TestFill(t *testing.T) {
	for _, c := range []struct {
		name   string
		fast   func(m int) bool
		filled bool
	}{
		{"all alike", func(int) bool { return false }, true},
		{"odd ones are fast", func(m int) bool { return m%2 == 1 }, false},
	} {
		m := dented(0)
		slow := m.Time
		m.Time = func(o results.Case) float64 {
			if us := 20 + 0.5*float64(o.M); len(o.Parts) == 0 && o.PadTo == 0 && c.fast(o.M) {
				return us
			}
			return slow(o)
		}
		data := m.Sweep(synthetic.Grid(8, 512, 8), 9)
		r := searchAll(t, m, data, Options{Kinds: []rules.RemedyKind{rules.RemedyPad}, Fill: true})
		if len(r.Stretches) == 0 {
			t.Fatalf("%s: no stretch", c.name)
		}
		tab, err := BuildTable(results.Meta{}, r)
		if err != nil {
			t.Fatal(err)
		}
		s := r.Stretches[0]
		if s.Filled != c.filled || s.OnlySwept == c.filled || len(s.Ms) != 8 {
			t.Errorf("%s: %+v", c.name, s)
		}
		between := 0
		for _, p := range s.Proofs {
			if !p.Executed || !p.Pays {
				t.Errorf("%s: m%d is no proof", c.name, p.M)
			}
			if p.M%8 != 0 {
				between++
			}
		}
		if c.filled && between != fillSamples {
			t.Errorf("%s: %d Ms between were proven", c.name, between)
		}
		want := 8
		if c.filled {
			want = s.ToM - s.FromM + 1
		}
		if served, of := tab.Served(); served != want || of != 505 {
			t.Errorf("%s: the table serves %d of %d, expected %d", c.name, served, of, want)
		}
		for at := 257; at <= 320; at++ {
			if a := tab.Lookup(served(synthetic.Key), at); (a.Kind == table.Pad) != (c.filled && at >= s.FromM || at%8 == 0) {
				t.Errorf("%s: m%d gets %+v", c.name, at, a)
			}
		}
	}
}

func TestSampleOfAStretch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.SliceOfNDistinct(rapid.IntRange(1, 400), 2, 20, rapid.ID).Draw(t, "ms")
		slices.Sort(ms)
		s := settled{Stretch: Stretch{FromM: ms[0], ToM: ms[len(ms)-1], Ms: ms}}
		between := s.unswept()
		if len(between) != s.ToM-s.FromM+1-len(ms) {
			t.Fatalf("%d between %v", len(between), ms)
		}
		sample := s.sample(between)
		if len(sample) != min(fillSamples, len(between)) || !slices.IsSorted(sample) || !slices.Equal(sample, s.sample(between)) {
			t.Fatalf("sample %v of %v", sample, between)
		}
		for i, m := range sample {
			if slices.Contains(ms, m) || m < s.FromM || m > s.ToM || i > 0 && sample[i-1] == m {
				t.Errorf("m%d of sample %v of %v", m, sample, ms)
			}
		}
	})
}

func TestResultsOfRemedies(t *testing.T) {
	asked := 0
	tell := func(of func(c results.Case) results.Numerics) func(results.ResultRequest) ([]results.Numerics, bool, error) {
		return func(r results.ResultRequest) ([]results.Numerics, bool, error) {
			asked++
			var out []results.Numerics
			for _, cases := range r.Remedies {
				n := of(cases[0])
				n.Rows, n.Columns = 16, 16
				for _, c := range cases[1:] {
					n.OtherMs = append(n.OtherMs, c.M)
				}
				out = append(out, n)
			}
			return out, true, nil
		}
	}
	splitsDiffer := tell(func(c results.Case) results.Numerics {
		return results.Numerics{DirectError: 1e-3, RemedyError: 2e-3, SameBits: c.PadTo > 0, BatchInvariant: len(c.Parts) > 0}
	})
	for _, c := range []struct {
		name     string
		o        Options
		numerics func(results.ResultRequest) ([]results.Numerics, bool, error)
		kinds    []rules.RemedyKind
		warning  string
	}{
		{"all", Options{}, splitsDiffer, []rules.RemedyKind{rules.RemedySplit, rules.RemedyPad}, ""},
		{"same bits", Options{SameBits: true}, splitsDiffer, []rules.RemedyKind{rules.RemedyPad}, "remedies skipped"},
		{"batch-invariant", Options{BatchInvariant: true}, splitsDiffer, []rules.RemedyKind{rules.RemedySplit}, "depends on M"},
		{"both", Options{SameBits: true, BatchInvariant: true}, splitsDiffer, nil, "or depends on M"},
		{"nobody can say", Options{SameBits: true}, nil, nil, "remedies skipped"},
		{"wrong", Options{}, tell(func(results.Case) results.Numerics { return results.Numerics{Wrong: 3} }), nil,
			"3 elements above the bound"},
		{"failed", Options{}, tell(func(results.Case) results.Numerics { return results.Numerics{Failed: "it broke"} }), nil,
			"it broke"},
		{"no memory", Options{}, func(results.ResultRequest) ([]results.Numerics, bool, error) {
			return nil, false, fmt.Errorf("no memory")
		},
			[]rules.RemedyKind{rules.RemedySplit, rules.RemedyPad}, "no memory"},
	} {
		m := dented(0)
		m.numerics = c.numerics
		data := m.Sweep(synthetic.Grid(8, 512, 8), 9)
		c.o.Kinds = []rules.RemedyKind{rules.RemedySplit, rules.RemedyPad}
		c.o.Candidates = CandidatesAll
		c.o.Fill = true
		r := searchAll(t, m, data, c.o)
		if (len(r.Stretches) > 0) != (c.kinds != nil) {
			t.Errorf("%s: %d stretches", c.name, len(r.Stretches))
		}
		for _, s := range r.Stretches {
			if !slices.Contains(c.kinds, s.Kind) {
				t.Errorf("%s: a %s was found", c.name, s.Kind)
			}
			for _, p := range s.Proofs {
				if (p.Numerics == nil) != (c.name == "no memory") {
					t.Errorf("%s: m%d has the result %+v", c.name, p.M, p.Numerics)
				}
			}
		}
		if c.warning != "" && !slices.ContainsFunc(r.Warnings, func(w rules.Warning) bool { return strings.Contains(w.Text, c.warning) }) {
			t.Errorf("%s: warnings %v", c.name, r.Warnings)
		}
		tab, err := BuildTable(results.Meta{}, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, iv := range tab.Series[0].Intervals {
			for _, p := range iv.Proofs {
				if n := p.Numerics; c.name != "no memory" && (n == nil || n.RemedyError != 2e-3 || n.Rows != 16 || len(n.OtherMs) == 0) {
					t.Errorf("%s: the table's proof at m%d has the result %+v", c.name, p.M, n)
				}
			}
		}
	}
	if asked == 0 {
		t.Error("nobody asked for results")
	}
}

// At the deadline, proven remedies stay, but with restrictions only those with a checked result.
func TestResultsInTime(t *testing.T) {
	for _, o := range []Options{{}, {SameBits: true}} {
		m := dented(0)
		m.numerics = func(results.ResultRequest) ([]results.Numerics, bool, error) {
			return nil, false, context.DeadlineExceeded
		}
		o.Kinds = []rules.RemedyKind{rules.RemedyPad}
		r := searchAll(t, m, m.Sweep(synthetic.Grid(8, 512, 8), 9), o)
		if (len(r.Stretches) > 0) == o.SameBits {
			t.Errorf("same bits %v: %d stretches", o.SameBits, len(r.Stretches))
		}
		if !slices.ContainsFunc(r.Warnings, func(w rules.Warning) bool { return strings.Contains(w.Text, "the time limit") }) {
			t.Errorf("warnings %v", r.Warnings)
		}
	}
}

func TestOtherMs(t *testing.T) {
	for m, want := range map[int][]int{1: {2}, 2: {1}, 3: {1, 2}, 8: {1, 4, 7}} {
		if got := otherMs(m); !slices.Equal(got, want) {
			t.Errorf("m%d is held against %v, expected %v", m, got, want)
		}
	}
}

func TestRowWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.SliceOfNDistinct(rapid.IntRange(1, 200), 1, 12, rapid.ID).Draw(t, "ms")
		slices.Sort(ms)
		listed := rapid.SliceOfNDistinct(rapid.IntRange(1, 250), 1, 12, rapid.ID).Draw(t, "listed")
		slices.Sort(listed)
		var traffic results.Traffic
		for _, m := range listed {
			traffic = append(traffic, results.Load{M: m, Weight: float64(rapid.IntRange(0, 9).Draw(t, "weight"))})
		}
		want := map[int]float64{}
		for m := listed[0]; m <= listed[len(listed)-1]; m++ {
			nearest := ms[0]
			for _, row := range ms {
				if max(row-m, m-row) < max(nearest-m, m-nearest) {
					nearest = row
				}
			}
			want[nearest] += traffic.Weight(m)
		}
		got := infer.RowWeights(ms, traffic)
		for _, m := range ms {
			if math.Abs(got[m]-want[m]) > 1e-9 {
				t.Fatalf("m%d of %v weighs %v, expected %v", m, ms, got[m], want[m])
			}
		}
	})
}

// Time at stake is proportional to traffic, for findings and remedies, and the table's saving is a share of a
// second.
func TestTrafficWeighsStakes(t *testing.T) {
	m := dented(0)
	data := m.Sweep(synthetic.Grid(8, 512, 8), 9)
	plain := searchAll(t, m, data, Options{Kinds: []rules.RemedyKind{rules.RemedyPad}})
	flat, err := rules.RunAudit(context.Background(), data, rules.Default().Only(rules.Pad), nil)
	if err != nil {
		t.Fatal(err)
	}
	stake := plain.Stretches[0].StakeUS
	data.Traffic = results.Traffic{{M: 1, Weight: 0}, {M: 257, Weight: 3}, {M: 321, Weight: 0}}
	heavy, err := rules.RunAudit(context.Background(), data, rules.Default().Only(rules.Pad), nil)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := heavy.Findings[0].StakeUS / flat.Findings[0].StakeUS; ratio < 20 || ratio > 24 {
		t.Errorf("a finding's stake is %.2f times as large", ratio)
	}
	plain.Weigh(data)
	if ratio := plain.Stretches[0].StakeUS / stake; ratio < 20 || ratio > 24 {
		t.Errorf("a stretch's stake is %.2f times as large", ratio)
	}
	if s := plain.Savings; len(s) != 1 || !s[0].Weighed || s[0].PerSecond() < 350 || s[0].PerSecond() > 500 {
		t.Errorf("savings %+v", s)
	}
	if nothing := (Saving{}).PerSecond(); nothing != 0 {
		t.Errorf("nothing saves %v ms", nothing)
	}
}

func TestOnlyKindsAskedFor(t *testing.T) {
	w := synthetic.ByM(func(m int) float64 {
		if m > 256 {
			return 3 * float64(m)
		}
		return float64(m)
	}, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(5, 5)))
	data := w.Sweep(synthetic.Grid(16, 512, 16), 9)
	for _, c := range []struct {
		kinds []rules.RemedyKind
		split bool
	}{{nil, true}, {[]rules.RemedyKind{rules.RemedySplit}, true}, {[]rules.RemedyKind{rules.RemedyPad, rules.RemedyOther}, false}} {
		found := false
		for _, s := range searchAll(t, &machine{World: w}, data, Options{Kinds: c.kinds}).Stretches {
			found = found || s.Kind == rules.RemedySplit
		}
		if found != c.split {
			t.Errorf("kinds %v: a split was found: %v", c.kinds, found)
		}
	}
}

// A sweep without sentinels causes a warning, an import does not. Rows with enough samples are not counted as
// few.
func TestWarningsOfAnAudit(t *testing.T) {
	w := synthetic.ByM(func(m int) float64 { return float64(m) }, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(5, 5)))
	for _, c := range []struct {
		source string
		rounds int
		drift  bool
		few    bool
	}{{"", 9, true, false}, {"a.csv", 9, false, false}, {"", 1, true, true}} {
		data := w.Sweep(synthetic.Grid(16, 512, 16), c.rounds)
		data.Sentinels, data.Meta.Source = nil, c.source
		a, err := rules.RunAudit(t.Context(), data, rules.Default(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if hasWarning(a.Warnings, "too few sentinel samples") != c.drift || hasWarning(a.Warnings, "fewer than") != c.few {
			t.Errorf("source %q, %d rounds: %v", c.source, c.rounds, a.Warnings)
		}
	}
}

func TestTableOfAnUndatedRun(t *testing.T) {
	tab, err := BuildTable(results.Meta{}, &Result{})
	if err != nil || tab.Created != "1970-01-01T00:00:00Z" {
		t.Errorf("%+v, %v", tab, err)
	}
}
