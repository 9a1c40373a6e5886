package fleet

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules"
)

const (
	// absurd is from which factor on a run is set aside before anything is asked: a card at its lowest clock is ten times as
	// slow, and what lies beyond is no state of a card but a measurement that went wrong. Among few runs it would hide all others.
	absurd = 30
	// leastMiddle is from how many runs of a case on it can be said which of them is the absurd one.
	leastMiddle = 3
)

// setAside takes out the processes whose times are absurd beside those of all processes of the model, and tells of each: in a warning, or
// as a file of which nothing is used where its card has no other run. processes are ordered by their models.
func setAside(processes []*process, cases int) (kept []*process, warnings []rules.Warning, unread []Unread) {
	kept = make([]*process, 0, len(processes))
	type aside struct {
		process *process
		ratio   float64
	}
	var far []aside
	left := map[string]bool{}
	for from := 0; from < len(processes); {
		to := from
		for to < len(processes) && processes[to].model == processes[from].model {
			to++
		}
		middle := middles(processes[from:to], cases)
		for _, p := range processes[from:to] {
			if ratio := p.beside(middle); math.Abs(ratio) > math.Log(absurd) {
				far = append(far, aside{p, ratio})
				continue
			}
			kept, left[p.card] = append(kept, p), true
		}
		from = to
	}
	for _, x := range far {
		times := fmt.Sprintf("%.0f times", math.Exp(x.ratio))
		if x.ratio < 0 {
			times = fmt.Sprintf("1/%.0f times", math.Exp(-x.ratio))
		}
		text := fmt.Sprintf("%s takes %s as long as the runs of its model do in the middle: the run is set aside", x.process.device, times)
		if left[x.process.card] {
			warnings = append(warnings, rules.Warning{Subject: x.process.path, Text: text})
		} else {
			unread = append(unread, Unread{x.process.path, text})
		}
	}
	return kept, warnings, unread
}

// middles are the medians over processes of the times of each case, logs of microseconds; NaN for a case of fewer than leastMiddle.
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

// beside is the median over its cases of how far a process lies above the middles, in logs; 0 where nothing can be said.
func (p *process) beside(middle []float32) float64 {
	var v []float64
	for i := range p.cases {
		if x := p.cases[i].seen - middle[p.cases[i].at]; x == x {
			v = append(v, float64(x))
		}
	}
	if len(v) == 0 {
		return 0
	}
	return median(v)
}
