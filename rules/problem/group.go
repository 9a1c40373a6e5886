package problem

import (
	"cmp"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// item is a finding, or a proven remedy of a row.
type item struct {
	place    Place
	series   results.SeriesKey
	from, to int
	finding  *rules.Finding
	remedies []rules.Remedy // of a stretch: its proofs
	stake    float64
	part     int // its group before groups were joined
}

// Smaller products are all memory-bound.
const narrowest = 16

// A dip within a slow curve of more than an octave is a separate problem with its own remedy.
func isWide(from, to int) bool { return to > max(narrowest, 2*from) }

type group struct {
	items    []*item
	from, to int
}

// join adds the evidence of o to g.
func (g *group) join(o *group) {
	g.items, g.from, g.to = append(g.items, o.items...), min(g.from, o.from), max(g.to, o.to)
}

type row struct {
	series results.SeriesKey
	m      int
}

func (f *finder) items(audit *rules.Audit, found *remedy.Result) []*item {
	var out []*item
	waived := map[row]bool{}
	for i := range audit.Findings {
		d := &audit.Findings[i]
		if d.Status == rules.Waived {
			for _, m := range d.Among(f.between(d.Series, d.FromM, d.ToM)) {
				waived[row{d.Series, m}] = true
			}
			continue
		}
		out = append(out, &item{place: f.place(d.Series), series: d.Series, from: d.FromM, to: d.ToM, finding: d, stake: d.StakeUS})
	}
	if found == nil {
		return out
	}
	found = found.Whole()
	served := map[row]bool{}
	for _, s := range found.Stretches {
		it := &item{place: f.place(s.Series), series: s.Series, from: s.FromM, to: s.ToM, stake: s.StakeUS}
		for _, p := range s.Proofs {
			if p.Pays && !waived[row{s.Series, p.M}] && f.applies(s.Series.Device, p.Kind, p.Kernel) {
				it.remedies = append(it.remedies, p)
			}
		}
		if len(it.remedies) == 0 {
			continue
		}
		for _, m := range s.Ms {
			served[row{s.Series, m}] = true
		}
		out = append(out, it)
	}
	for _, r := range found.Splits {
		if at := (row{r.Series, r.M}); r.Pays && !served[at] && !waived[at] && f.applies(r.Series.Device, r.Kind, r.Kernel) {
			out = append(out,
				&item{place: f.place(r.Series), series: r.Series, from: r.M, to: r.M, remedies: []rules.Remedy{r.Remedy}, stake: r.StakeUS})
		}
	}
	return out
}

// An engine can apply all remedies but kernels that it lacks.
func (f *finder) applies(device string, kind rules.RemedyKind, kernel string) bool {
	return kind != rules.RemedyOther && kind != rules.RemedyAlgorithm || f.engine(device, kernel)
}

// Evidence meets at one place with one kind of span.
type bucket struct {
	Place
	wide bool
}

func (f *finder) group(items []*item) []*group {
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	open := map[bucket][]*group{}
	var all []*group
	for _, it := range items {
		b := bucket{it.place, isWide(it.from, it.to)}
		var joined *group
		live := open[b][:0]
		for _, g := range open[b] {
			switch {
			case g.to < it.from:
				continue
			case !f.meets(g, it):
			case joined == nil:
				joined = g
			default: // it joins two
				joined.join(g)
				g.items = nil
				continue
			}
			live = append(live, g)
		}
		if joined == nil {
			joined = &group{from: it.from}
			live, all = append(live, joined), append(all, joined)
		}
		joined.items, joined.to = append(joined.items, it), max(joined.to, it.to)
		open[b] = live
	}
	return slices.DeleteFunc(all, func(g *group) bool { return len(g.items) == 0 })
}

// adjoin joins nearby groups, up to an octave: adjacent slow sizes have one fix. Groups of one [kind] keep
// every size's level of evidence.
func (f *finder) adjoin(groups []*group) []*group {
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	type line struct {
		results.SeriesKey
		kind kind
	}
	last := map[line]*group{}
	var all []*group
	for i, g := range groups {
		for _, it := range g.items {
			it.part = i
		}
		if isWide(g.from, g.to) {
			all = append(all, g)
			continue
		}
		of, into := f.problem(g).kind(), g
		for _, it := range g.items {
			if before := last[line{it.series, of}]; before != nil && before.to < g.from && !isWide(before.from, g.to) &&
				f.near(it.series, before.to, g.from) {
				into = before
				into.join(g)
				break
			}
		}
		for _, it := range g.items {
			if before := last[line{it.series, of}]; before == nil || before.to < into.to {
				last[line{it.series, of}] = into
			}
		}
		if into == g {
			all = append(all, g)
		}
	}
	return all
}

// unite makes the problems of groups. Groups with one proven remedy are one problem: they have one fix.
func (f *finder) unite(groups []*group) []*Problem {
	first := map[row]int{} // by the row of a proven remedy
	problems, of := []*Problem{}, []*group{}
	for _, g := range groups {
		p := f.problem(g)
		at := row{p.Series, p.M}
		if i, ok := first[at]; ok && p.Proven() {
			of[i].join(g)
			problems[i] = f.problem(of[i])
			continue
		}
		if p.Proven() {
			first[at] = len(of)
		}
		problems, of = append(problems, p), append(of, g)
	}
	return problems
}

// near reports whether no measured size is between two sizes, or less than a sixteenth of M is. Where a
// library changes kernels from size to size, slow and fast sizes alternate.
func (f *finder) near(key results.SeriesKey, from, to int) bool {
	return 16*(to-from) <= from || len(f.between(key, from+1, to-1)) == 0
}

// Overlapping evidence meets with the same kernel, or two that launch the same.
func (f *finder) meets(g *group, it *item) bool {
	return slices.ContainsFunc(g.items, func(o *item) bool {
		if o.from > it.to || it.from > o.to {
			return false
		}
		return o.series.Kernel == it.series.Kernel ||
			f.launchSame(o.series, it.series, it.worst()) && f.launchSame(o.series, it.series, o.worst())
	})
}

func (i *item) worst() int {
	if i.finding != nil {
		return i.finding.WorstM
	}
	best := i.remedies[0]
	for _, r := range i.remedies[1:] {
		if r.Gain.Mid > best.Gain.Mid {
			best = r
		}
	}
	return best.M
}

// launchSame compares names, or tile and split for two libraries in one package with different naming.
func (f *finder) launchSame(a, b results.SeriesKey, m int) bool {
	x, y := f.cases[a][m], f.cases[b][m]
	if x.Label != "" && x.Label == y.Label {
		return true
	}
	s, t := x.Launch.Tile, y.Launch.Tile // kernel names do not include the depth of a tile
	return kernels.ChooserOf(a.Kernel) == kernels.ChooserOf(b.Kernel) && s[0] > 0 && s[0] == t[0] && s[1] == t[1] &&
		max(1, x.Launch.Split) == max(1, y.Launch.Split)
}

func (f *finder) between(key results.SeriesKey, first, last int) []int {
	ms := f.ms[key]
	from, _ := slices.BinarySearch(ms, first)
	to, _ := slices.BinarySearch(ms, last+1)
	return ms[from:to]
}
