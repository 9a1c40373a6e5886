package sweep

import (
	"cmp"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

type worth struct {
	m int
	// traffic is the traffic of the rows that it explains, or 0 if unknown.
	traffic float64
	// rank is 0 for the ends of the rows with one kind of launch, 1 for the middle, 2 for the middles of the
	// halves, etc.
	rank int
	// covers is the number of Ms with this kind of launch.
	covers int
}

// compare sorts by most traffic, then lowest rank within a kind.
func (w worth) compare(o worth) int {
	return cmp.Or(cmp.Compare(o.traffic, w.traffic), cmp.Compare(w.rank, o.rank))
}

// seedWorth puts the ends of each kind of launch first, then the Ms that halve the widest gaps; kinds with
// more Ms come first. With known traffic, the ends of a kind count for all its traffic and a middle for its
// gap's traffic.
func seedWorth(s PlannedSeries, seeds Batches, choices results.Choices, traffic results.Traffic) []worth {
	covered := map[results.LaunchKind]int{}
	for _, c := range choices {
		covered[c.Kind] += c.To - c.From + 1
	}
	of := map[results.LaunchKind]Batches{}
	for _, m := range seeds {
		kind, _ := choices.At(m)
		of[kind] = append(of[kind], m)
	}
	loads := loadsOf(s, choices, traffic)
	var out []worth
	for kind, ms := range of {
		for i, h := range halvings(len(ms)) {
			w := worth{m: ms[i], rank: h.rank, covers: covered[kind]}
			if h.rank == 0 {
				w.traffic = loads[kind].all()
			} else {
				w.traffic = loads[kind].between(ms[h.from], ms[h.to])
			}
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b worth) int {
		return cmp.Or(a.compare(b), cmp.Compare(b.covers, a.covers), cmp.Compare(a.m, b.m))
	})
	return out
}

// load is the traffic of rows, ascending in M: sum[i] is the total of the first i+1.
type load struct {
	ms  Batches
	sum []float64
}

// loadsOf returns the traffic of a series' rows by kind of launch; empty if unknown.
func loadsOf(s PlannedSeries, choices results.Choices, traffic results.Traffic) map[results.LaunchKind]*load {
	if len(traffic) == 0 {
		return nil
	}
	out := map[results.LaunchKind]*load{}
	for _, m := range s.Ms {
		kind, _ := choices.At(m)
		l := out[kind]
		if l == nil {
			l = &load{}
			out[kind] = l
		}
		l.ms, l.sum = append(l.ms, m), append(l.sum, l.all()+traffic.Weight(m))
	}
	return out
}

func (l *load) all() float64 {
	if l == nil || len(l.sum) == 0 {
		return 0
	}
	return l.sum[len(l.sum)-1]
}

func (l *load) between(from, to int) float64 {
	if l == nil {
		return 0
	}
	upTo := func(m int) float64 {
		if i, _ := slices.BinarySearch(l.ms, m); i > 0 {
			return l.sum[i-1]
		}
		return 0
	}
	return upTo(to+1) - upTo(from)
}

type halving struct{ rank, from, to int }

// halvings ranks n places: both ends 0, the middle 1, the middles of the halves 2.
func halvings(n int) []halving {
	out := make([]halving, n)
	var halve func(from, to, rank int)
	halve = func(from, to, rank int) {
		if to-from < 2 {
			return
		}
		middle := from + (to-from)/2
		out[middle] = halving{rank, from, to}
		halve(from, middle, rank+1)
		halve(middle, to, rank+1)
	}
	halve(0, n-1, 1)
	return out
}

// waiting lists the cases that are measured step by step, the most informative first; for equal worth, series
// alternate.
func (p *Plan) waiting(seeds Seeds, choices map[results.SeriesKey]results.Choices) []results.Case {
	type placed struct {
		worth
		turn int
		c    results.Case
	}
	var all []placed
	for _, s := range p.Series {
		var rows []worth
		switch {
		case s.Infer:
			rows = seedWorth(s, seeds[s.SeriesKey], choices[s.SeriesKey], p.trafficOf(s.Subject))
		case p.staged():
			traffic := p.trafficOf(s.Subject)
			for i, h := range halvings(len(s.Ms)) {
				w := worth{m: s.Ms[i], traffic: traffic.Weight(s.Ms[i])}
				if p.Spread {
					w.rank = h.rank
				}
				rows = append(rows, w)
			}
			if len(p.Recorded) > 0 || p.Spread {
				slices.SortStableFunc(rows, worth.compare)
			}
		}
		turn := 0
		for i, w := range rows {
			if i > 0 && w.compare(rows[i-1]) != 0 {
				turn = 0
			}
			all = append(all, placed{w, turn, s.Case(w.m)})
			turn++
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Or(a.compare(b.worth), cmp.Compare(a.turn, b.turn)) })
	out := make([]results.Case, len(all))
	for i, r := range all {
		out[i] = r.c
	}
	return out
}

func (p *Plan) byTraffic(cases []results.Case) {
	of := map[kernels.Subject]results.Traffic{}
	for _, c := range cases {
		if _, ok := of[c.Subject]; !ok {
			of[c.Subject] = p.trafficOf(c.Subject)
		}
	}
	slices.SortStableFunc(cases, func(a, b results.Case) int {
		return cmp.Compare(of[b.Subject].Weight(b.M), of[a.Subject].Weight(a.M))
	})
}

// staged reports whether the whole plan is measured step by step.
func (p *Plan) staged() bool {
	return (len(p.Traffic)+len(p.Recorded) > 0 || p.Spread) && p.Step > 0
}
