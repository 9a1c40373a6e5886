package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// On worlds of known truth only true findings are confirmed, even if the screening errs.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	runs := 30
	if testing.Short() {
		runs = 10
	}
	ms := synthetic.Grid(4, 1024, 4)
	cfg := Default().Only(Monotonic)
	for _, s := range synthetic.Scenarios() {
		truth := synthetic.TrulyAnomalous(s.US, ms, cfg.Threshold)
		n := synthetic.Student(0.02)
		findings, wrong, found := 0, 0, 0
		for run := range runs {
			w := synthetic.ByM(s.US, n, rand.New(rand.NewPCG(uint64(run), 11)))
			w.Drift = s.Drift
			data := w.Sweep(ms, 7)
			w.Drift = nil
			a, err := RunAudit(context.Background(), data, cfg, w)
			if err != nil {
				t.Fatal(err)
			}
			hit := false
			for _, f := range a.Findings {
				if f.Status != Confirmed {
					t.Fatalf("%s: finding %s is %s", s.Name, f.ID, f.Status)
				}
				findings++
				if !truth[f.WorstM] {
					wrong++
				}
				hit = hit || f.FromM <= s.SlowTo && f.ToM >= s.SlowFrom
				if f.Loss.Lo > f.Loss.Mid || f.Loss.Mid > f.Loss.Hi {
					t.Errorf("%s: loss %v is no interval", f.ID, f.Loss)
				}
			}
			if hit {
				found++
			}
		}
		t.Logf("%-20s %d findings in %d runs, %d false; the slow interval was found in %d", s.Name, findings, runs, wrong, found)
		if float64(wrong) > cfg.FDR*float64(findings)+3*math.Sqrt(cfg.FDR*float64(max(findings, 1))) {
			t.Errorf("%s: %d of %d confirmed findings are false", s.Name, wrong, findings)
		}
		if s.SlowTo > 0 && found < runs*9/10 {
			t.Errorf("%s: found in %d of %d runs", s.Name, found, runs)
		}
	}
}

// A single look has exactly the whole level. Six pairs can't reach p below 1/64.
func TestConfirmationInOneLook(t *testing.T) {
	for _, c := range []struct {
		rounds    int
		confirmed bool
	}{{6, false}, {9, true}} {
		w := synthetic.ByM(synthetic.ManySlow, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(5, 5)))
		data := w.Sweep(synthetic.Grid(4, 256, 4), 15)
		cfg := Default().Only(Monotonic)
		cfg.FDR, cfg.Confirm.Rounds, cfg.Confirm.MaxRounds = 0.01, c.rounds, c.rounds
		a, err := RunAudit(t.Context(), data, cfg, w)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(a.Findings) > 0; got != c.confirmed {
			t.Errorf("%d rounds at a level of 1 %%: %d findings", c.rounds, len(a.Findings))
		}
	}
}

type roundsAsked struct {
	Measurer
	rounds []int
}

func (r *roundsAsked) Measure(ctx context.Context, requests []results.Request, rounds int) ([][]results.Sample, error) {
	r.rounds = append(r.rounds, rounds)
	return r.Measurer.Measure(ctx, requests, rounds)
}

func TestConfirmationRounds(t *testing.T) {
	w := synthetic.ByM(synthetic.ManySlow, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(5, 5)))
	data := w.Sweep(synthetic.Grid(4, 256, 4), 15)
	cfg := Default().Only(Monotonic)
	cfg.FDR, cfg.Confirm.Rounds, cfg.Confirm.MaxRounds = 0.01, 6, 9
	m := &roundsAsked{Measurer: w}
	if _, err := RunAudit(t.Context(), data, cfg, m); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.rounds, []int{6, 3}) {
		t.Errorf("rounds %v, expected 6 and 3", m.rounds)
	}
}

func TestChosenRows(t *testing.T) {
	a, b, c := &Judgement{Point: 1}, &Judgement{Point: 2}, &Judgement{Point: 3}
	for _, v := range []struct {
		worst *Judgement
		rows  []*Judgement
		want  []*Judgement
	}{
		{b, []*Judgement{a, b, c}, []*Judgement{b, a, c}}, {a, []*Judgement{a, b, c}, []*Judgement{a, c}},
		{c, []*Judgement{a, b, c}, []*Judgement{c, a}}, {a, []*Judgement{a}, []*Judgement{a}},
	} {
		if got := (&Candidate{Worst: v.worst, Rows: v.rows}).chosen(); !slices.Equal(got, v.want) {
			t.Errorf("of %d rows: %d are measured again, expected %d", len(v.rows), len(got), len(v.want))
		}
	}
}

func TestConfirmationRefutes(t *testing.T) {
	w := synthetic.ByM(func(m int) float64 { return float64(m) }, synthetic.Student(0.01), rand.New(rand.NewPCG(3, 3)))
	data := w.Sweep(synthetic.Grid(4, 512, 4), 7)
	for _, i := range []int{60, 61, 62} {
		for k := range data.Series[0].Rows[i].Samples {
			data.Series[0].Rows[i].Samples[k].US *= 1.5
		}
	}
	cfg := Default().Only(Monotonic)
	a, err := RunAudit(context.Background(), data, cfg, nil)
	if err != nil || len(a.Findings) != 1 || a.Findings[0].Status != Unconfirmed {
		t.Fatalf("without a device: %v, %+v", err, a.Findings)
	}
	a, err = RunAudit(context.Background(), data, cfg, w)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Findings) != 0 || len(a.Flagged) != 0 {
		t.Errorf("findings %+v, flagged %v stand against fresh samples", a.Findings, a.Flagged)
	}
	if !hasWarning(a.Warnings, "did not hold up") {
		t.Errorf("warnings %v do not say that a suspect fell", a.Warnings)
	}
}

func hasWarning(ws []Warning, text string) bool {
	for _, w := range ws {
		if strings.Contains(w.Text, text) {
			return true
		}
	}
	return false
}

type failing struct {
	Measurer
	left int
}

func (f *failing) Measure(ctx context.Context, r []results.Request, rounds int) ([][]results.Sample, error) {
	if f.left--; f.left < 0 {
		return nil, errors.New("bus fell off")
	}
	return f.Measurer.Measure(ctx, r, rounds)
}

func TestConfirmationInterrupted(t *testing.T) {
	w := synthetic.ByM(synthetic.ManySlow, synthetic.Student(0.01), rand.New(rand.NewPCG(5, 5)))
	data := w.Sweep(synthetic.Grid(4, 12000, 4), 7)
	cfg := Default().Only(Monotonic)

	count := func(a *Audit) (confirmed, unconfirmed int) {
		for _, f := range a.Findings {
			switch f.Status {
			case Confirmed:
				confirmed++
			case Unconfirmed:
				unconfirmed++
			}
		}
		return
	}
	t.Run("device fails", func(t *testing.T) {
		a, err := RunAudit(context.Background(), data, cfg, &failing{w, 1})
		if err == nil || !strings.Contains(err.Error(), "bus fell off") {
			t.Fatalf("error %v does not pass the device's on", err)
		}
		if c, u := count(a); c < confirmGroup*9/10 || c > confirmGroup || u == 0 {
			t.Errorf("%d confirmed, %d unconfirmed; want the first group confirmed and the rest not", c, u)
		} else if want := fmt.Sprintf("measuring again failed, %d suspect intervals unconfirmed: bus fell off",
			u); !hasWarning(a.Warnings, want) {
			t.Errorf("warnings %v, expected %q", a.Warnings, want)
		}
	})
	t.Run("time is up", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), -time.Second)
		defer cancel()
		a, err := RunAudit(ctx, data, cfg, w)
		if err != nil {
			t.Fatal(err)
		}
		if c, u := count(a); c != 0 || u == 0 || !hasWarning(a.Warnings, "time limit") {
			t.Errorf("%d confirmed, %d unconfirmed, warnings %v", c, u, a.Warnings)
		}
	})
	t.Run("budget", func(t *testing.T) {
		small := cfg
		small.Confirm.MaxCases = 3
		a, err := RunAudit(context.Background(), data, small, w)
		if err != nil {
			t.Fatal(err)
		}
		if c, u := count(a); c != 3 || u == 0 || !hasWarning(a.Warnings, "max_cases") {
			t.Errorf("%d confirmed, %d unconfirmed, warnings %v", c, u, a.Warnings)
		}
	})
}

// A row slow only because of a low clock is clean. A row slow at any clock is not, whatever its β. A row with
// a clock far away is judged by what holds at every β.
func TestClock(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	w := synthetic.ByM(func(m int) float64 {
		switch {
		case m >= 400 && m <= 440:
			return float64(m) / 0.98 // allowed; the clock is lower by 4 % on average
		case m >= 600 && m <= 640, m >= 20 && m <= 32:
			return float64(m) / 0.92
		case m == 900:
			return float64(m) / 0.6
		}
		return float64(m)
	}, synthetic.Student(0.002), rng)
	w.Follows = func(c results.Case) float64 {
		if c.M <= 64 {
			return 0.1
		}
		return 1
	}
	w.Clock = func(c results.Case) float64 {
		mhz := 2000 * math.Exp(0.02*rng.NormFloat64())
		switch {
		case c.M >= 400 && c.M <= 440:
			mhz *= 0.96
		case c.M == 800, c.M == 900:
			mhz *= 0.8
		}
		return mhz
	}
	data := w.Sweep(synthetic.Grid(4, 1024, 4), 9)
	a, err := RunAudit(context.Background(), data, Default().Only(Monotonic), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := append(append(synthetic.Grid(20, 32, 4), synthetic.Grid(600, 640, 4)...), 900)
	if !slices.Equal(a.Flagged, want) {
		t.Errorf("flagged %v, want %v", a.Flagged, want)
	}
	if a.Clocks["sim"] != 2000 {
		t.Errorf("reference clocks %v", a.Clocks)
	}
	for _, r := range a.Series[0].Rows {
		beta := w.Follows(results.Case{M: r.M})
		truth := w.Time(results.Case{M: r.M})
		switch {
		case r.M == 800:
			if r.Verdict != Undecided {
				t.Errorf("m800, whose clock was 20 %% low, is %s", r.Verdict)
			}
		case r.M == 900: // flagged
			if low := truth / 1.25; r.US.Lo > low || r.US.Hi < truth {
				t.Errorf("m900, whose clock was 20 %% low: %.0f to %.0f us, expected to cover %.0f to %.0f", r.US.Lo, r.US.Hi, low, truth)
			}
		case math.Abs(r.Elasticity-beta) > 0.1:
			t.Errorf("m%d: elasticity %.2f, want %.1f", r.M, r.Elasticity, beta)
		case math.Abs(r.US.Mid/truth-1) > 0.006:
			t.Errorf("m%d: %.2f us at the common clock, want %.2f", r.M, r.US.Mid, truth)
		}
	}
	cfg := Default().Only(Monotonic)
	cfg.ClockMHz = 2050
	b, err := RunAudit(context.Background(), data, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.Flagged, want) || b.Clocks["sim"] != 2050 {
		t.Errorf("at 2050 MHz flagged %v, clocks %v", b.Flagged, b.Clocks)
	}
}

// Drift is corrected. A run on a machine that changed, or that is too noisy for any verdict, is invalid.
func TestDrift(t *testing.T) {
	for _, c := range []struct {
		drift, sigma float64
		invalid      bool
	}{{0.2, 0.01, false}, {0.5, 0.01, false}, {1.6, 0.01, false}, {0, 2, true}} {
		w := synthetic.ByM(func(m int) float64 { return float64(m) }, synthetic.Student(c.sigma), rand.New(rand.NewPCG(8, 8)))
		w.Drift = func(seq, total float64) float64 { return c.drift * seq / total }
		a, err := RunAudit(context.Background(), w.Sweep(synthetic.Grid(4, 1024, 4), 7), Default(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if (a.Invalid != "") != c.invalid ||
			c.drift > 0 && (a.Drift < 0.75*math.Expm1(c.drift) || a.Drift > 1.5*math.Expm1(c.drift) || !a.Corrected) {
			t.Errorf("drift of %g: found %v, corrected %v, invalid %q", c.drift, a.Drift, a.Corrected, a.Invalid)
		}
	}
}
