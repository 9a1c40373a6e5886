package diff

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

const (
	// betweenProcesses is the standard deviation of a whole series between two processes on one machine, as a
	// share of the time, if each side is one process: 0.5 % for each. Two quick runs on a freshly started
	// H100 differed by 1.5 % in whole series, with no case slower by 3 %.
	betweenProcesses = 0.007
	// disturbedApart is the largest difference in the shares of disturbed samples of two comparable runs.
	// disturbedLeast is the least number of samples for that check.
	disturbedApart, disturbedLeast = 0.15, 30
)

// Disturbed counts the samples of a run that were disturbed.
type Disturbed struct {
	Samples   int `json:"samples"`
	Disturbed int `json:"disturbed"`
}

// CountDisturbed counts the disturbed samples of a run's sweep.
func CountDisturbed(data infer.Data) (d Disturbed) {
	for _, s := range data.Series {
		for i := range s.Rows {
			d.count(s.Rows[i].Samples)
		}
	}
	return d
}

func (d *Disturbed) count(samples []results.Sample) {
	for j := range samples {
		if s := &samples[j]; s.Usable() {
			d.Samples++
			if s.Disturbance != "" {
				d.Disturbed++
			}
		}
	}
}

// Share is the share of disturbed samples, 0 without samples.
func (d Disturbed) Share() float64 { return float64(d.Disturbed) / math.Max(1, float64(d.Samples)) }

func disturbed(curves []*infer.Curve) (d Disturbed) {
	for _, c := range curves {
		for i := range c.Points {
			if row := c.Points[i].Row; row >= 0 {
				d.count(c.Series.Rows[row].Samples)
			}
		}
	}
	return d
}

// MoreDisturbed reports whether so many more samples than the usual share were disturbed that the run's times
// are not compared.
func (d Disturbed) MoreDisturbed(usual float64) bool {
	return d.Samples >= disturbedLeast && d.Share() > usual+disturbedApart
}

// DisturbanceText explains why times of two runs with different disturbance are not compared; empty if they
// are compared.
func DisturbanceText(a, b Disturbed) string {
	if a.Samples < disturbedLeast || b.Samples < disturbedLeast || math.Abs(a.Share()-b.Share()) <= disturbedApart {
		return ""
	}
	return fmt.Sprintf("other load disturbed one run more: %.0f %% of the samples of A and %.0f %% of B", 100*a.Share(), 100*b.Share())
}

// Disturber names the run with the larger share of disturbed samples, A or B: the run to measure again.
func (d *Result) Disturber() string {
	if d.DisturbedA.Share() > d.DisturbedB.Share() {
		return "A"
	}
	return "B"
}

func (d *Result) compareDisturbance(pairs []curvePair, cfg rules.Config) {
	var a, b []*infer.Curve
	for _, pair := range pairs {
		a, b = append(a, pair.a), append(b, pair.b)
	}
	inA, inB := disturbed(a), disturbed(b)
	if inA.Disturbed+inB.Disturbed > 0 {
		d.DisturbedA, d.DisturbedB = inA, inB
	}
	why := DisturbanceText(inA, inB)
	switch {
	case why == "":
	case cfg.Diff.DespiteDisturbance:
		d.Warnings = append(d.Warnings, rules.Warning{Subject: "runs", Text: why})
	default:
		d.Disturbance = why
		d.Invalid = cmp.Or(d.Invalid, why)
	}
}

// compareOrder tests whether the time of measurement explains the ratios, in runs that measured rows one
// after the other.
func (d *Result) compareOrder(pairs []curvePair, a, b infer.Data) {
	if len(a.Sentinels) > 0 || len(b.Sentinels) > 0 {
		return
	}
	for _, pair := range pairs {
		for _, side := range []struct {
			c    *infer.Curve
			name string
		}{{pair.a, d.A}, {pair.b, d.B}} {
			at, fixed := infer.Places(side.c.Series)
			if _, byM := infer.Ordered(side.c.Series); !fixed || byM {
				continue
			}
			var y, places []float64
			for j := range pair.b.Points {
				if i, ok := pair.a.At(pair.b.Points[j].M); ok {
					row := pair.b.Points[j].Row
					if side.c == pair.a {
						row = pair.a.Points[i].Row
					}
					if row >= 0 {
						y, places = append(y, pair.b.Points[j].US.Y-pair.a.Points[i].US.Y), append(places, at[row])
					}
				}
			}
			if infer.AlikeInTime(y, places) { // ratios need no line through M
				d.Invalid = cmp.Or(d.Invalid,
					fmt.Sprintf("%s measured rows one after the other, and the ratios of consecutive rows are correlated: the speed of "+
						"the machine changed between them", side.name))
				return
			}
		}
	}
}
