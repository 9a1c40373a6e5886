package rules

import (
	"fmt"
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// levels of confidence and numbers of looks, with the normal deviate that both together ask for, from tables.
var decisiveLevels = []struct {
	confidence, looks, z float64
}{
	{0.95, 1, 1.959964},
	{0.95, 5, 2.575829},
	{0.99, 1, 2.575829},
	{0.90, 10, 2.575829},
	{0.80, 1, 1.281552},
}

// measuredAt is a row of a log-time with so many degrees of freedom that its intervals are those of a normal variable.
func measuredAt(m int, flops, y, se float64, samples int) point {
	p := point{row: -1, m: m, n: samples, flops: flops, us: estimate{y, se, 1e9}, folded: true}
	for k := range folds {
		p.without[k], p.of[k] = y, y
	}
	return p
}

// A row breaks a rule only when the whole of its interval lies above the bound, and keeps it when the whole of it lies below
// or reaches over by no more than marginalReach; the interval pays for all looks, at any level.
func TestHoldIsOnOneSideOfTheInterval(t *testing.T) {
	const margin, se, little = 0.1, 0.01, 0.0005
	for _, l := range decisiveLevels {
		cfg := Default()
		cfg.Confidence = l.confidence
		f := &evidence{prepared: &prepared{q: quantiles{}}, cfg: cfg, looks: l.looks}
		// How far over the bound an interval may reach, in logs, such that marginalReach of the row's time is lost there.
		reach := -math.Log1p(-marginalReach * math.Exp(margin))
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
				j := judgement{curve: &curve{points: []point{measuredAt(1, 0, c.y, se, cfg.MinSamples)}}}
				f.hold(&j, estimate{0, 0, 1e9}, margin)
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

// A row was measured wrongly only when the whole of its interval lies below what the peak allows and the tolerance, and is not when the
// whole of it lies above. Where bandwidth is known too, the same holds of rows that are too slow, on the other side.
func TestRooflineIsOnOneSideOfTheInterval(t *testing.T) {
	const m, se, little = 64, 0.01, 0.0005
	cfg := Default()
	f := &evidence{prepared: &prepared{q: quantiles{}}, cfg: cfg, looks: 1}
	const z = 1.959964
	series := results.Series{Key: syntheticKey, Peak: kernels.Peak{DType: kernels.BF16, FLOPS: 100e12, Origin: kernels.Measured}}
	ceiling := math.Log(syntheticKey.FLOPs(m) / 100e12 * 1e6)
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
			p := measuredAt(m, math.Log(syntheticKey.FLOPs(m)), c.y, se, cfg.MinSamples)
			p.seen = p.us
			rows := f.roofline(&curve{series: s, points: []point{p}})
			if j := rows[0]; !j.tested || j.broken != c.broken || j.kept != c.kept {
				t.Errorf("tested %v, broken %v, kept %v, expected %v and %v", j.tested, j.broken, j.kept, c.broken, c.kept)
			}
		})
	}
}

// A row is not clear of a smaller M that has too few samples to be held against, and would be the best if they are right:
// to be clear of it, the whole interval of its rate has to be above what that demands, at any level.
func TestMonotonicIsNotClearOfARival(t *testing.T) {
	const se, little = 0.01, 0.0005
	for _, l := range decisiveLevels {
		cfg := Default()
		cfg.Confidence = l.confidence
		f := &evidence{prepared: &prepared{q: quantiles{}}, cfg: cfg, looks: l.looks}
		rival := 1.5 - math.Log(cfg.Threshold) // in logs of rate, with its error
		demanded := 1.5 - marginalReach
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
				rows := f.monotonic(&curve{points: []point{
					measuredAt(1, 0, -1, 0.001, cfg.MinSamples), // sets the reference, far below
					measuredAt(2, 0, -(rival - se), se, cfg.MinSamples-1),
					measuredAt(3, 0, -c.rate, se, cfg.MinSamples),
				}})
				if j := rows[2]; !j.tested || j.broken || j.kept != c.kept {
					t.Errorf("tested %v, broken %v, kept %v, expected %v", j.tested, j.broken, j.kept, c.kept)
				}
			})
		}
	}
	// Where nothing sets a reference, the row is undecided below the rival, and unjudged above it.
	f := &evidence{prepared: &prepared{q: quantiles{}}, cfg: Default(), looks: 1}
	for rate, want := range map[float64]Verdict{math.Log(f.cfg.Threshold) + 0.001: Undecided, math.Log(f.cfg.Threshold) + 0.02: Unjudged} {
		rows := f.monotonic(&curve{points: []point{
			measuredAt(1, 0, 0, 0.01, f.cfg.MinSamples-1), measuredAt(2, 0, -rate, 0.01, f.cfg.MinSamples),
		}})
		if got := rows[1].verdict; got != want {
			t.Errorf("a rate of %v: %s, expected %s", rate, got, want)
		}
	}
}
