package results

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func seriesOf(t fatal, r *Run) Loaded {
	t.Helper()
	cases, err := r.Cases()
	check(t, err)
	samples, err := r.Samples("")
	check(t, err)
	failures, err := r.Failures()
	check(t, err)
	var rows []Row
	for _, c := range cases {
		if len(c.Parts) > 0 || c.PadTo > 0 {
			continue
		}
		row := Row{Case: c}
		for _, s := range samples {
			if s.CaseID == c.ID && s.Phase == PhaseSweep {
				row.Samples = append(row.Samples, s)
			}
		}
		for _, f := range failures {
			if f.CaseID == c.ID && f.Phase == PhaseSweep && row.Samples == nil && row.Failed == "" {
				row.Failed = f.Reason
			}
		}
		if row.Samples != nil || row.Failed != "" {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		if d := a.Case.SeriesKey.Compare(b.Case.SeriesKey); d != 0 {
			return d
		}
		return a.Case.M - b.Case.M
	})
	l := Loaded{Series: r.curves(rows)}
	for _, s := range samples {
		if s.Phase == PhaseSentinel {
			l.Sentinels = append(l.Sentinels, s)
		}
		if s.Phase == PhaseSustained {
			l.Sustained = append(l.Sustained, s)
		}
		if s.Phase == PhaseConfirm {
			l.Confirmed++
		}
	}
	return l
}

// However a run grows, its loaded data must equal a fresh read, and earlier results must not change.
func TestPropertyLoad(t *testing.T) {
	Few(t)
	rapid.Check(t, func(t *rapid.T) {
		r := DrawRun(t, Scratch(t)+"/run.db")
		defer r.Close()
		cases, err := r.Cases()
		check(t, err)
		type copied struct{ loaded, frozen Loaded }
		var copies []copied
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			c := rapid.SampledFrom(cases).Draw(t, "case")
			next, err := r.NextSeq()
			check(t, err)
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				phase := rapid.SampledFrom([]Phase{PhaseSweep, PhaseSentinel, PhaseSentinel, PhaseSustained, PhaseRemedy,
					PhaseConfirm}).Draw(t, "phase")
				check(t, r.Append(drawSample(t, c, phase, 100+int(next), next+int64(rapid.IntRange(0, 2).Draw(t, "gap")))))
			case 2:
				check(t, r.SetLaunch(c.ID, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "label"),
					Launch{Split: rapid.IntRange(0, 2).Draw(t, "split")}))
			case 3:
				c.Launch, c.Label = Launch{Split: 3}, "launched"
				_, err := r.AddCases([]Case{c, {SeriesKey: SomeKey, M: int(next) + 1}})
				check(t, err)
			case 4:
				check(t, r.Fail(Failure{CaseID: c.ID, Phase: PhaseSweep, Round: 200 + int(next) + len(copies), Reason: "late"}))
			case 5:
				check(t, r.Forgive(c.ID, PhaseSweep))
			case 6:
				for i, phase := range []Phase{PhaseSentinel, PhaseSustained} {
					check(t, r.Append(drawSample(t, c, phase, 1000+int(next), next+int64(i))))
				}
			}
			loaded, err := r.Load()
			check(t, err)
			want := seriesOf(t, r)
			if d := cmp.Diff(want, loaded); d != "" {
				t.Fatal("(-file +loaded):\n" + d)
			}
			copies = append(copies, copied{loaded, want})
			swept, err := r.Swept()
			check(t, err)
			done, err := r.Done(PhaseSweep)
			check(t, err)
			rounds := 0
			for _, d := range done {
				rounds += len(d)
			}
			if swept.Cases != len(done) || swept.Samples != rounds || len(swept.Series) != len(want.Series) {
				t.Fatal("swept ", swept, ", done ", done)
			}
		}
		for _, c := range copies {
			if d := cmp.Diff(c.frozen, c.loaded); d != "" {
				t.Fatal("a copy was changed:\n" + d)
			}
		}
	})
}

// An earlier sample must be placed before loaded ones.
func TestLoadSamplesOutOfOrder(t *testing.T) {
	for _, phase := range []Phase{PhaseSentinel, PhaseSustained} {
		for _, seqs := range [][]int64{{5, 3}, {1, 5, 3}, {1, 3, 5}} {
			r, cases := NewRun(t, 4)
			var loaded Loaded
			for i, seq := range seqs {
				err := r.Append(Sample{CaseID: cases[0].ID, Phase: phase, Round: i, Seq: seq, StartedUnixMicro: 1, Launches: 1, US: 1})
				if err != nil {
					t.Fatal(err)
				}
				if loaded, err = r.Load(); err != nil {
					t.Fatal(err)
				}
			}
			samples := loaded.Sentinels
			if phase == PhaseSustained {
				samples = loaded.Sustained
			}
			if len(samples) != len(seqs) || !slices.IsSortedFunc(samples, func(a, b Sample) int { return int(a.Seq - b.Seq) }) {
				t.Errorf("%s, stored in the order %v: %v", phase, seqs, samples)
			}
		}
	}
}

// A run is read in parts if its numbers span enough, with gaps or without.
func TestLoadInParts(t *testing.T) {
	before := runtime.GOMAXPROCS(3)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for name, gap := range map[string]int64{"few": 1, "gaps": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			r, cases := NewRun(t, 4, 8, 12)
			for i := range int64(300) {
				phase := PhaseSweep
				switch i % 10 {
				case 9:
					phase = PhaseSentinel
				case 8:
					phase = PhaseSustained
				}
				must(t, r.Append(SomeSample(cases[i%3], phase, int(i), i*gap)))
			}
			parts, err := r.split()
			must(t, err)
			if want := map[bool]int{true: 3, false: 1}[gap > 1]; len(parts) != want {
				t.Fatalf("%d parts, expected %d", len(parts), want)
			}
			got, err := r.Load()
			must(t, err)
			if d := cmp.Diff(seriesOf(t, r), got); d != "" {
				t.Errorf("(-file +loaded):\n%s", d)
			}
		})
	}
}

// A run moved while open must be read at its new place.
func TestMovedRunIsRead(t *testing.T) {
	part := finishedRun(t)
	r, err := Open(part)
	must(t, err)
	defer r.Close()
	path := t.TempDir() + "/run.db"
	must(t, r.Replace(path))
	if inUse.has(part) || !inUse.has(path) {
		t.Errorf("of the old and the new name in use are %v and %v", inUse.has(part), inUse.has(path))
	}
	if _, err := r.Series(); err != nil {
		t.Error(err)
	}
	if samples, err := r.Samples(""); err != nil || len(samples) != 120 {
		t.Errorf("%d samples, %v", len(samples), err)
	}
}

// A repeated text is stored once, and counts once against the limit.
func TestWordsAreKeptOnce(t *testing.T) {
	d := &reader{words: map[string]string{}}
	long := strings.Repeat("a", 1000)
	for range 1000 {
		if got := d.keep([]byte(long)); got != long || d.err != nil {
			t.Fatalf("%.10q of %d bytes: %v", got, len(got), d.err)
		}
	}
	for i := 0; d.err == nil; i++ {
		d.keep(fmt.Append(nil, i, long))
		if d.text > d.room()+2*int64(len(long)) {
			t.Fatalf("%d bytes of words that differ were read of a file that is empty", d.text)
		}
	}
}

func TestReferenceClockStored(t *testing.T) {
	for _, c := range []struct {
		clocks map[string]float64
		want   string
	}{{nil, "{}"}, {map[string]float64{"cuda:0": 1500}, `{"cuda:0":1500}`}} {
		text, err := referenceClock.write(&Meta{ReferenceClock: c.clocks})
		if err != nil || text != c.want {
			t.Errorf("%v: %q, %v, expected %q", c.clocks, text, err, c.want)
		}
	}
}
