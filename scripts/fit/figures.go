package main

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// figures measure the quality of expected times.
type figures struct {
	Cases, Times int
	Near         int // number of times near the fastest
	// RMS is the root mean square of the log error of expected times near the fastest.
	RMS float64
	// Mean and Worst are the cost of picking by expected time: the pick's time over the fastest measured,
	// less 1.
	Mean, Worst float64
	Unmeasured  int // picks that were not measured
}

// regret returns the log ratio of the pick's time to the fastest. An unmeasured pick, which was not measured
// because it seemed hopeless, counts as the slowest measured one of its family.
func (g *group) regret(e expectation) float64 {
	return g.times[e.pick].log - g.best()
}

// rival is the other families' pick for a case, as logarithms of seconds.
type rival struct {
	least float64 // least expected time of their candidates
	log   float64 // measured time of that candidate
	best  float64 // that was measured
}

// rivals returns each group's rival by a card's models. A group that is alone in its case has a rival that is
// never picked.
func (s *samples) rivals(groups []*group, card *calibration.Card) ([]rival, error) {
	expected, err := s.expected(s.groups, card)
	if err != nil {
		return nil, err
	}
	of := map[sized][]int{}
	for i, g := range s.groups {
		of[g.c] = append(of[g.c], i)
	}
	all := make([]rival, len(groups))
	for i, g := range groups {
		r := rival{least: math.Inf(1), best: math.Inf(1)}
		for _, j := range of[g.c] {
			other := s.groups[j]
			if other == g {
				continue
			}
			if e := expected[j]; e.least < r.least {
				r.least, r.log = e.least, other.best()+other.regret(e)
			}
			r.best = min(r.best, other.best())
		}
		all[i] = r
	}
	return all, nil
}

// regretBeside returns the log ratio of auto's pick, from this group or its rival, to the fastest of both.
func (g *group) regretBeside(r rival, e expectation) float64 {
	picked := g.best() + g.regret(e)
	if r.least < e.least {
		picked = r.log
	}
	return picked - min(g.best(), r.best)
}

// assess computes the figures of held-out groups, or of the others. moved marks the times that count; nil
// means all.
func assess(groups []*group, expected []expectation, moved [][]bool, held bool) figures {
	var f figures
	square, total := 0., 0.
	for i, g := range groups {
		if g.held != held {
			continue
		}
		f.Cases++
		for j, t := range g.times {
			if moved != nil && !moved[i][j] {
				continue
			}
			f.Times++
			if t.near {
				f.Near++
				square += (expected[i].logs[j] - t.log) * (expected[i].logs[j] - t.log)
			}
		}
		r := math.Expm1(g.regret(expected[i]))
		total += r
		if expected[i].unmeasured {
			f.Unmeasured++
		}
		f.Worst = max(f.Worst, r)
	}
	if f.Near > 0 {
		f.RMS = math.Sqrt(square / float64(f.Near))
	}
	if f.Cases > 0 {
		f.Mean = total / float64(f.Cases)
	}
	return f
}

// joined merges the groups of each case, because auto chooses among all families.
func joined(groups []*group, expected []expectation) (all []*group, together []expectation) {
	at := map[sized]int{}
	for i, g := range groups {
		n, ok := at[g.c]
		if !ok {
			n = len(all)
			at[g.c] = n
			all, together = append(all, &group{c: g.c, held: g.held}), append(together, expectation{least: math.Inf(1)})
		}
		e := &together[n]
		if expected[i].least < e.least {
			e.least, e.pick, e.unmeasured = expected[i].least, len(all[n].times)+expected[i].pick, expected[i].unmeasured
		}
		all[n].times = append(all[n].times, g.times...)
		e.logs = append(e.logs, expected[i].logs...)
	}
	for _, g := range all {
		best := g.best()
		for i := range g.times {
			g.times[i].near = g.times[i].log-best <= math.Log(farAway)
		}
	}
	return all, together
}
