package gate

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/baseline"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// State is the outcome of a check.
type State string

// The states of a check. Only CheckFailed fails a gate.
const (
	Passed State = "passed"
	Failed State = "failed"
	// Open means undecided; Check.Next says how to decide it.
	Open State = "open"
	// Noted is a finding that the gate tolerates.
	Noted State = "noted"
	// Waived is a finding excused by Check.Excuse.
	Waived State = "waived"
)

// Check is one item that a gate examined: a finding, a case, a series or a table entry.
type Check struct {
	State State
	// Rule is the rule of a finding, or a name defined by the command: "slower-case".
	Rule string
	// Subject is the series or table; Name is the part of it. A finding's Name holds the finding's own Ms,
	// which may shift by a row when it is measured again.
	Subject, Name string
	// Fingerprint is 16 hexadecimal digits, equal for the same check in every run. Compare runs by it.
	Fingerprint string
	// Text is the outcome in one line with its numbers, Next the advice, and Command the command line that
	// reproduces it.
	Text, Next, Command string
	// Excuse is the reason for a waiver, set if State is CheckWaived.
	Excuse string
	// Baseline is the finding's state in the baseline; empty without a baseline.
	Baseline rules.BaselineState
}

// Outcome is a command's exit code with its reason and advice; Text is empty for code 0.
type Outcome struct {
	Code       int
	Text, Hint string
}

// Exit codes of an Outcome.
const (
	outcomeClean        = 0
	outcomeGate         = 1
	outcomeInconclusive = 4
)

// Checks holds all checks of a gate, for a pipeline.
type Checks struct {
	// Command names the gate: "audit". Path is the file examined; Version is the program's version.
	Command, Path, Version string
	List                   []Check
	Outcome                Outcome
	// Warnings concern the data as a whole.
	Warnings []rules.Warning
}

// Write prints the checks in a format of [report.GateFormats].
func (c *Checks) Write(w io.Writer, f report.Format) error {
	switch f {
	case report.JUnit:
		return c.junit(w)
	case report.SARIF:
		return c.sarif(w)
	case report.GitHub:
		return c.github(w)
	}
	return &report.UnsupportedFormat{Format: f, Subject: "the checks of " + c.Command, Reason: "it is no format of gates"}
}

func (c Check) lines() []string {
	var out []string
	for _, l := range []struct{ name, text string }{{"", c.Text}, {"waived: ", c.Excuse}, {"next: ", c.Next}, {"reproduce: ", c.Command}} {
		if l.text != "" {
			out = append(out, l.name+singleLine(l.text))
		}
	}
	return out
}

// singleLine turns untrusted text into one line without terminal control sequences and without characters
// that XML forbids.
func singleLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\uFFFE' || r == '\uFFFF' {
			return -1
		}
		return r
	}, report.Clean(s))
}

const (
	nextUndecided   = "more --rounds, or a quieter machine (`gemmaudit doctor`)"
	nextUnconfirmed = "`gemmaudit audit RUN --confirm` measures it again on the machine of the run"
)

// OfAudit returns the checks of an audit. Each finding is a check. The undecided or marginal rows of a
// series share a check; a series without any is one passed check. Cards slower than their peers are checks
// too. fails reports whether a finding fails the gate. marginal and cards make marginal rows and slow cards
// fail it.
func OfAudit(meta results.Meta, a *rules.Audit, fails func(rules.Finding) bool, marginal, cards bool) []Check {
	var out []Check
	named := map[results.SeriesKey]bool{}
	prints := baseline.Fingerprints(meta, a.Findings)
	for i, f := range a.Findings {
		named[f.Series] = true
		c := Check{State: Open, Rule: string(f.Rule), Subject: baseline.SeriesIdentity(meta, f.Series), Fingerprint: prints[i],
			Baseline: f.Baseline,
			Name:     findingName(f, prints[i]),
			Text: fmt.Sprintf("%s, %s: %s; loses %s at %s (%s)", f.Series.Text(), findingRange(f), f.Claim(),
				report.Estimate(f.Loss, report.Share).Text(), f.Series.Coordinate(f.WorstM), f.Status)}
		if f.Explanation != "" {
			c.Text += "; " + f.Explanation
		}
		if f.Baseline != "" {
			c.Text = string(f.Baseline) + ": " + c.Text
		}
		if meta.Source == "" {
			c.Command = f.Reproduce
		}
		switch {
		case f.Status == rules.Waived:
			c.State, c.Excuse = Waived, f.Waiver
		case fails(f):
			c.State = Failed
		case f.Baseline == rules.BaselineKnown:
			c.State = Noted
			c.Next = "it is in the baseline " + a.Baseline + " and lets the gate pass"
		case f.Status == rules.Confirmed:
			c.State = Noted
			c.Next = "the gate lets it pass; --gate confirmed does not"
		default:
			c.Next = nextUnconfirmed
		}
		out = append(out, c)
	}
	rule := string(report.RowRule(a))
	for _, s := range a.Series {
		identity := baseline.SeriesIdentity(meta, s.Key)
		add := func(state State, what, text, next string) {
			c := Check{State: state, Rule: what, Subject: identity, Name: what, Fingerprint: baseline.Fingerprint(what, identity),
				Text: text,
				Next: next}
			out = append(out, c)
			named[s.Key] = true
		}
		var undecided, near []int
		for _, r := range s.Rows {
			switch r.Verdict {
			case rules.Undecided:
				undecided = append(undecided, r.M)
			case rules.Marginal:
				near = append(near, r.M)
			}
		}
		if n := s.Cases - len(s.Rows); n > 0 {
			add(Open, "unmeasured", fmt.Sprintf("%s: %s failed or has no sample that counts", s.Key.Text(), report.Count(n, "case")),
				"`gemmaudit sweep --resume` tries them again")
		}
		if len(undecided) > 0 {
			add(Open, "undecided", fmt.Sprintf("%s: the %s rule can't judge %s: %s", s.Key.Text(), rule,
				report.Count(len(undecided), "row"), msText(undecided)), nextUndecided)
		}
		if len(near) > 0 {
			state, next := Noted, "more samples would not matter; --fail-marginal has them fail the gate"
			if marginal {
				state, next = Failed, ""
			}
			add(state, "marginal", fmt.Sprintf("%s: %s at the bound of the %s rule: %s", s.Key.Text(),
				report.Plural(len(near), "row lies", "rows lie"), rule, msText(near)), next)
		}
		if !named[s.Key] {
			add(Passed, "clean", fmt.Sprintf("%s: no finding in %s", s.Key.Text(), report.Count(s.Cases, "case")), "")
		}
	}
	if a.Cards != nil {
		for _, id := range a.Cards.Outliers {
			state := Noted
			if cards {
				state = Failed
			}
			out = append(out, Check{State: state, Rule: "slower-card", Subject: "cards", Name: "slower-card " + id,
				Fingerprint: baseline.Fingerprint("slower-card", id),
				Text:        id + " is slower than the other cards of its name",
				Next:        "`gemmaudit audit RUN` compares the cards case by case"})
		}
	}
	return out
}

// findingName names a finding's check by rule and Ms; the fingerprint makes names unique within a suite.
func findingName(f rules.Finding, fingerprint string) string {
	return fmt.Sprintf("%s %s%s, %s", f.Rule, f.Series.Axis(), report.IntervalText(f.FromM, f.ToM), fingerprint)
}

func findingRange(f rules.Finding) string {
	return f.Series.Axis() + report.IntervalText(f.FromM, f.ToM) + " (" + report.Count(f.Rows, "row") + ")"
}

func msText(ms []int) string {
	const most = 8
	text := "m" + results.JoinInts(ms[:min(most, len(ms))], ", m")
	if n := len(ms) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// OfDiff returns the checks of a comparison: slower cases, slower stretches of M and slower series, and
// findings new in B. The undecided cases of a series share a check; a series without any of these is one
// passed check. meta describes B. fails reports whether a change fails the gate.
func OfDiff(meta results.Meta, d *diff.Result, fails func(change.Kind) bool) []Check {
	state := func(c change.Kind) State {
		if fails(c) {
			return Failed
		}
		return Noted
	}
	slower := state(change.Slower)
	var out []Check
	named := map[results.SeriesKey]bool{}
	// id stays the same when a stretch is measured again.
	addAs := func(key results.SeriesKey, state State, rule, id, name, text, next string) {
		identity := baseline.SeriesIdentity(meta, key)
		out = append(out, Check{State: state, Rule: rule, Subject: identity, Name: strings.TrimSpace(rule + " " + name),
			Fingerprint: baseline.Fingerprint(rule, identity, id), Text: key.Text() + text, Next: next})
		named[key] = true
	}
	add := func(key results.SeriesKey, state State, rule, name, text, next string) {
		addAs(key, state, rule, name, name, text, next)
	}
	open, near := map[results.SeriesKey][]int{}, map[results.SeriesKey][]int{}
	for _, c := range d.Cases {
		switch {
		case c.Change == change.Slower:
			add(c.Series, slower, "slower-case", fmt.Sprintf("m%d", c.M),
				fmt.Sprintf(" m%d: %s to %s us, %s of A's time; more than %s is allowed", c.M, report.Estimate(c.A, report.Micros).Text(),
					report.Estimate(c.B, report.Micros).Text(), report.Estimate(c.Ratio, report.Factor).Text(),
					report.FormatShare(d.Threshold)), "")
		case c.Change == change.SuspectedSlower:
			add(c.Series, state(c.Change), "suspected-case", fmt.Sprintf("m%d", c.M),
				fmt.Sprintf(" m%d: %s to %s us, %s of A's time, by %s scatter; more than %s is allowed", c.M,
					report.Estimate(c.A, report.Micros).Text(), report.Estimate(c.B, report.Micros).Text(),
					report.Estimate(c.Ratio, report.Factor).Text(), c.Scatter, report.FormatShare(d.Threshold)), diff.FewSamplesHint)
		case c.Change == change.AtThreshold:
			near[c.Series] = append(near[c.Series], c.M)
		case c.Change == change.Open:
			open[c.Series] = append(open[c.Series], c.M)
		}
	}
	for _, s := range d.Series {
		for i, st := range s.Stretches {
			from, to := baseline.Octave(st.FromM)
			addAs(
				s.Series,
				slower,
				"slower-stretch",
				fmt.Sprintf("from m%d-%d on, %d", from, to, i+1),
				"m"+report.IntervalText(st.FromM, st.ToM),
				fmt.Sprintf(" m%d–%d: %s together take %s of A's time; more than %s is allowed", st.FromM, st.ToM,
					report.Count(st.Cases, "case"), report.Estimate(st.Ratio, report.Factor).Text(),
					report.FormatShare(d.StretchThreshold)),
				"",
			)
		}
		if s.Change == change.Slower {
			add(s.Series, slower, "slower-series", "", fmt.Sprintf(": %s take %s of A's time; more than %s is allowed",
				report.Count(s.Cases, "case"), report.Estimate(s.Ratio, report.Factor).Text(), report.FormatShare(d.SeriesThreshold)), "")
		}
		if s.Change == change.SuspectedSlower {
			add(s.Series, state(s.Change), "suspected-series", "",
				fmt.Sprintf(
					": %s, %s of A's time, have too few samples; the limit is %s",
					report.Count(s.Cases, "case"),
					report.Estimate(s.OverRows, report.Factor).Text(),
					report.FormatShare(d.SeriesThreshold),
				), diff.FewSamplesHint)
		}
		if ms := near[s.Series]; len(ms) > 0 {
			add(s.Series, state(change.AtThreshold), "marginal", "",
				fmt.Sprintf(": %s at the threshold: %s", report.Plural(len(ms), "case lies", "cases lie"), msText(ms)), "")
		}
		if ms := open[s.Series]; len(ms) > 0 {
			add(s.Series, Open, "undecided", "", fmt.Sprintf(": %s undecided: %s", report.Count(len(ms), "case"), msText(ms)),
				d.UndecidedHint())
		}
		if !named[s.Series] {
			add(s.Series, Passed, "same", "", fmt.Sprintf(": none of %s is slower", report.Count(s.Cases, "case")), "")
		}
	}
	var appeared []rules.Finding
	for _, f := range d.Findings {
		if f.Change == change.New && f.B != nil {
			appeared = append(appeared, *f.B)
		}
	}
	for i, print := range baseline.Fingerprints(meta, appeared) {
		f := appeared[i]
		out = append(out, Check{State: Noted, Rule: string(f.Rule), Subject: baseline.SeriesIdentity(meta, f.Series), Fingerprint: print,
			Baseline: rules.BaselineNew,
			Name:     findingName(f, print), Command: f.Reproduce,
			Text: fmt.Sprintf("%s, %s: new in B: %s; loses %s at %s", f.Series.Text(), findingRange(f), f.Claim(),
				report.Estimate(f.Loss, report.Share).Text(), f.Series.Coordinate(f.WorstM)),
			Next: "`gemmaudit audit B --confirm` measures it again; diff's gate looks at times alone"})
	}
	return out
}

// OfTable returns one check per table entry, and the conditions that differ. anyway means that
// those conditions do not fail the gate.
func OfTable(v *report.Verification, anyway bool) []Check {
	var out []Check
	for _, d := range v.Differences {
		state, next := Failed, "measure a table for this machine, or --anyway"
		if anyway {
			state, next = Noted, ""
		}
		out = append(out, Check{State: state, Rule: "condition", Subject: "conditions", Name: "condition " + d.Name,
			Fingerprint: baseline.Fingerprint("condition", v.Validators.Device, d.Name),
			Text:        fmt.Sprintf("%s of the table is %q, here it is %q", d.Name, d.A, d.B), Next: next})
	}
	for _, c := range v.Checks {
		subject := v.Validators.Device + "/" + c.Name
		action := string(c.Action.Kind)
		if c.Action.Kind != table.Direct {
			action = report.ActionText(c.Action, c.M)
		}
		k := Check{State: Open, Rule: "entry", Subject: subject,
			Name: fmt.Sprintf("m%d of %s: %s", c.M, report.IntervalText(c.From, c.To), action), Next: nextUndecided}
		k.Fingerprint = baseline.Fingerprint(k.Rule, subject, k.Name)
		switch c.Verdict {
		case remedy.Pays:
			k.State, k.Next = Passed, ""
		case remedy.Rejected:
			k.State, k.Next = Failed, "`gemmaudit table check TABLE --prune FILE` writes the table without it"
		}
		k.Text = fmt.Sprintf("%s m%d, %s: %s", c.Name, c.M, action, c.Verdict)
		if c.Gain.Mid > 0 {
			k.Text += ", gain " + report.Estimate(c.Gain, report.Factor).Text()
		}
		if c.Promised > 0 {
			k.Text += fmt.Sprintf(", promised %.3f", c.Promised)
		}
		if c.Reason != "" {
			k.Text += "; " + c.Reason
		}
		out = append(out, k)
	}
	return out
}

func (c *Checks) bySubject() [][]Check {
	var out [][]Check
	at := map[string]int{}
	for _, k := range c.List {
		i, ok := at[k.Subject]
		if !ok {
			i = len(out)
			at[k.Subject], out = i, append(out, nil)
		}
		out[i] = append(out[i], k)
	}
	return out
}

func (c *Checks) ruleNames() []string {
	var names []string
	for _, k := range c.List {
		names = append(names, k.Rule)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var ownRules = map[string]string{
	"undecided":        "rows or cases without a confident verdict",
	"marginal":         "rows or cases that lie at the bound, known well",
	"unmeasured":       "cases that failed, or without a sample that counts",
	"clean":            "series without a finding",
	"same":             "series without a slower case or stretch",
	"slower-card":      "a card is slower than the others of its name",
	"slower-case":      "a case is slower in B than in A by more than the threshold",
	"suspected-case":   "a case is slower in B by more than the threshold, assuming the noise of other rows",
	"suspected-series": "a whole series is slower in B, assuming the noise of other rows",
	"slower-stretch":   "neighbouring M are slower together in B than in A",
	"slower-series":    "a whole series is slower in B than in A",
	"condition":        "the table was measured under another condition",
	"entry":            "an entry of the table pays",
	"gate":             "the command's verdict",
}

func ruleMeaning(name string) string {
	if m := rules.Rule(name).Meaning(); m != "" {
		return m
	}
	return ownRules[name]
}
