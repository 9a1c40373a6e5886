package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// CheckState is what became of a check.
type CheckState string

// The states. Only a check that has failed fails a gate.
const (
	CheckPassed CheckState = "passed"
	CheckFailed CheckState = "failed"
	// CheckOpen is that it can't be said, or not be said yet; Check.Next says what to do.
	CheckOpen CheckState = "open"
	// CheckNoted is found and let pass by the gate.
	CheckNoted CheckState = "noted"
	// CheckWaived is found and excused, by Check.Excuse.
	CheckWaived CheckState = "waived"
)

// Check is one thing that a gate has looked at: a finding, a case, a series, an entry of a table.
type Check struct {
	State CheckState
	// Rule is what is asked, one of the rules of findings or a name of the command's own: "slower-case".
	Rule string
	// Subject is what was looked at, a series or a table; Name says which part of it. Neither has a number that differs from
	// run to run, so that who keeps a history of checks finds each of them again.
	Subject, Name string
	// Fingerprint is 16 hexadecimal digits, the same for the same check of every run.
	Fingerprint string
	// Text is the outcome in a line, with its numbers; Next what to do about it, Command the command line that shows it again.
	Text, Next, Command string
	// Excuse is why it is let pass, where State is CheckWaived.
	Excuse string
	// Baseline is what the baseline says of a finding; empty without one.
	Baseline rules.BaselineState
}

// Outcome is how a command ends: its exit code, why, and what to do about it; Text is empty for 0.
type Outcome struct {
	Code       int
	Text, Hint string
}

// The exit codes that an Outcome tells apart.
const (
	outcomeClean        = 0
	outcomeGate         = 1
	outcomeInconclusive = 4
)

// Checks is all that a gate has looked at, for a pipeline.
type Checks struct {
	// Command is the gate's: "audit". Path is the file that was looked at, Version that of the program.
	Command, Path, Version string
	List                   []Check
	Outcome                Outcome
	// Warnings are about the data as a whole.
	Warnings []rules.Warning
}

// Write prints the checks in one of [GateFormats].
func (c *Checks) Write(w io.Writer, f Format) error {
	switch f {
	case JUnit:
		return c.junit(w)
	case SARIF:
		return c.sarif(w)
	case GitHub:
		return c.github(w)
	}
	return &UnsupportedFormat{f, "the checks of " + c.Command, "it is no format of gates"}
}

// lines are text, what to do and the command, each where there is one.
func (c Check) lines() []string {
	var out []string
	for _, l := range []struct{ name, text string }{{"", c.Text}, {"waived: ", c.Excuse}, {"next: ", c.Next}, {"reproduce: ", c.Command}} {
		if l.text != "" {
			out = append(out, l.name+singleLine(l.text))
		}
	}
	return out
}

// singleLine is text of any origin in a line: without what a terminal would obey, and without the characters
// that no XML can hold.
func singleLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\uFFFE' || r == '\uFFFF' {
			return -1
		}
		return r
	}, clean(s))
}

const (
	nextUndecided   = "more --rounds, or a quieter machine (`gemmaudit doctor`)"
	nextUnconfirmed = "`gemmaudit audit RUN --confirm` measures it again on the machine of the run"
)

// AuditChecks are the findings of an audit, the rows of each series that are undecided or marginal as one check a series, each
// series without either as one that has passed, and cards that are slower than the others. fails says which findings fail the gate,
// marginal that marginal rows do, cards that slower cards do.
func AuditChecks(meta results.Meta, a *rules.Audit, fails func(rules.Finding) bool, marginal, cards bool) []Check {
	var out []Check
	named := map[results.SeriesKey]bool{}
	prints := rules.FindingFingerprints(meta, a.Findings)
	for i, f := range a.Findings {
		named[f.Series] = true
		from, to := rules.Octave(f.FromM)
		c := Check{State: CheckOpen, Rule: string(f.Rule), Subject: rules.SeriesIdentity(meta, f.Series), Fingerprint: prints[i], Baseline: f.Baseline,
			Name: fmt.Sprintf("%s from m%d-%d on, %s", f.Rule, from, to, prints[i]),
			Text: fmt.Sprintf("%s, %s: %s loses %s at m%d (%s)", SeriesText(f.Series), findingRange(f), f.Rule.Claim(), bounds{f.Loss, shareCell}.Text(), f.WorstM, f.Status)}
		if f.Explanation != "" {
			c.Text += "; " + f.Explanation
		}
		if meta.Source == "" {
			c.Command = f.Reproduce
		}
		switch {
		case f.Status == rules.Waived:
			c.State, c.Excuse = CheckWaived, f.Waiver
		case fails(f):
			c.State = CheckFailed
		case f.Baseline == rules.BaselineKnown:
			c.State = CheckNoted
			c.Next = "it is in the baseline " + a.Baseline + " and lets the gate pass"
		case f.Status == rules.Confirmed:
			c.State = CheckNoted
			c.Next = "the gate lets it pass; --gate confirmed does not"
		default:
			c.Next = nextUnconfirmed
		}
		out = append(out, c)
	}
	rule := string(rowRule(a))
	for _, s := range a.Series {
		identity := rules.SeriesIdentity(meta, s.Key)
		add := func(state CheckState, what, text, next string) {
			c := Check{State: state, Rule: what, Subject: identity, Name: what, Fingerprint: rules.Fingerprint(what, identity), Text: text, Next: next}
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
			add(CheckOpen, "unmeasured", fmt.Sprintf("%s: %s failed or has no sample that counts", SeriesText(s.Key), count(n, "case")), "`gemmaudit sweep --resume` tries them again")
		}
		if len(undecided) > 0 {
			add(CheckOpen, "undecided", fmt.Sprintf("%s: the %s rule can't judge %s: %s", SeriesText(s.Key), rule, count(len(undecided), "row"), msText(undecided)), nextUndecided)
		}
		if len(near) > 0 {
			state, next := CheckNoted, "more samples would not matter; --fail-marginal has them fail the gate"
			if marginal {
				state, next = CheckFailed, ""
			}
			add(state, "marginal", fmt.Sprintf("%s: %s at the bound of the %s rule: %s", SeriesText(s.Key), plural(len(near), "row lies", "rows lie"), rule, msText(near)), next)
		}
		if !named[s.Key] {
			add(CheckPassed, "clean", fmt.Sprintf("%s: no finding in %s", SeriesText(s.Key), count(s.Cases, "case")), "")
		}
	}
	if a.Cards != nil {
		for _, id := range a.Cards.Outliers {
			state := CheckNoted
			if cards {
				state = CheckFailed
			}
			out = append(out, Check{State: state, Rule: "slower-card", Subject: "cards", Name: "slower-card " + id, Fingerprint: rules.Fingerprint("slower-card", id),
				Text: id + " is slower than the other cards of its name", Next: "`gemmaudit audit RUN` compares the cards case by case"})
		}
	}
	return out
}

// findingRange is the interval of a finding in words.
func findingRange(f rules.Finding) string {
	return "m" + intervalText(f.FromM, f.ToM) + " (" + count(f.Rows, "row") + ")"
}

// msText lists the first Ms.
func msText(ms []int) string {
	const most = 8
	text := "m" + results.JoinInts(ms[:min(most, len(ms))], ", m")
	if n := len(ms) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// DiffChecks are the cases of a comparison that are slower, stretches of M and whole series that are, findings that B has and A
// has not, the undecided cases of each series as one check, and each series without any of these as one that has passed. meta is that
// of B. fails says which changes fail the gate.
func DiffChecks(meta results.Meta, d *rules.DiffResult, fails func(rules.Change) bool) []Check {
	state := func(c rules.Change) CheckState {
		if fails(c) {
			return CheckFailed
		}
		return CheckNoted
	}
	slower := state(rules.Slower)
	var out []Check
	named := map[results.SeriesKey]bool{}
	add := func(key results.SeriesKey, state CheckState, rule, name, text, next string) {
		identity := rules.SeriesIdentity(meta, key)
		out = append(out, Check{State: state, Rule: rule, Subject: identity, Name: strings.TrimSpace(rule + " " + name),
			Fingerprint: rules.Fingerprint(rule, identity, name), Text: SeriesText(key) + text, Next: next})
		named[key] = true
	}
	open, near := map[results.SeriesKey][]int{}, map[results.SeriesKey][]int{}
	for _, c := range d.Cases {
		switch {
		case c.Change == rules.Slower:
			add(c.Series, slower, "slower-case", fmt.Sprintf("m%d", c.M), fmt.Sprintf(" m%d: %s to %s us, %s of A's time; more than %s is allowed",
				c.M, bounds{c.A, microsCell}.Text(), bounds{c.B, microsCell}.Text(), bounds{c.Ratio, factorCell}.Text(), formatShare(d.Threshold)), "")
		case c.Change == rules.SuspectedSlower:
			add(c.Series, state(c.Change), "suspected-case", fmt.Sprintf("m%d", c.M), fmt.Sprintf(" m%d: %s to %s us, %s of A's time, by %s scatter; more than %s is allowed",
				c.M, bounds{c.A, microsCell}.Text(), bounds{c.B, microsCell}.Text(), bounds{c.Ratio, factorCell}.Text(), c.Scatter, formatShare(d.Threshold)), rules.FewSamplesHint)
		case c.Change == rules.AtThreshold:
			near[c.Series] = append(near[c.Series], c.M)
		case c.Change == rules.Open:
			open[c.Series] = append(open[c.Series], c.M)
		}
	}
	for _, s := range d.Series {
		for i, st := range s.Stretches {
			from, to := rules.Octave(st.FromM)
			add(s.Series, slower, "slower-stretch", fmt.Sprintf("from m%d-%d on, %d", from, to, i+1), fmt.Sprintf(" m%d–%d: %s together take %s of A's time; more than %s is allowed",
				st.FromM, st.ToM, count(st.Cases, "case"), bounds{st.Ratio, factorCell}.Text(), formatShare(d.StretchThreshold)), "")
		}
		if s.Change == rules.Slower {
			add(s.Series, slower, "slower-series", "", fmt.Sprintf(": %s take %s of A's time; more than %s is allowed",
				count(s.Cases, "case"), bounds{s.Ratio, factorCell}.Text(), formatShare(d.SeriesThreshold)), "")
		}
		if s.Change == rules.SuspectedSlower {
			add(s.Series, state(s.Change), "suspected-series", "", fmt.Sprintf(": %s take %s of A's time, none by samples enough; more than %s is allowed",
				count(s.Cases, "case"), bounds{s.OverRows, factorCell}.Text(), formatShare(d.SeriesThreshold)), rules.FewSamplesHint)
		}
		if ms := near[s.Series]; len(ms) > 0 {
			add(s.Series, state(rules.AtThreshold), "marginal", "", fmt.Sprintf(": %s at the threshold: %s", plural(len(ms), "case lies", "cases lie"), msText(ms)), "")
		}
		if ms := open[s.Series]; len(ms) > 0 {
			add(s.Series, CheckOpen, "undecided", "", fmt.Sprintf(": whether %s changed can't be said: %s", count(len(ms), "case"), msText(ms)), d.UndecidedHint())
		}
		if !named[s.Series] {
			add(s.Series, CheckPassed, "same", "", fmt.Sprintf(": none of %s is slower", count(s.Cases, "case")), "")
		}
	}
	var appeared []rules.Finding
	for _, f := range d.Findings {
		if f.Change == rules.New && f.B != nil {
			appeared = append(appeared, *f.B)
		}
	}
	for i, print := range rules.FindingFingerprints(meta, appeared) {
		f := appeared[i]
		from, to := rules.Octave(f.FromM)
		out = append(out, Check{State: CheckNoted, Rule: string(f.Rule), Subject: rules.SeriesIdentity(meta, f.Series), Fingerprint: print, Baseline: rules.BaselineNew,
			Name: fmt.Sprintf("%s from m%d-%d on, %s", f.Rule, from, to, print), Command: f.Reproduce,
			Text: fmt.Sprintf("%s, %s: new in B: %s loses %s at m%d", SeriesText(f.Series), findingRange(f), f.Rule.Claim(), bounds{f.Loss, shareCell}.Text(), f.WorstM),
			Next: "`gemmaudit audit B --confirm` measures it again; diff's gate looks at times alone"})
	}
	return out
}

// VerificationChecks are the entries of a table, one check each, and the conditions that differ. anyway says that those let the
// gate pass.
func VerificationChecks(v *Verification, anyway bool) []Check {
	var out []Check
	for _, d := range v.Differences {
		state, next := CheckFailed, "measure a table for this machine, or --anyway"
		if anyway {
			state, next = CheckNoted, ""
		}
		out = append(out, Check{State: state, Rule: "condition", Subject: "conditions", Name: "condition " + d.Name, Fingerprint: rules.Fingerprint("condition", v.Validators.Device, d.Name),
			Text: fmt.Sprintf("%s of the table is %q, here it is %q", d.Name, d.A, d.B), Next: next})
	}
	for _, c := range v.Checks {
		subject := v.Validators.Device + "/" + c.Name
		action := string(c.Action.Kind)
		if c.Action.Kind != table.Direct {
			action = actionText(c.Action, c.M)
		}
		k := Check{State: CheckOpen, Rule: "entry", Subject: subject, Name: fmt.Sprintf("m%d of %s: %s", c.M, intervalText(c.From, c.To), action), Next: nextUndecided}
		k.Fingerprint = rules.Fingerprint(k.Rule, subject, k.Name)
		switch c.Verdict {
		case rules.Pays:
			k.State, k.Next = CheckPassed, ""
		case rules.Rejected:
			k.State, k.Next = CheckFailed, "`gemmaudit table check TABLE --prune FILE` writes the table without it"
		}
		k.Text = fmt.Sprintf("%s m%d, %s: %s", c.Name, c.M, action, c.Verdict)
		if c.Gain.Mid > 0 {
			k.Text += ", gain " + bounds{c.Gain, factorCell}.Text()
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

// bySubject divides checks among their subjects, in the order in which these come first.
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

// ruleNames lists the rules of the checks once, in order.
func (c *Checks) ruleNames() []string {
	var names []string
	for _, k := range c.List {
		names = append(names, k.Rule)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ownRules are the meanings of rules that no rules file has.
var ownRules = map[string]string{
	"undecided":        "rows or cases of which nothing can be said with confidence",
	"marginal":         "rows or cases that lie at the bound, known well",
	"unmeasured":       "cases that failed, or without a sample that counts",
	"clean":            "series without a finding",
	"same":             "series of which no case, stretch or whole is slower",
	"slower-card":      "a card is slower than the others of its name",
	"slower-case":      "a case is slower in B than in A by more than the threshold",
	"suspected-case":   "a case is slower in B than in A by more than the threshold, if its times scatter as those of other rows do",
	"suspected-series": "a whole series is slower in B than in A, if its times scatter as those of other rows do",
	"slower-stretch":   "neighbouring M are slower together in B than in A",
	"slower-series":    "a whole series is slower in B than in A",
	"condition":        "the table was measured under another condition",
	"entry":            "an entry of the table pays",
	"gate":             "the command's verdict",
}

// ruleMeaning is what a rule of checks asks.
func ruleMeaning(name string) string {
	if m := rules.Rule(name).Meaning(); m != "" {
		return m
	}
	return ownRules[name]
}
