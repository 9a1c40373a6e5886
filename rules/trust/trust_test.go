package trust

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Published tables of Clopper and Pearson's one-sided limits.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		Count
		lower, upper float64
	}{
		{Count{0, 0}, 0, 1},
		{Count{0, 59}, 0, 0.0495},
		{Count{1, 10}, 0.0051, 0.3942},
		{Count{5, 100}, 0.0199, 0.1023},
		{Count{10, 10}, 0.7411, 1},
	} {
		if lower, upper := c.Lower(), c.Upper(); math.Abs(lower-c.lower) > 5e-5 || math.Abs(upper-c.upper) > 5e-5 {
			t.Errorf("%d of %d: limits %.4f and %.4f, want %.4f and %.4f", c.Hits, c.Of, lower, upper, c.lower, c.upper)
		}
	}
}

func TestRates(t *testing.T) {
	for _, c := range []struct {
		name         string
		count        Count
		bound        float64
		broken, thin bool
		stated       bool
	}{
		{"kept", Count{0, 100}, 0.05, false, false, false},
		{"no bound", Count{50, 100}, 0, false, false, false},
		{"nothing counted", Count{}, 0.05, false, false, false},
		{"passed by the limit alone", Count{3, 100}, 0.05, true, false, false},
		{"passed", Count{20, 100}, 0.05, true, false, false},
		{"too few", Count{0, 20}, 0.05, false, true, false},
		{"few, and passed all the same", Count{10, 20}, 0.05, true, false, false},
		{"a test at its level", Count{6, 100}, 0.05, false, false, true},
		{"a test past its level as one of fourteen is", Count{12, 100}, 0.05, false, false, true},
		{"a test past its level", Count{16, 100}, 0.05, true, false, true},
	} {
		m := FalseRows
		if c.stated {
			m = NoiseFlagged
		}
		r := newRate("kind", m, c.count, c.bound)
		if r.Broken != c.broken || r.Thin != c.thin {
			t.Errorf("%s: broken %v, thin %v, want %v, %v", c.name, r.Broken, r.Thin, c.broken, c.thin)
		}
	}
}

func TestKindsNamed(t *testing.T) {
	all, data, err := KindsNamed()
	if err != nil || len(all) != len(Kinds()) || len(data) != len(DataKinds()) {
		t.Errorf("no names give %d and %d kinds, error %v", len(all), len(data), err)
	}
	some, data, err := KindsNamed("clock", "spell", "quiet")
	if err == nil {
		t.Errorf("an unknown kind gives %v and %v", some, data)
	}
	some, data, err = KindsNamed("clock", "wander", "quiet")
	if err != nil || len(some) != 2 || some[0].Name != "quiet" || some[1].Name != "clock" || len(data) != 1 || data[0].Name != "wander" {
		t.Errorf("three names give %v and %v, error %v", some, data, err)
	}
}

func aSubject(t *testing.T) (*subject, *visit) {
	t.Helper()
	kinds, _, err := KindsNamed("quiet")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSubject(1, kinds[0], 0, rules.Default(), t.TempDir(), newTally())
	if err != nil {
		t.Fatal(err)
	}
	return s, &visit{name: "a", truth: newTruth(s.machine, simulated.NominalClockMHz)}
}

func TestSoftmax(t *testing.T) {
	kinds, _, err := KindsNamed("noise1")
	if err != nil {
		t.Fatal(err)
	}
	all := newTally()
	for i := range 4 {
		s, err := newSubject(1, kinds[0], i, rules.Default(), t.TempDir(), all)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.machine.Config()
		cfg.N, cfg.K, cfg.Columns = 0, 0, 8192
		if i%2 == 1 {
			cfg.Depths = nil
		}
		if s.machine, err = simulated.NewMachine(cfg); err != nil {
			t.Fatal(err)
		}
		planted := all.count(UnfoundPromised).Of
		if err := s.examine(t.Context()); err != nil {
			t.Fatal(err)
		}
		if found := all.count(UnfoundPromised).Of - planted; i%2 == 0 && found == 0 {
			t.Errorf("machine %d: no interval of the promised depth was looked for", i)
		}
	}
	for _, m := range []Measure{FalseRows, FalseFindings, MissedRows, UnfoundPromised, InvalidRuns, FalseRemedies} {
		t.Logf("%s: %+v", m, *all.count(m))
		if c := all.count(m); c.Hits > 0 {
			t.Errorf("%s: %d of %d", m, c.Hits, c.Of)
		}
	}
	if c := all.count(FalseFindings); c.Of == 0 {
		t.Error("no finding was confirmed")
	}
}

func key(kernel string) results.SeriesKey {
	return results.SeriesKey{Device: simulated.DeviceID, Kernel: kernel, Subject: kernels.Product(kernels.BF16, weightsN, weightsK),
		Regime: results.Engine}
}

// claim has intervals of the true times, off by a share.
func claim(s *subject, v *visit, off, half float64, verdict func(loss float64) rules.Verdict) *rules.Audit {
	a := &rules.Audit{}
	for _, kernel := range []string{simulated.Library, simulated.Ours} {
		series := rules.SeriesAudit{Key: key(kernel)}
		for i, m := range grid() {
			us := v.truth.seconds(results.Case{SeriesKey: key(kernel), M: m}).Lo * 1e6
			if i%2 == 0 {
				us *= 1 + off
			}
			series.Rows = append(series.Rows, rules.RowVerdict{M: m, Verdict: verdict(v.truth.loss(kernel, m).Lo), Samples: 7,
				US: stats.Interval{Lo: us * (1 - half), Mid: us, Hi: us * (1 + half)}})
		}
		a.Series = append(a.Series, series)
	}
	return a
}

func TestScoreVerdicts(t *testing.T) {
	truthful := func(loss float64) rules.Verdict {
		if loss > 0.05 {
			return rules.Anomalous
		}
		return rules.Clean
	}
	always := func(v rules.Verdict) func(float64) rules.Verdict { return func(float64) rules.Verdict { return v } }
	for _, c := range []struct {
		name                               string
		verdict                            func(float64) rules.Verdict
		falseRows, missed, open, marginals bool // whether any are counted
	}{
		{"truthful", truthful, false, false, false, false},
		{"all anomalous", always(rules.Anomalous), true, false, false, false},
		{"all clean", always(rules.Clean), false, true, false, false},
		{"all undecided", always(rules.Undecided), false, false, true, false},
		{"all marginal", always(rules.Marginal), false, false, true, true},
	} {
		s, v := aSubject(t)
		s.scoreAudit(v, claim(s, v, 0, 0.001, c.verdict))
		for m, want := range map[Measure]bool{FalseRows: c.falseRows, MissedRows: c.missed, OpenRows: c.open, MarginalRows: c.marginals} {
			if got := s.tally.count(m).Hits > 0; got != want {
				t.Errorf("%s: %s: %+v, want any %v", c.name, m, *s.tally.count(m), want)
			}
		}
		if rows := s.tally.count(OpenRows).Of; rows != 2*len(grid()) {
			t.Errorf("%s: %d rows counted of %d", c.name, rows, 2*len(grid()))
		}
		if c := s.tally.count(UnfoundPromised); c.Hits != c.Of || c.Of != 2 {
			t.Errorf("%d of %d promised intervals unfound, want 2 of 2", c.Hits, c.Of)
		}
	}
	s, v := aSubject(t)
	s.scoreAudit(v, &rules.Audit{Invalid: "drift"})
	if c := s.tally.count(InvalidRuns); c.Hits != 1 || s.tally.count(OpenRows).Of != 0 {
		t.Errorf("an invalid run counts %+v", c)
	}
}

func TestScoreTimes(t *testing.T) {
	s, v := aSubject(t)
	s.scoreTimes(v, claim(s, v, 0.0005, 0.001, func(float64) rules.Verdict { return rules.Clean }))
	if c := s.tally.count(UncoveredTime); c.Hits != 0 || c.Of != 2*len(grid()) {
		t.Errorf("intervals that hold: %+v", c)
	}
	s, v = aSubject(t)
	s.scoreTimes(v, claim(s, v, 0.01, 0.001, func(float64) rules.Verdict { return rules.Clean }))
	if c := s.tally.count(UncoveredTime); c.Hits < len(grid())*9/10 {
		t.Errorf("half of the rows are off by 1 %% with 0.1 %% claimed: %+v", c)
	}
}

func TestScoreFindings(t *testing.T) {
	s, v := aSubject(t)
	a := &rules.Audit{}
	var fine int
	for _, p := range s.machine.Planted() {
		if p.Depth < 0.05 {
			continue
		}
		a.Findings = append(a.Findings,
			rules.Finding{Rule: rules.Monotonic, Series: key(p.Kernel), FromM: p.FromM, ToM: p.ToM, WorstM: p.FromM,
				Status: rules.Confirmed, Loss: stats.Interval{Lo: p.Depth - 0.01, Mid: p.Depth, Hi: p.Depth + 0.01}})
	}
	s.scoreFindings(v, a)
	if f, u := s.tally.count(FalseFindings), s.tally.count(UncoveredLoss); f.Hits != 0 || f.Of != len(a.Findings) || u.Hits != 0 {
		t.Errorf("true findings: false %+v, uncovered %+v", f, u)
	}
	if c := s.tally.count(UnfoundPromised); c.Hits != 0 || c.Of != 2 {
		t.Errorf("unfound %+v, want 0 of 2", c)
	}
	for i, m := range grid() {
		if l := v.truth.losses[simulated.Ours][i]; l.Hi < 0.04 && i > 20 {
			fine = m
		}
	}
	s, v = aSubject(t)
	s.scoreFindings(v, &rules.Audit{Findings: []rules.Finding{
		{Rule: rules.Monotonic, Series: key(simulated.Ours), FromM: fine, ToM: fine, WorstM: fine, Status: rules.Confirmed,
			Loss: stats.Interval{Lo: 0.06, Mid: 0.07, Hi: 0.08}},
		{Rule: rules.SplitRule, Series: key(simulated.Ours), FromM: fine, ToM: fine, WorstM: fine, Status: rules.Confirmed},
		{Rule: rules.Pad, Series: key(simulated.Ours), FromM: fine, ToM: fine, WorstM: fine, Status: rules.Confirmed},
		{Rule: rules.Roofline, Series: key(simulated.Ours), FromM: fine, ToM: fine, WorstM: fine, Status: rules.Confirmed},
		{Rule: rules.Monotonic, Series: key(simulated.Ours), FromM: fine, ToM: fine, WorstM: fine, Status: rules.Unconfirmed},
	}})
	if f := s.tally.count(FalseFindings); f.Hits != 4 || f.Of != 4 {
		t.Errorf("false findings: %+v, want 4 of 4", f)
	}
	if u := s.tally.count(UncoveredLoss); u.Hits != 1 {
		t.Errorf("the loss of a false finding is covered: %+v", u)
	}
}

func TestScoreRemedies(t *testing.T) {
	s, v := aSubject(t)
	series := key(simulated.Library)
	fix := rules.Remedy{Kind: rules.RemedyOther, Kernel: simulated.Ours, M: 512, Executed: true, PredictedUS: 1, SweepUS: 1}
	gain := v.truth.gain(series, fix)
	if gain.Lo == 1 {
		t.Fatal("the kernels are equal")
	}
	if gain.Lo < 1 { // the other way round there is a gain
		series, fix.Kernel = key(simulated.Ours), simulated.Library
		gain = v.truth.gain(series, fix)
	}
	fix.Gain = stats.Interval{Lo: gain.Lo * 0.99, Mid: gain.Lo * 1.002, Hi: gain.Lo * 1.01}
	s.scoreRemedies(v,
		&remedy.Result{Splits: []remedy.Row{{Series: series, Remedy: fix}},
			Rejected: []remedy.Row{{Series: series, Remedy: fix}}})
	if f, u, c := s.tally.count(FalseRemedies), s.tally.count(UncoveredGain),
		s.tally.count(RemediesUnpaid); f.Hits != 0 || u.Hits != 0 || c.Hits != 1 || c.Of != 2 {
		t.Errorf("a true promise: false %+v, uncovered %+v, unpaid %+v", f, u, c)
	}
	if len(s.tally.promised) != 1 || math.Abs(s.tally.promised[0]-math.Log(1.002)) > 1e-9 {
		t.Errorf("bias %v, want that of 1.002", s.tally.promised)
	}
	split := rules.Remedy{Kind: rules.RemedySplit, M: 512, Parts: []int{16, 496}, Executed: true,
		Gain: stats.Interval{Lo: 1.05, Mid: 1.06, Hi: 1.07}}
	s.scoreRemedies(v, &remedy.Result{Splits: []remedy.Row{{Series: series, Remedy: split}}})
	if f, u := s.tally.count(FalseRemedies), s.tally.count(UncoveredGain); f.Hits != 1 || u.Hits != 1 {
		t.Errorf("a false promise: false %+v, uncovered %+v", f, u)
	}
}

func TestScorePair(t *testing.T) {
	s, v := aSubject(t)
	a, b := map[rowKey]rules.Verdict{}, map[rowKey]rules.Verdict{}
	for i, pair := range [][2]rules.Verdict{
		{rules.Anomalous, rules.Anomalous}, {rules.Anomalous, rules.Marginal}, {rules.Undecided, rules.Anomalous},
		{rules.Clean, rules.Anomalous},
		{rules.Clean, rules.Clean}, {rules.Clean, rules.Marginal},
	} {
		k := rowKey{key(simulated.Ours), grid()[i]}
		a[k], b[k] = pair[0], pair[1]
	}
	s.scorePair(v, a, b)
	for m, want := range map[Measure]Count{PairDisagree: {3, 4}, PairDisagreeLenient: {2, 4}, PairContradict: {1, 3}} {
		if got := *s.tally.count(m); got != want {
			t.Errorf("%s: %+v, want %+v", m, got, want)
		}
	}
}

func TestUntil(t *testing.T) {
	sample := func(id, seq int64) results.Sample { return results.Sample{CaseID: id, Seq: seq} }
	data := infer.Data{
		Series: []results.Series{{Rows: []results.Row{
			{Case: results.Case{ID: 1}, Samples: []results.Sample{sample(1, 0), sample(1, 3)}},
			{Case: results.Case{ID: 2}, Samples: []results.Sample{sample(2, 2)}},
		}}},
		Sentinels: []results.Sample{sample(9, 1)},
	}
	for seq, want := range []int{0, 1, 1, 2, 3} {
		got := 0
		cut := until(data, int64(seq))
		for _, s := range cut.Series {
			for _, r := range s.Rows {
				got += len(r.Samples)
				if len(r.Samples) == 0 {
					t.Errorf("cut at %d, a row has no samples", seq)
				}
			}
		}
		if sentinels := len(cut.Sentinels); got != want || (sentinels == 1) != (seq > 1) {
			t.Errorf("cut at %d: %d samples and %d sentinels, want %d", seq, got, sentinels, want)
		}
	}
	if len(data.Series[0].Rows[0].Samples) != 2 {
		t.Error("the whole run was cut")
	}
}

func TestRepeatable(t *testing.T) {
	kinds, _, err := KindsNamed("clock", "in-order", "all")
	if err != nil {
		t.Fatal(err)
	}
	run := func(seed uint64, workers int) string {
		r, err := Run(context.Background(),
			Options{Machines: 3, Seed: seed, Kinds: kinds, Config: rules.Default(), Worst: 3, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		r.Seed = 0
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one := run(1, 1)
	if two := run(1, 3); two != one {
		t.Errorf("three workers count otherwise than one:\n%s\n%s", one, two)
	}
	if other := run(2, 2); other == one {
		t.Error("another seed gives the same counts")
	}
}

func TestRunRefuses(t *testing.T) {
	if _, err := Run(context.Background(), Options{Config: rules.Default()}); err == nil {
		t.Error("no machines are no error")
	}
	if _, err := Run(context.Background(), Options{Machines: 1}); err == nil {
		t.Error("an empty rules file is no error")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if _, err := Run(ctx, Options{Machines: 1, Config: rules.Default()}); !errors.Is(err, why) {
		t.Errorf("a context that has ended gives %v", err)
	}
}

func TestKeep(t *testing.T) {
	kinds, _, err := KindsNamed("quiet")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "runs")
	calls := 0
	if _, err := Run(context.Background(), Options{Machines: 1, Seed: 1, Kinds: kinds, Config: rules.Default(), Keep: folder,
		Progress: func(done, of int) { calls += done * of }}); err != nil {
		t.Fatal(err)
	}
	if calls != 1 {
		t.Errorf("progress was told %d times one of one", calls)
	}
	for _, name := range []string{"quiet-0-a.db", "quiet-0-b.db", "quiet-0-deadline.db"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
}
