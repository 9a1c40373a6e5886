package trust

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// tally is what has been counted under one kind of noise.
type tally struct {
	counts map[Measure]*Count
	// found counts planted intervals by depth.
	found map[float64]*Count
	// promised and predicted are log(promise ÷ true gain) of emitted remedies: as they
	// were executed, and as the sweep had it.
	promised, predicted []float64
	rows, samples       int // judged, and what they were judged by
	offences            []Offence
}

func newTally() *tally { return &tally{counts: map[Measure]*Count{}, found: map[float64]*Count{}} }

// count is the counter of a measure.
func (t *tally) count(m Measure) *Count { return at(t.counts, m) }

func at[K comparable](m map[K]*Count, key K) *Count {
	c := m[key]
	if c == nil {
		c = &Count{}
		m[key] = c
	}
	return c
}

// merge adds what another has counted.
func (t *tally) merge(o *tally) {
	for m, c := range o.counts {
		t.count(m).Hits += c.Hits
		t.count(m).Of += c.Of
	}
	for depth, c := range o.found {
		at(t.found, depth).Hits += c.Hits
		at(t.found, depth).Of += c.Of
	}
	t.promised, t.predicted = append(t.promised, o.promised...), append(t.predicted, o.predicted...)
	t.rows += o.rows
	t.samples += o.samples
	t.offences = append(t.offences, o.offences...)
}

// Offence is one thing that an audit got wrong.
type Offence struct {
	Kind    string  `json:"kind"`
	Machine int     `json:"machine"` // its number among those of the kind
	Run     string  `json:"run"`     // "a", "b", or how it was taken
	Measure Measure `json:"measure"`
	Kernel  string  `json:"kernel"`
	M       int     `json:"m"`
	Rule    string  `json:"rule,omitempty"`
	Verdict string  `json:"verdict,omitempty"`
	// Truth is the true loss or gain, Claimed what the audit has in its place, and Beyond
	// by how much the bound is missed, as a share or in log time.
	Truth   simulated.Range `json:"truth"`
	Claimed rules.Interval  `json:"claimed,omitzero"`
	Beyond  float64         `json:"beyond"`
	Samples int             `json:"samples,omitempty"`
}

func (s *subject) offend(v *visit, o Offence) {
	o.Kind, o.Machine, o.Run = s.kind.Name, s.index, v.name
	s.tally.offences = append(s.tally.offences, o)
}

// open says that a verdict decides nothing.
func open(v rules.Verdict) bool { return v == rules.Undecided || v == rules.Marginal }

// rowKey names a row of a run.
type rowKey struct {
	series results.SeriesKey
	m      int
}

// verdicts are those of all rows of an audit.
func verdicts(a *rules.Audit) map[rowKey]rules.Verdict {
	out := map[rowKey]rules.Verdict{}
	for _, s := range a.Series {
		for _, r := range s.Rows {
			out[rowKey{s.Key, r.M}] = r.Verdict
		}
	}
	return out
}

// scoreAudit holds the verdicts and findings of an audit against the truth.
func (s *subject) scoreAudit(v *visit, a *rules.Audit) {
	t := s.tally
	if t.count(InvalidRuns).add(a.Invalid != ""); a.Invalid != "" {
		return // it claims nothing
	}
	bound := 1 - s.cfg.Threshold
	clean := math.Max(bound, a.CleanBelow)
	for _, series := range a.Series {
		for _, r := range series.Rows {
			loss := v.truth.loss(series.Key.Kernel, r.M)
			o := Offence{Kernel: series.Key.Kernel, M: r.M, Rule: string(rules.Monotonic), Verdict: string(r.Verdict), Truth: loss, Samples: r.Samples,
				Claimed: lossOf(r, s.cfg.Threshold)}
			if r.Verdict == rules.Anomalous {
				wrong := loss.Hi <= bound
				if t.count(FalseRows).add(wrong); wrong {
					o.Measure, o.Beyond = FalseRows, bound-loss.Hi
					s.offend(v, o)
				}
			}
			if loss.Lo >= clean+SlowBeyond && !s.isolated(series.Key.Kernel, r.M) {
				missed := r.Verdict == rules.Clean
				if t.count(MissedRows).add(missed); missed {
					o.Measure, o.Beyond = MissedRows, loss.Lo-clean
					s.offend(v, o)
				}
			}
			t.count(OpenRows).add(open(r.Verdict))
			if open(r.Verdict) {
				o.Measure, o.Beyond = OpenRows, math.Abs(loss.Lo-bound)
				s.offend(v, o)
			}
			t.count(MarginalRows).add(r.Verdict == rules.Marginal)
			if v.truth.twoLevels(series.Key.Kernel, r.M) {
				t.count(ModesMissed).add(r.Modes == nil)
			} else {
				t.count(ModesFalse).add(r.Modes != nil)
			}
			t.rows++
			t.samples += r.Samples
		}
	}
	s.scoreTimes(v, a)
	s.scoreFindings(v, a)
}

// lossOf is the loss that a row's interval of MFU means, against what the rule demands.
func lossOf(r rules.RowVerdict, threshold float64) rules.Interval {
	if r.Expected <= 0 {
		return rules.Interval{}
	}
	full := r.Expected / threshold
	return rules.Interval{Lo: 1 - r.MFU.Hi/full, Mid: 1 - r.MFU.Mid/full, Hi: 1 - r.MFU.Lo/full}
}

// scoreTimes counts rows whose interval excludes their true time. What all rows have in
// common, such as a device that has become slower as a whole, is no error of a row.
func (s *subject) scoreTimes(v *visit, a *rules.Audit) {
	type one struct{ lo, mid, hi float64 }
	var rows []one
	var mids []float64
	for _, series := range a.Series {
		for _, r := range series.Rows {
			want := v.truth.seconds(results.Case{SeriesKey: series.Key, M: r.M})
			if want.Lo != want.Hi || r.US.Lo >= r.US.Hi {
				continue
			}
			us := want.Lo * 1e6
			rows = append(rows, one{math.Log(r.US.Lo / us), math.Log(r.US.Mid / us), math.Log(r.US.Hi / us)})
			mids = append(mids, rows[len(rows)-1].mid)
		}
	}
	common := middle(mids)
	for _, r := range rows {
		s.tally.count(UncoveredTime).add(common < r.lo || common > r.hi)
	}
}

// middle is the median, 0 of nothing.
func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Clone(v)
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}

// scoreFindings holds what was confirmed against the truth, and what was planted against
// what was confirmed.
func (s *subject) scoreFindings(v *visit, a *rules.Audit) {
	t := s.tally
	for _, f := range a.Findings {
		if f.Status != rules.Confirmed {
			continue
		}
		o := Offence{Kernel: f.Series.Kernel, M: f.WorstM, Rule: string(f.Rule), Verdict: string(f.Status), Claimed: f.Loss}
		excess, known := v.truth.excess(f, s.cfg)
		if !known {
			continue
		}
		if t.count(FalseFindings).add(excess <= 0); excess <= 0 {
			o.Measure, o.Beyond = FalseFindings, -excess
			if f.Rule == rules.Monotonic {
				o.Truth = v.truth.loss(f.Series.Kernel, f.WorstM)
			}
			s.offend(v, o)
		}
		if f.Rule == rules.Monotonic {
			loss := v.truth.loss(f.Series.Kernel, f.WorstM)
			off := math.Max(f.Loss.Lo-loss.Hi, loss.Lo-f.Loss.Hi)
			if t.count(UncoveredLoss).add(off > 0); off > 0 {
				o.Measure, o.Truth, o.Beyond = UncoveredLoss, loss, off
				s.offend(v, o)
			}
		}
	}
	if s.kind.inOrder {
		return // nothing could be measured again, so nothing is confirmed
	}
	for _, p := range s.machine.Planted() {
		found := slices.ContainsFunc(a.Findings, func(f rules.Finding) bool {
			return f.Status == rules.Confirmed && f.Rule == rules.Monotonic && f.Series.Kernel == p.Kernel && f.FromM <= p.ToM && f.ToM >= p.FromM
		})
		at(t.found, p.Depth).add(found)
		if p.Depth != PromisedDepth {
			continue
		}
		if t.count(UnfoundPromised).add(!found); !found {
			s.offend(v, Offence{Measure: UnfoundPromised, Kernel: p.Kernel, M: p.FromM, Rule: string(rules.Monotonic),
				Truth: v.truth.loss(p.Kernel, p.FromM), Beyond: p.Depth})
		}
	}
}

// scoreRemedies holds executed remedies against the truth.
func (s *subject) scoreRemedies(v *visit, r *rules.SplitsResult) {
	t := s.tally
	for i, rows := range [][]rules.SplitRow{r.Splits, r.Rejected} {
		emitted := i == 0
		for _, row := range rows {
			if !row.Executed {
				continue
			}
			t.count(RemediesUnpaid).add(!emitted)
			gain := v.truth.gain(row.Series, row.Remedy)
			o := Offence{Kernel: row.Series.Kernel, M: row.M, Rule: string(row.Kind), Truth: gain, Claimed: row.Gain}
			off := math.Max(row.Gain.Lo-gain.Hi, gain.Lo-row.Gain.Hi)
			if t.count(UncoveredGain).add(off > 0); off > 0 {
				o.Measure, o.Beyond = UncoveredGain, off
				s.offend(v, o)
			}
			if !emitted {
				continue
			}
			if t.count(FalseRemedies).add(gain.Hi <= 1); gain.Hi <= 1 {
				o.Measure, o.Beyond = FalseRemedies, 1-gain.Hi
				s.offend(v, o)
			}
			if gain.Lo == gain.Hi && row.Gain.Mid > 0 {
				t.promised = append(t.promised, math.Log(row.Gain.Mid/gain.Lo))
				if row.SweepUS > 0 && row.PredictedUS > 0 {
					t.predicted = append(t.predicted, math.Log(row.SweepUS/row.PredictedUS/gain.Lo))
				}
			}
		}
	}
}

// scoreTable holds the rows that the stretches of a table serve against the truth, and the
// rows that it should serve against the table.
func (s *subject) scoreTable(v *visit, r *rules.SplitsResult) {
	served := map[rowKey]bool{}
	for _, st := range r.Stretches {
		for _, m := range st.Ms {
			served[rowKey{st.Series, m}] = true
			remedy := rules.Remedy{Kind: st.Kind, M: m, PadTo: st.PadTo, Pad: st.Pad, Kernel: st.Kernel}
			if rest := m - sum(st.Fixed); len(st.Fixed) > 0 {
				remedy.Parts = append(slices.Clone(st.Fixed), rest)
			}
			gain := v.truth.gain(st.Series, remedy)
			if s.tally.count(FalseTableRows).add(gain.Hi <= 1); gain.Hi <= 1 {
				s.offend(v, Offence{Measure: FalseTableRows, Kernel: st.Series.Kernel, M: m, Rule: string(st.Kind), Truth: gain, Beyond: 1 - gain.Hi})
			}
		}
	}
	for _, series := range v.data.Series {
		for _, row := range series.Rows {
			gain := v.truth.bestGain(series.Key, row.Case.M)
			if gain < 1+s.cfg.Remedy.Margin+PaysBeyond {
				continue
			}
			missed := !served[rowKey{series.Key, row.Case.M}]
			if s.tally.count(MissedRemedies).add(missed); missed {
				s.offend(v, Offence{Measure: MissedRemedies, Kernel: series.Key.Kernel, M: row.Case.M, Truth: simulated.Range{Lo: gain, Hi: gain}, Beyond: gain - 1, Samples: len(row.Samples)})
			}
		}
	}
}

func sum(v []int) (total int) {
	for _, n := range v {
		total += n
	}
	return total
}

// scorePair counts on which rows two audits of one machine agree.
func (s *subject) scorePair(v *visit, a, b map[rowKey]rules.Verdict) {
	for key, x := range a {
		y, both := b[key]
		if !both {
			continue
		}
		if x == rules.Anomalous || y == rules.Anomalous {
			s.tally.count(PairDisagree).add(x != y)
			s.tally.count(PairDisagreeLenient).add(x != y && x != rules.Marginal && y != rules.Marginal)
		}
		s.contradict(v, PairContradict, key, x, y)
	}
}

// contradict counts a row that both sides decide.
func (s *subject) contradict(v *visit, m Measure, key rowKey, x, y rules.Verdict) {
	decided := func(v rules.Verdict) bool { return v == rules.Anomalous || v == rules.Clean }
	if !decided(x) || !decided(y) {
		return
	}
	if s.tally.count(m).add(x != y); x != y {
		loss := v.truth.loss(key.series.Kernel, key.m)
		s.offend(v, Offence{Measure: m, Kernel: key.series.Kernel, M: key.m, Rule: string(rules.Monotonic), Verdict: fmt.Sprintf("%s, %s", x, y),
			Truth: loss, Beyond: math.Abs(loss.Lo - (1 - s.cfg.Threshold))})
	}
}

// scoreStopped counts on which rows a sweep that was stopped contradicts the full one.
func (s *subject) scoreStopped(v *visit, m Measure, part, whole map[rowKey]rules.Verdict) {
	for key, x := range part {
		if y, ok := whole[key]; ok {
			s.contradict(v, m, key, x, y)
		}
	}
}

// scoreDiff counts what a comparison of two runs of one machine says has changed.
// Nothing has but the temperature, and with it the clock.
func (s *subject) scoreDiff(a, b *visit, d *rules.DiffResult) {
	s.tally.count(DiffAlarms).add(d.Slower+d.Faster > 0)
	for _, c := range d.Cases {
		s.tally.count(DiffMarginal).add(c.Change == rules.AtThreshold)
		changed := c.Change == rules.Slower || c.Change == rules.Faster
		s.tally.count(DiffChanged).add(changed)
		s.tally.count(DiffOpen).add(c.Change == rules.Open)
		key := results.Case{SeriesKey: c.Series, M: c.M}
		if t := a.truth.seconds(key); t.Lo == t.Hi && c.Ratio.Lo < c.Ratio.Hi {
			s.tally.count(UncoveredRatio).add(c.Ratio.Lo > 1 || c.Ratio.Hi < 1)
		}
		if changed {
			s.offend(b, Offence{Measure: DiffChanged, Kernel: c.Series.Kernel, M: c.M, Verdict: string(c.Change), Claimed: c.Ratio,
				Truth: simulated.Range{Lo: 1, Hi: 1}, Beyond: math.Abs(math.Log(c.Ratio.Mid))})
		}
	}
}
