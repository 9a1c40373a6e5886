package main

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
)

// figures tell how good expectations are.
type figures struct {
	cases, times int
	near         int // of the times, those near the fastest
	// rms is the root mean square of how far expected times are from the measured ones that
	// are near the fastest, as logarithms.
	rms float64
	// mean and worst tell what picking by the expectation costs: the time of the pick over
	// the fastest that was measured, less 1.
	mean, worst float64
}

// regret is the logarithm of the time of what is expected to be fastest over the fastest.
func (g *group) regret(expected []float64) float64 {
	pick := 0
	for i := range g.times {
		if expected[i] < expected[pick] {
			pick = i
		}
	}
	return g.times[pick].log - g.best()
}

// assess makes the figures of the groups that are held out, or of those that are not. moved
// tells which times of a group count; nil stands for all.
func assess(groups []*group, expected [][]float64, moved [][]bool, held bool) figures {
	var f figures
	square, total := 0., 0.
	for i, g := range groups {
		if g.held != held {
			continue
		}
		f.cases++
		for j, t := range g.times {
			if moved != nil && !moved[i][j] {
				continue
			}
			f.times++
			if t.near {
				f.near++
				square += (expected[i][j] - t.log) * (expected[i][j] - t.log)
			}
		}
		r := math.Expm1(g.regret(expected[i]))
		total += r
		f.worst = max(f.worst, r)
	}
	if f.near > 0 {
		f.rms = math.Sqrt(square / float64(f.near))
	}
	if f.cases > 0 {
		f.mean = total / float64(f.cases)
	}
	return f
}

// joined puts the groups of one case together, as auto chooses among all families. The
// times of a case are in the order of its groups.
func joined(groups []*group, expected [][]float64) (all []*group, logs [][]float64) {
	at := map[candidates.Case]int{}
	for i, g := range groups {
		n, ok := at[g.c]
		if !ok {
			n = len(all)
			at[g.c] = n
			all, logs = append(all, &group{c: g.c, held: g.held}), append(logs, nil)
		}
		all[n].times = append(all[n].times, g.times...)
		logs[n] = append(logs[n], expected[i]...)
	}
	for _, g := range all {
		best := g.best()
		for i := range g.times {
			g.times[i].near = g.times[i].log-best <= math.Log(farAway)
		}
	}
	return all, logs
}
