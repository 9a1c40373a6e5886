package sweep

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// neighbourShare is a neighbor's worth relative to its product: it comes before products that take a quarter
// of its time.
const neighbourShare = 1. / 4

// Multiples of padSteps are tried as pads: rows of a fragment, half a tile, tiles of 128 and 256.
var padSteps = []int{16, 64, 128, 256}

// The largest multiple of each below M is a part of a split.
var splitSteps = []int{64, 128, 256}

// mostPad is the maximum ratio of a pad to M; larger ones rarely pay.
const mostPad = 1.5

// neighbours returns the Ms used by pads and splits of m, ascending.
func neighbours(m int) Batches {
	var out Batches
	for _, step := range padSteps {
		if to := (m/step + 1) * step; to <= step || float64(to) <= mostPad*float64(m) {
			out = append(out, to)
			if to == step {
				break // larger tiles stay largely empty
			}
		}
	}
	split := func(part int) {
		if part > 0 && part < m {
			out = append(out, part, m-part)
		}
	}
	for _, step := range splitSteps {
		split((m - 1) / step * step)
	}
	half := 1
	for 2*half < m {
		half *= 2
	}
	if m > splitSteps[0] {
		split(half)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(n int) bool { return n > results.MaxM })
}

func nearestPad(m int) int {
	all := neighbours(m)
	if at := sort.SearchInts(all, m+1); at < len(all) {
		return all[at]
	}
	return 0
}

func withNeighbours(m int) Batches {
	out := neighbours(m)
	at := sort.SearchInts(out, m)
	if at < len(out) && out[at] == m {
		return out
	}
	return slices.Insert(out, at, m)
}

func (p *Plan) expect(est *Predictor) {
	of := map[results.RecordedKey]PlannedSeries{} // by weights, for any M
	for _, s := range p.Series {
		key := results.RecordedKey{DType: s.DType, N: s.N, K: s.K, Products: s.Products}
		untyped := key
		untyped.DType = ""
		for _, k := range []results.RecordedKey{key, untyped} {
			if _, ok := of[k]; !ok {
				of[k] = s
			}
		}
	}
	for i := range p.Recorded {
		r := &p.Recorded[i]
		weights := r.RecordedKey
		weights.M = 0
		s, ok := of[weights]
		if r.NoKernel = !ok; !ok {
			subject := kernels.Product(cmp.Or(r.DType, kernels.FP32), r.N, r.K)
			subject.Products = r.Products
			s = PlannedSeries{SeriesKey: results.SeriesKey{Subject: subject}}
			if len(p.Series) > 0 {
				s.Device = p.Series[0].Device
			}
		}
		r.ExpectedUS = 1e6 * est.Launch(s.Case(r.M))
	}
}

// trafficOf returns the worth of each M, or nil if unknown: its frequency, or in a recorded workload the
// product's time. The nearest pad has the same worth, since a product without comparison stays undecided;
// other neighbors have a part.
func (p *Plan) trafficOf(s kernels.Subject) results.Traffic {
	if len(p.Recorded) == 0 {
		return p.Traffic
	}
	own := p.Recorded.Worth(s)
	weights := map[int]float64{}
	for _, l := range own {
		if l.Weight == 0 {
			continue
		}
		weights[l.M] = max(weights[l.M], l.Weight)
		for _, n := range neighbours(l.M) {
			weights[n] = max(weights[n], neighbourShare*l.Weight)
		}
		if pad := nearestPad(l.M); pad > 0 {
			weights[pad] = max(weights[pad], l.Weight)
		}
	}
	return results.TrafficAt(weights)
}

// ranked orders the cases of a recorded workload by explained time per second of measuring. The lead comes
// first: the product with the most time and its nearest pad, for comparison.
func (p *Plan) ranked(est *Predictor) (cases []results.Case, lead int) {
	type row struct {
		c     results.Case
		worth float64 // for a second of measuring
	}
	var rows []row
	heaviest, leader, pad := 0., results.Case{}, 0
	for _, s := range p.Series {
		own, traffic := p.Recorded.Worth(s.Subject), p.trafficOf(s.Subject)
		for _, m := range s.Ms {
			c := s.Case(m)
			rows = append(rows, row{c, traffic.Weight(m) / est.Block(p, c).Seconds()})
			if w := own.Weight(m); w > heaviest {
				heaviest, leader, pad = w, c, nearestPad(m)
			}
		}
	}
	leads := func(r row) int {
		switch {
		case heaviest == 0 || r.c.SeriesKey != leader.SeriesKey:
			return 2
		case r.c.M == leader.M:
			return 0
		case r.c.M == pad:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(leads(a), leads(b)), cmp.Compare(b.worth, a.worth))
	})
	for _, r := range rows {
		if leads(r) < 2 {
			lead++
		}
		cases = append(cases, r.c)
	}
	return cases, lead
}

// keepWorth keeps the lead and as many of the following cases as fit.
func (p *Plan) keepWorth(est *Predictor, fits func() bool) {
	rows, lead := p.ranked(est)
	of := map[results.SeriesKey]int{}
	for i, s := range p.Series {
		of[s.SeriesKey] = i
	}
	keep := func(n int) {
		for i := range p.Series {
			p.Series[i].Ms = nil
		}
		for _, c := range rows[:n] {
			s := &p.Series[of[c.SeriesKey]]
			s.Ms = append(s.Ms, c.M)
		}
		for i := range p.Series {
			slices.Sort(p.Series[i].Ms)
		}
	}
	n := sort.Search(len(rows), func(n int) bool {
		keep(n + 1)
		return !fits()
	})
	keep(max(1, lead, n))
	p.Series = slices.DeleteFunc(p.Series, func(s PlannedSeries) bool { return len(s.Ms) == 0 })
}
