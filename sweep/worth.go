package sweep

import (
	"cmp"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// worth is what a row tells that waits to be measured.
type worth struct {
	m int
	// traffic is that of the rows that it tells of, 0 of each row where nothing is known of it.
	traffic float64
	// rank is 0 of the ends of the rows that one kind of launch runs, 1 of the middle between
	// them, 2 of the middles of what that leaves, and so on.
	rank int
	// covers is at how many Ms the kind runs.
	covers int
}

// compare puts first what tells most: where most traffic is, then what stands before the others of
// its kind.
func (w worth) compare(o worth) int {
	return cmp.Or(cmp.Compare(o.traffic, w.traffic), cmp.Compare(w.rank, o.rank))
}

// seedWorth orders the seeds of a series so that the first ones tell most: of each kind of
// launch the ends, then what halves the widest gaps, of all kinds alike; kinds that run at more
// Ms come first. Where the traffic is known, the ends of a kind tell of all its traffic and what
// halves a gap of the gap's, and the most comes first.
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

// load is the traffic of rows, ascending in M: sum[i] is that of the first i+1 of them.
type load struct {
	ms  Batches
	sum []float64
}

// loadsOf are the traffic of the rows of a series by what runs there; none where nothing is
// known of it.
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

// between is the traffic of the rows from one to another, both included.
func (l *load) between(from, to int) float64 {
	if l == nil {
		return 0
	}
	upTo := func(m int) float64 { // of the rows below m
		if i, _ := slices.BinarySearch(l.ms, m); i > 0 {
			return l.sum[i-1]
		}
		return 0
	}
	return upTo(to+1) - upTo(from)
}

// halving is the place of a row among those of its kind: it halves what lies between two others.
type halving struct{ rank, from, to int }

// halvings ranks n places: both ends 0, the middle 1, the middles of what that leaves 2.
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

// waiting lists the cases of a plan that are taken in step by step, those first that tell most;
// of equal worth, those of all series in turn. They are the seeds and, in a plan that is staged,
// the rows of series that are not inferred.
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
			rows = seedWorth(s, seeds[s.SeriesKey], choices[s.SeriesKey], p.Traffic)
		case p.staged():
			for _, m := range s.Ms {
				rows = append(rows, worth{m: m, traffic: p.Traffic.Weight(m)})
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

// byTraffic orders cases that a designer asks for: where most traffic is comes first.
func (p *Plan) byTraffic(cases []results.Case) {
	slices.SortStableFunc(cases, func(a, b results.Case) int {
		return cmp.Compare(p.Traffic.Weight(b.M), p.Traffic.Weight(a.M))
	})
}

// staged says whether all that the plan measures is taken in step by step, in the order of the
// traffic.
func (p *Plan) staged() bool { return len(p.Traffic) > 0 && p.Step > 0 }
