package fleet

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// A run off by more than this factor is set aside. A card at its lowest clock is ten times as slow;
	// anything beyond is a failed measurement, which would hide all other differences.
	absurd = 30
	// leastMiddle is the minimum number of runs of a case to identify an absurd one.
	leastMiddle = 3
)

// setAside removes processes with absurd times. Each gets a warning, or an entry in unread if its card has no
// other run. processes are ordered by model.
func setAside(processes []*process, cases int) (kept []*process, warnings []rules.Warning, unread []Unread) {
	kept = make([]*process, 0, len(processes))
	type aside struct {
		process *process
		ratio   float64
	}
	var far []aside
	left := map[string]bool{}
	for own := range byModel(processes) {
		middle := middles(own, cases)
		for _, p := range own {
			if ratio := p.beside(middle); math.Abs(ratio) > math.Log(absurd) {
				far = append(far, aside{p, ratio})
				continue
			}
			kept, left[p.card] = append(kept, p), true
		}
	}
	for _, x := range far {
		times := fmt.Sprintf("%.0f times", math.Exp(x.ratio))
		if x.ratio < 0 {
			times = fmt.Sprintf("1/%.0f times", math.Exp(-x.ratio))
		}
		text := fmt.Sprintf("%s takes %s as long as the median run of its model: the run is excluded", x.process.device, times)
		if left[x.process.card] {
			warnings = append(warnings, rules.Warning{Subject: x.process.path, Text: text})
		} else {
			unread = append(unread, Unread{x.process.path, text})
		}
	}
	return kept, warnings, unread
}

// middles are the medians over processes of each case's log time; NaN for fewer than leastMiddle.
func middles(processes []*process, cases int) []float32 {
	out, ends := make([]float32, cases), make([]int, cases+1)
	for _, p := range processes {
		for i := range p.cases {
			ends[p.cases[i].at+1]++
		}
	}
	for c := range cases {
		ends[c+1] += ends[c]
	}
	all, next := make([]float32, ends[cases]), slices.Clone(ends)
	for _, p := range processes {
		for i := range p.cases {
			at := p.cases[i].at
			all[next[at]] = p.cases[i].seen
			next[at]++
		}
	}
	for c := range cases {
		v := all[ends[c]:ends[c+1]]
		if out[c] = float32(math.NaN()); len(v) >= leastMiddle {
			slices.Sort(v)
			out[c] = v[len(v)/2]
		}
	}
	return out
}

// beside is a process's median distance from middle, in logs; 0 if unknown.
func (p *process) beside(middle []float32) float64 {
	var v []float64
	for i := range p.cases {
		if x := p.cases[i].seen - middle[p.cases[i].at]; x == x {
			v = append(v, float64(x))
		}
	}
	return stats.Median(v)
}
