package rules

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// DiffSchema is the value of DiffResult.Schema.
const DiffSchema = "gemmaudit.diff/1"

// Change is what happened between two runs, to a case or to a finding.
type Change string

// The changes of cases: Slower and Faster by more than the threshold, surely;
// Same within the threshold, surely; SuspectedSlower and SuspectedFaster by more than
// the threshold, if times scatter as those of other rows do. The changes of findings: New and Fixed where
// the other run says clean. Both may be Open, undecided.
const (
	Slower Change = "slower"
	Faster Change = "faster"
	Same   Change = "same"
	New    Change = "new"
	Fixed  Change = "fixed"
	Open   Change = "undecided"
)

// DiffResult compares run B with run A, which came before or serves as the
// baseline.
type DiffResult struct {
	Schema string `json:"schema"`
	A      string `json:"a"`
	B      string `json:"b"`
	// Run is the run of both where A and B are two kernels of one; else it is empty.
	Run string `json:"run,omitempty"`
	// Factors are the conditions in which the runs differ.
	Factors []results.FactorDiff `json:"factors"`
	// Confounded says which factors differ when it is more than one: then no
	// change can be put down to any of them. Empty otherwise.
	Confounded string `json:"confounded,omitempty"`
	// Threshold is the share by which the time of a case has to change to count,
	// StretchThreshold that of neighbouring M together, SeriesThreshold that of a whole series.
	Threshold        float64 `json:"threshold"`
	StretchThreshold float64 `json:"stretch_threshold"`
	SeriesThreshold  float64 `json:"series_threshold"`
	FDR              float64 `json:"fdr"`
	Family           string  `json:"family"`
	// Clocks are the clocks in MHz that times of both runs were brought to, by device of B.
	Clocks map[string]float64 `json:"clock_mhz,omitempty"`
	// BetweenRuns is the standard deviation by which cases differ from run to run beyond
	// what the samples of either show, as a share of the time. It is in every interval.
	BetweenRuns float64    `json:"between_runs"`
	Cases       []CaseDiff `json:"cases"` // those of both runs, series by series
	OnlyA       int        `json:"only_a"`
	OnlyB       int        `json:"only_b"`
	// Lost counts the cases that one run measured and of which the other, which has them too, has
	// no sample that counts: it failed, or all of its samples are excluded.
	Lost int `json:"lost,omitempty"`
	// Losses are the cases that A measured and B could not.
	Losses Losses `json:"losses,omitzero"`
	// Series has the geometric mean of B's time over A's for each series, Geomean
	// that over all cases with samples enough, GeomeanOverRows that over all: see [SeriesDiff].
	Series          []SeriesDiff  `json:"series"`
	Geomean         Interval      `json:"geomean,omitzero"`
	GeomeanOverRows Interval      `json:"geomean_over_rows,omitzero"`
	Findings        []FindingDiff `json:"findings"`
	// Slower, Faster, Same and Undecided count cases. SuspectedSlower and SuspectedFaster are among the undecided.
	SuspectedSlower int `json:"suspected_slower,omitempty"`
	SuspectedFaster int `json:"suspected_faster,omitempty"`
	Slower          int `json:"slower"`
	Faster          int `json:"faster"`
	Same            int `json:"same"`
	Undecided       int `json:"undecided"`
	// Gate is true when the gate fails: a case, a stretch of M or a whole series is
	// surely slower than its threshold allows.
	Gate bool `json:"gate_failed"`
	// SlowerSeries and SlowerStretches count what is slower beside cases.
	SlowerSeries    int `json:"slower_series"`
	SlowerStretches int `json:"slower_stretches"`
	// Invalid is the reason when one of the runs can't be judged.
	Invalid  string    `json:"invalid,omitempty"`
	Warnings []Warning `json:"warnings,omitempty"`
	// Selection is set where Cases and Findings are some of those compared: see [DiffResult.Whole].
	Selection *Selection `json:"selection,omitempty"`

	whole *DiffResult // of which this one lists a selection, else nil
}

// CaseDiff is one case in both runs.
type CaseDiff struct {
	Series results.SeriesKey `json:"series"` // as in B
	M      int               `json:"m"`
	A      Interval          `json:"a_us"`
	B      Interval          `json:"b_us"`
	// Ratio is B's time over A's: above 1 is slower.
	Ratio     Interval `json:"ratio"`
	P         float64  `json:"p"`
	AdjustedP float64  `json:"p_adjusted"`
	Change    Change   `json:"change"`
	// Scatter is where the scatter of the ratio comes from, where a side has too few samples for its own; else it is empty.
	Scatter ScatterOrigin `json:"scatter,omitempty"`
	// LabelA and LabelB are the library's kernels where they differ.
	LabelA string `json:"label_a,omitempty"`
	LabelB string `json:"label_b,omitempty"`
}

// SeriesDiff is one series in both runs.
type SeriesDiff struct {
	Series results.SeriesKey `json:"series"`
	// InA is the same series as A names it: by another device, or of another kernel.
	InA   results.SeriesKey `json:"-"`
	Cases int               `json:"cases"`
	// Ratio is the geometric mean of B's time over A's of the cases with samples enough, zero where there are none. Its interval holds what
	// errors of measurement leave open: the rows are taken as given.
	Ratio Interval `json:"ratio,omitzero"`
	// OverRows is the geometric mean over all cases. Its interval is by Student's t over the rows, as a sample of shapes.
	OverRows Interval `json:"ratio_over_rows"`
	Slower   int      `json:"slower"`
	Faster   int      `json:"faster"`
	// Suspected counts the cases that are suspected to be slower or faster.
	Suspected int `json:"suspected,omitempty"`
	// Change is what Ratio says of the series as a whole, or where there is none, as suspected, OverRows.
	Change Change `json:"change"`
	// Stretches are runs of neighbouring M that are surely slower together, though
	// hardly one of them is by itself.
	Stretches []StretchDiff `json:"stretches,omitempty"`
}

// StretchDiff is neighbouring rows of one series that became slower together.
type StretchDiff struct {
	FromM int      `json:"from_m"`
	ToM   int      `json:"to_m"`
	Cases int      `json:"cases"`
	Ratio Interval `json:"ratio"` // geometric mean of B's time over A's
}

// FindingDiff is a finding of either run beside what the other says there.
type FindingDiff struct {
	Change Change   `json:"change"`
	A      *Finding `json:"a,omitempty"`
	B      *Finding `json:"b,omitempty"`
}

// diffDrift is the drift of the sentinels, as a share of the time, past which a run is not compared with another:
// the pace of a run is taken from its own usual moment, which is another one in each run.
const diffDrift = 0.30

// Diff compares two runs: fingerprints first, then every case that both have,
// then the findings. Times are compared on their logs by Welch's t with pooled
// scales (see the package comment); the hypothesis is that the ratio lies within
// the threshold, on either side.
func Diff(a, b Data, cfg Config) (*DiffResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	d := newDiff(a.Name, b.Name, cfg)
	d.fingerprints(a.Meta, b.Meta)
	clocksA, clocksB := d.clocks(a, b, cfg)
	pa, pb := prepareAt(a, clocksA), prepareAt(b, clocksB)
	if !sameLocations(pa, pb) {
		pa, pb = prepareCentred(a, clocksA), prepareCentred(b, clocksB)
	}
	var unsteady []string
	for _, side := range []struct {
		name string
		p    *prepared
	}{{a.Name, pa}, {b.Name, pb}} {
		if why := side.p.drift.invalid(min(cfg.DriftBound, diffDrift)); why != "" {
			unsteady = append(unsteady, side.name+": "+why)
		}
	}
	d.Invalid = strings.Join(unsteady, "; ")
	pairs := matchCurves(judged(pa.curves), judged(pb.curves))
	d.cases(pairs, pa, pb, cfg)
	d.Losses = losses(judged(pa.curves), pb.curves, pairs)
	d.Losses.A, d.Losses.B = a.Name, b.Name
	d.findings(pairs, pa, pb, cfg)
	if len(d.Cases) == 0 {
		d.Invalid = cmp.Or(d.Invalid, "the runs have no case in common"+nearest(a, b))
	}
	d.gate()
	return d, nil
}

// sameLocations says whether the same number stands for the rows of both runs on the devices that both have.
func sameLocations(a, b *prepared) bool {
	for id, s := range a.scatter {
		if other, both := b.scatter[id]; both && other.low() != s.low() {
			return false
		}
	}
	return true
}

func newDiff(a, b string, cfg Config) *DiffResult {
	return &DiffResult{Schema: DiffSchema, A: a, B: b, Threshold: cfg.Diff.Threshold, StretchThreshold: cfg.Diff.Stretch, SeriesThreshold: cfg.Diff.Series, FDR: cfg.FDR,
		Factors: []results.FactorDiff{}, Cases: []CaseDiff{}, Series: []SeriesDiff{}, Findings: []FindingDiff{}}
}

// gate counts what is slower beside cases, and says whether the gate fails.
func (d *DiffResult) gate() {
	for _, s := range d.Series {
		d.SlowerStretches += len(s.Stretches)
		if s.Change == Slower {
			d.SlowerSeries++
		}
	}
	d.Gate = d.Invalid == "" && d.Slower+d.SlowerStretches+d.SlowerSeries > 0
}

// machineFactors are the lines of a fingerprint that change together when the
// machine is another one. They count as one factor.
var machineFactors = []string{"cpu model", "microcode", "cores", "memory", "arch", "hypervisor", "smt", "name", "units", "caches", "features", "vbios", "max sm clock", "max memory clock"}

// followers are lines of a device that change with another one, as they come in one
// package. They count as that one.
var followers = map[string]string{"nvml": "driver", "cuda driver api": "driver", "cublaslt": "cublas"}

func (d *DiffResult) fingerprints(a, b results.Meta) {
	if x, y := a.Fingerprint.Devices, b.Fingerprint.Devices; len(x) == 1 && len(y) == 1 {
		// The one device of either run is compared line by line whatever its id.
		renamed := y[0]
		renamed.ID = x[0].ID
		b.Fingerprint.Devices = []kernels.Spec{renamed}
	}
	d.Factors = append(d.Factors, a.Fingerprint.Diff(b.Fingerprint)...)
	add := func(name, x, y string) {
		if x != y {
			d.Factors = append(d.Factors, results.FactorDiff{Name: name, A: x, B: y})
		}
	}
	for _, key := range a.Labels.Differing(b.Labels) {
		d.Factors = append(d.Factors, results.FactorDiff{Name: "label " + key, A: a.Labels[key], B: b.Labels[key], Identity: true})
	}
	add("regime", string(a.Regime), string(b.Regime))
	add("distribution", string(a.Distribution), string(b.Distribution))
	var differing []string
	machine, seen := false, map[string]bool{}
	for _, f := range d.Factors {
		if f.Identity {
			continue
		}
		name, line := f.Name, f.Name
		if f.Device != "" {
			line = cmp.Or(followers[f.Line], f.Line)
			name = f.Device + " " + line
			// What differs alike on all cards of a host is one factor.
			if seen[line] {
				continue
			}
			seen[line] = true
		}
		if slices.Contains(machineFactors, line) {
			machine = true
			continue
		}
		differing = append(differing, name)
	}
	if machine {
		differing = append([]string{"machine"}, differing...)
	}
	if len(differing) > 1 {
		d.Confounded = fmt.Sprintf("%d factors differ (%s): no change can be put down to one of them", len(differing), strings.Join(differing, ", "))
	}
}

// curvePair is one series in both runs.
type curvePair struct{ a, b *curve }

// matchCurves joins series of equal keys. When no key is equal and each run has
// one device, the device and its thread count are left out of the key: two machines
// are compared.
func matchCurves(a, b []*curve) []curvePair {
	match := func(reduce func(results.SeriesKey) results.SeriesKey) []curvePair {
		byKey := map[results.SeriesKey]*curve{}
		for _, c := range a {
			byKey[reduce(c.series.Key)] = c
		}
		var out []curvePair
		for _, c := range b {
			if other := byKey[reduce(c.series.Key)]; other != nil {
				out = append(out, curvePair{other, c})
			}
		}
		return out
	}
	if out := match(func(k results.SeriesKey) results.SeriesKey { return k }); len(out) > 0 {
		return out
	}
	one := func(curves []*curve) bool {
		for _, c := range curves {
			if c.series.Key.Device != curves[0].series.Key.Device {
				return false
			}
		}
		return true
	}
	if !one(a) || !one(b) {
		return nil
	}
	return match(func(k results.SeriesKey) results.SeriesKey {
		k.Device, k.Threads = "", 0
		return k
	})
}

func (d *DiffResult) cases(pairs []curvePair, pa, pb *prepared, cfg Config) {
	threshold := math.Log1p(cfg.Diff.Threshold)
	matched := map[*curve]int{}
	var tested, few []int // positions in d.Cases
	var p []float64
	var all []estimate
	var levels []float64 // how far a row's levels leave its ratio open
	type span struct{ from, to int }
	var spans []span
	for _, pair := range pairs {
		from := len(all)
		d.Lost += pair.a.lost(pair.b) + pair.b.lost(pair.a)
		scatter := newPairScatter(pair, cfg.MinSamples)
		d.Warnings = append(d.Warnings, scatter.warnings()...)
		for j, y := range pair.b.points {
			i, ok := pair.a.at(y.m)
			if !ok {
				continue
			}
			x := pair.a.points[i]
			matched[pair.a]++
			matched[pair.b]++
			ratio, inA, inB, origin := scatter.compare(i, j)
			c := CaseDiff{Series: pair.b.series.Key, M: y.m, A: inA.interval(cfg.Confidence, pa.q), B: inB.interval(cfg.Confidence, pb.q),
				P: 1, AdjustedP: 1, Change: Open}
			if x.label != y.label {
				c.LabelA, c.LabelB = x.label, y.label
			}
			switch {
			case x.judged(cfg.MinSamples) && y.judged(cfg.MinSamples):
				tested = append(tested, len(d.Cases))
			case x.suspectable() && y.suspectable():
				few = append(few, len(d.Cases))
				c.Scatter = origin
			}
			all = append(all, ratio)
			levels = append(levels, betweenLevels(x, y))
			d.Cases = append(d.Cases, c)
		}
		spans = append(spans, span{from, len(all)})
	}
	d.BetweenRuns = leastBetweenRuns
	if d.Run == "" {
		own := make([]estimate, len(tested))
		for k, i := range tested {
			own[k] = all[i]
		}
		d.BetweenRuns = betweenRuns(own)
	}
	for i, e := range all {
		all[i].se = math.Hypot(e.se, d.BetweenRuns)
		ratio := all[i].interval(cfg.Confidence, pb.q).log()
		d.Cases[i].Ratio = Interval{ratio.Lo - levels[i], ratio.Mid, ratio.Hi + levels[i]}.exp()
	}
	for _, i := range tested {
		c := &d.Cases[i]
		c.P = changeP(all[i], threshold)
		p = append(p, c.P)
	}
	d.suspect(few, all, cfg)
	for i, adjusted := range benjaminiHochberg(p) {
		c := &d.Cases[tested[i]]
		c.AdjustedP = adjusted
		up, down := 1+cfg.Diff.Threshold, 1/(1+cfg.Diff.Threshold)
		switch {
		case adjusted <= cfg.FDR && c.Ratio.Lo > up:
			c.Change = Slower
		case adjusted <= cfg.FDR && c.Ratio.Hi < down:
			c.Change = Faster
		case within(c.Ratio, cfg.Diff.Threshold) == Same:
			c.Change = Same
		case near(c.Ratio, up) || near(c.Ratio, down):
			c.Change = AtThreshold
		}
	}
	both := "runs"
	if d.Run != "" {
		both = "kernels"
	}
	d.Family = fmt.Sprintf("Benjamini–Hochberg at %g over %d cases of both %s", cfg.FDR, len(tested), both)
	// Means and stretches are of cases of which something can be said.
	decidable, cases := make([][]estimate, len(pairs)), make([][]CaseDiff, len(pairs))
	for k, at := 0, 0; k < len(pairs); k++ {
		for ; at < len(tested) && tested[at] < spans[k].to; at++ {
			decidable[k], cases[k] = append(decidable[k], all[tested[at]]), append(cases[k], d.Cases[tested[at]])
		}
	}
	for k, pair := range pairs {
		from, to := spans[k].from, spans[k].to
		s := SeriesDiff{Series: pair.b.series.Key, InA: pair.a.series.Key, Cases: to - from, Change: Open,
			Ratio: geomean(decidable[k], cfg.Confidence), OverRows: overRows(all[from:to], levels[from:to], cfg.Confidence)}
		for _, c := range d.Cases[from:to] {
			switch c.Change {
			case Slower:
				s.Slower++
			case Faster:
				s.Faster++
			case Same:
				d.Same++
			case AtThreshold:
			case SuspectedSlower:
				d.SuspectedSlower++
				s.Suspected++
				d.Undecided++
			case SuspectedFaster:
				d.SuspectedFaster++
				s.Suspected++
				d.Undecided++
			default:
				d.Undecided++
			}
		}
		d.Slower += s.Slower
		d.Faster += s.Faster
		if len(decidable[k]) > 0 {
			s.Change = within(s.Ratio, cfg.Diff.Series)
		} else if to > from {
			// Any of the series might be the one.
			one := 1 - (1-cfg.Confidence)/float64(len(pairs))
			switch within(overRows(all[from:to], levels[from:to], one), cfg.Diff.Series) {
			case Slower:
				s.Change = SuspectedSlower
			case Faster:
				s.Change = SuspectedFaster
			}
		}
		s.Stretches = slowStretches(cases[k], decidable[k], cfg, float64(len(tested)))
		d.Series = append(d.Series, s)
	}
	d.Geomean = geomean(slices.Concat(decidable...), cfg.Confidence)
	d.GeomeanOverRows = overRows(all, levels, cfg.Confidence)
	for _, c := range pa.curves {
		d.OnlyA += len(c.points) - matched[c]
	}
	for _, c := range pb.curves {
		d.OnlyB += len(c.points) - matched[c]
	}
}

// losses counts the rows of a that b has not: of curves that are compared what failed there or is not there, and the others whole.
// A row of which b has samples that do not count is no loss but undecided.
func losses(a, b []*curve, pairs []curvePair) Losses {
	var out Losses
	in := map[*curve]*curve{}
	for _, pair := range pairs {
		in[pair.a] = pair.b
	}
	keyed := make(map[results.SeriesKey]*curve, len(b))
	for _, c := range b {
		keyed[c.series.Key] = c
	}
	for _, c := range a {
		other := in[c]
		if other == nil {
			other = keyed[c.series.Key] // nothing of the series counts in b; its failures are there all the same
		}
		for _, p := range c.points {
			out.Cases++
			name := results.Case{SeriesKey: c.series.Key, M: p.m}.String()
			if other == nil {
				out.Missing++
				out.FirstMissing = cmp.Or(out.FirstMissing, name)
				continue
			}
			if _, ok := other.at(p.m); ok {
				continue
			}
			at, there := slices.BinarySearchFunc(other.series.Rows, p.m, func(r results.Row, m int) int { return cmp.Compare(r.Case.M, m) })
			switch {
			case !there:
				out.Missing++
				out.FirstMissing = cmp.Or(out.FirstMissing, name)
			case other.series.Rows[at].Failed != "":
				out.Failed++
				out.FirstFailed = cmp.Or(out.FirstFailed, other.series.Rows[at].Failed)
			}
		}
	}
	return out
}

// lost counts the rows of other that c has without a sample that counts.
func (c *curve) lost(other *curve) int {
	n := 0
	for _, p := range other.points {
		_, tried := slices.BinarySearchFunc(c.series.Rows, p.m, func(r results.Row, m int) int { return cmp.Compare(r.Case.M, m) })
		if _, judged := c.at(p.m); tried && !judged {
			n++
		}
	}
	return n
}

// welch is Satterthwaite's degrees of freedom for the difference of two estimates.
func welch(a, b estimate) float64 {
	va, vb := a.se*a.se, b.se*b.se
	if va+vb == 0 {
		return math.Min(a.df, b.df)
	}
	return (va + vb) * (va + vb) / (va*va/a.df + vb*vb/b.df)
}

// geomean is the geometric mean of ratios with the interval that the errors of
// the measurements leave; the cases are taken as given, not as a sample.
func geomean(logs []estimate, confidence float64) Interval {
	if len(logs) == 0 {
		return Interval{}
	}
	var sum, variance float64
	for _, e := range logs {
		sum += e.y
		variance += e.se * e.se
	}
	n := float64(len(logs))
	half := distuv.UnitNormal.Quantile(1-(1-confidence)/2) * math.Sqrt(variance) / n
	return Interval{sum/n - half, sum / n, sum/n + half}.exp()
}
