package rules

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// DiffSchema is the value of DiffResult.Schema.
const DiffSchema = "gemmaudit.diff/1"

// Change is a change between two runs, of a case or of a finding.
type Change string

// The changes of cases: Slower and Faster by surely more than the threshold; Same, surely within it;
// SuspectedSlower and SuspectedFaster, by more than the threshold if times scatter like other rows'. The
// changes of findings: New and Fixed if the other run is clean there. Open is undecided, for both.
const (
	Slower Change = "slower"
	Faster Change = "faster"
	Same   Change = "same"
	New    Change = "new"
	Fixed  Change = "fixed"
	Open   Change = "undecided"
)

// DiffResult compares run B with run A, which is the earlier one or the baseline.
type DiffResult struct {
	Schema string `json:"schema"`
	A      string `json:"a"`
	B      string `json:"b"`
	// Run is the run that A and B, two of its kernels, belong to; empty for two runs.
	Run string `json:"run,omitempty"`
	// Factors are the conditions that differ between the runs.
	Factors []results.FactorDiff `json:"factors"`
	// Confounded lists the factors if several differ: then a change can't be attributed to a single factor.
	// Empty otherwise.
	Confounded string `json:"confounded,omitempty"`
	// Threshold is the least relative change of a case's time that counts, StretchThreshold for neighboring M
	// together, SeriesThreshold for a whole series.
	Threshold        float64 `json:"threshold"`
	StretchThreshold float64 `json:"stretch_threshold"`
	SeriesThreshold  float64 `json:"series_threshold"`
	FDR              float64 `json:"fdr"`
	Family           string  `json:"family"`
	// Clocks are the common clocks of both runs' times in MHz, by device of B.
	Clocks map[string]float64 `json:"clock_mhz,omitempty"`
	// BetweenRuns is the standard deviation of cases between runs beyond the errors of the samples, as a
	// share of the time. Every interval includes it.
	BetweenRuns float64 `json:"between_runs"`
	// BetweenProcesses is the assumed standard deviation of a whole series between processes, as a share of
	// the time. Intervals of series include it. Intervals of stretches don't, because a stretch is compared
	// with its series.
	BetweenProcesses float64 `json:"between_processes,omitempty"`
	// DisturbedA and DisturbedB count the disturbed samples of the runs, both zero if there are none.
	// Disturbance is the reason why no time is compared; empty if times are compared.
	DisturbedA  Disturbed  `json:"disturbed_a,omitzero"`
	DisturbedB  Disturbed  `json:"disturbed_b,omitzero"`
	Disturbance string     `json:"disturbance,omitempty"`
	Cases       []CaseDiff `json:"cases"` // of both runs, series by series
	OnlyA       int        `json:"only_a"`
	OnlyB       int        `json:"only_b"`
	// Lost counts the cases that one run measured and the other has without a valid sample: it failed, or all
	// of its samples are excluded.
	Lost int `json:"lost,omitempty"`
	// Losses are the cases that A measured and B could not.
	Losses Losses `json:"losses,omitzero"`
	// Series has the geometric mean of B's time over A's for each series, Geomean over all cases with enough
	// samples, GeomeanOverRows over all cases: see [SeriesDiff].
	Series          []SeriesDiff   `json:"series"`
	Geomean         stats.Interval `json:"geomean,omitzero"`
	GeomeanOverRows stats.Interval `json:"geomean_over_rows,omitzero"`
	// Bands are by data type and range of M, for two kernels of one run.
	Bands    []BandDiff    `json:"bands,omitempty"`
	Findings []FindingDiff `json:"findings"`
	// Slower, Faster, Same and Undecided count cases. SuspectedSlower and SuspectedFaster are included in
	// Undecided.
	SuspectedSlower int `json:"suspected_slower,omitempty"`
	SuspectedFaster int `json:"suspected_faster,omitempty"`
	Slower          int `json:"slower"`
	Faster          int `json:"faster"`
	Same            int `json:"same"`
	Undecided       int `json:"undecided"`
	// Gate is true if the gate fails: a case, a stretch of M or a whole series is surely slower than its
	// threshold allows.
	Gate bool `json:"gate_failed"`
	// SlowerSeries and SlowerStretches count slower series and stretches.
	SlowerSeries    int `json:"slower_series"`
	SlowerStretches int `json:"slower_stretches"`
	// Invalid is the reason if one of the runs can't be judged.
	Invalid  string    `json:"invalid,omitempty"`
	Warnings []Warning `json:"warnings,omitempty"`
	// Selection is set if Cases and Findings are only some of those compared: see [DiffResult.Whole].
	Selection *Selection `json:"selection,omitempty"`

	whole *DiffResult // the full result of a selection, else nil
}

// CaseDiff is one case in both runs.
type CaseDiff struct {
	Series results.SeriesKey `json:"series"` // as in B
	M      int               `json:"m"`
	A      stats.Interval    `json:"a_us"`
	B      stats.Interval    `json:"b_us"`
	// Ratio is B's time over A's: above 1 is slower.
	Ratio     stats.Interval `json:"ratio"`
	P         float64        `json:"p"`
	AdjustedP float64        `json:"p_adjusted"`
	Change    Change         `json:"change"`
	// Scatter is the source of the ratio's scatter if a side has too few samples of its own; else empty.
	Scatter infer.ScatterOrigin `json:"scatter,omitempty"`
	// LabelA and LabelB are the library's kernels, if they differ.
	LabelA string `json:"label_a,omitempty"`
	LabelB string `json:"label_b,omitempty"`
}

// SeriesDiff is one series in both runs.
type SeriesDiff struct {
	Series results.SeriesKey `json:"series"`
	// InA is A's key of the series; its device or kernel may differ.
	InA   results.SeriesKey `json:"-"`
	Cases int               `json:"cases"`
	// Ratio is the geometric mean of B's time over A's, of the cases with enough samples; zero if there are
	// none. Its interval covers measurement error only: the rows are taken as given.
	Ratio stats.Interval `json:"ratio,omitzero"`
	// OverRows is the geometric mean over all cases. Its interval is by Student's t over the rows, as a sample of shapes.
	OverRows stats.Interval `json:"ratio_over_rows"`
	Slower   int            `json:"slower"`
	Faster   int            `json:"faster"`
	// Suspected counts the cases that are suspected to be slower or faster.
	Suspected int `json:"suspected,omitempty"`
	// Change is the verdict of Ratio on the whole series, or without a Ratio a suspected change by OverRows.
	Change Change `json:"change"`
	// Stretches are runs of neighboring M that are surely slower together, though few of them are on their
	// own.
	Stretches []StretchDiff `json:"stretches,omitempty"`
}

// StretchDiff is neighboring rows of one series that became slower together.
type StretchDiff struct {
	FromM int            `json:"from_m"`
	ToM   int            `json:"to_m"`
	Cases int            `json:"cases"`
	Ratio stats.Interval `json:"ratio"` // geometric mean of B's time over A's
}

// FindingDiff is a finding of either run and the other run's result there.
type FindingDiff struct {
	Change Change   `json:"change"`
	A      *Finding `json:"a,omitempty"`
	B      *Finding `json:"b,omitempty"`
}

// diffDrift is the drift of the sentinels, as a share of the time, above which a run is not compared: the
// pace of a run is relative to its own usual moment, which differs between runs.
const diffDrift = 0.30

// Diff compares two runs: fingerprints first, then every case that both have, then the findings. It compares
// the logs of times by Welch's t with pooled scales (see the package comment). The hypothesis is that the
// ratio lies within the threshold, on either side.
func Diff(a, b infer.Data, cfg Config) (*DiffResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	d := newDiff(a.Name, b.Name, cfg)
	d.fingerprints(a.Meta, b.Meta)
	clocksA, clocksB := d.clocks(a, b, cfg)
	pa, pb := infer.PrepareAt(a, clocksA), infer.PrepareAt(b, clocksB)
	if !sameLocations(pa, pb) {
		pa, pb = infer.PrepareCentred(a, clocksA), infer.PrepareCentred(b, clocksB)
	}
	var unsteady []string
	for _, side := range []struct {
		name string
		p    *infer.Estimates
	}{{a.Name, pa}, {b.Name, pb}} {
		if why := side.p.Drift.Invalid(min(cfg.DriftBound, diffDrift)); why != "" {
			if side.p.Drift.Invalid(cfg.DriftBound) == "" {
				why += "; this run can be audited, but a comparison needs a steadier machine"
			}
			unsteady = append(unsteady, side.name+": "+why)
		}
	}
	d.Invalid = strings.Join(unsteady, "; ")
	pairs := matchCurves(infer.FirstChoices(pa.Curves), infer.FirstChoices(pb.Curves))
	d.threads(pairs)
	d.confound()
	d.compareDisturbance(pairs, cfg)
	d.cases(pairs, pa, pb, cfg)
	d.compareOrder(pairs, a, b)
	d.Losses = losses(infer.FirstChoices(pa.Curves), pb.Curves, pairs)
	d.Losses.A, d.Losses.B = a.Name, b.Name
	d.findings(pairs, pa, pb, cfg)
	if len(d.Cases) == 0 {
		d.Invalid = cmp.Or(d.Invalid, "the runs have no case in common"+nearest(a, b))
	}
	d.gate()
	return d, nil
}

// sameLocations reports whether the rows of both runs use the same location estimator, on the devices that
// both have.
func sameLocations(a, b *infer.Estimates) bool {
	for id, s := range a.Scatter {
		if other, both := b.Scatter[id]; both && other.Low() != s.Low() {
			return false
		}
	}
	return true
}

func newDiff(a, b string, cfg Config) *DiffResult {
	return &DiffResult{Schema: DiffSchema, A: a, B: b, Threshold: cfg.Diff.Threshold, StretchThreshold: cfg.Diff.Stretch,
		SeriesThreshold: cfg.Diff.Series, FDR: cfg.FDR,
		Factors: []results.FactorDiff{}, Cases: []CaseDiff{}, Series: []SeriesDiff{}, Findings: []FindingDiff{}}
}

func (d *DiffResult) gate() {
	for _, s := range d.Series {
		d.SlowerStretches += len(s.Stretches)
		if s.Change == Slower {
			d.SlowerSeries++
		}
	}
	d.Gate = d.Invalid == "" && d.Slower+d.SlowerStretches+d.SlowerSeries > 0
}

// machineFactors are the lines of a fingerprint that change together on another machine. They count as one
// factor.
var machineFactors = []string{"cpu model", "microcode", "cores", "memory", "arch", "hypervisor", "smt", "name", "units", "caches",
	"features", "vbios", "max sm clock", "max memory clock"}

// followers are lines of a device that change with another line because they come in one package. They count
// as that line.
var followers = map[string]string{"nvml": "driver", "cuda driver api": "driver", "cublaslt": "cublas"}

func (d *DiffResult) fingerprints(a, b results.Meta) {
	if x, y := a.Fingerprint.Devices, b.Fingerprint.Devices; len(x) == 1 && len(y) == 1 {
		// If each run has one device, their ids may differ.
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
}

// threads adds the number of threads to the factors if paired series ran on different numbers. It fits
// pairs that [matchCurves] found on one device of each run.
func (d *DiffResult) threads(pairs []curvePair) {
	for _, p := range pairs {
		f := results.FactorDiff{Name: "threads", A: threadCount(p.a.Series.Key), B: threadCount(p.b.Series.Key)}
		if f.A == f.B {
			continue
		}
		d.Factors = append(d.Factors, f)
		d.Warnings = append(d.Warnings,
			Warning{Subject: "threads", Text: fmt.Sprintf("%s in A, %s in B: times may differ for this reason alone", f.A, f.B)})
		return
	}
}

func threadCount(k results.SeriesKey) string {
	if k.Threads == 0 {
		return "all"
	}
	return strconv.Itoa(k.Threads)
}

// confound sets Confounded if several factors differ.
func (d *DiffResult) confound() {
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
			// The same difference on all cards of a host is one factor.
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
		d.Confounded = fmt.Sprintf("%d factors differ (%s), so no change can be attributed to one of them", len(differing),
			strings.Join(differing, ", "))
	}
}

type curvePair struct{ a, b *infer.Curve }

// matchCurves joins series with equal keys. If no key is equal and each run has one device, it ignores the
// device and its thread count: two machines are compared.
func matchCurves(a, b []*infer.Curve) []curvePair {
	match := func(reduce func(results.SeriesKey) results.SeriesKey) []curvePair {
		byKey := map[results.SeriesKey]*infer.Curve{}
		for _, c := range a {
			byKey[reduce(c.Series.Key)] = c
		}
		var out []curvePair
		for _, c := range b {
			if other := byKey[reduce(c.Series.Key)]; other != nil {
				out = append(out, curvePair{other, c})
			}
		}
		return out
	}
	if out := match(func(k results.SeriesKey) results.SeriesKey { return k }); len(out) > 0 {
		return out
	}
	one := func(curves []*infer.Curve) bool {
		for _, c := range curves {
			if c.Series.Key.Device != curves[0].Series.Key.Device {
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

func (d *DiffResult) cases(pairs []curvePair, pa, pb *infer.Estimates, cfg Config) {
	threshold := math.Log1p(cfg.Diff.Threshold)
	matched := map[*infer.Curve]int{}
	var tested, few []int // positions in d.Cases
	var p []float64
	var all []stats.Estimate
	var levels []float64        // uncertainty of a row's ratio from its levels
	var shared []stats.Estimate // the error shared with the others of its pair of runs
	type span struct{ from, to int }
	var spans []span
	for _, pair := range pairs {
		from := len(all)
		d.Lost += pair.a.Lost(pair.b) + pair.b.Lost(pair.a)
		pair.compareLevels()
		common := stats.Difference(pb.LevelOf(pair.b.Series.Key.Device), pa.LevelOf(pair.a.Series.Key.Device))
		if d.Run != "" {
			common = stats.Estimate{DF: math.Inf(1)} // one pace for both
		}
		scatter := newPairScatter(pair, cfg.MinSamples)
		d.Warnings = append(d.Warnings, scatter.warnings()...)
		for j, y := range pair.b.Points {
			i, ok := pair.a.At(y.M)
			if !ok {
				continue
			}
			x := pair.a.Points[i]
			matched[pair.a]++
			matched[pair.b]++
			ratio, inA, inB, origin := scatter.compare(i, j)
			c := CaseDiff{Series: pair.b.Series.Key, M: y.M, A: inA.Interval(cfg.Confidence, pa.Quantiles),
				B: inB.Interval(cfg.Confidence, pb.Quantiles),
				P: 1, AdjustedP: 1, Change: Open}
			if x.Label != y.Label {
				c.LabelA, c.LabelB = x.Label, y.Label
			}
			switch {
			case x.Judged(cfg.MinSamples) && y.Judged(cfg.MinSamples):
				tested = append(tested, len(d.Cases))
			case x.Suspectable() && y.Suspectable():
				few = append(few, len(d.Cases))
				c.Scatter = origin
			}
			all, shared = append(all, ratio), append(shared, common)
			levels = append(levels, pair.levelsBetween(i, j))
			d.Cases = append(d.Cases, c)
		}
		spans = append(spans, span{from, len(all)})
	}
	d.BetweenRuns = leastBetweenRuns
	if d.Run == "" {
		own := make([]stats.Estimate, len(tested))
		for k, i := range tested {
			own[k] = all[i]
		}
		d.BetweenRuns = betweenRuns(own)
	}
	whole := make([]stats.Estimate, len(all)) // including the shared error
	for i, e := range all {
		all[i].SE, all[i].Open = math.Hypot(e.SE, d.BetweenRuns), e.Open+levels[i]
		whole[i] = all[i].Sharing(shared[i])
		d.Cases[i].Ratio = whole[i].Interval(cfg.Confidence, pb.Quantiles)
	}
	for _, i := range tested {
		c := &d.Cases[i]
		c.P = whole[i].Beyond(threshold)
		p = append(p, c.P)
	}
	d.suspect(few, whole, cfg)
	for i, adjusted := range stats.AdjustP(p) {
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
	// Means and stretches use the cases that can be decided.
	decidable, cases := make([][]stats.Estimate, len(pairs)), make([][]CaseDiff, len(pairs))
	for k, at := 0, 0; k < len(pairs); k++ {
		for ; at < len(tested) && tested[at] < spans[k].to; at++ {
			decidable[k], cases[k] = append(decidable[k], all[tested[at]]), append(cases[k], d.Cases[tested[at]])
		}
	}
	for k, pair := range pairs {
		from, to := spans[k].from, spans[k].to
		common := stats.Estimate{DF: math.Inf(1)}
		if from < to {
			common = shared[from]
		}
		pace := common
		if d.Run == "" {
			d.BetweenProcesses = betweenProcesses
			common = stats.Difference(common, stats.Estimate{SE: betweenProcesses, DF: math.Inf(1)})
		}
		s := SeriesDiff{Series: pair.b.Series.Key, InA: pair.a.Series.Key, Cases: to - from, Change: Open,
			Ratio:    stats.GeometricMeanSharing(decidable[k], common, cfg.Confidence),
			OverRows: overRows(all[from:to], levels[from:to], cfg.Confidence).Sharing(common, cfg.Confidence)}
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
			// The level is split over the series.
			one := 1 - (1-cfg.Confidence)/float64(len(pairs))
			switch within(overRows(all[from:to], levels[from:to], one).Sharing(common, one), cfg.Diff.Series) {
			case Slower:
				s.Change = SuspectedSlower
			case Faster:
				s.Change = SuspectedFaster
			}
		}
		s.Stretches = slowStretches(cases[k], decidable[k], pace, cfg, float64(len(tested)))
		d.Series = append(d.Series, s)
	}
	mean := stats.Estimate{DF: math.Inf(1)}
	if len(shared) > 0 && d.Run == "" {
		mean = stats.Difference(shared[0], stats.Estimate{SE: betweenProcesses, DF: math.Inf(1)})
	}
	d.Geomean = stats.GeometricMeanSharing(slices.Concat(decidable...), mean, cfg.Confidence)
	d.GeomeanOverRows = overRows(all, levels, cfg.Confidence).Sharing(mean, cfg.Confidence)
	for _, c := range pa.Curves {
		d.OnlyA += len(c.Points) - matched[c]
	}
	for _, c := range pb.Curves {
		d.OnlyB += len(c.Points) - matched[c]
	}
}

// losses counts the rows of a that b lacks: failed or missing rows of matched curves, and all rows of the
// others. A row that b has only with excluded samples is undecided, not a loss.
func losses(a, b []*infer.Curve, pairs []curvePair) Losses {
	var out Losses
	in := map[*infer.Curve]*infer.Curve{}
	for _, pair := range pairs {
		in[pair.a] = pair.b
	}
	keyed := make(map[results.SeriesKey]*infer.Curve, len(b))
	for _, c := range b {
		keyed[c.Series.Key] = c
	}
	for _, c := range a {
		other := in[c]
		if other == nil {
			other = keyed[c.Series.Key] // the series has no valid sample in b, but may have failures
		}
		for _, p := range c.Points {
			out.Cases++
			name := results.Case{SeriesKey: c.Series.Key, M: p.M}.String()
			if other == nil {
				out.Missing++
				out.FirstMissing = cmp.Or(out.FirstMissing, name)
				continue
			}
			if _, ok := other.At(p.M); ok {
				continue
			}
			at, there := slices.BinarySearchFunc(other.Series.Rows, p.M, func(r results.Row, m int) int { return cmp.Compare(r.Case.M, m) })
			switch {
			case !there:
				out.Missing++
				out.FirstMissing = cmp.Or(out.FirstMissing, name)
			case other.Series.Rows[at].Failed != "":
				out.Failed++
				out.FirstFailed = cmp.Or(out.FirstFailed, other.Series.Rows[at].Failed)
			}
		}
	}
	return out
}
