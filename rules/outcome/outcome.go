// Package outcome decides how a command that gates ends: a pure function of what was proven, what each run was asked
// for and contains, and how many rows were decided.
package outcome

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// Code is how a command that gates ends. Its value is the exit code.
type Code int

// The outcomes. If several apply, the lowest nonzero one is the command's: a failed gate outranks failed
// measurements, and these outrank missing verdicts.
const (
	Passed       Code = 0
	GateFailed   Code = 1
	Broken       Code = 3 // a device failed, cases failed, or a file can't be read
	Inconclusive Code = 4 // no verdict, or a verdict on less than was asked for
)

// Ground is one reason for an outcome.
type Ground struct {
	Outcome Code
	Text    string
	Hint    string // what the user can do, or empty
}

// Held is a run that a verdict rests on, with the cases it was asked for and contains.
type Held struct {
	Name string
	// Continue is the command that measures missing cases; empty means a sweep's.
	Continue string
	results.Coverage
}

// Accept lists what a verdict may lack, as the user allowed.
type Accept struct {
	Failed  bool // cases that failed
	Missing bool // cases that were asked for and not measured
	Mixed   bool // samples of one device from several machines
}

// The flags that set the fields of [Accept], as hints name them.
const (
	AcceptFailed  = "accept-failed"
	AcceptMissing = "accept-missing"
	AcceptMixed   = "accept-mixed"
)

// Evidence is everything that decides the outcome of a command: what was proven, what each run was asked for
// and contains, and how many rows were decided. Every command that gates makes one, and only
// [Evidence.Grounds] decides.
type Evidence struct {
	// Name is the judged subject, for messages.
	Name string
	// Proven describes what fails the gate, ProvenHint what the user can do about it.
	Proven     []string
	ProvenHint string
	// Held are the runs that the verdict rests on.
	Held []Held
	// Lost are cases of a baseline that the compared run lacks: see [Losses].
	Lost   Losses
	Accept Accept
	// Broken lists failures other than of cases, Open the reasons for a missing verdict. Grounds sets the
	// outcomes of both.
	Broken, Open []Ground
	// Unjudged describes the subjects without a verdict; Of is their noun, such as "card".
	Unjudged []string
	Of       string
	// Ungated is set if findings don't fail the gate. Failed, missing and unjudgeable cases still do.
	Ungated bool
	// Judged counts the rows that each rule could decide; nil for commands without rules.
	Judged []rules.Judged
	// Cases counts the cases, and Undecided those without a verdict by the rule whose verdicts rows have. If
	// undecided and missing cases exceed the share MostUndecided, there is no verdict.
	Cases, Undecided int
	MostUndecided    float64
	// UndecidedHint says what the user can do about it.
	UndecidedHint string
}

// Losses are cases of run A that run B, which is compared with it, could not measure.
type Losses struct {
	// A and B name the runs.
	A string `json:"-"`
	B string `json:"-"`
	// Cases counts the cases that A measured.
	Cases int `json:"cases"`
	// Failed counts those that failed in B, Missing those that B lacks; the first of each is named.
	Failed       int    `json:"failed,omitempty"`
	FirstFailed  string `json:"first_failed,omitempty"`
	Missing      int    `json:"missing,omitempty"`
	FirstMissing string `json:"first_missing,omitempty"`
}

// Grounds are the reasons for the outcome, the deciding one first; an empty list is a pass. accepted
// describes what would be among them if the user had not accepted it.
func (e Evidence) Grounds() (grounds []Ground, accepted []string) {
	if !e.Ungated {
		for _, text := range e.Proven {
			grounds = append(grounds, Ground{Outcome: GateFailed, Text: text, Hint: e.ProvenHint})
		}
	}
	for _, g := range e.Broken {
		g.Outcome = Broken
		grounds = append(grounds, g)
	}
	for _, g := range e.Open {
		g.Outcome = Inconclusive
		grounds = append(grounds, g)
	}
	add := func(accept bool, flag string, outcome Code, do, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if accept {
			accepted = append(accepted, text+", accepted by --"+flag)
			return
		}
		grounds = append(grounds, Ground{Outcome: outcome, Text: text, Hint: do + "--" + flag + " judges the rest"})
	}
	// Among similar runs only the first is named, with the number of the others.
	each := func(has func(Held) bool, accept bool, flag string, outcome Code, do string, text func(Held) string) {
		first, more := -1, 0
		for i, h := range e.Held {
			if !has(h) {
				continue
			}
			if first < 0 {
				first = i
			} else {
				more++
			}
		}
		if first < 0 {
			return
		}
		told := text(e.Held[first])
		if more > 0 {
			told += fmt.Sprintf("; so in %s", phrase.Count(more, "more run"))
		}
		h := e.Held[first]
		goOn := cmp.Or(h.Continue, "gemmaudit sweep --resume --out "+h.Name)
		add(accept, flag, outcome, strings.NewReplacer("RUN", h.Name, "CONTINUE", goOn).Replace(do), "%s", told)
	}
	each(func(h Held) bool { return h.Failed > 0 }, e.Accept.Failed, AcceptFailed, Broken,
		"`gemmaudit report RUN -o csv` has the reason of each; ", func(h Held) string {
			return fmt.Sprintf("%s: %d of %s failed and %s not judged: %s", h.Name, h.Failed, phrase.Count(h.Asked, "case"),
				isAre(h.Failed),
				h.FirstFailed)
		})
	each(func(h Held) bool { return h.Partly > 0 }, e.Accept.Failed, AcceptFailed, Broken, "", func(h Held) string {
		return fmt.Sprintf("%s: %d of %s failed after some rounds and %s judged from those: %s", h.Name, h.Partly,
			phrase.Count(h.Asked, "case"),
			isAre(h.Partly), h.FirstPartly)
	})
	each(func(h Held) bool { return h.Missing > 0 }, e.Accept.Missing, AcceptMissing, Inconclusive,
		"`CONTINUE` measures them, merge adds a missing shard; ", func(h Held) string {
			return fmt.Sprintf("%s: %d of %s %s missing, such as %s", h.Name, h.Missing, phrase.Count(h.Asked, "case"), isAre(h.Missing),
				h.FirstMissing)
		})
	each(func(h Held) bool { return h.Cut != nil && len(h.Cut.LeftOut) > 0 }, e.Accept.Missing, AcceptMissing, Inconclusive,
		"a run with a longer --deadline measures them; ", func(h Held) string {
			return fmt.Sprintf("%s: the deadline was %v", h.Name, h.Cut)
		})
	each(func(h Held) bool { return len(h.Mixed) > 0 }, e.Accept.Mixed, AcceptMixed, Inconclusive, "measure on one machine; ",
		func(h Held) string {
			return fmt.Sprintf("%s: samples of %d machines are mixed, %v", h.Name, len(h.Mixed[0].Parts), h.Mixed[0])
		})
	if n := len(e.Unjudged); n > 0 {
		add(e.Accept.Missing, AcceptMissing, Inconclusive, "", "%s could not be judged: %s", phrase.Count(n, e.Of), e.Unjudged[0])
	}
	if l := e.Lost; l.Failed > 0 {
		add(e.Accept.Failed, AcceptFailed, Broken, "", "%d of %s that %s measured failed in %s: %s", l.Failed, phrase.Count(l.Cases,
			"case"), l.A,
			l.B, l.FirstFailed)
	}
	if l := e.Lost; l.Missing > 0 {
		add(e.Accept.Missing, AcceptMissing, Inconclusive, "", "%d of %s that %s measured %s not in %s, such as %s",
			l.Missing, phrase.Count(l.Cases, "case"), l.A, isAre(l.Missing), l.B, l.FirstMissing)
	}
	if !e.Ungated && len(grounds) == 0 {
		grounds = append(grounds, e.told()...)
	}
	slices.SortStableFunc(grounds, func(a, b Ground) int { return cmp.Compare(a.Outcome, b.Outcome) })
	return grounds, accepted
}

func (e Evidence) told() []Ground {
	open := func(hint, format string, args ...any) []Ground {
		return []Ground{{Outcome: Inconclusive, Text: fmt.Sprintf(format, args...), Hint: hint}}
	}
	if e.Cases > 0 && float64(e.Undecided) > e.MostUndecided*float64(e.Cases) {
		verb := "are"
		if e.Undecided == 1 {
			verb = "is"
		}
		text := fmt.Sprintf("%d of %s %s undecided", e.Undecided, phrase.Count(e.Cases, "case"), verb)
		if e.MostUndecided > 0 {
			text += fmt.Sprintf(", more than %g %%", 100*e.MostUndecided)
		}
		return open(e.UndecidedHint, "%s", text)
	}
	if e.Judged == nil {
		return nil
	}
	compared := 0
	var idle, few []string
	for _, j := range e.Judged {
		compared += j.Compared()
		switch {
		case j.Compared() > 0:
		case j.Suspectable > 0:
			few = append(few, string(j.Rule))
		case j.Named:
			idle = append(idle, string(j.Rule))
		}
	}
	const give = "measure more sizes, or enable a rule that applies to them"
	switch {
	case len(few) > 0:
		return open("measure each case several times, as `gemmaudit sweep` does; suspected findings are listed",
			"%s: %s had enough samples to judge no row", e.Name, strings.Join(few, ", "))
	case compared == 0:
		return open(give, "%s: no rule can compare any of %s", e.Name, phrase.Count(e.Cases, "case"))
	case len(idle) > 0:
		return open(give, "%s: %s compares no row with another", e.Name, strings.Join(idle, ", "))
	}
	return nil
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
