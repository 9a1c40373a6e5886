package trust

import (
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// Pads with copied rows have the promised gain including the copy, and Ms between swept ones gain if a table
// serves them.
func TestRemediesOfAnEngine(t *testing.T) {
	kinds, _, err := KindsNamed("quiet", "waves", "clock")
	if err != nil {
		t.Fatal(err)
	}
	proven, off, between, unpaid, copied := 0, 0, 0, 0, 0
	for i := range 6 {
		s, err := newSubject(1, kinds[i%len(kinds)], i, rules.Default(), t.TempDir(), newTally())
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.sweep(t.Context(), "a", simulated.Session{Seed: uint64(i)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer v.close()
		m, err := v.measurer()
		if err != nil {
			t.Fatal(err)
		}
		v.truth = newTruth(s.machine, v.usual)
		r, err := remedy.Find(t.Context(), v.data, s.cfg, remedy.Options{
			Among: remedy.AmongAll, Pads: remedy.PadsCopied, Fill: true}, m)
		if err != nil {
			t.Fatal(err)
		}
		pads, err := remedy.Find(t.Context(), v.data, s.cfg, remedy.Options{
			Among: remedy.AmongAll, Kinds: []rules.RemedyKind{rules.RemedyPad}, Pads: remedy.PadsCopied, Candidates: remedy.CandidatesAll,
			Ratio: 1}, m)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		for _, row := range slices.Concat(pads.Splits, pads.Rejected) {
			copied++
			if c := row.Case(results.Case{SeriesKey: row.Series, M: row.M}); !c.Copied {
				t.Errorf("%v has no copy", c)
			}
			if gain := v.truth.gain(row.Series, row.Remedy); row.Gain.Lo > gain.Hi || row.Gain.Hi < gain.Lo {
				off++
			}
		}
		for _, st := range r.Stretches {
			for _, p := range st.Proofs {
				proven++
				if gain := v.truth.gain(st.Series, p); p.Gain.Lo > gain.Hi || p.Gain.Hi < gain.Lo {
					off++
				}
			}
			if !st.Filled {
				continue
			}
			for m := st.FromM; m <= st.ToM; m++ {
				between++
				if v.truth.gain(st.Series, remedyAt(st, m)).Hi <= 1 {
					unpaid++
				}
			}
		}
	}
	proven += copied
	t.Logf("%d proofs and copied pads, %d beside the truth; %d Ms of filled stretches, %d that gain nothing", proven, off, between, unpaid)
	if proven < 100 || between < 1000 || copied < 3 {
		t.Error("too few to tell")
	}
	if 10*off > proven || 20*unpaid > between {
		t.Error("more than a few are wrong")
	}
}
