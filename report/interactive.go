package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/explain"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// interactive is the data of index.html's script. Numbers of rows and samples are stored separately, in
// columns; every text is cleaned.
type interactive struct {
	Title     string              `json:"title"`
	Runs      []string            `json:"runs"`
	Threshold float64             `json:"threshold,omitempty"`
	RowRule   string              `json:"row_rule,omitempty"`
	Series    []interactiveSeries `json:"series"`
	// Labels holds the names of launches, Conditions the causes of slow samples. Rows and samples refer to
	// them by index; 0 means unset.
	Labels     []string             `json:"labels"`
	Conditions []string             `json:"conditions"`
	Findings   []interactiveFinding `json:"findings"`
	// Words explains the terms that the findings use.
	Words    []explain.Term       `json:"words"`
	Remedies []interactiveRemedy  `json:"remedies"`
	Executed []interactiveSamples `json:"executed"`
	// Samples counts the run's samples, Kept those in the page; LeftOut counts the inferred rows not in the
	// page.
	Samples int `json:"samples"`
	Kept    int `json:"kept"`
	LeftOut int `json:"left_out,omitempty"`

	columns columns
}

// interactiveSeries is a series with the position of its rows in the columns, for each run that has it.
type interactiveSeries struct {
	Name   string             `json:"name"`
	Device string             `json:"device"`
	Kernel string             `json:"kernel"`
	Peak   string             `json:"peak"`
	Clock  float64            `json:"clock_mhz,omitempty"`
	Along  string             `json:"along,omitempty"` // what sizes are of; empty for M
	Blocks []interactiveBlock `json:"blocks"`
}

// interactiveBlock is the rows of a series in one run, ascending in M, beginning at index At.
type interactiveBlock struct {
	Run  int `json:"run"`
	At   int `json:"at"`
	Rows int `json:"rows"`
}

// interactiveFinding is a finding for its card in the page. Loss and stake are numbers, used for sorting; the
// rest is text.
type interactiveFinding struct {
	ID     string  `json:"id"`
	Series int     `json:"series"`
	Run    int     `json:"run"`
	Change string  `json:"change,omitempty"`
	Status string  `json:"status"`
	Rule   string  `json:"rule"`
	Claim  string  `json:"claim"`
	Cause  string  `json:"cause"`
	Kernel string  `json:"kernel"`
	From   int     `json:"from"`
	To     int     `json:"to"`
	Rows   int     `json:"rows"`
	Worst  int     `json:"worst"`
	Loss   float64 `json:"loss"`
	Stake  float64 `json:"stake"`
	P      float64 `json:"p"`
	Gain   float64 `json:"gain"`
	// The same values as text; empty if unknown.
	LossText  string      `json:"loss_text"`
	StakeText string      `json:"stake_text"`
	PText     string      `json:"p_text"`
	Remedy    string      `json:"remedy"`
	GainText  string      `json:"gain_text"`
	Proof     string      `json:"proof,omitempty"`
	Why       string      `json:"why,omitempty"`
	Excluded  string      `json:"excluded,omitempty"` // excluded causes, if the cause is unknown
	Waiver    string      `json:"waiver,omitempty"`
	Reference int         `json:"reference,omitempty"`
	Against   string      `json:"against,omitempty"`
	Command   string      `json:"command,omitempty"`
	Facts     [][2]string `json:"facts,omitempty"` // more cells of the findings table
}

type interactiveRemedy struct {
	Series int     `json:"series"`
	M      int     `json:"m"`
	Text   string  `json:"text"`
	Gain   string  `json:"gain"`
	Lo     float64 `json:"lo"`
	US     float64 `json:"us"`
	Hi     float64 `json:"hi"`
	Direct float64 `json:"direct"`
	Pays   bool    `json:"pays"`
}

type interactiveSamples struct {
	Series int       `json:"series"`
	M      int       `json:"m"`
	Text   string    `json:"text"` // empty for the unchanged product
	US     []float64 `json:"us"`
}

const (
	// mostSamples is the maximum number of samples in the page. Beyond it, rows without findings have only
	// quantiles.
	mostSamples = 1_000_000
	// mostInferred is the number of inferred rows beyond which the page omits the clean ones.
	mostInferred = 200_000
)

func newInteractive(in Input) *interactive {
	d := &interactive{Title: Clean("GEMM audit of " + machineName(in.Meta)), Runs: []string{Clean(in.Run)}}
	d.begin()
	keys := map[results.SeriesKey]int{}
	found := map[results.SeriesKey][]rules.Finding{}
	if in.Audit != nil {
		d.Threshold, d.RowRule = in.Audit.Threshold, string(RowRule(in.Audit))
		for _, f := range in.Audit.Findings {
			found[f.Series] = append(found[f.Series], f)
		}
	}
	curves := newCurves(in.Series, in.Audit)
	rows := 0
	for i, s := range in.Series {
		rows += len(curves[i].Rows)
		for _, r := range s.Rows {
			d.Samples += len(r.Samples)
		}
	}
	d.columns.start(in.Series)
	room := d.Samples
	if room > mostSamples {
		room = mostSamples
	}
	all := d.Samples <= mostSamples
	for i, s := range in.Series {
		keys[s.Key] = i
		block := interactiveBlock{At: len(d.columns.m)}
		var marked []stretchOfM
		for _, f := range found[s.Key] {
			marked = append(marked, stretchOfM{f.FromM, f.ToM})
		}
		for _, r := range joined(curves[i], s) {
			if r.verdict.Inferred && rows > mostInferred && r.verdict.Verdict == rules.Clean {
				d.LeftOut++
				continue
			}
			keep := all || len(r.samples) <= room && slices.ContainsFunc(marked, func(x stretchOfM) bool { return x.has(r.verdict.M) })
			if keep {
				room -= len(r.samples)
				d.Kept += len(r.samples)
			}
			d.add(r, keep, d.Threshold)
		}
		block.Rows = len(d.columns.m) - block.At
		d.Series = append(d.Series,
			interactiveSeries{Name: Clean(s.Key.Text()), Along: alongOf(s.Key), Device: Clean(s.Key.Device),
				Kernel: Clean(s.Key.Kernel),
				Peak:   Clean(PeakText(s.Peak)), Clock: curves[i].ClockMHz, Blocks: []interactiveBlock{block}})
	}
	remedies := map[results.SeriesKey][]rules.Remedy{}
	if in.Splits != nil {
		for _, r := range allRemedies(in.Splits.Whole()) { // findings keep their remedies even if those are not listed
			remedies[r.Series] = append(remedies[r.Series], r.Remedy)
		}
	}
	if in.Audit != nil {
		for _, f := range in.Audit.Findings {
			if at, ok := keys[f.Series]; ok {
				if f.Remedy == nil {
					f.Remedy = remedyOf(f, remedies[f.Series])
				}
				d.Findings = append(d.Findings, newFinding(f, at, in.Meta, in.Audit.Method))
			}
		}
	}
	d.explain()
	if in.Splits != nil {
		for _, r := range allRemedies(in.Splits) {
			if at, ok := keys[r.Series]; ok && r.Executed {
				d.Remedies = append(d.Remedies,
					interactiveRemedy{Series: at, M: r.M, Text: Clean(remedyText(r.Remedy)), Gain: gainText(r.Remedy),
						Lo: r.ExecutedUS.Lo, US: r.ExecutedUS.Mid, Hi: r.ExecutedUS.Hi, Direct: r.DirectUS, Pays: r.Pays})
			}
		}
	}
	d.executed(in.Executed, in.Splits, keys)
	return d
}

// begin initializes the lists, so JSON has no null.
func (d *interactive) begin() {
	d.Series, d.Labels, d.Conditions = []interactiveSeries{}, []string{""}, []string{""}
	d.Words = []explain.Term{}
	d.Findings, d.Remedies, d.Executed = []interactiveFinding{}, []interactiveRemedy{}, []interactiveSamples{}
}

type stretchOfM struct{ from, to int }

func (s stretchOfM) has(m int) bool { return s.from <= m && m <= s.to }

type joinedRow struct {
	verdict rules.RowVerdict
	seen    stats.Interval // as observed
	samples []results.Sample
	failed  bool
}

// joined pairs a curve's rows with the measured ones, ascending in M, including rows that only failed.
func joined(c Curve, s results.Series) []joinedRow {
	out := make([]joinedRow, 0, max(len(c.Rows), len(s.Rows)))
	at := 0
	failed := func(r results.Row) joinedRow {
		return joinedRow{verdict: rules.RowVerdict{M: r.Case.M, Label: r.Case.Label}, samples: r.Samples, failed: true}
	}
	for _, v := range c.Rows {
		for ; at < len(s.Rows) && s.Rows[at].Case.M < v.M; at++ {
			out = append(out, failed(s.Rows[at]))
		}
		r := joinedRow{verdict: v, seen: v.US}
		if v.ObservedUS.Mid > 0 {
			r.seen = v.ObservedUS
		}
		if at < len(s.Rows) && s.Rows[at].Case.M == v.M {
			r.samples = s.Rows[at].Samples
			if r.verdict.Label == "" {
				r.verdict.Label = s.Rows[at].Case.Label
			}
			at++
		}
		out = append(out, r)
	}
	for ; at < len(s.Rows); at++ {
		out = append(out, failed(s.Rows[at]))
	}
	return out
}

func newFinding(f rules.Finding, at int, meta results.Meta, method string) interactiveFinding {
	out := interactiveFinding{
		ID: Clean(f.ID), Series: at, Status: string(f.Status), Rule: string(f.Rule), Claim: Clean(f.Rule.Claim()), Cause: string(f.Cause),
		Kernel: Clean(f.Series.Kernel), From: f.FromM, To: f.ToM, Rows: f.Rows, Worst: f.WorstM, Stake: orZero(f.StakeUS),
		P:        orZero(f.AdjustedP),
		LossText: toCell(lossCell(f)).Text(), StakeText: stake(f.StakeUS).Text(), PText: probability(f.AdjustedP).Text(),
		Why: Clean(f.Explanation), Waiver: Clean(f.Waiver), Reference: f.ReferenceM, Against: Clean(f.Reference),
	}
	if out.LossText != "" {
		out.Loss = orZero(f.Loss.Mid)
	}
	if method == rules.MethodArticle {
		out.P, out.PText = 0, ""
	}
	if f.Cause == cause.Unknown || f.Cause == "" {
		out.Excluded = Clean(excludedText(f.Excluded))
	}
	if meta.Source == "" {
		out.Command = Clean(f.Reproduce)
	}
	if f.Inferred > 0 {
		out.Facts = append(out.Facts, [2]string{"inferred rows", itoa(f.Inferred)})
	}
	out.Facts = append(out.Facts, sustainedFacts(f)...)
	if r := f.Remedy; r != nil {
		out.Remedy, out.GainText = Clean(remedyText(*r)), gainText(*r)
		out.Proof = Clean(proofText(*r))
		switch {
		case r.Executed:
			out.Gain = orZero(r.Gain.Mid)
		case r.PredictedUS > 0:
			out.Gain = orZero(r.DirectUS / r.PredictedUS)
		}
	}
	return out
}

func (d *interactive) explain() {
	for _, t := range explain.Terms() {
		if slices.ContainsFunc(d.Findings, func(f interactiveFinding) bool {
			return t.Kind == explain.Rule && f.Rule == t.Name || t.Kind == explain.Cause && f.Cause == t.Name ||
				t.Kind == explain.Status && f.Status == t.Name
		}) {
			d.Words = append(d.Words, t)
		}
	}
}

func sustainedFacts(f rules.Finding) [][2]string {
	if f.Sustained == nil {
		return nil
	}
	sheet := sheetOf("", findingSustained, []*rules.Sustained{f.Sustained})
	var facts [][2]string
	for i, cell := range sheet.Rows[0] {
		if text := toCell(cell).Text(); text != "" {
			facts = append(facts, [2]string{sheet.Columns[i].Name, Clean(text)})
		}
	}
	return facts
}

func proofText(r rules.Remedy) string {
	if !r.Executed {
		return fmt.Sprintf("predicted from the sweep: %s us instead of %s us; it was not executed", formatMicros(r.PredictedUS),
			formatMicros(r.DirectUS))
	}
	text := fmt.Sprintf("executed at m%d in turns with the product as it is: %s us instead of %s us", r.M,
		bounds{r.ExecutedUS, Micros}.Text(), formatMicros(r.DirectUS))
	switch {
	case r.Unsteady:
		text += "; undecided, because other load slowed the product"
	case r.Pays:
		text += "; it pays"
	default:
		text += "; it does not pay"
	}
	if n := r.Numerics; n != nil {
		text += fmt.Sprintf(". Error against float64 %s, of the product as it is %s", relativeError(n.RemedyError).Text(),
			relativeError(n.DirectError).Text())
	}
	return text
}

// remedyOf returns the remedy for a finding's rows, or nil. It prefers remedies that pay, then
// the worst row's, then the largest saving.
func remedyOf(f rules.Finding, remedies []rules.Remedy) *rules.Remedy {
	rank := func(r *rules.Remedy) [3]float64 {
		var v [3]float64
		if r.Pays {
			v[0] = 2
		} else if r.Executed {
			v[0] = 1
		}
		if r.M == f.WorstM {
			v[1] = 1
		}
		v[2] = r.StakeUS
		return v
	}
	var best *rules.Remedy
	for i := range remedies {
		r := &remedies[i]
		if r.M < f.FromM || r.M > f.ToM {
			continue
		}
		if best != nil {
			a, b := rank(r), rank(best)
			if slices.Compare(a[:], b[:]) <= 0 {
				continue
			}
		}
		best = r
	}
	return best
}

// executed adds the samples of remedies and of the products timed in turns with them. A product by another
// kernel counts as a remedy if the search lists it.
func (d *interactive) executed(rows []results.Row, splits *remedy.Result, keys map[results.SeriesKey]int) {
	others := map[results.SeriesKey][]remedy.Row{}
	if splits != nil {
		for _, r := range allRemedies(splits) {
			if r.Kernel != "" {
				key := r.Series
				key.Kernel = r.Kernel
				others[key] = append(others[key], r)
			}
		}
	}
	for _, r := range rows {
		var us []float64
		for _, s := range r.Samples {
			if IsFinite(s.US) && s.US > 0 {
				us = append(us, float64(float32(s.US)))
			}
		}
		if len(us) == 0 {
			continue
		}
		text := executedText(r.Case)
		if at, ok := keys[r.Case.SeriesKey]; ok {
			d.Executed = append(d.Executed, interactiveSamples{Series: at, M: r.Case.M, Text: text, US: us})
		}
		for _, o := range others[r.Case.SeriesKey] {
			if at, ok := keys[o.Series]; ok && o.M == r.Case.M && text == "" {
				d.Executed = append(d.Executed, interactiveSamples{Series: at, M: o.M, Text: Clean(remedyText(o.Remedy)), US: us})
			}
		}
	}
}

func executedText(c results.Case) string {
	switch {
	case len(c.Parts) > 0:
		return results.JoinInts(c.Parts, "+")
	case c.PadTo > 0 && c.Copied:
		return padText(c.PadTo, table.Copied)
	case c.PadTo > 0:
		return padText(c.PadTo, table.InPlace)
	}
	return ""
}

// orZero is v, or 0 if JSON cannot represent it.
func orZero(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
