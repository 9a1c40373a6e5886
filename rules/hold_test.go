package rules

import (
	"fmt"
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// Levels and looks with the normal deviate for both, from tables.
var decisiveLevels = []struct {
	confidence, looks, z float64
}{
	{0.95, 1, 1.959964},
	{0.95, 5, 2.575829},
	{0.99, 1, 2.575829},
	{0.90, 10, 2.575829},
	{0.80, 1, 1.281552},
}

// measuredAt is a row with enough degrees of freedom that its intervals are normal.
func measuredAt(m int, flops, y, se float64, samples int) infer.Point {
	p := infer.Point{Row: -1, M: m, N: samples, Flops: flops, US: stats.Estimate{Y: y, SE: se, DF: 1e9, Open: 0}, Folded: true}
	for k := range stats.Folds {
		p.Without[k], p.Of[k] = y, y
	}
	return p
}

// A row breaks a rule only if its whole interval is above the threshold. It keeps the rule only if its
// interval exceeds the threshold by at most MarginalReach. The interval pays for all looks, at any level.
func TestHoldIsOnOneSideOfTheInterval(t *testing.T) {
	const margin, se, little = 0.1, 0.01, 0.0005
	for _, l := range decisiveLevels {
		cfg := Default()
		cfg.Confidence = l.confidence
		f := &Facts{Estimates: &infer.Estimates{Quantiles: stats.Quantiles{}}, Cfg: cfg, looks: l.looks}
		// The log distance beyond the threshold at which MarginalReach of the row's time is lost.
		reach := -math.Log1p(-MarginalReach * math.Exp(margin))
		for _, c := range []struct {
			name         string
			y            float64
			broken, kept bool
		}{
			{"wholly above", margin + l.z*se + little, true, false},
			{"nearly above", margin + l.z*se - little, false, false},
			{"on the bound", margin, false, false},
			{"reaches over too far", margin - l.z*se + reach + little, false, false},
			{"reaches over a little", margin - l.z*se + reach - little, false, true},
			{"wholly below", margin - l.z*se - little, false, true},
		} {
			t.Run(fmt.Sprint(l.confidence, " ", l.looks, " ", c.name), func(t *testing.T) {
				j := Judgement{Curve: &infer.Curve{Points: []infer.Point{measuredAt(1, 0, c.y, se, cfg.MinSamples)}}}
				f.hold(&j, stats.Estimate{Y: 0, SE: 0, DF: 1e9, Open: 0}, margin)
				if j.broken != c.broken || j.kept != c.kept {
					t.Errorf("broken %v, kept %v, expected %v and %v", j.broken, j.kept, c.broken, c.kept)
				}
				if want := 0.5 * math.Erfc((c.y-margin)/se/math.Sqrt2); math.Abs(j.p-want) > 1e-6 {
					t.Errorf("p is %v, expected %v", j.p, want)
				}
			})
		}
	}
}

// A row is a measurement error only if its whole interval is below the possible time minus the tolerance, and
// is not one only if all of it is above. If bandwidth is known too, the same holds for rows that are too
// slow.
func TestRooflineIsOnOneSideOfTheInterval(t *testing.T) {
	const m, se, little = 64, 0.01, 0.0005
	cfg := Default()
	f := &Facts{Estimates: &infer.Estimates{Quantiles: stats.Quantiles{}}, Cfg: cfg, looks: 1}
	const z = 1.959964
	series := results.Series{Key: synthetic.Key, Peak: kernels.Peak{DType: kernels.BF16, FLOPS: 100e12, Origin: kernels.Measured}}
	ceiling := math.Log(synthetic.Key.FLOPs(m) / 100e12 * 1e6)
	fast := ceiling - math.Log1p(cfg.Rules.Roofline.Tolerance)
	slow := ceiling - math.Log(cfg.Rules.Roofline.Fraction)
	for _, c := range []struct {
		name         string
		bandwidth    float64
		y            float64
		broken, kept bool
	}{
		{"wholly below", 0, fast - z*se - little, true, false},
		{"nearly below", 0, fast - z*se + little, false, false},
		{"on the bound", 0, fast, false, false},
		{"nearly above", 0, fast + z*se - little, false, false},
		{"wholly above", 0, fast + z*se + little, false, true},
		{"slow where nobody knows the bandwidth", 0, slow + 1, false, true},
		{"too fast for any bandwidth", 1e15, fast - z*se - little, true, false},
		{"between both", 1e15, (fast + slow) / 2, false, true},
		{"nearly too slow", 1e15, slow + z*se - little, false, false},
		{"too slow", 1e15, slow + z*se + little, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := series
			s.Bandwidth.Rate = c.bandwidth
			p := measuredAt(m, math.Log(synthetic.Key.FLOPs(m)), c.y, se, cfg.MinSamples)
			p.Seen = p.US
			rows := f.roofline(&infer.Curve{Series: s, Points: []infer.Point{p}})
			if j := rows[0]; !j.Tested || j.broken != c.broken || j.kept != c.kept {
				t.Errorf("tested %v, broken %v, kept %v, expected %v and %v", j.Tested, j.broken, j.kept, c.broken, c.kept)
			}
		})
	}
}

// A smaller M with too few samples may be the best. A row is clean only if its whole interval beats that
// rival, at any level.
func TestMonotonicIsNotClearOfARival(t *testing.T) {
	const se, little = 0.01, 0.0005
	for _, l := range decisiveLevels {
		cfg := Default()
		cfg.Confidence = l.confidence
		f := &Facts{Estimates: &infer.Estimates{Quantiles: stats.Quantiles{}}, Cfg: cfg, looks: l.looks}
		rival := 1.5 - math.Log(cfg.Threshold) // in logs of rate, with its error
		demanded := 1.5 - MarginalReach
		for _, c := range []struct {
			name string
			rate float64
			kept bool
		}{
			{"interval above what is demanded", demanded + l.z*se + little, true},
			{"interval reaches below it", demanded + l.z*se - little, false},
			{"interval below it", demanded - l.z*se - little, false},
		} {
			t.Run(fmt.Sprint(l.confidence, " ", l.looks, " ", c.name), func(t *testing.T) {
				rows := f.monotonic(&infer.Curve{Points: []infer.Point{
					measuredAt(1, 0, -1, 0.001, cfg.MinSamples), // sets the reference, far below
					measuredAt(2, 0, -(rival - se), se, cfg.MinSamples-1),
					measuredAt(3, 0, -c.rate, se, cfg.MinSamples),
				}})
				if j := rows[2]; !j.Tested || j.broken || j.kept != c.kept {
					t.Errorf("tested %v, broken %v, kept %v, expected %v", j.Tested, j.broken, j.kept, c.kept)
				}
			})
		}
	}
	// Without a reference the row is undecided below the rival, and unjudged above it.
	f := &Facts{Estimates: &infer.Estimates{Quantiles: stats.Quantiles{}}, Cfg: Default(), looks: 1}
	for rate, want := range map[float64]Verdict{math.Log(f.Cfg.Threshold) + 0.001: Undecided, math.Log(f.Cfg.Threshold) + 0.02: Unjudged} {
		rows := f.monotonic(&infer.Curve{Points: []infer.Point{
			measuredAt(1, 0, 0, 0.01, f.Cfg.MinSamples-1), measuredAt(2, 0, -rate, 0.01, f.Cfg.MinSamples),
		}})
		if got := rows[1].Verdict; got != want {
			t.Errorf("a rate of %v: %s, expected %s", rate, got, want)
		}
	}
}
