package trust

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

type tally struct {
	counts map[Measure]*Count
	found  map[float64]*Count
	// promised and predicted are log(promise ÷ true gain), as executed and from the sweep.
	promised, predicted []float64
	rows, samples       int
	offences            []Offence
}

func newTally() *tally { return &tally{counts: map[Measure]*Count{}, found: map[float64]*Count{}} }

func (t *tally) count(m Measure) *Count { return at(t.counts, m) }

func at[K comparable](m map[K]*Count, key K) *Count {
	c := m[key]
	if c == nil {
		c = &Count{}
		m[key] = c
	}
	return c
}

func (t *tally) merge(o *tally) {
	for m, c := range o.counts {
		t.count(m).merge(*c)
	}
	for depth, c := range o.found {
		at(t.found, depth).merge(*c)
	}
	t.promised, t.predicted = append(t.promised, o.promised...), append(t.predicted, o.predicted...)
	t.rows += o.rows
	t.samples += o.samples
	t.offences = append(t.offences, o.offences...)
}

// Offence is one error of an audit.
type Offence struct {
	Kind    string  `json:"kind"`
	Machine int     `json:"machine"` // its number within the kind
	Run     string  `json:"run"`     // "a", "b", or how it was taken
	Measure Measure `json:"measure"`
	Kernel  string  `json:"kernel"`
	M       int     `json:"m"`
	Rule    string  `json:"rule,omitempty"`
	Verdict string  `json:"verdict,omitempty"`
	// Truth is the true loss or gain, Claimed the audit's value, and Beyond the distance from the bound, as a
	// share or in log time.
	Truth   simulated.Range `json:"truth"`
	Claimed stats.Interval  `json:"claimed,omitzero"`
	Beyond  float64         `json:"beyond"`
	Samples int             `json:"samples,omitempty"`
}

func (s *subject) offend(v *visit, o Offence) {
	o.Kind, o.Machine, o.Run = s.kind.Name, s.index, v.name
	s.tally.offences = append(s.tally.offences, o)
}

// judge counts under a measure, and keeps o as an offence if it is wrong: beyond is its distance from the bound.
func (s *subject) judge(v *visit, m Measure, wrong bool, beyond float64, o Offence) {
	s.tally.count(m).add(wrong)
	if wrong {
		o.Measure, o.Beyond = m, beyond
		s.offend(v, o)
	}
}

func open(v rules.Verdict) bool { return v == rules.Undecided || v == rules.Marginal }

type rowKey struct {
	series results.SeriesKey
	m      int
}

func verdicts(a *rules.Audit) map[rowKey]rules.Verdict {
	out := map[rowKey]rules.Verdict{}
	for _, s := range a.Series {
		for _, r := range s.Rows {
			out[rowKey{s.Key, r.M}] = r.Verdict
		}
	}
	return out
}

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
			o := Offence{Kernel: series.Key.Kernel, M: r.M, Rule: string(rules.Monotonic), Verdict: string(r.Verdict), Truth: loss,
				Samples: r.Samples,
				Claimed: lossOf(r, s.cfg.Threshold)}
			if r.Verdict == rules.Anomalous {
				s.judge(v, FalseRows, loss.Hi <= bound, bound-loss.Hi, o)
			}
			if loss.Lo >= clean+SlowBeyond && !s.isolated(series.Key.Kernel, r.M) {
				s.judge(v, MissedRows, r.Verdict == rules.Clean, loss.Lo-clean, o)
			}
			s.judge(v, OpenRows, open(r.Verdict), math.Abs(loss.Lo-bound), o)
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

// lossOf is relative to the rule's requirement.
func lossOf(r rules.RowVerdict, threshold float64) stats.Interval {
	if r.Expected <= 0 {
		return stats.Interval{}
	}
	full := r.Expected / threshold
	return stats.Interval{Lo: 1 - r.MFU.Hi/full, Mid: 1 - r.MFU.Mid/full, Hi: 1 - r.MFU.Lo/full}
}

// An error common to all rows, such as a slower device, is no error of a row.
func (s *subject) scoreTimes(v *visit, a *rules.Audit) {
	var rows []stats.Interval
	var mids []float64
	for _, series := range a.Series {
		for _, r := range series.Rows {
			want := v.truth.seconds(results.Case{SeriesKey: series.Key, M: r.M})
			if want.Lo != want.Hi || r.US.Lo >= r.US.Hi {
				continue
			}
			us := want.Lo * 1e6
			rows = append(rows, stats.Interval{Lo: math.Log(r.US.Lo / us), Hi: math.Log(r.US.Hi / us)})
			mids = append(mids, math.Log(r.US.Mid/us))
		}
	}
	common := stats.Median(mids)
	for _, r := range rows {
		s.tally.count(UncoveredTime).add(common < r.Lo || common > r.Hi)
	}
}

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
		if f.Rule == rules.Monotonic {
			o.Truth = v.truth.loss(f.Series.Kernel, f.WorstM)
			off := math.Max(f.Loss.Lo-o.Truth.Hi, o.Truth.Lo-f.Loss.Hi)
			s.judge(v, UncoveredLoss, off > 0, off, o)
		}
		s.judge(v, FalseFindings, excess <= 0, -excess, o)
	}
	if s.kind.inOrder {
		return // without repeated measurements no finding is confirmed
	}
	for _, p := range s.machine.Planted() {
		found := slices.ContainsFunc(a.Findings, func(f rules.Finding) bool {
			return f.Status == rules.Confirmed && f.Rule == rules.Monotonic && f.Series.Kernel == p.Kernel && f.FromM <= p.ToM &&
				f.ToM >= p.FromM
		})
		at(t.found, p.Depth).add(found)
		if p.Depth != PromisedDepth {
			continue
		}
		s.judge(v, UnfoundPromised, !found, p.Depth,
			Offence{Kernel: p.Kernel, M: p.FromM, Rule: string(rules.Monotonic), Truth: v.truth.loss(p.Kernel, p.FromM)})
	}
}

func (s *subject) scoreRemedies(v *visit, r *remedy.Result) {
	t := s.tally
	for i, rows := range [][]remedy.Row{r.Splits, r.Rejected} {
		emitted := i == 0
		for _, row := range rows {
			if !row.Executed {
				continue
			}
			t.count(RemediesUnpaid).add(!emitted)
			gain := v.truth.gain(row.Series, row.Remedy)
			o := Offence{Kernel: row.Series.Kernel, M: row.M, Rule: string(row.Kind), Truth: gain, Claimed: row.Gain}
			off := math.Max(row.Gain.Lo-gain.Hi, gain.Lo-row.Gain.Hi)
			s.judge(v, UncoveredGain, off > 0, off, o)
			if !emitted {
				continue
			}
			s.judge(v, FalseRemedies, gain.Hi <= 1, 1-gain.Hi, o)
			if gain.Lo == gain.Hi && row.Gain.Mid > 0 {
				t.promised = append(t.promised, math.Log(row.Gain.Mid/gain.Lo))
				if row.SweepUS > 0 && row.PredictedUS > 0 {
					t.predicted = append(t.predicted, math.Log(row.SweepUS/row.PredictedUS/gain.Lo))
				}
			}
		}
	}
}

// scoreTable also compares the rows that the table should serve.
func (s *subject) scoreTable(v *visit, r *remedy.Result) {
	served := map[rowKey]bool{}
	for _, st := range r.Stretches {
		for _, m := range st.Ms {
			served[rowKey{st.Series, m}] = true
			gain := v.truth.gain(st.Series, remedyAt(st, m))
			s.judge(v, FalseTableRows, gain.Hi <= 1, 1-gain.Hi, Offence{Kernel: st.Series.Kernel, M: m, Rule: string(st.Kind), Truth: gain})
		}
	}
	for _, series := range v.data.Series {
		for _, row := range series.Rows {
			gain := v.truth.bestGain(series.Key, row.Case.M)
			if gain < 1+s.cfg.Remedy.Margin+PaysBeyond {
				continue
			}
			s.judge(v, MissedRemedies, !served[rowKey{series.Key, row.Case.M}], gain-1,
				Offence{Kernel: series.Key.Kernel, M: row.Case.M, Truth: simulated.Range{Lo: gain, Hi: gain}, Samples: len(row.Samples)})
		}
	}
}

// remedyAt is what a table serves for an M of a stretch.
func remedyAt(st remedy.Stretch, m int) rules.Remedy {
	r := rules.Remedy{Kind: st.Kind, M: m, PadTo: st.PadTo, Pad: st.Pad, Kernel: st.Kernel}
	if len(st.Fixed) > 0 {
		rest := m
		for _, part := range st.Fixed {
			rest -= part
		}
		r.Parts = append(slices.Clone(st.Fixed), rest)
	}
	return r
}

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

func (s *subject) contradict(v *visit, m Measure, key rowKey, x, y rules.Verdict) {
	decided := func(v rules.Verdict) bool { return v == rules.Anomalous || v == rules.Clean }
	if !decided(x) || !decided(y) {
		return
	}
	loss := v.truth.loss(key.series.Kernel, key.m)
	s.judge(v, m, x != y, math.Abs(loss.Lo-(1-s.cfg.Threshold)),
		Offence{Kernel: key.series.Kernel, M: key.m, Rule: string(rules.Monotonic), Verdict: fmt.Sprintf("%s, %s", x, y), Truth: loss})
}

// scoreStopped counts contradictions between a stopped sweep and the full one.
func (s *subject) scoreStopped(v *visit, m Measure, part, whole map[rowKey]rules.Verdict) {
	for key, x := range part {
		if y, ok := whole[key]; ok {
			s.contradict(v, m, key, x, y)
		}
	}
}

// Only the temperature, and with it the clock, differs between the runs.
func (s *subject) scoreDiff(a, b *visit, d *diff.Result) {
	s.tally.count(DiffAlarms).add(d.Slower+d.Faster > 0)
	for _, c := range d.Cases {
		s.tally.count(DiffMarginal).add(c.Change == change.AtThreshold)
		changed := c.Change == change.Slower || c.Change == change.Faster
		s.judge(b, DiffChanged, changed, math.Abs(math.Log(c.Ratio.Mid)),
			Offence{Kernel: c.Series.Kernel, M: c.M, Verdict: string(c.Change), Claimed: c.Ratio, Truth: simulated.Range{Lo: 1, Hi: 1}})
		s.tally.count(DiffOpen).add(c.Change == change.Open)
		key := results.Case{SeriesKey: c.Series, M: c.M}
		if t := a.truth.seconds(key); t.Lo == t.Hi && c.Ratio.Lo < c.Ratio.Hi {
			s.tally.count(UncoveredRatio).add(c.Ratio.Lo > 1 || c.Ratio.Hi < 1)
		}
	}
}
