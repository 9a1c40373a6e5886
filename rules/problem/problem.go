// Package problem turns the findings and remedies of a run into problems, one per fix.
//
// A problem is one product on one kernel over one stretch of M, whichever rules found it, with the best
// proven remedy. Every finding that is confirmed, unconfirmed or suspected is evidence of exactly one
// problem.
package problem

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Place is where a problem is: everything in a series key except the kernel and the card's number.
type Place struct {
	// Device is the model of the device, or its id if the model is unknown.
	Device string `json:"device"`
	kernels.Subject
	Regime     results.Regime `json:"regime"`
	Threads    int            `json:"threads,omitempty"`
	PackInside bool           `json:"pack_inside,omitempty"`
}

// Problem is one thing to fix.
type Problem struct {
	// Number counts the problems of a run by worth, from 1.
	Number int `json:"number"`
	Place
	// Kernels lists the affected kernels, sorted. There are several if libraries launch the same kernel.
	Kernels []string `json:"kernels"`
	// Own is true if no engine can call these kernels: they are gemmaudit's. It is false in a run without
	// other kernels.
	Own bool `json:"own,omitempty"`
	// Devices lists the ids of the affected devices, sorted.
	Devices []string `json:"devices"`
	// FromM and ToM are its first and last slow M, and Sizes counts the slow sizes. Other sizes in between may be fast.
	FromM int `json:"from_m"`
	ToM   int `json:"to_m"`
	Sizes int `json:"sizes"`
	// Status is the strongest of its findings; Confirmed if a remedy was proven.
	Status rules.Status `json:"status"`
	// Rules lists the rules that found it, in their order.
	Rules []rules.Rule `json:"rules,omitempty"`
	// Series and M are the row that represents the problem: the one with the best remedy, else the worst
	// finding.
	Series results.SeriesKey `json:"series"`
	M      int               `json:"m"`
	// US is the time of that row in microseconds. BetterUS is its time with the remedy, and Gain is
	// US ÷ BetterUS; both are zero without a remedy.
	US       float64        `json:"us"`
	BetterUS float64        `json:"better_us,omitempty"`
	Gain     stats.Interval `json:"gain,omitzero"`
	// ExpectedUS is the time of the comparison if there is no remedy: the device's limit if
	// [Problem.OnlyCeiling]. Zero if the row may be as fast.
	ExpectedUS float64 `json:"expected_us,omitempty"`
	// Baseline is the state of its findings in the baseline, the first of new, grown and known. It is empty
	// without a baseline.
	Baseline rules.BaselineState `json:"baseline,omitempty"`
	// Remedy is the best remedy that an engine can apply: proven if Remedy.Pays, else predicted. Nil if there
	// is none.
	Remedy *rules.Remedy `json:"remedy,omitempty"`
	// Possible is a faster kernel that the engine lacks, or "".
	Possible string `json:"possible,omitempty"`
	// Cause and Explanation give the reason; empty if only a remedy was proven.
	Cause       cause.Kind `json:"cause,omitempty"`
	Explanation string     `json:"explanation,omitempty"`
	// WorthUS is the time that its proven remedies save, in microseconds × weight of traffic for one pass
	// over the measured sizes. Without one it is the time at stake of its findings, the worst of overlapping
	// ones.
	WorthUS float64 `json:"worth_us"`
	// Findings are the ids of its findings.
	Findings []string `json:"findings,omitempty"`

	slow map[int]bool // the Ms that Sizes counts
}

// Holds reports whether a row is one of its slow sizes.
func (p *Problem) Holds(s results.SeriesKey, m int) bool {
	return p.slow[m] && p.Subject == s.Subject && p.Regime == s.Regime && p.Threads == s.Threads && p.PackInside == s.PackInside &&
		slices.Contains(p.Devices, s.Device) && slices.Contains(p.Kernels, s.Kernel)
}

// Proven reports whether a measured remedy pays.
func (p *Problem) Proven() bool { return p.Remedy != nil && p.Remedy.Pays }

// OnlyPossible reports whether the only evidence is a kernel that the engine lacks, next to the machine's
// limit.
func (p *Problem) OnlyPossible() bool {
	return p.Remedy == nil && p.Possible != "" && !p.Impossible() &&
		!slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return r != rules.Alternative && r != rules.Roofline })
}

// OnlyCeiling reports whether the only evidence is the limit of the machine, which no kernel may reach.
func (p *Problem) OnlyCeiling() bool {
	return p.Remedy == nil && !p.Impossible() && len(p.Rules) == 1 && p.Rules[0] == rules.Roofline
}

// Impossible reports whether its times are shorter than the device allows: the times, their unit or the
// device's name are wrong.
func (p *Problem) Impossible() bool { return p.Cause == cause.MeasurementError }

// Same reports whether p and a problem of another run have the same product and kernel and overlap in M.
func (p *Problem) Same(o *Problem) bool {
	return p.Place == o.Place && p.FromM <= o.ToM && o.FromM <= p.ToM &&
		slices.ContainsFunc(p.Kernels, func(k string) bool { return slices.Contains(o.Kernels, k) })
}

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

type finder struct {
	data   infer.Data
	names  map[string]string
	cases  map[results.SeriesKey]map[int]results.Case
	times  map[results.SeriesKey]map[int]float64
	ms     map[results.SeriesKey][]int
	engine func(device, kernel string) bool
	// rejected holds rows with an executed remedy that does not pay, and paid those with one that does.
	rejected, paid map[row]rules.Remedy
}

type row struct {
	series results.SeriesKey
	m      int
}

// Find makes the problems of a run from its audit and the remedies found, which may be nil. engine lists the
// engine's kernels; nil stands for [remedy.EngineKernels]. Waived findings, and remedies of their sizes, are
// omitted. A run that cannot be judged has no problems.
func Find(data infer.Data, audit *rules.Audit, found *remedy.Result, engine []string) ([]*Problem, Summary) {
	f := newFinder(data, audit.Whole(), engine)
	if found != nil {
		for _, r := range found.Whole().Rejected {
			if at := (row{r.Series, r.M}); f.rejected[at].M == 0 || !r.Unsteady { // a steady verdict outranks the others
				f.rejected[at] = r.Remedy
			}
		}
		for _, r := range found.Whole().Splits {
			if r.Pays {
				f.paid[row{r.Series, r.M}] = r.Remedy
			}
		}
	}
	problems := []*Problem{}
	if audit.Whole().Invalid == "" {
		problems = f.find(audit, found)
	}
	return problems, f.summarize(audit.Whole(), found, problems)
}

func (f *finder) find(audit *rules.Audit, found *remedy.Result) []*Problem {
	problems := f.unite(f.adjoin(f.group(f.items(audit.Whole(), found))))
	slices.SortStableFunc(problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(class(a), class(b)), cmp.Compare(b.WorthUS, a.WorthUS),
			strings.Compare(a.Series.String(), b.Series.String()), cmp.Compare(a.FromM, b.FromM))
	})
	for i, p := range problems {
		p.Number = i + 1
	}
	return problems
}

// kind is how certain a problem is and what can be done about it.
type kind struct{ suspected, onlyPossible, onlyCeiling bool }

func (p *Problem) kind() kind {
	return kind{p.Status == rules.Suspected, p.OnlyPossible(), p.OnlyCeiling()}
}

// class sorts fixable and known slow problems first, then suspected ones, then those that no engine can
// change, then our own kernels.
func class(p *Problem) int {
	switch {
	case p.Own:
		return 3
	case p.OnlyPossible(), p.OnlyCeiling():
		return 2
	case p.Status == rules.Suspected:
		return 1
	}
	return 0
}

func newFinder(data infer.Data, audit *rules.Audit, engine []string) *finder {
	f := &finder{data: data, names: deviceNames(data), cases: map[results.SeriesKey]map[int]results.Case{},
		times: map[results.SeriesKey]map[int]float64{}, ms: map[results.SeriesKey][]int{}, rejected: map[row]rules.Remedy{},
		paid: map[row]rules.Remedy{}}
	for _, s := range data.Series {
		cases := make(map[int]results.Case, len(s.Rows))
		for _, r := range s.Rows {
			cases[r.Case.M] = r.Case
			f.ms[s.Key] = append(f.ms[s.Key], r.Case.M)
		}
		f.cases[s.Key] = cases
	}
	for _, s := range audit.Series {
		times := make(map[int]float64, len(s.Rows))
		for _, r := range s.Rows {
			times[r.M] = r.US.Mid
		}
		f.times[s.Key] = times
	}
	f.engine = remedy.EngineKernels(data, engine)
	return f
}

func deviceNames(data infer.Data) map[string]string {
	names := map[string]string{}
	for _, d := range data.Meta.Fingerprint.Devices {
		names[d.ID] = cmp.Or(d.Name, d.ID)
	}
	return names
}

func (f *finder) place(key results.SeriesKey) Place {
	return Place{Device: cmp.Or(f.names[key.Device], key.Device), Subject: key.Subject, Regime: key.Regime, Threads: key.Threads,
		PackInside: key.PackInside}
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

func (f *finder) problem(g *group) *Problem {
	p := &Problem{Place: g.items[0].place, FromM: g.from, ToM: g.to, Status: rules.Suspected}
	kernelsOf, devices, byRule := map[string]bool{}, map[string]bool{}, map[rules.Rule]bool{}
	p.slow = map[int]bool{}
	var worst *rules.Finding
	var best *rules.Remedy
	var bestOf results.SeriesKey
	saved := map[results.SeriesKey]float64{} // by series, since libraries that launch the same kernel are one
	lost := map[int]float64{}                // by part
	for _, it := range g.items {
		kernelsOf[it.series.Kernel], devices[it.series.Device] = true, true
		slow := f.between(it.series, it.from, it.to)
		if it.finding != nil {
			slow = it.finding.Among(slow)
		}
		for _, m := range slow {
			p.slow[m] = true
		}
		if d := it.finding; d != nil {
			byRule[d.Rule] = true
			p.Findings = append(p.Findings, d.ID)
			p.Status = stronger(p.Status, d.Status)
			p.Baseline = newer(p.Baseline, d.Baseline)
			lost[it.part] = max(lost[it.part], d.StakeUS)
			if worst == nil || outweighs(d, worst) {
				worst = d
			}
			if r := f.predicted(d); r != nil && better(r, best) {
				best, bestOf = r, it.series
			}
			if against := d.Against; against != nil && d.Rule == rules.Alternative && !f.engine(it.series.Device, against.Kernel) {
				p.Possible = against.Kernel
			}
			continue
		}
		saved[it.series] += it.stake
		p.Status = rules.Confirmed
		for i := range it.remedies {
			if r := &it.remedies[i]; better(r, best) {
				best, bestOf = r, it.series
			}
		}
	}
	p.Kernels, p.Devices, p.Sizes = sorted(kernelsOf), sorted(devices), len(p.slow)
	for _, r := range rules.AllRules() {
		if byRule[r] {
			p.Rules = append(p.Rules, r)
		}
	}
	p.Own = f.own(g.items[0].series)
	if worst != nil {
		p.Series, p.M, p.Cause, p.Explanation = worst.Series, worst.WorstM, worst.Cause, worst.Explanation
		p.US = f.times[worst.Series][worst.WorstM]
		for _, us := range slices.Sorted(maps.Values(lost)) { // sums of floats depend on their order
			p.WorthUS += us
		}
		if loss := worst.Loss; best == nil && loss.Lo > 0 && loss.Mid < 1 && !p.Impossible() {
			p.ExpectedUS = p.US * (1 - loss.Mid)
		}
	}
	if best != nil {
		f.remedied(p, best, bestOf)
		for _, it := range g.items { // a known cause of that row
			if d := it.finding; d != nil && d.Cause != "" && d.Cause != cause.Unknown && d.Series == p.Series && d.WorstM == p.M {
				p.Cause, p.Explanation = d.Cause, d.Explanation
				break
			}
		}
	}
	if p.Proven() {
		p.Status = rules.Confirmed
		p.WorthUS = p.Remedy.StakeUS
		for _, us := range saved {
			p.WorthUS = max(p.WorthUS, us)
		}
	}
	return p
}

// predicted is nil if no engine can apply the remedy, or it was executed and does not pay.
func (f *finder) predicted(d *rules.Finding) *rules.Remedy {
	at := row{d.Series, d.WorstM}
	tried := f.rejected[at]
	if d.Against == nil || d.Loss.Lo <= 0 || d.Loss.Mid >= 1 || tried.M != 0 && !tried.Unsteady {
		return nil
	}
	r := rules.Remedy{M: d.WorstM, DirectUS: f.times[d.Series][d.WorstM]}
	switch d.Rule {
	case rules.SplitRule:
		r.Kind, r.Parts = rules.RemedySplit, d.Against.Parts
	case rules.Pad:
		r.Kind, r.PadTo, r.Pad = remedy.PadsAlong(d.Series.Subject), max(d.Against.PadTo, d.ReferenceM), table.InPlace
	case rules.Alternative:
		r.Kind, r.Kernel = rules.RemedyOther, d.Against.Kernel
	default:
		return nil
	}
	if r.Kind == rules.RemedySplit && len(r.Parts) == 0 || r.Kind == "" || r.Kind.Pads() && r.PadTo <= r.M ||
		!f.applies(d.Series.Device, r.Kind, r.Kernel) {
		return nil
	}
	if paid, ok := f.paid[at]; ok && paid.Kind == r.Kind {
		return &paid
	}
	r.Unsteady, r.ExtraBytes = tried.M != 0, r.PaddingBytes(d.Series.Subject)
	r.PredictedUS = r.DirectUS * (1 - d.Loss.Mid)
	r.StakeUS = d.StakeUS
	return &r
}

func (f *finder) remedied(p *Problem, r *rules.Remedy, of results.SeriesKey) {
	p.Remedy, p.Series, p.M, p.US = r, of, r.M, r.DirectUS
	if r.Executed {
		p.BetterUS, p.Gain = r.ExecutedUS.Mid, r.Gain
		return
	}
	gain := r.DirectUS / r.PredictedUS
	p.BetterUS, p.Gain = r.PredictedUS, stats.Interval{Lo: gain, Mid: gain, Hi: gain}
}

// own reports whether no engine can call a series' kernel.
func (f *finder) own(key results.SeriesKey) bool { return !f.engine(key.Device, key.Kernel) }

func (f *finder) between(key results.SeriesKey, first, last int) []int {
	ms := f.ms[key]
	from, _ := slices.BinarySearch(ms, first)
	to, _ := slices.BinarySearch(ms, last+1)
	return ms[from:to]
}

// better compares two remedies by gain; a prediction counts half.
func better(r, than *rules.Remedy) bool {
	gain := func(r *rules.Remedy) float64 {
		switch {
		case r.Pays:
			return r.Gain.Mid - 1
		case r.PredictedUS > 0:
			return (r.DirectUS/r.PredictedUS - 1) / 2
		}
		return 0
	}
	return than == nil || gain(r) > gain(than)
}

// outweighs reports whether d represents a problem rather than than.
func outweighs(d, than *rules.Finding) bool {
	if a, b := rank(d.Status), rank(than.Status); a != b {
		return a < b
	}
	// Another product's or kernel's time is within reach; a ceiling may not be.
	if (d.Against != nil) != (than.Against != nil) {
		return d.Against != nil
	}
	return d.Loss.Lo > than.Loss.Lo
}

var byAge = []rules.BaselineState{rules.BaselineNew, rules.BaselineGrown, rules.BaselineKnown}

func newer(a, b rules.BaselineState) rules.BaselineState {
	for _, s := range byAge {
		if a == s || b == s {
			return s
		}
	}
	return ""
}

func rank(s rules.Status) int {
	return slices.Index([]rules.Status{rules.Confirmed, rules.Unconfirmed, rules.Suspected}, s)
}

func stronger(a, b rules.Status) rules.Status {
	if rank(b) < rank(a) {
		return b
	}
	return a
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
