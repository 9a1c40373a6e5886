package triage

import (
	"cmp"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Schema is the value of Triage.Schema.
const Schema = "gemmaudit.triage/1"

// Result says how much time a recorded workload loses on a run's machine. All shares are of the time of the
// workload's products: calls × time of one call. Times not measured are the plan's predictions, scaled by the
// measured ones.
type Result struct {
	Schema string `json:"schema"`
	Run    string `json:"run"`
	// Files are the workload's files.
	Files []string `json:"files"`
	// Products is how many products the workload has, each at its own M, and Calls how often they are
	// computed in all.
	Products int     `json:"products"`
	Calls    float64 `json:"calls"`
	// TotalUS is the time of all calls in microseconds.
	TotalUS float64 `json:"total_us"`
	// Lost is the share that is surely lost, by confirmed findings and executed remedies. Its bounds are the
	// sums of the products' bounds.
	Lost stats.Interval `json:"lost"`
	// Undecided is the share of products without a verdict.
	Undecided float64 `json:"undecided"`
	// Reasons say why, the largest share first.
	Reasons []Reason `json:"undecided_reasons,omitempty"`
	// BelowRoofline is the share of products that break the roofline rule although no measured alternative is
	// faster. A roofline does not prove that a kernel can reach it, so this share is not in Lost.
	BelowRoofline float64 `json:"below_roofline,omitempty"`
	// Losses are the products that lose, the largest loss first.
	Losses []Loss `json:"losses"`
	// Longer is the command that measures the workload for longer.
	Longer string `json:"longer_run,omitempty"`
	// Explain is the command that explains the product with the largest loss; empty if it belongs to no
	// problem.
	Explain string `json:"explain,omitempty"`
}

// Reason is why products are undecided.
type Reason struct {
	Reason   Code    `json:"reason"`
	Products int     `json:"products"`
	Share    float64 `json:"share"`
}

// Code is the reason for an undecided product.
type Code string

// The reasons.
const (
	TriageInvalid     Code = "invalid"      // the whole run can't be judged
	TriageNotMeasured Code = "not-measured" // the time went to more valuable products
	TriageNoKernel    Code = "no-kernel"    // no kernel of the run supports the product
	TriageFailed      Code = "failed"       // its cases failed
	TriageNoise       Code = "noise"        // the verdict is undecided
	TriageAlone       Code = "alone"        // it has no reference
	TriageUnproven    Code = "unproven"     // a finding or a remedy was not measured again
)

// Loss is a product that loses time.
type Loss struct {
	Series results.SeriesKey `json:"series"`
	M      int               `json:"m"`
	Calls  float64           `json:"calls"`
	// Share is the product's part of the workload's time.
	Share float64 `json:"share"`
	// US is the time of a call now, WithUS the time with the remedy, or without the loss if there is no
	// remedy.
	US     float64 `json:"us"`
	WithUS float64 `json:"with_us"`
	// Lost is the lost share of the product's own time, LostUS the lost time of all calls.
	Lost   stats.Interval `json:"lost"`
	LostUS float64        `json:"lost_us"`
	// Remedy is the proven remedy, or nil.
	Remedy *rules.Remedy `json:"remedy,omitempty"`
	// Rule, Cause and Finding come from the confirmed finding; empty if only a remedy shows the loss.
	Rule    rules.Rule `json:"rule,omitempty"`
	Cause   cause.Kind `json:"cause,omitempty"`
	Finding string     `json:"finding,omitempty"`
	// Problem is the number of the product's problem in the run, or 0.
	Problem int `json:"problem,omitempty"`
}

// New applies the results of an audit and a search for remedies to the recorded workload of a run. The
// plan's first kernel of each product counts as the one in use.
func New(data infer.Data, audit *rules.Audit, found *remedy.Result) (*Result, error) {
	plan, err := data.Meta.Planned()
	if err != nil {
		return nil, err
	}
	t := &Result{Schema: Schema, Run: data.Name, Files: []string{}, Losses: []Loss{}}
	var devices []string
	for _, s := range plan.Series {
		if !slices.Contains(devices, s.Device) {
			devices = append(devices, s.Device)
		}
	}
	w := newRun(data, audit, found)
	var products []product
	var measured, expected float64
	for _, p := range data.Recorded {
		t.Products++
		t.Calls += p.Calls
		for _, device := range devices {
			tp := product{RecordedProduct: p, us: p.ExpectedUS, why: TriageNotMeasured}
			if p.NoKernel {
				tp.why = TriageNoKernel
			}
			for _, s := range plan.Series {
				if s.Device != device || !p.Is(s.Subject) {
					continue
				}
				tp.key = s.SeriesKey
				if us, ok := w.times[remedy.RowOf{Series: s.SeriesKey, M: p.M}]; ok {
					tp.us, tp.measured = us, true
					measured, expected = measured+p.Calls*us, expected+p.Calls*p.ExpectedUS
				}
				break
			}
			products = append(products, tp)
		}
	}
	for i := range products {
		p := &products[i]
		if !p.measured && expected > 0 {
			p.us *= measured / expected
		}
		t.TotalUS += p.Calls * p.us
	}
	if !(t.TotalUS > 0) {
		return t, nil
	}
	reasons := map[Code]Reason{}
	for _, p := range products {
		share := p.Calls * p.us / t.TotalUS
		loss, why := w.judge(p)
		if loss == nil && why == "" && w.belowRoofline(p) {
			t.BelowRoofline += share
		}
		switch {
		case loss != nil:
			loss.Calls, loss.Share, loss.LostUS = p.Calls, share, p.Calls*p.us*loss.Lost.Mid
			t.Lost.Lo += share * loss.Lost.Lo
			t.Lost.Mid += share * loss.Lost.Mid
			t.Lost.Hi += share * loss.Lost.Hi
			t.Losses = append(t.Losses, *loss)
		case why != "":
			r := reasons[why]
			r.Reason, r.Products, r.Share = why, r.Products+1, r.Share+share
			reasons[why] = r
			t.Undecided += share
		}
	}
	for _, r := range reasons {
		t.Reasons = append(t.Reasons, r)
	}
	slices.SortFunc(t.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Reason, b.Reason))
	})
	slices.SortStableFunc(t.Losses, func(a, b Loss) int { return cmp.Compare(b.LostUS, a.LostUS) })
	return t, nil
}

type product struct {
	results.RecordedProduct
	key      results.SeriesKey
	us       float64
	measured bool
	why      Code // if it was not measured
}

type run struct {
	audit    *rules.Audit
	times    map[remedy.RowOf]float64
	failed   map[remedy.RowOf]bool
	verdicts map[remedy.RowOf]rules.Verdict
	findings map[results.SeriesKey][]*rules.Finding
	remedies map[remedy.RowOf]*rules.Remedy // that pay, the one with the largest saving
	open     map[remedy.RowOf]bool          // a remedy is predicted and was not executed
	compared map[remedy.RowOf]bool          // a larger M of the series, or another kernel, was measured
}

func newRun(data infer.Data, audit *rules.Audit, found *remedy.Result) *run {
	w := &run{audit: audit, times: remedy.MedianTimes(data), failed: map[remedy.RowOf]bool{}, verdicts: map[remedy.RowOf]rules.Verdict{},
		findings: map[results.SeriesKey][]*rules.Finding{}, remedies: map[remedy.RowOf]*rules.Remedy{}, open: map[remedy.RowOf]bool{},
		compared: map[remedy.RowOf]bool{}}
	kernels := map[remedy.RowOf]int{} // by device and subject
	at := func(key results.SeriesKey, m int) remedy.RowOf {
		key.Kernel = ""
		return remedy.RowOf{Series: key, M: m}
	}
	for _, s := range data.Series {
		for _, r := range s.Rows {
			row := remedy.RowOf{Series: s.Key, M: r.Case.M}
			if _, ok := w.times[row]; ok {
				kernels[at(s.Key, r.Case.M)]++
			} else if r.Failed != "" {
				w.failed[row] = true
			}
		}
	}
	for _, s := range data.Series {
		largest := 0
		for _, r := range s.Rows {
			if _, ok := w.times[remedy.RowOf{Series: s.Key, M: r.Case.M}]; ok {
				largest = max(largest, r.Case.M)
			}
		}
		for _, r := range s.Rows {
			w.compared[remedy.RowOf{Series: s.Key, M: r.Case.M}] = r.Case.M < largest || kernels[at(s.Key, r.Case.M)] > 1
		}
	}
	for _, s := range audit.Series {
		for _, r := range s.Rows {
			w.verdicts[remedy.RowOf{Series: s.Key, M: r.M}] = r.Verdict
		}
	}
	for i := range audit.Findings {
		f := &audit.Findings[i]
		w.findings[f.Series] = append(w.findings[f.Series], f)
	}
	for i := range found.Stretches {
		s := &found.Stretches[i]
		for _, m := range s.Ms {
			if r := remedyAt(*s, m); r != nil && w.remedies[remedy.RowOf{Series: s.Series, M: m}] == nil {
				w.remedies[remedy.RowOf{Series: s.Series, M: m}] = r
			}
		}
	}
	for i := len(found.Splits) - 1; i >= 0; i-- { // the largest savings come first
		r := &found.Splits[i]
		row := remedy.RowOf{Series: r.Series, M: r.M}
		switch {
		case r.Pays:
			w.remedies[row] = &r.Remedy
		case !r.Executed:
			w.open[row] = true
		}
	}
	return w
}

func (w *run) judge(p product) (*Loss, Code) {
	row := remedy.RowOf{Series: p.key, M: p.M}
	switch {
	case !p.measured && w.failed[row]:
		return nil, TriageFailed
	case !p.measured:
		return nil, p.why
	case w.audit.Invalid != "":
		return nil, TriageInvalid
	}
	loss := &Loss{Series: p.key, M: p.M, US: p.us}
	finding, lost, unproven := w.finding(p)
	if finding != nil {
		loss.Rule, loss.Cause, loss.Finding, loss.Lost = finding.Rule, finding.Cause, finding.ID, lost
	}
	if r := w.remedies[row]; r != nil {
		loss.Remedy = r
		loss.Lost = stats.Interval{Lo: 1 - 1/r.Gain.Lo, Mid: 1 - 1/r.Gain.Mid, Hi: 1 - 1/r.Gain.Hi}
	}
	if loss.Remedy != nil || finding != nil {
		loss.WithUS = p.us * (1 - loss.Lost.Mid)
		return loss, ""
	}
	verdict, judged := w.verdicts[row]
	switch {
	case unproven || w.open[row]:
		return nil, TriageUnproven
	case judged && verdict == rules.Undecided:
		return nil, TriageNoise
	case (!judged || verdict == rules.Unjudged) && !w.compared[row]:
		return nil, TriageAlone
	}
	return nil, ""
}

// finding is the confirmed finding with the largest loss of a row, and that loss; unproven is true if a
// finding was not measured again.
func (w *run) finding(p product) (worst *rules.Finding, loss stats.Interval, unproven bool) {
	for _, f := range w.findings[p.key] {
		l, ok := w.audit.Losses[f.ID][p.M]
		switch {
		case f.Status == rules.Waived || f.Rule == rules.Roofline:
		case f.Status != rules.Confirmed:
			unproven = unproven || f.FromM <= p.M && p.M <= f.ToM
		case !ok:
		case worst == nil || l.Mid > loss.Mid:
			worst, loss = f, l
		}
	}
	return worst, loss, unproven
}

func (w *run) belowRoofline(p product) bool {
	return slices.ContainsFunc(w.findings[p.key], func(f *rules.Finding) bool {
		_, ok := w.audit.Losses[f.ID][p.M]
		return ok && f.Rule == rules.Roofline && f.Status == rules.Confirmed
	})
}

// remedyAt is the remedy of a stretch at one of its Ms, with the result of the nearest executed M; nil if none was
// executed.
func remedyAt(s remedy.Stretch, m int) *rules.Remedy {
	near := s.Nearest(m)
	if near == nil {
		return nil
	}
	r := *near
	if r.M = m; s.Kind == rules.RemedySplit && near.M != m {
		rest := m
		for _, part := range s.Fixed {
			rest -= part
		}
		r.Parts = append(slices.Clone(s.Fixed), rest)
	}
	return &r
}
