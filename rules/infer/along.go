package infer

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// The values of [rules.Config].Along besides names of dimensions.
const (
	// AlongAuto forms curves along M, and along another dimension where that compares far more rows.
	AlongAuto = "auto"
	AlongM    = "m"
)

const (
	// alongRows is the least number of rows of a curve along N or K that is formed without being asked for.
	// With fewer, products of a model that happen to share a dimension would be compared.
	alongRows = 6
	// alongRatio is how many times as many rows as along M such a curve must have, unless the rows have no
	// other M at all.
	alongRatio = 4
	// pairRows is the least number of rows of any other such curve: one that is asked for, or one along a
	// scale, whose proportions don't agree by chance.
	pairRows = 2
)

// AlongNames lists the values of [rules.Config].Along.
func AlongNames() []string {
	names := []string{AlongAuto, AlongM}
	for _, o := range kernels.Operations() {
		for _, d := range o.Along() {
			if !slices.Contains(names, d.Name) {
				names = append(names, d.Name)
			}
		}
	}
	return append(names, kernels.AlongScale)
}

// Along returns the data with rows moved to curves along other dimensions, as cfg asks. A row is on one curve
// only. Such a curve has a [results.SeriesKey] with Along, the value of the dimension in place of M, and the
// rows' own samples; [results.Case.Real] is the way back. The result shares everything else with d.
func (d Data) Along(cfg Basis) Data {
	if cfg.Along == AlongM {
		return d
	}
	p := pivot{series: d.Series, auto: cfg.Along == AlongAuto, partly: d.Asked, taken: map[place]bool{}, made: map[int][]results.Series{}}
	for _, g := range p.groups(cfg.Along) {
		p.take(g)
	}
	if len(p.taken) > 0 {
		d.Series = p.rest()
	}
	return d
}

// place is the position of a row: of its series, and in it.
type place struct{ series, row int }

// group is the rows that a curve along another dimension may have.
type group struct {
	key    results.SeriesKey
	places []place
	at     []int // the rows' coordinates, parallel to places
	least  int   // the fewest rows that make a curve
}

type pivot struct {
	series []results.Series
	auto   bool
	partly map[results.SeriesKey][]int
	taken  map[place]bool
	made   map[int][]results.Series // by the index of their first series
}

// few reports whether a series has so few Ms that a curve of n rows along another dimension serves it better.
func (p *pivot) few(s results.Series, n int) bool {
	return len(s.Rows) == 1 || alongRatio*len(s.Rows) < n
}

func (p *pivot) least(key results.SeriesKey) int {
	if p.auto && key.Along.Dimension != kernels.AlongScale {
		return alongRows
	}
	return pairRows
}

// groups lists the groups of rows along the dimension, or along each one, the largest first.
func (p *pivot) groups(along string) []*group {
	found := map[results.SeriesKey]*group{}
	var out []*group
	for i, s := range p.series {
		if !s.Key.OverM() || p.auto && (p.partly[s.Key] != nil || !p.few(s, len(p.series))) {
			continue
		}
		for _, key := range p.keys(s, along) {
			for j := range s.Rows {
				on, at := key(s.Rows[j].Case.M)
				g := found[on]
				if g == nil {
					g = &group{key: on, least: p.least(on)}
					found[on], out = g, append(out, g)
				}
				g.places, g.at = append(g.places, place{i, j}), append(g.at, at)
			}
		}
	}
	out = slices.DeleteFunc(out, func(g *group) bool { return len(g.places) < g.least })
	slices.SortStableFunc(out, func(a, b *group) int {
		return cmp.Or(cmp.Compare(len(b.places), len(a.places)), cmp.Compare(rank(a.key), rank(b.key)))
	})
	return out
}

// rank is the place of a curve's dimension among those of its operation. Among curves of equal length those
// along one dimension come first, so curves along another don't take rows from the middle of a grid.
func rank(key results.SeriesKey) int {
	dims := key.Operation.Along()
	i := slices.IndexFunc(dims, func(d kernels.Dim) bool { return d.Name == key.Along.Dimension })
	if i < 0 {
		return len(dims)
	}
	return i
}

// keys returns functions from an M of a series to a curve that its row may be on, and the row's coordinate.
func (p *pivot) keys(s results.Series, along string) (out []func(m int) (results.SeriesKey, int)) {
	key := s.Key
	for _, d := range key.Operation.Along() {
		x := *d.In(&key.Dims)
		if x == 0 || along != d.Name && !p.auto {
			continue
		}
		on := key
		*d.In(&on.Dims) = 0
		out = append(out, func(m int) (results.SeriesKey, int) {
			on.Along = kernels.Along{Dimension: d.Name, M: m}
			return on, x
		})
	}
	dims := key.Operation.Scaled()
	if dims != nil && (along == kernels.AlongScale || p.auto && len(s.Rows) == 1) {
		out = append(out, func(m int) (results.SeriesKey, int) {
			on, scale := key, m
			for _, d := range dims {
				scale = stats.GCD(scale, *d.In(&on.Dims))
			}
			for _, d := range dims {
				*d.In(&on.Dims) /= scale
			}
			on.Along = kernels.Along{Dimension: kernels.AlongScale, M: m / scale}
			return on, scale
		})
	}
	return out
}

// take makes a curve of the rows of a group that are not on another one.
func (p *pivot) take(g *group) {
	var places []int
	for i, at := range g.places {
		if !p.taken[at] && (!p.auto || p.few(p.series[at.series], len(g.places))) {
			places = append(places, i)
		}
	}
	if len(places) < g.least {
		return
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(g.at[a], g.at[b]) })
	first := g.places[places[0]].series
	s := p.series[first]
	s.Key, s.Rows = g.key, make([]results.Row, len(places))
	for i, at := range places {
		from := g.places[at]
		s.Rows[i] = p.series[from.series].Rows[from.row]
		s.Rows[i].Case.SeriesKey, s.Rows[i].Case.M = g.key, g.at[at]
		p.taken[from] = true
		first = min(first, from.series)
	}
	p.made[first] = append(p.made[first], s)
}

// rest lists all series: the curves made, each in place of its first one, and what is left of the others.
func (p *pivot) rest() []results.Series {
	var out []results.Series
	for i, s := range p.series {
		out = append(out, p.made[i]...)
		left := make([]results.Row, 0, len(s.Rows))
		for j, r := range s.Rows {
			if !p.taken[place{i, j}] {
				left = append(left, r)
			}
		}
		if s.Rows = left; len(left) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// Name is a row of the curve by its coordinate: "m4096", "n50257".
func (c *Curve) Name(at int) string { return c.Series.Key.Coordinate(at) }

// AxisWord is the curve's dimension in a text: "M", "N", "scale".
func (c *Curve) AxisWord() string { return c.Series.Key.AxisWord() }

// Distance is a distance along the curve in a text: "8 rows", "8".
func (c *Curve) Distance(n int) string {
	if c.Series.Key.OverM() {
		return phrase.Count(n, "row")
	}
	return strconv.Itoa(n)
}
