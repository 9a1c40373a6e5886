package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// WriteAudit prints the verdicts of a run. JSON is the audit itself, JSONL and
// CSV hold one finding a line, bench every sample of the series. meta and series
// are those of the run.
func WriteAudit(w io.Writer, f Format, meta results.Meta, series []results.Series, audit *rules.Audit) error {
	doc := &Document{Subject: "audit", Value: audit, Items: []any{}, Head: append(auditHead(audit), sustainedNotes(audit)...)}
	doc.Head = append(doc.Head, disturbanceNotes(series)...)
	for _, finding := range audit.Findings {
		doc.Items = append(doc.Items, finding)
	}
	doc.Sheets = []Sheet{FindingSheet(meta, audit), verdictSheet(audit)}
	doc.Sheets[0].Title, doc.Sheets[1].Title = "Findings", verdictTitle("Series", audit)
	doc.Sheets = append(doc.Sheets, cardSheets(audit.Cards)...)
	doc.Head = append(doc.Head, cardNotes(audit.Cards)...)
	doc.Notes = warningNotes(audit.Warnings)
	if f == Table && meta.Source == "" {
		doc.Notes = append(reproduceNotes(audit.Findings), doc.Notes...)
	}
	if f == Table {
		doc.Notes = append(causeNotes(audit.Findings), doc.Notes...)
	}
	if len(series) > 0 {
		doc.Bench = func(w io.Writer) error { return WriteBench(w, meta, series) }
	}
	return doc.Render(w, f)
}

// AuditSummary is the outcome of an audit in one line.
func AuditSummary(a *rules.Audit) string {
	if a.Invalid != "" {
		return "the run can't be judged: " + a.Invalid
	}
	confirmed, unconfirmed, waived := tally(a.Findings)
	flagged := 0
	for _, s := range a.Series {
		flagged += len(s.Flagged)
	}
	if len(a.Series) == 0 {
		flagged = len(a.Flagged)
	}
	var found []string
	if confirmed > 0 {
		found = append(found, fmt.Sprintf("%d confirmed", confirmed))
	}
	if unconfirmed > 0 {
		found = append(found, fmt.Sprintf("%d unconfirmed", unconfirmed))
	}
	if waived > 0 {
		found = append(found, fmt.Sprintf("%d waived", waived))
	}
	what := "no findings"
	if len(found) > 0 {
		what = count(len(a.Findings), "finding") + " (" + strings.Join(found, ", ") + ")"
	}
	held := 0
	for _, s := range a.Series {
		held += heldAgainst(a, s)
	}
	if len(a.Series) == 0 {
		for _, f := range a.Findings {
			held += f.Rows
		}
	}
	s := what + " in " + count(a.Cases, "case")
	if len(a.Findings) > 0 {
		s += ", spanning " + count(held, "row")
	}
	if rule := rowRule(a); rule != "" {
		s += fmt.Sprintf("; %s rule: %s anomalous, ", rule, count(flagged, "row"))
		if a.Marginal > 0 {
			s += fmt.Sprintf("%d marginal, ", a.Marginal)
		}
		s += fmt.Sprintf("%d undecided", a.Undecided)
	}
	return s
}

// rowRule is the rule by which an audit judges its rows, empty when by none.
func rowRule(a *rules.Audit) rules.Rule {
	if a.RowRule == "" && a.Method != rules.MethodArticle {
		return rules.Monotonic // as verdicts that were kept before it was said
	}
	return a.RowRule
}

// verdictTitle is the title of a table of [verdictSheet].
func verdictTitle(what string, a *rules.Audit) string {
	if rule := rowRule(a); rule != "" {
		return fmt.Sprintf("%s: rows as the %s rule judges them", what, rule)
	}
	return what
}

// heldAgainst counts the rows of a series that lie in a finding of any rule.
func heldAgainst(a *rules.Audit, s rules.SeriesAudit) int {
	var own []rules.Finding
	rows := 0
	for _, f := range a.Findings {
		if f.Series == s.Key {
			own = append(own, f)
			rows += f.Rows
		}
	}
	if len(s.Rows) == 0 {
		return min(rows, s.Cases)
	}
	n := 0
	for _, r := range s.Rows {
		if slices.ContainsFunc(own, func(f rules.Finding) bool { return f.FromM <= r.M && r.M <= f.ToM }) {
			n++
		}
	}
	return n
}

// disturbedShare is the share of disturbed samples from which it is worth a line.
const disturbedShare = 0.05

// disturbanceNotes say how many samples something is known to have slowed down,
// when they are many.
func disturbanceNotes(series []results.Series) []Note {
	samples, disturbed := 0, 0
	kinds := map[string]int{}
	for _, s := range series {
		for _, r := range s.Rows {
			for _, sample := range r.Samples {
				samples++
				if sample.Disturbance == "" {
					continue
				}
				disturbed++
				for _, kind := range disturbanceKinds(sample.Disturbance) {
					kinds[kind]++
				}
			}
		}
	}
	if samples == 0 || float64(disturbed) <= disturbedShare*float64(samples) {
		return nil
	}
	var words []string
	for kind, n := range kinds {
		words = append(words, fmt.Sprintf("%s %d", kind, n))
	}
	slices.Sort(words)
	return []Note{{fmt.Sprintf("%d of %s (%s) carry a disturbance: %s", disturbed, count(samples, "sample"), formatShare(float64(disturbed)/float64(samples)), strings.Join(words, ", ")), Open}}
}

// disturbanceKinds are the first words of the disturbances that a sample lists:
// "preempted" of "preempted 3 times".
func disturbanceKinds(s string) []string {
	var kinds []string
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' }) {
		if words := strings.FieldsFunc(part, func(r rune) bool { return r == ' ' || r == '=' || r == ':' }); len(words) > 0 {
			kinds = append(kinds, words[0])
		}
	}
	return kinds
}

// tally counts findings by status.
func tally(findings []rules.Finding) (confirmed, unconfirmed, waived int) {
	for _, f := range findings {
		switch f.Status {
		case rules.Confirmed:
			confirmed++
		case rules.Waived:
			waived++
		default:
			unconfirmed++
		}
	}
	return
}

func auditHead(a *rules.Audit) []Note {
	tone := Good
	confirmed, unconfirmed, _ := tally(a.Findings)
	switch {
	case a.Invalid != "" || confirmed > 0:
		tone = Bad
	case unconfirmed > 0 || a.Undecided+a.Marginal > 0:
		tone = Open
	}
	return []Note{{AuditSummary(a), tone}, {auditText(a), Faint}}
}

// auditText is how an audit judged, what is known of drift, and the clock of its times.
func auditText(a *rules.Audit) string {
	words := []string{MethodText(a), DriftText(a)}
	if clock := ClockText(a); clock != "" {
		words = append(words, "times are those "+clock)
	}
	return strings.Join(words, "; ")
}

// ClockText names the clocks at which the times of an audit are: "at 1450 MHz"; empty where
// none is known.
func ClockText(a *rules.Audit) string {
	if a == nil || len(a.Clocks) == 0 {
		return ""
	}
	var words []string
	one := true
	devices := slices.Sorted(maps.Keys(a.Clocks))
	for _, id := range devices {
		one = one && a.Clocks[id] == a.Clocks[devices[0]]
		words = append(words, fmt.Sprintf("%.0f MHz on %s", a.Clocks[id], id))
	}
	if one {
		return fmt.Sprintf("at %.0f MHz", a.Clocks[devices[0]])
	}
	return "at " + strings.Join(words, ", ")
}

// DriftText says in one line what is known of the machine's drift over a run.
func DriftText(a *rules.Audit) string {
	switch {
	case a.Method == rules.MethodArticle:
		return "drift of the sentinels not looked at"
	case a.Drift == 0:
		return "drift of the sentinels unknown"
	case a.Corrected && a.Invalid == "":
		return "drift of the sentinels " + formatShare(a.Drift) + ", corrected for"
	}
	if a.Invalid != "" {
		return "drift of the sentinels " + formatShare(a.Drift) + ", not corrected for"
	}
	return "drift of the sentinels " + formatShare(a.Drift) + ", within their noise and not corrected for"
}

// MethodText says in one line how an audit judged.
func MethodText(a *rules.Audit) string {
	s := fmt.Sprintf("method %s, threshold %v", a.Method, a.Threshold)
	if a.FDR > 0 {
		s += fmt.Sprintf(", false discovery rate %v (Benjamini–Hochberg)", a.FDR)
	}
	return s
}

// FindingSheet is the table of an audit's findings. Commands that would measure
// again are left out of a run that was imported: here is not where it was taken.
func FindingSheet(meta results.Meta, a *rules.Audit) Sheet {
	s := Sheet{Columns: []Column{
		{Name: "status", Key: "status"}, {Name: "rule", Key: "rule"}, {Name: "series", Key: "series", Hoist: true},
		{Name: "m", Key: "interval"}, {Name: "from", Key: "from_m", Align: Right, Wide: true}, {Name: "to", Key: "to_m", Align: Right, Wide: true},
		{Name: "rows", Key: "rows", Align: Right}, {Name: "worst m", Key: "worst_m", Align: Right},
		{Name: "loss", Key: "loss", Align: Right, Interval: true}, {Name: "stake us", Key: "stake_us", Align: Right}, {Name: "p adjusted", Key: "p_adjusted", Align: Right, Wide: true},
		{Name: "cause", Key: "cause"}, {Name: "remedy", Key: "remedy"}, {Name: "gain", Key: "gain", Align: Right, Interval: true},
		{Name: "explanation", Key: "explanation", Wide: true, Flex: true}, {Name: "excluded", Key: "excluded", Wide: true, Flex: true}, {Name: "waiver", Key: "waiver", Wide: true, Flex: true},
		{Name: "id", Key: "id", Wide: true}, {Name: "reproduce", Key: "reproduce", Wide: true},
	}}
	for _, f := range a.Findings {
		// The article's method tests nothing.
		p, command := probability(f.AdjustedP), code(f.Reproduce)
		if a.Method == rules.MethodArticle {
			p = probability(math.NaN())
		}
		if meta.Source != "" {
			command = ""
		}
		row := []any{
			statusCell(f.Status), string(f.Rule), seriesCell(f.Series), intervalText(f.FromM, f.ToM), f.FromM, f.ToM,
			f.Rows, f.WorstM, lossCell(f), stakeCell(f.StakeUS), p, causeCell(f.Cause), nil, nil,
			f.Explanation, excludedCell(f), f.Waiver, f.ID, command,
		}
		if f.Remedy != nil {
			row[12] = remedyText(*f.Remedy)
			row[13] = gainCell(*f.Remedy)
		}
		s.Rows = append(s.Rows, row)
	}
	s.addSustained(a.Findings)
	return s
}

// lossCell is the share of time that a finding loses: nothing where it is faster than
// can be.
func lossCell(f rules.Finding) any {
	if f.Cause == rules.MeasurementError {
		return nil
	}
	return bounds{f.Loss, shareCell}
}

// stakeCell is time at stake: nothing where there is none.
func stakeCell(us float64) any {
	if us <= 0 {
		return nil
	}
	return micros(us)
}

// reproduceNotes are the commands of the first findings that count.
func reproduceNotes(findings []rules.Finding) []Note {
	const most = 5
	var notes []Note
	left := 0
	for _, f := range findings {
		if f.Status == rules.Waived || f.Reproduce == "" {
			continue
		}
		if len(notes) == most {
			left++
			continue
		}
		notes = append(notes, Note{fmt.Sprintf("reproduce %s m%d: %s", f.Rule, f.WorstM, f.Reproduce), Neutral})
	}
	if left > 0 {
		notes = append(notes, Note{fmt.Sprintf("the commands of %s stand in -o wide", plural(left, "more finding", "more findings")), Faint})
	}
	return notes
}

func statusCell(s rules.Status) Cell {
	switch s {
	case rules.Confirmed:
		return word{string(s), Bad}
	case rules.Waived:
		return word{string(s), Faint}
	}
	return word{string(s), Open}
}

// intervalText prints an interval of M.
func intervalText(from, to int) string {
	if from == to {
		return itoa(from)
	}
	return itoa(from) + "–" + itoa(to)
}

// remedyText says in few words what to do instead.
func remedyText(r rules.Remedy) string {
	switch r.Kind {
	case rules.RemedySplit:
		return results.JoinInts(r.Parts, "+")
	case rules.RemedyPad:
		return "pad to " + itoa(r.PadTo)
	case rules.RemedyOther:
		return "use " + r.Kernel
	}
	return string(r.Kind)
}

// gainCell is the measured gain where there is one, else the predicted.
func gainCell(r rules.Remedy) Cell {
	switch {
	case r.Executed:
		return bounds{r.Gain, factorCell}
	case r.PredictedUS > 0 && r.DirectUS > 0:
		return predicted(r.DirectUS / r.PredictedUS)
	}
	return word{}
}

// predicted is a ratio that nobody has measured.
type predicted float64

func (p predicted) Text() string { return "≈" + factor(p).Text() }
func (p predicted) Raw() any     { return finite(float64(p)) }

// verdictSheet has one row a series: how its rows were judged, and the highest MFU
// among them, as it was observed, and relative to the peak at the common clock. The
// elasticity is the median over the rows.
func verdictSheet(a *rules.Audit) Sheet {
	s := Sheet{Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "cases", Key: "cases", Align: Right},
		{Name: "anomalous", Key: "anomalous", Align: Right},
		{Name: "clean", Key: "clean", Align: Right}, {Name: "marginal", Key: "marginal", Align: Right}, {Name: "undecided", Key: "undecided", Align: Right}, {Name: "findings", Key: "findings", Align: Right},
		{Name: "rows affected", Key: "rows_in_findings", Align: Right}, {Name: "best MFU", Key: "best_mfu", Align: Right}, {Name: "observed", Key: "best_mfu_observed", Align: Right}, {Name: "at clock", Key: "best_mfu_at_clock", Align: Right},
		{Name: "bimodal", Key: "bimodal", Align: Right}, {Name: "elasticity", Key: "elasticity", Align: Right, Wide: true},
	}}
	for _, series := range a.Series {
		row := []any{seriesCell(series.Key), series.Cases, len(series.Flagged), nil, nil, nil, 0, heldAgainst(a, series), nil, nil, nil, nil, nil}
		if len(series.Rows) > 0 {
			clean, marginal, undecided := 0, 0, 0
			best := series.Rows[0]
			bimodal := 0
			var betas []float64
			for _, r := range series.Rows {
				switch r.Verdict {
				case rules.Clean:
					clean++
				case rules.Marginal:
					marginal++
				case rules.Undecided:
					undecided++
				}
				if r.MFU.Mid > best.MFU.Mid {
					best = r
				}
				if len(r.Modes) > 0 {
					bimodal++
				}
				betas = append(betas, r.Elasticity)
			}
			row[3], row[4], row[5], row[8] = clean, marginal, undecided, share(best.MFU.Mid)
			if best.MFUAtClock.Mid > 0 {
				row[10] = share(best.MFUAtClock.Mid)
			}
			if best.ObservedUS.Mid > 0 {
				row[9] = share(observedMFU(best))
			}
			row[11] = unlessZero(bimodal)
			if a.Clocks[series.Key.Device] > 0 {
				row[12] = number{median(betas), 2}
			}
		}
		findings := 0
		for _, f := range a.Findings {
			if f.Series == series.Key {
				findings++
			}
		}
		row[6] = findings
		s.Rows = append(s.Rows, row)
	}
	return s
}

// observedMFU is the MFU of a row by its time as it was observed.
func observedMFU(r rules.RowVerdict) float64 {
	if r.ObservedUS.Mid > 0 {
		return r.MFU.Mid * r.US.Mid / r.ObservedUS.Mid
	}
	return r.MFU.Mid
}

func warningNotes(warnings []rules.Warning) []Note {
	var notes []Note
	for _, w := range warnings {
		notes = append(notes, Note{"warning: " + w.Subject + ": " + w.Text, Open})
	}
	return notes
}
